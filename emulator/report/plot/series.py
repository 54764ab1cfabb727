"""A run over time, as a poller of sysfs saw it: limit, in flight, ring and backlog, and when the queue was stopped.

The two lowest rows mark the stops. A tick stands for the time between two samples; its height is how many times the
queue was stopped in it, by a full ring (DRV_XOFF) or by BQL (STACK_XOFF), against the most in any. A dot below: the
sample itself found the queue stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from emulator.report.measurement import Floats
from emulator.report.plot.data import Nothing, RunData
from emulator.report.plot.style import BLACK, GREY, new_figure, title
from emulator.report.rundir import safe_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS = (
    ("limit", "DQL limit,\npackets"),
    ("inflight", "in flight,\npackets"),
    ("ring", "ring,\nentries"),
    ("backlog", "qdisc backlog,\npackets"),
)
STOPS = (("drv_xoff", "DRV_XOFF", 1), ("stack_xoff", "STACK_XOFF", 2))
_OF_BQL = ("limit", "inflight")
_ROW, _TALLEST = 1.6, 0.62


def figures(data: RunData) -> dict[str, Figure]:
    """A figure for each variant that was sampled."""
    made: dict[str, Figure] = {}
    for variant in data.run.variants:
        t_s = variant.series.get("t_s")
        if t_s is None or len(t_s) < 2:
            continue
        bql = bool(variant.summary["bql"]) and variant.summary["bql"]["variant"] != "off"
        panels = [(name, label) for name, label in PANELS if name in variant.series and (bql or name not in _OF_BQL)]
        fig = new_figure(1.5 + 1.15 * len(panels) + 0.7)
        axes = fig.subplots(len(panels) + 1, 1, sharex=True, height_ratios=[*([2.0] * len(panels)), 1.9])
        for ax, (name, label) in zip(axes, panels, strict=False):
            draw(ax, t_s, variant.series[name])
            ax.set_ylabel(label)
        draw_stops(axes[-1], variant.series)
        axes[-1].set_xlabel(
            "time since the measured window began, s\n(tick: stops between two samples; dot: stopped when sampled)"
        )
        fig.align_ylabels(axes)
        without = "" if bql else ", no BQL"
        period_ms = float(np.median(np.diff(t_s))) * 1000
        title(
            axes[0],
            f"{variant.name} over time{without}",
            f"{data.source}, n = {len(t_s)} samples, one in {period_ms:.3g} ms",
        )
        made[_free(f"series-{safe_name(variant.name)}", made)] = fig
    if not made:
        raise Nothing("no variant was sampled")
    return made


def draw(ax: Axes, t_s: Floats, values: Floats) -> None:
    """One quantity: a step from each sample to the next."""
    ax.step(t_s, values, where="post", color=BLACK, linewidth=0.8)
    most = float(np.nanmax(values, initial=0))
    ax.set_ylim(0, 1.1 * most if most > 0 else 1)
    ax.margins(x=0.01)


def draw_stops(ax: Axes, series: Mapping[str, Floats]) -> None:
    """Two rows of ticks; says so where an earlier version did not count stops."""
    t_s = series["t_s"]
    ax.set_yticks([_ROW * (1 - i) for i in range(len(STOPS))], [name for _c, name, _bit in STOPS])
    ax.set_ylim(-0.35, 2 * _ROW - 0.2)
    ax.set_ylabel("stops")
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=False, axis="y")
    for i, (column, _name, bit) in enumerate(STOPS):
        base = _ROW * (1 - i)
        ax.axhline(base, color=GREY, linewidth=0.5)
        if column not in series:
            ax.text(0.5, base + 0.1, "not recorded", transform=ax.get_yaxis_transform(), fontsize=7.5, color=GREY)
            continue
        stops = np.diff(series[column])
        most = float(np.nanmax(stops, initial=0))
        seen = np.nan_to_num(stops) > 0
        middle = (t_s[1:] + t_s[:-1]) / 2
        ax.vlines(middle[seen], base, base + _TALLEST * stops[seen] / max(most, 1), color=BLACK, linewidth=0.8)
        stopped = (np.nan_to_num(series.get("state", np.zeros(len(t_s)))).astype(int) & bit) != 0
        ax.plot(t_s[stopped], np.full(int(stopped.sum()), base - 0.14), ".", color=BLACK, markersize=1.6)
        said = (
            f"{np.nansum(stops):.0f} stops, at most {most:.0f} between samples; {stopped.mean():.0%} of samples stopped"
        )
        ax.text(1.0, base + _TALLEST + 0.04, said, ha="right", va="bottom",
                transform=ax.get_yaxis_transform(), fontsize=7, color=GREY)  # fmt: skip


def _free(name: str, taken: Mapping[str, object]) -> str:
    found, again = name, 2
    while found in taken:
        found, again = f"{name}-{again}", again + 1
    return found
