"""`emulator validate SCENARIO`: say whether a scenario would run here, without running it."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from emulator.cli.options import add_scenario_arguments, all_sets, check_expectations, sweep_matrix

if TYPE_CHECKING:
    from emulator.scenario import LoadedScenario


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "validate", help="check a scenario without running it", description="Check a scenario without running it."
    )
    add_scenario_arguments(parser)
    parser.add_argument(
        "--effective", action="store_true", help="print every value that the scenario comes to, as YAML"
    )


def run(args: argparse.Namespace) -> int:
    """Print `file: ok`, its variants and warnings, or the effective YAML; ScenarioError if it is wrong."""
    from emulator.report.figures import plural
    from emulator.scenario import check_cpus, load_scenario, to_yaml
    from emulator.scenario.text import printable

    loaded = load_scenario(args.scenario, all_sets(args))
    check_cpus(loaded)
    check_expectations(loaded)
    cells = sweep_matrix(loaded) if loaded.sweep else None
    if args.effective:
        sys.stdout.write(to_yaml(loaded.effective()))
        for warning in loaded.warnings:
            print(f"{warning} (warning)", file=sys.stderr)
        return 0
    print(f"{printable(str(args.scenario))}: ok")
    print("\n".join(_details(loaded)))
    if cells:
        print(f"  sweep: {plural(len(cells.cells), 'cell')}")
        print("".join(f"{warning} (warning)\n" for warning in cells.warnings), end="")
    return 0


def _details(loaded: "LoadedScenario") -> list[str]:
    from emulator.scenario.units import format_duration

    lines = []
    for variant in loaded.variants:
        device, rules = variant.device, variant.netfilter
        bql = "off" if device.bql.variant == "off" else f"{device.bql.variant} {format_duration(device.bql.tx_usecs)}"
        seconds = f"{format_duration(variant.duration)} after {format_duration(variant.warmup)}"
        lines.append(
            f"  {variant.variant_name}: {device.qdisc.kind}, ring {device.ring_size}, bql {bql}, "
            f"{rules.rules} rules, {seconds} of warmup"
        )
    return lines + [f"{warning} (warning)" for warning in loaded.warnings]
