"""`emulator completion SHELL`: a completion script for the shell, on stdout.

emulator completion bash > ~/.local/share/bash-completion/completions/emulator
"""

import argparse
from typing import Any

SHELLS = ("bash", "zsh", "tcsh")


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "completion", help="print a completion script for a shell", description="Print a completion script for a shell."
    )
    parser.add_argument("shell", choices=SHELLS, help="whose completion")


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    import shtab

    from emulator.cli import build_parser

    print(shtab.complete(build_parser(), shell=args.shell))
    return 0
