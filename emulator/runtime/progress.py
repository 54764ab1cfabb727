"""What the user sees while waiting: a bar with the time left on a terminal, plain lines elsewhere. On stderr."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import IO, Any

_LINE_EVERY_S = 10.0


class Progress:
    """Progress of one command."""

    def __init__(self, stream: IO[str] | None) -> None:
        self._stream = stream
        self._terminal = stream is not None and stream.isatty()
        self._bar: Any = None
        self._task: Any = None
        self._last_line = 0.0

    @contextlib.contextmanager
    def compiling(self) -> Iterator[Callable[[int, int, str], None]]:
        """Announce compiling, if it comes to that."""
        started = time.monotonic()

        def announce(done: int, total: int, name: str) -> None:
            if done == 0:
                self._say("compiling the kernel, once for this version of the sources (about a minute)")
            if self._terminal:
                self._show(f"compiling {name}", done, total)
            elif name:
                self._say(f"  compiling {name} ({done + 1} of {total})")
            if done == total:
                self.close()
                self._say(f"compiled in {time.monotonic() - started:.0f} s")

        yield announce

    def waiting(self) -> None:
        """Another process compiles."""
        self._say("waiting for another emulator, which is compiling the kernel (about a minute)")

    def begin(self, variant: str) -> None:
        """A variant starts."""
        self.close()
        self._last_line = time.monotonic()
        if not self._terminal:
            self._say(f"running {variant}")

    def running(self, variant: str, done_s: float, total_s: float) -> None:
        """A variant is so far."""
        if self._terminal:
            self._show(f"running {variant}", done_s, total_s)
        elif time.monotonic() - self._last_line >= _LINE_EVERY_S:
            self._last_line = time.monotonic()
            self._say(f"  {variant}: {done_s:.0f} of {total_s:.0f} s")

    def close(self) -> None:
        """Take the bar away."""
        bar, self._bar = self._bar, None
        if bar is not None:
            with contextlib.suppress(OSError):
                bar.stop()

    def _show(self, what: str, done: float, total: float) -> None:
        if self._bar is None:
            from rich import progress
            from rich.console import Console

            columns = (progress.TextColumn("{task.description}"), progress.BarColumn(), progress.TimeRemainingColumn())
            self._bar = progress.Progress(*columns, console=Console(file=self._stream), transient=True)
            self._task = self._bar.add_task(what, total=total)
            self._bar.start()
        with contextlib.suppress(OSError):
            self._bar.update(self._task, description=what, completed=done, total=total)

    def _say(self, line: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # nobody reads it any more: no reason to stop the run
            print(line, file=self._stream, flush=True)
