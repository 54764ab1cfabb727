"""The real clock: one variant of a scenario on real processes, from an empty directory to a measurement.

::

    build segment -> start agents -> all READY -> one absolute start time
        | warmup |        measured: sampled as a poller of sysfs would        | grace: last replies | stop, in order |

Stop order: prober, flood, NAPI threads, watchdog, each with empty hands, so that the identities can be checked on what
is left. Whatever ends a run early (an agent's death, a fault, Ctrl-C) goes the same way, and what was measured is kept.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from emulator.agents.words import PHASE_DONE, PHASE_RUNNING
from emulator.control.protocol import Failed, Ready, Start, Stop
from emulator.control.server import ControlServer
from emulator.errors import AgentFailure, ExitCode
from emulator.report.measurement import VariantMeasurement
from emulator.runtime.build import build
from emulator.runtime.clocksource import ClockParams, SegmentClock
from emulator.runtime.host import StealMeter
from emulator.runtime.host.procfs import STOPPED_STATES, read_stat
from emulator.runtime.interrupts import Interrupts
from emulator.runtime.measure import RunFacts, fault_text, measure
from emulator.runtime.memory_use import pss_mb
from emulator.runtime.placement import STOP_ORDER, Seat, control_cpu, place
from emulator.runtime.processes import AgentProcesses, fork_server_end, helper_pids, wake_helpers
from emulator.runtime.quiet import in_background
from emulator.runtime.rundir import create_run_dir, process_start_time
from emulator.runtime.salvage import leave_plan
from emulator.runtime.sampler import Sampler
from emulator.runtime.segment import Segment
from emulator.runtime.supervision import AgentHandle, Failure, Supervisor, exit_cause, terminate
from emulator.scenario.model import Scenario

_READY_TIMEOUT_S = 30.0
_LEAD_NS = 20_000_000  # from the start message to the start
_TICK_S = 0.02
_GRACE_S = 1.0  # how long the last replies are waited for
_STOP_S = 5.0
_HURRIED_STOP_S = 0.5
_INTERRUPTED = ("interrupted", ExitCode.INTERRUPTED)


@dataclass
class Invocation:
    """What all variants of one command share."""

    clock: ClockParams
    interrupts: Interrupts
    cpus: list[int]
    load: float | None = None
    quota_cpus: float | None = None
    progress: Callable[[str, float, float], None] = lambda _what, _done_s, _total_s: None
    command: tuple[str, ...] = ()
    out_dir: Path | None = None
    process_started_ns: int = 0
    """CLOCK_MONOTONIC at which this process was started; 0: unknown, or it had to compile first"""


@dataclass
class _Outcome:
    verdict: str = "ok"
    exit_code: int = int(ExitCode.OK)
    notes: list[str] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        return self.verdict != "ok"

    def end(self, verdict: str, code: ExitCode) -> None:
        """The first cause counts."""
        if not self.ended:
            self.verdict, self.exit_code = verdict, int(code)


def run_variant(scenario: Scenario, invocation: Invocation) -> VariantMeasurement:
    """Run one variant. Raises CannotRun before it starts; afterwards every end is a measurement with a verdict."""
    run = create_run_dir(
        Path(scenario.run_dir) if scenario.run_dir else None,
        name=f"{scenario.name}/{scenario.variant_name}",
        out_dir=invocation.out_dir,
        command=invocation.command,
    )
    try:
        segment = Segment.create(run.path)
        seats = place(scenario, invocation.cpus)
        build(segment, scenario, seats, invocation.clock)
        leave_plan(run.path, scenario, seats, invocation.out_dir)
        segment.publish()
        return _RealRun(scenario, invocation, segment, seats).run(run.path)
    finally:
        run.remove()


class _RealRun:
    def __init__(self, scenario: Scenario, invocation: Invocation, segment: Segment, seats: list[Seat]) -> None:
        self._scenario, self._invocation = scenario, invocation
        self._segment, self._seats = segment, seats
        self._clock = SegmentClock(invocation.clock)
        self._net = segment.view.net
        self._outcome = _Outcome()
        self._processes = AgentProcesses()
        self._sampler = Sampler(self._net)
        self._steal = StealMeter()
        self._facts = RunFacts()
        self._supervisor: Supervisor | None = None
        self._ready: set[int] = set()

    def run(self, run_dir: Path) -> VariantMeasurement:
        with ControlServer(run_dir, len(self._seats)) as server:
            self._server = server
            try:
                self._processes.start(
                    run_dir, server.endpoint, self._seats, lambda: self._invocation.interrupts.count > 0
                )
                self._supervisor = Supervisor(self._handles(), self._clock.now_ns())
                if self._await_ready():
                    with in_background(control_cpu(self._seats)):
                        self._go()
                        self._measure_window()
                        self._grace()
            except AgentFailure as failure:
                interrupted = self._invocation.interrupts.count > 0
                self._outcome.end(*_INTERRUPTED if interrupted else (str(failure), ExitCode.AGENT_FAILED))
            finally:
                self._stop()
        try:
            return measure(self._scenario, self._segment, self._seats, self._sampler, self._final_facts())
        except (ValueError, IndexError) as error:
            raise AgentFailure(f"the segment is damaged, nothing can be read from it: {error}") from None

    def _handles(self) -> list[AgentHandle]:
        return [self._handle(index) for index in range(len(self._processes))]

    def _handle(self, index: int) -> AgentHandle:
        seat, words = self._seats[index], self._segment.view.agents[index]
        pid = self._processes.pid(index)

        def heartbeat() -> int:
            return int(words.heartbeat_ns)

        def exit_code() -> int | None:
            return self._processes.exit_code(index)

        return AgentHandle(seat.name, seat.role, pid, process_start_time(pid) or 0, heartbeat, exit_code)

    def _await_ready(self) -> bool:
        """Whether every agent said READY."""
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while len(self._ready) < len(self._seats):
            self._hear(wait_ms=5)
            self._look_after(supervise=False)
            for index in range(len(self._seats)):
                if (code := self._processes.exit_code(index)) is not None:
                    self._agent_failed(index, f"{exit_cause(code)}, before it was ready")
            if time.monotonic() > deadline:
                late = ", ".join(self._whereabouts(i) for i in range(len(self._seats)) if i not in self._ready)
                self._outcome.end(f"not ready after {_READY_TIMEOUT_S:.0f} s: {late}", ExitCode.AGENT_FAILED)
            if self._outcome.ended:
                return False
        return True

    def _whereabouts(self, index: int) -> str:
        """An agent and what its process is doing."""
        pid = self._processes.pid(index)
        stat = read_stat(pid)
        doing = "gone" if stat is None else "stopped" if stat.state in STOPPED_STATES else f"state {stat.state}"
        return f"agent {self._seats[index].name} (pid {pid}, {doing})"

    def _hear(self, wait_ms: int = 0) -> None:
        """Take note of what agents say."""
        for index, message in self._server.poll(wait_ms):
            if isinstance(message, Ready):
                self._ready.add(index)
            elif isinstance(message, Failed):
                self._agent_failed(index, message.text)

    def _go(self) -> None:
        """Weigh the processes while nothing is measured, then give everyone the same start time."""
        agents = [self._processes.pid(index) for index in range(len(self._seats))]
        self._facts.memory_mb = pss_mb([os.getpid(), *helper_pids(), *agents])
        params = self._net.params
        start = self._clock.now_ns() + _LEAD_NS
        params.start_ns = start
        params.measure_start_ns = start + self._scenario.warmup
        params.measure_end_ns = params.measure_start_ns + self._scenario.duration
        for index, seat in enumerate(self._seats):
            if seat.role == "ping":
                self._segment.view.agents[index].end_ns = params.measure_end_ns
            self._server.send(index, Start(start_ns=start))
        assert self._supervisor is not None
        self._supervisor.begin(start)

    def _measure_window(self) -> None:
        params = self._net.params
        total_s = (params.measure_end_ns - params.start_ns) / 1e9
        while not self._outcome.ended and (now := self._clock.now_ns()) < params.measure_end_ns:
            if now >= params.measure_start_ns:
                if not self._sampler.samples:
                    self._steal.start()
                self._sampler.sample(now)
            self._look_after()
            self._invocation.progress(self._scenario.variant_name, (now - params.start_ns) / 1e9, total_s)
            edge = params.measure_start_ns if now < params.measure_start_ns else params.measure_end_ns
            time.sleep(max(0.0, min(_TICK_S, (edge - self._clock.now_ns()) / 1e9)))
        if self._sampler.samples:
            self._sampler.sample(min(self._clock.now_ns(), max(self._newest_heartbeat_ns(), params.measure_end_ns)))
            stolen = self._steal.stop()
            self._facts.steal_ms = sum(stolen.values()) if stolen is not None else None
            self._facts.throttled_ms = self._steal.throttled_ms
        self._facts.measured_until_ns = min(self._clock.now_ns(), params.measure_end_ns)
        self._look_after()

    def _newest_heartbeat_ns(self) -> int:
        return max(int(self._segment.view.agents[i].heartbeat_ns) for i in range(len(self._seats)))

    def _grace(self) -> None:
        """Keep the load up until the last probes are answered, for a while."""
        if self._scenario.ping is None:
            return
        words = next(self._segment.view.agents[i] for i, seat in enumerate(self._seats) if seat.role == "ping")
        deadline = time.monotonic() + _GRACE_S
        while not self._outcome.ended and time.monotonic() < deadline:
            probes = self._net.probes.raw[: int(words.next_probe)]
            if words.finished and (probes["received_ns"] != 0).all():
                break
            self._look_after()
            time.sleep(_TICK_S)

    def _look_after(self, *, supervise: bool = True) -> None:
        """One look at everything that can end a run."""
        self._segment.view.control.launcher_heartbeat_ns = self._clock.now_ns()
        if self._invocation.interrupts.count:
            self._outcome.end(*_INTERRUPTED)
        self._look_after_fork_server()
        self._hear()
        if (text := fault_text(self._net, self._seats)) is not None:
            self._outcome.end(text, ExitCode.CHECK_FAILED)
        if supervise and self._supervisor is not None:
            for failure in self._supervisor.tick(self._clock.now_ns()):
                self._dead(failure)

    def _look_after_fork_server(self) -> None:
        if (text := fork_server_end()) is not None:
            since_s = max(0, self._clock.now_ns() - self._net.params.start_ns) / 1e9 if self._net.params.start_ns else 0
            when = f"{since_s:.3f} s into the run" if since_s else "before the run began"
            self._outcome.end(f"{text}, {when}; its agents ended with it", ExitCode.AGENT_FAILED)
            for index in range(len(self._seats)):
                self._facts.exits.setdefault(index, "ended with the fork server")

    def _dead(self, failure: Failure) -> None:
        index = next(i for i, seat in enumerate(self._seats) if seat.name == failure.agent)
        if failure.cause == exit_cause(0) and self._segment.view.agents[index].phase == PHASE_DONE:
            return  # it left by itself, long after the end: the launcher was stopped
        self._facts.exits[index] = failure.cause
        self._net.cpus[index].online = 0  # whoever waits for a lock of this CPU finds out now
        if self._invocation.interrupts.count:  # the same signal for all
            self._outcome.end(*_INTERRUPTED)
        self._look_after_fork_server()
        self._outcome.end(str(failure), ExitCode.AGENT_FAILED)

    def _agent_failed(self, index: int, text: str) -> None:
        seat = self._seats[index]
        self._facts.exits[index] = text
        self._net.cpus[index].online = 0
        cause = fault_text(self._net, self._seats) or text
        self._outcome.end(f"agent {seat.name} (pid {self._processes.pid(index)}): {cause}", ExitCode.AGENT_FAILED)

    def _stop(self) -> None:
        """Stop role by role; whoever does not come along is made to."""
        agents = self._segment.view.agents
        for role in STOP_ORDER:
            members = [i for i, seat in enumerate(self._seats) if seat.role == role and i < len(self._processes)]
            for index in members:
                agents[index].stop = 1
                self._server.send(index, Stop())
            begun = time.monotonic()
            while time.monotonic() < begun + (_HURRIED_STOP_S if self._invocation.interrupts.count > 1 else _STOP_S):
                if all(self._is_at_rest(index) for index in members):
                    break
                self._hear(wait_ms=2)
        if len(self._processes):
            wake_helpers()  # the exit codes come through the fork server
            for line in terminate(self._living(), lambda: None):
                self._outcome.notes.append(line)
                if "SIGTERM" not in line:  # on SIGTERM an agent still leaves with empty hands
                    self._not_at_rest(line)
            self._processes.join(1.0)

    def _not_at_rest(self, line: str) -> None:
        """An agent was ended in the middle of something: what it had in its hands is missing in the counts."""
        index = next(i for i, seat in enumerate(self._seats) if f" {seat.name} " in line)
        self._facts.exits[index] = line
        self._outcome.end(line, ExitCode.AGENT_FAILED)

    def _living(self) -> list[AgentHandle]:
        """Whoever has not failed; those that have are killed at once."""
        failed = [handle for handle in self._handles() if self._is_failed(handle)]
        terminate(failed, lambda: None, ask_s=0.0, term_s=0.0)
        return [handle for handle in self._handles() if not self._is_failed(handle)]

    def _is_failed(self, handle: AgentHandle) -> bool:
        return any(self._seats[index].name == handle.name for index in self._facts.exits)

    def _is_at_rest(self, index: int) -> bool:
        """Whether an agent has left its loop, or cannot any more."""
        phase = self._segment.view.agents[index].phase
        dead = self._processes.exit_code(index) is not None or index in self._facts.exits
        return dead or phase not in (PHASE_RUNNING,)

    def _final_facts(self) -> RunFacts:
        facts = self._facts
        for index in range(len(self._seats)):
            facts.pids[index] = self._processes.pid(index) if index < len(self._processes) else 0
        facts.verdict, facts.exit_code = self._outcome.verdict, self._outcome.exit_code
        if self._outcome.verdict == "interrupted":
            done_s = max(0, facts.measured_until_ns - self._net.params.measure_start_ns) / 1e9
            facts.verdict = f"interrupted after {done_s:.1f} s of {self._scenario.duration / 1e9:g} s measured"
        facts.notes = self._outcome.notes + (self._supervisor.notes if self._supervisor else [])
        shared = self._invocation
        facts.cpus, facts.load, facts.quota_cpus = shared.cpus, shared.load, shared.quota_cpus
        senders = [i for i, seat in enumerate(self._seats) if seat.role in ("flood", "ping")]
        first = [ns for i in senders if (ns := int(self._net.cpus[i].stats.first_step_ns))]
        if first and shared.process_started_ns:
            facts.start_to_first_packet_s = (min(first) - shared.process_started_ns) / 1e9
        return facts
