"""The directory that keeps a run's results.

::

    run.json                    manifest: versions, command line, effective scenario, seed, host, verdicts; written
                                first, and again whenever a variant has ended
    events.jsonl                one event a line
    summary.json                what `--json` prints
    variants/<name>/summary.json      one variant's entry of it
                    counters.json     every counter, as measured
                    histograms.json   exact distributions: n, sum, min, max, [[low, high, count], ...]
                    probes.csv        intended_ns, sent_ns, received_ns; empty where it did not happen
                    trace.jsonl       what happened, one event a line, if it was traced
                    series.csv        t_s and what a poller of sysfs saw; empty where missing

A file appears whole or not at all: it is written beside its place and renamed. A variant is kept as soon as it has
ended, so a later crash loses none of the earlier ones. A directory that holds anything but results is never written to.
"""

import contextlib
import csv
import fcntl
import io
import json
import math
import os
import re
import stat
import weakref
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emulator.errors import CannotRun
from emulator.report.codec import to_plain
from emulator.report.document import SCHEMA, versions_here
from emulator.report.histogram import Hist, bucket_bounds
from emulator.report.measurement import Trace, VariantMeasurement

MANIFEST = "run.json"
KIND = "emulator results"
_VARIANT_FILES = ("summary.json", "counters.json", "histograms.json", "probes.csv", "series.csv", "trace.jsonl")
NS_PER_US = 1000
_TOP_FILES = ("summary.json", "events.jsonl")  # the manifest is replaced, never absent
_BULKY = ("probes", "series", "trace", "limit_hist", "inflight_hist", "count_hist", "interval_hist", "work_hist")


def reserve_directory(name: str, now: datetime, parent: Path = Path("runs")) -> Path:
    """Makes `runs/<name>-<timestamp>`, a new one even when two runs begin in the same second."""
    base = parent / f"{safe_name(name)}-{now:%Y%m%d-%H%M%S}"
    path, again = base, 2
    with _said(base):
        parent.mkdir(parents=True, exist_ok=True)
        while True:
            try:
                path.mkdir()
                return path
            except FileExistsError:
                path, again = base.with_name(f"{base.name}-{again}"), again + 1


def safe_name(name: str) -> str:
    """A file name that stands for any name of a scenario or a variant."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "unnamed"


class ResultsDirectory:
    """Writes a run's results; every failure is a CannotRun of one line that names the path and what to do."""

    def __init__(self, path: Path, manifest: Mapping[str, Any]) -> None:
        """Makes the directory, or takes over one that holds results, and writes the manifest.

        manifest: JSON values: command_line, scenario (effective), seed, host ...; versions are added.
        """
        self.path = path
        self._manifest: dict[str, Any] = {
            "kind": KIND,
            "schema": SCHEMA,
            "versions": versions_here(),
            **manifest,
            "complete": False,
            "variants": [],
        }
        with _said(path):
            path.mkdir(parents=True, exist_ok=True)
            self._lock()
            _claim(path)
            self._write_manifest()

    @classmethod
    def reopen(cls, path: Path, launcher: Sequence[int], manifest: Mapping[str, Any]) -> "ResultsDirectory | None":
        """Goes on with the results of a launcher that did not get to its end: what is there is kept.

        None where the results are not, or no longer, its own.
        """
        if not _is_results(path):
            return None
        found = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        if found.get("launcher") != list(launcher) or found.get("complete"):
            return None
        results = cls.__new__(cls)
        results.path = path
        results._lock()
        results._manifest = {**found, **manifest}
        return results

    def _lock(self) -> None:
        """Keep others out for as long as this object, or its process, lives. CannotRun if they were first."""
        handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._unlock = weakref.finalize(self, os.close, handle)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._unlock()
            raise CannotRun(f"another run is writing its results to {self.path}; choose another --out DIR") from None

    @property
    def manifest(self) -> Mapping[str, Any]:
        """What the manifest holds."""
        return self._manifest

    def kept(self) -> list[dict[str, Any]]:
        """The summaries of the variants that were written."""
        with _said(self.path):
            folders = [self.path / variant["folder"] for variant in self._manifest["variants"]]
            return [json.loads((folder / "summary.json").read_text(encoding="utf-8")) for folder in folders]

    def write_variant(self, measurement: VariantMeasurement, summary: Mapping[str, Any]) -> Path:
        """Keeps one variant that has ended, whole or not, and says so in the manifest."""
        folder = self.path / "variants" / self._folder_name(measurement.name)
        with _said(folder):
            folder.mkdir(parents=True, exist_ok=True)
            write_text(folder / "counters.json", _json(_counters(measurement)))
            write_text(folder / "histograms.json", _json(_histograms(measurement)))
            write_text(folder / "series.csv", _series_csv(measurement.series))
            if measurement.probes is not None:
                p = measurement.probes
                write_text(folder / "probes.csv", _probes_csv(p.intended_ns, p.sent_ns, p.received_ns))
            if measurement.trace is not None:
                write_text(folder / "trace.jsonl", _trace_jsonl(measurement.trace))
            write_text(folder / "summary.json", _json(summary))
            self._manifest["variants"].append(
                {
                    "name": measurement.name,
                    "folder": f"variants/{folder.name}",
                    "complete": measurement.complete,
                    "verdict": measurement.verdict,
                    "timing": measurement.timing.verdict,
                    "exit_code": summary["exit_code"],
                }
            )
            self._write_manifest()
        return folder

    def finish(self, document: Mapping[str, Any], events: Iterable[Mapping[str, Any]] = ()) -> None:
        """Keeps what belongs to the run as a whole; without this the manifest says that it is not complete."""
        with _said(self.path):
            write_text(self.path / "events.jsonl", "".join(_json_line(e) for e in events))
            write_text(self.path / "summary.json", _json(document))
            self._manifest["complete"] = True
            self._manifest["exit_code"] = document["exit_code"]
            self._write_manifest()
        self._unlock()

    def _folder_name(self, name: str) -> str:
        """Like the variant's name, different from the others', whatever case a file system keeps."""
        taken = {v["folder"].rpartition("/")[2].lower() for v in self._manifest["variants"]}
        folder, again = safe_name(name), 2
        while folder.lower() in taken:
            folder, again = f"{safe_name(name)}-{again}", again + 1
        return folder

    def _write_manifest(self) -> None:
        write_text(self.path / MANIFEST, _json(self._manifest))


