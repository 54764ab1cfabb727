"""Expectations taken apart."""

import pytest

from emulator.scenario.expect import parse_expectation


@pytest.mark.parametrize(
    ("raw", "op", "value", "unit"),
    [
        (0, "==", 0, ""),
        (1.5, "==", 1.5, ""),
        (True, "==", True, ""),
        ("<= 3ms", "<=", 3, "ms"),
        (">=3ms", ">=", 3, "ms"),
        ("> 4.5Mpps", ">", 4.5, "Mpps"),
        ("< 1%", "<", 1, "%"),
        ("== 17p", "==", 17, "p"),
        ("!= 0", "!=", 0, ""),
        ("17", "==", 17, ""),
        (">= -2", ">=", -2, ""),
        ("good", "==", "good", ""),
        ("!= poor", "!=", "poor", ""),
        ("true", "==", True, ""),
    ],
)
def test_forms(raw: object, op: str, value: object, unit: str) -> None:
    e = parse_expectation("bql.limit_p50", raw)
    assert (e.path, e.op, e.value, e.unit, e.raw) == ("bql.limit_p50", op, value, unit, raw)
    assert type(e.value) is type(value)
