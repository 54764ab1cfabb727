"""Expectations against a summary: units, missing values, unknown paths."""

import pytest

from emulator.errors import ExitCode
from emulator.report.blank import blank_measurement, senseless
from emulator.report.expect import evaluate, with_expectations
from emulator.report.summary import summarise
from emulator.scenario.expect import parse_expectation


@pytest.fixture
def summary():
    s = summarise(blank_measurement())
    s["rtt_ms"] = {"min": 1.0, "avg": 2.2, "p50": 2.2, "p99": 2.6, "max": 3.0, "mdev": 0.1, "n": 500}
    return s | {"goodput_pps": 10_000.0, "ping_loss_pct": 0.2, "memory_mb": 512.0}


def judge(summary, path, raw):
    return evaluate([parse_expectation(path, raw)], summary)[0]


@pytest.mark.parametrize(
    ("path", "raw", "ok"),
    [
        ("rtt.p99", "<= 3ms", True),
        ("rtt.p99", "<= 2600us", True),
        ("rtt.p99", "< 2600us", False),
        ("rtt.p99", "<= 2599us", False),
        ("rtt_ms.avg", ">= 2200000ns", True),
        ("rtt_intended.avg", "== 1s", True),
        ("goodput", "> 9kpps", True),
        ("goodput", "> 0.01Mpps", False),
        ("goodput", ">= 0.01Mpps", True),
        ("goodput.n", "== 10", True),
        ("ping.loss", "<= 0.2%", True),
        ("ping.loss", 0, False),
        ("watchdog.timeouts", 0, True),
        ("watchdog.timeouts", "!= 0", False),
        ("bql.tx_usecs", "== 0.1ms", True),
        ("bql.limit_p50", "== 1p", True),
        ("bql.interval_us_p50", "<= 1ns", True),
        ("bql.polled.n", "== 21", True),
        ("memory_mb", "<= 700MB", True),
        ("memory_mb", "<= 100MiB", False),
        ("qdisc.sent_bytes", "== 64B", True),
        ("timing.verdict", "good", True),
        ("timing.verdict", "!= poor", True),
        ("timing.verdict", "fair", False),
        ("identities.ok", True, True),
        ("identities.ok", "false", False),
        ("flows.0.duplicates", 0, True),
    ],
)
def test_what_holds(summary, path, raw, ok):
    result = judge(summary, path, raw)
    assert result.ok is ok, result
    assert result.sensible


def test_a_failure_says_value_bound_and_where(summary):
    result = judge(summary, "rtt.p99", "<= 1500us")
    assert result.message == "rtt_ms.p99 is 2.6 ms, expected <= 1.5 ms"
    assert (result.path, result.value, result.bound) == ("rtt_ms.p99", 2.6, 1.5)


def test_large_counts_are_told_apart(summary):
    summary["qdisc"]["sent"] = 1_000_000_001
    assert not judge(summary, "qdisc.sent", "== 1000000000").ok


@pytest.mark.parametrize("path", ["rtt.p99", "rtt_ms.avg"])
def test_what_was_not_measured_fails(summary, path):
    result = judge(summary | {"rtt_ms": None}, path, "<= 3s")
    assert not result.ok
    assert "missing" in result.message


def test_a_wrong_name_below_what_was_not_measured_is_still_wrong(summary):
    result = judge(summary | {"rtt_ms": None}, "rtt.p98", "<= 3s")
    assert not result.sensible
    assert "rtt.p99" in result.message


@pytest.mark.parametrize(
    ("path", "raw", "says"),
    [
        ("ping.lss", 0, "ping.loss"),
        ("watchdog.timeout", 0, "watchdog.timeouts"),
        ("bql.limitp50", "16p", "bql.limit_p50"),
        ("bql", "16p", "group"),
        ("ping.loss", "<= 3ms", "allowed units: %"),
        ("rtt.p99", "<= 3p", "allowed units: ns, us, ms, s, min"),
        ("timing.verdict", "<= 3p", "cannot be compared"),
        ("identities.ok", 1, "cannot be compared"),
        ("bql.limit_p50", "good", "cannot be compared"),
    ],
)
def test_what_no_run_could_meet_is_known_before_it(summary, path, raw, says):
    result = judge(summary, path, raw)
    assert not result.ok
    assert not result.sensible
    assert says in result.message
    found = senseless([parse_expectation(path, raw), parse_expectation("ping.loss", 0)], "fq_codel")
    assert [p for p, _ in found] == [path]


def test_what_a_qdisc_counts_depends_on_its_kind():
    claim = [parse_expectation("qdisc.drop_overlimit", 0)]
    assert senseless(claim, "fq_codel") == []
    assert len(senseless(claim, "pfifo")) == 1


def test_all_failures_are_listed_and_decide_the_exit_code(summary):
    claims = [parse_expectation(p, raw) for p, raw in (("ping.loss", 0), ("rtt.p99", "<= 3ms"), ("goodput", "> 1Mpps"))]
    judged = with_expectations(summary, evaluate(claims, summary))
    assert [r["ok"] for r in judged["expectations"]] == [False, True, False]
    assert judged["exit_code"] == ExitCode.CHECK_FAILED
    assert summary["expectations"] == []


def test_a_dead_agent_is_worse_than_a_failed_expectation(summary):
    judged = with_expectations(summary | {"exit_code": 3}, evaluate([parse_expectation("ping.loss", 0)], summary))
    assert judged["exit_code"] == ExitCode.AGENT_FAILED
