"""The NAPI thread of one receive queue: polls while there is something, idles as its scenario says.

``spin`` keeps looking, ``yield`` gives the CPU away between looks, ``futex`` sleeps until a producer schedules the
NAPI.

Upstream: napi_threaded_poll (net/core/dev.c).
"""

from __future__ import annotations

from typing import Any

from emulator.agents.agent import IDLE_NAP_NS, STEPS_A_LOOK, CompiledAgent, end_cycle
from emulator.agents.words import IDLE_FUTEX, IDLE_YIELD
from emulator.kernel.clock import local_clock
from emulator.kernel.jit import kernel
from emulator.kernel.memory import READ_ONCE, cpu_relax, sched_yield
from emulator.kernel.napi import napi_sleep
from emulator.kernel.threaded import napi_threaded_at_rest, napi_threaded_step

SPIN_NS = 2_000
"""How long a spinning NAPI thread looks away between two looks: what waking a thread takes at best.

Without it every packet of a slower sender would find the thread at the door and become a poll of its own, with its NAPI
state, notify mask and wake-up handed from cache to cache for each.
"""
_CLOSE_STEPS = 1_000_000


class NapiThread(CompiledAgent):
    """The NAPI agent."""

    role = "napi"

    def __init__(self, nets: Any, agents: Any, index: int) -> None:
        super().__init__(napi_cycle, napi_close, nets, agents, index)


@kernel
def napi_cycle(nets, agents, index, budget_ns):
    """One duty cycle; the number of steps that did something."""
    net = nets[0]
    words = agents[index]
    cpu = net.cpus[words.cpu]
    dev = net.devs[words.dev]
    rq = dev.rq[words.queue]
    started = local_clock(cpu)
    now = started
    work = 0
    while now - started < budget_ns and READ_ONCE(words, "stop") == 0:
        for _ in range(STEPS_A_LOOK):
            if napi_threaded_step(net, cpu, dev, rq):
                work += 1
            elif words.idle == IDLE_FUTEX:
                end_cycle(cpu, words, started, local_clock(cpu), work)
                cpu.stats.sleeps += 1
                napi_sleep(rq.napi, IDLE_NAP_NS)
                return work
            elif words.idle == IDLE_YIELD:
                sched_yield()
            else:
                _pause(cpu, SPIN_NS)
        if words.yields != 0:
            sched_yield()
        now = local_clock(cpu)
    end_cycle(cpu, words, started, now, work)
    return work


@kernel
def _pause(cpu, duration_ns):
    until = local_clock(cpu) + duration_ns
    while local_clock(cpu) < until:
        cpu_relax()


@kernel
def napi_close(nets, agents, index):
    """Finish the poll that is under way and what it woke; do not begin another."""
    net = nets[0]
    words = agents[index]
    cpu = net.cpus[words.cpu]
    dev = net.devs[words.dev]
    rq = dev.rq[words.queue]
    for _ in range(_CLOSE_STEPS):
        if napi_threaded_at_rest(cpu, rq):
            break
        napi_threaded_step(net, cpu, dev, rq)
