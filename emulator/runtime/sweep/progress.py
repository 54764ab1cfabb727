"""What the user sees while a sweep runs: a bar with the time left on a terminal, plain lines elsewhere. On stderr."""

from __future__ import annotations

import contextlib
import time
from typing import IO, Any

from emulator.report.cells import Record
from emulator.report.figures import wait
from emulator.report.sweep_tables import throughput

_LINE_EVERY_S = 10.0


class SweepProgress:
    """Progress over the cells of a sweep."""

    def __init__(self, stream: IO[str], total: int) -> None:
        self._stream, self._total = stream, total
        self._bar: Any = None
        self._task: Any = None
        self._last_line = time.monotonic()

    def finished(self, record: Record, done: int, left_s: float) -> None:
        """A cell has finished; ``done`` of the sweep's cells have, the others take about so long."""
        failed = record["status"] != "ok"
        if failed:
            self._say(f"{record['cell']}: failed: {record['verdict']}")
        left = f"about {wait(left_s)} left" if done < self._total else "done"
        if self._stream.isatty():
            self._show(done, left)
        elif done == self._total or time.monotonic() - self._last_line >= _LINE_EVERY_S:
            self._last_line = time.monotonic()
            self._say(f"{done} of {self._total} cells, {left} (last: {record['cell']}, {_outcome(record)})")

    def begin(self, done: int, left_s: float) -> None:
        """Cells are about to run."""
        if self._stream.isatty():
            self._show(done, f"about {wait(left_s)} left")

    def close(self) -> None:
        """Take the bar away."""
        bar, self._bar = self._bar, None
        if bar is not None:
            with contextlib.suppress(OSError):
                bar.stop()

    def _show(self, done: int, left: str) -> None:
        if self._bar is None:
            from rich import progress
            from rich.console import Console

            columns = (
                progress.TextColumn("cells"),
                progress.BarColumn(),
                progress.MofNCompleteColumn(),
                progress.TextColumn("{task.description}"),
            )
            self._bar = progress.Progress(*columns, console=Console(file=self._stream), transient=True)
            self._task = self._bar.add_task(left, total=self._total)
            self._bar.start()
        with contextlib.suppress(OSError):
            self._bar.update(self._task, description=left, completed=done)

    def _say(self, line: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # nobody reads it any more: no reason to stop the sweep
            if self._bar is not None:
                self._bar.console.print(line, markup=False, highlight=False)
            else:
                print(line, file=self._stream, flush=True)


def _outcome(record: Record) -> str:
    if record["status"] != "ok":
        return "failed"
    pps = record["row"]["pps"]
    return "ok" if pps is None else f"{throughput(pps)} pps"
