"""The scenario: what runs, on what, for how long, and what is expected of it.

A `Scenario` is frozen; it comes from `load.load_scenario`, which also checks what no single field can know
(`checks`). The names are those of the YAML file. Values are plain numbers: times in ns, sizes in bytes, counts in
packets, rates in packets a second; the comment under a field says which. `None` means: not given, the runtime chooses
(a CPU, an idle policy), or: switched off (`ping`).

Where it stops: one veth pair, one real clock, no events while running. Each is said as an ordinary "allowed" in the
error.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PrivateAttr, StrictStr, field_serializer, field_validator, model_validator

from emulator.scenario.base import Strict
from emulator.scenario.expect import Expectation, Expectations
from emulator.scenario.profile import MAX_RULES, HostProfile
from emulator.scenario.qdiscs import FqCodel, Noqueue, Qdisc, settle_defaults
from emulator.scenario.text import found
from emulator.scenario.units import (
    DQL_MAX_LIMIT,
    NS_PER_MS,
    NS_PER_S,
    NS_PER_US,
    CostNs,
    OrWord,
    duration,
    fault,
    packets,
    rate,
    size,
    whole,
)

Clock = Literal["real", "virtual"]
BqlVariant = Literal["off", "v5", "v6", "v7"]
Idle = Literal["spin", "yield", "futex"]
Timing = Literal["ignore", "fair", "good"]
Cpu = Annotated[int, whole(0, 4095)]
Rate = Annotated[int | None, OrWord("max", rate("0pps", "1000Mpps"))]
Measuring = Annotated[int, duration("1ms", "1440min", "s")]
WarmingUp = Annotated[int, duration("0ns", "1440min", "s")]

LONGEST_NAME = 64
LONGEST_TX_QUEUE = 75_000  # both devices with pfifo_fast, three rings each, still find room in the segment
SHORTEST_STALL = 4  # jiffies
LONGEST_TRACE = 1024  # events of each agent, for which the segment has room


def valid_name(value: object) -> object:
    """The name of a scenario or a variant; a validation error if it could not stand in a table or a file name."""
    if isinstance(value, str) and (
        not value.strip() or len(value) > LONGEST_NAME or "/" in value or not value.isprintable()
    ):
        raise fault(f"{found(value)} is not a name; allowed: 1..{LONGEST_NAME} printable characters without '/'")
    return value


def _absolute(value: object) -> object:
    if isinstance(value, str) and not (value.startswith("/") and value.isprintable()):
        raise fault(f"{found(value)} is not an absolute path; write e.g. /dev/shm, or null for that")
    return value


def _no_events(value: object) -> object:
    if value:
        raise fault("no events are available in this version; allowed: []")
    return value


def _profile_or_none(value: object) -> object:
    if value == "none":
        return None
    if value is None:
        raise fault("expected a host profile, got null; write 'none' to burn nothing, or a path")
    return value


Name = Annotated[StrictStr, BeforeValidator(valid_name)]


class Bql(Strict):
    """Byte queue limits of the device: which form of the veth series, and DQL's knobs."""

    variant: BqlVariant = "off"
    tx_usecs: Annotated[int, duration("0ns", "60min", "us")] = 100 * NS_PER_US
    """ns a completion may wait (ethtool -C tx-usecs); off and v5 do not use it"""
    limit_min: Annotated[int, packets(0, DQL_MAX_LIMIT)] = 0
    limit_max: Annotated[int, packets(0, DQL_MAX_LIMIT)] = DQL_MAX_LIMIT
    hold_time: Annotated[int, duration("0ns", "60min", "s")] = NS_PER_S
    """ns without need before the limit falls (slack_hold_time)"""
    stall_thrs: Annotated[int, whole(0, 128)] = 0
    """jiffies without completion that count as a stall; 0: not watched, else 4..128"""

    @field_validator("stall_thrs")
    @classmethod
    def _stall_threshold(cls, jiffies: int) -> int:
        if 0 < jiffies < SHORTEST_STALL:
            raise fault(f"{jiffies} jiffies are refused by the kernel (-EINVAL); allowed: 0, {SHORTEST_STALL}..128")
        return jiffies


class Device(Strict):
    """A veth pair; the flood's end sends through `qdisc`, replies come back through `peer_qdisc`."""

    kind: Literal["veth"] = "veth"
    ring_size: Annotated[int, whole(1, 4096)] = 256
    num_tx_queues: Annotated[int, whole(1, 8)] = 6
    """allocated; 1 makes the root qdisc ONETXQUEUE"""
    real_num_tx_queues: Annotated[int, whole(1, 8)] = 1
    txqueuelen: Annotated[int, packets(0, LONGEST_TX_QUEUE)] = 1000
    mtu: Annotated[int, whole(68, 65535)] = 1500
    """bytes, without the ethernet header"""
    bql: Bql = Bql()
    qdisc: Qdisc = Field(default_factory=FqCodel)
    peer_qdisc: Qdisc = Field(default_factory=Noqueue)

    @model_validator(mode="after")
    def _settle(self) -> "Device":
        for qdisc in (self.qdisc, self.peer_qdisc):
            settle_defaults(qdisc, self.txqueuelen, self.mtu)
        return self


