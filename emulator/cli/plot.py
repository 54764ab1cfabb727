"""`emulator plot RESULT...`: draw a sweep, a run, or two results, as PNG and SVG."""

import argparse
import sys
from pathlib import Path
from typing import Any

KINDS = ("lines", "heatmap", "cdf", "violins", "series", "ab", "reference")
FORMATS = ("png", "svg", "both")


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "plot",
        help="draw results as PNG and SVG",
        description="Draw results. Of a sweep: lines, heatmap, cdf, violins, and with --reference the published "
        "figures over it. Of a run: cdf, series, violins. Of two results: ab, cdf. Prints the path of each file.",
    )
    parser.add_argument(
        "results",
        nargs="+",
        type=Path,
        metavar="RESULT",
        help="directory of a sweep or a run, or a sweep.csv",
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="where the files go (default: plots in the first RESULT)"
    )
    parser.add_argument("--format", choices=FORMATS, default="both", help="png, svg or both (default)")
    parser.add_argument(
        "--kind", action="append", default=[], choices=KINDS, help="only this kind of plot (may be given again)"
    )
    parser.add_argument(
        "--reference",
        type=Path,
        metavar="CSV",
        help="published figures, to be drawn over a sweep (see emulator compare)",
    )
    parser.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="COLUMN",
        help="a column of sweep.csv for lines, heatmap, ab and reference (may be given again)",
    )
    parser.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="only cells with this value, e.g. nrules=1000 (may be given again)",
    )


def run(args: argparse.Namespace) -> int:
    """Write the files and print their paths."""
    from emulator.errors import ExitCode, UsageError
    from emulator.report.compare.where import read_where
    from emulator.report.plot.draw import Wanted, plot
    from emulator.report.reference import read_cells_csv

    first: Path = args.results[0]
    reference = read_cells_csv(args.reference) if args.reference is not None else None
    wanted = Wanted(args.results, args.kind, args.metric, read_where(args.where), reference)
    out = args.out if args.out is not None else (first if first.is_dir() else first.parent) / "plots"
    written = 0
    for made in plot(wanted, out, ("png", "svg") if args.format == "both" else (args.format,)):
        written += isinstance(made, Path)
        print(made, file=sys.stdout if isinstance(made, Path) else sys.stderr, flush=True)
    if not written:
        raise UsageError("nothing could be plotted")
    return ExitCode.OK
