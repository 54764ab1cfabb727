"""Published tables as CSV: one line a cell, a column for its variant, rules and tx-usecs, and one for each figure.

::

    variant,nrules,tx_usecs,pps,rtt_avg_ms,rtt_p99_ms
    v7,0,50,1890000,0.089,0.122
    stock,0,,1760000,0.132,0.155

`off` is another name for stock; an empty figure was not published; a column that no result has is left out, and said,
but may choose among the rows (`--where case=pktgen`). Without the columns variant and tx_usecs all rows are of stock. A
`sweep.csv` is such a table too.

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
from collections.abc import Collection, Iterator, Mapping, Sequence
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
_OF_STOCK_ALONE = ["variant", "tx_usecs"]
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


def read_cells_csv(
    path: Path,
    wanted: Mapping[str, tuple[str, ...]] | None = None,
    *,
    zeros: bool = False,
    elsewhere: Collection[str] | None = None,
) -> CellTable:
    """Read such a file; UsageError of one line that names the file's line.

    wanted: what `--where` asks for; other rows are not looked at. zeros: whether a rate or a time of 0 is taken, as
    something that was measured may have it. elsewhere: names of `wanted` that need not be columns; None: any.
    """
    lines = _lines(path)
    number, header = next(lines, (1, []))
    names = _with_places(header)
    columns, others = _header(path, number, names)
    choice = _choice(path, names, wanted or {}, elsewhere)
    found: dict[Key, dict[str, str]] = {}
    first: dict[Key, tuple[int, dict[str, str]]] = {}
    for where, cells in _rows(path, lines, header, choice):
        key = _key(where, cells)
        if key in first:
            line, earlier = first[key]
            raise UsageError(f"{where}: {key} is there already, in line {line}; {_tell(others, earlier, cells)}")
        first[key] = int(where.rpartition(":")[2]), cells
        found[key] = {c: _checked(where, c, cells[c], zeros=zeros) for c in columns if cells[c]}
    if not found:
        asked = " ".join(f"--where {name}={value}" for name, values in choice.items() for value in values)
        chosen = f" for {asked}" if asked else ""
        raise UsageError(f"{path}: no cells{chosen}; allowed: a header and a line for each cell")
    notes = tuple(
        f"{path}:{number}: column {quoted(name)} is left out: no result has it{did_you_mean(name, VALUES)}"
        for name in others
        if name not in choice
    )
    return CellTable(path, columns, _figures(columns, found), notes)


def other_columns(path: Path) -> tuple[str, ...]:
    """Columns of such a file that are neither figures nor a cell's place, by which its rows can be chosen."""
    number, header = next(_lines(path), (1, []))
    return _header(path, number, _with_places(header))[1]


def _rows(
    path: Path, lines: Iterator[tuple[int, list[str]]], header: Sequence[str], choice: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[str, dict[str, str]]]:
    """(file and line, fields by their columns) of the rows that are chosen."""
    there: dict[str, dict[str, None]] = {name: {} for name in choice}
    of_stock = dict(zip(_OF_STOCK_ALONE, (STOCK, ""), strict=True))
    for number, row in lines:
        if not any(row):
            continue
        where = f"{path}:{number}"
        if len(row) != len(header):
            raise UsageError(f"{where}: {len(row)} fields; the header has {len(header)}")
        cells = dict(zip(header, row, strict=True))
        cells = cells if any(name in cells for name in _OF_STOCK_ALONE) else cells | of_stock
        for name in choice:
            there[name][cells[name]] = None
        if all(_chosen(name, cells, values) for name, values in choice.items()):
            yield where, cells
    for name, values in choice.items():
        texts = [text for text in there[name] if text]
        for value in values:
            if not any(_same(name, text, value) for text in texts):
                raise UsageError(f"--where {name}={quoted(value)}: {path} has none; {allowed_list(texts)}")


def _with_places(header: Sequence[str]) -> list[str]:
    """`nrules,pps` is a table of stock."""
    bare = "nrules" in header and not any(name in header for name in _OF_STOCK_ALONE)
    return [*header, *(_OF_STOCK_ALONE if bare else ())]


def _choice(
    path: Path, header: Sequence[str], wanted: Mapping[str, tuple[str, ...]], elsewhere: Collection[str] | None
) -> dict[str, tuple[str, ...]]:
    """What of `--where` speaks of columns of the file."""
    for name in wanted:
        if name not in header and elsewhere is not None and name not in elsewhere:
            known = [column for column in header if column not in BY_COLUMN]
            raise UsageError(f"--where: {path} has no {quoted(name)}{did_you_mean(name, known)}; {allowed_list(known)}")
    return {name: values for name, values in wanted.items() if name in header}


def _chosen(column: str, cells: Mapping[str, str], values: Sequence[str]) -> bool:
    """Whether a row has one of these values; a row to which the column means nothing stays."""
    text = cells[column]
    nothing = not text and column != "nrules"
    if column == "tx_usecs":
        nothing = nothing or _NAMES.get(cells["variant"]) in (STOCK, *WITHOUT_TX_USECS)
    return nothing or any(_same(column, text, value) for value in values)


def _same(column: str, text: str, value: str) -> bool:
    if column == "variant":
        return _NAMES.get(text, text) == _NAMES.get(value, value)
    if column == "tx_usecs":
        value = value.removesuffix("us")
    if _NUMBER.fullmatch(text) and _NUMBER.fullmatch(value):
        return float(text) == float(value)
    return text == value


def _tell(others: Sequence[str], one: Mapping[str, str], other: Mapping[str, str]) -> str:
    """How to choose between two rows that would stand in one place."""
    name = next((name for name in others if one[name] != other[name]), None)
    if name is None:
        return "allowed: each cell once"
    return f"they differ in {name}; choose, e.g. --where {name}={printable(one[name] or other[name])}"


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
    """(columns of figures, columns that are left out)."""
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
    return columns, tuple(name for name in header if name not in (*KEYS, *columns, _COUNTED))


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
