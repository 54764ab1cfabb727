"""The histogram in shared memory against the hdrhistogram package, and its corners."""

import random
from itertools import pairwise

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram

from emulator.kernel.hist import (
    BUCKETS,
    HIST,
    MAX_BITS,
    SUB,
    bucket_bounds,
    hist_add,
    hist_clear,
    hist_index,
    percentile,
)

SHAPES = {
    "uniform": lambda rng: rng.randrange(1, 10**6),
    "latency": lambda rng: int(rng.lognormvariate(13, 1.2)),
    "small": lambda rng: rng.randrange(0, 100),
    "two modes": lambda rng: rng.choice([1000, 22_000_000]) + rng.randrange(500),
}


def counted(values):
    hist = np.zeros(1, HIST)[0]
    for value in values:
        hist_add(hist, value)
    return hist


@pytest.mark.parametrize("shape", SHAPES)
def test_percentiles_agree_with_hdrhistogram(shape):
    rng = random.Random(shape)
    values = [SHAPES[shape](rng) for _ in range(4000)]
    hist = counted(values)
    reference = HdrHistogram(1, 1 << MAX_BITS, 3)
    for value in values:
        reference.record_value(max(value, 1))
    for q in (1, 25, 50, 90, 99, 99.9, 100):
        ours, theirs = percentile(hist["counts"], q), reference.get_value_at_percentile(q)
        assert abs(ours - theirs) <= theirs / SUB + 1, q
    assert (hist["n"], hist["sum"], hist["min"], hist["max"]) == (len(values), sum(values), min(values), max(values))


def test_every_value_lies_within_its_bucket_and_no_bucket_is_wider_than_promised():
    edges = [bucket_bounds(i) for i in range(BUCKETS)]
    assert edges[0] == (0, 0)
    assert all(high + 1 == low for (_, high), (low, _) in pairwise(edges))
    assert edges[-1][1] == (1 << MAX_BITS) - 1
    assert all((high - low) <= low / SUB for low, high in edges)
    for index, (low, high) in enumerate(edges):
        assert hist_index(low) == hist_index(high) == index


def test_what_lies_outside_the_range_is_kept_at_its_ends():
    hist = counted([-5, 1 << MAX_BITS, 1 << 62])
    assert hist["counts"][0] == 1
    assert hist["counts"][-1] == 2
    assert (hist["min"], hist["max"], hist["n"]) == (0, 1 << 62, 3)


def test_merging_is_adding_and_clearing_forgets():
    first, second = counted([1, 10, 100]), counted([1000, 10_000])
    assert percentile(first["counts"] + second["counts"], 50) == 100
    hist_clear(first)
    assert first.tobytes() == np.zeros(1, HIST)[0].tobytes()
    assert percentile(first["counts"], 50) is None
