"""The results of a sweep: one record a cell, and the cells of a table with their repetitions.

::

    sweep.json      manifest: versions, command line, effective scenario with its `sweep:`, seed, host, plan, run order
    cells.jsonl     one record a line; in the order of the plan once the sweep has ended
    sweep.csv       one line a cell, repetitions aggregated (sweep_csv)

    record  {"schema": 1, "cell": "v7 nrules=1000 tx_usecs=100 #0", "index": 17, "rep": 0, "seed": 1,
             "variant": "v7", "nrules": 1000, "tx_usecs": 100,
             "fields": {"netfilter.rules": 1000, "device.bql.tx_usecs": "100us"},
             "status": "ok" | "failed", "verdict": "ok", "exit_code": 0,
             "row": {COLUMNS}, "hist": {HISTOGRAMS}, "summary": {...}, "run": {...}}

Scope. `off` is called stock. `fields` is what the sweep set, as the scenario writes it; what means nothing to a variant
(`tx_usecs` to stock) is not among them. A failed cell has no `row` and no `hist`. `run` holds everything that may
differ between two runs of the same cell, and nothing else does. Missing is null, never 0.

Units are in the names: `_ms`, `_us`, `_ns`; pps is packets a second; what has none is a count of packets or times.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from emulator.errors import UsageError
from emulator.report.cell_form import manifest_fault, record_fault
from emulator.report.codec import to_plain
from emulator.report.histogram import BUCKETS, Hist, histogram_of, merge
from emulator.report.measurement import VariantMeasurement

SCHEMA = 1
KIND = "emulator sweep"
MANIFEST_FILE, CELLS_FILE, CSV_FILE = "sweep.json", "cells.jsonl", "sweep.csv"

KEYS = ("variant", "nrules", "tx_usecs")
VALUES = (
    "pps",
    "rtt_avg_ms",
    "rtt_p50_ms",
    "rtt_p99_ms",
    "rtt_max_ms",
    "n",
    "limit_p50",
    "count_p50",
    "interval_p50_us",
    "inflight_max",
    "requeues",
)
COLUMNS = (*KEYS, *VALUES)
HISTOGRAMS = ("rtt_ns", "limit", "inflight", "count", "interval_ns", "napi_work")

NRULES_FIELD, TX_USECS_FIELD, VARIANT_FIELD = "netfilter.rules", "device.bql.tx_usecs", "device.bql.variant"
IN_COLUMNS = (NRULES_FIELD, TX_USECS_FIELD, VARIANT_FIELD)
"""fields that have a column of their own"""

STOCK = "stock"
OF_THE_PROCESS = ("timing", "agents", "memory_mb", "start_to_first_packet_s")
"""what of a summary says something of the machine and its processes: kept under `run`"""

Record = dict[str, Any]


def variant_label(bql_variant: str) -> str:
    """`off` is what the list calls stock."""
    return STOCK if bql_variant == "off" else bql_variant


def cell_row(summary: Mapping[str, Any], keys: Mapping[str, Any]) -> dict[str, Any]:
    """COLUMNS of one measured cell: its KEYS, and its VALUES from its summary."""
    rtt, bql, qdisc = summary["rtt_ms"] or {}, summary["bql"] or {}, summary["qdisc"] or {}
    return {key: keys[key] for key in KEYS} | {
        "pps": summary["goodput_pps"],
        "rtt_avg_ms": rtt.get("avg"),
        "rtt_p50_ms": rtt.get("p50"),
        "rtt_p99_ms": rtt.get("p99"),
        "rtt_max_ms": rtt.get("max"),
        "n": rtt.get("n"),
        "limit_p50": bql.get("limit_p50"),
        "count_p50": bql.get("count_p50"),
        "interval_p50_us": bql.get("interval_us_p50"),
        "inflight_max": bql.get("inflight_max"),
        "requeues": qdisc.get("requeues"),
    }


def cell_histograms(m: VariantMeasurement) -> dict[str, Any]:
    """HISTOGRAMS of one measured cell, sparse; null where nothing is counted (BQL of stock, RTT without ping)."""
    txqs = [q for q in m.txqs if q.dev == m.dev and q.variant != "off"]
    napis = [n for n in m.napis if n.dev == m.peer]
    hists: dict[str, Hist | None] = {
        "rtt_ns": None,
        "limit": merge([q.limit_hist for q in txqs]) if txqs else None,
        "inflight": merge([q.inflight_hist for q in txqs]) if txqs else None,
        "count": merge([q.count_hist for q in txqs]) if txqs else None,
        "interval_ns": merge([q.interval_hist for q in txqs]) if txqs else None,
        "napi_work": merge([n.work_hist for n in napis]) if napis else None,
    }
    if m.probes is not None:
        answered = (m.probes.sent_ns != 0) & (m.probes.received_ns >= m.probes.sent_ns)
        hists["rtt_ns"] = histogram_of(m.probes.received_ns[answered] - m.probes.sent_ns[answered])
    return {name: None if hist is None else plain_histogram(hist) for name, hist in hists.items()}


def plain_histogram(hist: Hist) -> dict[str, Any]:
    """n, sum, min, max (null when nothing was counted) and `[index, count]` of each bucket that is not empty."""
    filled = np.flatnonzero(hist.counts)
    return {
        "n": hist.n,
        "sum": hist.sum,
        "min": hist.min if hist.n else None,
        "max": hist.max if hist.n else None,
        "buckets": [[int(i), int(hist.counts[i])] for i in filled],
    }


def read_histogram(plain: Mapping[str, Any]) -> Hist:
    """The inverse of `plain_histogram`."""
    counts = np.zeros(BUCKETS, dtype=np.int64)
    for index, count in plain["buckets"]:
        counts[index] = count
    return Hist(plain["n"], plain["sum"], plain["min"] or 0, plain["max"] or 0, counts)


def whole_if_possible(value: float | None) -> float | int | None:
    """100.0 as 100: a time in us is whole unless somebody asked for less."""
    return int(value) if value is not None and float(value).is_integer() else value


@dataclass(frozen=True)
class Cell:
    """One cell of the tables: all repetitions of one combination."""

    name: str
    """`v7 nrules=1000 tx_usecs=100`"""
    variant: str
    """off is called stock"""
    nrules: int | None
    tx_usecs: float | None
    """us; None for a variant that does not wait (stock, v5)"""
    others: dict[str, Any]
    """what else the sweep set, by its name in the scenario, in the order of the sweep"""
    values: dict[str, float | int | None]
    """VALUES: the median over repetitions, `n` their sum; all None when nothing was measured"""
    ok: tuple[Record, ...]
    failed: tuple[Record, ...]

    def samples(self, column: str) -> list[float]:
        """A column of VALUES, one number for each repetition that has it."""
        return [r["row"][column] for r in self.ok if r["row"][column] is not None]

    def histogram(self, name: str) -> Hist | None:
        """One of HISTOGRAMS over all repetitions; None where nothing has it."""
        found = [read_histogram(r["hist"][name]) for r in self.ok if r["hist"][name] is not None]
        return merge(found) if found else None


def cells_of(records: Sequence[Record], plan: Sequence[Mapping[str, Any]] = ()) -> list[Cell]:
    """Repetitions put together, in the order of the plan.

    plan: what should have a record; a cell of which there is none yet is then among them, with nothing in it.
    """
    there = {int(record["index"]) for record in records}
    missing = [{**cell, "status": "missing"} for cell in plan if int(cell["index"]) not in there]
    groups: dict[str, list[Record]] = {}
    for record in sorted([*records, *missing], key=lambda r: int(r["index"])):
        key = json.dumps([record["variant"], record["fields"]], sort_keys=True)
        groups.setdefault(key, []).append(record)
    return [_cell(group) for group in groups.values()]


def _cell(records: Sequence[Record]) -> Cell:
    first = records[0]
    ok = tuple(r for r in records if r["status"] == "ok")
    return Cell(
        name=str(first["cell"]).rpartition(" #")[0],
        variant=first["variant"],
        nrules=first["nrules"],
        tx_usecs=first["tx_usecs"],
        others={name: value for name, value in first["fields"].items() if name not in IN_COLUMNS},
        values={column: _over_repetitions(column, ok) for column in VALUES},
        ok=ok,
        failed=tuple(r for r in records if r["status"] == "failed"),
    )


def _over_repetitions(column: str, records: Sequence[Record]) -> float | int | None:
    there: list[float | int] = [r["row"][column] for r in records if r["row"][column] is not None]
    if not there:
        return None
    if column == "n":
        return sum(there)
    return whole_if_possible(median(there)) if all(isinstance(v, int) for v in there) else median(there)


@dataclass(frozen=True)
class Sweep:
    """A sweep's results as they lie in a directory, ended or not."""

    path: Path
    manifest: Mapping[str, Any]
    records: tuple[Record, ...]
    """in the order of the plan"""
    notes: tuple[str, ...] = ()
    """what had to be left out in reading, a line each"""

    @property
    def complete(self) -> bool:
        """Whether every cell of the plan has its record."""
        return len(self.records) == len(self.manifest["plan"])

    @cached_property
    def cells(self) -> list[Cell]:
        """The cells of the tables, repetitions put together."""
        return cells_of(self.records)


