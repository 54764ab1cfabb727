"""From a segment at rest to the raw facts of a variant, with every identity of the design checked.

Also reads a segment whose processes are dead (:func:`salvage_run`): the same facts, with a verdict that says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from emulator.errors import EmulatorError, ExitCode
from emulator.kernel.memory import (
    FAULT_DQL_BUG,
    FAULT_FLOW,
    FAULT_INFLIGHT,
    FAULT_LOCK_OWNER_DIED,
)
from emulator.kernel.qdisc.base import CODEL, FQ_CODEL, KINDS, NOQUEUE
from emulator.kernel.skb import SKBS_MAX, drops_by_reason
from emulator.kernel.veth import VARIANTS
from emulator.report.histogram import Hist
from emulator.report.measurement import (
    AgentCount,
    DevCount,
    FlowCount,
    IdentityCheck,
    NapiCount,
    PoolCount,
    Probes,
    QdiscCount,
    RingCount,
    TimingVerdict,
    TxqCount,
    VariantMeasurement,
)
from emulator.runtime.build import DEVICE_NAMES, RECEIVER, SENDER, flow_labels
from emulator.runtime.host import TimingInputs, timing_verdict
from emulator.runtime.placement import Seat
from emulator.runtime.sampler import Sampler
from emulator.runtime.segment import Segment
from emulator.runtime.traced import traced
from emulator.runtime.walk import free_slots, in_flight, qdisc_skbs, ring_entries, tagged
from emulator.scenario.model import Scenario

_U32 = 0xFFFFFFFF
_QDISC_HANDLES = ("8001:", "8002:")
_GRACE_NS = 1_000_000_000
_VIRTUAL_TIME = "virtual clock: work, cache misses and wake-ups take what the host profile says; nothing is preempted"


@dataclass
class RunFacts:
    """What the launcher knows and the segment does not."""

    verdict: str = "ok"
    exit_code: int = int(ExitCode.OK)
    notes: list[str] = field(default_factory=list)
    pids: dict[int, int] = field(default_factory=dict)
    exits: dict[int, str] = field(default_factory=dict)
    """how an agent ended, if not as it was asked to"""
    measured_until_ns: int = 0
    memory_mb: float | None = None
    steal_ms: float | None = None
    throttled_ms: float | None = None
    quota_cpus: float | None = None
    load: float | None = None
    cpus: list[int] = field(default_factory=list)
    start_to_first_packet_s: float | None = None


def measure(
    scenario: Scenario, segment: Segment, seats: Sequence[Seat], sampler: Sampler, facts: RunFacts
) -> VariantMeasurement:
    """Read everything. Nobody may be running any more."""
    net = segment.view.net
    where = in_flight(net, len(DEVICE_NAMES), len(DEVICE_NAMES), len(seats))
    flows = _flows(net, scenario, seats, sampler, where)
    params = net.params
    covered_s = max(0, facts.measured_until_ns - params.measure_start_ns) / 1e9 if params.measure_start_ns else 0.0
    fault = fault_text(net, seats)
    timing = _timing(scenario, net, segment, seats, facts, covered_s)
    exit_code = facts.exit_code
    required = {"ignore": 0, "fair": 1, "good": 2}[scenario.timing.require]
    if exit_code == ExitCode.OK and ("poor", "fair", "good").index(timing.verdict) < required:
        exit_code = int(ExitCode.BELOW_TIMING)
    flood_flows = [flow.flow for flow in flows if flow.is_flood]
    return VariantMeasurement(
        name=scenario.variant_name,
        clock=scenario.clock,
        dev=DEVICE_NAMES[SENDER],
        peer=DEVICE_NAMES[RECEIVER],
        duration_s=covered_s,
        complete=facts.verdict == "ok",
        verdict=facts.verdict,
        exit_code=exit_code,
        flows=flows,
        probes=_probes(net, segment, seats, facts),
        qdiscs=[_qdisc(net, number, scenario) for number in (SENDER, RECEIVER)],
        txqs=[
            _txq(net, number, queue)
            for number in (SENDER, RECEIVER)
            for queue in range(net.devs[number].real_num_tx_queues)
        ],
        rings=[
            _ring(net, number, queue)
            for number in (RECEIVER, SENDER)
            for queue in range(net.devs[number].real_num_rx_queues)
        ],
        napis=[
            _napi(net, number, queue)
            for number in (RECEIVER, SENDER)
            for queue in range(net.devs[number].real_num_rx_queues)
        ],
        devs=[_dev(net, number, len(seats)) for number in (SENDER, RECEIVER)],
        agents=[_agent(net, segment, index, seat, facts) for index, seat in enumerate(seats)],
        pool=PoolCount(SKBS_MAX - 1, free_slots(net, len(seats)), sum(map(len, where.values()))),
        fault=fault,
        identities=list(_identities(net, flows, where, len(seats))),
        timing=timing,
        series=sampler.series(params.measure_start_ns, flood_flows),
        trace=traced(net, scenario, seats),
        memory_mb=facts.memory_mb,
        start_to_first_packet_s=facts.start_to_first_packet_s,
        warnings=facts.notes,
    )


def fault_text(net: Any, seats: Sequence[Seat]) -> str | None:
    """The run's first fault in one line, or None."""
    fault = net.fault
    if fault.code == 0:
        return None
    a, b, c, d = (fault.args[i] for i in range(4))
    who = seats[fault.cpu].name if fault.cpu < len(seats) else f"cpu {fault.cpu}"
    if fault.code == FAULT_DQL_BUG:
        what = f"DQL BUG on {DEVICE_NAMES[a]} tx-{b}: {c} completed with {d} in flight"
    elif fault.code == FAULT_LOCK_OWNER_DIED:
        what = f"a lock is held by {seats[a].name}, which died"
    elif fault.code == FAULT_INFLIGHT:
        what = f"{DEVICE_NAMES[a]} tx-{b} has {c} in flight"
    elif fault.code == FAULT_FLOW:
        what = f"flow {a}: {b} duplicates, {c} reordered, {d} corrupt packets"
    else:
        what = f"fault {fault.code}"
    return f"{what} (found by {who})"


