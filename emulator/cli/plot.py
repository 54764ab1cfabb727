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
        "--kind",
        action="append",
        default=[],
        type=_kinds,
        choices=_Several(KINDS),
        metavar="KIND",
        help=f"only this kind of plot: {', '.join(KINDS)} (several with commas between, or given again)",
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


class _Several(tuple[str, ...]):
    """Choices that completion lists one by one, and of which a user may give several."""

    def __contains__(self, given: object) -> bool:
        return isinstance(given, tuple) or super().__contains__(given)


def _kinds(text: str) -> tuple[str, ...]:
    """`violins,lines`."""
    kinds = tuple(part.strip() for part in text.split(",") if part.strip())
    for kind in kinds or (text,):
        if kind not in KINDS:
            choices = ", ".join(map(repr, KINDS))
            raise argparse.ArgumentTypeError(f"invalid choice: {kind!r} (choose from {choices})")
    return kinds


def run(args: argparse.Namespace) -> int:
    """Write the files and print their paths."""
    from emulator.errors import ExitCode, UsageError
    from emulator.report.compare.where import read_where
    from emulator.report.plot.draw import Wanted, plot
    from emulator.report.reference import other_columns, read_cells_csv

    first: Path = args.results[0]
    where = read_where(args.where)
    elsewhere = other_columns(args.reference) if args.reference is not None else ()
    reference = read_cells_csv(args.reference, where) if args.reference is not None else None
    kinds = list(dict.fromkeys(kind for several in args.kind for kind in several))
    wanted = Wanted(args.results, kinds, args.metric, where, reference, elsewhere)
    out = args.out if args.out is not None else (first if first.is_dir() else first.parent) / "plots"
    written = 0
    for made in plot(wanted, out, ("png", "svg") if args.format == "both" else (args.format,)):
        written += isinstance(made, Path)
        print(made, file=sys.stdout if isinstance(made, Path) else sys.stderr, flush=True)
    if not written:
        raise UsageError("nothing could be plotted")
    return ExitCode.OK
