"""The command line: one module a verb, imported for its arguments only; what a verb needs it imports when it runs.

A verb's module has `add_parser(verbs)`, which is cheap, and `run(args) -> int`, which returns an exit code
(`errors.ExitCode`). A failure that the user can put right is an `EmulatorError`: its lines on stderr, its exit code,
no traceback.
"""

import argparse
import errno
import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from emulator.cli.parser import Parser
from emulator.errors import EmulatorError, ExitCode

VERBS = ("run", "sweep", "validate", "compare", "plot", "profile", "doctor", "clean", "completion")
_NO_MORE_OUTPUT = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
INTERNAL_ERROR = 70  # EX_SOFTWARE: a bug in the emulator, which none of its verdicts stands for


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    _have_streams()
    try:
        code = _dispatch(argv)
        sys.stdout.flush()
    except EmulatorError as error:
        _complain(error.lines())
        return error.exit_code
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        return _reader_gone()
    except OSError as error:
        if error.filename is None and error.errno in _NO_MORE_OUTPUT:
            return _output_lost(error)
        return _bug(error)
    except Exception as error:
        return _bug(error)
    return code


def build_parser() -> Parser:
    """The parser of all verbs."""
    parser = Parser(prog="emulator", description="An emulator of Linux veth with byte queue limits, on real processes.")
    parser.add_argument("--version", action=_Version, help="show the version and exit")
    verbs = parser.add_verbs()
    for verb in VERBS:
        importlib.import_module(f"emulator.cli.{verb}").add_parser(verbs)
    return parser


def _dispatch(argv: Sequence[str] | None) -> int:
    parser = build_parser()
    try:
        args = parser.parse(argv)
    except SystemExit as done:  # --help, --version
        return int(done.code or 0)
    if args.verb is None:
        parser.print_help(sys.stderr)
        return ExitCode.USAGE
    return int(importlib.import_module(f"emulator.cli.{args.verb}").run(args))


class _Version(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str, **kwargs: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **kwargs)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"{parser.prog} {version('veth-emulator')}")
        parser.exit()


def _complain(lines: Sequence[str]) -> None:
    try:
        print("\n".join(lines), file=sys.stderr, flush=True)
    except OSError:
        _silence(sys.stderr)


def _have_streams() -> None:
    """Whatever a closed stream's number would be given to next (a segment, a socket) must not be printed into."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show must not cost a report


def _reader_gone() -> int:
    """Whoever read our output has closed it, as `head` does: end as a process that SIGPIPE ends."""
    _silence(sys.stdout)
    return 128 + signal.SIGPIPE


def _output_lost(error: OSError) -> int:
    """What we print to cannot hold it: a full disk, most likely."""
    _silence(sys.stdout)
    _complain([f"emulator: error: the output cannot be written: {error.strerror}; make room, or print elsewhere"])
    return ExitCode.CANNOT_RUN


def _silence(stream: Any) -> None:
    """Keep the interpreter's last flush from complaining again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _bug(error: Exception) -> int:
    import tempfile
    import traceback

    text = "".join(traceback.format_exception(error))
    what = f"emulator: error: this is a bug: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
    if os.environ.get("EMULATOR_DEBUG") == "1":
        _complain([text.rstrip(), what])
        return INTERNAL_ERROR
    try:
        with tempfile.NamedTemporaryFile("w", prefix="emulator-traceback-", suffix=".txt", delete=False) as file:
            file.write(text)
        _complain([f"{what}; traceback in {file.name} (EMULATOR_DEBUG=1 shows it)"])
    except OSError:
        _complain([f"{what}; EMULATOR_DEBUG=1 shows the traceback"])
    return INTERNAL_ERROR
