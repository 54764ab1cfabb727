"""The flood: dev_queue_xmit as fast as it can, or at a rate, like pktgen in queue_xmit mode.

One step sends one packet, or goes on with the qdisc run that an earlier packet began. The rate at which it enqueues is
not what arrives: goodput is counted by the receiver.

Upstream: pktgen_xmit, M_QUEUE_XMIT (net/core/pktgen.c).
"""

from __future__ import annotations

from typing import Any

from emulator.agents.agent import STEPS_A_LOOK, CompiledAgent, drain_softirq, end_cycle, nap
from emulator.kernel.clock import charge, local_clock
from emulator.kernel.jit import kernel
from emulator.kernel.memory import READ_ONCE, WRITE_ONCE, cpu_relax, sched_yield
from emulator.kernel.receive import payload_check
from emulator.kernel.sched import dev_queue_xmit, net_tx_action_step, softirq_pending
from emulator.kernel.skb import KIND_FLOOD, alloc_skb

_SKB_OVERHEAD = 704  # truesize of a small packet beyond its bytes
_YIELD_NS = 20_000  # how long others on this CPU wait at most; a yield costs half a microsecond
_SPIN_NS = 60_000  # waits shorter than a sleep's latency are spun


class Flood(CompiledAgent):
    """The flood agent."""

    role = "flood"

    def __init__(self, nets: Any, agents: Any, index: int) -> None:
        super().__init__(flood_cycle, drain_softirq, nets, agents, index)


@kernel
def flood_step(net, cpu, words):
    """One step; False when the next packet is not due or cannot be built."""
    if softirq_pending(cpu):
        net_tx_action_step(net, cpu)
        return True
    if words.interval_ns > 0:
        if local_clock(cpu) < words.next_ns:
            return False
        words.next_ns += words.interval_ns
    charge(cpu, cpu.costs.skb_build)
    index = words.flow + words.next_flow
    words.next_flow = words.next_flow + 1 if words.next_flow + 1 < words.flows else 0
    flow = net.flows[index]
    skb = alloc_skb(net, cpu)
    if skb == 0:
        flow.nomem += 1
        return False
    seq = flow.sent + 1
    build_skb(net, skb, index, seq, words.packet_len, KIND_FLOOD)
    flow.sent_bytes += words.packet_len
    WRITE_ONCE(flow, "sent", seq)
    dev_queue_xmit(net, cpu, net.devs[words.dev], skb)
    return True


@kernel
def build_skb(net, skb, index, seq, length, kind):
    """Fill in a packet of a flow: its headers and a payload that can be checked."""
    packet = net.skbs[skb]
    packet.next = 0
    packet.len = length
    packet.hash = net.flows[index].hash
    packet.truesize = length + _SKB_OVERHEAD
    packet.seq = seq
    packet.flow = index
    packet.kind = kind
    packet.priority = 0
    packet.tos = 0
    packet.wmem = 0
    packet.check = payload_check(seq, index)


@kernel
def flood_cycle(nets, agents, index, budget_ns):
    """One duty cycle; the number of steps that did something."""
    net = nets[0]
    words = agents[index]
    cpu = net.cpus[words.cpu]
    started = local_clock(cpu)
    now = started
    yielded = started
    work = 0
    if words.next_ns == 0:
        words.next_ns = started
    while now - started < budget_ns and READ_ONCE(words, "stop") == 0:
        busy = False
        for _ in range(STEPS_A_LOOK):
            if not flood_step(net, cpu, words):
                break
            work += 1
            busy = True
        now = local_clock(cpu)
        if words.yields != 0 and now - yielded >= _YIELD_NS:
            sched_yield()
            yielded = now
        if not busy and words.interval_ns > 0:
            if words.next_ns - now > _SPIN_NS:
                nap(cpu, words, words.next_ns - now - _SPIN_NS)
                break
            cpu_relax()
    now = local_clock(cpu)
    end_cycle(cpu, words, started, now, work)
    return work
