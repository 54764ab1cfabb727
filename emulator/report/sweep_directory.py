"""The directory that keeps a sweep's results; what lies in it is described in `cells`.

Records are appended as cells finish, each line flushed to the disk, so that a crash or a full disk costs at most the
line that was being written. When the sweep ends, or is interrupted, the file is written anew in the order of the plan.
A directory that holds anything but a sweep is never written to, and an earlier sweep is only gone on with, never
overwritten.
"""

import contextlib
import csv
import fcntl
import io
import json
import os
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from emulator.errors import CannotRun, UsageError
from emulator.report.cells import (
    CELLS_FILE,
    COLUMNS,
    CSV_FILE,
    KEYS,
    KIND,
    MANIFEST_FILE,
    SCHEMA,
    VALUES,
    Cell,
    Record,
    Sweep,
    cells_of,
    is_sweep,
    read_sweep,
    record_line,
)
from emulator.report.codec import to_plain
from emulator.report.document import versions_here
from emulator.report.rundir import write_text

_DECIDE = ("sources", "scenario", "plan", "order")
"""what of a manifest must be the same for a sweep to be gone on with"""
_DIFFERENCES_SHOWN = 4


class SweepDirectory:
    """Writes a sweep's results; every failure is one line that names the path and what to do."""

    def __init__(self, path: Path, manifest: Mapping[str, Any], records: Iterable[Record], handle: int) -> None:
        self.path = path
        self.manifest: dict[str, Any] = dict(manifest)
        self.records: dict[int, Record] = {int(r["index"]): r for r in records}
        """by their place in the plan"""
        self._unlock = weakref.finalize(self, os.close, handle)
        self._cells: IO[bytes] | None = None

    @classmethod
    def create(cls, path: Path, manifest: Mapping[str, Any]) -> "SweepDirectory":
        """Makes the directory, or takes one that is empty; manifest: JSON values, versions are added."""
        with _said(path, "choose another place with --out DIR"):
            path.mkdir(parents=True, exist_ok=True)
            handle = _locked(path)
            if is_sweep(path):
                os.close(handle)
                raise CannotRun(
                    f"{path} holds a sweep already; go on with it (--resume DIR), or choose another --out DIR"
                )
            if any(path.iterdir()):
                os.close(handle)
                raise CannotRun(f"{path} is not empty; choose another place with --out DIR")
            whole = {"kind": KIND, "schema": SCHEMA, "versions": versions_here(), **manifest, "complete": False}
            sweep = cls(path, whole, (), handle)
            sweep._write_manifest()
            return sweep

    @classmethod
    def resume(
        cls, path: Path, manifest: Mapping[str, Any], *, retry_failed: bool = False
    ) -> tuple["SweepDirectory", list[str]]:
        """Goes on with a sweep of the same plan: (directory, notes). UsageError if it is none, or of another plan.

        retry_failed: what had failed counts as not done.
        """
        with _said(path, "give the directory of a sweep's results"):
            read_sweep(path)
            handle = _locked(path)
        try:
            found = read_same_sweep(path, manifest)  # once more, now that nobody else writes
        except UsageError:
            os.close(handle)
            raise
        with _said(path):
            records = [r for r in found.records if r["status"] == "ok" or not retry_failed]
            again = {"command_line": manifest.get("command_line"), "versions": versions_here()}
            whole = dict(found.manifest) | {"complete": False, "resumed": [*found.manifest.get("resumed", []), again]}
            sweep = cls(path, whole, records, handle)
            sweep._write_manifest()
            write_text(path / CELLS_FILE, "".join(map(record_line, records)))  # without what a crash has torn
            return sweep, list(found.notes)

    def append(self, record: Record) -> None:
        """Keeps one more record. CannotRun if it cannot be written; `records` has it all the same."""
        self.records[int(record["index"])] = record
        with _said(self.path):
            if self._cells is None:
                self._cells = (self.path / CELLS_FILE).open("ab")
            self._cells.write(record_line(record).encode())
            self._cells.flush()
            os.fsync(self._cells.fileno())

    def finish(self, exit_code: int) -> None:
        """Writes the records in the order of the plan, and the table; says whether all of the plan is there."""
        if self._cells is not None:
            with contextlib.suppress(OSError):  # said when it was written to
                self._cells.close()
        ordered = [self.records[index] for index in sorted(self.records)]
        with _said(self.path):
            write_text(self.path / CELLS_FILE, "".join(map(record_line, ordered)))
            write_text(self.path / CSV_FILE, sweep_csv(cells_of(ordered)))
            self.manifest |= {"complete": len(ordered) == len(self.manifest["plan"]), "exit_code": exit_code}
            self._write_manifest()
        self._unlock()

    def _write_manifest(self) -> None:
        write_text(self.path / MANIFEST_FILE, json.dumps(to_plain(self.manifest), indent=1, allow_nan=False) + "\n")


