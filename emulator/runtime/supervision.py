"""Watching the agents of a run, ending them, and ending with the launcher.

An agent is, at each tick of the launcher,

========  =====================================================================================================
alive     its heartbeat is younger than the limit
exited    it has an exit code, or its process is gone
stopped   no heartbeat for longer than the limit, and the process is stopped (SIGSTOP, a debugger)
hung      no heartbeat for longer than the limit, and the process is not stopped
========  =====================================================================================================

All but the first are a `Failure`, reported once. If the launcher itself did not tick for more than a second, it was
stopped or the machine was suspended, and perhaps the agents with it: that time counts against nobody, and a note says
so.

Processes are signalled through a pidfd that was opened and checked against the start time, so that a reused pid is
never hit. Agents are children of a fork server, not of the launcher: the fork server dies with the launcher, and the
agents with the fork server, each through the parent-death signal (`kill_with_parent`); `ParentWatch` looks after the
launcher itself besides.
"""

import contextlib
import ctypes
import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from emulator.runtime.host.procfs import GONE_STATES, STOPPED_STATES, is_running, process_start_time, read_stat

HANG_LIMIT_S = 2.0
LAUNCHER_GAP_S = 1.0
_TICK_S = 0.1  # what a tick that came too late is counted as
_GONE_TICKS = 2  # for an exit code to arrive after the process is gone
_PR_SET_PDEATHSIG = 1
_POLL_S = 0.01

FailureKind = Literal["exited", "stopped", "hung"]


@dataclass(frozen=True)
class AgentHandle:
    """What the supervisor needs of an agent. ``exit_code`` is None while it lives, -N after signal N."""

    name: str
    role: str
    pid: int
    start_ticks: int
    read_heartbeat: Callable[[], int]  # time of the last finished duty cycle (segment clock, ns); 0 = none yet
    exit_code: Callable[[], int | None]


@dataclass(frozen=True)
class Failure:
    """An agent that died or hung."""

    agent: str
    role: str
    pid: int
    kind: FailureKind
    cause: str  # such as "killed by SIGKILL (9)"
    heartbeat_age_s: float | None  # None: it never had a heartbeat
    time_s: float  # into the run

    def __str__(self) -> str:
        beat = "without a heartbeat" if self.heartbeat_age_s is None else f"{_span(self.heartbeat_age_s)} before"
        last = beat if self.heartbeat_age_s is None else f"last heartbeat {beat}"
        return (
            f"agent {self.agent} ({self.role}, pid {self.pid}): {self.cause}, {self.time_s:.3f} s into the run, {last}"
        )


class Supervisor:
    """Judges the agents at each `tick`. Times are nanoseconds of the segment's clock, given by the caller."""

    def __init__(self, handles: Sequence[AgentHandle], now_ns: int, *, hang_limit_s: float = HANG_LIMIT_S) -> None:
        self.notes: list[str] = []
        self.expect_exit = False  # set once agents were told to stop: exit code 0 is then no failure
        self._handles = list(handles)
        self._limit_ns = int(hang_limit_s * 1e9)
        self._begin_ns = now_ns
        self._active_ns = 0  # time in which the launcher itself ran
        self._beats: dict[str, tuple[int, int]] = {}  # last heartbeat, and the active time at which it was new
        self._last_tick_ns = now_ns
        self._reported: set[str] = set()
        self._gone_ticks: dict[str, int] = {}
        self._stopped_since_ns: dict[str, int] = {}

    def begin(self, now_ns: int) -> None:
        """The run begins: times in failures count from here, heartbeats are due from here."""
        self._begin_ns = self._last_tick_ns = now_ns
        self._beats.clear()

    def tick(self, now_ns: int) -> list[Failure]:
        """Agents that have failed since the last tick."""
        self._notice_gap(now_ns)
        failures = []
        for handle in self._handles:
            if handle.name not in self._reported:
                failure = self._judge(handle, now_ns)
                if failure is not None:
                    self._reported.add(handle.name)
                    failures.append(failure)
        return failures

    def _notice_gap(self, now_ns: int) -> None:
        gap_ns = now_ns - self._last_tick_ns
        self._last_tick_ns = now_ns
        if gap_ns > LAUNCHER_GAP_S * 1e9:
            self._active_ns += int(_TICK_S * 1e9)
            self.notes.append(
                f"launcher was stopped for {gap_ns / 1e9:.1f} s, {(now_ns - self._begin_ns) / 1e9:.1f} s into the run"
            )
        else:
            self._active_ns += gap_ns

    def _judge(self, handle: AgentHandle, now_ns: int) -> Failure | None:
        code = handle.exit_code()
        if code is not None:
            ended_as_told = code == 0 and self.expect_exit
            return None if ended_as_told else self._failure(handle, "exited", exit_cause(code), now_ns)
        stat = read_stat(handle.pid)
        if stat is None or stat.start_ticks != handle.start_ticks or stat.state in GONE_STATES:
            self._gone_ticks[handle.name] = self._gone_ticks.get(handle.name, 0) + 1
            if self._gone_ticks[handle.name] <= _GONE_TICKS or self.expect_exit:
                return None
            return self._failure(handle, "exited", "gone, with an exit status that is not known", now_ns)
        self._note_stops(handle, stat.state in STOPPED_STATES, now_ns)
        if self._silent_ns(handle) <= self._limit_ns:
            return None
        if stat.state in STOPPED_STATES:
            by = "a tracer" if stat.state == "t" else "a signal (SIGSTOP)"
            return self._failure(handle, "stopped", f"stopped by {by}", now_ns)
        return self._failure(handle, "hung", f"hung (process state {stat.state})", now_ns)

    def _silent_ns(self, handle: AgentHandle) -> int:
        """Time without a new heartbeat, as far as the launcher ran to see it."""
        beat_ns = handle.read_heartbeat()
        if self._beats.get(handle.name, (-1, 0))[0] != beat_ns:
            self._beats[handle.name] = (beat_ns, self._active_ns)
        return self._active_ns - self._beats[handle.name][1]

    def _note_stops(self, handle: AgentHandle, stopped: bool, now_ns: int) -> None:
        """An agent that was stopped and went on in time is no failure, but its numbers have a hole."""
        if stopped:
            self._stopped_since_ns.setdefault(handle.name, now_ns)
        elif handle.name in self._stopped_since_ns:
            span_ns = now_ns - self._stopped_since_ns.pop(handle.name)
            self.notes.append(f"agent {handle.name} was stopped for about {span_ns / 1e9:.1f} s")

    def _failure(self, handle: AgentHandle, kind: FailureKind, cause: str, now_ns: int) -> Failure:
        beat_ns = handle.read_heartbeat()
        return Failure(
            agent=handle.name,
            role=handle.role,
            pid=handle.pid,
            kind=kind,
            cause=cause,
            heartbeat_age_s=None if beat_ns == 0 else max(0, now_ns - beat_ns) / 1e9,
            time_s=(now_ns - self._begin_ns) / 1e9,
        )


