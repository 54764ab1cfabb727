"""What is printed, to the letter: a variant's block, the table, and the whole report."""

import io
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from emulator.report.blank import blank_agent, blank_measurement, blank_qdisc, blank_txq, one_value
from emulator.report.document import document_json, run_document
from emulator.report.expect import evaluate, with_expectations
from emulator.report.figures import duration_ns, percent, rate, sig, size_bytes
from emulator.report.measurement import (
    FlowCount,
    IdentityCheck,
    NapiCount,
    Probes,
    QdiscCount,
    RingCount,
    TimingVerdict,
    VariantMeasurement,
)
from emulator.report.show import print_report, report_text
from emulator.report.summary import summarise
from emulator.report.table import comparison_text, headers, rows
from emulator.report.tc import qdisc_lines
from emulator.report.text import variant_text
from emulator.scenario.expect import parse_expectation

MS = 1_000_000
FQ_CODEL = {
    "limit": 10240, "flows": 1024, "quantum": 1514, "target": 5 * MS, "interval": 100 * MS,
    "memory_limit": 32 << 20, "drop_batch": 64, "ecn": True, "ce_threshold": None,
}  # fmt: skip


def measured(name: str, bql: str, rtt_ms: float, ring: int, **changes) -> VariantMeasurement:
    """Twenty seconds of flood and ping, all of it smooth."""
    sent = (1000 + 20 * np.arange(1000, dtype=np.int64)) * MS
    rtt = (rtt_ms * MS * np.linspace(0.9, 1.1, 1000)).astype(np.int64)
    received = np.where(np.arange(1000) == 10, 0, sent + rtt) if bql == "off" else sent + rtt
    t = np.linspace(0, 20, 201)
    on = bql != "off"
    return replace(
        blank_measurement(name, bql=bql),
        duration_s=20.0,
        flows=[
            FlowCount(0, "flood 0", 260_000, 209_000, 200_000 if on else 199_200, 20.0, {"QDISC_OVERLIMIT": 51_000}),
            FlowCount(1, "ping request", 1000, 999 if bql == "off" else 1000, 1000, 20.0, {"QDISC_CONGESTED": 1}),
        ],
        probes=Probes(sent - MS // 10, sent, received, observed_until_ns=10**12, grace_ns=0),
        qdiscs=[
            QdiscCount(
                "veth0",
                "fq_codel",
                "8001:",
                "root",
                enqueued=260_000,
                sent_packets=209_256,
                sent_bytes=13_392_384,
                dropped=51_000,
                overlimits=0,
                requeues=3265 if bql == "off" else 17,
                backlog_packets=0,
                backlog_bytes=0,
                options=FQ_CODEL,
                extras={
                    "maxpacket": 98,
                    "drop_overlimit": 51_000,
                    "new_flow_count": 1000,
                    "ecn_mark": 0,
                    "memory_used": 7_864_320,
                    "new_flows_len": 0,
                    "old_flows_len": 1,
                },
            )
        ],
        txqs=[
            replace(
                blank_txq(bql),
                limit=16,
                limit_hist=one_value(16, 26_000),
                inflight_hist=one_value(17, 26_000),
                count_hist=one_value(8, 26_000),
                interval_hist=one_value(100, 26_000),
                drv_xoff=0 if on else 3265,
                drv_wake=0 if on else 3265,
                stack_xoff=26_001 if on else 0,
                stack_wake=26_000 if on else 0,
            )
        ],
        rings=[RingCount("veth1", 0, 256, 0, 0)],
        napis=[NapiCount("veth1", 0, 3300, 209_000, 3200, 12, one_value(64, 3300), 26_125)],
        agents=[blank_agent(role) for role in ("flood", "ping", "napi", "watchdog")],
        identities=[IdentityCheck("per qdisc", True, 260_000, 260_000), IdentityCheck("pool", True, 65535, 65535)],
        timing=TimingVerdict("fair", ["steal 12.0 ms", "longest duty cycle 1200 us"], 12.0, 30, 1200.0, 0, 2, 2, 0.4),
        series={
            "t_s": t,
            "limit": np.full(201, 16.0),
            "inflight": np.full(201, 15.0),
            "ring": np.full(201, float(ring)),
            "backlog": np.full(201, 100.0),
            "received": (10_000 if on else 9960) * t,
        },
        memory_mb=412.3,
        start_to_first_packet_s=1.234,
        **changes,
    )


def summaries(*changed):
    return [summarise(m) for m in (measured("stock", "off", 22.4, 240), measured("v7", "v7", 2.2, 16), *changed)]


STOCK = """\
== stock: BQL off, fq_codel, 20.0 s measured, real clock =======================
(counters: since the start, warm-up included; all else: of the time measured)
qdisc fq_codel 8001: dev veth0 root limit 10240p flows 1024 quantum 1514 target
  5ms interval 100ms memory_limit 32Mb ecn drop_batch 64
 Sent 13392384 bytes 209256 pkt (dropped 51000, overlimits 0 requeues 3265)
 backlog 0b 0p requeues 3265
  maxpacket 98 drop_overlimit 51000 new_flow_count 1000 ecn_mark 0 memory_used
  7864320
  new_flows_len 0 old_flows_len 1
--- veth1 ping statistics ---
1000 packets transmitted, 999 received, 0.1% packet loss
rtt min/avg/p50/p99/max = 20.160/22.402/22.402/24.600/24.640 ms (n=999)
  mdev 1.293 ms; from the intended send avg/p50/p99/max =
  22.502/22.502/24.700/24.740 ms
veth0 byte_queue_limits: off
ring of veth1: 256 entries; occupied p50 240 max 240 (polled, n=201); DRV_XOFF
  set 3265 times, woken 3265
napi of veth1: 3300 polls, 209000 packets, p50 64 a poll; 3200 used the whole
  weight, 12 missed, 26125 GRO flushes
goodput 9.96 kpps (min/mean/max 9.96/9.96/9.96 kpps over n=10 parts of 2.00 s)
flood 0: sent 260000, received 209000; QDISC_OVERLIMIT 51000
ping request: sent 1000, received 999; QDISC_CONGESTED 1
watchdog: 0 transmit timeouts
identities: all 3 hold
timing: fair - steal 12.0 ms; longest duty cycle 1200 us
process: 412 MB, start to first packet 1.23 s, 4 agents
"""

V7_BQL = """\
veth0 byte_queue_limits: limit 16 inflight 0 stall_cnt 0; STACK_XOFF set 26001
  times, cleared by completion 26000
  every completion (n=26000): limit p50 16 (16..16), in flight p50 17 max 17, 8
    packets each (mean 8.00), every 0.100 us
  polled as sysfs (n=201): limit p50 16, in flight p50 15 max 15
"""


def test_a_variant_to_the_letter():
    assert variant_text(summaries()[0]) == STOCK


def test_bql_has_both_views_to_the_letter():
    assert V7_BQL in variant_text(summaries()[1])
    assert variant_text(summaries()[1]).startswith(
        "== v7: BQL v7, tx-usecs 100, fq_codel, 20.0 s measured, real clock ==="
    )


COMPARED = """\
                                     stock                 v7
goodput, kpps                         9.96               10.0
  min..max of its parts  9.96..9.96 (n=10)  10.0..10.0 (n=10)
RTT avg, ms                   22.4 (n=999)      2.20 (n=1000)
RTT p50, ms                           22.4               2.20
RTT p99, ms                           24.6               2.42
RTT max, ms                           24.6               2.42
ping loss, %                  0.1 (1/1000)         0 (0/1000)
BQL limit p50, pkts                      -                 16
in flight p50/max, pkts                  -              17/17
ring p50/max, entries              240/240              16/16
STACK_XOFF, times                        0              26001
DRV_XOFF, times                       3265                  0
qdisc requeues                        3265                 17
qdisc dropped, pkts                  51000              51000
watchdog timeouts                        0                  0
timing                                fair               fair
(XOFF, requeues, dropped and timeouts count from the start, warm-up included)
"""


def test_variants_side_by_side_to_the_letter():
    assert comparison_text(summaries()) == COMPARED


@pytest.mark.parametrize("variants", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("name", ["v{}", "{} a name of some length, with details"])
def test_no_line_is_wider_than_a_terminal(variants, name):
    many = [summarise(measured(name.format(i), "v7", 2.2, 16)) for i in range(variants)]
    text = report_text(run_document(many, scenario={}, host={}, command_line=[]))
    titles = [line for line in text.splitlines() if line.startswith("==")]  # the name is never cut there
    assert len(titles) == variants
    assert max(len(line) for line in text.splitlines() if line not in titles) <= 80
    assert all(str(s["name"]) in text for s in many)


def test_three_variants_stand_side_by_side_and_a_fourth_below():
    assert comparison_text(summaries(measured("v6", "v6", 2.3, 16))).count("RTT p99, ms") == 1
    more = summaries(measured("v6", "v6", 2.3, 16), measured("v5", "v5", 1.0, 2))
    assert comparison_text(more).count("RTT p99, ms") == 2


def test_a_name_is_kept_readable_and_columns_differ():
    alike = [summarise(replace(blank_measurement(), name="a name that is long " + end)) for end in ("1", "2")]
    alike += [summarise(replace(blank_measurement(), name="same"))] * 2
    titles = headers(alike)
    assert titles == ["a name tha~(1)", "a name tha~(2)", "same(3)", "same(4)"]
    assert "a name tha~(2): a name that is long 2\n" in comparison_text(alike)


def test_an_incomplete_variant_says_so_everywhere():
    dead = measured("v6", "v6", 2.3, 16, complete=False, verdict="agent flood (pid 9) killed by SIGKILL", exit_code=3)
    s = summarise(replace(dead, agents=[replace(blank_agent("flood"), pid=9, exit="killed by SIGKILL")]))
    text = variant_text(s)
    assert "\nINCOMPLETE: agent flood (pid 9) killed by SIGKILL\n" in text
    assert "\n  flood 0 (pid 9): killed by SIGKILL\n" in text
    assert rows([*summaries(), s])[0] == ("", ["", "", "INCOMPLETE"])
    document = run_document([*summaries(), s], scenario={}, host={}, command_line=[])
    assert document["exit_code"] == 3
    assert document["seen"].endswith("Nothing is compared.")


def test_a_broken_identity_shows_name_sides_and_difference():
    broken = measured("v7", "v7", 2.2, 16)
    broken = replace(broken, identities=[IdentityCheck("per qdisc veth0", False, 10, 12, "enqueued != sent + dropped")])
    s = summarise(broken)
    text = variant_text(s)
    assert "identities: 1 of 2 FAILED\n" in text
    assert "  FAILED per qdisc veth0: 10 != 12 (difference -2): enqueued != sent + dropped\n" in text
    assert ("identities", ["hold", "FAILED"]) in rows([summaries()[0], s])
    assert s["exit_code"] == 1


def test_faults_and_warnings_are_told():
    s = summarise(replace(measured("v7", "v7", 2.2, 16), fault="DQL BUG: completed 5 of 3", warnings=["SMT siblings"]))
    assert "KERNEL FAULT: DQL BUG: completed 5 of 3\nwarning: SMT siblings\n" in variant_text(s)


def test_expectations_are_listed_when_they_fail():
    s = summaries()[0]
    claims = [parse_expectation("rtt.p99", "<= 3ms"), parse_expectation("watchdog.timeouts", 0)]
    text = variant_text(with_expectations(s, evaluate(claims, s)))
    assert "expectations: 1 of 2 FAILED\n" in text
    assert "  FAILED rtt.p99 <= 3ms: rtt_ms.p99 is 24.5996 ms, expected <= 3 ms" in text
    assert "expectations: all 1 met\n" in variant_text(with_expectations(s, evaluate(claims[1:], s)))


def test_what_is_missing_is_not_a_number():
    bare = replace(
        blank_measurement("bare"),
        probes=None, qdiscs=[], txqs=[], rings=[], napis=[], identities=[], series={}, flows=[],
        memory_mb=None, start_to_first_packet_s=None,
    )  # fmt: skip
    s = summarise(bare)
    text = variant_text(s)
    assert "ping" not in text
    assert "byte_queue_limits" not in text
    assert "goodput" not in text
    assert "watchdog: not known\nidentities: not checked\n" in text
    for label, cells in rows([s]):
        assert cells in (["-"], ["good"]), label


@pytest.mark.parametrize(
    ("kind", "options", "line"),
    [
        ("pfifo", {"limit": 1000}, "qdisc pfifo 8001: dev veth0 root limit 1000p"),
        ("bfifo", {"limit": 1514000}, "qdisc bfifo 8001: dev veth0 root limit 1514000b"),
        ("noqueue", {}, "qdisc noqueue 8001: dev veth0 root"),
        (
            "sfq",
            {"limit": 127, "depth": 127, "divisor": 1024, "quantum": 1514, "headdrop": False},
            "qdisc sfq 8001: dev veth0 root limit 127p quantum 1514b depth 127 divisor 1024",
        ),
        (
            "codel",
            {"limit": 1000, "target": 5 * MS, "interval": 100 * MS, "ecn": True, "ce_threshold": 1000},
            "qdisc codel 8001: dev veth0 root limit 1000p target 5ms ce_threshold 1us interval 100ms ecn",
        ),
    ],
)
def test_options_as_tc_has_them(kind, options, line):
    q = summarise(replace(blank_measurement(), qdiscs=[replace(blank_qdisc(kind), options=options)]))["qdiscs"][0]
    lines = qdisc_lines(q)
    sent = next(i for i, text in enumerate(lines) if text.startswith(" Sent"))
    assert " ".join(text.strip() for text in lines[:sent]) == line


def test_unknown_extras_are_shown_too():
    q = summarise(replace(blank_measurement(), qdiscs=[replace(blank_qdisc("pfifo"), extras={"flows": 3})]))["qdiscs"][
        0
    ]
    assert qdisc_lines(q)[-1] == "  flows 3"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (22.4123, "22.4"), (2.2, "2.20"), (0.13649, "0.136"), (9.999, "10.0"), (99.96, "100"), (1650, "1650"),
        (1e9, "1000000000"), (0, "0"), (None, "-"), (float("nan"), "-"), (0.00001234, "0.0000123"), (-2.2, "-2.20"),
    ],
)  # fmt: skip
def test_three_digits(value, text):
    assert sig(value) == text


