"""How faults are worded: one printable line, what was found, what is allowed, and the nearest match."""

import math
from collections.abc import Iterable
from difflib import get_close_matches

LONGEST_SHOWN = 48


def printable(text: str) -> str:
    """`text` on one line: whatever a terminal would not print is escaped."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def shorten(text: str, longest: int = LONGEST_SHOWN) -> str:
    """At most `longest` characters of `text`, printable."""
    return printable(text if len(text) <= longest else text[: longest - 3] + "...")


def found(value: object) -> str:
    """A value as its author would recognise it: `text '3'`, `20`, `a list`, `null`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    if isinstance(value, int | float):
        return shorten(repr(value))
    if isinstance(value, str):
        return f"text '{shorten(value)}'"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    return f"a {type(value).__name__}"


def quoted(value: str) -> str:
    """`'x'`, shortened."""
    return f"'{shorten(value)}'"


def did_you_mean(wrong: str, allowed: Iterable[str]) -> str:
    """`, did you mean 'x'?` or nothing."""
    near = get_close_matches(wrong[:LONGEST_SHOWN].lower(), list(allowed), n=1, cutoff=0.6)
    return f", did you mean '{near[0]}'?" if near else ""


def allowed_list(allowed: Iterable[str]) -> str:
    """`allowed: a, b, c`."""
    return "allowed: " + ", ".join(allowed)
