"""Starting the agents' processes: multiprocess's fork server, with the compiled code loaded in it once.

Never a plain fork: the launcher has threads. The fork server is a fresh interpreter that imports agent_main, loads the
compiled code and then forks each agent in milliseconds.

Signals. A terminal sends Ctrl-C to the whole process group, and so do others with SIGTERM and SIGHUP; they are for the
launcher to handle. The fork server has them blocked from its first instruction; agents see to it themselves
(agent_main). Both helpers hold nothing that would have to be given back, so they are simply killed in the end: also
when they are stopped.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emulator.errors import AgentFailure
from emulator.runtime.rundir import process_start_time
from emulator.runtime.supervision import exit_cause

if TYPE_CHECKING:
    from emulator.runtime.placement import Seat

_PRELOAD = "emulator.runtime.agent_main"
_FOR_THE_LAUNCHER = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_START_S = 60.0  # for the fork server to load the compiled code and to fork everybody, on a busy machine
_LOOK_S = 0.05


class AgentProcesses:
    """The processes of one run, in the order of their agents' numbers."""

    def __init__(self) -> None:
        self._processes: list[Any] = []

    def start(self, run_dir: Path, endpoint: str, seats: Sequence[Seat], give_up: Callable[[], bool]) -> None:
        """Start one process for each seat. AgentFailure if the fork server does not do it, or ``give_up`` says so."""
        warm_up()
        context = _context()
        pid = os.getpid()
        started = process_start_time(pid) or 0
        with _bounded_start(give_up, "the agents"), _no_main_module():
            for index, seat in enumerate(seats):
                process = context.Process(
                    target=_enter, args=(str(run_dir), index, endpoint, pid, started), name=seat.name, daemon=True
                )
                process.start()
                self._processes.append(process)

    def pid(self, index: int) -> int:
        """Process id of an agent."""
        return int(self._processes[index].pid)

    def exit_code(self, index: int) -> int | None:
        """None while the agent lives; -N after signal N."""
        code: int | None = self._processes[index].exitcode
        return code

    def join(self, timeout_s: float) -> None:
        """Wait for all of them, at most so long in all."""
        deadline = time.monotonic() + timeout_s
        for process in self._processes:
            process.join(max(0.0, deadline - time.monotonic()))

    def __len__(self) -> int:
        return len(self._processes)


def start_process(
    target: Callable[..., None], args: Sequence[Any], name: str, give_up: Callable[[], bool] = lambda: False
) -> Any:
    """One process from the fork server, for something else than an agent; its `multiprocess.Process`.

    AgentFailure if the fork server does not do it, or ``give_up`` says so.
    """
    warm_up()
    with _bounded_start(give_up, name), _no_main_module():
        process = _context().Process(target=target, args=tuple(args), name=name, daemon=True)
        process.start()
    return process


def warm_up() -> None:
    """Start the fork server if it is not running, so that it loads the compiled code while the launcher goes on."""
    _context()
    from multiprocess import forkserver, resource_tracker

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the tracker had died: it keeps nothing of ours
        resource_tracker.ensure_running()
    os.environ["EMULATOR_PRELOAD"] = "1"
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _FOR_THE_LAUNCHER)
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        del os.environ["EMULATOR_PRELOAD"]
    wake_helpers()


def helper_pids() -> list[int]:
    """Processes that are neither launcher nor agent: the fork server and multiprocess's resource tracker."""
    return [pid for pid in (_fork_server_pid(), _tracker_pid()) if pid]


def wake_helpers() -> None:
    """Continue a helper that somebody has stopped."""
    for pid in helper_pids():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def fork_server_end() -> str | None:
    """How the fork server ended, with its pid; None while it runs. Its agents end with it."""
    pid = _fork_server_pid()
    if pid is None:
        return None
    try:
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return f"the fork server (pid {pid}): gone"
    if ended is None:
        return None
    code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
    return f"the fork server (pid {pid}): {exit_cause(code)}"


def shut_down() -> None:
    """End the fork server and the resource tracker: nothing of ours outlives the launcher, not even for a moment."""
    from multiprocess import forkserver, resource_tracker

    _kill_helper(forkserver._forkserver, "_forkserver_pid", "_forkserver_alive_fd")
    _kill_helper(resource_tracker._resource_tracker, "_pid", "_fd")


def _kill_helper(owner: Any, pid_name: str, fd_name: str) -> None:
    pid, fd = getattr(owner, pid_name, None), getattr(owner, fd_name, None)
    setattr(owner, pid_name, None)
    setattr(owner, fd_name, None)
    if pid is not None:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)  # a child that nobody has waited for: the pid is still its own
            os.waitpid(pid, 0)
    if fd is not None:
        with contextlib.suppress(OSError):
            os.close(fd)


def _fork_server_pid() -> int | None:
    from multiprocess import forkserver

    pid: int | None = getattr(forkserver._forkserver, "_forkserver_pid", None)
    return pid


def _tracker_pid() -> int | None:
    from multiprocess import resource_tracker

    pid: int | None = getattr(resource_tracker._resource_tracker, "_pid", None)
    return pid


@contextlib.contextmanager
def _no_main_module() -> Iterator[None]:
    """Agents need nothing of the program that was started, which each of them would import once more."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextlib.contextmanager
def _bounded_start(give_up: Callable[[], bool], whom: str) -> Iterator[None]:
    """Starting a process waits for the fork server's answer without end; a fork server that is killed answers too."""
    over = threading.Event()
    deadline = time.monotonic() + _START_S

    def watch() -> None:
        while not over.wait(_LOOK_S):
            pid = _fork_server_pid()
            if pid is not None and (give_up() or time.monotonic() > deadline):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                return

    watcher = threading.Thread(target=watch, name="start", daemon=True)
    watcher.start()
    try:
        yield
    except (OSError, EOFError) as error:
        raise AgentFailure(f"{fork_server_end() or error}, while starting {whom}") from None
    finally:
        over.set()
        watcher.join()


def _context() -> Any:
    import multiprocess

    context = multiprocess.get_context("forkserver")
    context.set_forkserver_preload([_PRELOAD])
    return context


def _enter(run_dir: str, index: int, endpoint: str, pid: int, started: int) -> None:
    from emulator.runtime.agent_main import agent_main

    agent_main(run_dir, index, endpoint, pid, started)
