"""Processes that take cells, for the virtual clock: as many cells at once as there are workers.

::

    launcher                                   worker
      starts it from the fork server  -------->  dies with the launcher, leaves signals to it
      one cell, JSON  ------------------------>  run_cell
                      <------------------------  its record, JSON
      ...
      closes the pipe, or kills it

The fork server (runtime/processes.py) has loaded the compiled code once; a worker is forked from it in milliseconds.
A worker that dies costs the cell that it had in hands, which is recorded as failed with the cause, and another takes
its place.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import sys
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from emulator.errors import AgentFailure, CannotRun, ExitCode
from emulator.report.cells import Record, record_line
from emulator.runtime.processes import fork_server_end, start_process
from emulator.runtime.rundir import process_start_time
from emulator.runtime.supervision import Process, exit_cause, leave_signals_to
from emulator.runtime.sweep.cell import failed_record, now_text, run_cell
from emulator.scenario.matrix import PlannedCell

_LOOK_S = 0.1
_EXIT_S = 5.0
_START_TRIES = 3
_OWN_FILES, _FILES_A_WORKER = 40, 4


def run_in_workers(
    cells: Sequence[PlannedCell], workers: int, interrupted: Callable[[], bool]
) -> Generator[Record, None, None]:
    """Records of the cells as they finish. Once ``interrupted``, what is unfinished is dropped and the iterator ends.

    A worker that cannot be started is done without, if there are others. Raises CannotRun when there is none.
    """
    waiting = deque(asdict(cell) for cell in cells)
    pool: list[_Worker] = []
    workers = min(workers, _affordable())
    in_vain = 0
    try:
        while (waiting or any(worker.busy for worker in pool)) and not interrupted():
            while waiting and len(pool) < workers:
                try:
                    pool.append(_Worker(interrupted))
                except AgentFailure as failure:
                    in_vain += 1
                    if not pool and in_vain == _START_TRIES:
                        hint = "give fewer --workers, or raise the limits of files and processes (ulimit -n, -u)"
                        raise CannotRun(f"{failure}; {hint}") from None
                    workers = max(1, len(pool))
            for worker in pool:
                if waiting and not worker.busy:
                    worker.give(waiting.popleft())
            for worker in _ready(pool):
                record = worker.take()
                if worker.ended or not waiting:  # dead, or with nothing left to do
                    worker.end()
                    pool.remove(worker)
                if record is not None and not interrupted():
                    yield record
    finally:
        for worker in pool:
            worker.end()


def _affordable() -> int:
    """How many workers the limit of open files allows; the fork server dies of one too many."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if files == resource.RLIM_INFINITY else max(1, (files - _OWN_FILES) // _FILES_A_WORKER)


def work(connection: Any, launcher_pid: int, launcher_start: int) -> None:
    """Be a worker: run cells until the pipe is closed. Does not return."""
    leave_signals_to(launcher_pid, launcher_start)
    from emulator.runtime.compiled import load_compiled

    load_compiled()  # nothing to do where the fork server has done it
    with contextlib.suppress(EOFError, OSError):
        while True:
            connection.send_bytes(record_line(run_cell(json.loads(connection.recv_bytes()))).encode())
    os._exit(0)


class _Worker:
    """One process and the cell that it has in hands."""

    def __init__(self, give_up: Callable[[], bool]) -> None:
        from multiprocess import connection

        self._cell: Mapping[str, Any] | None = None
        self.ended = False
        self.connection, theirs = connection.Pipe()
        launcher = os.getpid()
        args = (theirs, launcher, process_start_time(launcher) or 0)
        try:
            self.process = start_process(work, args, "a worker", give_up)
        finally:
            theirs.close()
        self._started = process_start_time(self.process.pid) or 0

    @property
    def busy(self) -> bool:
        return self._cell is not None

    def give(self, cell: Mapping[str, Any]) -> None:
        """Have it run a cell. One that is dead says so when it is next looked at."""
        self._cell = cell
        with contextlib.suppress(OSError):
            self.connection.send_bytes(json.dumps(cell).encode())

    def take(self) -> Record | None:
        """The record that is there: a finished cell's, or that of a cell which died with its worker."""
        cell, self._cell = self._cell, None
        try:
            record: Record = json.loads(self.connection.recv_bytes())
            return record
        except (EOFError, OSError):
            self.ended = True
        self.end()  # for its exit code
        if cell is None:
            return None
        record = failed_record(cell, f"its worker: {self._cause()}", int(ExitCode.AGENT_FAILED))
        record["run"] = {"finished_at": now_text(), "pid": self.process.pid}
        return record

    def _cause(self) -> str:
        """How it died."""
        if fork_server_end() is not None:
            return "killed with the fork server, which ended"
        code: int | None = self.process.exitcode
        return "ended without a word" if code is None else exit_cause(code)

    def end(self) -> None:
        """Kill it, if it lives: it holds nothing that would have to be given back."""
        self.connection.close()
        if not self.ended:
            with Process(self.process.pid, self._started) as process:
                process.send(signal.SIGKILL)
        self.process.join(_EXIT_S)


def _ready(pool: Sequence[_Worker]) -> list[_Worker]:
    """Workers that have something to say, or have died."""
    from multiprocess import connection

    said = connection.wait([worker.connection for worker in pool], _LOOK_S)
    return [worker for worker in pool if worker.connection in said]
