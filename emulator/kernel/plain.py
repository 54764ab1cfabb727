"""The plain-Python twin of :mod:`emulator.kernel.intrinsics`, and records that behave under Python as under numba.

A :class:`Record` looks at a structured numpy scalar: reading a field gives a Python int (or a nested Record, or an
:class:`Array`), writing one wraps to the field's width as a store in C does. Launcher, reports and tests use Records to
read the segment; under ``EMULATOR_PLAIN=1`` the mechanisms themselves run on them.

One thread at a time: nothing here is atomic, which is exactly right for a twin that is stepped.
"""

import time

import numpy as np


class Record:
    """View of one structured scalar. ``record.field`` reads and writes; ``record.raw`` is the numpy scalar below."""

    __slots__ = ("raw",)

    def __init__(self, raw):
        object.__setattr__(self, "raw", raw)

    def __getattr__(self, name):
        try:
            return _wrap(self.raw[name])
        except (ValueError, KeyError, IndexError):
            raise AttributeError(name) from None

    def __setattr__(self, name, value):
        self.raw[name] = _fit(value, self.raw.dtype[name])

    def __dir__(self):
        return list(self.raw.dtype.names)


class Array:
    """View of an array of numbers or records with Python semantics for each element."""

    __slots__ = ("raw",)

    def __init__(self, raw):
        self.raw = raw

    def __len__(self):
        return len(self.raw)

    def __getitem__(self, index):
        return _wrap(self.raw[index])

    def __setitem__(self, index, value):
        self.raw[index] = _fit(value, self.raw.dtype)

    def __iter__(self):
        return (self[i] for i in range(len(self.raw)))


def _wrap(value):
    if isinstance(value, np.void):
        return Record(value)
    if isinstance(value, np.ndarray):
        return Array(value)
    return value.item()


def _fit(value, dtype):
    if dtype.kind not in "iu":
        return value
    bits = 8 * dtype.itemsize
    value = int(value) & ((1 << bits) - 1)
    return value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value


def _get(place, key):
    return place[key] if isinstance(place, Array) else getattr(place, key)


def _set(place, key, value):
    if isinstance(place, Array):
        place[key] = value
    else:
        setattr(place, key, value)


def _update(place, key, value):
    old = _get(place, key)
    _set(place, key, value)
    return old


READ_ONCE = smp_load_acquire = _get
WRITE_ONCE = smp_store_release = _set
xchg = _update


def atomic_fetch_add(place, key, value):
    """Add; returns the old value."""
    return _update(place, key, _get(place, key) + value)


atomic_add = atomic_fetch_add


def atomic_fetch_or(place, key, value):
    """Or; returns the old value."""
    return _update(place, key, _get(place, key) | value)


def atomic_fetch_and(place, key, value):
    """And; returns the old value."""
    return _update(place, key, _get(place, key) & value)


def cmpxchg(place, key, old, new):
    """Store ``new`` if the word is ``old``; returns the value found."""
    found = _get(place, key)
    if found == old:
        _set(place, key, new)
    return found


def smp_mb():
    """Nothing to order: one thread at a time."""


smp_rmb = smp_wmb = cpu_relax = smp_mb


def prefetch(place, key):
    """Nothing to fetch."""


def sched_yield():
    """Give the CPU away."""
    time.sleep(0)


def clock_monotonic_ns():
    """CLOCK_MONOTONIC in nanoseconds."""
    return time.monotonic_ns()


def rdtsc():
    """A counter that moves forward: CLOCK_MONOTONIC stands in for the processor's."""
    return time.monotonic_ns()


def mul_u64_u64_shr(value, factor, shift):
    """``(value * factor) >> shift`` without overflow."""
    return (value * factor) >> shift


def futex_wait(place, key, value, timeout_ns):
    """Nobody else can run while the twin waits: returns at once, as for a spurious wake-up."""
    return 0


def futex_wake(place, key, count, timeout_ns):
    """Nobody sleeps in the twin."""
    return 0
