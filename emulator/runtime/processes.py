"""Starting the agents' processes: multiprocess's fork server, with the compiled code loaded in it once.

Never a plain fork: the launcher has threads. The fork server is a fresh interpreter that imports agent_main, loads the
compiled code and then forks each agent in milliseconds.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from emulator.runtime.placement import Seat
from emulator.runtime.rundir import process_start_time

_PRELOAD = "emulator.runtime.agent_main"


class AgentProcesses:
    """The processes of one run, in the order of their agents' numbers."""

    def __init__(self) -> None:
        self._processes: list[Any] = []

    def start(self, run_dir: Path, endpoint: str, seats: Sequence[Seat]) -> None:
        """Start one process for each seat."""
        context = _context()
        pid = os.getpid()
        started = process_start_time(pid) or 0
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
        """Wait for all of them, at most so long each."""
        for process in self._processes:
            process.join(timeout_s)

    def __len__(self) -> int:
        return len(self._processes)


def warm_up() -> None:
    """Start the fork server now, so that it loads the compiled code while the launcher does other things."""
    _context()
    from multiprocess import forkserver

    os.environ["EMULATOR_PRELOAD"] = "1"
    try:
        forkserver.ensure_running()
    finally:
        del os.environ["EMULATOR_PRELOAD"]


def helper_pids() -> list[int]:
    """Processes that are neither launcher nor agent: the fork server and multiprocess's resource tracker."""
    from multiprocess import forkserver, resource_tracker

    pids = (
        getattr(forkserver._forkserver, "_forkserver_pid", None),
        getattr(resource_tracker._resource_tracker, "_pid", None),
    )
    return [pid for pid in pids if pid]


def shut_down() -> None:
    """End the fork server and the resource tracker: nothing of ours outlives the launcher, not even for a moment."""
    from multiprocess import forkserver, resource_tracker

    for owner in (forkserver._forkserver, resource_tracker._resource_tracker):
        stop = getattr(owner, "_stop", None)
        if stop is not None:
            stop()


def _context() -> Any:
    import multiprocess

    context = multiprocess.get_context("forkserver")
    context.set_forkserver_preload([_PRELOAD])
    return context


def _enter(run_dir: str, index: int, endpoint: str, pid: int, started: int) -> None:
    from emulator.runtime.agent_main import agent_main

    agent_main(run_dir, index, endpoint, pid, started)
