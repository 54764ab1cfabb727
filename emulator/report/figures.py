"""Numbers as text: three significant digits, a unit, no locale, and `-` for what is missing."""

import math

MISSING = "-"


def sig(value: float | None, digits: int = 3) -> str:
    """At least `digits` significant digits, never an exponent: 22.4, 2.20, 0.136, 1650."""
    if value is None or not math.isfinite(value):
        return MISSING
    if value == 0:
        return "0"
    decimals = _decimals(value, digits)
    return f"{value:.{_decimals(round(value, decimals) or value, digits)}f}"


def _decimals(value: float, digits: int) -> int:
    return min(9, max(0, digits - 1 - math.floor(math.log10(abs(value)))))


def count(value: float | None) -> str:
    """A whole number, or `-`."""
    return MISSING if value is None else str(round(value))


def percent(value: float | None) -> str:
    """`4.2`, `0`, `0.04`; at most two decimals, but what is not 0 never reads 0."""
    if value is None:
        return MISSING
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return sig(value, 1) if text in ("0", "-0") and value else text


RATES = ((1e6, "Mpps"), (1e3, "kpps"), (1.0, "pps"))


def rate_scale(*pps: float | None) -> tuple[float, str]:
    """(divisor, unit) that suits the largest of several rates."""
    largest = max((p for p in pps if p is not None), default=0.0)
    return next((scale for scale in RATES if largest >= scale[0]), RATES[-1])


def rate(pps: float | None) -> str:
    """`10.0 kpps`."""
    if pps is None:
        return MISSING
    divisor, unit = rate_scale(pps)
    return f"{sig(pps / divisor)} {unit}"


def ms(value: float | None) -> str:
    """`22.4 ms`."""
    return MISSING if value is None else f"{sig(value)} ms"


def duration_ns(ns: float) -> str:
    """As tc prints a time: `5ms`, `100us`, `1.5s`."""
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if ns >= size:
            return f"{ns / size:.3f}".rstrip("0").rstrip(".") + unit
    return f"{ns:g}ns"


def wait(seconds: float) -> str:
    """A wait as its reader takes it in, rounded up: `45 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = math.ceil(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def size_bytes(n: int) -> str:
    """As tc prints a size: `32Mb`, `64Kb`, `1514b`."""
    for size, unit in ((1 << 20, "Mb"), (1 << 10, "Kb")):
        if n >= size and n % size == 0:
            return f"{n // size}{unit}"
    return f"{n}b"


def plural(n: int, noun: str) -> str:
    """`1 timeout`, `2 timeouts`."""
    return f"{n} {noun}{'' if n == 1 else 's'}"
