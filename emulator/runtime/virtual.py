"""The virtual clock: one variant of a scenario in this process, from nothing to a measurement.

The agents of the scenario, each with a CPU of its own, step by step in the order of their times
(runtime/virtual_steps.py). Costs come from the host profile and are added. Nothing depends on the machine or on when it
runs: the same scenario and seed give the same result, bit for bit.

::

    build segment in private memory -> start time for everyone
        | warmup |        measured: sampled as a poller of sysfs would        | grace: last replies | stop, in order |

What the machine itself charges under the real clock is a cost of the profile here: a cache line or a lock that another
CPU had last (``cache_line``, ``lock_handover``), waking a thread (``napi_wakeup``), the way back of a ping
(``return_path``), a timer's lateness. Preemption, interrupts and frequency changes are not modelled.

Resolution. A step is taken at one moment: what it does after a charge of its own, a bulk of up to 9 packets at most, is
seen by the others up to a microsecond early. Long costs, those of a packet's rules, end a step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from emulator.agents.agent import drain_softirq, entry
from emulator.agents.napi import napi_close
from emulator.agents.words import PHASE_DONE, PHASE_RUNNING
from emulator.errors import ExitCode
from emulator.kernel.memory import KernelFault
from emulator.report.measurement import VariantMeasurement
from emulator.runtime.build import SENDER, build
from emulator.runtime.clocksource import ClockParams
from emulator.runtime.measure import RunFacts, fault_text, measure
from emulator.runtime.placement import STOP_ORDER, Seat, place
from emulator.runtime.sampler import Sampler
from emulator.runtime.segment import Segment
from emulator.runtime.virtual_steps import NEVER, run_until
from emulator.scenario.model import Scenario

START_NS = 1_000_000_000
"""Virtual time at which every run begins."""
_TICK_NS = 20_000_000  # between two samples, as under the real clock
_GRACE_NS = 1_000_000_000
_ONE_CPU_EACH = range(4)

Progress = Callable[[str, float, float], None]


def run_virtual(
    scenario: Scenario,
    stop: Callable[[], bool] = lambda: False,
    progress: Progress = lambda _what, _done_s, _total_s: None,
) -> VariantMeasurement:
    """Run one variant. ``stop`` is asked every 20 ms of virtual time and ends it early, with what was measured."""
    return VirtualRun(scenario).run(stop, progress)


class VirtualRun:
    """One run; between construction and :meth:`run` its segment may be looked at and changed."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._seats = [replace(seat, idle=_idle(scenario, seat)) for seat in place(scenario, _ONE_CPU_EACH)]
        self.segment = Segment.private()
        build(self.segment, scenario, self._seats, ClockParams(0, START_NS, 0))
        self._net = self.segment.view.net
        self._agents = self.segment.view.agents
        self._sampler = Sampler(self._net)
        self._facts = RunFacts()
        self._run_until = entry(run_until)
        self._go()

    def run(self, stop: Callable[[], bool], progress: Progress) -> VariantMeasurement:
        """Warm up, measure, wait for the last replies, stop. The measurement's verdict says how it ended."""
        try:
            self._measure_window(stop, progress)
            self._grace(stop)
            self._stop()
        except KernelFault:
            pass  # its details are in the segment
        if (text := fault_text(self._net, self._seats)) is not None:
            self._end(text, ExitCode.CHECK_FAILED)
        return measure(self._scenario, self.segment, self._seats, self._sampler, self._facts)

    def advance(self, until_ns: int) -> int:
        """Take every step that is due before a virtual time; how many did something."""
        return int(self._run_until(self.segment.nets, self.segment.agents, len(self._seats), until_ns))

    def _go(self) -> None:
        params, scenario = self._net.params, self._scenario
        params.start_ns = START_NS
        params.measure_start_ns = START_NS + scenario.warmup
        params.measure_end_ns = params.measure_start_ns + scenario.duration
        for index, seat in enumerate(self._seats):
            cpu, words = self._net.cpus[index], self._agents[index]
            cpu.virtual, cpu.now_ns = 1, START_NS
            words.start_ns = words.next_ns = START_NS
            words.end_ns = params.measure_end_ns
            words.due_ns = NEVER if seat.role == "napi" else START_NS
            words.phase = PHASE_RUNNING

    def _measure_window(self, stop: Callable[[], bool], progress: Progress) -> None:
        params = self._net.params
        total_s = (params.measure_end_ns - START_NS) / 1e9
        now = START_NS
        while not self._ended(stop, now):
            if now >= params.measure_start_ns:
                self._sampler.sample(now)
                self._facts.measured_until_ns = now
            if now >= params.measure_end_ns:
                break
            edge = params.measure_start_ns if now < params.measure_start_ns else params.measure_end_ns
            now = min(now + _TICK_NS, edge)
            self.advance(now)
            progress(self._scenario.variant_name, (now - START_NS) / 1e9, total_s)

    def _ended(self, stop: Callable[[], bool], now_ns: int) -> bool:
        if stop():
            done_s = max(0, now_ns - self._net.params.measure_start_ns) / 1e9
            whole_s = self._scenario.duration / 1e9
            self._end(f"interrupted after {done_s:.1f} s of {whole_s:g} s measured", ExitCode.INTERRUPTED)
        if (text := fault_text(self._net, self._seats)) is not None:
            self._end(text, ExitCode.CHECK_FAILED)
        return self._facts.verdict != "ok"

    def _end(self, verdict: str, code: ExitCode) -> None:
        if self._facts.verdict == "ok":
            self._facts.verdict, self._facts.exit_code = verdict, int(code)

    def _grace(self, stop: Callable[[], bool]) -> None:
        """Keep the load up until the last probes are answered, for a while."""
        ping = next((self._agents[i] for i, seat in enumerate(self._seats) if seat.role == "ping"), None)
        now = self._net.params.measure_end_ns
        last = now + _GRACE_NS
        while ping is not None and now < last and not self._ended(stop, now):
            probes = self._net.probes.raw[: int(ping.next_probe)]
            if ping.finished and (probes["received_ns"] != 0).all():
                break
            now += _TICK_NS
            self.advance(now)

    def _stop(self) -> None:
        """Empty every agent's hands, in the order in which processes are stopped."""
        nets, agents = self.segment.nets, self.segment.agents
        for role in STOP_ORDER:
            for index, seat in enumerate(self._seats):
                if seat.role == role:
                    entry(napi_close if role == "napi" else drain_softirq)(nets, agents, index)
                    self._agents[index].phase = PHASE_DONE
        end = max(int(self._net.cpus[index].now_ns) for index in range(len(self._seats)))
        for index in range(len(self._seats)):
            self._agents[index].heartbeat_ns = end


def _idle(scenario: Scenario, seat: Seat) -> str:
    """A NAPI thread sleeps when idle, as in the kernel, unless the scenario says otherwise."""
    wanted = scenario.napi.peer_idle if seat.dev == SENDER else scenario.napi.idle
    return wanted or "futex"
