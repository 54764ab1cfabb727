"""An agent's process: attach, get ready, run duty cycles until told to stop, leave with empty hands.

::

    launcher                               agent
      start process  ------------------->  die with the launcher, attach the segment, pin
                     <-------------------  hello, ready
      start(start_ns) ------------------>  (control thread writes words.start_ns)
                                           at start_ns: duty cycle, duty cycle, ...
      stop ----------------------------->  (control thread writes words.stop)
                     <-------------------  stopped           phase = done, exit 0

The main thread runs compiled duty cycles and reads two words; everything that comes over the control channel is turned
into words by the control thread. Importing this module in multiprocess's fork server loads the compiled code once for
all agents.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

from emulator.agents.agent import Agent
from emulator.agents.flood import Flood
from emulator.agents.napi import NapiThread
from emulator.agents.prober import Prober
from emulator.agents.watchdog import Watchdog
from emulator.agents.words import IDLE_FUTEX, PHASE_DONE, PHASE_FAILED, PHASE_READY, PHASE_RUNNING, ROLES
from emulator.control.client import ControlClient, ControlThread
from emulator.control.protocol import Failed, Hello, Message, Ready, Start, Stop, Stopped
from emulator.errors import ExitCode
from emulator.kernel.memory import KernelFault
from emulator.runtime.clocksource import ClockParams, SegmentClock
from emulator.runtime.compiled import load_compiled
from emulator.runtime.host import TaskTimes, task_times
from emulator.runtime.quiet import background
from emulator.runtime.segment import Segment
from emulator.runtime.supervision import ParentWatch, die_with_parent, kill_with_parent

_ROLES: dict[str, Any] = {"flood": Flood, "napi": NapiThread, "ping": Prober, "watchdog": Watchdog}
_ALONE_NS = 10_000_000_000
_PR_SET_TIMERSLACK = 29


def agent_main(run_dir: str, index: int, endpoint: str, launcher_pid: int, launcher_start: int) -> None:
    """Be agent ``index`` of the run in ``run_dir``; does not return."""
    for number in (signal.SIGINT, signal.SIGHUP):  # Ctrl-C, a closed terminal: the launcher's to handle
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGHUP, signal.SIGTERM))
    die_with_parent(launcher_pid, launcher_start)
    load_compiled()  # nothing to do where the fork server has done it
    segment = Segment.attach(Path(run_dir))
    process = _AgentProcess(segment, index, endpoint, ParentWatch(launcher_pid, launcher_start))
    signal.signal(signal.SIGTERM, process.on_sigterm)
    code = process.run()
    if process.terminated:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
    os._exit(code)


class _AgentProcess:
    def __init__(self, segment: Segment, index: int, endpoint: str, parent: ParentWatch) -> None:
        self._words = segment.view.agents[index]
        self._params = segment.view.net.params
        self._cpu = segment.view.net.cpus[index]
        self._parent = parent
        self._clock = SegmentClock(ClockParams(self._cpu.tsc_base, self._cpu.ns_base, self._cpu.tsc_mult))
        role = ROLES[self._words.role]
        self._hello = Hello(role=role, pid=os.getpid(), agent=index)
        self._agent: Agent = _ROLES[role](segment.nets, segment.agents, index)
        self._times_at_start: TaskTimes | None = None
        self._measured = False
        self.terminated = False
        self._control = ControlThread(ControlClient(endpoint, index), self._on_message, self._on_tick)

    def on_sigterm(self, _number: int, _frame: object) -> None:
        """Between two duty cycles: leave with empty hands, as if told to stop, then die of the signal."""
        self.terminated = True
        self._words.stop = 1

    def run(self) -> int:
        """The process from ready to stopped; its exit code."""
        self._control.start()
        self._settle()
        self._words.pid = os.getpid()
        self._words.heartbeat_ns = self._clock.now_ns()
        self._words.phase = PHASE_READY
        self._control.send(self._hello)
        self._control.send(Ready())
        try:
            self._wait_for_start()
            self._words.phase = PHASE_RUNNING
            self._loop()
            self._words.phase = PHASE_DONE
            self._control.send(Stopped(time_ns=self._clock.now_ns()))
            code = int(ExitCode.OK)
        except (KernelFault, Exception) as error:
            self._words.phase = PHASE_FAILED
            self._control.send(Failed(text=f"{type(error).__name__}: {error}"))
            code = int(ExitCode.AGENT_FAILED)
        self._control.close()
        return code

    def _settle(self) -> None:
        """Pin the main thread to its seat; the control thread and ZeroMQ's stay where the launcher is.

        Whoever sleeps now and then may not preempt when it wakes, because it could do so inside a critical section.
        """
        main_thread = threading.get_native_id()
        background(int(self._words.control_cpu))
        if self._words.affinity >= 0:
            os.sched_setaffinity(main_thread, {self._words.affinity})
        if self._words.idle != IDLE_FUTEX:
            os.sched_setscheduler(main_thread, os.SCHED_OTHER, os.sched_param(0))
        _precise_timers()

    def _wait_for_start(self) -> None:
        while self._words.start_ns == 0 and self._words.stop == 0:
            self._words.heartbeat_ns = self._clock.now_ns()
            time.sleep(0.001)
        while self._words.stop == 0 and (early_ns := self._words.start_ns - self._clock.now_ns()) > 0:
            time.sleep(min(early_ns / 1e9, 0.001))

    def _loop(self) -> None:
        self._agent.on_start()
        while self._words.stop == 0:
            self._agent.do_work()
            if not self._measured:
                self._observe(self._words.heartbeat_ns)
        self._observe(self._params.measure_end_ns)
        self._agent.on_close()

    def _observe(self, now_ns: int) -> None:
        """Take this task's times at both ends of the measurement."""
        if self._times_at_start is None:
            if now_ns >= self._params.measure_start_ns:
                self._times_at_start = task_times(os.getpid(), threading.get_native_id())
                self._cpu.stats.longest_cycle_ns = 0
        elif now_ns >= self._params.measure_end_ns and not self._measured:
            self._measured = True
            spent = task_times(os.getpid(), threading.get_native_id()).since(self._times_at_start)
            words = self._words
            words.voluntary, words.involuntary = spent.voluntary or 0, spent.involuntary or 0
            words.cpu_ns, words.wait_ns = spent.cpu_ns or 0, spent.wait_ns or 0

    def _on_message(self, message: Message) -> None:
        if isinstance(message, Start):
            self._words.start_ns = message.start_ns
        elif isinstance(message, Stop):
            self._words.stop = 1

    def _on_tick(self) -> None:
        """Each second: leave when the launcher is gone, or long after the end when it says nothing (it was stopped)."""
        self._parent()
        end_ns = self._params.measure_end_ns
        if end_ns and self._clock.now_ns() > end_ns + _ALONE_NS:
            self._words.stop = 1


def _precise_timers() -> None:
    """Sleeps end when they should, not up to 50 us later (PR_SET_TIMERSLACK)."""
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)


if os.environ.get("EMULATOR_PRELOAD") == "1":  # this is the fork server
    kill_with_parent()
    load_compiled()