def sweep_csv(cells: Sequence[Cell]) -> str:
    """COLUMNS, then what else was swept; a line for each cell of which a repetition was measured, empty: missing."""
    others = list(dict.fromkeys(name for cell in cells for name in cell.others))
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*COLUMNS, *others])
    for cell in cells:
        if cell.ok:
            keys = [getattr(cell, key) for key in KEYS]
            values = [*keys, *(cell.values[name] for name in VALUES), *(cell.others.get(name) for name in others)]
            writer.writerow([_field(value) for value in values])
    return stream.getvalue()


def read_same_sweep(path: Path, manifest: Mapping[str, Any]) -> Sweep:
    """A sweep that was to run just what `manifest` says (`_DECIDE` of it); UsageError with what is different."""
    found = read_sweep(path)
    different = plan_differences(found.manifest, to_plain(manifest))
    if different:
        hint = f"go on as it is with --resume {path} alone, or start a new sweep with --out DIR"
        if found.manifest.get("sources") != manifest.get("sources"):
            hint = "start a new sweep with --out DIR"
        raise UsageError(f"{path} has another plan: {'; '.join(different)}; {hint}")
    return found


def kept_scenario(path: Path) -> dict[str, Any]:
    """The effective scenario of a sweep's directory; UsageError if it is none."""
    scenario = read_sweep(path).manifest.get("scenario")
    if not isinstance(scenario, dict):
        raise UsageError(f"{path / MANIFEST_FILE}: holds no scenario; give SCENARIO too, or another --resume DIR")
    return scenario


def plan_differences(kept: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """What of two manifests keeps them from being one sweep, a few words each."""
    different: list[str] = []
    if kept.get("sources") != wanted.get("sources"):
        different.append("it was made by other sources of the emulator")
    pairs = list(_differences(kept.get("scenario"), wanted.get("scenario"), ""))
    different += [
        f"{path or 'the scenario'} was {_short(old)}, is {_short(new)}" for path, old, new in pairs[:_DIFFERENCES_SHOWN]
    ]
    if len(pairs) > _DIFFERENCES_SHOWN:
        different.append(f"and {len(pairs) - _DIFFERENCES_SHOWN} more")
    if not different and any(kept.get(key) != wanted.get(key) for key in _DECIDE):
        different.append("its cells are others")
    return different


def _differences(old: Any, new: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            yield from _differences(old.get(key), new.get(key), f"{path}.{key}" if path else str(key))
    elif old != new:
        yield path, old, new


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _field(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{value:.6f}".rstrip("0").rstrip(".")
    return json.dumps(value)


def _locked(path: Path) -> int:
    """A descriptor that keeps others out while it is open. CannotRun if they were first."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise CannotRun(f"another sweep is writing its results to {path}; choose another --out DIR") from None
    return handle


@contextlib.contextmanager
def _said(path: Path, hint: str = "make room, then go on with --resume") -> Iterator[None]:
    """What the operating system refuses, in one line."""
    try:
        yield
    except OSError as error:
        raise CannotRun(f"cannot write results to {path}: {error.strerror or error}; {hint}") from error
