"""How results were made, as lines above their tables and in the JSON document."""

from typing import Any

from emulator.report.compare.lines import Line
from emulator.report.compare.settings import Settings


def settings_lines(settings: Settings, name: str = "") -> list[Line]:
    """One line, and behind it what is wrong with the timing; nothing when nothing is known."""
    if not settings.line and not settings.trouble:
        return []
    line = f"{f'{name}: ' if name else ''}{settings.line}"
    separator = "; " if settings.line else ""
    return [[(line, None), *([(f"{separator}{settings.trouble}", "yellow")] if settings.trouble else [])]]


def settings_document(settings: Settings) -> dict[str, Any]:
    """Plain JSON values."""
    return {"said": settings.line, "timing": dict(settings.timing)}
