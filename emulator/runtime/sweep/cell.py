"""One cell of a sweep: a scenario in, a record out.

Plain values both ways and nothing kept in between, so that any process can take a cell: this one, a worker, another
machine's. Everything that may differ between two runs of a cell lies under the record's `run`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from emulator.errors import EmulatorError, ExitCode
from emulator.report.cells import KEYS, OF_THE_PROCESS, SCHEMA, Record, cell_histograms, cell_row
from emulator.report.codec import to_plain
from emulator.report.expect import evaluate, with_expectations
from emulator.report.measurement import VariantMeasurement
from emulator.report.summary import summarise
from emulator.scenario.model import Scenario

Runner = Callable[[Scenario], VariantMeasurement]

_PLANNED = ("cell", "index", "rep", "seed", *KEYS, "fields")


def run_cell(cell: Mapping[str, Any], runner: Runner | None = None) -> Record:
    """Run one cell (`scenario.matrix.PlannedCell` as a mapping) and give its record; raises nothing that it can name.

    runner: measures a scenario; by default what its clock asks for: this process, or agents that it starts.
    """
    began_s = time.monotonic()
    name = str(cell["cell"])
    try:
        scenario = Scenario.model_validate(cell["scenario"]).named(name)
        record = _measured(cell, scenario, (runner or _RUNNERS[scenario.clock])(scenario))
    except EmulatorError as error:
        record = failed_record(cell, " ".join(str(error).split()), int(error.exit_code))
    except Exception as error:  # a bug costs this cell, not the sweep
        reason = " ".join(str(error).split())[:200]
        record = failed_record(cell, f"this is a bug: {type(error).__name__}: {reason}", int(ExitCode.AGENT_FAILED))
    record["run"] |= {"elapsed_s": round(time.monotonic() - began_s, 3), "finished_at": now_text(), "pid": os.getpid()}
    return record


def failed_record(cell: Mapping[str, Any], verdict: str, exit_code: int) -> Record:
    """The record of a cell of which nothing was measured."""
    return (
        {"schema": SCHEMA}
        | {key: cell[key] for key in _PLANNED}
        | {
            "status": "failed",
            "verdict": verdict,
            "exit_code": exit_code,
            "row": None,
            "hist": None,
            "summary": None,
            "run": {},
        }
    )


def now_text() -> str:
    """The time of day, ISO 8601, UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _virtually(scenario: Scenario) -> VariantMeasurement:
    from emulator.runtime.virtual import run_virtual

    return run_virtual(scenario)


def _really(scenario: Scenario) -> VariantMeasurement:
    from emulator.runtime.clocksource import calibrate
    from emulator.runtime.host import read_host
    from emulator.runtime.interrupts import Interrupts
    from emulator.runtime.real import Invocation, run_variant

    host = read_host()
    return run_variant(scenario, Invocation(calibrate(), Interrupts(), sorted(host.cpus or [0]), host.load_1min))


_RUNNERS: Mapping[str, Runner] = {"virtual": _virtually, "real": _really}


def _measured(cell: Mapping[str, Any], scenario: Scenario, measurement: VariantMeasurement) -> Record:
    summary = summarise(measurement)
    summary = with_expectations(summary, evaluate(scenario.expect, summary))
    failure = _failure(measurement, summary)
    record = failed_record(cell, failure or summary["verdict"], int(summary["exit_code"]))
    if failure is None:
        record["status"] = "ok"
        record["row"] = cell_row(summary, cell)
        record["hist"] = cell_histograms(measurement)
    record["summary"] = {key: value for key, value in summary.items() if key not in OF_THE_PROCESS}
    record["run"] = {key: summary[key] for key in OF_THE_PROCESS}
    plain: Record = to_plain(record)
    return plain


def _failure(measurement: VariantMeasurement, summary: Mapping[str, Any]) -> str | None:
    """Why the numbers of a cell must not be used; None if they may. An expectation that failed is no reason."""
    if not measurement.complete:
        return measurement.verdict
    if summary["fault"] is not None:
        return str(summary["fault"])
    broken = [check["name"] for check in summary["identities"]["checks"] if not check["ok"]]
    return f"identity does not hold: {', '.join(broken)}" if broken else None
