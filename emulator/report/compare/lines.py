"""Lines of text with colours, which only a terminal shows: without them every word is still there."""

import os
import shutil
from collections.abc import Iterable, Sequence
from typing import IO

Piece = tuple[str, str | None]
"""(text, style of rich)"""
Line = Sequence[Piece]

NARROWEST, WIDEST, WHEN_PIPED = 80, 120, 100


def plain(line: Line) -> str:
    """The words of a line."""
    return "".join(text for text, _style in line).rstrip()


def width_of(stream: IO[str]) -> int:
    """Columns that a table may take."""
    if not stream.isatty():
        return WHEN_PIPED
    return min(WIDEST, max(NARROWEST, shutil.get_terminal_size().columns))


def print_lines(lines: Iterable[Line], stream: IO[str]) -> None:
    """In colours on a terminal, unless NO_COLOR asks for none."""
    if not stream.isatty() or os.environ.get("NO_COLOR"):
        stream.writelines(f"{plain(line)}\n" for line in lines)
        stream.flush()
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, highlight=False)
    for line in lines:
        text = Text()
        for words, style in line:
            text.append(words, style=style or "")
        console.print(text, soft_wrap=True)
