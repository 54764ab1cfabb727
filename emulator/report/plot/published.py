"""Published figures over a result: the result's lines, and a hollow mark where a figure was published.

A mark in its line: they agree. Below, the error of each cell, and the 10 % that most should stay within.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from emulator.report.compare.metrics import Metric
from emulator.report.plot import lines
from emulator.report.plot.data import Grid, Nothing, SweepData, grids
from emulator.report.plot.style import BLACK, GREY, log_if_wide, look, named, new_figure, title
from emulator.report.reference import CellTable, Key
from emulator.report.reference import Figure as Published

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKED_PCT = 10


def figures(data: SweepData, reference: CellTable, metrics: Sequence[Metric]) -> dict[str, Figure]:
    """A figure for each metric that both have, and each BQL variant that was published."""
    made = {}
    for metric in metrics:
        found = [grid for grid in grids(data, metric) if _of(grid, reference)]
        for grid in found:
            fig = new_figure(6.4)
            upper, lower = fig.subplots(2, 1, sharex=True, height_ratios=[2.4, 1.0])
            lines.draw(upper, grid, data)
            draw(upper, grid, reference)
            upper.set_xlabel("")
            upper.legend(title="rules", loc="center left", bbox_to_anchor=(1.0, 0.3), handlelength=3.6)
            draw_errors(lower, grid, reference)
            source = f"{data.source}; hollow marks: {reference.path.name}, n = {len(_of(grid, reference))} figures"
            title(upper, named(f"{metric.name}, published over measured", grid.variant, data.chosen), source)
            made[f"reference-{f'{grid.variant}-' if len(found) > 1 else ''}{metric.column}"] = fig
    if not made:
        raise Nothing(f"{reference.path} has no figure for any cell of the result")
    return made


def draw(ax: Axes, grid: Grid, reference: CellTable) -> None:
    """A hollow mark for each published figure of the grid."""
    x = dict(zip(grid.columns, lines.positions(grid), strict=True))
    published = _of(grid, reference)
    for i, nrules in enumerate(grid.rules):
        style = look(i)
        mine = {key: figure for key, figure in published.items() if key.nrules == nrules}
        ax.plot(
            [x[key.variant, key.tx_usecs] for key in mine],
            [figure.value / grid.metric.divisor for figure in mine.values()],
            marker=style.marker,
            markersize=9,
            markerfacecolor="none",
            markeredgecolor=style.colour,
            markeredgewidth=1.1,
            linestyle="none",
        )
    ax.plot([], [], "o", markersize=9, markerfacecolor="none", markeredgecolor=BLACK, label="published")
    shown = [*grid.values.values(), *(figure.value / grid.metric.divisor for figure in published.values())]
    log_if_wide(ax, "y", min(shown), max(shown))


def draw_errors(ax: Axes, grid: Grid, reference: CellTable) -> None:
    """The error of each cell, in % of what was published."""
    x = dict(zip(grid.columns, lines.positions(grid), strict=True))
    ax.axhspan(-MARKED_PCT, MARKED_PCT, color="#ececec", linewidth=0, label=f"within {MARKED_PCT} %")
    ax.axhline(0, color=GREY, linewidth=0.8)
    step = 0.5 / max(1, len(grid.rules))
    for i, nrules in enumerate(grid.rules):
        style = look(i)
        mine = {
            key: f for key, f in _of(grid, reference).items() if key.nrules == nrules and key in grid.values and f.value
        }
        ax.plot(
            [x[key.variant, key.tx_usecs] + (i - (len(grid.rules) - 1) / 2) * step for key in mine],
            [100 * (grid.values[key] * grid.metric.divisor / figure.value - 1) for key, figure in mine.items()],
            marker=style.marker,
            color=style.colour,
            linestyle="none",
        )
    ax.set_xticks(lines.positions(grid), grid.column_labels)
    ax.set_xlabel("tx-usecs, us (evenly spaced)" + (f"  |  {', '.join(grid.beside)}" if grid.beside else ""))
    ax.set_ylabel("error, %")
    ax.grid(visible=False, axis="x")
    for tick in lines.positions(grid)[:-1]:
        ax.axvline(tick + 0.5, color="#eeeeee", linewidth=0.6)
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def _of(grid: Grid, reference: CellTable) -> Mapping[Key, Published]:
    """What was published for the places of a grid."""
    columns = set(grid.columns)
    return {
        key: row[grid.metric.column]
        for key, row in reference.cells.items()
        if grid.metric.column in row and (key.variant, key.tx_usecs) in columns and key.nrules in grid.rules
    }
