"""Limit, interval and count of completions as violins, from the histograms of every completion.

The histograms are exact below 128 and within 1.6 % above. The outline is the histogram itself, in bins as wide as a
pixel or two, not a smoothed guess: what swings between two values shows two bulges. All are equally wide at their
widest. Dot: median; bar: 5 % to 95 %. What has one value is a line. The axis need not begin at 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from emulator.report.histogram import Hist
from emulator.report.measurement import Floats
from emulator.report.plot.data import Data, Nothing, RunData, cumulative, few, labels, middle_percentile
from emulator.report.plot.style import BLACK, log_if_wide, look, new_figure, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS = (
    ("limit", "DQL limit, packets", 1.0),
    ("interval_ns", "between completions, us", 1000.0),
    ("count", "packets a completion", 1.0),
)
_BINS = 90
_HALF_WIDTH = 0.42
_FEWEST_FOR_LOG = 30
_MARGIN = 0.1
_MANY = 8
_LEAST_HALF = 1.6  # of the axis: one violin alone is no wall


def figures(data: Data) -> dict[str, Figure]:
    """One figure with a panel for each of PANELS."""
    common, groups = _groups(data)
    panels = [(name, label, divisor) for name, label, divisor in PANELS if any(name in g for g in groups.values())]
    if not panels:
        raise Nothing("no completion was counted, as without BQL")
    fig = new_figure(1.2 + 2.1 * len(panels))
    axes = np.atleast_1d(fig.subplots(len(panels), 1, sharex=True))
    for ax, (name, label, divisor) in zip(axes, panels, strict=True):
        draw(ax, {key: group.get(name) for key, group in groups.items()}, divisor)
        ax.set_ylabel(label + (" (log)" if ax.get_yscale() == "log" else ""))
    axes[-1].set_xticks(
        range(len(groups)), ["\n".join([*key.split(" "), f"n={_n(group)}"]) for key, group in groups.items()]
    )
    axes[-1].tick_params(axis="x", labelsize=8 if len(groups) < _MANY else 6.5)
    axes[-1].set_xlabel(
        "tx-usecs, and n completions" if not isinstance(data, RunData) else "variant, and n completions"
    )
    title(axes[0], f"every completion{f', {common}' if common else ''}", data.origin)
    return {"violins": fig}


def draw(ax: Axes, hists: Mapping[str, Hist | None], divisor: float) -> None:
    """Violins by name, from left to right."""
    from matplotlib.ticker import MaxNLocator

    there = [h for h in hists.values() if h is not None]
    low, high = min(h.min for h in there) / divisor, max(h.max for h in there) / divisor
    log = log_if_wide(ax, "y", max(low, 1 / divisor if divisor > 1 else 0.5), high, ratio=_FEWEST_FOR_LOG)
    for i, hist in enumerate(hists.values()):
        if hist is not None:
            _violin(ax, i, hist, divisor, log=log)
    if not log:
        margin = max(_MARGIN * (high - low), _MARGIN * high / 2)
        ax.set_ylim(max(0.0, low - 0.5 / divisor - margin), high + 0.5 / divisor + margin)
        if divisor == 1:
            ax.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    middle = (len(hists) - 1) / 2
    half = max(len(hists) / 2 + 0.1, _LEAST_HALF)
    ax.set_xlim(middle - half, middle + half)
    ax.grid(visible=False, axis="x")


def _violin(ax: Axes, x: int, hist: Hist, divisor: float, *, log: bool) -> None:
    if hist.min == hist.max:
        ax.hlines(hist.min / divisor, x - _HALF_WIDTH, x + _HALF_WIDTH, color=BLACK, linewidth=2)
        return
    edges, shares = outline(hist, log=log)
    density = shares / np.diff(np.log(edges) if log else edges)
    half = _HALF_WIDTH * np.concatenate([density, density[-1:]]) / density.max()
    style = look(x)
    ax.fill_betweenx(
        edges / divisor, x - half, x + half, step="post", facecolor=style.fill, edgecolor=BLACK, linewidth=0.7,
        hatch=style.hatch,
    )  # fmt: skip
    p5, p50, p95 = ((middle_percentile(hist, q) or 0.0) / divisor for q in (5, 50, 95))
    ax.vlines(x, p5, p95, color=BLACK, linewidth=2)
    ax.plot([x], [p50], marker="o", color=BLACK, markerfacecolor="white", markersize=5.5, linestyle="none")


def outline(hist: Hist, *, log: bool) -> tuple[Floats, Floats]:
    """(bin edges, share of all values in each bin); whole numbers have a bin each where they are few."""
    at, shares = cumulative(hist)
    low, high = float(at[0]), float(at[-1])
    if log:
        low = max(low, 0.5)
        step = max((high / low) ** (1 / _BINS), 1.02)
        fine = np.arange(low, min(high, max(low, 1 / (step - 1))) + 0.25)  # up to where a bin is wider than 1
        count = int(np.ceil(np.log(max(high / fine[-1], 1.0)) / np.log(step)))
        edges = np.concatenate([fine, fine[-1] * step ** np.arange(1, count + 1)])
    else:
        width = max(1.0, np.ceil((high - low) / _BINS))
        edges = low + width * np.arange(int(np.ceil((high - low) / width)) + 1)
    return edges, np.diff(np.interp(edges, at, shares, left=0.0, right=1.0))


def _groups(data: Data) -> tuple[str, dict[str, dict[str, Hist]]]:
    names = [name for name, _label, _divisor in PANELS]
    if isinstance(data, RunData):
        found = {v.name: {n: h for n in names if (h := v.histograms[n]) is not None} for v in data.run.variants}
        groups = {name: group for name, group in found.items() if group}
        return (next(iter(groups)) if len(groups) == 1 else ""), groups
    (cells,) = few([data], names)
    common, called = labels(cells)
    common = ", ".join(part for part in (common, data.chosen) if part)
    return common, {
        called[key]: {n: h for n in names if (h := cell.histogram(n)) is not None} for key, cell in cells.items()
    }


def _n(group: Mapping[str, Hist]) -> str:
    """Completions; the times between them are one fewer on each queue."""
    return str((group.get("count") or max(group.values(), key=lambda hist: hist.n)).n)
