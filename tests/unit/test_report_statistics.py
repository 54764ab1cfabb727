"""Percentiles of exact samples, and numbers that cannot be true."""

import math

import numpy as np
import pytest

from emulator.report.statistics import distribution_ms, impossible, nearest_rank

MS = 1_000_000


def shares(samples, q):
    """The definition, by counting: smallest sample with at least q percent at or below it."""
    return next(v for v in sorted(samples) if 100 * sum(s <= v for s in samples) >= q * len(samples))


@pytest.mark.parametrize("seed", range(30))
def test_nearest_rank_by_definition(seed):
    rng = np.random.default_rng(seed)
    samples = (rng.lognormal(3, 1 + seed % 3, int(rng.integers(1, 250))) * MS).astype(np.int64)
    d = distribution_ms(samples)
    listed = samples.tolist()
    assert d["p50"] == shares(listed, 50) / MS
    assert d["p99"] == shares(listed, 99) / MS
    assert (d["min"], d["max"], d["n"]) == (min(listed) / MS, max(listed) / MS, len(listed))
    assert d["min"] <= d["p50"] <= d["p99"] <= d["max"]
    assert d["avg"] == pytest.approx(sum(listed) / len(listed) / MS, abs=1e-6)
    assert impossible(d) is None


def test_order_of_samples_does_not_matter():
    samples = np.arange(1, 1001, dtype=np.int64) * MS
    shuffled = np.random.default_rng(1).permutation(samples)
    assert distribution_ms(shuffled) == distribution_ms(samples)


def test_numbers_are_ordered_as_numbers_not_as_text():
    assert distribution_ms(np.array([9 * MS, 10 * MS, 100 * MS]))["p50"] == 10


def test_one_sample_is_all_of_it():
    assert distribution_ms(np.array([2 * MS])) == {
        "min": 2.0, "avg": 2.0, "p50": 2.0, "p99": 2.0, "max": 2.0, "mdev": 0.0, "n": 1,
    }  # fmt: skip


def test_no_samples_is_missing():
    assert distribution_ms(np.array([], dtype=np.int64)) is None


def test_mdev_is_pings():
    samples = [1.0, 2.0, 4.0]
    mean = sum(samples) / 3
    expected = math.sqrt(sum(s * s for s in samples) / 3 - mean * mean)
    assert distribution_ms((np.array(samples) * MS).astype(np.int64))["mdev"] == pytest.approx(expected, abs=1e-6)


def test_ranks():
    assert [nearest_rank(100, q) for q in (1, 50, 99, 100)] == [1, 50, 99, 100]
    assert nearest_rank(1, 50) == 1
    assert nearest_rank(3, 50) == 2
    assert nearest_rank(101, 99) == 100


TRUE = {"min": 1.0, "avg": 22.0, "p50": 22.0, "p99": 26.0, "max": 27.0, "mdev": 1.0, "n": 500}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"p99": 21.0}, "p50"),
        ({"p50": 0.5}, "min"),
        ({"max": 25.0}, "p99"),
        ({"avg": 26.5}, "avg"),
        ({"avg": 10.0}, "avg"),
        ({"p50": 2.0, "p99": 3.0, "avg": 3.6}, "avg"),
    ],
)
def test_numbers_that_no_samples_have_are_named(change, named):
    assert impossible(TRUE) is None
    assert named in impossible(TRUE | change)


def test_a_p99_below_the_average_can_be_true():
    samples = np.array([1] * 999 + [1_000_000], dtype=np.int64) * MS
    d = distribution_ms(samples)
    assert d["p99"] < d["avg"]
    assert impossible(d) is None
    assert impossible(d | {"max": 1000.0})
