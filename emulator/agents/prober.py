"""The prober: pings on an open-loop schedule, never waiting for a reply.

A probe goes the way of every packet: dev_queue_xmit, qdisc, ring, the peer's NAPI and netfilter, and its reply comes
back through the reverse ring. Recorded for each: when the schedule wanted it sent, when it was sent, and (by the NAPI
thread that delivers the reply) when the reply arrived. A late prober shows in the first number and not in the second.

Upstream: iputils ping, with the schedule kept as wrk2 does.
"""

from __future__ import annotations

from typing import Any

from emulator.agents.agent import CompiledAgent, drain_softirq, end_cycle, nap
from emulator.agents.flood import build_skb
from emulator.kernel.clock import local_clock
from emulator.kernel.jit import kernel
from emulator.kernel.memory import READ_ONCE, WRITE_ONCE, cpu_relax
from emulator.kernel.sched import dev_queue_xmit, net_tx_action_step, softirq_pending
from emulator.kernel.skb import KIND_ECHO_REQUEST, alloc_skb

_EARLY_NS = 5_000  # a sleep is ended this much before the probe is due


class Prober(CompiledAgent):
    """The ping agent."""

    role = "ping"

    def __init__(self, nets: Any, agents: Any, index: int) -> None:
        super().__init__(prober_cycle, drain_softirq, nets, agents, index)


@kernel
def probe_due_ns(words):
    """When the next probe is due."""
    return words.start_ns + (words.next_probe + 1) * words.interval_ns


@kernel
def prober_step(net, cpu, words):
    """One step; False when no probe is due."""
    if softirq_pending(cpu):
        net_tx_action_step(net, cpu)
        return True
    due = probe_due_ns(words)
    if due >= words.end_ns:
        WRITE_ONCE(words, "finished", 1)
        return False
    if local_clock(cpu) < due:
        return False
    number = words.next_probe
    flow = net.flows[words.flow]
    probe = net.probes[number]
    probe.intended_ns = due
    skb = alloc_skb(net, cpu)
    if skb == 0:
        flow.nomem += 1
    else:
        build_skb(net, skb, words.flow, number + 1, words.packet_len, KIND_ECHO_REQUEST)
        flow.sent_bytes += words.packet_len
        WRITE_ONCE(flow, "sent", flow.sent + 1)
        now = local_clock(cpu)
        net.skbs[skb].sent_ns = now
        net.skbs[skb].intended_ns = due
        WRITE_ONCE(probe, "sent_ns", now)
        dev_queue_xmit(net, cpu, net.devs[words.dev], skb)
    WRITE_ONCE(words, "next_probe", number + 1)
    return True


@kernel
def prober_cycle(nets, agents, index, budget_ns):
    """One duty cycle: send what is due, then sleep until the next is."""
    net = nets[0]
    words = agents[index]
    cpu = net.cpus[words.cpu]
    started = local_clock(cpu)
    work = 0
    while prober_step(net, cpu, words):
        work += 1
        if local_clock(cpu) - started > budget_ns:
            break
    now = local_clock(cpu)
    end_cycle(cpu, words, started, now, work)
    wait = probe_due_ns(words) - now
    if words.finished != 0:
        nap(cpu, words, budget_ns)
    elif wait > _EARLY_NS:
        nap(cpu, words, wait - _EARLY_NS)
    else:
        while local_clock(cpu) < probe_due_ns(words) and READ_ONCE(words, "stop") == 0:
            cpu_relax()
    return work
