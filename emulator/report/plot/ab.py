"""Two results: for each cell how far B lies from A, in % of A, with the 95 % interval.

A filled mark is a difference that may be claimed, a hollow one is none or unclear, a cross has too few repetitions or
but one seed (see compare/differences.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.report.compare.differences import (
    HIGHER,
    LOWER,
    NO_DIFFERENCE,
    UNCLEAR,
    Difference,
    Differences,
    DifferenceTable,
)
from emulator.report.compare.settings import differing_text
from emulator.report.plot.data import Nothing
from emulator.report.plot.style import BLACK, GREY, legend_below, new_figure, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKS = {
    "claimed": ("o", BLACK, "a difference"),
    "none": ("o", "white", "no difference"),
    "unclear": ("D", "#a8a8a8", "unclear"),
    "untested": ("x", BLACK, "not tested: too few repetitions, or one seed"),
}


def figures(differences: Differences) -> dict[str, Figure]:
    """A figure for each metric."""
    made = {}
    for table in differences.tables:
        shown = [cell for cell in table.cells if cell.relative_pct is not None]
        if not shown:
            continue
        fig = new_figure(2.1 + 0.19 * max(len(shown), 3))
        ax = fig.add_subplot()
        draw(ax, table)
        legend_below(fig, ax, 4)
        source = "\n".join([*_sources(differences), _n(shown)])
        title(ax, f"{table.metric.name}: B against A", source)
        made[f"ab-{table.metric.column}"] = fig
    if not made:
        raise Nothing("nothing was measured in both results")
    return made


def draw(ax: Axes, table: DifferenceTable) -> None:
    """The cells of a metric, one below the other."""
    shown = [cell for cell in table.cells if cell.relative_pct is not None]
    ax.axvline(0, color=GREY, linewidth=1)
    used: dict[str, bool] = {}
    for y, cell in enumerate(shown):
        kind = _kind(cell)
        marker, fill, label = _MARKS[kind]
        if cell.interval is not None and cell.a is not None:
            low, high = (100 * end / cell.a.center for end in cell.interval)
            ax.hlines(y, low, high, color=BLACK, linewidth=1.1)
            ax.plot([low, high], [y, y], marker="|", color=BLACK, linestyle="none", markersize=5)
        ax.plot([cell.relative_pct or 0.0], [y], marker=marker, color=BLACK, markerfacecolor=fill, linestyle="none",
                markersize=5.5, label=None if kind in used else label)  # fmt: skip
        used[kind] = True
    ax.set_yticks(range(len(shown)), [cell.label for cell in shown])
    ax.set_ylim(len(shown) - 0.4, -0.6)
    ax.set_xlabel("B - A, % of A, with its 95 % interval")
    ax.set_ylabel("cell")


def _sources(differences: Differences) -> list[str]:
    """Of each side what it is, and in which settings they differ."""
    sides = {"A": differences.a, "B": differences.b}
    made = {n: [text for text in (side.settings.line, side.settings.trouble) if text] for n, side in sides.items()}
    lines = [", ".join([f"{name} = {side.path.name}", *made[name]]) for name, side in sides.items()]
    differ = differing_text(differences.settings)
    return [*lines, *([f"settings that differ: {differ}"] if differ else [])]


def _kind(cell: Difference) -> str:
    if cell.verdict in (LOWER, HIGHER):
        return "claimed"
    return {NO_DIFFERENCE: "none", UNCLEAR: "unclear"}.get(cell.verdict, "untested")


def _n(cells: list[Difference]) -> str:
    counts = {(cell.a.n, cell.b.n, cell.a.kind) for cell in cells if cell.a is not None and cell.b is not None}
    said = sorted(f"n = {a} and {b} {kind}" for a, b, kind in counts)
    return said[0] if len(said) == 1 else f"{said[0]} .. {said[-1]}"
