"""From raw facts to the summary of a variant: the numbers that are shown, compared, expected, and given out as JSON.

Missing is missing: what was not measured is None (null), never 0. A counter that was there and counted nothing is 0.

Goodput is what the receiver got within the measured window. The round trip is from the actual send, as ping prints it;
`rtt_intended_ms` is from the scheduled send, so that a sender held up by the queue cannot hide its own delay.
Percentiles of RTTs are exact (see statistics.py); those of BQL come from histograms that are exact below 128 and within
1.6 % above.

Units are in the names: `_ms`, `_us`, `_pps`, `_pct`, `_bytes`, `_mb`; what has none is a count of packets or times.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from emulator.errors import ExitCode
from emulator.report.codec import to_plain
from emulator.report.histogram import Hist, merge
from emulator.report.measurement import IdentityCheck, Probes, QdiscCount, TxqCount, VariantMeasurement
from emulator.report.statistics import distribution_ms, finite, nearest_rank

SUB_WINDOWS = 10
NS_PER_US = 1000
WITHOUT_TX_USECS = ("off", "v5")

_SEVEREST_FIRST = (
    ExitCode.INTERRUPTED,
    ExitCode.USAGE,
    ExitCode.AGENT_FAILED,
    ExitCode.CANNOT_RUN,
    ExitCode.CHECK_FAILED,
    ExitCode.BELOW_TIMING,
    ExitCode.OK,
)


def summarise(m: VariantMeasurement) -> dict[str, Any]:
    """The summary of one variant: plain JSON values."""
    ping, rtt, rtt_intended, order = _ping(m.probes)
    identities = _identities(m.identities, order, all_left=all(agent.exit == "ok" for agent in m.agents))
    broken = identities["ok"] is False or m.fault is not None
    codes = [m.exit_code, ExitCode.CHECK_FAILED if broken else ExitCode.OK]
    txqs = [q for q in m.txqs if q.dev == m.dev]
    summary: dict[str, Any] = {
        "name": m.name,
        "complete": m.complete,
        "verdict": m.verdict,
        "clock": m.clock,
        "dev": m.dev,
        "peer": m.peer,
        "duration_s": m.duration_s,
        "goodput_pps": _goodput_pps(m),
        "goodput": _goodput_spread(m),
        "rtt_ms": rtt,
        "rtt_intended_ms": rtt_intended,
        "ping_loss_pct": _loss_pct(ping),
        "ping": ping,
        "qdisc": _qdisc([q for q in m.qdiscs if q.dev == m.dev]),
        "bql": _bql(txqs, m.series),
        "ring": _ring(m, txqs),
        "napi": _napi(m),
        "watchdog": {"timeouts": sum(q.trans_timeout for q in m.txqs) if m.txqs else None},
        "identities": identities,
        "fault": m.fault,
        "timing": to_plain(m.timing),
        "flows": to_plain(m.flows),
        "qdiscs": to_plain(m.qdiscs),
        "devs": to_plain(m.devs),
        "pool": to_plain(m.pool),
        "agents": to_plain(m.agents),
        "memory_mb": m.memory_mb,
        "start_to_first_packet_s": m.start_to_first_packet_s,
        "warnings": list(m.warnings),
        "expectations": [],
        "exit_code": severest(codes),
    }
    if m.trace is not None:
        summary["trace"] = {"events": len(m.trace.events), "lost": m.trace.lost}
    plain: dict[str, Any] = to_plain(summary)
    return plain


def severest(codes: list[int]) -> int:
    """The exit code that stands for several: what cut a run short before what it failed to show."""
    known = {int(code): rank for rank, code in enumerate(_SEVEREST_FIRST)}
    return min((int(code) for code in codes), key=lambda code: known.get(code, -1), default=int(ExitCode.OK))


def _goodput_pps(m: VariantMeasurement) -> float | None:
    rates = [f.received_in_window / f.window_s for f in m.flows if f.is_flood and f.window_s > 0]
    return sum(rates) if rates else None


def _goodput_spread(m: VariantMeasurement) -> dict[str, Any]:
    """Goodput of up to ten equal parts of the window: how steady it was."""
    parts, window_s = sub_rates(m.series.get("t_s"), m.series.get("received"), m.duration_s)
    return {
        "n": len(parts),
        "window_s": window_s,
        "mean_pps": float(parts.mean()) if len(parts) else None,
        "min_pps": float(parts.min()) if len(parts) else None,
        "max_pps": float(parts.max()) if len(parts) else None,
    }


def sub_rates(
    t_s: NDArray[np.float64] | None, received: NDArray[np.float64] | None, duration_s: float
) -> tuple[NDArray[np.float64], float | None]:
    """(packets a second in equal parts of what was sampled, their length); each part has at least two samples."""
    if t_s is None or received is None:
        return np.empty(0), None
    there = np.isfinite(t_s) & np.isfinite(received) & (t_s >= 0) & (t_s <= duration_s)
    times, counts = t_s[there], received[there]
    n = min(SUB_WINDOWS, (len(times) - 1) // 2)
    if n < 1 or times[-1] <= times[0]:
        return np.empty(0), None
    edges = np.linspace(times[0], times[-1], n + 1)
    return np.diff(np.interp(edges, times, counts)) / np.diff(edges), float(edges[1] - edges[0])


def _ping(
    probes: Probes | None,
) -> tuple[dict[str, int] | None, dict[str, Any] | None, dict[str, Any] | None, list[IdentityCheck]]:
    if probes is None:
        return None, None, None, []
    sent = probes.sent_ns != 0
    answered = sent & (probes.received_ns != 0)
    backwards = answered & (probes.received_ns < probes.sent_ns)
    outstanding = sent & ~answered & (probes.sent_ns > probes.observed_until_ns - probes.grace_ns)
    counts = {
        "sent": int(sent.sum()),
        "received": int(answered.sum()),
        "lost": int((sent & ~answered & ~outstanding).sum()),
        "outstanding": int(outstanding.sum()),
        "unsent": int((~sent).sum()),
    }
    order = IdentityCheck(
        "ping: no reply before its request",
        not backwards.any(),
        int(backwards.sum()),
        0,
        "replies before their request",
    )
    good = answered & ~backwards
    received = probes.received_ns[good]
    rtt = distribution_ms(received - probes.sent_ns[good])
    intended = distribution_ms(received - probes.intended_ns[good])
    return counts, rtt, intended, [order]


def _loss_pct(ping: dict[str, int] | None) -> float | None:
    """Of the probes whose fate is known."""
    known = ping["sent"] - ping["outstanding"] if ping else 0
    return 100 * ping["lost"] / known if ping and known > 0 else None


def _qdisc(qdiscs: list[QdiscCount]) -> dict[str, Any] | None:
    """The device's qdisc; several, one a queue, are added up."""
    if not qdiscs:
        return None
    extras: dict[str, int | float] = {}
    for q in qdiscs:
        for name, value in q.extras.items():
            extras[name] = max(extras.get(name, 0), value) if name == "maxpacket" else extras.get(name, 0) + value
    return extras | {
        "kind": qdiscs[0].kind,
        "handle": qdiscs[0].handle,
        "sent": sum(q.sent_packets for q in qdiscs),
        "sent_bytes": sum(q.sent_bytes for q in qdiscs),
        "enqueued": sum(q.enqueued for q in qdiscs),
        "dropped": sum(q.dropped for q in qdiscs),
        "overlimits": sum(q.overlimits for q in qdiscs),
        "requeues": sum(q.requeues for q in qdiscs),
        "backlog_packets": sum(q.backlog_packets for q in qdiscs),
        "backlog_bytes": sum(q.backlog_bytes for q in qdiscs),
        "held": sum(q.held for q in qdiscs),
        "purged": sum(q.purged for q in qdiscs),
    }


