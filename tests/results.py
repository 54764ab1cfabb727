"""Results on disk for tests: a sweep and a run, made of given numbers through the writers of the project."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from emulator.report.blank import blank_measurement, blank_txq
from emulator.report.cells import (
    CELLS_FILE,
    COLUMNS,
    HISTOGRAMS,
    KIND,
    MANIFEST_FILE,
    SCHEMA,
    plain_histogram,
    record_line,
)
from emulator.report.document import run_document
from emulator.report.histogram import Hist, histogram_of
from emulator.report.measurement import FlowCount, Probes, VariantMeasurement
from emulator.report.reference import Key
from emulator.report.rundir import write_results
from emulator.report.summary import summarise

Values = Mapping[str, Any]
PING_NS = 20_000_000


def write_sweep(
    path: Path,
    cells: Mapping[Key, Sequence[Values]],
    *,
    clock: str = "virtual",
    others: Mapping[str, Any] | None = None,
    hists: Callable[[Key, int], Mapping[str, Hist]] = lambda _key, _rep: {},
    failed: Sequence[tuple[Key, int]] = (),
    seed: int = 1,
    scenario: Mapping[str, Any] | None = None,
    timing: str = "",
) -> Path:
    """A sweep's directory; each cell has a mapping of columns to numbers for each repetition."""
    records = [
        _record(index, key, rep, values, clock, others or {}, hists(key, rep), (key, rep) in failed, seed)
        | {"run": {"timing": {"verdict": timing}} if timing else {}}
        for index, (key, rep, values) in enumerate(
            (key, rep, values) for key, repetitions in cells.items() for rep, values in enumerate(repetitions)
        )
    ]
    path.mkdir(parents=True, exist_ok=True)
    manifest = {"kind": KIND, "schema": SCHEMA, "plan": [{}] * len(records), "seed": seed}
    manifest |= {"scenario": scenario} if scenario else {}
    (path / MANIFEST_FILE).write_text(json.dumps(manifest))
    (path / CELLS_FILE).write_text("".join(map(record_line, records)))
    return path


def _record(
    index: int,
    key: Key,
    rep: int,
    values: Values,
    clock: str,
    others: Mapping[str, Any],
    hists: Mapping[str, Hist],
    failed: bool,
    seed: int,
) -> dict[str, Any]:
    tx = {"device.bql.tx_usecs": f"{key.tx_usecs:g}us"} if key.tx_usecs is not None else {}
    fields = {"netfilter.rules": key.nrules, **tx, **others}
    more = "".join(f" {name.rpartition('.')[2]}={value}" for name, value in others.items())
    sparse = {name: plain_histogram(hist) for name, hist in hists.items()}
    return {
        "schema": SCHEMA,
        "cell": f"{key.variant} nrules={key.nrules} tx_usecs={key.tx_usecs}{more} #{rep}",
        "index": index,
        "rep": rep,
        "seed": seed + rep,
        **key._asdict(),
        "fields": fields,
        "status": "failed" if failed else "ok",
        "verdict": "killed by SIGKILL (9)" if failed else "ok",
        "exit_code": 3 if failed else 0,
        "row": None if failed else dict.fromkeys(COLUMNS) | key._asdict() | dict(values),
        "hist": None if failed else dict.fromkeys(HISTOGRAMS) | sparse,
        "summary": None if failed else {"clock": clock},
        "run": {},
    }


def measured(
    name: str,
    rtts_ns: Sequence[int],
    *,
    bql: str = "v7",
    rates: Sequence[float] = (1000.0,) * 10,
    clock: str = "real",
    **more: Any,
) -> VariantMeasurement:
    """A variant with these round trips, and this goodput in each of its (ten) parts, a second each."""
    sent = np.arange(1, len(rtts_ns) + 1, dtype=np.int64) * PING_NS
    received = sent + np.array(rtts_ns, dtype=np.int64)
    t_s = np.arange(10 * len(rates) + 1) / 10
    counts = np.concatenate([[0.0], np.cumsum(np.repeat(np.array(rates) / 10, 10))])
    blank = blank_measurement(name, bql=bql)
    wave = np.arange(len(t_s)) % 7
    limits = histogram_of(16 + np.arange(200) % 5)
    return replace(
        blank,
        clock=clock,
        duration_s=float(len(rates)),
        flows=[FlowCount(0, "flood 0", 1, 1, received_in_window=int(counts[-1]), window_s=float(len(rates)))],
        probes=Probes(sent, sent, received, observed_until_ns=int(received.max()) + 1, grace_ns=0) if rtts_ns else None,
        txqs=[
            replace(
                blank_txq(bql),
                limit_hist=limits,
                count_hist=histogram_of(1 + np.arange(300) % 9),
                interval_hist=histogram_of(100_000 + 40 * np.arange(300)),
            )
        ],
        series={
            "t_s": t_s,
            "limit": 16.0 + wave % 3,
            "inflight": 10.0 + wave,
            "ring": 4.0 + wave,
            "backlog": 900.0 + wave,
            "received": counts,
            "drv_xoff": np.zeros(len(t_s)),
            "stack_xoff": np.cumsum(wave > 3) * 1.0,
            "state": 2.0 * (wave > 4),
        },
        **more,
    )


def write_run(
    path: Path, *measurements: VariantMeasurement, seed: int = 1, scenario: Mapping[str, Any] | None = None
) -> Path:
    """A run's directory."""
    effective = dict(scenario or {"name": "x"})
    document = run_document(
        [summarise(m) for m in measurements], scenario=effective, host={}, command_line=["emulator"]
    )
    manifest = {"command_line": ["emulator"], "seed": seed, "scenario": effective, "host": {}}
    write_results(path, manifest=manifest, measurements=measurements, document=document)
    return path
