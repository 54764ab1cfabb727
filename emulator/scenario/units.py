"""Quantities: text with a unit in files and on screen, plain numbers inside.

    type         inside         in text
    DurationNs   int, ns        20s 100us 1.5ms 250ns 2min
    CostNs       float, ns      7.7ns 1us            (what a piece of work costs; fractions of a nanosecond count)
    SizeBytes    int, bytes     64B 1.5KiB 32MiB 10KB 1MB
    Packets      int, packets   256p or 256          (the field is a count, so a bare number is clear)
    RatePps      int, pkt/s     0pps 100kpps 1.5Mpps
    SharePpm     int, ppm       1% 0.25%

No bare number is a time, a size or a rate. What `duration()`, `size()` and the like return is the metadata of an
`Annotated` type: pydantic reads a field through its `parse` and writes it through its `text`, and the two are inverse
to each other.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from emulator.scenario.text import found

NS_PER_US = 1_000
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
PPM_PER_PERCENT = 10_000

DURATIONS = {"ns": 1, "us": NS_PER_US, "ms": NS_PER_MS, "s": NS_PER_S, "min": 60 * NS_PER_S}
SIZES = {"B": 1, "KiB": 1024, "MiB": 1024**2, "KB": 1000, "MB": 1000**2}
RATES = {"pps": 1, "kpps": 1000, "Mpps": 1000**2}
COUNTS = {"p": 1}

DQL_MAX_LIMIT = 1_879_048_192  # lib/dynamic_queue_limits.c: DQL_MAX_LIMIT

_QUANTITY = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,12})?)([A-Za-z%]+)")


FAULT = "emulator"  # the pydantic error type of ours; its context holds (key below the field or None, text) pairs


def fault(what: str) -> PydanticCustomError:
    """A validation error whose text is `what`, unchanged."""
    return PydanticCustomError(FAULT, "{what}", {"what": what, "parts": [(None, what)]})


def faults_below(parts: Sequence[tuple[str, str]]) -> PydanticCustomError:
    """One validation error for several keys of a mapping that is read as one value."""
    return PydanticCustomError(FAULT, "{what}", {"what": parts[0][1], "parts": list(parts)})


def split_quantity(text: str) -> tuple[Decimal, str] | None:
    """`1.5ms` as (1.5, "ms"); None if that is not its form."""
    match = _QUANTITY.fullmatch(text)
    return (Decimal(match[1]), match[2]) if match else None


def parse_duration_ns(text: str) -> int:
    """`100us` as nanoseconds; ValueError if it is not a duration."""
    return _whole(text, DURATIONS)


def parse_size_bytes(text: str) -> int:
    """`32MiB` as bytes; ValueError if it is not a size."""
    return _whole(text, SIZES)


def parse_rate_pps(text: str) -> int:
    """`100kpps` as packets a second; ValueError if it is not a rate."""
    return _whole(text, RATES)


def format_duration(ns: int) -> str:
    """Nanoseconds in the largest unit that keeps them whole: 100000 is `100us`."""
    return _largest_whole(ns, DURATIONS, "ns")


def format_size(n_bytes: int) -> str:
    """Bytes in the largest binary unit that keeps them whole: 1514 is `1514B`."""
    return _largest_whole(n_bytes, {"B": 1, "KiB": 1024, "MiB": 1024**2}, "B")


def format_rate(pps: int) -> str:
    """Packets a second in the largest unit that keeps them whole: 100000 is `100kpps`."""
    return _largest_whole(pps, RATES, "pps")


def format_packets(pkts: int) -> str:
    """`256p`."""
    return f"{pkts}p"


def format_cost(ns: float) -> str:
    """A cost in nanoseconds, exactly: 7.7 is `7.7ns`."""
    plain = format(Decimal(repr(float(ns))), "f")
    return (plain.rstrip("0").rstrip(".") if "." in plain else plain) + "ns"


def _whole(text: str, units: Mapping[str, int]) -> int:
    parts = split_quantity(text)
    if parts is None or parts[1] not in units:
        raise ValueError(f"'{text}' has none of the units {' '.join(units)}")
    value = parts[0] * units[parts[1]]
    if value != value.to_integral_value():
        raise ValueError(f"'{text}' is not a whole number of {next(iter(units))}")
    return int(value)


def _largest_whole(value: int, units: Mapping[str, int], smallest: str) -> str:
    if value == 0:
        return f"0{smallest}"
    unit = max((u for u, size in units.items() if value % size == 0 and u != "min"), key=lambda u: units[u])
    return f"{value // units[unit]}{unit}"


class AsText:
    """What pydantic needs to know of a field: `parse` reads it, `text` writes it."""

    def parse(self, value: object) -> Any:
        raise fault(f"{found(value)} cannot be read")

    def text(self, value: Any) -> Any:
        return value

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self.parse, serialization=core_schema.plain_serializer_function_ser_schema(self.text)
        )


@dataclass(frozen=True)
class Measured(AsText):
    """A whole number of the smallest of `units`, within [low, high]; `hint` is the unit suggested to who forgot one."""

    kind: str
    units: Mapping[str, int]
    show: Callable[[int], str]
    low: int
    high: int
    hint: str

    def parse(self, value: object) -> int:
        units = "units: " + " ".join(self.units)
        if isinstance(value, int | float) and not isinstance(value, bool):
            raise fault(f"{found(value)} has no unit; write {found(value)}{self.hint} ({units})")
        parts = split_quantity(value) if isinstance(value, str) else None
        if not isinstance(value, str) or parts is None or parts[1] not in self.units:
            raise fault(f"expected a {self.kind}, got {found(value)}; write e.g. 1{self.hint} ({units})")
        try:
            number = _whole(value, self.units)
        except ValueError as error:
            raise fault(f"{error}; {self._allowed()}") from None
        if not self.low <= number <= self.high:
            raise fault(f"{value} is out of range; {self._allowed()}")
        return number

    def text(self, value: int) -> str:
        return self.show(value)

    def _allowed(self) -> str:
        return f"allowed: {self.show(self.low)}..{self.show(self.high)}"


def duration(low: str = "0ns", high: str = "1440min", hint: str = "s") -> Measured:
    """A duration in nanoseconds, within [low, high]."""
    return Measured("duration", DURATIONS, format_duration, _whole(low, DURATIONS), _whole(high, DURATIONS), hint)


def size(low: str, high: str) -> Measured:
    """A size in bytes, within [low, high]."""
    return Measured("size", SIZES, format_size, _whole(low, SIZES), _whole(high, SIZES), "B")


def rate(low: str, high: str) -> Measured:
    """A rate in packets a second, within [low, high]."""
    return Measured("rate", RATES, format_rate, _whole(low, RATES), _whole(high, RATES), "pps")


@dataclass(frozen=True)
class OrWord(AsText):
    """Another field's values, or one word that stands for None: `off`, `max`."""

    word: str
    field: Measured

    def parse(self, value: object) -> int | None:
        if value == self.word:
            return None
        try:
            return int(self.field.parse(value))
        except PydanticCustomError as error:
            raise fault(f"{error}, or '{self.word}'") from None

    def text(self, value: int | None) -> str:
        return self.word if value is None else self.field.text(value)


