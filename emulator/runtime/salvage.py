"""What a run had measured whose launcher was killed: read from its segment, written where its results were to go.

The launcher leaves what a reader needs beside the segment before anything runs: the variant, and who sits where. Series
and everything else that the launcher kept in its own memory is gone; counters, histograms and probes are in the
segment.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from emulator.errors import CannotRun, ExitCode
from emulator.report.document import run_document, versions_here
from emulator.report.rundir import ResultsDirectory
from emulator.report.summary import summarise
from emulator.runtime.measure import RunFacts, measure
from emulator.runtime.placement import Seat
from emulator.runtime.rundir.files import read_json
from emulator.runtime.sampler import Sampler
from emulator.runtime.segment import Segment
from emulator.scenario.model import Scenario

_PLAN = "plan.json"


def leave_plan(run_dir: Path, scenario: Scenario, seats: Sequence[Seat], out_dir: Path | None) -> None:
    """Write down what a reader of the bare segment cannot know."""
    plan = {
        "scenario": scenario.to_plain(),
        "variant": scenario.variant_name,
        "seats": [asdict(seat) for seat in seats],
        "out_dir": str(out_dir.absolute()) if out_dir else None,
    }
    (run_dir / _PLAN).write_text(json.dumps(plan))


def salvage(run_dir: Path) -> str | None:
    """Write a dead run's results; where they are, or None if nothing had been measured. Raises EmulatorError."""
    if not (run_dir / _PLAN).exists():
        return None
    try:
        plan = read_json(run_dir / _PLAN)
        scenario = Scenario.model_validate(plan["scenario"]).named(plan["variant"])
        seats = [Seat(**seat) for seat in plan["seats"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CannotRun(f"{run_dir / _PLAN}: not a plan of this version: {error}".splitlines()[0]) from None
    segment = Segment.attach(run_dir, writable=False)
    newest = max(int(segment.view.agents[i].heartbeat_ns) for i in range(len(seats)))
    params = segment.view.net.params
    if plan["out_dir"] is None or params.measure_start_ns == 0 or newest <= params.measure_start_ns:
        return None
    facts = RunFacts(
        verdict=f"the launcher died {(newest - params.start_ns) / 1e9:.1f} s into the run",
        exit_code=int(ExitCode.AGENT_FAILED),
        measured_until_ns=min(newest, params.measure_end_ns),
        exits=dict.fromkeys(range(len(seats)), "killed with the launcher"),
    )
    measurement = measure(scenario, segment, seats, Sampler(segment.view.net), facts)
    summary = summarise(measurement)
    results = _results_of(run_dir, Path(plan["out_dir"]), segment)
    manifest = results.manifest
    summaries = [*results.kept(), summary]
    results.write_variant(measurement, summary)
    document = run_document(
        summaries,
        scenario=manifest.get("scenario", plan["scenario"]),
        host=manifest.get("host", {}),
        command_line=manifest.get("command_line", []),
    )
    results.finish(document, [{"variant": summary["name"], "verdict": summary["verdict"], "notes": []}])
    return f"{run_dir.name}: what it had measured is in {results.path}"


def _results_of(run_dir: Path, out: Path, segment: Segment) -> ResultsDirectory:
    """The run's own results, with the variants that had ended; a place beside them if others have taken theirs."""
    notes = {"salvaged_from": str(run_dir), "versions": versions_here()}
    header = segment.view.header
    results = ResultsDirectory.reopen(out, [int(header.launcher_pid), int(header.launcher_start)], notes)
    if results is None:
        results = ResultsDirectory(out.with_name(f"{out.name}-{run_dir.name}"), notes)
    return results
