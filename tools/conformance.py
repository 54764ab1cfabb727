#!/usr/bin/env python3
"""Replay recorded traces of Linux queueing code against the emulated kernel, operation by operation.

    tools/conformance.py [--python] [-v] FILE...

A file holds one trace a line (JSON Lines, plain or compressed with xz, gzip or zstd): a starting state, the operations
in order, and after each one the result and the complete visible state. All of it is compared exactly. What a trace is
about (dql, ptr_ring, codel, fq_codel, sfq, fifo) is read from its content. Without --python the compiled kernel is
replayed against, with it the plain-Python twin of the same source.

Where kernels differ, a trace names in ``variants`` those that behaved so. Of each file the lines of its newest plain
version are replayed; the others (older kernels, kernels with a patch added or removed) are skipped; -v tells how many.
A file whose newest is older than 7.0 is skipped as a whole: the emulated behaviour is that of 7.2.

The last line is ``N traces, M operations, K mismatches``; an operation counts as one mismatch however many of its
fields differ. Exit code 0: all as recorded; 1: a mismatch; 2: a file or line that cannot be read or replayed (one
message each, ``file:line: what``).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from replay.dql import DqlReplay
from replay.machine import Difference, Machine, Replay
from replay.qdiscs import CodelReplay, FifoReplay, FqCodelReplay, SfqReplay
from replay.ring import RingReplay
from replay.traces import MalformedError, Trace, family_of, is_followed, parse_line, read_text, versions

_SHOWN_BY_DEFAULT = 10
_LONGEST_VALUE = 300

_REPLAYS: dict[str, Callable[[Machine, Trace], Replay]] = {
    "dql": DqlReplay,
    "ptr_ring": RingReplay,
    "codel": CodelReplay,
    "fq_codel": FqCodelReplay,
    "sfq": SfqReplay,
    "fifo": FifoReplay,
}


class Run:
    """Counts, and what is printed."""

    def __init__(self, verbose: bool) -> None:
        self.verbose = verbose
        self.traces = self.operations = self.mismatches = self.errors = self.shown = 0
        self._machine: Machine | None = None

    @property
    def machine(self) -> Machine:
        if self._machine is None:
            self._machine = Machine()
        return self._machine

    def error(self, path: Path, line: int, what: object) -> None:
        self.errors += 1
        print(f"{path}:{line}: {what}", file=sys.stderr)

    def file(self, path: Path) -> None:
        try:
            lines = list(self._traces(path, read_text(path)))
        except (OSError, ValueError) as error:
            self.error(path, 1, getattr(error, "strerror", None) or error)
            return
        newest = max((version for _, trace in lines for version in versions(trace)), default=None)
        skipped = 0
        for number, trace in lines:
            if not is_followed(trace, newest):
                skipped += 1
                continue
            try:
                self._replay(path, number, trace)
            except MalformedError as error:
                self.error(path, number, error)
        if skipped and (self.verbose or skipped == len(lines)):
            print(f"{path}: {skipped} of {len(lines)} traces are of other kernels: skipped", file=sys.stderr)

    def _traces(self, path: Path, text: str) -> Iterator[tuple[int, Trace]]:
        found = False
        for number, line in enumerate(text.split("\n"), start=1):
            if not line.strip():
                continue
            found = True
            try:
                yield number, parse_line(line)
            except MalformedError as error:
                self.error(path, number, error)
        if not found:
            self.error(path, 1, "no trace in this file")

    def _replay(self, path: Path, line: int, trace: Trace) -> None:
        where = f"{path}:{line}: {trace.get('id', 'trace')}"
        kind = _REPLAYS[family_of(trace)]
        replay: Replay = _guarded("start", partial(kind, self.machine, trace))
        self.traces += 1
        self._report(where, -1, "params", _guarded("params", replay.params))
        try:
            for index, op in enumerate(trace["ops"]):
                differences = _guarded(f"op {index}", partial(replay.step, op))
                self.operations += 1
                self._report(where, index, op[0], differences)
        except BaseException:
            self._machine = None  # whatever it holds is of no use to the next trace
            raise
        self._report(where, len(trace["ops"]), "end", replay.close())

    def _report(self, where: str, index: int, op: str, differences: list[Difference]) -> None:
        if not differences:
            return
        self.mismatches += 1
        if self.verbose or self.shown < _SHOWN_BY_DEFAULT:
            self.shown += 1
            for field, expected, got in differences:
                print(f"{where}: op {index} {op}: {field}: expected {_short(expected)}, got {_short(got)}")


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}... ({len(text)} characters)"


def _guarded(where: str, call: Callable[[], Any]) -> Any:
    """Run one call; what goes wrong with a trace's content says where."""
    try:
        return call()
    except MalformedError as error:
        raise MalformedError(f"{where}: {error}") from None
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        raise MalformedError(f"{where}: {type(error).__name__}: {error}") from error


def main(arguments: list[str] | None = None) -> int:
    """Replay the files; the exit code."""
    parser = argparse.ArgumentParser(description="Replay recorded traces of Linux queueing code.")
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path)
    parser.add_argument("--python", dest="python", action="store_true", help="replay against the plain-Python twin")
    parser.add_argument("-v", "--verbose", action="store_true", help="show every mismatch, and what was skipped")
    options = parser.parse_args(arguments)
    os.environ["EMULATOR_PLAIN"] = "1" if options.python else "0"  # read when the kernel is imported

    run = Run(options.verbose)
    for path in options.files:
        run.file(path)
    print(f"{run.traces} traces, {run.operations} operations, {run.mismatches} mismatches")
    if run.errors:
        return 2
    return 1 if run.mismatches else 0


if __name__ == "__main__":
    sys.exit(main())
