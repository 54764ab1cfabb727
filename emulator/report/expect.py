"""`expect:` judged: each claim of a scenario against the summary, with what was found and where.

A path is dotted, by the names of the summary; `ping.loss`, `rtt.p99` and `goodput` are short for `ping_loss_pct`,
`rtt_ms.p99` and `goodput_pps`. The unit of a value is in the summary's name (`_ms`, `_us`, `_pps`, `_pct`, `_bytes`,
`_mb`); what is written in another unit of the same kind is converted. A value that is missing fails: nothing can be
said of it.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from emulator.errors import ExitCode
from emulator.report.codec import to_plain
from emulator.report.statistics import DISTRIBUTION_KEYS
from emulator.report.summary import severest
from emulator.scenario.expect import Expectation
from emulator.scenario.units import COUNTS, DURATIONS, RATES, SIZES

_ALIASES = {"ping.loss": "ping_loss_pct", "goodput": "goodput_pps"}
_ALIASED_GROUPS = {"rtt": "rtt_ms", "rtt_intended": "rtt_intended_ms"}
_BELOW_MISSING = {"rtt_ms": DISTRIBUTION_KEYS, "rtt_intended_ms": DISTRIBUTION_KEYS}

# kind of quantity: what its units are worth
_KINDS: dict[str, Mapping[str, float]] = {
    "duration": DURATIONS,
    "rate": RATES,
    "size": SIZES,
    "count": COUNTS,
    "share": {"%": 1},
}
# word in a summary's name: kind, and what one of it is worth in that kind's smallest unit
_NAMED: dict[str, tuple[str, float]] = {
    "ns": ("duration", 1),
    "us": ("duration", 1e3),
    "usecs": ("duration", 1e3),
    "ms": ("duration", 1e6),
    "s": ("duration", 1e9),
    "pps": ("rate", 1),
    "bytes": ("size", 1),
    "mb": ("size", 1e6),
    "pct": ("share", 1),
}


@dataclass(frozen=True)
class ExpectationResult:
    """One claim and what became of it."""

    path: str
    """in the summary, aliases resolved"""
    expected: str
    """as written: `rtt.p99 <= 3ms`"""
    ok: bool
    value: Any
    """what the summary holds; None when missing or unknown"""
    bound: int | float | bool | str | None
    """what was asked for, in the summary's unit; None when it has no meaning there"""
    message: str
    """one line: value, bound and where to look"""
    sensible: bool = True
    """False when no run could meet it: no such path, no value, or another kind of value"""


def evaluate(expectations: Iterable[Expectation], summary: Mapping[str, Any]) -> list[ExpectationResult]:
    """All claims of a scenario, in their order."""
    return [_evaluate(e, summary) for e in expectations]


def with_expectations(summary: Mapping[str, Any], results: list[ExpectationResult]) -> dict[str, Any]:
    """The summary with its `expectations`, and the exit code that follows from them."""
    codes = [summary["exit_code"], *(ExitCode.OK if r.ok else ExitCode.CHECK_FAILED for r in results)]
    failed = sum(not r.ok for r in results)
    verdict = summary["verdict"]
    if failed and verdict == "ok":
        verdict = f"{failed} of {len(results)} expectations failed"
    return {**summary, "expectations": to_plain(results), "verdict": verdict, "exit_code": severest(codes)}


def _evaluate(e: Expectation, summary: Mapping[str, Any]) -> ExpectationResult:
    path = resolve(e.path)
    found, value = _look_up(path, summary)
    if not found:
        return _senseless(path, e, None, _unknown(e.path, path, summary))
    if isinstance(value, Mapping | list):
        return _senseless(path, e, None, f"{path} is a group of values, not a value")
    try:
        bound, unit = _in_units_of(path, e)
    except ValueError as error:
        return _senseless(path, e, value, str(error))
    if value is None:
        return ExpectationResult(path, str(e), False, None, bound, f"{path} is missing (null): it was not measured")
    try:
        ok = _holds(e.op, value, bound)
    except TypeError:
        return _senseless(path, e, value, f"{path} is {_show(value)}, which cannot be compared with {_show(bound)}")
    message = f"{path} is {_show(value)}{unit}, expected {e.op} {_show(bound)}{unit}"
    return ExpectationResult(path, str(e), ok, value, bound, message)