def test_other_figures():
    assert [percent(v) for v in (0, 0.004, 0.1, 4.25, 100, None)] == ["0", "0.004", "0.1", "4.25", "100", "-"]
    assert [rate(v) for v in (0, 9.5, 9960, 4_210_000, None)] == ["0 pps", "9.50 pps", "9.96 kpps", "4.21 Mpps", "-"]
    assert [duration_ns(v) for v in (500, 1000, 5 * MS, 1_500_000_000)] == ["500ns", "1us", "5ms", "1.5s"]
    assert [size_bytes(v) for v in (1514, 65536, 32 << 20)] == ["1514b", "64Kb", "32Mb"]


def test_the_whole_report_ends_with_what_was_seen():
    document = run_document(summaries(), scenario={"name": "dark-buffer"}, host={}, command_line=["emulator"])
    text = report_text(document)
    assert text.startswith(STOCK)
    assert COMPARED in text
    assert text.endswith(
        "\nBQL v7 cut the ping's RTT from 22.4 ms to 2.20 ms (10.2 times less) at the same\n"
        "goodput (10.0 kpps, difference 0.4 %); ping loss was 0.1 % with stock, 0 % with\nBQL v7.\n"
    )


def test_not_a_terminal_gets_plain_text():
    document = run_document(summaries(), scenario={}, host={}, command_line=[])
    stream = io.StringIO()
    print_report(document, stream)
    assert stream.getvalue() == report_text(document)


