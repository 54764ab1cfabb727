"""Arguments that several verbs share."""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emulator.scenario import LoadedScenario, Scenario
    from emulator.scenario.checks import Finding
    from emulator.scenario.matrix import Matrix


def add_scenario_arguments(parser: argparse.ArgumentParser, *, scenario_required: bool = True) -> None:
    """SCENARIO, `--set`, `--duration`."""
    scenario = parser.add_argument(
        "scenario", type=Path, metavar="SCENARIO", help="a scenario file, e.g. scenarios/quickstart.yaml"
    )
    if not scenario_required:  # not nargs="?", which takes nothing for SCENARIO when an option comes before it
        scenario.required, scenario.metavar = False, "[SCENARIO]"
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="sets",
        metavar="PATH=VALUE",
        help="set one value over the file and its variants, e.g. device.bql.tx_usecs=50us (may be given again)",
    )
    parser.add_argument("--duration", metavar="D", help="the same as --set duration=D, e.g. 5s")


def check_expectations(loaded: "LoadedScenario") -> None:
    """ScenarioError for an expectation about something that no summary has, or of another kind than it has."""
    from emulator.report.blank import senseless
    from emulator.scenario.load import check_expectations as check

    check(loaded, lambda scenario: senseless(scenario.expect, scenario.device.qdisc.kind))


def sweep_matrix(loaded: "LoadedScenario") -> "Matrix":
    """The cells of its sweep; ScenarioError if any of them is one that `emulator run` would refuse here."""
    from emulator.report.blank import senseless
    from emulator.scenario.checks import absent_cpus
    from emulator.scenario.matrix import expand

    allowed = os.sched_getaffinity(0)

    def here(s: "Scenario") -> "Iterator[Finding]":
        yield from absent_cpus(s, allowed)
        for path, why in senseless(s.expect, s.device.qdisc.kind) if s.expect else ():
            yield (("expect", path),), why

    return expand(loaded, [here])


def all_sets(args: argparse.Namespace) -> list[str]:
    """What `add_scenario_arguments` read, as settings for `load_scenario`."""
    return [*args.sets, *([f"duration={args.duration}"] if args.duration is not None else [])]
