"""`emulator profile fit|measure`: make a host profile, from a table of somebody's throughput or from this machine."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emulator.cli.parser import Parser

if TYPE_CHECKING:
    from emulator.runtime.profile_fit import Fit

_REFERENCE = "ryzen-5600x"


def add_parser(verbs: Any) -> None:
    """Add the verb and its two actions."""
    parser: Parser = verbs.add_parser(
        "profile",
        help="make a host profile from a stock table, or from this machine",
        description="Make a host profile: what each piece of work costs on a machine, as YAML for a scenario's host:.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    fit = actions.add_parser(
        "fit",
        help="from the throughput of a stock column alone",
        description="Make a profile with which the virtual clock reproduces the throughput of a stock column.",
    )
    fit.add_argument(
        "table",
        type=Path,
        metavar="STOCK.csv",
        help="columns nrules,pps; of a whole table with a column variant the rows stock or off are taken",
    )
    fit.add_argument("--name", help="the profile's name (default: the table's)")
    fit.add_argument(
        "--base",
        default=_REFERENCE,
        metavar="PROFILE",
        help="a file, or a shipped profile, for what throughput does not tell (default: %(default)s)",
    )
    measure = actions.add_parser(
        "measure",
        help="from what the emulator's own code takes on this machine",
        description="Make a profile of this machine: with it the virtual clock predicts the real one here.",
    )
    measure.add_argument("--name", help="the profile's name (default: this-machine)")
    for action in (fit, measure):
        action.add_argument("--out", type=Path, metavar="FILE", help="where the profile goes (default: stdout)")


def run(args: argparse.Namespace) -> int:
    """Make the profile; warnings on stderr say what it could not be made to do."""
    return _fit(args) if args.action == "fit" else _measure(args)


def _fit(args: argparse.Namespace) -> int:
    from emulator.runtime.profile_fit import fit_profile
    from emulator.runtime.profile_fit_text import fit_text
    from emulator.runtime.stock_column import read_stock_column
    from emulator.scenario import load_profile
    from emulator.scenario.files import name_of
    from emulator.scenario.shipped import profile_path

    rows = read_stock_column(args.table)
    base = load_profile(profile_path(args.base))
    name = _name(args.name or name_of(args.table))
    _check_out(args.out)
    _compile()
    description = f"Fitted to the stock column of {args.table.name}"
    fit = fit_profile(rows, base, name, description)
    _write(fit_text(fit, base, args.table.name), args.out)
    _warn(fit)
    return 0


def _measure(args: argparse.Namespace) -> int:
    from emulator.errors import ExitCode
    from emulator.runtime.interrupts import interruptible
    from emulator.runtime.limits import check_limits
    from emulator.runtime.profile_measure import measure_profile

    name = _name(args.name or "this-machine")
    _check_out(args.out)
    check_limits()
    with interruptible() as interrupts:
        try:
            _compile()
            measured = measure_profile(name, interrupts, lambda what: print(f"measuring {what}", file=sys.stderr))
        except KeyboardInterrupt:
            return ExitCode.INTERRUPTED
    _write(measured.text(), args.out)
    for warning in measured.warnings:
        print(f"{warning} (warning)", file=sys.stderr)
    return 0


def _warn(fit: Fit) -> None:
    for fitted in fit.rows:
        if not fitted.ok:
            row = fitted.row
            print(
                f"nrules {row.nrules}: {row.pps:g} pps given, {fitted.simulated_pps:.0f} simulated "
                f"({fitted.error * 100:+.2f} %): no closer cost was found (warning)",
                file=sys.stderr,
            )


def _name(name: str) -> str:
    from emulator.errors import UsageError
    from emulator.scenario.model import LONGEST_NAME

    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise UsageError(f"--name: a name has 1..{LONGEST_NAME} printable characters")
    return name


def _compile() -> None:
    from emulator.runtime.compiled import ensure_compiled
    from emulator.runtime.progress import Progress

    progress = Progress(sys.stderr)
    with progress.compiling() as announce:
        ensure_compiled(announce, progress.waiting)


def _check_out(out: Path | None) -> None:
    """Before the work and not after it: there is a folder for the profile, and nothing in its place."""
    from emulator.errors import CannotRun, UsageError

    if out is None:
        return
    if out.is_dir() or not out.absolute().parent.is_dir():
        raise CannotRun(f"{out}: cannot be written; give a file in a folder that is there")
    if out.is_file() and out.stat().st_size:
        raise UsageError(f"--out {out}: is there already; give another name, or remove it first")


def _write(text: str, out: Path | None) -> None:
    from emulator.errors import CannotRun

    if out is None:
        sys.stdout.write(text)
        return
    try:
        out.write_text(text)
    except OSError as error:
        raise CannotRun(f"{out}: {error.strerror}; write the profile somewhere else") from None
    print(f"wrote {out}", file=sys.stderr)
