"""From a scenario to a segment ready to run: devices, queues, qdisc, rings, flows, agents.

What ``ip link add``, ``tc qdisc replace``, ``ethtool`` and the sysfs writes of a test script would do, before anything
runs. All through plain views; nobody else has the segment yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from emulator.agents.words import IDLE_POLICIES, ROLES
from emulator.errors import ScenarioError
from emulator.kernel.clock import COSTS, HZ
from emulator.kernel.device import NETDEV_UP
from emulator.kernel.dql import BITS_PER_LONG, DQL_MAX_LIMIT, UINT_MAX
from emulator.kernel.netfilter import MODE_BURN, MODE_WALK, rules_init
from emulator.kernel.ptr_ring import ptr_ring_batch
from emulator.kernel.qdisc.setup import qdisc_create
from emulator.kernel.skb import KIND_ECHO_REPLY, KIND_ECHO_REQUEST, KIND_FLOOD, pool_init
from emulator.kernel.veth import VARIANT_OFF, VARIANTS
from emulator.runtime.clocksource import ClockParams
from emulator.runtime.placement import Seat, control_cpu
from emulator.runtime.segment import Segment
from emulator.scenario.model import Scenario

SENDER, RECEIVER = 0, 1
"""Device numbers: veth0 has the qdisc and sends the flood, veth1 has the rules and receives it."""
DEVICE_NAMES = ("veth0", "veth1")
_NS_PER_S = 1_000_000_000
_CPU_DICE, _RING_DICE = 1 << 40, 2 << 40  # added to the seed, so that flows, CPUs and rings differ in theirs


def build(segment: Segment, scenario: Scenario, seats: Sequence[Seat], clock: ClockParams) -> None:
    """Fill in a fresh segment. Raises ScenarioError for what only the kernel's tables can refuse."""
    net = segment.view.net
    pool_init(net)
    for index, seat in enumerate(seats):
        _cpu(net.cpus[index], index, scenario, clock)
        _agent(segment.view.agents[index], index, seat, scenario)
        segment.view.agents[index].control_cpu = control_cpu(seats)
    segment.view.control.agents = len(seats)
    _devices(net, scenario, clock.ns_base)
    _flows(net, scenario)


def flow_labels(scenario: Scenario) -> dict[int, str]:
    """What each flow number stands for."""
    labels = {}
    if scenario.flooding:
        for thread in range(scenario.flood.threads):
            for flow in range(scenario.flood.flows):
                labels[thread * scenario.flood.flows + flow] = f"flood {thread}.{flow}"
    if scenario.ping is not None:
        labels[_ping_flow(scenario)] = "ping request"
        labels[_ping_flow(scenario) + 1] = "ping reply"
    return labels


def _ping_flow(scenario: Scenario) -> int:
    return scenario.flood.threads * scenario.flood.flows


def _cpu(cpu: Any, index: int, scenario: Scenario, clock: ClockParams) -> None:
    cpu.id = index
    cpu.online = 1
    cpu.tsc_base, cpu.ns_base, cpu.tsc_mult = clock.tsc_base, clock.ns_base, clock.tsc_mult
    cpu.jiffy_ns = _jiffy_ns(scenario)
    cpu.random = 1 + mixed_bits(scenario.seed + _CPU_DICE, index)
    cpu.events.limit = scenario.trace
    cpu.costs.stack_rx = scenario.stack_rx_ns
    if scenario.clock == "virtual" and scenario.host is not None:
        for name in COSTS.names or ():
            if name != "noise_ppm":
                setattr(cpu.costs, name, round(getattr(scenario.host, name)))
        cpu.costs.noise_ppm = scenario.host.noise


def _agent(words: Any, index: int, seat: Seat, scenario: Scenario) -> None:
    words.role = ROLES.index(seat.role)
    words.cpu = index
    words.affinity = seat.cpu
    words.yields = int(seat.shares_cpu)
    words.idle = IDLE_POLICIES.index(seat.idle)
    words.dev = seat.dev
    words.queue = seat.queue
    if seat.role == "flood":
        words.idle = IDLE_POLICIES.index("spin")
        flood = scenario.flood
        words.flow = seat.queue * flood.flows
        words.flows = flood.flows
        words.packet_len = flood.packet
        words.interval_ns = round(1e9 / flood.rate) if flood.rate else 0
    elif seat.role == "ping" and scenario.ping is not None:
        words.flow = _ping_flow(scenario)
        words.packet_len = scenario.ping.packet
        words.interval_ns = scenario.ping.interval


