"""A sweep as lines: a metric over tx-usecs, a line for each rules count, stock at the right and as a thin line across.

tx-usecs are spaced evenly, for they run from 0 over three decades. Bars reach from the smallest to the largest
repetition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from emulator.report.compare.metrics import Metric
from emulator.report.plot.data import Grid, SweepData, grids
from emulator.report.plot.style import LIGHT, log_if_wide, look, named, new_figure, title
from emulator.report.reference import Key

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GAP = 0.35  # between tx-usecs and what stands beside them


def figures(data: SweepData, metrics: Sequence[Metric]) -> dict[str, Figure]:
    """A figure for each metric and BQL variant, by the name of its file."""
    made = {}
    for metric in metrics:
        found = grids(data, metric)
        for grid in found:
            fig = new_figure(4.4)
            ax = fig.add_subplot()
            draw(ax, grid, data)
            title(ax, named(f"{metric.name} by tx-usecs", grid.variant, data.chosen), data.source)
            made[f"lines-{f'{grid.variant}-' if len(found) > 1 else ''}{metric.column}"] = fig
    return made


def draw(ax: Axes, grid: Grid, data: SweepData, *, hollow: bool = False) -> None:
    """The lines of a grid."""
    x = positions(grid)
    for i, nrules in enumerate(grid.rules):
        style = look(i)
        keys = [Key(variant, nrules, tx) for variant, tx in grid.columns]
        points = [(x[j], grid.values[key], key) for j, key in enumerate(keys) if key in grid.values]
        waiting = [(px, value) for px, value, key in points if key.tx_usecs is not None]
        ax.plot(
            [px for px, _v in waiting],
            [v for _px, v in waiting],
            color=style.colour,
            linestyle=style.line,
            marker=style.marker,
            label=f"{nrules}",
        )
        for px, value, key in points:
            if key.tx_usecs is None:
                ax.plot([px], [value], color=style.colour, marker=style.marker, linestyle="none")
                ax.axhline(value, color=LIGHT, linewidth=0.7, zorder=0.5)
            spread = data.spread(key, grid.metric)
            if spread is not None:
                ax.vlines(px, *spread, color=style.colour, linewidth=2.4, alpha=0.45, zorder=1.5)
    if grid.beside and grid.tx_usecs:
        ax.plot([], [], color=LIGHT, linewidth=0.7, label=f"{', '.join(grid.beside)},\nacross")
    dress(ax, grid)


def positions(grid: Grid) -> list[float]:
    """Where the columns stand."""
    waiting = len(grid.tx_usecs)
    return [*map(float, range(waiting)), *(waiting + GAP + i for i in range(len(grid.beside)))]


def dress(ax: Axes, grid: Grid) -> None:
    """Axes and legend of a grid that is drawn over `positions`."""
    ax.set_xticks(positions(grid), grid.column_labels)
    ax.set_xlabel("tx-usecs, us (evenly spaced)" + (f"  |  {', '.join(grid.beside)}" if grid.beside else ""))
    ax.set_ylabel(grid.metric.title)
    if not log_if_wide(ax, "y", min(grid.values.values()), max(grid.values.values())):
        ax.set_ylim(bottom=0)
    if grid.beside and grid.tx_usecs:
        ax.axvline(len(grid.tx_usecs) - 1 + (1 + GAP) / 2, color=LIGHT, linewidth=1)
    ax.grid(visible=False, axis="x")
    ax.legend(title="rules", loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=3.6)
