"""Two small samples: by how much does one lie above the other, how sure is that, and may it be chance?

::

    shift       Hodges-Lehmann: the median of all differences b - a; its 95 % interval from the exact distribution of U
    p           Mann-Whitney U, two-sided: exact for small samples, also with ties (permutations); asymptotic else
    holm        p values of a family, so that one false alarm among all of them stays as rare as one alone
    blocks      percentile bootstrap over blocks of consecutive samples, for samples that are not independent

The interval of `shift` is the one that fits the test: without ties it leaves out 0 exactly when p <= 0.05. Below four
and four samples (or three and five) neither can say anything at this level: `least_p`.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ALPHA = 0.05
EXACT_UP_TO = 20_000
"""arrangements of two samples that are counted one by one"""
_EXACT_PAIRS = 2_500
"""size of a sample times that of the other, up to which the distribution of U is counted"""
_Z_975 = 1.959963984540054

Samples = NDArray[np.float64]
Statistic = Callable[[Samples], float]


class Interval(NamedTuple):
    """95 %."""

    low: float
    high: float


def rank_test(a: Samples, b: Samples) -> float:
    """Two-sided p of Mann-Whitney's U; 1 when all values are the same."""
    from scipy.stats import PermutationMethod, mannwhitneyu

    both = np.concatenate([a, b])
    if np.ptp(both) == 0:
        return 1.0
    arrangements = math.comb(len(both), len(a))
    if len(np.unique(both)) == len(both) and len(a) * len(b) <= _EXACT_PAIRS:
        method = "exact"
    elif arrangements <= EXACT_UP_TO:
        method = PermutationMethod(n_resamples=EXACT_UP_TO + 1)  # more than there are: each is counted once
    else:
        method = "asymptotic"
    return float(mannwhitneyu(a, b, alternative="two-sided", method=method).pvalue)


def least_p(n_a: int, n_b: int) -> float:
    """The smallest p that samples of these sizes can have: when all of one lie above all of the other."""
    return min(1.0, 2 / math.comb(n_a + n_b, n_a)) if n_a and n_b else 1.0


def least_repetitions(tests: int) -> int:
    """How many repetitions on each side can show a difference in one of so many tests."""
    n = 1
    while least_p(n, n) * tests > ALPHA:
        n += 1
    return n


def shift(a: Samples, b: Samples) -> tuple[float, Interval | None]:
    """How far b lies above a, and the interval; None when the samples are too small for one."""
    differences = np.sort(np.subtract.outer(b, a).ravel())
    k = _outside(len(a), len(b))
    interval = None if k == 0 else Interval(float(differences[k - 1]), float(differences[-k]))
    return float(np.median(differences)), interval


def _outside(n_a: int, n_b: int) -> int:
    """Which of the ordered differences, counted from each end, begins the interval; 0 when there is none."""
    if n_a * n_b > _EXACT_PAIRS:
        spread = math.sqrt(n_a * n_b * (n_a + n_b + 1) / 12)
        return max(1, math.floor(n_a * n_b / 2 - _Z_975 * spread))
    limit, below, k = ALPHA / 2 * math.comb(n_a + n_b, n_a), 0, 0
    for arrangements in _u_counts(n_a, n_b):
        below += arrangements
        if below > limit:
            return k
        k += 1
    return k


@lru_cache
def _u_counts(n_a: int, n_b: int) -> tuple[int, ...]:
    """How many arrangements of two samples without ties have U = 0, 1, 2 ...: the Gaussian binomial coefficient."""
    counts = [1]
    for i in range(1, n_a + 1):
        counts = _divided(_multiplied(counts, n_b + i), i)
    return tuple(counts)


def _multiplied(counts: list[int], power: int) -> list[int]:
    """Times (1 - x^power)."""
    product = [*counts, *([0] * power)]
    for i, value in enumerate(counts):
        product[i + power] -= value
    return product


def _divided(counts: list[int], power: int) -> list[int]:
    """By (1 - x^power), which leaves nothing over."""
    quotient = counts[: len(counts) - power]
    for i in range(power, len(quotient)):
        quotient[i] += quotient[i - power]
    return quotient


def holm(ps: Sequence[float]) -> list[float]:
    """p values of a family, adjusted step by step from the smallest (Holm 1979)."""
    adjusted = [0.0] * len(ps)
    largest = 0.0
    for rank, i in enumerate(sorted(range(len(ps)), key=lambda i: ps[i])):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[i]))
        adjusted[i] = largest
    return adjusted


def bootstrap_difference(
    a: Sequence[Samples], b: Sequence[Samples], statistic: Statistic, resamples: int, seed: int
) -> Interval:
    """Percentile interval of statistic(b) - statistic(a) when whole blocks of each are drawn again."""
    rng = np.random.default_rng(seed)
    draws = np.array([_drawn(b, statistic, rng) - _drawn(a, statistic, rng) for _ in range(resamples)])
    low, high = np.percentile(draws, [100 * ALPHA / 2, 100 * (1 - ALPHA / 2)])
    return Interval(float(low), float(high))


def _drawn(blocks: Sequence[Samples], statistic: Statistic, rng: np.random.Generator) -> float:
    return statistic(np.concatenate([blocks[i] for i in rng.integers(len(blocks), size=len(blocks))]))
