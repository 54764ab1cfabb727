"""Published tables as CSV: one line a cell, a column for its variant, rules and tx-usecs, and one for each figure.

::

    variant,nrules,tx_usecs,pps,rtt_avg_ms,rtt_p99_ms
    v7,0,50,1890000,0.089,0.122
    stock,0,,1760000,0.132,0.155

`off` is another name for stock; an empty figure was not published; a column that no result has is left out, and said.
A `sweep.csv` is such a table too.

A published figure is rounded. `half_width` is half of the step in which it is stated: that of the last digit of the
column's figures of the same order of magnitude (of which the file may have dropped zeros), and for packets a second,
which are published as 1.62M or 13K, that of the last digit which is not 0, or of the second.

Whatever is not such a table is refused with its line: text where a number belongs, nan, infinity, a negative number, a
cell that is there twice.
"""

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

from emulator.errors import UsageError
from emulator.report.cells import KEYS, STOCK, VALUES
from emulator.report.compare.metrics import BY_COLUMN
from emulator.report.summary import WITHOUT_TX_USECS
from emulator.scenario.text import allowed_list, did_you_mean, printable, quoted

LARGEST_FILE = 16 << 20
_NAMES = {"off": STOCK, STOCK: STOCK, "v5": "v5", "v6": "v6", "v7": "v7"}
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_LONGEST_NUMBER = 40
_COUNTED = "n"  # how many pings: in every sweep.csv, and nothing that is compared


class Key(NamedTuple):
    """What tells a cell from the others of its table."""

    variant: str
    """stock, v5, v6, v7"""
    nrules: int | None
    tx_usecs: float | None
    """us; None for a variant that does not wait (stock, v5)"""

    def __str__(self) -> str:
        parts = [self.variant, f"nrules={self.nrules}" if self.nrules is not None else "", tx_text(self.tx_usecs)]
        return " ".join(part for part in parts if part)


class Figure(NamedTuple):
    """A number as it was published."""

    value: float
    half_width: float
    """half of the step in which it is stated, in its unit"""


@dataclass(frozen=True)
class CellTable:
    """What a CSV says of its cells."""

    path: Path
    columns: tuple[str, ...]
    """the figures, in the order of the file"""
    cells: Mapping[Key, Mapping[str, Figure]]
    """what is not published is not there"""
    notes: tuple[str, ...] = ()
    """what was left out, a line each"""


def tx_text(tx_usecs: float | None) -> str:
    """`50us`, or nothing."""
    return "" if tx_usecs is None else f"{tx_usecs:.10g}us"


def normal_key(variant: str, nrules: int | None, tx_usecs: float | None) -> Key:
    """One key for all ways to write a cell: a variant that does not wait has no tx-usecs."""
    waits = variant != STOCK and variant not in WITHOUT_TX_USECS
    return Key(variant, nrules, float(tx_usecs) if waits and tx_usecs is not None else None)


