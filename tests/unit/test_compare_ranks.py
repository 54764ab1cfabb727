"""Rank test, interval and adjustment against known values, and against counting every arrangement."""

import itertools

import numpy as np
import pytest

from emulator.report.compare.ranks import (
    Interval,
    bootstrap_difference,
    holm,
    least_p,
    least_repetitions,
    rank_test,
    shift,
)


def floats(*values):
    return np.array(values, dtype=float)


def counted_p(a, b):
    """Two-sided p of U over all arrangements of the values."""
    both, n_a = [*a, *b], len(a)

    def u(first):
        rest = [both[i] for i in range(len(both)) if i not in first]
        return sum((both[i] > y) + 0.5 * (both[i] == y) for i in first for y in rest)

    middle = n_a * len(b) / 2
    seen = abs(u(range(n_a)) - middle)
    all_of_them = [abs(u(first) - middle) for first in itertools.combinations(range(len(both)), n_a)]
    return sum(distance >= seen - 1e-9 for distance in all_of_them) / len(all_of_them)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([1, 2, 3, 4], [5, 6, 7, 8]),
        ([1, 2, 6, 4], [5, 3, 7, 8, 9]),
        ([1, 1, 2, 3], [2, 2, 4, 5]),
        ([13000] * 4, [13100] * 4),
        ([1, 4, 4, 9, 2], [4, 4, 1, 3, 11]),
    ],
)
def test_p_is_that_of_all_arrangements(a, b):
    assert rank_test(floats(*a), floats(*b)) == pytest.approx(counted_p(a, b), abs=1e-12)


def test_p_of_one_value_everywhere_is_1():
    assert rank_test(floats(3, 3, 3, 3), floats(3, 3, 3, 3)) == 1.0


def test_p_of_large_samples_with_ties_is_near_the_exact_one():
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 30, 60) * 1.0, rng.integers(0, 30, 60) * 1.0
    assert 0.05 < rank_test(a, b) <= 1
    assert rank_test(a, b + 30) < 1e-9


def test_how_small_p_can_get():
    assert least_p(3, 3) == 0.1
    assert least_p(4, 4) == pytest.approx(2 / 70)
    assert least_p(1, 30) > 0.05
    assert least_p(0, 5) == 1
    assert [least_repetitions(n) for n in (1, 2, 48)] == [4, 5, 7]


def test_shift_is_the_median_of_all_differences():
    estimate, interval = shift(floats(1, 2, 3, 4), floats(5, 6, 7, 8))
    assert estimate == 4
    assert interval == Interval(1, 7)
    assert shift(floats(1, 2, 3), floats(5, 6, 7)) == (4, None)


def test_the_interval_of_ten_and_ten_leaves_out_23_differences_at_each_end():
    """Tables of U for n = 10 and 10, two-sided 0.05: 23."""
    a, b = np.arange(10.0), 0.01 * np.arange(10.0) ** 2
    differences = np.sort(np.subtract.outer(b, a).ravel())
    assert shift(a, b)[1] == Interval(differences[23], differences[-24])


def test_interval_and_test_agree_without_ties():
    rng = np.random.default_rng(7)
    outcomes = set()
    for _ in range(200):
        a, b = rng.normal(0, 1, 6), rng.normal(1, 1, 7)
        _, interval = shift(a, b)
        outside = not interval.low <= 0 <= interval.high
        outcomes.add(outside)
        assert outside == (rank_test(a, b) <= 0.05)
    assert outcomes == {True, False}


def test_interval_of_large_samples():
    rng = np.random.default_rng(3)
    estimate, interval = shift(rng.normal(0, 1, 80), rng.normal(2, 1, 80))
    assert interval.low < 2 < interval.high
    assert interval.high - interval.low == pytest.approx(2 * 1.96 * np.sqrt(np.pi / 3 * 2 / 80), rel=0.25)
    assert interval.low < estimate < interval.high


def test_holm():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_bootstrap_draws_whole_blocks_and_repeats_itself():
    rng = np.random.default_rng(2)
    a = [level + rng.normal(0, 0.01, 50) for level in rng.normal(0, 1, 20)]
    b = [level + rng.normal(0, 0.01, 50) for level in rng.normal(0, 1, 20)]
    mean = lambda samples: float(samples.mean())  # noqa: E731
    interval = bootstrap_difference(a, b, mean, 500, seed=1)
    assert interval == bootstrap_difference(a, b, mean, 500, seed=1)
    assert interval.high - interval.low > 0.6  # 1000 single samples would have given 0.17
    assert interval.low < mean(np.concatenate(b)) - mean(np.concatenate(a)) < interval.high