def salvage_run(run_dir: Path) -> str | None:
    """Write what a dead run had measured to its results directory; a line that says where, None if there is nothing."""
    from emulator.runtime.salvage import salvage

    try:
        return salvage(run_dir)
    except EmulatorError as error:
        return f"{run_dir}: {error}"


def _flows(
    net: Any, scenario: Scenario, seats: Sequence[Seat], sampler: Sampler, where: dict[str, list[int]]
) -> list[FlowCount]:
    on_the_way = np.bincount(
        net.skbs.raw["flow"][[skb for skbs in where.values() for skb in skbs]].astype(np.int64),
        minlength=len(net.flows),
    )
    drops: dict[int, dict[str, int]] = {}
    for index in range(len(seats)):
        for reason, by_flow in drops_by_reason(net.cpus[index]).items():
            for flow, packets in by_flow.items():
                counts = drops.setdefault(flow, {})
                counts[reason] = counts.get(reason, 0) + packets
    found = []
    for number, label in flow_labels(scenario).items():
        flow = net.flows[number]
        received, seconds = sampler.received_between(number)
        found.append(
            FlowCount(
                flow=number,
                label=label,
                sent=flow.sent,
                received=flow.received,
                received_in_window=received,
                window_s=seconds,
                drops=drops.get(number, {}),
                in_flight=int(on_the_way[number]),
                nomem=flow.nomem,
                duplicates=flow.duplicates,
                reordered=flow.reordered,
                corrupt=flow.corrupt,
            )
        )
    return found


def _probes(net: Any, segment: Segment, seats: Sequence[Seat], facts: RunFacts) -> Probes | None:
    index = next((i for i, seat in enumerate(seats) if seat.role == "ping"), None)
    if index is None:
        return None
    sent = int(segment.view.agents[index].next_probe)
    probes = net.probes.raw[:sent]
    inside = probes["intended_ns"] >= net.params.measure_start_ns
    probes = probes[inside]
    last_heartbeat = max((int(segment.view.agents[i].heartbeat_ns) for i in range(len(seats))), default=0)
    return Probes(
        intended_ns=probes["intended_ns"].copy(),
        sent_ns=probes["sent_ns"].copy(),
        received_ns=probes["received_ns"].copy(),
        observed_until_ns=last_heartbeat,
        grace_ns=_GRACE_NS,
    )


def _qdisc(net: Any, number: int, scenario: Scenario) -> QdiscCount:
    q = net.qdiscs[number]
    model = scenario.device.qdisc if number == SENDER else scenario.device.peer_qdisc
    extras: dict[str, int | float] = {}
    if q.kind in (CODEL, FQ_CODEL):
        stats = q.codel_stats
        extras = {"maxpacket": stats.maxpacket, "drop_overlimit": q.drop_overlimit}
        if q.kind == FQ_CODEL:
            extras |= {
                "new_flow_count": q.fq.new_flow_count,
                "ecn_mark": stats.ecn_mark,
                "drop_overmemory": q.fq.drop_overmemory,
                "memory_used": q.fq.memory_usage,
            }
        else:
            extras |= {"ecn_mark": stats.ecn_mark}
    options = {name: getattr(model, name) for name in type(model).model_fields if name != "kind"}
    return QdiscCount(
        dev=DEVICE_NAMES[number],
        kind=KINDS[q.kind],
        handle=_QDISC_HANDLES[number],
        parent="root",
        enqueued=q.enqueued,
        sent_packets=q.bstats_packets,
        sent_bytes=q.bstats_bytes,
        dropped=q.drops,
        overlimits=q.overlimits,
        requeues=q.requeues,
        backlog_packets=q.qlen,
        backlog_bytes=q.backlog,
        held=q.held,
        purged=q.purged,
        held_purged=q.held_purged,
        options=options,
        extras=extras,
    )


