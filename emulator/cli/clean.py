"""`emulator clean`: delete what runs left behind whose launcher is gone, and nothing else."""

import argparse
import os
import re
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emulator.runtime.rundir import FoundRun

_HASH = re.compile(r"[0-9a-f]{16}")


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "clean",
        help="delete what runs left behind whose launcher is gone",
        description="Delete run directories whose launcher is gone. Runs that are alive, and what is not certain to be "
        "a dead run of yours, are listed and left. Results already written are not touched.",
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be deleted")
    parser.add_argument("--keep", action="store_true", help="keep a dead run whose partial results cannot be saved")
    parser.add_argument("--cache", action="store_true", help="also delete compiled code of other versions")
    parser.add_argument(
        "--run-dir",
        action="append",
        default=[],
        type=Path,
        metavar="DIR",
        help="look here as well: a run_dir of a scenario (those that were used are remembered; may be given again)",
    )


def run(args: argparse.Namespace) -> int:
    """Delete, or say what would be deleted; 4 if something could not be."""
    from emulator.errors import CannotRun, ExitCode
    from emulator.runtime.rundir import base_in, forget_missing_bases, known_bases, list_runs

    found, failed = 0, False
    bases = dict.fromkeys([*known_bases(), *(base_in(place.absolute()) for place in args.run_dir)])
    for base in bases:
        try:
            runs = list_runs(base)
        except CannotRun as error:
            print(f"left    {error}", file=sys.stderr)
            failed = True
            continue
        for one in runs:
            found += 1
            failed |= not _deal_with(one, args)
    if not args.dry_run:
        forget_missing_bases()
    if found == 0:
        print("no runs were left behind")
    if args.cache:
        failed |= not _clean_cache(args.dry_run)
    return ExitCode.CANNOT_RUN if failed else ExitCode.OK


def _deal_with(run: "FoundRun", args: argparse.Namespace) -> bool:
    """One run; False if it should have been deleted and could not be."""
    from emulator.errors import CannotRun
    from emulator.runtime.rundir import claim

    if run.state != "dead":
        print(f"left    {_title(run)}: {_printable(run.why)}")
        return True
    if args.dry_run:
        print(f"would remove {_title(run)}: {run.why}")
        return True
    try:
        with claim(run) as claimed:
            if claimed is None:
                print(f"left    {_title(run)}: another is dealing with it")
                return True
            saved, line = _salvage(run.path)
            if line:
                print(f"        {_printable(line)}")
            if not saved and args.keep:
                print(f"left    {_title(run)}: its partial results could not be saved (--keep)")
                return True
            claimed.delete()
    except CannotRun as error:
        print(f"left    {error}", file=sys.stderr)
        return False
    print(f"removed {_title(run)}: {run.why}")
    return True


def _salvage(run_dir: Path) -> tuple[bool, str | None]:
    """Have the measurements in a dead run's segment written out; a run without any is fine."""
    try:
        from emulator.runtime.measure import salvage_run
    except ImportError as error:
        return False, f"partial results cannot be read: {error}"
    try:
        line = salvage_run(run_dir)
    except Exception as error:  # whatever a half-written segment leads to, the directory still has to go
        return False, f"partial results could not be saved: {' '.join(str(error).split()) or type(error).__name__}"
    return True, line


def _title(run: "FoundRun") -> str:
    name = f" ({_printable(run.owner.name)})" if run.owner is not None and run.owner.name else ""
    return f"{_printable(str(run.path))}{name}"


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)


def _clean_cache(dry_run: bool) -> bool:
    """Compiled code of other versions; False if some could not be deleted."""
    from emulator.errors import CannotRun
    from emulator.kernel.cache import cache_dir, source_hash
    from emulator.runtime.rundir import delete_tree

    good, current = True, source_hash()
    others = sorted(
        path for path in cache_dir().parent.iterdir() if _HASH.fullmatch(path.name) and path.name != current
    )
    for path in others:
        try:
            info = path.lstat()
            if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid():
                print(f"left    {path}: it is no directory of yours")
                continue
            if not dry_run:
                delete_tree(path, info)
        except FileNotFoundError:
            continue
        except CannotRun as error:
            print(f"left    {error}", file=sys.stderr)
            good = False
            continue
        print(f"{'would remove' if dry_run else 'removed'} {path}: compiled code of another version")
    if not others:
        print("no compiled code of other versions")
    return good
