"""The report's reading of histograms is the kernel's writing of them."""

from itertools import pairwise

import numpy as np
import pytest

from emulator.kernel import hist as kernel_hist
from emulator.report.histogram import BUCKETS, Hist, bucket_bounds, merge


def histogram(values):
    counts = np.zeros(BUCKETS, dtype=np.int64)
    for value in values:
        index = next(i for i in range(BUCKETS) if bucket_bounds(i)[0] <= value <= bucket_bounds(i)[1])
        counts[index] += 1
    return Hist(len(values), sum(values), min(values), max(values), counts)


def test_the_layout_is_the_kernels():
    assert BUCKETS == kernel_hist.BUCKETS
    assert [bucket_bounds(i) for i in range(BUCKETS)] == [kernel_hist.bucket_bounds(i) for i in range(BUCKETS)]


def test_every_bucket_begins_where_the_one_before_it_ended():
    bounds = [bucket_bounds(i) for i in range(BUCKETS)]
    assert all(high + 1 == low for (_, high), (low, _) in pairwise(bounds))
    assert bounds[0] == (0, 0)
    assert bounds[-1][1] == 2**kernel_hist.MAX_BITS - 1


@pytest.mark.parametrize("seed", range(5))
def test_percentiles_agree_with_the_kernels_up_to_the_exact_maximum(seed):
    values = np.random.default_rng(seed).integers(0, 10 ** (seed + 1), 64).tolist()
    hist = histogram(values)
    for q in (25, 50, 75, 100):  # quarters of 64 are whole, so no rounding of ranks is involved
        assert hist.percentile(q) == min(kernel_hist.percentile(hist.counts, q), max(values))


def test_percentiles_are_exact_below_128_and_within_a_bucket_above():
    values = [5] * 50 + [100] * 49 + [1000]
    hist = histogram(values)
    assert (hist.percentile(50), hist.percentile(99), hist.percentile(100)) == (5, 100, 1000)
    assert hist.percentile(99.5) == 1000


def test_a_rank_that_is_whole_is_not_rounded_up_by_floating_point():
    values = [1] * 7 + [2] * 93
    assert histogram(values).percentile(7) == 1


def test_nothing_counted_is_missing_not_zero():
    assert Hist().percentile(50) is None
    assert Hist().mean is None


def test_merging_is_adding():
    both = merge([histogram([1, 2, 300]), Hist(), histogram([7])])
    assert (both.n, both.sum, both.min, both.max) == (4, 310, 1, 300)
    assert both.percentile(75) == 7
    assert merge([]).n == 0
