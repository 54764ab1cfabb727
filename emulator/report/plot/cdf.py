"""RTT as a cumulative distribution: of the pings of each variant of a run, or of cells of a sweep.

A run's pings are drawn one by one; a sweep's come from its histograms (exact below 128 ns, and within 1.6 % above). The
medians in the legend are those of `sweep.csv`. Stock is the thick line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from emulator.report.cells import STOCK, Cell
from emulator.report.figures import sig
from emulator.report.measurement import Floats
from emulator.report.plot.data import Data, Nothing, RunData, SweepData, cumulative, few, labels, middle_percentile
from emulator.report.plot.style import GREY, Look, legend_below, log_if_wide, look, new_figure, title
from emulator.report.reference import Key
from emulator.report.statistics import NS_PER_MS, percentile

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Curve(NamedTuple):
    """A distribution."""

    rtts_ms: Floats
    shares: Floats
    """of pings that took no longer"""
    n: int
    p50_ms: float
    is_stock: bool


_OF_RESULT: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (6, 2, 1, 2)))
_PER_ROW = 2
_STOCK_WIDTH = 2.8


def figures(results: Sequence[Data]) -> dict[str, Figure]:
    """One figure with the curves of all results; of several results the same cell has the same marker."""
    common, found = _curves(results)
    count = sum(map(len, found))
    if not count:
        raise Nothing("no ping was answered")
    fig = new_figure(3.5 + 0.19 * -(-count // _PER_ROW) + 0.12 * (len(results) - 1))
    ax = fig.add_subplot()
    names = list(dict.fromkeys(label for curves in found for label in curves))
    for i, (prefix, curves) in enumerate(zip(prefixes(len(results)), found, strict=True)):
        for label, curve in curves.items():
            style = look(names.index(label))
            if len(results) > 1:
                style = style._replace(line=_OF_RESULT[i % len(_OF_RESULT)])
            if curve.is_stock:
                style = style._replace(width=_STOCK_WIDTH)
            draw(ax, f"{prefix}{label}", curve, style, hollow=i % 2 == 1, shift=names.index(label) + 3 * i)
    dress(ax, [curve for curves in found for curve in curves.values()])
    legend_below(fig, ax, min(count, _PER_ROW))
    chosen = {data.chosen for data in results if isinstance(data, SweepData)}
    said = ", ".join(part for part in ("RTT", common, *(chosen if len(chosen) == 1 else ())) if part)
    title(ax, said, "\n".join(_sources(results, found)))
    return {"cdf": fig}


def draw(ax: Axes, label: str, curve: Curve, style: Look, *, hollow: bool = False, shift: int = 0) -> None:
    """One curve; `shift` moves its markers along it, so that those of neighbours do not cover each other."""
    ax.plot(
        curve.rtts_ms,
        curve.shares,
        color=style.colour,
        linestyle=style.line,
        linewidth=style.width,
        marker=style.marker,
        markerfacecolor="white" if hollow else style.colour,
        markevery=_few(curve.shares, shift),
        label=f"{label}: p50 {sig(curve.p50_ms)} ms, n={curve.n}",
    )


def dress(ax: Axes, curves: Sequence[Curve]) -> None:
    """Axes for these curves."""
    ax.axhline(0.99, color=GREY, linewidth=0.7)
    ax.annotate("p99", (1, 0.99), xycoords=("axes fraction", "data"), xytext=(2, 0), textcoords="offset points",
                fontsize=7.5, color=GREY, va="center")  # fmt: skip
    all_rtts = [curve.rtts_ms for curve in curves]
    low = min((float(rtts[rtts > 0].min()) for rtts in all_rtts if (rtts > 0).any()), default=0.0)
    high = max(float(rtts.max()) for rtts in all_rtts)
    wide = log_if_wide(ax, "x", low, high, ratio=15)
    if not wide:
        ax.set_xlim(left=0)
    ax.set_ylim(0, 1.02)
    ax.set_xlabel(f"RTT, ms{' (log scale)' if wide else ''}")
    ax.set_ylabel("share of pings that took no longer")


def prefixes(n: int) -> list[str]:
    """What tells the curves of several results apart."""
    return [""] if n == 1 else [f"{chr(ord('A') + i)} " for i in range(n)]


def _sources(results: Sequence[Data], found: Sequence[Mapping[str, Curve]]) -> list[str]:
    said = []
    for data, prefix, curves in zip(results, prefixes(len(results)), found, strict=True):
        several = f"{prefix.strip()} = " if prefix else ""
        chosen = f", {data.chosen}" if several and isinstance(data, SweepData) and data.chosen else ""
        left_out = isinstance(data, SweepData) and len(curves) < len(data.cells)
        of = f", {len(curves)} of {len(data.cells)} cells" if left_out and isinstance(data, SweepData) else ""
        said.append(f"{several}{data.source}{chosen}{of}")
    return said


def _few(shares: Floats, i: int) -> list[int]:
    """Where markers go: some along the curve, elsewhere on each."""
    at = (np.arange(6) + 0.25 + 0.11 * (i % 7)) / 6.5
    return sorted({min(len(shares) - 1, int(np.searchsorted(shares, share))) for share in at})


def _curves(results: Sequence[Data]) -> tuple[str, list[dict[str, Curve]]]:
    """(what all cells have in common, the curves of each result by what tells them apart)."""
    chosen = iter(few([data for data in results if isinstance(data, SweepData)], ["rtt_ns"]))
    cells = [next(chosen) if isinstance(data, SweepData) else {} for data in results]
    common, names = labels(key for one in cells for key in one) if any(cells) else ("", {})
    found = [
        _of_run(data) if isinstance(data, RunData) else _of_sweep(one, names)
        for data, one in zip(results, cells, strict=True)
    ]
    return (common if all(cells) else ""), found


def _of_sweep(cells: Mapping[Key, Cell], names: Mapping[Key, str]) -> dict[str, Curve]:
    made = {}
    for key, cell in cells.items():
        hist = cell.histogram("rtt_ns")
        if hist is not None and hist.n:
            edges, shares = cumulative(hist)
            p50_ms = cell.values["rtt_p50_ms"]
            if p50_ms is None:
                p50_ms = (middle_percentile(hist, 50) or 0.0) / NS_PER_MS
            made[names[key]] = Curve(np.maximum(edges, 0) / NS_PER_MS, shares, hist.n, p50_ms, key.variant == STOCK)
    return made


def _of_run(data: RunData) -> dict[str, Curve]:
    return {v.name: _of_pings(v.rtts_ns / NS_PER_MS, v.summary["bql"]) for v in data.run.variants if len(v.rtts_ns)}


def _of_pings(rtts_ms: Floats, bql: Mapping[str, Any] | None) -> Curve:
    ordered = np.sort(rtts_ms)
    n = len(ordered)
    steps = np.repeat(np.arange(n + 1) / n, 2)[1:-1]
    is_stock = bql is not None and bql["variant"] == "off"
    return Curve(np.repeat(ordered, 2), steps, n, percentile(ordered, 50) or 0.0, is_stock)
