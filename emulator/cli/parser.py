"""The argument parser: one line for an error, with the nearest match."""

import argparse
import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from emulator.errors import UsageError


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that raises UsageError instead of printing its usage and exiting."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})
        self.verbs: argparse._SubParsersAction[Parser] | None = None

    def add_verbs(self) -> "argparse._SubParsersAction[Parser]":
        """Where the verbs are added."""
        self.verbs = self.add_subparsers(dest="verb", metavar="VERB", title="verbs", parser_class=Parser)
        return self.verbs

    def parse(self, argv: Sequence[str] | None) -> argparse.Namespace:
        """The arguments; UsageError if they make no sense."""
        args, unknown = self.parse_known_args(argv)
        if unknown:
            verb = self.verbs.choices[args.verb] if self.verbs and args.verb else self
            raise UsageError(
                f"unknown argument '{unknown[0]}'{_near(unknown[0], verb.options())}; see {verb.prog} --help"
            )
        return args

    def options(self) -> list[str]:
        """The option strings of this parser."""
        return [option for action in self._actions for option in action.option_strings]

    def error(self, message: str) -> NoReturn:
        wrong = re.search(r"invalid choice: '([^']*)'", message)
        choices = list(self.verbs.choices) if self.verbs else _choices(message)
        if wrong:
            message = f"unknown '{wrong[1]}'{_near(wrong[1], choices)}; allowed: {', '.join(choices)}"
        raise UsageError(f"{message}; see {self.prog} --help")


def _choices(message: str) -> list[str]:
    inside = re.search(r"\(choose from (.*)\)", message)
    return [choice.strip(" '") for choice in inside[1].split(",")] if inside else []


def _near(wrong: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(wrong.partition("=")[0], list(known), n=1)
    return f", did you mean '{near[0]}'?" if near else ""
