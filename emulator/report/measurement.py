"""What one variant's run measured: raw facts, no judgement. Everything a user reads is derived from this.

::

    VariantMeasurement   flows    what was sent, received, dropped and why            FlowCount
                         probes   when each echo was wanted, sent, answered           Probes
                         qdiscs, txqs, rings, napis, devs                             the kernel's own counters
                         agents, pool, identities, timing                             what the run says of itself
                         trace    what happened, event by event                       TraceEvent
                         series   the words of the segment as a poller of sysfs would have seen them

Scope. Counters count from the start of the run, warm-up included, as `tc -s` and `ethtool -S` would; whatever is named
`_in_window`, the probes, the histograms and the series are of the measured window alone.

Two views of BQL are kept apart: `TxqCount.limit_hist` and its kin are exact, one entry for each completion; `series` is
what polling saw.

Names and meaning of counters are the kernel's. Times in ns, lengths in bytes, unless a name says otherwise.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emulator.report.codec import from_plain, to_plain
from emulator.report.histogram import Hist

Int64s = NDArray[np.int64]
Floats = NDArray[np.float64]

SERIES = ("limit", "inflight", "ring", "backlog", "received", "drv_xoff", "stack_xoff", "state")
"""columns of `series` beside `t_s` (seconds since the measured window began): DQL limit, packets in flight, entries in
the ring, packets in the qdisc, packets of the flood received so far, times that DRV_XOFF and STACK_XOFF were set so far
(all three cumulative, from any start), and the stop bits of that moment: 1 DRV_XOFF, 2 STACK_XOFF"""

FLOOD_LABEL = "flood"


@dataclass(frozen=True)
class FlowCount:
    """One flow, whole run: sent == received + drops + in_flight."""

    flow: int
    label: str
    """`flood 0`, `ping request`, `ping reply`; goodput is of those that begin with `flood`"""
    sent: int
    received: int
    received_in_window: int
    window_s: float
    """seconds over which received_in_window was counted"""
    drops: dict[str, int] = field(default_factory=dict)
    """reason: packets"""
    in_flight: int = 0
    """packets on the way when the run ended"""
    nomem: int = 0
    """packets that could not be built; not part of sent"""
    duplicates: int = 0
    reordered: int = 0
    corrupt: int = 0

    @property
    def is_flood(self) -> bool:
        return self.label.startswith(FLOOD_LABEL)


@dataclass(frozen=True, eq=False)
class Probes:
    """The echoes that were due within the measured window; 0 means: did not happen."""

    intended_ns: Int64s = field(metadata={"dtype": "i8"})
    sent_ns: Int64s = field(metadata={"dtype": "i8"})
    received_ns: Int64s = field(metadata={"dtype": "i8"})
    observed_until_ns: int
    """replies were counted up to here"""
    grace_ns: int
    """an unanswered probe sent less than this before observed_until_ns is outstanding, not lost"""

    def __post_init__(self) -> None:
        if not len(self.intended_ns) == len(self.sent_ns) == len(self.received_ns):
            raise ValueError("a probe has three times: the arrays must have one length")


@dataclass(frozen=True)
class QdiscCount:
    """A qdisc, whole run: enqueued == sent_packets - held - held_purged + dropped + purged + backlog_packets."""

    dev: str
    kind: str
    handle: str
    """`8001:`"""
    parent: str
    """`root`, or `parent 8001:1`"""
    enqueued: int
    sent_packets: int
    sent_bytes: int
    dropped: int
    overlimits: int
    requeues: int
    backlog_packets: int
    """gso_skb and bad_txq included"""
    backlog_bytes: int
    held: int = 0
    """packets in gso_skb and bad_txq: in sent_packets and in backlog_packets"""
    purged: int = 0
    held_purged: int = 0
    options: dict[str, int | float | bool | str | None] = field(default_factory=dict)
    """the scenario's names; ns, bytes, packets"""
    extras: dict[str, int | float] = field(default_factory=dict)
    """what the kind adds: maxpacket, drop_overlimit, new_flow_count, ecn_mark, memory_used, new_flows_len ..."""


@dataclass(frozen=True, eq=False)
class TxqCount:
    """A transmit queue with its DQL. With variant `off` the BQL fields mean nothing and are not shown."""

    dev: str
    queue: int
    variant: str
    """off, v5, v6, v7"""
    tx_coal_ns: int
    """ethtool -C tx-usecs"""
    limit: int
    limit_min: int
    limit_max: int
    inflight: int
    num_queued: int
    num_completed: int
    drv_xoff: int
    stack_xoff: int
    drv_wake: int
    stack_wake: int
    completions: int
    trans_timeout: int
    """transmit timeouts that the watchdog called"""
    inflight_max: int
    stall_cnt: int
    stall_max: int
    """jiffies"""
    limit_hist: Hist
    """DQL limit after each completion"""
    inflight_hist: Hist
    """in flight before each completion"""
    count_hist: Hist
    """packets of each completion"""
    interval_hist: Hist
    """ns between completions"""