def read_sweep(path: Path) -> Sweep:
    """Read a sweep's directory, or the `cells.jsonl` in it; UsageError if it is none, or of another version."""
    path = path.parent if path.name in (CELLS_FILE, MANIFEST_FILE, CSV_FILE) else path
    manifest = _manifest(path)
    try:
        text = (path / CELLS_FILE).read_bytes() if (path / CELLS_FILE).exists() else b""
    except OSError as error:
        raise UsageError(f"{path / CELLS_FILE}: cannot read: {error.strerror or error}") from None
    records, notes = complete_records(text)
    strange = next((r for r in records if r.get("schema") != SCHEMA), None)
    if strange is not None:
        raise UsageError(
            f"{path / CELLS_FILE}: records of version {strange.get('schema')}; this emulator reads version {SCHEMA}"
        )
    ordered = sorted(records, key=lambda r: int(r["index"]))
    return Sweep(path, manifest, tuple(ordered), tuple(f"{path / CELLS_FILE}: {note}" for note in notes))


def is_sweep(path: Path) -> bool:
    """Whether a directory holds the results of a sweep."""
    try:
        _manifest(path)
    except UsageError:
        return False
    return True


def _manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((path / MANIFEST_FILE).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"{path / MANIFEST_FILE}: cannot read: {error.strerror or error}; give the directory of a sweep's results"
        ) from None
    except (ValueError, RecursionError):
        raise UsageError(f"{path / MANIFEST_FILE}: is not JSON; give the directory of a sweep's results") from None
    if not isinstance(manifest, dict) or manifest.get("kind") != KIND:
        raise UsageError(f"{path / MANIFEST_FILE}: is not of a sweep; give the directory of a sweep's results")
    if manifest.get("schema") != SCHEMA:
        raise UsageError(
            f"{path / MANIFEST_FILE}: results of version {manifest.get('schema')}; this emulator reads version {SCHEMA}"
        )
    if (fault := manifest_fault(manifest)) is not None:
        raise UsageError(f"{path / MANIFEST_FILE}: is damaged ({fault}); repeat the sweep")
    return manifest


def complete_records(data: bytes) -> tuple[list[Record], list[str]]:
    """(records, notes) of the lines of a `cells.jsonl`: a line torn by a crash is left out, and said.

    The last record of an index counts: a cell that was run once more stands further down.
    """
    records: dict[int, Record] = {}
    notes: list[str] = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            notes.append(f"line {number} is torn ({len(line)} bytes) and left out")
            continue
        ours = not isinstance(record, dict) or record.get("schema") == SCHEMA
        if ours and (fault := record_fault(record, VALUES, HISTOGRAMS)) is not None:
            notes.append(f"line {number} is not the record of a cell ({fault}) and left out")
        elif isinstance(record.get("index"), int):
            records[record["index"]] = record
    return list(records.values()), notes


def record_line(record: Mapping[str, Any]) -> str:
    """A record as one line that ends in a newline; what is not a number is null."""
    return json.dumps(to_plain(record), allow_nan=False, separators=(",", ":"), sort_keys=False) + "\n"