def exit_cause(code: int) -> str:
    """An exit code in words: killed by SIGKILL (9), exited with status 3."""
    if code >= 0:
        return f"exited with status {code}"
    try:
        return f"killed by {signal.Signals(-code).name} ({-code})"
    except ValueError:
        return f"killed by signal {-code}"


def terminate(
    handles: Sequence[AgentHandle],
    ask: Callable[[], None],
    *,
    ask_s: float = 1.0,
    term_s: float = 1.0,
    kill_s: float = 2.0,
) -> list[str]:
    """End agents: ask (the stop word), then SIGTERM, then SIGKILL; a line for each that had to be forced.

    A stopped agent cannot hear: it is continued as soon as it is asked. Takes at most the three times together.
    """
    with contextlib.ExitStack() as stack:
        processes = {handle.name: stack.enter_context(Process(handle.pid, handle.start_ticks)) for handle in handles}
        ask()
        for process in processes.values():
            process.send(signal.SIGCONT)
        _wait_all(processes, ask_s)
        lines = []
        for number, wait_s in ((signal.SIGTERM, term_s), (signal.SIGKILL, kill_s)):
            left = {name: process for name, process in processes.items() if not process.has_ended()}
            for process in left.values():
                process.send(number)
                process.send(signal.SIGCONT)
            _wait_all(left, wait_s)
            lines += [f"agent {name} had to be ended by {number.name}" for name in left if left[name].has_ended()]
        lines += [f"agent {name} could not be ended" for name, one in processes.items() if not one.has_ended()]
        return lines


class Process:
    """A process that is signalled only as long as it is the one that was meant."""

    def __init__(self, pid: int, started: int) -> None:
        self._pid, self._started, self._pidfd = pid, started, -1
        with contextlib.suppress(OSError, AttributeError):
            self._pidfd = os.pidfd_open(pid)
        self._is_ours = (
            process_start_time(pid) == started
        )  # read after opening: the pidfd is of this or of a later process

    def has_ended(self) -> bool:
        """Whether it has ended; a zombie has."""
        if not self._is_ours:
            return True
        if self._pidfd >= 0:
            poller = select.poll()
            poller.register(self._pidfd, select.POLLIN)
            return bool(poller.poll(0))
        return not is_running(self._pid, self._started)

    def send(self, number: int) -> bool:
        """Send a signal; whether there was somebody to send it to."""
        if self.has_ended():
            return False
        try:
            if self._pidfd >= 0:
                signal.pidfd_send_signal(self._pidfd, number)
            else:
                os.kill(self._pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def close(self) -> None:
        """Let go of the process. Twice is harmless."""
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd, self._is_ours = -1, False

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def leave_signals_to(launcher_pid: int, launcher_start: int) -> None:
    """Make this process a helper that Ctrl-C and its kin do not disturb, and that dies with the launcher."""
    numbers = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    die_with_parent(launcher_pid, launcher_start)


def die_with_parent(launcher_pid: int, launcher_start: int) -> None:
    """Have the kernel kill this process when its parent ends, and end now if that or the launcher is gone already.

    The parent is whoever forked this process: the fork server. The signal comes when the *thread* that forked ends,
    which in the fork server is its only one.
    """
    kill_with_parent()
    ParentWatch(launcher_pid, launcher_start)()  # the parent ended before that: then the launcher has ended too


def kill_with_parent() -> None:
    """Have the kernel kill this process, even if it is stopped, when its parent ends."""
    parent = os.getppid()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before prctl
        os.kill(os.getpid(), signal.SIGKILL)


class ParentWatch:
    """Ends this process when the launcher is gone. Call it now and then, from the control thread."""

    def __init__(self, pid: int, started: int) -> None:
        self._pid, self._started = pid, started

    def is_gone(self) -> bool:
        """Whether the launcher has ended; a stopped one has not."""
        return not is_running(self._pid, self._started)

    def __call__(self) -> None:
        if self.is_gone():
            os.kill(os.getpid(), signal.SIGKILL)


def _wait_all(processes: dict[str, Process], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not all(process.has_ended() for process in processes.values()):
        time.sleep(_POLL_S)


def _span(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"