def _bql(txqs: list[TxqCount], series: dict[str, NDArray[np.float64]]) -> dict[str, Any] | None:
    """Over the device's queues; with variant off there is no limit to speak of, so most is null."""
    if not txqs:
        return None
    first, on = txqs[0], txqs[0].variant != "off"
    limit = merge([q.limit_hist for q in txqs])
    inflight = merge([q.inflight_hist for q in txqs])
    counts = merge([q.count_hist for q in txqs])
    interval = merge([q.interval_hist for q in txqs])
    interval_ns = interval.percentile(50)
    return {
        "variant": first.variant,
        "tx_usecs": None if first.variant in WITHOUT_TX_USECS else first.tx_coal_ns / NS_PER_US,
        "limit_p50": limit.percentile(50) if on else None,
        "limit_min": _extreme(limit, limit.min) if on else None,
        "limit_max": _extreme(limit, limit.max) if on else None,
        "limit_now": first.limit if on else None,
        "inflight_p50": inflight.percentile(50) if on else None,
        "inflight_max": _extreme(inflight, inflight.max) if on else None,
        "inflight_now": sum(q.inflight for q in txqs) if on else None,
        "count_p50": counts.percentile(50) if on else None,
        "count_mean": counts.mean if on else None,
        "interval_us_p50": interval_ns / NS_PER_US if on and interval_ns is not None else None,
        "stack_xoff": sum(q.stack_xoff for q in txqs),
        "stack_wake": sum(q.stack_wake for q in txqs),
        "completions": sum(q.completions for q in txqs),
        "n": limit.n,
        "stall_cnt": sum(q.stall_cnt for q in txqs) if on else None,
        "stall_max": max(q.stall_max for q in txqs) if on else None,
        "polled": _polled(series) if on else None,
    }