class Terminal(io.StringIO):
    """Says that it is one."""

    def isatty(self):
        return True


@pytest.mark.parametrize("columns", ["80", "60", "200"])
def test_a_terminal_gets_the_same_numbers_and_nothing_taken_for_markup(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("TERM", "dumb")
    named = [
        summarise(measured(name, bql, rtt, 16)) for name, bql, rtt in (("[red]", "off", 22.4), ("[/x]", "v7", 2.2))
    ]
    stream = Terminal()
    print_report(run_document(named, scenario={}, host={}, command_line=[]), stream)
    text = stream.getvalue()
    for said in (
        "== [red]: BQL off",
        "22.4 (n=999)",
        "2.20 (n=1000)",
        "[/x]",
        "9.96..9.96 (n=10)",
        "(10.2 times less)",
    ):
        assert said in text


def test_the_json_is_one_object_on_one_line():
    document = run_document(
        summaries(), scenario={"name": "x"}, host={"load": float("nan")}, command_line=["emulator", "run"]
    )
    text = document_json(document)
    assert text.count("\n") == 1
    plain = json.loads(text)
    assert list(plain) == [
        "schema", "command_line", "versions", "host", "scenario", "variants", "seen", "exit_code",
    ]  # fmt: skip
    assert plain["host"] == {"load": None}
    wanted = {
        "name", "goodput_pps", "rtt_ms", "ping_loss_pct", "qdisc", "bql", "ring", "watchdog", "identities", "timing",
    }  # fmt: skip
    assert all(wanted <= set(v) for v in plain["variants"])
    assert {"min", "avg", "p50", "p99", "max", "n"} <= set(plain["variants"][0]["rtt_ms"])


def test_the_runs_own_exit_code_counts():
    assert run_document(summaries(), scenario={}, host={}, command_line=[], exit_code=130)["exit_code"] == 130
    assert run_document(summaries(), scenario={}, host={}, command_line=[])["exit_code"] == 0


def test_a_report_loads_no_compiler():
    code = (
        "import sys; import emulator.report.show, emulator.report.rundir, emulator.report.blank;"
        "sys.exit(any(m.partition('.')[0] in ('numba', 'llvmlite', 'matplotlib', 'zmq', 'rich') for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
