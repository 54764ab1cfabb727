"""How plots look: everything is told apart by grey value, line style and marker; colour only helps.

The colours are of the Okabe-Ito palette, which colour-blind readers can tell apart, in the order of their lightness.
"""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLACK, GREY, LIGHT = "#000000", "#666666", "#c8c8c8"
_COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_LINES: tuple[Any, ...] = ("-", (0, (6, 2)), (0, (1, 1.2)), (0, (6, 2, 1, 2)), (0, (3, 1.5)), (0, (8, 2, 1, 2, 1, 2)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")
_HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "----", "++++")
_FILLS = ("#f4f4f4", "#d4d4d4", "#b4b4b4", "#e4e4e4", "#c4c4c4")
WIDTH_IN = 7.2
DPI = 144
_SOURCE_CHARS, _SOURCE_LINE_PT = 100, 9.2  # of a line below a title, as wide as the figure

_RC: dict[str, Any] = {
    "svg.hashsalt": "veth-emulator",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "hatch.linewidth": 0.6,
    "figure.constrained_layout.use": True,
}


class Look(NamedTuple):
    """How one of several things is drawn."""

    colour: str
    line: Any
    marker: str
    hatch: str
    fill: str
    width: float = 1.4


def look(i: int) -> Look:
    """Of the i-th thing: the first 42 differ in more than colour."""
    return Look(
        _COLOURS[i % len(_COLOURS)],
        _LINES[i % len(_LINES)],
        _MARKERS[i % len(_MARKERS)],
        _HATCHES[i % len(_HATCHES)],
        _FILLS[i % len(_FILLS)],
    )


@contextmanager
def styled() -> Iterator[None]:
    """Within it figures are made and drawn in this style, without a display."""
    import matplotlib as mpl

    with mpl.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a name with a sign that the font lacks is no fault of the result
        mpl.rcdefaults()
        for name, value in _RC.items():
            mpl.rcParams[name] = value  # type: ignore[index]
        yield


def new_figure(height_in: float, width_in: float = WIDTH_IN) -> Figure:
    """An empty figure that belongs to nobody else."""
    from matplotlib.figure import Figure as MakeFigure

    return MakeFigure(figsize=(width_in, height_in), dpi=DPI)


def title(ax: Axes, what: str, source: str) -> None:
    """What is shown, and below it in small where it comes from and how many samples it has, in lines that fit."""
    lines = [line for part in source.split("\n") for line in textwrap.wrap(part, _SOURCE_CHARS, break_on_hyphens=False)]
    source = "\n".join(lines)
    ax.set_title(what, loc="left", fontweight="bold", pad=7 + _SOURCE_LINE_PT * len(lines))
    ax.annotate(source, (0, 1), (0, 5), xycoords="axes fraction", textcoords="offset points", fontsize=7.5, color=GREY)


def named(what: str, *more: str) -> str:
    """A title with what there is to add, with commas between."""
    return ", ".join(part for part in (what, *more) if part)


def legend_below(fig: Figure, ax: Axes, columns: int) -> None:
    """The legend of an axes below everything, where it covers nothing."""
    handles, labels = ax.get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=columns, handlelength=3.6)


def log_if_wide(ax: Axes, axis: str, low: float, high: float, ratio: float = 30) -> bool:
    """A logarithmic axis, with plain numbers at its ticks, where values lie far apart."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    if low <= 0 or high / low < ratio:
        return False
    one = ax.xaxis if axis == "x" else ax.yaxis
    (ax.set_xscale if axis == "x" else ax.set_yscale)("log")
    one.set_major_locator(LogLocator(subs=(1.0,) if high / low > 1e3 else (1.0, 2.0, 5.0)))
    one.set_major_formatter(FuncFormatter(lambda v, _pos: f"{v:.10g}"))
    one.set_minor_formatter(NullFormatter())
    return True
