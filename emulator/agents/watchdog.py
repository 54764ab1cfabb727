"""The watchdog: dev_watchdog of each device on its timer, and cheap checks of what must always hold.

The checks cost the data path nothing: they read counters that others write anyway. The first that fails becomes the
run's fault, with the offender's values.
"""

from __future__ import annotations

from typing import Any

from emulator.agents.agent import CompiledAgent, drain_softirq, end_cycle, nap
from emulator.kernel.clock import DEVS_MAX, FLOWS_MAX, jiffies, local_clock
from emulator.kernel.jit import kernel
from emulator.kernel.memory import FAULT_FLOW, FAULT_INFLIGHT, READ_ONCE, record_fault
from emulator.kernel.netdev import bql_inflight
from emulator.kernel.sched import net_tx_action_step, softirq_pending
from emulator.kernel.watchdog import dev_watchdog

_NAP_NS = 10_000_000


class Watchdog(CompiledAgent):
    """The watchdog agent."""

    role = "watchdog"

    def __init__(self, nets: Any, agents: Any, index: int) -> None:
        super().__init__(watchdog_cycle, drain_softirq, nets, agents, index)


@kernel
def watchdog_step(net, cpu, words):
    """Look at each device whose timer has run out; False when none has and nothing is pending."""
    if softirq_pending(cpu):
        net_tx_action_step(net, cpu)
        return True
    for i in range(DEVS_MAX):
        dev = net.devs[i]
        if dev.present == 0:
            continue
        if words.next_check[i] == 0:
            words.next_check[i] = jiffies(cpu) + dev.watchdog_timeo
        elif jiffies(cpu) >= words.next_check[i]:
            words.next_check[i] = abs(dev_watchdog(net, cpu, dev))
            return True
    return False


@kernel
def check_invariants(net, cpu):
    """What may never be seen, however unlucky the moment of looking."""
    for i in range(DEVS_MAX):
        dev = net.devs[i]
        if dev.present != 0:
            for j in range(dev.real_num_tx_queues):
                if bql_inflight(dev.txq[j]) < 0:
                    record_fault(net, cpu, FAULT_INFLIGHT, i, j, bql_inflight(dev.txq[j]), 0, 0)
    for i in range(FLOWS_MAX):
        flow = net.flows[i]
        duplicates = READ_ONCE(flow, "duplicates")
        reordered = READ_ONCE(flow, "reordered")
        corrupt = READ_ONCE(flow, "corrupt")
        if duplicates + reordered + corrupt != 0:
            record_fault(net, cpu, FAULT_FLOW, i, duplicates, reordered, corrupt, 0)


@kernel
def watchdog_cycle(nets, agents, index, budget_ns):
    """One duty cycle: the timers, the checks, a nap."""
    net = nets[0]
    words = agents[index]
    cpu = net.cpus[words.cpu]
    started = local_clock(cpu)
    work = 0
    while watchdog_step(net, cpu, words):
        work += 1
        if local_clock(cpu) - started > budget_ns:
            break
    check_invariants(net, cpu)
    end_cycle(cpu, words, started, local_clock(cpu), work)
    nap(cpu, words, _NAP_NS)
    return work
