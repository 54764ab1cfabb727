"""Expectations: `expect: {ping.loss: 0, rtt.p99: <= 3ms}` turns a run into a test.

The left side is a dotted path into the summary, the right side a value, or an operator and a value. What a path
means, and in which unit the summary holds it, is the report's affair: here the text is taken apart and checked for
form only.
"""

import re
from dataclasses import dataclass
from typing import Any, Literal

from pydantic_core import PydanticCustomError

from emulator.scenario.text import allowed_list, did_you_mean, found, shorten
from emulator.scenario.units import COUNTS, DURATIONS, RATES, SIZES, AsText, fault, faults_below, split_quantity

Operator = Literal["==", "!=", "<=", ">=", "<", ">"]
UNITS = (*DURATIONS, *SIZES, *COUNTS, *RATES, "%")

_PATH = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)*")
_CLAIM = re.compile(r"(==|!=|<=|>=|<|>)?\s*(-?)(.+)")
_NUMBER = re.compile(r"[0-9]{1,20}(\.[0-9]{1,12})?")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_. -]{0,63}")
_TIMES = re.compile(r"rtt\.(min|avg|p[0-9]+|max)")


@dataclass(frozen=True)
class Expectation:
    """`path op value`, with the value as it was written."""

    path: str
    """dotted path into the summary"""
    op: Operator
    value: int | float | bool | str
    """a number in `unit`, a truth, or a word (`fair`)"""
    unit: str
    """as written: `ms`, `p`, `%`, ...; empty if there is none"""
    raw: str | int | float | bool
    """what stood in the file"""

    def __str__(self) -> str:
        return f"{self.path} {self.op} {self.value}{self.unit}"


@dataclass(frozen=True)
class Expectations(AsText):
    """Reads the mapping of `expect:`."""

    def parse(self, value: object) -> tuple[Expectation, ...]:
        if not isinstance(value, dict):
            raise fault(f"expected a mapping, got {found(value)}; write e.g. {{ping.loss: 0}}")
        good: list[Expectation] = []
        bad: list[tuple[str, str]] = []
        for path, raw in value.items():
            try:
                good.append(parse_expectation(path, raw))
            except PydanticCustomError as error:
                bad.append((path, str(error)))
        if bad:
            raise faults_below(bad)
        return tuple(good)

    def text(self, value: tuple[Expectation, ...]) -> dict[str, Any]:
        return {e.path: e.raw for e in value}


def parse_expectation(path: str, raw: object) -> Expectation:
    """One expectation; a validation error if its form is wrong."""
    if not _PATH.fullmatch(path):
        raise fault(f"'{shorten(path)}' is not a path into the summary; write e.g. rtt.p99")
    if isinstance(raw, bool):
        return Expectation(path, "==", raw, "", raw)
    if isinstance(raw, int | float):
        _finite(raw)
        _needs_unit(path, str(raw))
        return Expectation(path, "==", raw, "", raw)
    match = _CLAIM.fullmatch(raw) if isinstance(raw, str) else None
    if match is None or not isinstance(raw, str):
        raise fault(f"expected a value or '<op> value', got {found(raw)}; write e.g. '<= 3ms'")
    op: Any = match[1] or "=="
    number, unit = _value(match[3])
    if isinstance(number, str):
        if match[2] or op not in ("==", "!="):
            raise fault(f"{found(raw)} compares a word; allowed: == !=, or a number with its unit")
        return Expectation(path, op, {"true": True, "false": False}.get(number, number), "", raw)
    if not unit:
        _needs_unit(path, match[3])
    return Expectation(path, op, -number if match[2] else number, unit, raw)


def _value(text: str) -> tuple[int | float | str, str]:
    if _NUMBER.fullmatch(text):
        return (float(text) if "." in text else int(text)), ""
    parts = split_quantity(text)
    if parts is not None:
        number, unit = parts
        if unit not in UNITS:
            raise fault(f"unknown unit '{shorten(unit)}'{did_you_mean(unit, UNITS)}; {allowed_list(UNITS)}")
        return (int(number) if number == number.to_integral_value() else float(number)), unit
    if _WORD.fullmatch(text):
        return text, ""
    raise fault(f"'{shorten(text)}' is not a value; write e.g. 0, '<= 3ms', '> 4Mpps', fair")


def _finite(value: float) -> None:
    if value != value or value in (float("inf"), float("-inf")):
        raise fault(f"{found(value)} is not a value; write a finite number")


def _needs_unit(path: str, text: str) -> None:
    if _TIMES.fullmatch(path):
        raise fault(f"{shorten(text)} has no unit; write e.g. '<= {shorten(text)}ms'")
