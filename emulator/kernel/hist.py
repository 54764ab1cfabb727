"""Histograms in shared memory: exact below 128, then 64 buckets for each power of two (an error below 1.6 %).

The layout is HdrHistogram's with six significant bits. One writer each, so counting needs no atomic; merging two is
adding them. ``HIST`` holds the counts, their number, sum, smallest and largest value; values are whole numbers from 0
to 2^40.

Validated against the hdrhistogram package by tests/unit/test_hist.py.
"""

import numpy as np

from emulator.kernel.jit import kernel

SUB_BITS = 6
SUB = 1 << SUB_BITS
MAX_BITS = 40
BUCKETS = 2 * SUB + (MAX_BITS - SUB_BITS - 1) * SUB

HIST = np.dtype(
    [("n", "i8"), ("sum", "i8"), ("min", "i8"), ("max", "i8"), ("_line", "i8", 4), ("counts", "i8", BUCKETS)],
    align=True,
)


@kernel
def hist_index(value):
    """Bucket of a value; what lies beyond the range goes into the last."""
    shift = 0
    while (value >> shift) >= 2 * SUB:
        shift += 1
    return min(shift * SUB + (value >> shift), BUCKETS - 1)


@kernel
def hist_add(hist, value):
    """Count one value; a negative one counts as 0."""
    value = max(value, 0)
    if hist.n == 0 or value < hist.min:
        hist.min = value
    if hist.n == 0 or value > hist.max:
        hist.max = value
    hist.n += 1
    hist.sum += value
    hist.counts[hist_index(value)] += 1


@kernel
def hist_clear(hist):
    """Forget everything."""
    hist.n = 0
    hist.sum = 0
    hist.min = 0
    hist.max = 0
    for i in range(BUCKETS):
        hist.counts[i] = 0


def bucket_bounds(index):
    """Lowest and highest value that a bucket stands for."""
    if index < 2 * SUB:
        return index, index
    shift = index // SUB - 1
    low = (index - shift * SUB) << shift
    return low, low + (1 << shift) - 1


def percentile(counts, q):
    """Value at or below which ``q`` percent lie (the bucket's upper bound), or None for an empty histogram.

    ``counts``: array of shape (BUCKETS,).
    """
    total = int(counts.sum())
    if total == 0:
        return None
    rank = max(1, int(np.ceil(q * total / 100)))
    return bucket_bounds(int(np.searchsorted(np.cumsum(counts), rank)))[1]
