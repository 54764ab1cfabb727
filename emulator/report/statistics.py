"""Distributions of exact samples, and whether a set of such numbers can be true.

Percentiles are nearest-rank: the q-th is the smallest sample at or below which at least q percent of all samples lie,
so it is always a value that was measured. `mdev` is what ping prints: the standard deviation over all samples.
"""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

NS_PER_MS = 1_000_000
DISTRIBUTION_KEYS = ("min", "avg", "p50", "p99", "max", "mdev", "n")
_SLACK = 1e-6  # relative: the numbers may have been rounded on their way


def nearest_rank(n: int, q: float) -> int:
    """Rank, from 1, of the q-th percentile among n samples."""
    return min(n, max(1, math.ceil(q * n / 100)))


def percentile(ordered: NDArray[Any], q: float) -> float | None:
    """Nearest-rank percentile of sorted samples, or None when there are none."""
    return float(ordered[nearest_rank(len(ordered), q) - 1]) if len(ordered) else None


def distribution_ms(samples_ns: NDArray[np.int64]) -> dict[str, float | int] | None:
    """`DISTRIBUTION_KEYS` in ms, of samples in ns; None when there are none."""
    n = len(samples_ns)
    if n == 0:
        return None
    ordered = np.sort(samples_ns)
    mean = float(ordered.mean())
    result: dict[str, float | int] = {
        "min": float(ordered[0]) / NS_PER_MS,
        "avg": round(mean / NS_PER_MS, 6),
        "p50": float(ordered[nearest_rank(n, 50) - 1]) / NS_PER_MS,
        "p99": float(ordered[nearest_rank(n, 99) - 1]) / NS_PER_MS,
        "max": float(ordered[-1]) / NS_PER_MS,
        "mdev": round(float(np.sqrt(np.mean((ordered - mean) ** 2))) / NS_PER_MS, 6),
        "n": n,
    }
    fault = impossible(result)
    if fault:
        raise AssertionError(f"distribution of {n} samples: {fault}")
    return result


def impossible(d: Mapping[str, Any]) -> str | None:
    """Why no samples can have these `DISTRIBUTION_KEYS`, or None when some can.

    Order must be min <= p50 <= p99 <= max, and the average within what n samples with these ranks can have. A p99 below
    the average is possible, but only when the few samples above it are large enough.
    """
    n, avg, eps = d["n"], d["avg"], _SLACK * max(abs(d["max"]), abs(d["min"])) + 1e-6
    steps = ("min", "p50", "p99", "max")
    for low, high in pairwise(steps):
        if d[low] > d[high] + eps:
            return f"{low} {d[low]} > {high} {d[high]}"
    r50, r99 = nearest_rank(n, 50), nearest_rank(n, 99)
    most = (r50 * d["p50"] + (r99 - r50) * d["p99"] + (n - r99) * d["max"]) / n
    least = ((r50 - 1) * d["min"] + (r99 - r50) * d["p50"] + (n - r99 + 1) * d["p99"]) / n
    if avg > most + eps:
        return f"avg {avg} is above {most:.6f}, the most that n {n}, p50, p99 and max allow"
    if avg < least - eps:
        return f"avg {avg} is below {least:.6f}, the least that n {n}, min, p50 and p99 allow"
    return None


def finite(column: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """The samples that are there."""
    return np.empty(0) if column is None else column[np.isfinite(column)]