def write_results(
    path: Path,
    *,
    manifest: Mapping[str, Any],
    measurements: Sequence[VariantMeasurement],
    document: Mapping[str, Any],
    events: Iterable[Mapping[str, Any]] = (),
) -> None:
    """A whole run at once. CannotRun when the directory cannot be written."""
    results = ResultsDirectory(path, manifest)
    for measurement, summary in zip(measurements, document["variants"], strict=True):
        results.write_variant(measurement, summary)
    results.finish(document, events)


def write_text(path: Path, text: str) -> None:
    """Replace a file whole: a reader sees the old one or the new one. OSError if it cannot be done."""
    beside = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    try:
        with beside.open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise


def _claim(path: Path) -> None:
    """Make the directory `path` one for results; earlier results in it are removed, anything else is refused."""
    if not any(path.iterdir()):
        return
    if not _is_results(path):
        raise CannotRun(f"{path} is not empty and holds no results of ours; choose another place with --out DIR")
    variants = path / "variants"
    if not variants.is_symlink():
        for folder in variants.glob("*"):
            if not folder.is_symlink():
                _remove(folder, _VARIANT_FILES)
    _remove(path, _TOP_FILES)


def _is_results(path: Path) -> bool:
    try:
        if not stat.S_ISREG((path / MANIFEST).lstat().st_mode):
            return False
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(manifest, dict) and manifest.get("kind") == KIND


def _remove(folder: Path, names: Iterable[str]) -> None:
    """Only what this module writes."""
    for name in names:
        (folder / name).unlink(missing_ok=True)


class _said(contextlib.AbstractContextManager[None]):  # noqa: N801  reads as a word: with _said(path)
    """What the operating system refuses, in one line."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            raise CannotRun(
                f"cannot write results to {self._path}: {reason}; make room or choose another place with --out DIR"
            ) from error


def _json(value: Any) -> str:
    return json.dumps(to_plain(value), indent=1, allow_nan=False) + "\n"


def _json_line(value: Any) -> str:
    return json.dumps(to_plain(value), allow_nan=False, separators=(",", ":")) + "\n"


def _counters(measurement: VariantMeasurement) -> Any:
    """Everything but what has a file of its own."""
    return _without(measurement.to_dict(), _BULKY)


def _without(value: Any, names: Sequence[str]) -> Any:
    if isinstance(value, dict):
        return {key: _without(item, names) for key, item in value.items() if key not in names}
    return [_without(item, names) for item in value] if isinstance(value, list) else value


def _histograms(measurement: VariantMeasurement) -> dict[str, Any]:
    txqs = {
        f"{q.dev}/tx-{q.queue}": {
            "limit": _hist(q.limit_hist),
            "inflight": _hist(q.inflight_hist),
            "count": _hist(q.count_hist),
            "interval_ns": _hist(q.interval_hist),
        }
        for q in measurement.txqs
    }
    return {"txqs": txqs, "napis": {f"{n.dev}/rx-{n.queue}": {"work": _hist(n.work_hist)} for n in measurement.napis}}


def _hist(hist: Hist) -> dict[str, Any]:
    filled = [int(i) for i in np.flatnonzero(hist.counts)]
    return {
        "n": hist.n,
        "sum": hist.sum,
        "min": hist.min if hist.n else None,
        "max": hist.max if hist.n else None,
        "buckets": [[*bucket_bounds(i), int(hist.counts[i])] for i in filled],
    }


def _probes_csv(*columns: NDArray[np.int64]) -> str:
    cells = ([str(v) if v else "" for v in column.tolist()] for column in columns)
    return _csv(("intended_ns", "sent_ns", "received_ns"), cells)


def _trace_jsonl(trace: Trace) -> str:
    return "".join(
        _json_line({"t_us": e.t_ns / NS_PER_US, "agent": e.agent, "event": e.event} | e.args) for e in trace.events
    )


def _series_csv(series: Mapping[str, NDArray[np.float64]]) -> str:
    return _csv(tuple(series), ([_number(v) for v in column.tolist()] for column in series.values()))


def _number(value: float) -> str:
    return "" if not math.isfinite(value) else f"{value:.9f}".rstrip("0").rstrip(".")


def _csv(names: Sequence[str], columns: Iterable[Sequence[str]]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(zip(*columns, strict=True))
    return stream.getvalue()
