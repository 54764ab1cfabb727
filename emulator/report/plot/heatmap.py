"""A sweep as a map: rows are rules, columns tx-usecs and stock; the number stands in each cell.

The grey is the value on a logarithmic scale, dark for much, so that a row can be followed though rows lie decades
apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from emulator.report.compare.metrics import Metric
from emulator.report.figures import sig
from emulator.report.plot.data import Grid, SweepData, grids
from emulator.report.plot.style import GREY, named, new_figure, title
from emulator.report.reference import Key

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DARK = 0.6  # from this share of the scale on numbers are white


def figures(data: SweepData, metrics: Sequence[Metric]) -> dict[str, Figure]:
    """A figure for each metric and BQL variant, by the name of its file."""
    made = {}
    for metric in metrics:
        found = grids(data, metric)
        for grid in found:
            fig = new_figure(1.7 + 0.38 * len(grid.rules))
            ax = fig.add_subplot()
            draw(ax, grid)
            title(ax, named(metric.title, grid.variant, data.chosen), data.source)
            made[f"heatmap-{f'{grid.variant}-' if len(found) > 1 else ''}{metric.column}"] = fig
    return made


def draw(ax: Axes, grid: Grid) -> None:
    """The map of a grid."""
    from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize
    from matplotlib.ticker import FuncFormatter, NullFormatter

    table = np.array(
        [[grid.values.get(Key(variant, n, tx), np.nan) for variant, tx in grid.columns] for n in grid.rules]
    )
    low, high = float(np.nanmin(table)), float(np.nanmax(table))
    norm = LogNorm(low, high) if 0 < low < high else Normalize(low, high if high > low else low + 1)
    greys = LinearSegmentedColormap.from_list("paper", ["#fafafa", "#202020"]).with_extremes(bad="white")
    image = ax.imshow(np.ma.masked_invalid(table), cmap=greys, norm=norm, aspect="auto")
    for row, column in np.ndindex(*table.shape):
        value = float(table[row, column])
        if np.isnan(value):
            ax.text(column, row, "-", ha="center", va="center", fontsize=8, color=GREY)
        else:
            white = float(norm(value)) > _DARK
            ax.text(column, row, sig(value), ha="center", va="center", fontsize=8, color="white" if white else "black")
    ax.set_xticks(range(len(grid.columns)), grid.column_labels)
    ax.set_yticks(range(len(grid.rules)), [str(n) for n in grid.rules])
    ax.set_xlabel("tx-usecs, us" + (f"  |  {', '.join(grid.beside)}" if grid.beside else ""))
    ax.set_ylabel("rules")
    ax.grid(visible=False)
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)
    if grid.beside:
        ax.axvline(len(grid.tx_usecs) - 0.5, color="white", linewidth=5)
    bar = ax.figure.colorbar(image, ax=ax, pad=0.02, aspect=14)
    bar.set_label(f"{grid.metric.title}, log scale" if isinstance(norm, LogNorm) else grid.metric.title)
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _pos: f"{v:.10g}"))
    bar.ax.yaxis.set_minor_formatter(NullFormatter())
    bar.outline.set_visible(False)