def _extreme(hist: Hist, value: int) -> int | None:
    return value if hist.n else None


def _polled(series: dict[str, NDArray[np.float64]]) -> dict[str, Any]:
    """What somebody reading sysfs would have concluded."""
    limit, inflight = finite(series.get("limit")), finite(series.get("inflight"))
    return {
        "limit_p50": _p50(limit),
        "inflight_p50": _p50(inflight),
        "inflight_max": int(inflight.max()) if len(inflight) else None,
        "n": len(inflight),
    }


def _p50(samples: NDArray[np.float64]) -> int | None:
    return int(np.sort(samples)[nearest_rank(len(samples), 50) - 1]) if len(samples) else None


def _ring(m: VariantMeasurement, txqs: list[TxqCount]) -> dict[str, Any] | None:
    """The ring that the device sends into; occupancy as polled."""
    rings = [r for r in m.rings if r.dev == m.peer]
    if not rings:
        return None
    occupied = finite(m.series.get("ring"))
    return {
        "size": rings[0].size,
        "drv_xoff": sum(q.drv_xoff for q in txqs) if txqs else None,
        "drv_wake": sum(q.drv_wake for q in txqs) if txqs else None,
        "occupied_p50": _p50(occupied),
        "occupied_max": int(occupied.max()) if len(occupied) else None,
        "n": len(occupied),
        "occupied_now": sum(r.occupied for r in rings),
        "tagged_now": sum(r.tagged for r in rings),
    }


def _napi(m: VariantMeasurement) -> dict[str, Any] | None:
    """The NAPI that receives the flood."""
    napis = [n for n in m.napis if n.dev == m.peer]
    if not napis:
        return None
    work = merge([n.work_hist for n in napis])
    return {
        "polls": sum(n.polls for n in napis),
        "work": sum(n.work for n in napis),
        "work_p50": work.percentile(50),
        "work_mean": work.mean,
        "repolls": sum(n.repolls for n in napis),
        "missed": sum(n.missed for n in napis),
        "gro_flushes": sum(n.gro_flushes for n in napis),
    }


def _identities(
    of_the_run: list[IdentityCheck], derived: list[IdentityCheck], *, all_left: bool = True
) -> dict[str, Any]:
    """`ok` is null when the run checked nothing and nothing is known to be wrong.

    It is also null when something is off after an agent died, for that may have had a packet in its hands.
    """
    checks = [*of_the_run, *derived]
    ok = all(c.ok for c in checks)
    return {
        "ok": None if (ok and not of_the_run) or (not ok and not all_left) else ok,
        "checks": [
            {
                "name": c.name,
                "ok": c.ok,
                "left": c.left,
                "right": c.right,
                "difference": None if isinstance(c.left, str) or isinstance(c.right, str) else c.left - c.right,
                "detail": c.detail,
            }
            for c in checks
        ],
    }
