"""Quantities in text and inside."""

import pytest
from pydantic import TypeAdapter, ValidationError

from emulator.scenario import units
from emulator.scenario.units import CostNs, DurationNs, Packets, RatePps, SizeBytes


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (DurationNs, "0ns", 0),
        (DurationNs, "250ns", 250),
        (DurationNs, "100us", 100_000),
        (DurationNs, "1.5ms", 1_500_000),
        (DurationNs, "20s", 20_000_000_000),
        (DurationNs, "2min", 120_000_000_000),
        (SizeBytes, "64B", 64),
        (SizeBytes, "1.5KiB", 1536),
        (SizeBytes, "32MiB", 33_554_432),
        (SizeBytes, "10KB", 10_000),
        (SizeBytes, "1MB", 1_000_000),
        (Packets, "256p", 256),
        (Packets, 256, 256),
        (RatePps, "0pps", 0),
        (RatePps, "100kpps", 100_000),
        (RatePps, "1.5Mpps", 1_500_000),
        (CostNs, "7.7ns", 7.7),
        (CostNs, "76.355us", 76355.0),
    ],
)
def test_reads(kind: type, text: object, value: float) -> None:
    adapter = TypeAdapter(kind)
    assert adapter.validate_python(text) == value
    assert adapter.validate_python(adapter.dump_python(value)) == value  # and what it writes reads back


@pytest.mark.parametrize(
    ("kind", "value", "says"),
    [
        (DurationNs, 20, "write 20s"),
        (DurationNs, 0, "write 0s"),
        (DurationNs, 1.5, "write 1.5s"),
        (DurationNs, True, "expected a duration, got true"),
        (DurationNs, "20", "expected a duration, got text '20'"),
        (DurationNs, "20 s", "expected a duration"),
        (DurationNs, "-1s", "expected a duration"),
        (DurationNs, "20S", "expected a duration"),
        (DurationNs, "1e3s", "expected a duration"),
        (DurationNs, "20m", "units: ns us ms s min"),
        (DurationNs, "0.5ns", "not a whole number of ns"),
        (DurationNs, "99999999min", "out of range; allowed: 0ns..86400s"),
        (DurationNs, None, "got null"),
        (DurationNs, [1], "got a list"),
        (SizeBytes, 64, "write 64B"),
        (SizeBytes, "64b", "units: B KiB MiB KB MB"),
        (SizeBytes, "0.5B", "not a whole number of B"),
        (Packets, "256", "expected a count of packets"),
        (Packets, "1.5p", "expected a count of packets"),
        (Packets, -1, "out of range"),
        (Packets, True, "got true"),
        (Packets, 3.0, "got 3.0"),
        (RatePps, 100, "write 100pps"),
        (RatePps, "1k", "units: pps kpps Mpps"),
        (CostNs, 7.7, "write 7.7ns"),
        (CostNs, float("nan"), ".nan"),
        (CostNs, "2s", "allowed: 0ns..1s"),
    ],
)
def test_refuses(kind: type, value: object, says: str) -> None:
    with pytest.raises(ValidationError) as error:
        TypeAdapter(kind).validate_python(value)
    assert says in error.value.errors()[0]["msg"]


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0, "0ns"), (1, "1ns"), (1500, "1500ns"), (100_000, "100us"), (60_000_000_000, "60s"), (1_500_000_000, "1500ms")],
)
def test_durations_are_written_in_the_largest_whole_unit(ns: int, text: str) -> None:
    assert units.format_duration(ns) == text
    assert units.parse_duration_ns(text) == ns


def test_costs_are_written_exactly_and_without_exponent() -> None:
    assert units.format_cost(7.7) == "7.7ns"
    assert units.format_cost(1e-7) == "0.0000001ns"
    assert units.format_cost(76355) == "76355ns"
    assert units.format_cost(100) == "100ns"


@pytest.mark.parametrize("parse", [units.parse_duration_ns, units.parse_size_bytes, units.parse_rate_pps])
def test_parsers_raise_value_error(parse) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="none of the units"):
        parse("12parsec")
