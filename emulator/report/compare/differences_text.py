"""The differences between two results, as text and as JSON.

One line a cell: the medians of both with their range, the difference with its interval, p, and what may be said.
"""

import math
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from emulator.report.compare.differences import (
    BOOTSTRAP_SEED,
    EXACT,
    HIGHER,
    LOWER,
    NO_DIFFERENCE,
    NOT_COMPARED,
    RESAMPLES,
    TOO_FEW,
    UNCLEAR,
    Difference,
    Differences,
    DifferenceTable,
)
from emulator.report.compare.lines import Line
from emulator.report.compare.ranks import ALPHA
from emulator.report.compare.samples import BLOCKS, PARTS, Sample
from emulator.report.compare.settings import differing_text
from emulator.report.compare.settings_text import settings_document, settings_lines
from emulator.report.figures import MISSING, plural, sig

SCHEMA = 1
KIND = "comparison of two results"
_GAP = 2
_LONGEST_LIST = 4
_STYLES = {LOWER: "yellow", HIGHER: "yellow", NO_DIFFERENCE: "green", UNCLEAR: "magenta", NOT_COMPARED: "red"}


def differences_lines(d: Differences, width: int) -> list[Line]:
    """Everything; a line of a table is as wide as its cells are, all else has `width`."""
    lines: list[Line] = [[(f"A = {d.a.path}, B = {d.b.path}", "bold")], *_settings_lines(d, width)]
    for table in d.tables:
        lines += [[], *_table_lines(table)]
    lines.append([])
    lines += [[(text, "bold")] for table in d.tables for text in _wrapped(summary_sentence(table), width)]
    for where, only in (("A", d.only_a), ("B", d.only_b)):
        if only:
            lines.append([(f"{plural(len(only), 'cell')} only in {where}: {_listed(only)}", "red")])
    lines += [[(line, None)] for text in _method(d) for line in _wrapped(text, width)]
    return lines


def differences_document(d: Differences, exit_code: int) -> dict[str, Any]:
    """Plain JSON values; figures in the units in which they are shown."""
    return {
        "schema": SCHEMA,
        "kind": KIND,
        "a": str(d.a.path),
        "b": str(d.b.path),
        "settings": {
            "a": settings_document(d.a.settings),
            "b": settings_document(d.b.settings),
            "differ": {name: [list(pair) for pair in pairs] for name, pairs in d.settings.items()},
            "known": d.settings_known,
        },
        "tables": [
            {
                "metric": table.metric.column,
                "name": table.metric.name,
                "unit": table.metric.unit,
                "tests": table.tests,
                "seen": summary_sentence(table),
                "cells": [_cell_document(cell) for cell in table.cells],
            }
            for table in d.tables
        ],
        "only_a": list(d.only_a),
        "only_b": list(d.only_b),
        "method": " ".join(_method(d)),
        "notes": d.notes,
        "exit_code": exit_code,
    }


def _settings_lines(d: Differences, width: int) -> list[Line]:
    one, other = d.a.settings, d.b.settings
    both = settings_lines(one, "A and B") if one == other else [*settings_lines(one, "A"), *settings_lines(other, "B")]
    if not d.settings_known and not d.settings:
        return both
    said = differing_text(d.settings) or "none but what the cells are called"
    return [
        *both,
        *([(line, "yellow" if d.settings else None)] for line in _wrapped(f"settings that differ: {said}", width)),
    ]


def _cell_document(cell: Difference) -> dict[str, Any]:
    return {
        "cell": cell.label,
        "a": _side_document(cell.a),
        "b": _side_document(cell.b),
        "difference": cell.estimate,
        "difference_pct": cell.relative_pct,
        "low": cell.interval.low if cell.interval else None,
        "high": cell.interval.high if cell.interval else None,
        "p": cell.p,
        "p_holm": cell.p_holm,
        "verdict": cell.verdict,
        "said": cell.said,
    }


def _side_document(sample: Sample | None) -> dict[str, Any] | None:
    if sample is None:
        return None
    return {
        "n": sample.n,
        "of": sample.kind,
        "value": sample.center,
        "min": float(sample.values.min()),
        "max": float(sample.values.max()),
    }


def _table_lines(table: DifferenceTable) -> Iterator[Line]:
    header = ["", "A", "B", "B - A", "95 % interval", "B - A, %", "p", "n", ""]
    rows = [_row(cell) for cell in table.cells]
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    yield [(table.metric.title, "bold")]
    yield [(_laid(header, widths), None)]
    for cell, row in zip(table.cells, rows, strict=True):
        yield [(_laid(row[:-1], widths), None), (" " * _GAP, None), (row[-1], _STYLES.get(cell.verdict))]


def _laid(cells: Sequence[str], widths: Sequence[int]) -> str:
    """The first and the last column begin at the left, the others end at the right."""
    padded = [
        cell.ljust(width) if i in (0, 8) else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=False))
    ]
    return (" " * _GAP).join(padded)


def _row(cell: Difference) -> list[str]:
    decimals = _decimals(cell)
    interval = MISSING
    if cell.interval is not None:
        interval = f"{_signed(cell.interval.low, decimals)}..{_signed(cell.interval.high, decimals)}"
    relative = _signed(cell.relative_pct, 1) if cell.relative_pct is not None else MISSING
    return [
        cell.label,
        _spread(cell.a, decimals),
        _spread(cell.b, decimals),
        _signed(cell.estimate, decimals) if cell.estimate is not None else MISSING,
        interval,
        relative,
        _p(cell.p_holm),
        f"{cell.a.n if cell.a else 0}/{cell.b.n if cell.b else 0}",
        cell.said,
    ]