@dataclass(frozen=True)
class RingCount:
    """The ring of a receive queue when the run ended."""

    dev: str
    """the device that receives from it"""
    queue: int
    size: int
    occupied: int
    tagged: int
    """entries that were charged to BQL"""


@dataclass(frozen=True, eq=False)
class NapiCount:
    """A NAPI instance."""

    dev: str
    """the device that it receives for"""
    queue: int
    polls: int
    work: int
    """ring entries handled"""
    repolls: int
    """polls that used the whole weight"""
    missed: int
    work_hist: Hist
    """entries a poll"""
    gro_flushes: int


@dataclass(frozen=True)
class DevCount:
    """`ip -s link`."""

    dev: str
    tx_packets: int
    tx_bytes: int
    tx_dropped: int
    rx_packets: int
    rx_bytes: int
    rx_dropped: int


@dataclass(frozen=True)
class AgentCount:
    """One process of the run, over the measured window."""

    role: str
    name: str
    pid: int
    cpu: int | None
    """CPU of the machine that it was pinned to"""
    steps: int
    cycles: int
    longest_cycle_ns: int
    voluntary: int
    involuntary: int
    cpu_ns: int
    wait_ns: int
    """runnable, not running"""
    lock_contended: int
    lock_yielded: int
    sleeps: int
    heartbeat_age_ns: int
    exit: str
    """`ok`, or how it ended"""


@dataclass(frozen=True)
class PoolCount:
    """size == free + in_use."""

    size: int
    free: int
    in_use: int


@dataclass(frozen=True)
class IdentityCheck:
    """One thing that must always hold: left == right."""

    name: str
    ok: bool
    left: int | float | str
    right: int | float | str
    detail: str = ""
    """what the sides are made of: `sent 5 + dropped 0 + backlog 1`"""


@dataclass(frozen=True)
class TimingVerdict:
    """How far the machine let the run alone."""

    verdict: str
    """good, fair, poor"""
    reasons: list[str] = field(default_factory=list)
    steal_ms: float | None = None
    involuntary: int | None = None
    longest_cycle_us: float | None = None
    lock_holder_preemptions: int | None = None
    cpus_available: int | None = None
    cpus_wanted: int | None = None
    load: float | None = None


@dataclass(frozen=True)
class TraceEvent:
    """Something that happened on an agent's CPU."""

    t_ns: int
    """since the run began, warm-up included"""
    agent: str
    event: str
    """a tracepoint of kernel/trace.py"""
    args: dict[str, int | str]
    """flow (its label), seq, dev, queue, count, limit, done, reason: what the event is about"""


@dataclass(frozen=True)
class Trace:
    """The first events of each agent, merged by time; those of one moment in the order of the agents."""

    events: list[TraceEvent]
    lost: int
    """events that happened after an agent had noted as many as it was to"""


@dataclass(frozen=True, eq=False)
class VariantMeasurement:
    """One variant, finished or not."""

    name: str
    clock: str
    """real or virtual"""
    dev: str
    """the device that the flood sends on; its txqs, qdisc and its peer's ring and NAPI are what the summary is about"""
    peer: str
    duration_s: float
    """seconds of the measured window that were really covered"""
    complete: bool
    verdict: str
    """`ok`, or the cause in one line"""
    exit_code: int
    flows: list[FlowCount]
    probes: Probes | None
    """None: the scenario has no ping"""
    qdiscs: list[QdiscCount]
    txqs: list[TxqCount]
    rings: list[RingCount]
    napis: list[NapiCount]
    devs: list[DevCount]
    agents: list[AgentCount]
    pool: PoolCount | None
    fault: str | None
    """the kernel's own BUG, by name"""
    identities: list[IdentityCheck]
    timing: TimingVerdict
    series: dict[str, Floats]
    """`t_s` and SERIES, equally long; nan where a sample is missing"""
    memory_mb: float | None
    """proportional set size of all processes"""
    start_to_first_packet_s: float | None
    trace: Trace | None = None
    """None: the scenario traces nothing"""
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if len({len(column) for column in self.series.values()}) > 1:
            raise ValueError("the columns of a series must have one length")

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "VariantMeasurement":
        """The inverse of `to_dict`."""
        return from_plain(cls, plain)