def _txq(net: Any, number: int, queue: int) -> TxqCount:
    dev = net.devs[number]
    txq = dev.txq[queue]
    dql = txq.dql
    return TxqCount(
        dev=DEVICE_NAMES[number],
        queue=queue,
        # A device without a qdisc that can hold packets is not charged, whatever the variant.
        variant=VARIANTS[dev.bql_variant] if net.qdiscs[txq.qdisc].kind != NOQUEUE else "off",
        tx_coal_ns=dev.tx_coal_ns,
        limit=dql.limit & _U32,
        limit_min=dql.min_limit & _U32,
        limit_max=dql.max_limit & _U32,
        inflight=(dql.num_queued - dql.num_completed) & _U32,
        num_queued=dql.num_queued & _U32,
        num_completed=dql.num_completed & _U32,
        drv_xoff=txq.drv_xoff,
        stack_xoff=txq.stack_xoff,
        drv_wake=txq.drv_wake,
        stack_wake=txq.stack_wake,
        completions=txq.completions,
        trans_timeout=txq.trans_timeout,
        inflight_max=txq.inflight_max,
        stall_cnt=dql.stall_cnt,
        stall_max=dql.stall_max,
        limit_hist=_hist(txq.limit_hist),
        inflight_hist=_hist(txq.inflight_hist),
        count_hist=_hist(txq.count_hist),
        interval_hist=_hist(txq.interval_hist),
    )


def _hist(hist: Any) -> Hist:
    return Hist(n=hist.n, sum=hist.sum, min=hist.min, max=hist.max, counts=hist.counts.raw.copy())


def _ring(net: Any, number: int, queue: int) -> RingCount:
    ring = net.devs[number].rq[queue].ring
    entries = ring_entries(net, ring)
    return RingCount(DEVICE_NAMES[number], queue, ring.size, len(entries), tagged(entries))


def _napi(net: Any, number: int, queue: int) -> NapiCount:
    rq = net.devs[number].rq[queue]
    napi = rq.napi
    return NapiCount(
        dev=DEVICE_NAMES[number],
        queue=queue,
        polls=napi.polls,
        work=napi.work,
        repolls=napi.repolls,
        missed=napi.missed,
        work_hist=_hist(napi.work_hist),
        gro_flushes=rq.gro.flushes,
    )


def _dev(net: Any, number: int, cpus: int) -> DevCount:
    def total(name: str) -> int:
        return sum(getattr(net.cpus[i].dev[number], name) for i in range(cpus))

    return DevCount(
        DEVICE_NAMES[number],
        *(total(n) for n in ("tx_packets", "tx_bytes", "tx_dropped", "rx_packets", "rx_bytes", "rx_dropped")),
    )


def _agent(net: Any, segment: Segment, index: int, seat: Seat, facts: RunFacts) -> AgentCount:
    words = segment.view.agents[index]
    stats = net.cpus[index].stats
    newest = max(int(segment.view.agents[i].heartbeat_ns) for i in range(int(segment.view.control.agents)))
    return AgentCount(
        role=seat.role,
        name=seat.name,
        pid=facts.pids.get(index, words.pid),
        cpu=None if net.cpus[index].virtual else seat.cpu,
        steps=stats.steps,
        cycles=stats.cycles,
        longest_cycle_ns=stats.longest_cycle_ns,
        voluntary=words.voluntary,
        involuntary=words.involuntary,
        cpu_ns=words.cpu_ns,
        wait_ns=words.wait_ns,
        lock_contended=stats.lock_contended,
        lock_yielded=stats.lock_yielded,
        sleeps=stats.sleeps,
        heartbeat_age_ns=newest - words.heartbeat_ns,
        exit=facts.exits.get(index, "ok"),
    )