def _spread(sample: Sample | None, decimals: int) -> str:
    if sample is None:
        return MISSING
    if sample.n == 1:
        return _plain(sample.center, decimals)
    ends = (_plain(float(end), decimals) for end in (sample.values.min(), sample.values.max()))
    return f"{_plain(sample.center, decimals)} ({'..'.join(ends)})"


def _plain(value: float, decimals: int) -> str:
    """With three significant digits, or those in which the difference is stated if these are more."""
    usual = sig(value)
    return usual if len(usual.partition(".")[2]) >= decimals else f"{value:.{decimals}f}"


def _signed(value: float, decimals: int) -> str:
    """`+0.08`; what rounds to nothing has no sign."""
    text = f"{value:+.{decimals}f}"
    return text if float(text) else text[1:]


def _decimals(cell: Difference) -> int:
    """Digits after the point that show two digits of the interval's width, or three of the difference.

    No more than five significant digits of A and B: what differs less is called 0.
    """
    sides = [sample for sample in (cell.a, cell.b) if sample is not None]
    largest = max((abs(sample.center) for sample in sides), default=0.0)
    most = 4 - math.floor(math.log10(largest)) if largest else 3
    width = cell.interval.high - cell.interval.low if cell.interval else 0.0
    width = width or (cell.estimate or 0.0) / 10
    wanted = 1 - math.floor(math.log10(abs(width))) if width else 0
    return max(0, min(9, most, wanted))


def _p(value: float | None) -> str:
    if value is None:
        return MISSING
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def summary_sentence(table: DifferenceTable) -> str:
    """What the cells of a metric come to, without claiming what too few repetitions cannot show."""
    n, name = len(table.cells), table.metric.name
    if len(table.having(NO_DIFFERENCE)) == n:
        return f"{name}: no difference{'' if n == 1 else f' in any of {n} cells'}"
    parts = [
        f"{words} {_in_cells(len(cells), n)}{_how_much(verdict, cells, table.tests)}"
        for verdict, words in _WORDS.items()
        if (cells := table.having(verdict))
    ]
    return f"{name}: {'; '.join(parts)}"


_WORDS = {
    LOWER: "B is lower",
    HIGHER: "B is higher",
    NO_DIFFERENCE: "no difference",
    UNCLEAR: "unclear",
    TOO_FEW: "too few repetitions to tell",
    EXACT: "exact for the seed, its spread not known,",
    NOT_COMPARED: "not compared",
}


def _in_cells(count: int, n: int) -> str:
    return f"in {count} of {n} cells" if n > 1 else "in the one cell"


def _how_much(verdict: str, cells: Sequence[Difference], tests: int) -> str:
    """` (v7 nrules=0 50us: -3.1 %)`, or a range when there are several; of unclear ones what chance gives."""
    if verdict == UNCLEAR:
        return f" (chance gives about {sig(ALPHA * tests, 2)} such)" if tests > 1 else ""
    sizes = [(cell.relative_pct, cell) for cell in cells if cell.relative_pct is not None]
    if not sizes or verdict not in (LOWER, HIGHER, EXACT):
        return ""
    low, high = min(sizes, key=lambda s: s[0]), max(sizes, key=lambda s: s[0])
    if low[0] == high[0] == 0:
        return " (equal)"
    if len(sizes) == 1:
        return f" ({low[1].label}: {_signed(low[0], 1)} %)"
    least, most = (f"{_signed(pct, 1)} % at {cell.label}" for pct, cell in (low, high))
    return f" ({least} to {most})"


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent="  ", break_on_hyphens=False)


def _method(d: Differences) -> Iterator[str]:
    cells = [cell for table in d.tables for cell in table.cells]
    kinds = {sample.kind for cell in cells for sample in (cell.a, cell.b) if sample is not None}
    tested = any(cell.p is not None for cell in cells)
    if tested and kinds != {BLOCKS}:
        yield (
            "B - A: Hodges-Lehmann estimate (median of all pairwise differences) with its 95 % interval from the"
            " distribution of U; in brackets min..max"
        )
    if tested and BLOCKS in kinds:
        yield (
            f"RTT: B - A over all pings, with a 95 % percentile bootstrap over blocks of consecutive pings"
            f" ({RESAMPLES} resamples, seed {BOOTSTRAP_SEED}), since neighbours waited in one queue;"
            " min..max, n and p are of blocks"
        )
    if tested:
        yield (f"p: Mann-Whitney U, two-sided{_family(d)}; no difference = 0 within the interval and p alone > 0.05")
    if PARTS in kinds or BLOCKS in kinds:
        yield "one run a side: its parts show how steady it was; how much runs differ from each other is not known"
    if any(cell.verdict == EXACT for cell in cells) or _virtual(d):
        yield (
            "virtual clock: a repetition has no noise; its difference is exact for the seed,"
            " its spread over seeds not known"
        )


def _virtual(d: Differences) -> bool:
    return d.a.of_runs and all(cell.virtual for side in (d.a, d.b) for cell in side.cells)


def _family(d: Differences) -> str:
    most = max(table.tests for table in d.tables)
    return f", adjusted (Holm) for the {most} cells of a table" if most > 1 else ""


def _listed(labels: Sequence[str]) -> str:
    shown = ", ".join(labels[:_LONGEST_LIST])
    return f"{shown} and {len(labels) - _LONGEST_LIST} more" if len(labels) > _LONGEST_LIST else shown