@dataclass(frozen=True)
class whole(AsText):  # noqa: N801  reads as a type: Annotated[int, whole(1, 8)]
    """A whole number within [low, high], in nothing but itself."""

    low: int
    high: int

    def parse(self, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise fault(f"expected a whole number, got {found(value)}; allowed: {self.low}..{self.high}")
        if not self.low <= value <= self.high:
            raise fault(f"{found(value)} is out of range; allowed: {self.low}..{self.high}")
        return value


@dataclass(frozen=True)
class packets(AsText):  # noqa: N801
    """A count of packets within [low, high]: `256` or `256p`."""

    low: int
    high: int

    def parse(self, value: object) -> int:
        allowed = f"allowed: {self.low}p..{self.high}p"
        if isinstance(value, str):
            try:
                value = _whole(value, COUNTS)
            except ValueError:
                raise fault(f"expected a count of packets, got {found(value)}; {allowed}") from None
        if isinstance(value, bool) or not isinstance(value, int):
            raise fault(f"expected a count of packets, got {found(value)}; {allowed}")
        if not self.low <= value <= self.high:
            raise fault(f"{found(value)} is out of range; {allowed}")
        return value

    def text(self, value: int) -> str:
        return format_packets(value)


@dataclass(frozen=True)
class Cost(AsText):
    """What a piece of work takes: nanoseconds, fractions included, at most a second."""

    def parse(self, value: object) -> float:
        units = "units: ns us ms; allowed: 0ns..1s"
        if isinstance(value, int | float) and not isinstance(value, bool):
            raise fault(f"{found(value)} has no unit; write {found(value)}ns ({units})")
        parts = split_quantity(value) if isinstance(value, str) else None
        if parts is None or parts[1] not in ("ns", "us", "ms", "s"):
            raise fault(f"expected a cost, got {found(value)}; write e.g. 7.7ns ({units})")
        ns = float(parts[0] * DURATIONS[parts[1]])
        if ns > NS_PER_S:
            raise fault(f"{value} is out of range; allowed: 0ns..1s")
        return ns

    def text(self, value: float) -> str:
        return format_cost(value)


@dataclass(frozen=True)
class Share(AsText):
    """A share of something, in parts per million; in text in percent."""

    def parse(self, value: object) -> int:
        parts = split_quantity(value) if isinstance(value, str) else None
        if parts is None or parts[1] != "%":
            raise fault(f"expected a share, got {found(value)}; write e.g. 1% (allowed: 0%..100%)")
        ppm = parts[0] * PPM_PER_PERCENT
        if ppm > 100 * PPM_PER_PERCENT or ppm != int(ppm):
            raise fault(f"{value} is out of range; allowed: 0%..100%, at most four decimals")
        return int(ppm)

    def text(self, value: int) -> str:
        return f"{Decimal(value) / PPM_PER_PERCENT:f}%"


DurationNs = Annotated[int, duration()]
CostNs = Annotated[float, Cost()]
SizeBytes = Annotated[int, size("0B", "1024MiB")]
SharePpm = Annotated[int, Share()]
Packets = Annotated[int, packets(0, 1_000_000)]
RatePps = Annotated[int, rate("0pps", "1000Mpps")]
