"""What an agent is, seen from whoever runs it, and what all duty cycles have in common.

Sharing a CPU. A kernel does not preempt whoever holds a spinlock; an operating system preempts a process anywhere. So
agents that share a CPU of the machine take turns where no lock is held: those that sleep do not preempt when they wake
(SCHED_BATCH, runtime/agent_main.py), and those that never sleep give the CPU away every few steps (``words.yields``).
"""

from __future__ import annotations

from typing import Any, Protocol

from emulator.kernel.clock import local_clock
from emulator.kernel.jit import kernel
from emulator.kernel.memory import READ_ONCE, WRITE_ONCE, futex_wait
from emulator.kernel.sched import net_tx_action_step, softirq_pending

BUDGET_NS = 1_000_000
"""Length of a duty cycle: how long a stop word may go unread."""
STEPS_A_LOOK = 32
"""Steps between two looks at the clock and the stop word."""
IDLE_NAP_NS = 20_000_000
"""Longest sleep of an idle agent; its heartbeat is at least this frequent."""
_DRAIN_STEPS = 1_000_000


class Agent(Protocol):
    """One task of the emulation. The runner calls on_start once, do_work until it is told to stop, then on_close."""

    role: str

    def on_start(self) -> None:
        """Called in the agent's process, on its CPU, before the first duty cycle."""

    def do_work(self) -> int:
        """One duty cycle; the number of steps that did something."""

    def on_close(self) -> None:
        """Finish what is in this CPU's hands: called once, after the last duty cycle."""


class CompiledAgent:
    """An agent whose duty cycle is one compiled function ``cycle(nets, agents, index, budget_ns) -> steps``.

    ``nets``: array of shape (1,) of the segment's NET; ``agents``: array of all AGENT words; ``index``: this agent's
    number. Arrays, because handing over a record costs numba 45 us of describing its hundreds of fields, in every duty
    cycle.
    """

    role = "none"

    def __init__(self, cycle: Any, close: Any, nets: Any, agents: Any, index: int) -> None:
        self._cycle, self._close = entry(cycle), entry(close)
        self._nets, self._agents, self._index = nets, agents, index

    def on_start(self) -> None:
        """Nothing to prepare: the launcher filled in the words."""

    def do_work(self) -> int:
        """One duty cycle."""
        return int(self._cycle(self._nets, self._agents, self._index, BUDGET_NS))

    def on_close(self) -> None:
        """Run out what this CPU had begun."""
        self._close(self._nets, self._agents, self._index)


def entry(function: Any) -> Any:
    """The compiled function itself, past numba's dispatcher, which would look at the types of all arguments each time.

    For functions that have been compiled for exactly one signature; under plain Python the function as it is.
    """
    overloads = getattr(function, "overloads", None)
    if not overloads:
        return function
    (compiled,) = overloads.values()
    return compiled.entry_point


@kernel
def end_cycle(cpu, words, started_ns, now_ns, work):
    """Account for a duty cycle and show a sign of life."""
    stats = cpu.stats
    stats.cycles += 1
    stats.steps += work
    if work > 0:
        if stats.first_step_ns == 0:
            stats.first_step_ns = started_ns
    else:
        stats.idle_loops += 1
    stats.longest_cycle_ns = max(stats.longest_cycle_ns, now_ns - started_ns)
    WRITE_ONCE(words, "heartbeat_ns", now_ns)


@kernel
def nap(cpu, words, duration_ns):
    """Sleep until woken through ``words.wake`` or for ``duration_ns``, whichever comes first."""
    if duration_ns > 0 and READ_ONCE(words, "stop") == 0:
        cpu.stats.sleeps += 1
        futex_wait(words, "wake", READ_ONCE(words, "wake"), min(duration_ns, IDLE_NAP_NS))


@kernel
def drain_softirq(nets, agents, index):
    """Finish this CPU's qdisc run and softirqs, so that nothing waits for a CPU that is gone."""
    net = nets[0]
    words = agents[index]
    cpu = net.cpus[words.cpu]
    for _ in range(_DRAIN_STEPS):
        if not softirq_pending(cpu):
            break
        net_tx_action_step(net, cpu)
    WRITE_ONCE(words, "heartbeat_ns", local_clock(cpu))