def _senseless(path: str, e: Expectation, value: Any, message: str) -> ExpectationResult:
    return ExpectationResult(path, str(e), False, value, None, message, sensible=False)


def resolve(path: str) -> str:
    """The summary's own name for a path: `rtt.p99` is `rtt_ms.p99`."""
    if path in _ALIASES:
        return _ALIASES[path]
    first, dot, rest = path.partition(".")
    return _ALIASED_GROUPS.get(first, first) + dot + rest


def _look_up(path: str, summary: Mapping[str, Any]) -> tuple[bool, Any]:
    """(whether there is such a path, its value). Below a group that is null everything is null."""
    at: Any = summary
    names = path.split(".")
    for depth, name in enumerate(names):
        if at is None:
            known = _BELOW_MISSING.get(names[depth - 1])
            return known is None or name in known, None
        if isinstance(at, Mapping) and name in at:
            at = at[name]
        elif isinstance(at, list) and name.isdigit() and int(name) < len(at):
            at = at[int(name)]
        else:
            return False, None
    return True, at


def _unknown(written: str, path: str, summary: Mapping[str, Any]) -> str:
    known = sorted({*_paths(summary), *_ALIASES, *(f"rtt.{key}" for key in DISTRIBUTION_KEYS)})
    near = get_close_matches(written, known, n=3, cutoff=0.5) or get_close_matches(path, known, n=3, cutoff=0.5)
    group = written.rpartition(".")[0]
    near = near or [p for p in known if group and p.startswith(f"{group}.")][:6]
    hint = f"; close: {', '.join(near)}" if near else ""
    return f"'{written}' is not in the summary{hint}"


def _paths(at: Mapping[str, Any], prefix: str = "") -> Iterable[str]:
    for name, value in at.items():
        if isinstance(value, Mapping):
            yield from _paths(value, f"{prefix}{name}.")
        elif not isinstance(value, list):
            yield prefix + name


def _in_units_of(path: str, e: Expectation) -> tuple[int | float | bool | str, str]:
    """The expected value as the summary counts at `path`, and the name of that unit; ValueError if it cannot be."""
    word, kind, worth = _unit_of(path)
    suffix = {"pct": " %", "usecs": " us", "mb": " MB", "bytes": " B"}.get(word, f" {word}" if word else "")
    if not e.unit or isinstance(e.value, bool | str):
        return e.value, suffix
    if e.unit not in _KINDS[kind]:
        units = ", ".join(_KINDS[kind])
        raise ValueError(f"{path} is a {kind}, so it has no {e.unit}; allowed units: {units}")
    return e.value * _KINDS[kind][e.unit] / worth, suffix


def _unit_of(path: str) -> tuple[str, str, float]:
    """(word that names the unit, kind, worth), from the last name that says one; a count otherwise."""
    for name in reversed(path.split(".")):
        if name == "n":
            break
        for word in reversed(name.split("_")):
            if word in _NAMED and name != word:
                return word, *_NAMED[word]
    return "", "count", 1


def _holds(op: str, value: Any, bound: Any) -> bool:
    numbers = not isinstance(value, bool | str) and not isinstance(bound, bool | str)
    if isinstance(value, bool) != isinstance(bound, bool) or isinstance(value, str) != isinstance(bound, str):
        raise TypeError
    equal = bool(math.isclose(value, bound, rel_tol=1e-12) if numbers else value == bound)
    if op in ("==", "!="):
        return equal == (op == "==")
    if equal:
        return op in ("<=", ">=")
    return bool(value < bound if op in ("<", "<=") else value > bound)


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
