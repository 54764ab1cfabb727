"""Reading back a run's results directory (rundir.py writes it).

Directories of earlier versions are read as far as they go: a series without a column lacks it, and what was never
written is None.
"""

import csv
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from emulator.errors import UsageError
from emulator.report.cells import HISTOGRAMS
from emulator.report.document import SCHEMA
from emulator.report.histogram import Hist, bucket_indices, histogram_of, merge
from emulator.report.measurement import Floats, Int64s
from emulator.report.rundir import KIND, MANIFEST

_OF_TXQS = ("limit", "inflight", "count", "interval_ns")


@dataclass(frozen=True)
class RunVariant:
    """What one variant of a run left."""

    name: str
    summary: Mapping[str, Any]
    rtts_ns: Int64s
    """of each answered probe, in the order in which they were due; empty without a ping"""
    series: Mapping[str, Floats]
    """`t_s` and what of measurement.SERIES is there; nan where a sample is missing"""
    histograms: Mapping[str, Hist | None]
    """cells.HISTOGRAMS of the flood's device; None where nothing was counted"""


@dataclass(frozen=True)
class Run:
    """A run's results as they lie in a directory, ended or not."""

    path: Path
    manifest: Mapping[str, Any]
    variants: tuple[RunVariant, ...]
    """in the order in which they ran"""


def is_run(path: Path) -> bool:
    """Whether a directory holds the results of a run."""
    try:
        _manifest(path)
    except UsageError:
        return False
    return True


def read_run(path: Path) -> Run:
    """Read a run's directory; UsageError of one line if it is none, of another version, or damaged."""
    manifest = _manifest(path)
    if manifest.get("schema") != SCHEMA:
        raise UsageError(
            f"{path / MANIFEST}: results of version {manifest.get('schema')}; this emulator reads version {SCHEMA}"
        )
    try:
        variants = tuple(_variant(path / str(entry["folder"])) for entry in manifest["variants"])
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise UsageError(f"{path}: results are damaged: {type(error).__name__}: {error}") from None
    if not variants:
        raise UsageError(f"{path}: no variant of this run has ended")
    return Run(path, manifest, variants)


def _manifest(path: Path) -> dict[str, Any]:
    manifest = _json(path / MANIFEST)
    if not isinstance(manifest, dict) or manifest.get("kind") != KIND:
        raise UsageError(f"{path / MANIFEST}: is not of a run; give the directory of a run's results")
    return manifest


def _json(path: Path) -> Any:
    try:
        return json.loads(_text(path))
    except (ValueError, RecursionError):
        raise UsageError(f"{path}: is not JSON") from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: is not UTF-8 text") from None


def _variant(folder: Path) -> RunVariant:
    summary = _json(folder / "summary.json")
    probes = folder / "probes.csv"
    rtts = _rtts(probes) if probes.exists() else np.empty(0, dtype=np.int64)
    histograms = _histograms(_json(folder / "histograms.json"), summary)
    histograms["rtt_ns"] = histogram_of(rtts) if len(rtts) else None
    return RunVariant(summary["name"], summary, rtts, _columns(folder / "series.csv"), histograms)


def _columns(path: Path) -> dict[str, Floats]:
    header, *rows = _rows(path)
    table = [[float(cell) if cell else math.nan for cell in row] for row in rows]
    values = np.array(table, dtype=np.float64).reshape(len(rows), len(header))
    return {name: values[:, i] for i, name in enumerate(header)}


def _rtts(path: Path) -> Int64s:
    """Whole ns: a clock since boot has more digits than a float keeps."""
    header, *rows = _rows(path)
    sent, received = header.index("sent_ns"), header.index("received_ns")
    rtts = [int(row[received]) - int(row[sent]) for row in rows if row[sent] and row[received]]
    return np.array([rtt for rtt in rtts if rtt >= 0], dtype=np.int64)


def _rows(path: Path) -> list[list[str]]:
    return list(csv.reader(_text(path).splitlines()))


def _histograms(plain: Mapping[str, Any], summary: Mapping[str, Any]) -> dict[str, Hist | None]:
    found: dict[str, Hist | None] = dict.fromkeys(HISTOGRAMS)
    sender, receiver = f"{summary['dev']}/", f"{summary['peer']}/"
    txqs = [queue for name, queue in plain["txqs"].items() if name.startswith(sender)]
    if summary["bql"] and summary["bql"]["variant"] != "off":
        for name in _OF_TXQS:
            found[name] = _merged([queue[name] for queue in txqs])
    found["napi_work"] = _merged([n["work"] for name, n in plain["napis"].items() if name.startswith(receiver)])
    return found


def _merged(plain: list[Mapping[str, Any]]) -> Hist | None:
    hist = merge([_hist(one) for one in plain])
    return hist if hist.n else None


def _hist(plain: Mapping[str, Any]) -> Hist:
    """From `[low, high, count]` of each bucket that is not empty."""
    hist = Hist(plain["n"], plain["sum"], plain["min"] or 0, plain["max"] or 0)
    buckets = np.array(plain["buckets"], dtype=np.int64).reshape(-1, 3)
    hist.counts[bucket_indices(buckets[:, 0])] = buckets[:, 2]
    return hist