def _identities(net: Any, flows: list[FlowCount], where: dict[str, list[int]], cpus: int) -> list[IdentityCheck]:
    checks: list[IdentityCheck] = []

    def check(name: str, left: int, right: int, detail: str) -> None:
        checks.append(IdentityCheck(name, left == right, left, right, detail))

    for number, dev_name in enumerate(DEVICE_NAMES):
        q = net.qdiscs[number]
        sent = q.bstats_packets - q.held - q.held_purged
        dropped = q.drops + q.purged
        if q.kind != NOQUEUE:
            check(
                f"qdisc {dev_name}: enqueued == sent + dropped + backlog",
                q.enqueued,
                sent + dropped + q.qlen,
                f"sent {sent} + dropped {dropped} + backlog {q.qlen}",
            )
            held = len(qdisc_skbs(net, q))
            check(f"qdisc {dev_name}: backlog == packets found in it", q.qlen, held, f"found {held}")
        dev, peer = net.devs[number], net.devs[1 - number]
        ring = sum(len(where[f"ring {1 - number}/{i}"]) for i in range(peer.real_num_rx_queues))
        gro = sum(len(where[f"gro {1 - number}/{i}"]) for i in range(peer.real_num_rx_queues))
        sent_packets = sum(net.cpus[i].dev[number].tx_packets for i in range(cpus))
        received = sum(net.cpus[i].dev[1 - number].rx_packets for i in range(cpus))
        check(
            f"device {dev_name}: sent == received + ring + gro list",
            sent_packets,
            received + ring + gro,
            f"received {received} + ring {ring} + gro {gro}",
        )
        for queue in range(dev.real_num_tx_queues):
            dql, rq = dev.txq[queue].dql, peer.rq[queue]
            charged = tagged(ring_entries(net, rq.ring))
            check(
                f"queue {dev_name} tx-{queue}: num_queued - num_completed == tagged + n_bql + in hand",
                (dql.num_queued - dql.num_completed) & _U32,
                charged + rq.n_bql + rq.in_hand,
                f"tagged {charged} + n_bql {rq.n_bql} + in hand {rq.in_hand}",
            )
    for flow in flows:
        dropped = sum(flow.drops.values())
        check(
            f"flow {flow.label}: sent == received + dropped + on the way",
            flow.sent,
            flow.received + dropped + flow.in_flight,
            f"received {flow.received} + dropped {dropped} + on the way {flow.in_flight}",
        )
        disorder = flow.duplicates + flow.reordered + flow.corrupt
        detail = f"{flow.duplicates} duplicates, {flow.reordered} reordered, {flow.corrupt} corrupt"
        check(f"flow {flow.label}: every packet once, in order, intact", disorder, 0, detail)
    free, used = free_slots(net, cpus), sum(map(len, where.values()))
    check("pool: free + in use == size", free + used, SKBS_MAX - 1, f"free {free} + in use {used}")
    return checks


def _timing(
    scenario: Scenario, net: Any, segment: Segment, seats: Sequence[Seat], facts: RunFacts, covered_s: float
) -> TimingVerdict:
    if scenario.clock == "virtual":
        return TimingVerdict(verdict="good", reasons=[_VIRTUAL_TIME])
    indices = [
        i for i, seat in enumerate(seats) if seat.role == "flood" or (seat.role == "napi" and seat.dev == RECEIVER)
    ]
    words = [segment.view.agents[i] for i in indices]
    stats = [net.cpus[i].stats for i in indices]
    known = covered_s > 0 and bool(words) and all(w.cpu_ns for w in words)
    wanted = len({seats[i].cpu for i in indices})
    lock_preemptions = sum(net.cpus[i].stats.lock_yielded for i in range(len(seats)))
    inputs = TimingInputs(
        duration_s=covered_s,
        cpus_wanted=max(2, wanted),
        cpus_available=len(facts.cpus) or None,
        steal_ms=facts.steal_ms,
        throttled_ms=facts.throttled_ms,
        quota_cpus=facts.quota_cpus,
        wait_share=max(w.wait_ns for w in words) / 1e9 / covered_s if known else None,
        involuntary_per_s=max(w.involuntary for w in words) / covered_s if known else None,
        longest_cycle_us=max((s.longest_cycle_ns for s in stats), default=0) / 1e3 if known else None,
        lock_preemptions=lock_preemptions,
        others_load=facts.load,
    )
    verdict, reasons = timing_verdict(inputs)
    return TimingVerdict(
        verdict=verdict,
        reasons=list(reasons),
        steal_ms=facts.steal_ms,
        involuntary=sum(w.involuntary for w in words) if known else None,
        longest_cycle_us=inputs.longest_cycle_us,
        lock_holder_preemptions=lock_preemptions,
        cpus_available=inputs.cpus_available,
        cpus_wanted=inputs.cpus_wanted,
        load=facts.load,
    )
