"""One `emulator run`: compile if needed, run the variants one after the other, keep and show what they measured."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from emulator.errors import EmulatorError, ExitCode
from emulator.report.document import document_json, run_document, versions_here
from emulator.report.expect import evaluate, with_expectations
from emulator.report.rundir import ResultsDirectory, reserve_directory
from emulator.report.show import print_report
from emulator.report.summary import severest, summarise
from emulator.runtime.compiled import ensure_compiled
from emulator.runtime.host import read_host
from emulator.runtime.interrupts import Interrupts, interruptible
from emulator.runtime.processes import shut_down, warm_up
from emulator.runtime.progress import Progress
from emulator.runtime.rundir import process_start_time
from emulator.scenario import LoadedScenario


def run_command(loaded: LoadedScenario, command: Sequence[str], out: Path | None, *, as_json: bool) -> int:
    """Run all variants; the exit code. Raises EmulatorError for what prevents a run, having kept what there was."""
    progress = Progress(sys.stderr)
    with interruptible() as interrupts:
        try:
            with progress.compiling() as announce:
                compiled_now = ensure_compiled(announce, progress.waiting)
            if any(variant.clock == "real" for variant in loaded.variants):
                warm_up()
            host = read_host()
            interrupts.immediate = False
            started_ns = 0 if compiled_now else _process_started_ns()
            return _run(loaded, command, out, as_json, progress, host, interrupts, started_ns)
        except KeyboardInterrupt:
            progress.close()
            _say_interrupted()
            return ExitCode.INTERRUPTED
        finally:
            progress.close()
            shut_down()


def _run(
    loaded: LoadedScenario,
    command: Sequence[str],
    out: Path | None,
    as_json: bool,
    progress: Progress,
    host: Any,
    interrupts: Interrupts,
    started_ns: int,
) -> int:
    from emulator.runtime.clocksource import calibrate
    from emulator.runtime.real import Invocation, run_variant
    from emulator.runtime.virtual import run_virtual

    effective = loaded.effective()
    manifest = {
        "launcher": [os.getpid(), process_start_time(os.getpid()) or 0],
        "command_line": list(command),
        "versions": versions_here(),
        "scenario": effective,
        "seed": loaded.base.seed,
        "host": asdict(host),
    }
    trouble: list[str] = []
    results = _open_results(loaded, out, manifest, trouble)
    invocation = Invocation(
        clock=calibrate(),
        interrupts=interrupts,
        cpus=sorted(host.cpus or [0]),
        load=host.load_1min,
        quota_cpus=host.cpu_quota.cpus if host.cpu_quota else None,
        progress=progress.running,
        command=tuple(command),
        out_dir=results.path if results else None,
        process_started_ns=started_ns,
    )
    summaries: list[dict[str, Any]] = []
    events: list[dict[str, Any]] = []
    failure: EmulatorError | None = None
    for variant in loaded.variants:
        if interrupts.count:
            break
        progress.begin(variant.variant_name)
        try:
            if variant.clock == "virtual":
                measurement = run_virtual(variant, lambda: interrupts.count > 0, progress.running)
            else:
                measurement = run_variant(variant, invocation)
        except EmulatorError as error:  # nothing was measured; what earlier variants measured is still reported
            failure = error
            break
        invocation.process_started_ns = 0
        summary = with_expectations(summarise(measurement), evaluate(variant.expect, summarise(measurement)))
        summaries.append(summary)
        events.append({"variant": variant.variant_name, "verdict": summary["verdict"], "notes": measurement.warnings})
        if results:
            with _noted(trouble):
                results.write_variant(measurement, summary)
    progress.close()
    code = severest([int(s["exit_code"]) for s in summaries] + ([failure.exit_code] if failure else []))
    if interrupts.count:
        code = severest([code, ExitCode.INTERRUPTED])
    document = run_document(
        summaries, scenario=effective, host=asdict(host), command_line=list(command), exit_code=code
    )
    if results:
        with _noted(trouble):
            results.finish(document, events)
    if as_json:
        sys.stdout.write(document_json(document))
        sys.stdout.flush()
    elif summaries:
        print_report(document, sys.stdout)
        if results and not trouble:
            print(f"results in {results.path}")
        for summary in summaries:
            if summary["verdict"] != "ok":
                print(f"{summary['name']}: {summary['verdict']}; timing was {summary['timing']['verdict']}")
    for line in trouble[:1]:  # the others have the same cause
        print(f"emulator: error: {line}", file=sys.stderr)
    if failure:
        raise failure
    if interrupts.count and not summaries:
        _say_interrupted()
    return severest([code, ExitCode.CANNOT_RUN]) if trouble else code


def _open_results(
    loaded: LoadedScenario, out: Path | None, manifest: dict[str, Any], trouble: list[str]
) -> ResultsDirectory | None:
    """The results directory. One that was asked for must be there; the default one is a courtesy that may fail."""
    if out is not None:
        return ResultsDirectory(out, manifest)
    with _noted(trouble):
        return ResultsDirectory(reserve_directory(loaded.base.name, datetime.now()), manifest)
    return None


def _say_interrupted() -> None:
    with contextlib.suppress(OSError):
        print("emulator: interrupted before anything was measured", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _noted(trouble: list[str]) -> Iterator[None]:
    """Keep a failure to write for the end: it must not cost what can still be shown."""
    try:
        yield
    except EmulatorError as error:
        for line in error.lines():
            if line not in trouble:
                trouble.append(line.removeprefix("emulator: error: "))


def _process_started_ns() -> int:
    """CLOCK_MONOTONIC at which this process was started, to a clock tick; 0 if unknown."""
    ticks = process_start_time(os.getpid())
    if ticks is None:
        return 0
    age_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    return time.monotonic_ns() - age_ns
