"""A measurement with one of everything: which paths a summary can have, before anything has run.

Its numbers mean nothing. It lets a mistyped expectation be refused before a run rather than after it.
"""

from collections.abc import Iterable

import numpy as np

from emulator.report.expect import evaluate
from emulator.report.histogram import BUCKETS, Hist
from emulator.report.measurement import (
    SERIES,
    AgentCount,
    DevCount,
    FlowCount,
    IdentityCheck,
    Int64s,
    NapiCount,
    PoolCount,
    Probes,
    QdiscCount,
    RingCount,
    TimingVerdict,
    TxqCount,
    VariantMeasurement,
)
from emulator.report.summary import summarise
from emulator.report.tc import EXTRAS
from emulator.scenario.expect import Expectation

_SECOND_NS = 1_000_000_000
_SAMPLES = 21


def senseless(expectations: Iterable[Expectation], qdisc_kind: str) -> list[tuple[str, str]]:
    """(path as written, why) for each expectation that no run with this qdisc could meet."""
    wanted = list(expectations)
    results = evaluate(wanted, summarise(blank_measurement("blank", qdisc_kind)))
    return [(e.path, r.message) for e, r in zip(wanted, results, strict=True) if not r.sensible]


def blank_measurement(name: str = "blank", qdisc_kind: str = "fq_codel", bql: str = "v7") -> VariantMeasurement:
    """One second, one flow, one ping, and nothing wrong."""
    return VariantMeasurement(
        name=name,
        clock="real",
        dev="veth0",
        peer="veth1",
        duration_s=1.0,
        complete=True,
        verdict="ok",
        exit_code=0,
        flows=[
            FlowCount(0, "flood 0", sent=1, received=1, received_in_window=1, window_s=1.0),
            FlowCount(1, "ping request", sent=1, received=1, received_in_window=1, window_s=1.0),
            FlowCount(2, "ping reply", sent=1, received=1, received_in_window=1, window_s=1.0),
        ],
        probes=Probes(_at_s(1), _at_s(1), _at_s(2), observed_until_ns=3 * _SECOND_NS, grace_ns=0),
        qdiscs=[blank_qdisc(qdisc_kind)],
        txqs=[blank_txq(bql)],
        rings=[RingCount("veth1", 0, size=256, occupied=0, tagged=0)],
        napis=[NapiCount("veth1", 0, polls=1, work=1, repolls=0, missed=0, work_hist=one_value(1), gro_flushes=1)],
        devs=[DevCount("veth0", 1, 64, 0, 1, 64, 0), DevCount("veth1", 1, 64, 0, 1, 64, 0)],
        agents=[blank_agent("flood"), blank_agent("ping"), blank_agent("napi"), blank_agent("watchdog")],
        pool=PoolCount(size=1, free=1, in_use=0),
        fault=None,
        identities=[IdentityCheck("pool", True, 1, 1)],
        timing=TimingVerdict("good", [], 0.0, 0, 1.0, 0, 2, 2, 0.0),
        series={"t_s": np.linspace(0, 1, _SAMPLES)} | {column: np.zeros(_SAMPLES) for column in SERIES},
        memory_mb=1.0,
        start_to_first_packet_s=1.0,
    )


def blank_qdisc(kind: str) -> QdiscCount:
    """One packet went through it."""
    extras: dict[str, int | float] = {name: 0 for line in EXTRAS.get(kind, ()) for name in line}
    return QdiscCount("veth0", kind, "8001:", "root", 1, 1, 64, 0, 0, 0, 0, 0, extras=extras)


def blank_txq(bql: str) -> TxqCount:
    """One packet was charged and completed."""
    one = one_value(1)
    return TxqCount(
        dev="veth0",
        queue=0,
        variant=bql,
        tx_coal_ns=100_000,
        limit=1,
        limit_min=0,
        limit_max=1,
        inflight=0,
        num_queued=1,
        num_completed=1,
        drv_xoff=0,
        stack_xoff=0,
        drv_wake=0,
        stack_wake=0,
        completions=1,
        trans_timeout=0,
        inflight_max=1,
        stall_cnt=0,
        stall_max=0,
        limit_hist=one,
        inflight_hist=one,
        count_hist=one,
        interval_hist=one,
    )


def blank_agent(role: str) -> AgentCount:
    """Did one step."""
    return AgentCount(role, f"{role} 0", 1, 0, 1, 1, 1000, 0, 0, 1000, 0, 0, 0, 0, 0, "ok")


def _at_s(second: int) -> Int64s:
    return np.array([second * _SECOND_NS], dtype=np.int64)


def one_value(value: int, n: int = 1) -> Hist:
    """A histogram of a value below 128, counted n times."""
    counts = np.zeros(BUCKETS, dtype=np.int64)
    counts[value] = n
    return Hist(n, n * value, value, value, counts)
