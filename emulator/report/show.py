"""A run's document as a user reads it: each variant, the table, and the sentence that says what was seen."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

from emulator.report.table import comparison_rich, comparison_text, legend
from emulator.report.tc import WIDTH
from emulator.report.text import variant_text

if TYPE_CHECKING:
    from rich.console import Console


def report_text(document: Mapping[str, Any]) -> str:
    """Plain text in 80 columns, ending in a newline."""
    variants = document["variants"]
    parts = [variant_text(s) for s in variants]
    if len(variants) > 1:
        parts.append(comparison_text(variants))
    parts.append(_seen(document))
    return "\n".join(parts)


def print_report(document: Mapping[str, Any], stream: IO[str]) -> None:
    """On a terminal with colours, anywhere else as plain text. Both say the same."""
    if not stream.isatty():
        stream.write(report_text(document))
        stream.flush()
        return
    from rich.console import Console

    _print_rich(document, Console(file=stream, highlight=False))


def _print_rich(document: Mapping[str, Any], console: Console) -> None:
    variants = document["variants"]
    for s in variants:
        for line in variant_text(s).splitlines():
            console.print(line, style=_style(line), markup=False, soft_wrap=True)
        console.print()
    if len(variants) > 1:
        _print_comparison(variants, console)
        console.print()
    console.print(_seen(document).rstrip("\n"), style="bold", markup=False, soft_wrap=True)


def _print_comparison(variants: Sequence[Mapping[str, Any]], console: Console) -> None:
    """As one table where it fits; otherwise in blocks, as plain text has it."""
    table = comparison_rich(variants)
    if console.measure(table).maximum <= console.width:
        console.print(table)
        console.print(legend(variants), end="", markup=False, soft_wrap=True)
    else:
        console.print(comparison_text(variants), end="", markup=False, soft_wrap=True)


def _style(line: str) -> str | None:
    if line.startswith("=="):
        return "bold"
    if "FAILED" in line or line.startswith(("INCOMPLETE", "KERNEL FAULT")):
        return "red"
    return "yellow" if line.startswith(("warning", "timing: poor", "timing: fair")) else None


def _seen(document: Mapping[str, Any]) -> str:
    return textwrap.fill(document["seen"], WIDTH, break_on_hyphens=False) + "\n"
