"""`emulator compare`: a result against published figures, or two results against each other."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

_DESCRIPTION = (
    "RESULT --reference CSV: for each published cell both values and the error. "
    "A B: for each cell the difference B-A with a 95 % interval and a rank test; "
    "A and B are two sweeps, or two runs (directories of results)."
)


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "compare", help="compare a result with published figures, or two results", description=_DESCRIPTION
    )
    parser.add_argument(
        "results",
        nargs="+",
        type=Path,
        metavar="RESULT",
        help="a sweep's directory or its sweep.csv; without --reference two directories of sweeps or of runs",
    )
    parser.add_argument(
        "--reference",
        type=Path,
        metavar="CSV",
        help="published figures: columns variant,nrules,tx_usecs and any of those of sweep.csv; "
        "or of stock alone: nrules and figures",
    )
    parser.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="COLUMN",
        help="compare only this column, e.g. rtt_avg_ms (may be given again)",
    )
    parser.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="only cells with this value, e.g. nrules=1000 or device.num_tx_queues=6, "
        "and published rows with this value in a column of their own, e.g. case=pktgen (may be given again)",
    )
    parser.add_argument(
        "--require",
        action="append",
        default=[],
        metavar="COLUMN:PCT%%:CELLS",
        help="exit 1 unless that many cells of the column are within PCT %% of the published figure, "
        "e.g. pps:10%%:46 or pps:35%%:all (may be given again; with --reference)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout, and nothing else there")


def run(args: argparse.Namespace) -> int:
    """Print the comparison; 1 when a requirement is not met."""
    return _with_published(args) if args.reference is not None else _with_each_other(args)


def _with_published(args: argparse.Namespace) -> int:
    from emulator.errors import ExitCode, UsageError
    from emulator.report.compare.lines import width_of
    from emulator.report.compare.published import compare_published, read_requirement
    from emulator.report.compare.published_text import published_document, published_lines
    from emulator.report.compare.results import read_measured
    from emulator.report.compare.where import read_where
    from emulator.report.reference import other_columns, read_cells_csv

    if len(args.results) != 1:
        raise UsageError(f"--reference goes with one result; {len(args.results)} were given")
    requirements = [read_requirement(text) for text in args.require]
    where = read_where(args.where)
    measured = read_measured(args.results[0], where, other_columns(args.reference))
    reference = read_cells_csv(args.reference, where)
    comparison = compare_published(measured, reference, args.metric, requirements)
    code = ExitCode.OK if all(met.ok for met in comparison.met) else ExitCode.CHECK_FAILED
    _say(
        args, comparison.notes, published_document(comparison, code), published_lines(comparison, width_of(sys.stdout))
    )
    return code


def _say(args: argparse.Namespace, notes: list[str], document: dict[str, Any], lines: list[Any]) -> None:
    from emulator.report.compare.lines import print_lines
    from emulator.report.document import document_json

    for note in notes:
        print(f"{note} (warning)", file=sys.stderr)
    if args.json:
        sys.stdout.write(document_json(document))
    else:
        print_lines(lines, sys.stdout)


def _with_each_other(args: argparse.Namespace) -> int:
    from emulator.errors import ExitCode, UsageError
    from emulator.report.compare.differences import compare_sides
    from emulator.report.compare.differences_text import differences_document, differences_lines
    from emulator.report.compare.lines import width_of
    from emulator.report.compare.metrics import metrics_of
    from emulator.report.compare.samples import read_side
    from emulator.report.compare.where import read_where

    if len(args.results) != 2:
        raise UsageError("give two results, A and B, or one with --reference CSV; see emulator compare --help")
    if args.require:
        raise UsageError("--require goes with --reference CSV")
    metrics, where = metrics_of(args.metric), read_where(args.where)
    a, b = (read_side(path, metrics, where) for path in args.results)
    differences = compare_sides(a, b, metrics)
    _say(
        args,
        differences.notes,
        differences_document(differences, ExitCode.OK),
        differences_lines(differences, width_of(sys.stdout)),
    )
    return ExitCode.OK
