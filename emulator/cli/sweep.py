"""`emulator sweep SCENARIO`: run a matrix of cells and post its tables. `--resume DIR` needs no SCENARIO."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emulator.cli.options import add_scenario_arguments, all_sets, sweep_matrix
from emulator.errors import UsageError

if TYPE_CHECKING:
    from emulator.runtime.sweep.plan import Plan
    from emulator.scenario import LoadedScenario


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "sweep",
        help="run a matrix of scenarios and print its tables",
        description="Run every combination of what a scenario's sweep: lists, and print the tables. Without a sweep: "
        "the published one, tx_usecs times number of rules.",
    )
    add_scenario_arguments(parser, scenario_required=False)
    parser.add_argument("--seed", metavar="N", help="the same as --set seed=N; repetition i runs with seed + i")
    parser.add_argument("--repetitions", metavar="N", help="the same as --set sweep.repetitions=N")
    parser.add_argument(
        "--workers", type=int, metavar="N", help="cells at once (default: one a CPU; the real clock has one)"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the results go (default: runs/NAME-TIME)")
    parser.add_argument("--resume", type=Path, metavar="DIR", help="go on with the sweep in DIR; needs no SCENARIO")
    parser.add_argument("--retry-failed", action="store_true", help="with --resume: run failed cells again")
    parser.add_argument("--dry-run", action="store_true", help="print the plan and its expected time, run nothing")
    parser.add_argument("--max", action="store_true", help="a fourth table: RTT max")
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout, and nothing else there")


def run(args: argparse.Namespace) -> int:
    """Run what is missing; the exit code is that of the worst cell."""
    if args.scenario is None and not args.resume:
        raise UsageError("give a SCENARIO to sweep, or --resume DIR to go on with a sweep; see emulator sweep --help")
    if args.resume and args.out:
        raise UsageError("--resume DIR keeps its results in DIR; leave --out away")
    if args.retry_failed and not args.resume:
        raise UsageError("--retry-failed goes with --resume DIR")
    loaded = _load(args)
    matrix = sweep_matrix(loaded)
    for warning in [*loaded.warnings, *matrix.warnings]:
        print(f"{warning} (warning)", file=sys.stderr)
    from emulator.runtime.sweep.plan import Plan

    plan = Plan(loaded, matrix, _workers(args.workers, loaded.base.clock))
    if args.dry_run:
        _print_plan(plan, args)
        return 0
    from emulator.runtime.limits import check_limits
    from emulator.runtime.sweep.command import SweepRequest, sweep_command

    check_limits()
    request = SweepRequest(
        command_line=sys.argv,
        out=args.out,
        resume=args.resume,
        retry_failed=args.retry_failed,
        as_json=args.json,
        with_max=args.max,
    )
    return sweep_command(plan, request)


def _load(args: argparse.Namespace) -> LoadedScenario:
    """The scenario of the command line; without one, that of the sweep to go on with."""
    from emulator.scenario import load_scenario
    from emulator.scenario.load import load_effective

    if args.scenario is not None:
        return load_scenario(args.scenario, _sets(args))
    from emulator.report.cells import MANIFEST_FILE
    from emulator.report.sweep_directory import kept_scenario

    return load_effective(kept_scenario(args.resume), args.resume / MANIFEST_FILE, _sets(args))


def _sets(args: argparse.Namespace) -> list[str]:
    sets = all_sets(args)
    for path, value in (("seed", args.seed), ("sweep.repetitions", args.repetitions)):
        if value is not None:
            sets.append(f"{path}={value}")
    return sets


def _workers(asked: int | None, clock: str) -> int:
    if asked is not None and asked < 1:
        raise UsageError(f"--workers {asked}: at least one is needed")
    if clock == "real":
        if asked not in (None, 1):
            raise UsageError(f"--workers {asked}: with clock: real a cell has the machine to itself; leave it away")
        return 1
    return asked or len(os.sched_getaffinity(0))


def _print_plan(plan: Plan, args: argparse.Namespace) -> None:
    done: list[int] = []
    if args.resume:
        from emulator.report.sweep_directory import read_same_sweep

        found = read_same_sweep(args.resume, plan.identity())
        done = [int(r["index"]) for r in found.records if r["status"] == "ok" or not args.retry_failed]
    cells = plan.to_run(done)
    if args.json:
        from emulator.report.document import document_json

        document = {
            "scenario": plan.loaded.effective(),
            "plan": plan.to_plain(),
            "order": [cell.index for cell in cells],
            "workers": plan.workers,
            "expected_s": plan.whole_s(cells),
        }
        sys.stdout.write(document_json(document))
        return
    sys.stdout.write(plan.text(cells))
    print("cells in the order in which they run:")
    width = len(str(len(cells)))
    for number, cell in enumerate(cells, 1):
        print(f"  {number:>{width}}  {cell.cell}")
