"""A sweep as the list posts it: `nrules | 0us | 50us | ... || stock`, a table each for throughput, RTT average and p99.

A set of tables belongs to one variant that waits (`v6`, `v7`) and to one combination of whatever else was swept, which
stands above it; variants without tx_usecs (stock, `v5`) are columns on the right. `-` is a cell that the sweep does not
have or that measured nothing; `failed` one of which nothing was measured; `*` one of which some repetitions failed.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from emulator.report.cells import Cell
from emulator.report.figures import MISSING, plural, sig

FAILED = "failed"
PINGS_FOR_P99 = 100
"""of fewer, the slowest is the 99th percentile"""
_SCALES = ((1e6, "M"), (1e3, "K"))


@dataclass(frozen=True)
class Table:
    """One quantity of one set."""

    title: str
    columns: tuple[str, ...]
    """after nrules"""
    waiting: int
    """how many of the columns are of tx_usecs; the others stand on the right"""
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    """nrules, and a cell for each column"""
    note: str = ""
    """what its reader must know, in a line below it"""

    def text(self) -> str:
        """Aligned, ending in a newline."""
        lines = [("nrules", self.columns), *self.rows]
        first = max(len(head) for head, _ in lines)
        widths = [max(len(cells[i]) for _, cells in lines) for i in range(len(self.columns))]
        texts = [self.title, *(self._line(*line, first, widths) for line in lines), *([self.note] if self.note else [])]
        return "".join(f"{text}\n" for text in texts)

    def _line(self, head: str, cells: Sequence[str], first: int, widths: Sequence[int]) -> str:
        text = head.rjust(first)
        for number, (cell, width) in enumerate(zip(cells, widths, strict=True)):
            text += f"{' || ' if number and number == self.waiting else ' | '}{cell.rjust(width)}"
        return text


def sweep_tables(cells: Sequence[Cell], *, with_max: bool = False) -> str:
    """All tables of a sweep, ending in a newline."""
    quantities = _QUANTITIES if with_max else _QUANTITIES[:-1]
    blocks: list[str] = []
    for heading, group in _sets(cells):
        blocks += [heading] if heading else []
        blocks += [table(group, *quantity).text() for quantity in quantities]
    notes = "* some repetitions of this cell failed\n" if any(cell.ok and cell.failed for cell in cells) else ""
    return "\n".join(blocks) + notes


def table(cells: Sequence[Cell], title: str, column: str, show: Callable[[float], str]) -> Table:
    """One quantity of the cells of one set."""
    waiting = list(dict.fromkeys(cell.tx_usecs for cell in cells if cell.tx_usecs is not None))
    beside = list(dict.fromkeys(cell.variant for cell in cells if cell.tx_usecs is None))
    at = {(cell.nrules, _column(cell)): cell for cell in cells}
    columns: list[float | str] = [*waiting, *beside]
    rows = [
        (str(nrules), tuple(_shown(at.get((nrules, key)), column, show) for key in columns))
        for nrules in dict.fromkeys(cell.nrules for cell in cells)
    ]
    named = next((f"BQL {cell.variant}, " for cell in cells if cell.tx_usecs is not None), "")
    names = (*(f"{usecs}us" for usecs in waiting), *beside)
    note = _note_of_p99(cells) if column == "rtt_p99_ms" else ""
    return Table(f"{named}{title}, {_n(cells, column)}", names, len(waiting), tuple(rows), note)


def throughput(pps: float) -> str:
    """`1.62M`, `681K`, `13.0K`: packets a second."""
    rounded = float(f"{pps:.3g}")
    size, unit = next((scale for scale in _SCALES if rounded >= scale[0]), (1.0, ""))
    return f"{sig(rounded / size)}{unit}"


_QUANTITIES: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("throughput, packets a second", "pps", throughput),
    ("RTT avg, ms", "rtt_avg_ms", sig),
    ("RTT p99, ms", "rtt_p99_ms", sig),
    ("RTT max, ms", "rtt_max_ms", sig),
)


def _sets(cells: Sequence[Cell]) -> Iterator[tuple[str, list[Cell]]]:
    """(heading, cells) of each set. A cell without tx_usecs belongs to every set that it does not contradict."""
    waiting = [cell for cell in cells if cell.tx_usecs is not None] or list(cells)
    keys = dict.fromkeys((cell.variant if cell.tx_usecs is not None else None, _text(cell.others)) for cell in waiting)
    for variant, others in keys:
        own = [c for c in waiting if _text(c.others) == others and (variant is None or c.variant == variant)]
        fixed = own[0].others
        beside = [c for c in cells if c.tx_usecs is None and c not in own and c.others.items() <= fixed.items()]
        yield _heading(fixed), [*own, *beside]


def _heading(others: dict[str, Any]) -> str:
    return "".join(f"== {', '.join(f'{name}={_text(value)}' for name, value in others.items())}\n" if others else "")


def _column(cell: Cell) -> float | str:
    return cell.variant if cell.tx_usecs is None else cell.tx_usecs


def _shown(cell: Cell | None, column: str, show: Callable[[float], str]) -> str:
    if cell is None:
        return MISSING
    if not cell.ok:
        return FAILED if cell.failed else MISSING
    value = cell.values[column]
    return (MISSING if value is None else show(value)) + ("*" if cell.failed else "")


def _n(cells: Sequence[Cell], column: str) -> str:
    """How many measurements stand behind each cell of the table."""
    runs = _range([len(cell.ok) for cell in cells if cell.ok], "run")
    over = "" if runs == "1 run" else f"median of {runs}"
    if column == "pps":
        return over or runs
    pings = _range([int(cell.values["n"] or 0) for cell in cells if cell.ok], "ping")
    return f"{over + ', ' if over else ''}n = {pings} a cell"


def _note_of_p99(cells: Sequence[Cell]) -> str:
    """Below 100 values the 99th percentile by nearest rank is the largest."""
    measured = [cell for cell in cells if cell.samples("rtt_p99_ms")]
    few = [cell for cell in measured if min(cell.samples("n")) < PINGS_FOR_P99]
    if not few:
        return ""
    where = "" if len(few) == len(measured) else f" in {len(few)} of {plural(len(measured), 'cell')}"
    return f"(fewer than {PINGS_FOR_P99} pings a run{where}: p99 is the slowest one)"


def _range(numbers: Sequence[int], noun: str) -> str:
    if not numbers:
        return plural(0, noun)
    low, high = min(numbers), max(numbers)
    return plural(low, noun) if low == high else f"{low}..{high} {noun}s"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
