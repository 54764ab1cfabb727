"""Each atomic on words of 1, 2, 4 and 8 bytes, as a record's field and as an array's element; compiled and plain."""

import numba
import numpy as np
import pytest

from emulator.kernel import intrinsics, plain

WIDTHS = (1, 2, 4, 8)
RECORD = np.dtype([("before", "i8"), *((f"word{width}", f"i{width}") for width in WIDTHS), ("after", "i8")], align=True)
RESULTS = ("load", "acquire", "add", "add_old", "or_old", "and_old", "xchg_old", "cmpxchg_hit", "cmpxchg_miss", "last")


def exercise(twin):
    """A function that puts a word through every atomic and returns what each of them said."""
    read, write, acquire, release = twin.READ_ONCE, twin.WRITE_ONCE, twin.smp_load_acquire, twin.smp_store_release
    add, fetch_add, fetch_or, fetch_and = (
        twin.atomic_add,
        twin.atomic_fetch_add,
        twin.atomic_fetch_or,
        twin.atomic_fetch_and,
    )
    xchg, cmpxchg = twin.xchg, twin.cmpxchg

    def on(key):
        def run(place):
            write(place, key, 5)
            load = read(place, key)
            release(place, key, -7)
            acquired = acquire(place, key)
            add(place, key, 10)
            added = read(place, key)
            add_old = fetch_add(place, key, -1)
            or_old = fetch_or(place, key, 0b1100)
            and_old = fetch_and(place, key, ~0b0100)
            xchg_old = xchg(place, key, 33)
            hit = cmpxchg(place, key, 33, 44)
            miss = cmpxchg(place, key, 33, 55)
            return load, acquired, added, add_old, or_old, and_old, xchg_old, hit, miss, read(place, key)

        return run

    return on


EXPECTED = dict(zip(RESULTS, (5, -7, 3, 3, 2, 0b1110, 0b1010, 33, 44, 44), strict=True))


@pytest.mark.parametrize("width", WIDTHS)
def test_compiled_atomics(width):
    record = np.zeros(1, RECORD)
    words = np.full(3, 99, f"i{width}")
    on_field = numba.njit(exercise(intrinsics)(f"word{width}"))
    on_element = numba.njit(exercise(intrinsics)(1))
    assert dict(zip(RESULTS, on_field(record[0]), strict=True)) == EXPECTED
    assert dict(zip(RESULTS, on_element(words), strict=True)) == EXPECTED
    touched = {name for name in RECORD.names if record[name][0] != 0}
    assert touched == {f"word{width}"}
    assert words.tolist() == [99, 44, 99]


@pytest.mark.parametrize("width", WIDTHS)
def test_plain_atomics(width):
    record = np.zeros(1, RECORD)
    words = np.full(3, 99, f"i{width}")
    assert dict(zip(RESULTS, exercise(plain)(f"word{width}")(plain.Record(record[0])), strict=True)) == EXPECTED
    assert dict(zip(RESULTS, exercise(plain)(1)(plain.Array(words)), strict=True)) == EXPECTED
    touched = {name for name in RECORD.names if record[name][0] != 0}
    assert touched == {f"word{width}"}
    assert words.tolist() == [99, 44, 99]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 2**31, 255, -129, 1 << 15])
def test_a_store_keeps_the_low_bits_in_both(width, value):
    record = np.zeros(2, RECORD)
    bits = 8 * width
    kept = ((value & ((1 << bits) - 1)) ^ (1 << (bits - 1))) - (1 << (bits - 1))
    plain.WRITE_ONCE(plain.Record(record[0]), f"word{width}", value)
    setattr(plain.Record(record[1]), f"word{width}", value)
    assert record[f"word{width}"].tolist() == [kept, kept]
    if width == 8 or value == 2**31:
        store = numba.njit(_store(f"word{width}"))
        store(record[0], value)
        assert record[f"word{width}"].tolist() == [kept, kept]


def _store(field):
    write = intrinsics.WRITE_ONCE

    def store(record, value):
        write(record, field, value)

    return store


def test_what_is_not_a_word_is_refused():
    read = intrinsics.READ_ONCE
    record = np.zeros(1, RECORD)[0]
    with pytest.raises(numba.TypingError, match="literal string"):
        numba.njit(lambda place, name: read(place, name))(record, 3)
    with pytest.raises(numba.TypingError, match="acts on an integer"):
        numba.njit(lambda place: read(place, 0))(np.zeros(2))
    with pytest.raises(numba.TypingError, match="element of an array is an integer"):
        numba.njit(lambda place: read(place, "word8"))(np.zeros(2, "i8"))


def test_fences_clock_and_wide_product_agree():
    def run(value, factor, shift):
        intrinsics.smp_mb()
        intrinsics.smp_rmb()
        intrinsics.smp_wmb()
        intrinsics.cpu_relax()
        first = intrinsics.clock_monotonic_ns()
        return intrinsics.mul_u64_u64_shr(value, factor, shift), intrinsics.clock_monotonic_ns() >= first

    compiled = numba.njit(run)
    for numbers in [(10**15, 10**9, 32), (1, 1, 0), (2**62, 2**40, 50)]:
        wide, forward = compiled(*numbers)
        assert forward
        assert wide == plain.mul_u64_u64_shr(*numbers)


def test_bits_and_returned_sums():
    from emulator.kernel import memory

    words = np.zeros(2, "i8")
    assert not memory.test_bit(words, 1, 62)
    memory.set_bit(words, 1, 62)
    memory.set_bit(words, 1, 0)
    assert words.tolist() == [0, 2**62 + 1]
    assert memory.test_bit(words, 1, 62)
    assert memory.test_and_set_bit(words, 1, 62)
    assert memory.test_and_clear_bit(words, 1, 62)
    assert not memory.test_and_clear_bit(words, 1, 62)
    memory.clear_bit(words, 1, 0)
    assert memory.atomic_add_return(words, 1, 7) == 7
    assert words.tolist() == [0, 7]