def _devices(net: Any, scenario: Scenario, now_ns: int) -> None:
    device = scenario.device
    variant = VARIANTS.index(device.bql.variant)
    slot = 0
    for number in (SENDER, RECEIVER):
        dev = net.devs[number]
        dev.ifindex = number
        dev.peer = 1 - number
        dev.present = 1
        dev.flags = NETDEV_UP
        dev.num_tx_queues = device.num_tx_queues
        dev.real_num_tx_queues = dev.real_num_rx_queues = device.real_num_tx_queues
        dev.tx_queue_len = device.txqueuelen
        dev.mtu = device.mtu
        dev.bql_variant = variant
        dev.tx_coal_ns = device.bql.tx_usecs if device.bql.variant in ("v6", "v7") else 0
        dev.watchdog_timeo = max(1, scenario.watchdog.timeout // _jiffy_ns(scenario))
        dev.has_tx_timeout = int(variant != VARIANT_OFF)
        for queue in range(device.num_tx_queues):
            _txq(dev.txq[queue], number, queue, scenario, now_ns)
            _rq(net, dev.rq[queue], queue, slot, scenario)
            slot += device.ring_size
    net.params.ring_slots_used = slot  # before the qdiscs: pfifo_fast takes its bands from the same arena
    for number, qdisc in ((SENDER, device.qdisc), (RECEIVER, device.peer_qdisc)):
        _root_qdisc(net, net.devs[number], number, qdisc)
    rules = scenario.netfilter
    receiver = net.devs[RECEIVER]
    receiver.nf_mode = MODE_WALK if rules.mode == "walk" else MODE_BURN
    receiver.nf_rules = rules.rules
    receiver.nf_cost_ns = scenario.netfilter_cost_ns
    if rules.mode == "walk":
        rules_init(net, rules.rules)


def _txq(txq: Any, dev: int, queue: int, scenario: Scenario, now_ns: int) -> None:
    bql = scenario.device.bql
    txq.dev, txq.index, txq.qdisc = dev, queue, dev
    dql = txq.dql
    dql.max_limit = DQL_MAX_LIMIT
    dql.lowest_slack = UINT_MAX
    jiffy_ns = _jiffy_ns(scenario)
    dql.slack_hold_time = bql.hold_time // jiffy_ns
    dql.slack_start_time = dql.last_reap = now_ns // jiffy_ns
    dql.history_head = dql.last_reap // BITS_PER_LONG
    if dev == SENDER:  # written as through sysfs: they act at the first completion
        dql.min_limit, dql.max_limit = bql.limit_min, bql.limit_max
        dql.stall_thrs = bql.stall_thrs


def _jiffy_ns(scenario: Scenario) -> int:
    return _NS_PER_S // (scenario.host.hz if scenario.host else HZ)


def _rq(net: Any, rq: Any, queue: int, slot: int, scenario: Scenario) -> None:
    rq.index = rq.peer_txq = queue
    rq.napi.weight = scenario.napi.weight
    rq.gro.normal_batch = scenario.napi.gro_normal_batch
    rq.ring.base = slot
    rq.ring.size = scenario.device.ring_size
    rq.ring.batch = ptr_ring_batch(scenario.device.ring_size)
    if scenario.clock == "virtual":  # a ring that has been used: it stands anywhere
        start = mixed_bits(scenario.seed + _RING_DICE, queue) % scenario.device.ring_size
        rq.ring.producer = rq.ring.consumer_head = rq.ring.consumer_tail = start
    net.ring_slots.raw[slot : slot + scenario.device.ring_size] = 0


def _root_qdisc(net: Any, dev: Any, index: int, qdisc: Any) -> None:
    given = {name: getattr(qdisc, name) for name in qdisc.model_fields_set - {"kind"}}
    try:
        qdisc_create(
            net,
            index,
            qdisc.kind,
            given,
            dev=index,
            txq=-1,
            txqueuelen=dev.tx_queue_len,
            mtu=dev.mtu,
            onetxqueue=dev.num_tx_queues == 1,
        )
    except ValueError as error:
        raise ScenarioError(f"device.{'qdisc' if index == SENDER else 'peer_qdisc'}: {error}") from None


def _flows(net: Any, scenario: Scenario) -> None:
    for number, label in flow_labels(scenario).items():
        flow = net.flows[number]
        flow.used = 1
        flow.hash = mixed_bits(scenario.seed, number)
        flow.kind = {"ping request": KIND_ECHO_REQUEST, "ping reply": KIND_ECHO_REPLY}.get(label, KIND_FLOOD)


def mixed_bits(seed: int, number: int) -> int:
    """32 well mixed bits (splitmix64), so that flows fall into different buckets whatever the seed."""
    x = (seed * 64 + number + 1) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
    return (x ^ (x >> 31)) & 0xFFFFFFFF
