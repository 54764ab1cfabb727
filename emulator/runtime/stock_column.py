"""The stock column of a benchmark table, as CSV: how many packets a second arrive, rule count by rule count.

    nrules,pps
    0,1760000
    1000,126000

Further columns are allowed and not read, but for `variant`: where there is one, only the rows that say `stock` or `off`
are taken, so that a whole published table can be given as it is. A line that begins with `#` is a comment.

What is refused, each with its line: what is no number, a rule count that stands twice, and more packets a second with
more rules (beyond `NOISE`, which published tables have: then the rows are taken for equally fast).
"""

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from emulator.errors import ScenarioError
from emulator.scenario.profile import MAX_RULES
from emulator.scenario.text import found, printable, shorten

STOCK_NAMES = ("stock", "off")
FASTEST_PPS, SLOWEST_PPS = 2e7, 500.0
NOISE = 0.02
"""how much faster more rules may seem before that is a mistake"""
_MOST_ROWS = 1000


@dataclass(frozen=True)
class StockRow:
    """One measurement: with `nrules` rules on the receiver, `pps` packets a second arrived."""

    nrules: int
    pps: float
    line: int

    @property
    def packet_ns(self) -> float:
        """What one packet took."""
        return 1e9 / self.pps


def read_stock_column(path: Path) -> tuple[StockRow, ...]:
    """The rows, fewest rules first; ScenarioError with a `file:line: what` for each fault."""
    lines = _lines(path)
    header_line, names = _header(path, lines)
    faults: list[str] = []
    rows: list[StockRow] = []
    others: set[str] = set()
    for line, cells in lines[1:]:
        row = dict(zip(names, (cell.strip() for cell in cells), strict=False))
        if "variant" in names and row.get("variant", "").lower() not in STOCK_NAMES:
            others.add(row.get("variant", ""))
            continue
        taken = _row(path, line, row, faults)
        if taken is not None:
            rows.append(taken)
    if not rows and not faults:
        has = f"; variants: {', '.join(shorten(name) for name in sorted(others))}" if others else ""
        faults.append(f"{path}:{header_line}: no stock row{has}; write rows of nrules,pps, with variant stock or off")
    faults += _order(path, sorted(rows, key=lambda row: row.nrules))
    if faults:
        raise ScenarioError([printable(fault) for fault in faults])
    return tuple(sorted(rows, key=lambda row: row.nrules))


def _lines(path: Path) -> list[tuple[int, Sequence[str]]]:
    """Every line that holds something, with its number."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(_uncommented(file), strict=True)
            lines: list[tuple[int, Sequence[str]]] = []
            for cells in reader:
                if any(cell.strip() for cell in cells):
                    lines.append((reader.line_num, cells))
                if len(lines) > _MOST_ROWS:
                    raise ScenarioError(f"{path}:{reader.line_num}: more than {_MOST_ROWS} lines; give one table")
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}; give a CSV file with columns nrules,pps") from None
    except UnicodeDecodeError:
        raise ScenarioError(f"{path}: not text; give a CSV file with columns nrules,pps") from None
    except csv.Error as error:
        raise ScenarioError(f"{path}:{reader.line_num}: not CSV: {error}") from None
    if not lines:
        raise ScenarioError(f"{path}:1: nothing in it; write a line 'nrules,pps' and a row for each rule count")
    return lines


def _uncommented(lines: Iterable[str]) -> Iterable[str]:
    """The lines, those that begin with # emptied, so that line numbers stay."""
    return ("\n" if line.startswith("#") else line for line in lines)


def _header(path: Path, lines: list[tuple[int, Sequence[str]]]) -> tuple[int, list[str]]:
    line, cells = lines[0]
    names = [cell.strip() for cell in cells]
    for name in ("nrules", "pps"):
        if names.count(name) != 1:
            columns = ", ".join(shorten(column) for column in names)
            what = "no column" if name not in names else "two columns"
            raise ScenarioError(
                printable(f"{path}:{line}: {what} '{name}'; columns here: {columns}; wanted: nrules,pps")
            )
    return line, names


def _row(path: Path, line: int, row: dict[str, str], faults: list[str]) -> StockRow | None:
    nrules, pps = row.get("nrules", ""), row.get("pps", "")
    if not (nrules.isascii() and nrules.isdigit() and len(nrules) <= 6 and int(nrules) <= MAX_RULES):
        faults.append(f"{path}:{line}: nrules: {found(nrules)} is not a number of rules; allowed: 0..{MAX_RULES}")
        return None
    try:
        rate = float(pps) if pps.isascii() and "_" not in pps else math.nan
    except ValueError:
        rate = math.nan
    if not SLOWEST_PPS <= rate <= FASTEST_PPS:  # not for NaN either
        allowed = f"{SLOWEST_PPS:.0f}..{FASTEST_PPS:.0f}"
        unit = "; packets a second, not thousands of them" if 0 < rate < SLOWEST_PPS else ""
        faults.append(f"{path}:{line}: pps: {found(pps)} is not a rate in packets a second; allowed: {allowed}{unit}")
        return None
    return StockRow(int(nrules), rate, line)


def _order(path: Path, rows: list[StockRow]) -> list[str]:
    faults = []
    for fewer, more in pairwise(rows):
        if fewer.nrules == more.nrules:
            first, second = sorted((fewer.line, more.line))
            faults.append(f"{path}:{second}: nrules {more.nrules} stands in line {first} too; keep one of the two")
        elif more.pps > fewer.pps * (1 + NOISE):
            faults.append(
                f"{path}:{more.line}: {more.pps:g} pps with {more.nrules} rules is more than {fewer.pps:g} with "
                f"{fewer.nrules} (line {fewer.line}); leave out the wrong one"
            )
    return faults