def read_cells_csv(path: Path, *, zeros: bool = False) -> CellTable:
    """Read such a file; UsageError of one line that names the file's line.

    zeros: whether a rate or a time of 0 is taken, as something that was measured may have it.
    """
    lines = _lines(path)
    number, header = next(lines, (1, []))
    columns, notes = _header(path, number, header)
    found: dict[Key, dict[str, str]] = {}
    first_at: dict[Key, int] = {}
    for number, row in lines:
        if not any(row):
            continue
        where = f"{path}:{number}"
        if len(row) != len(header):
            raise UsageError(f"{where}: {len(row)} fields; the header has {len(header)}")
        cells = dict(zip(header, row, strict=True))
        key = _key(where, cells)
        if key in first_at:
            raise UsageError(f"{where}: {key} is there already, in line {first_at[key]}; allowed: each cell once")
        first_at[key] = number
        found[key] = {c: _checked(where, c, cells[c], zeros=zeros) for c in columns if cells[c]}
    if not found:
        raise UsageError(f"{path}: no cells; allowed: a header and a line for each cell")
    return CellTable(path, columns, _figures(columns, found), notes)


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """(line number, fields without surrounding blanks)."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise UsageError(f"{path}: cannot read: {error.strerror or error}") from None
    if len(data) > LARGEST_FILE:
        raise UsageError(f"{path}: larger than {LARGEST_FILE >> 20} MiB; allowed: a table of cells as CSV")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: is not UTF-8 text; allowed: a table of cells as CSV") from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for row in reader:
            yield reader.line_num, [field.strip() for field in row]
    except csv.Error as error:
        raise UsageError(f"{path}:{reader.line_num}: is not CSV: {error}") from None


def _header(path: Path, number: int, header: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(columns of figures, notes)."""
    where = f"{path}:{number}"
    allowed = f"allowed: {','.join(KEYS)} and any of {','.join(BY_COLUMN)}"
    missing = [key for key in KEYS if key not in header]
    if missing:
        raise UsageError(f"{where}: the header has no {', '.join(missing)}; {allowed}")
    twice = next((name for name in header if header.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"{where}: the header has {quoted(twice)} more than once; {allowed}")
    columns = tuple(name for name in header if name in BY_COLUMN)
    if not columns:
        raise UsageError(f"{where}: the header has no figure; {allowed}")
    strange = [name for name in header if name not in (*KEYS, *columns, _COUNTED)]
    notes = tuple(
        f"{where}: column {quoted(name)} is left out: no result has it{did_you_mean(name, VALUES)}" for name in strange
    )
    return columns, notes


def _key(where: str, cells: Mapping[str, str]) -> Key:
    variant = cells["variant"]
    if variant not in _NAMES:
        near = did_you_mean(variant, _NAMES)
        raise UsageError(f"{where}: variant {quoted(variant)} is not known{near}; {allowed_list(_NAMES)}")
    rules = _number(where, "nrules", cells["nrules"])
    if rules != int(rules):
        raise UsageError(f"{where}: nrules {quoted(cells['nrules'])} is not whole; allowed: 0, 1, 2 ...")
    key = normal_key(_NAMES[variant], int(rules), 0.0)
    if key.tx_usecs is None:
        return key
    return key._replace(tx_usecs=_number(where, "tx_usecs", cells["tx_usecs"]))


def _checked(where: str, column: str, text: str, *, zeros: bool) -> str:
    value = _number(where, column, text)
    if value == 0 and BY_COLUMN[column].positive and not zeros:
        raise UsageError(f"{where}: {column} is 0; allowed: numbers above 0, or empty for what was not published")
    return text


def _number(where: str, column: str, text: str) -> float:
    if not text:
        raise UsageError(f"{where}: {column} is empty; allowed: a number from 0 up")
    value = float(text) if len(text) <= _LONGEST_NUMBER and _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(value) or value < 0:
        raise UsageError(f"{where}: {column} {quoted(printable(text))} is refused; allowed: a number from 0 up")
    return value


def _figures(columns: Sequence[str], found: Mapping[Key, Mapping[str, str]]) -> dict[Key, dict[str, Figure]]:
    steps = {column: _steps(column, [row[column] for row in found.values() if column in row]) for column in columns}
    return {
        key: {column: Figure(float(text), 10.0 ** steps[column][_magnitude(text)] / 2) for column, text in row.items()}
        for key, row in found.items()
    }


def _steps(column: str, texts: Sequence[str]) -> dict[int, int]:
    """For each order of magnitude: exponent of the finest digit in which a figure of the column is stated."""
    steps: dict[int, int] = {}
    for text in texts:
        number, magnitude = Decimal(text), _magnitude(text)
        step = int(number.as_tuple().exponent) if number else 0
        if column == "pps" and number:
            step = min(int(number.normalize().as_tuple().exponent), magnitude - 1)
        steps[magnitude] = min(step, steps.get(magnitude, step))
    return steps


def _magnitude(text: str) -> int:
    number = Decimal(text)
    return number.adjusted() if number else 0
