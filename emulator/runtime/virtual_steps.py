"""The virtual clock's loop: always the step whose time is earliest.

Each agent has its own CPU and that CPU its own time. ``due_ns`` of an agent is when its next step is to be taken: the
time of its CPU after the step before, or, when that found nothing to do, the time at which there may be something
again: the next packet or probe by schedule, a watchdog's timer, a wake-up. A NAPI thread that sleeps and that nobody
has scheduled is never due; whoever schedules it makes it due, ``napi_wakeup`` later. One that spins or yields looks
again every SPIN_NS. Ties go to the lower number.

The steps are those of the real clock, the very functions (agents/), and charge() adds where it would burn
(kernel/clock.py). A step's first effects are at its time; what it costs moves only its own CPU's time.
"""

from __future__ import annotations

from emulator.agents.flood import flood_step
from emulator.agents.napi import SPIN_NS
from emulator.agents.prober import probe_due_ns, prober_step
from emulator.agents.watchdog import watchdog_step
from emulator.agents.words import IDLE_FUTEX, ROLE_FLOOD, ROLE_NAPI, ROLE_PING
from emulator.kernel.clock import DEVS_MAX, dice, wakeup_ns
from emulator.kernel.jit import kernel
from emulator.kernel.memory import READ_ONCE
from emulator.kernel.napi import SCHED_THREADED
from emulator.kernel.threaded import napi_threaded_step

NEVER = 1 << 62
_POOL_RETRY_NS = 1_000


@kernel
def run_until(nets, agents, count, until_ns):
    """Take every step that is due before ``until_ns``; how many did something."""
    net = nets[0]
    steps = 0
    while True:
        first = -1
        earliest = until_ns
        second_ns = until_ns
        for i in range(count):
            due_ns = agents[i].due_ns
            if due_ns < earliest:
                first = i
                second_ns = earliest
                earliest = due_ns
            elif due_ns < second_ns:
                second_ns = due_ns
        if first < 0:
            return steps
        words = agents[first]
        cpu = net.cpus[words.cpu]
        its_turn = True
        while its_turn:
            cpu.now_ns = max(cpu.now_ns, words.due_ns)
            began_ns = cpu.now_ns
            if agent_step(net, cpu, words):
                steps += 1
                cpu.stats.steps += 1
                # Nothing is instantaneous: two CPUs must not wait for each other at one moment.
                cpu.now_ns = max(cpu.now_ns, began_ns + 1)
                words.due_ns = cpu.now_ns
            else:
                words.due_ns = _idle_until(cpu, words)
            its_turn = not _wake_sleepers(net, cpu, agents, count) and words.due_ns < second_ns


@kernel
def agent_step(net, cpu, words):
    """One step of an agent; False when it had nothing to do."""
    if words.role == ROLE_NAPI:
        dev = net.devs[words.dev]
        return napi_threaded_step(net, cpu, dev, dev.rq[words.queue])
    if words.role == ROLE_FLOOD:
        return flood_step(net, cpu, words)
    if words.role == ROLE_PING:
        return prober_step(net, cpu, words)
    return watchdog_step(net, cpu, words)


@kernel
def _idle_until(cpu, words):
    """When an agent that found nothing to do looks again."""
    if words.role == ROLE_NAPI:
        return NEVER if words.idle == IDLE_FUTEX else cpu.now_ns + SPIN_NS
    if words.role == ROLE_FLOOD:
        return max(words.next_ns, cpu.now_ns + _POOL_RETRY_NS)
    if words.role == ROLE_PING:
        late_ns = dice(cpu, cpu.costs.timer_slack)
        return NEVER if words.finished != 0 else max(probe_due_ns(words) + late_ns, cpu.now_ns + 1)
    next_check = NEVER // cpu.jiffy_ns
    for i in range(DEVS_MAX):
        if words.next_check[i] > 0:
            next_check = min(next_check, words.next_check[i])
    return max(next_check * cpu.jiffy_ns, cpu.now_ns + 1)


@kernel
def _wake_sleepers(net, cpu, agents, count):
    """Let NAPI threads that ``cpu``'s step scheduled run when they have woken up; whether there was one."""
    woken = False
    for i in range(count):
        words = agents[i]
        if words.due_ns != NEVER or words.role != ROLE_NAPI:
            continue
        rq = net.devs[words.dev].rq[words.queue]
        if READ_ONCE(rq.napi, "state") & SCHED_THREADED != 0:
            own = net.cpus[words.cpu]
            words.due_ns = max(own.now_ns, cpu.now_ns + wakeup_ns(own, own.costs.napi_wakeup))
            woken = True
    return woken
