"""RTT as a cumulative distribution: of the pings of each variant of a run, or of cells of a sweep.

A run's pings are drawn one by one; a sweep's come from its histograms (exact to 1.6 %).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.report.figures import sig
from emulator.report.measurement import Floats
from emulator.report.plot.data import Data, Nothing, RunData, chosen, cumulative
from emulator.report.plot.style import GREY, Look, legend_below, log_if_wide, look, new_figure, title
from emulator.report.statistics import NS_PER_MS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Curve = tuple[Floats, Floats, int]
"""(RTTs in ms, share of pings that took no longer, n)"""

_OF_RESULT: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (6, 2, 1, 2)))
_PER_ROW = 2


def figures(results: Sequence[Data]) -> dict[str, Figure]:
    """One figure with the curves of all results; of several results the same cell has the same marker."""
    found = [_curves(data) for data in results]
    count = sum(len(curves) for _common, curves in found)
    if not count:
        raise Nothing("no ping was answered")
    fig = new_figure(3.5 + 0.19 * -(-count // _PER_ROW))
    ax = fig.add_subplot()
    labels = list(dict.fromkeys(label for _common, curves in found for label in curves))
    for i, (prefix, (_common, curves)) in enumerate(zip(prefixes(len(results)), found, strict=True)):
        for label, curve in curves.items():
            style = look(labels.index(label))
            if len(results) > 1:
                style = style._replace(line=_OF_RESULT[i % len(_OF_RESULT)])
            draw(ax, f"{prefix}{label}", curve, style, hollow=i % 2 == 1, shift=labels.index(label) + 3 * i)
    dress(ax, [curve for _common, curves in found for curve in curves.values()])
    legend_below(fig, ax, min(count, _PER_ROW))
    commons = {common for common, _curves in found}
    common = f", {commons.pop()}" if len(commons) == 1 and "" not in commons else ""
    title(ax, f"RTT{common}", "; ".join(_sources(results)))
    return {"cdf": fig}


def draw(ax: Axes, label: str, curve: Curve, style: Look, *, hollow: bool = False, shift: int = 0) -> None:
    """One curve; `shift` moves its markers along it, so that those of neighbours do not cover each other."""
    rtts, shares, n = curve
    median = rtts[min(len(rtts) - 1, int(np.searchsorted(shares, 0.5)))]
    ax.plot(
        rtts,
        shares,
        color=style.colour,
        linestyle=style.line,
        marker=style.marker,
        markerfacecolor="white" if hollow else style.colour,
        markevery=_few(shares, shift),
        label=f"{label}: p50 {sig(float(median))} ms, n={n}",
    )


def dress(ax: Axes, curves: Sequence[Curve]) -> None:
    """Axes for these curves."""
    ax.axhline(0.99, color=GREY, linewidth=0.7)
    ax.annotate("p99", (1, 0.99), xycoords=("axes fraction", "data"), xytext=(2, 0), textcoords="offset points",
                fontsize=7.5, color=GREY, va="center")  # fmt: skip
    low = min((float(rtts[rtts > 0].min()) for rtts, _s, _n in curves if (rtts > 0).any()), default=0.0)
    high = max(float(rtts.max()) for rtts, _s, _n in curves)
    wide = log_if_wide(ax, "x", low, high, ratio=15)
    if not wide:
        ax.set_xlim(left=0)
    ax.set_ylim(0, 1.02)
    ax.set_xlabel(f"RTT, ms{' (log scale)' if wide else ''}")
    ax.set_ylabel("share of pings that took no longer")


def prefixes(n: int) -> list[str]:
    """What tells the curves of several results apart."""
    return [""] if n == 1 else [f"{chr(ord('A') + i)} " for i in range(n)]


def _sources(results: Sequence[Data]) -> list[str]:
    if len(results) == 1:
        return [results[0].source]
    return [
        f"{prefix.strip()} = {data.path.name}" for data, prefix in zip(results, prefixes(len(results)), strict=True)
    ]


def _few(shares: Floats, i: int) -> list[int]:
    """Where markers go: some along the curve, elsewhere on each."""
    at = (np.arange(6) + 0.25 + 0.11 * (i % 7)) / 6.5
    return sorted({min(len(shares) - 1, int(np.searchsorted(shares, share))) for share in at})


def _curves(data: Data) -> tuple[str, dict[str, Curve]]:
    if isinstance(data, RunData):
        return "", {v.name: _of_pings(v.rtts_ns / NS_PER_MS) for v in data.run.variants if len(v.rtts_ns)}
    common, cells = chosen(data, ["rtt_ns"])
    hists = {label: cell.histogram("rtt_ns") for label, cell in cells.items()}
    made = {}
    for label, hist in hists.items():
        if hist is not None and hist.n:
            edges, shares = cumulative(hist)
            made[label] = (np.maximum(edges, 0) / NS_PER_MS, shares, hist.n)
    return common, made


def _of_pings(rtts_ms: Floats) -> Curve:
    ordered = np.sort(rtts_ms)
    n = len(ordered)
    return np.repeat(ordered, 2), np.repeat(np.arange(n + 1) / n, 2)[1:-1], n