class Flood(Strict):
    """Senders that call dev_queue_xmit as fast as they are told."""

    mode: Literal["queue_xmit"] = "queue_xmit"
    packet: Annotated[int, size("64B", "65535B")] = 64
    """bytes a packet"""
    rate: Rate = None
    """packets a second of each thread; None: `max`, as fast as it can"""
    threads: Annotated[int, whole(0, 4)] = 1
    flows: Annotated[int, whole(1, 8)] = 1
    """flows of each thread"""
    cpus: tuple[Cpu, ...] | None = None
    """one CPU a thread"""


class Napi(Strict):
    """The receiving ends: the peer's NAPI thread takes the flood, the device's own takes the replies."""

    threaded: Literal[True] = True
    cpu: Cpu | None = None
    """where the flood is received"""
    peer_cpu: Cpu | None = None
    """where the replies are received"""
    weight: Annotated[int, packets(1, 256)] = 64
    gro_normal_batch: Annotated[int, packets(1, 256)] = 8
    idle: Idle | None = None
    peer_idle: Idle | None = None


class Netfilter(Strict):
    """Rules that every received packet pays for."""

    rules: Annotated[int, whole(0, MAX_RULES)] = 0
    mode: Literal["burn", "walk"] = "burn"
    """burn: the host profile's time; walk: a real table in memory"""
    rule_cost: CostNs | None = None
    """ns a rule when burnt, instead of the host profile's"""


class Ping(Strict):
    """Echo requests on an open-loop schedule; they never wait for a reply."""

    interval: Annotated[int, duration("100us", "60min", "ms")] = 20 * NS_PER_MS
    """ns between probes"""
    from_: Annotated[Literal["schedule"], Field(alias="from")] = "schedule"
    packet: Annotated[int, size("64B", "65535B")] = 98
    """bytes a probe"""
    cpu: Cpu | None = None


class Watchdog(Strict):
    """dev_watchdog."""

    timeout: Annotated[int, duration("1ms", "60min", "s")] = 16 * NS_PER_S
    """ns a stopped queue may stand still"""
    cpu: Cpu | None = None


class TimingDemand(Strict):
    """What the machine must have been like for the result to count."""

    require: Timing = "ignore"


class Scenario(Strict):
    """One run. `duration` counts after `warmup`: a run takes both, and results are of `duration` alone."""

    name: Name = "scenario"
    description: StrictStr = ""
    clock: Clock = "real"
    duration: Measuring = 20 * NS_PER_S
    """ns measured, after the warmup"""
    warmup: WarmingUp = NS_PER_S
    """ns before anything is measured"""
    seed: Annotated[int, whole(0, 2**63 - 1)] = 1
    host: Annotated[HostProfile | None, BeforeValidator(_profile_or_none)] = None
    """what things cost; None: `none`, nothing is burnt"""
    run_dir: Annotated[StrictStr, BeforeValidator(_absolute)] | None = None
    """where run directories are made; None: /dev/shm"""
    trace: Annotated[int, whole(0, LONGEST_TRACE)] = 0
    """events of each agent that are kept from the start of the run on; 0: none"""
    device: Device = Field(default_factory=Device)
    flood: Flood = Flood()
    napi: Napi = Napi()
    netfilter: Netfilter = Netfilter()
    ping: Ping | None = None
    watchdog: Watchdog = Watchdog()
    timing: TimingDemand = TimingDemand()
    events: Annotated[tuple[Any, ...], BeforeValidator(_no_events)] = ()
    expect: Annotated[tuple[Expectation, ...], Expectations()] = ()

    _variant_name: str = PrivateAttr(default="")

    @property
    def variant_name(self) -> str:
        """The name of its entry in `compare:`; the scenario's own where there is none."""
        return self._variant_name or self.name

    def named(self, variant_name: str) -> "Scenario":
        """The same as a variant of that name."""
        copy = self.model_copy()
        copy._variant_name = variant_name
        return copy

    @property
    def netfilter_cost_ns(self) -> int:
        """ns burnt a packet for the rules; 0 where they are walked."""
        rules = self.netfilter
        if rules.mode == "walk":
            return 0
        if rules.rule_cost is not None:
            return round(rules.rule_cost * rules.rules)
        return self.host.netfilter_cost_ns(rules.rules) if self.host else 0

    @property
    def stack_rx_ns(self) -> int:
        """ns burnt a packet for the stack above GRO."""
        return round(self.host.stack_rx) if self.host else 0

    @property
    def flooding(self) -> bool:
        """Whether the flood sends anything."""
        return self.flood.threads > 0 and self.flood.rate != 0

    @field_serializer("host")
    def _host(self, host: HostProfile | None) -> Any:
        return host.to_plain() if host else "none"
