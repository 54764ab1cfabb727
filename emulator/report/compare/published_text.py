"""The comparison with published figures, as text in the list's shape and as JSON.

For each rules count three lines: what was published, what the result has, the error. `~` behind an error: it is not
larger than the rounding of the published figure. `-`: not published; `missing`: published, and the result lacks it.
Rows and columns that are missing throughout are named in one line.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from emulator.report.cells import STOCK
from emulator.report.compare.lines import Line, Piece
from emulator.report.compare.published import LEVELS_PCT, CellError, Met, MetricTable, PublishedComparison
from emulator.report.compare.settings_text import settings_document, settings_lines
from emulator.report.figures import MISSING, plural, sig
from emulator.report.reference import Key, tx_text

SCHEMA = 1
KIND = "comparison with published figures"
_GAP = 2
_BAR = "||"
_ABSENT = "missing"
_LONGEST_LIST = 3
_ROWS = ("published", "result", "error, %")
_LABEL = max(len(row) for row in _ROWS)


def published_lines(c: PublishedComparison, width: int) -> list[Line]:
    """Everything, `width` columns wide."""
    lines: list[Line] = [[(f"{c.result.path} against {c.reference.path}", "bold")], *settings_lines(c.result.settings)]
    lines.append(
        [("error = 100 * (result - published) / published; ~ within the rounding of the published figure", None)]
    )
    for table in c.tables:
        lines += [[], *_table_lines(table, width)]
    lines.append([])
    for table in c.tables:
        lines += _summary_lines(table)
    lines += [_met_line(met) for met in c.met]
    return lines


def published_document(c: PublishedComparison, exit_code: int) -> dict[str, Any]:
    """Plain JSON values."""
    return {
        "schema": SCHEMA,
        "kind": KIND,
        "result": str(c.result.path),
        "reference": str(c.reference.path),
        "settings": settings_document(c.result.settings),
        "tables": [_table_document(table) for table in c.tables],
        "requirements": [
            {
                "metric": met.requirement.metric.column,
                "within_pct": met.requirement.pct,
                "cells_wanted": met.of if met.requirement.cells is None else met.requirement.cells,
                "cells_within": met.found,
                "cells": met.of,
                "ok": met.ok,
            }
            for met in c.met
        ],
        "notes": c.notes,
        "exit_code": exit_code,
    }


def _table_document(table: MetricTable) -> dict[str, Any]:
    worst = table.worst
    return {
        "metric": table.metric.column,
        "name": table.metric.name,
        "n": len(table.cells),
        "within": {str(pct): table.within(pct) for pct in LEVELS_PCT},
        "median_pct": table.median_pct,
        "worst_pct": worst.error_pct if worst else None,
        "worst_cell": worst.key._asdict() if worst else None,
        "missing": len(table.missing),
        "not_published": len(table.not_published),
        "cells": [
            {
                **cell.key._asdict(),
                "published": cell.published,
                "half_width": cell.half_width,
                "result": cell.result,
                "error_pct": cell.error_pct,
                "in_rounding": cell.in_rounding,
                "missing": cell.result is None,
            }
            for cell in table.cells
        ],
    }


def _table_lines(table: MetricTable, width: int) -> Iterator[Line]:
    several = len({cell.key.variant for cell in table.cells} - {STOCK}) > 1
    shown, folded = _folded(table, several=several)
    by_key = {cell.key: cell for cell in shown}
    rules = sorted({key.nrules for key in by_key}, key=_rules_order)
    columns = _columns(list(by_key))
    row_width = max(len("nrules"), *(len(str(n)) for n in rules)) + 1 + _LABEL
    yield [(table.metric.title, "bold")]
    texts = {key: _texts(cell, table.metric.divisor) for key, cell in by_key.items()}
    for number, block in enumerate(_blocks(columns, texts, rules, width - row_width, several)):
        if number:
            yield []
        yield _row("nrules".ljust(row_width), [((_header(column, several), None), w) for column, w in block], block)
        for n in rules:
            cells = [by_key.get(Key(variant, n, tx)) for (variant, tx), _w in block]
            if not any(cells):
                continue
            for i, label in enumerate(_ROWS):
                name = str(n) if i == 0 and n is not None else ""
                pieces = [(_piece(cell, texts, i), w) for cell, (_c, w) in zip(cells, block, strict=True)]
                yield _row(f"{name.ljust(row_width - _LABEL)}{label.ljust(_LABEL)}", pieces, block)
    if folded:
        yield [(f"not in the result, and not shown: {'; '.join(folded)}", "red")]


def _folded(table: MetricTable, *, several: bool) -> tuple[list[CellError], list[str]]:
    """(cells without the rows and columns of which the result has nothing, what these are)."""
    there = [cell.key for cell in table.cells if cell.result is not None]
    if not there:
        return list(table.cells), []
    rules, columns = {key.nrules for key in there}, {(key.variant, key.tx_usecs) for key in there}
    absent_rules = sorted({c.key.nrules for c in table.cells} - rules, key=_rules_order)
    absent_columns = [c for c in _columns([cell.key for cell in table.cells]) if c not in columns]
    folded = [f"nrules {', '.join(map(str, absent_rules))}"] if absent_rules else []
    folded += [", ".join(_header(column, several) for column in absent_columns)] if absent_columns else []
    return [c for c in table.cells if c.key.nrules in rules and (c.key.variant, c.key.tx_usecs) in columns], folded


def _rules_order(nrules: int | None) -> int:
    return -1 if nrules is None else nrules


Column = tuple[str, float | None]


def _columns(keys: Sequence[Key]) -> list[Column]:
    """(variant, tx_usecs), stock last."""
    found = {(key.variant, key.tx_usecs) for key in keys}
    return sorted(found, key=lambda c: (c[0] == STOCK, c[0], -1.0 if c[1] is None else c[1]))


def _header(column: Column, several: bool) -> str:
    variant, tx = column
    if tx is None:
        return variant
    return f"{variant} {tx_text(tx)}" if several else tx_text(tx)


def _blocks(
    columns: Sequence[Column],
    texts: Mapping[Key, tuple[str, str, str]],
    rules: Sequence[int | None],
    room: int,
    several: bool,
) -> list[list[tuple[Column, int]]]:
    """(column, its width) in blocks that fit side by side, at least one column in each."""
    blocks: list[list[tuple[Column, int]]] = [[]]
    used = 0
    for column in columns:
        cells = [texts[key] for n in rules if (key := Key(column[0], n, column[1])) in texts]
        width = max(len(_header(column, several)), *(len(text) for cell in cells for text in cell))
        taken = _GAP + width + (_GAP + len(_BAR) if column[0] == STOCK else 0)
        if blocks[-1] and used + taken > room:
            blocks.append([])
            used = 0
        blocks[-1].append((column, width))
        used += taken
    return blocks


def _row(label: str, pieces: Sequence[tuple[Piece, int]], block: Sequence[tuple[Column, int]]) -> Line:
    line: list[Piece] = [(label, None)]
    for number, (((text, style), width), (column, _w)) in enumerate(zip(pieces, block, strict=True)):
        bar = f"{' ' * _GAP}{_BAR}" if column[0] == STOCK and number else ""
        line += [(f"{bar}{' ' * _GAP}{' ' * (width - len(text))}", None), (text, style)]
    return line


def _texts(cell: CellError, divisor: float) -> tuple[str, str, str]:
    published = f"{cell.published / divisor:.{_decimals(cell.half_width * 2 / divisor)}f} "
    if cell.result is None:
        return published, f"{MISSING} ", _ABSENT
    error = f"{cell.error_pct:+.1f}" if cell.error_pct is not None else MISSING
    return published, f"{sig(cell.result / divisor)} ", f"{error}{'~' if cell.in_rounding else ' '}"


def _decimals(step: float) -> int:
    """Digits after the point in which multiples of `step` are written."""
    return max(0, min(9, round(-math.log10(step)))) if step > 0 else 0


def _piece(cell: CellError | None, texts: Mapping[Key, tuple[str, str, str]], row: int) -> Piece:
    if cell is None:
        return f"{MISSING} ", "dim"
    return texts[cell.key][row], _style(cell) if row == 2 else None


def _style(cell: CellError) -> str:
    for pct, style in zip(LEVELS_PCT, ("green", "yellow", "magenta"), strict=True):
        if cell.within(pct):
            return style
    return "bold red"


def _summary_lines(table: MetricTable) -> Iterator[Line]:
    n = len(table.cells)
    counts = ", ".join(f"{'within ' if i == 0 else ''}{p} % {table.within(p)}/{n}" for i, p in enumerate(LEVELS_PCT))
    text = f"{table.metric.name}: {counts}"
    if table.worst is not None:
        size = abs(table.worst.error_pct or 0.0)
        text += f"; median {sig(table.median_pct, 2)} %, worst {sig(size)} % at {table.worst.key}"
    yield [(text, "bold")]
    if table.missing:
        yield [(f"  {plural(len(table.missing), 'cell')} missing: {_listed(table.missing)}", "red")]
    if table.not_published:
        yield [(f"  {plural(len(table.not_published), 'cell')} of the result not published", None)]


def _listed(keys: Sequence[Key]) -> str:
    shown = ", ".join(str(key) for key in keys[:_LONGEST_LIST])
    return f"{shown} and {len(keys) - _LONGEST_LIST} more" if len(keys) > _LONGEST_LIST else shown


def _met_line(met: Met) -> Line:
    verdict = "met" if met.ok else "FAILED"
    return [(f"required: {met.requirement}: {met.found} of {met.of}, {verdict}", "green" if met.ok else "bold red")]
