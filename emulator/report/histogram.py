"""Reading the kernel's histograms: exact below 128, then 64 buckets for each power of two.

The layout is that of emulator/kernel/hist.py. It is written down here a second time because what reads results must not
load the compiler; tests/unit/test_report_histogram.py holds the two together.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

SUB_BITS = 6
SUB = 1 << SUB_BITS
MAX_BITS = 40
BUCKETS = 2 * SUB + (MAX_BITS - SUB_BITS - 1) * SUB


def _no_counts() -> NDArray[np.int64]:
    return np.zeros(BUCKETS, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Hist:
    """A distribution of whole numbers; `n`, `sum`, `min` and `max` are exact, `min` and `max` are 0 when `n` is."""

    n: int = 0
    sum: int = 0
    min: int = 0
    max: int = 0
    counts: NDArray[np.int64] = field(default_factory=_no_counts, metadata={"dtype": "i8"})

    def percentile(self, q: float) -> int | None:
        """Smallest value at or below which at least `q` percent lie, or None when nothing was counted.

        Above 127 it is the upper bound of its bucket (at most 1.6 % too high), but never beyond `max`.
        """
        total = int(self.counts.sum())
        if total == 0:
            return None
        rank = max(1, math.ceil(q * total / 100))
        return min(bucket_bounds(int(np.searchsorted(np.cumsum(self.counts), rank)))[1], self.max)

    @property
    def mean(self) -> float | None:
        """Exact mean, or None when nothing was counted."""
        return self.sum / self.n if self.n else None


def bucket_bounds(index: int) -> tuple[int, int]:
    """Lowest and highest value that a bucket stands for."""
    if index < 2 * SUB:
        return index, index
    shift = index // SUB - 1
    low = (index - shift * SUB) << shift
    return low, low + (1 << shift) - 1


def histogram_of(values: NDArray[np.int64]) -> Hist:
    """The distribution of whole numbers; a negative one counts as 0."""
    values = np.maximum(values.astype(np.int64), 0)
    if len(values) == 0:
        return Hist()
    counts = np.bincount(bucket_indices(values), minlength=BUCKETS).astype(np.int64)
    return Hist(len(values), int(values.sum()), int(values.min()), int(values.max()), counts)


def bucket_indices(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The bucket of each whole number from 0 up."""
    shifts = np.zeros_like(values)
    for shift in range(1, 64 - SUB_BITS):
        shifts += (values >> shift) >= SUB
    return np.minimum(shifts * SUB + (values >> shifts), BUCKETS - 1)


def merge(hists: list[Hist]) -> Hist:
    """One distribution of all values of several."""
    filled = [h for h in hists if h.n]
    if not filled:
        return Hist()
    counts = np.sum([h.counts for h in filled], axis=0).astype(np.int64)
    lowest, highest = min(h.min for h in filled), max(h.max for h in filled)
    return Hist(sum(h.n for h in filled), sum(h.sum for h in filled), lowest, highest, counts)
