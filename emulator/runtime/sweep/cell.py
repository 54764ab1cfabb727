"""One cell of a sweep: a scenario in, a record out.

Nothing is kept in between, and a cell may come as plain values (`dataclasses.asdict` of it), so that any process can
take one: this one, a worker, another machine's. Everything that may differ between two runs of a cell lies under the
record's `run`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from emulator.errors import EmulatorError, ExitCode
from emulator.report.cells import KEYS, OF_THE_PROCESS, SCHEMA, Record, cell_histograms, cell_row
from emulator.report.codec import to_plain
from emulator.report.expect import evaluate, with_expectations
from emulator.report.measurement import VariantMeasurement
from emulator.report.summary import summarise
from emulator.scenario.matrix import PlannedCell
from emulator.scenario.model import Scenario

if TYPE_CHECKING:
    from emulator.runtime.host import HostFacts
    from emulator.runtime.interrupts import Interrupts

Runner = Callable[[Scenario], VariantMeasurement]

_PLANNED = ("cell", "index", "rep", "seed", *KEYS, "fields")


def run_cell(cell: PlannedCell | Mapping[str, Any], runner: Runner | None = None) -> Record:
    """Run one cell (of `scenario.matrix.expand`, or the same as a mapping) and give its record.

    Raises nothing that it can name: what goes wrong is the record's verdict.

    runner: measures a scenario; by default what its clock asks for: this process, or agents that it starts.
    """
    began_s = time.monotonic()
    plain = asdict(cell) if isinstance(cell, PlannedCell) else cell
    try:
        scenario = Scenario.model_validate(plain["scenario"]).named(str(plain["cell"]))
        record = _measured(plain, scenario, (runner or _RUNNERS[scenario.clock])(scenario))
    except EmulatorError as error:
        record = failed_record(plain, " ".join(str(error).split()), int(error.exit_code))
    except Exception as error:  # a bug costs this cell, not the sweep
        reason = " ".join(str(error).split())[:200]
        record = failed_record(plain, f"this is a bug: {type(error).__name__}: {reason}", int(ExitCode.AGENT_FAILED))
    record["run"] |= {"elapsed_s": round(time.monotonic() - began_s, 3), "finished_at": now_text(), "pid": os.getpid()}
    return record


def failed_record(cell: Mapping[str, Any], verdict: str, exit_code: int) -> Record:
    """The record of a cell of which nothing was measured."""
    return _record(cell, "failed", verdict, exit_code)


def real_runner(host: HostFacts, interrupts: Interrupts, command: Sequence[str] = ()) -> Runner:
    """Measures scenarios under the real clock, with agents that it starts; the clock is calibrated once, here."""
    from emulator.runtime.clocksource import calibrate
    from emulator.runtime.real import Invocation, run_variant

    invocation = Invocation(
        clock=calibrate(),
        interrupts=interrupts,
        cpus=sorted(host.cpus or [0]),
        load=host.load_1min,
        quota_cpus=host.cpu_quota.cpus if host.cpu_quota else None,
        command=tuple(command),
    )
    return lambda scenario: run_variant(scenario, invocation)


def now_text() -> str:
    """The time of day, ISO 8601, UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _virtually(scenario: Scenario) -> VariantMeasurement:
    from emulator.runtime.virtual import run_virtual

    return run_virtual(scenario)


def _really(scenario: Scenario) -> VariantMeasurement:
    from emulator.runtime.host import read_host
    from emulator.runtime.interrupts import Interrupts

    return real_runner(read_host(), Interrupts())(scenario)


_RUNNERS: Mapping[str, Runner] = {"virtual": _virtually, "real": _really}


def _measured(cell: Mapping[str, Any], scenario: Scenario, measurement: VariantMeasurement) -> Record:
    summary = summarise(measurement)
    summary = with_expectations(summary, evaluate(scenario.expect, summary))
    kept = {
        "summary": {key: value for key, value in summary.items() if key not in OF_THE_PROCESS},
        "run": {key: summary[key] for key in OF_THE_PROCESS},
    }
    code = int(summary["exit_code"])
    failure = _failure(measurement, summary)
    if failure is not None:
        return _record(cell, "failed", failure, code, **kept)
    row, hist = cell_row(summary, cell), cell_histograms(measurement)
    return _record(cell, "ok", summary["verdict"], code, row=row, hist=hist, **kept)


def _record(
    cell: Mapping[str, Any],
    status: str,
    verdict: str,
    exit_code: int,
    *,
    row: Mapping[str, Any] | None = None,
    hist: Mapping[str, Any] | None = None,
    summary: Mapping[str, Any] | None = None,
    run: Mapping[str, Any] | None = None,
) -> Record:
    """The layout of `report.cells`, in plain values."""
    ended = {"status": status, "verdict": verdict, "exit_code": exit_code}
    measured = {"row": row, "hist": hist, "summary": summary, "run": run or {}}
    plain: Record = to_plain({"schema": SCHEMA} | {key: cell[key] for key in _PLANNED} | ended | measured)
    return plain


def _failure(measurement: VariantMeasurement, summary: Mapping[str, Any]) -> str | None:
    """Why the numbers of a cell must not be used; None if they may. An expectation that failed is no reason."""
    if not measurement.complete:
        return measurement.verdict
    if summary["fault"] is not None:
        return str(summary["fault"])
    broken = [check["name"] for check in summary["identities"]["checks"] if not check["ok"]]
    return f"identity does not hold: {', '.join(broken)}" if broken else None
