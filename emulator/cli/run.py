"""`emulator run SCENARIO`: run a scenario on real processes and say what was seen."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emulator.cli.options import add_scenario_arguments, all_sets, check_expectations

if TYPE_CHECKING:
    pass


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "run",
        help="run a scenario",
        description="Run a scenario and its variants, on real processes or under the virtual clock.",
    )
    add_scenario_arguments(parser)
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the results go (default: runs/NAME-TIME)")
    parser.add_argument("--trace", metavar="N", help="the same as --set trace=N: keep the first N events of each agent")
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout, and nothing else there")


def run(args: argparse.Namespace) -> int:
    """Run it; the exit code is that of the worst variant."""
    from emulator.runtime.compiled import is_compiled
    from emulator.runtime.limits import check_limits
    from emulator.runtime.processes import shut_down, warm_up

    check_limits()
    try:
        if is_compiled() and not _seems_virtual(args):
            warm_up()  # the fork server loads the compiled code while this process does the rest
        from emulator.scenario import check_cpus, load_scenario

        traced = [f"trace={args.trace}"] if args.trace is not None else []
        loaded = load_scenario(args.scenario, [*all_sets(args), *traced])
        check_cpus(loaded)
        check_expectations(loaded)
        for warning in loaded.warnings:
            print(f"{warning} (warning)", file=sys.stderr)
        from emulator.runtime.command import run_command

        return run_command(loaded, sys.argv, args.out, as_json=args.json)
    finally:
        shut_down()


def _seems_virtual(args: argparse.Namespace) -> bool:
    """Whether the run will hardly need agents' processes; a guess before anything is read properly."""
    try:
        text = Path(args.scenario).read_text(errors="replace")
    except OSError:
        return False
    return "clock=virtual" in args.sets or re.search(r"^clock: *virtual\b", text, re.MULTILINE) is not None
