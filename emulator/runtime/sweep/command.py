"""One `emulator sweep`: the plan, the cells, their records on disk, the tables.

Cells finish in any order and are kept as they do; what is written and shown in the end is in the order of the plan.
The first interrupt ends the sweep: what has finished is kept, what was running is not.
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
import sys
from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from emulator.errors import AgentFailure, EmulatorError, ExitCode
from emulator.report.cells import Record
from emulator.report.document import document_json
from emulator.report.rundir import reserve_directory
from emulator.report.summary import severest
from emulator.report.sweep_directory import SweepDirectory
from emulator.report.sweep_document import Outcome, sweep_document, sweep_text
from emulator.runtime.compiled import ensure_compiled
from emulator.runtime.host import HostFacts, read_host
from emulator.runtime.interrupts import Interrupts, interruptible
from emulator.runtime.processes import shut_down, warm_up
from emulator.runtime.progress import Progress
from emulator.runtime.sweep.cell import real_runner, run_cell
from emulator.runtime.sweep.plan import Plan
from emulator.runtime.sweep.progress import SweepProgress
from emulator.runtime.sweep.workers import run_in_workers
from emulator.scenario.matrix import PlannedCell


@dataclass(frozen=True)
class SweepRequest:
    """What the command line asks for."""

    command_line: Sequence[str]
    out: Path | None = None
    resume: Path | None = None
    retry_failed: bool = False
    as_json: bool = False
    with_max: bool = False


def sweep_command(plan: Plan, request: SweepRequest) -> int:
    """Run the cells that are missing; the exit code. EmulatorError for what prevents that, nothing having been lost."""
    compiling = Progress(sys.stderr)
    with interruptible() as interrupts:
        try:
            host = read_host()
            directory, notes = _open(plan, request, asdict(host))
            for note in notes:
                print(f"{note} (warning)", file=sys.stderr)
            cells = plan.to_run(list(directory.records))
            with contextlib.suppress(OSError):  # nobody reads it: no reason to measure nothing
                print(plan.text(cells), end="", file=sys.stderr, flush=True)
            if cells:
                with compiling.compiling() as announce:
                    ensure_compiled(announce, compiling.waiting)
                compiling.close()
                warm_up()
            interrupts.immediate = False
            records = _records(plan, cells, host, interrupts, request)
            return _sweep(plan, cells, directory, records, interrupts, request)
        except KeyboardInterrupt:
            with contextlib.suppress(OSError):
                print("emulator: interrupted before anything was measured", file=sys.stderr, flush=True)
            return ExitCode.INTERRUPTED
        finally:
            compiling.close()
            shut_down()


def _open(plan: Plan, request: SweepRequest, host: Mapping[str, Any]) -> tuple[SweepDirectory, list[str]]:
    manifest = {
        "command_line": list(request.command_line),
        "seed": plan.loaded.base.seed,
        "clock": plan.loaded.base.clock,
        "workers": plan.workers,
        "host": host,
        **plan.identity(),
    }
    if request.resume is not None:
        return SweepDirectory.resume(request.resume, manifest, retry_failed=request.retry_failed)
    out = request.out or reserve_directory(plan.loaded.base.name, datetime.now())
    return SweepDirectory.create(out, manifest), []


def _records(
    plan: Plan, cells: Sequence[PlannedCell], host: HostFacts, interrupts: Interrupts, request: SweepRequest
) -> Generator[Record, None, None]:
    """Records as they come, until all are there or the user interrupts."""
    if plan.loaded.base.clock == "virtual":
        return run_in_workers(cells, plan.workers, lambda: interrupts.count > 0)
    return _one_by_one(cells, host, interrupts, request)


def _one_by_one(
    cells: Sequence[PlannedCell], host: HostFacts, interrupts: Interrupts, request: SweepRequest
) -> Generator[Record, None, None]:
    """The real clock: a cell has the machine to itself."""
    if not cells:
        return
    runner = real_runner(host, interrupts, request.command_line)
    for cell in cells:
        record = run_cell(cell, runner)
        if interrupts.count:
            return
        yield record


def _sweep(
    plan: Plan,
    cells: Sequence[PlannedCell],
    directory: SweepDirectory,
    records: Generator[Record, None, None],
    interrupts: Interrupts,
    request: SweepRequest,
) -> int:
    progress, forecast = SweepProgress(sys.stderr, len(plan.cells)), plan.forecast(cells)
    failure: EmulatorError | None = None
    try:
        progress.begin(len(directory.records), forecast.left_s())
        for record in records:
            directory.append(record)
            forecast.finished(plan.expected_s(plan.cells[record["index"]]), record["run"].get("elapsed_s"))
            progress.finished(record, len(directory.records), forecast.left_s())
    except EmulatorError as error:  # the disk is full, no worker can be started: what there is is still kept and shown
        failure = error
    finally:
        records.close()
        progress.close()
    if interrupts.count and isinstance(failure, AgentFailure):
        failure = None  # a worker was being started when the user had had enough
    others = [ExitCode.INTERRUPTED] if interrupts.count else [failure.exit_code] if failure else []
    outcome = Outcome(plan.to_plain(), [directory.records[index] for index in sorted(directory.records)], others)
    try:
        directory.finish(outcome.exit_code)
    except EmulatorError as error:
        failure = failure or error
    _show(outcome, directory, request, is_kept=failure is None)
    if failure is not None:
        print("\n".join(failure.lines()), file=sys.stderr, flush=True)
    return severest([outcome.exit_code, failure.exit_code if failure else ExitCode.OK])


def _show(outcome: Outcome, directory: SweepDirectory, request: SweepRequest, *, is_kept: bool) -> None:
    if request.as_json:
        sys.stdout.write(document_json(sweep_document(outcome, directory.manifest, directory.path)))
    else:
        sys.stdout.write(sweep_text(outcome, directory.manifest["scenario"], with_max=request.with_max))
        if outcome.missing:
            print(f"go on with: {resume_command(request.command_line[0], directory.path)}")
        elif outcome.failed:
            again = resume_command(request.command_line[0], directory.path, "--retry-failed")
            print(f"run what failed again with: {again}")
        if is_kept and not outcome.missing:
            print(f"results in {directory.path}")
    sys.stdout.flush()


def resume_command(program: str, path: Path, *options: str) -> str:
    """What to type, as it stands, to go on with the sweep in a directory; program: how this one was started."""
    words = [program]
    on_path = shutil.which("emulator")
    if Path(program).name == "__main__.py":
        words = [sys.executable, "-m", "emulator"]
    elif on_path is not None and Path(on_path).resolve() == Path(program).resolve():
        words = ["emulator"]
    return shlex.join([*words, "sweep", "--resume", str(path), *options])
