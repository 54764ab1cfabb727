"""A whole run as one JSON object: what `--json` prints and `summary.json` keeps."""

import json
import platform
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

from emulator.report.codec import to_plain
from emulator.report.sentence import sentence
from emulator.report.summary import severest

SCHEMA = 1
_DISTRIBUTIONS = {"emulator": "veth-emulator", "numba": "numba", "llvmlite": "llvmlite", "numpy": "numpy"}


def run_document(
    variants: Sequence[Mapping[str, Any]],
    *,
    scenario: Mapping[str, Any],
    host: Mapping[str, Any],
    command_line: Sequence[str],
    versions: Mapping[str, str | None] | None = None,
    exit_code: int | None = None,
) -> dict[str, Any]:
    """Summaries with where they come from.

    scenario: the effective one; exit_code: of the run as a whole, if something else than a variant decides it too.
    """
    codes = [int(v["exit_code"]) for v in variants] + ([exit_code] if exit_code is not None else [])
    return {
        "schema": SCHEMA,
        "command_line": list(command_line),
        "versions": dict(versions_here() if versions is None else versions),
        "host": dict(host),
        "scenario": dict(scenario),
        "variants": [dict(v) for v in variants],
        "seen": sentence(variants),
        "exit_code": severest(codes),
    }


def document_json(document: Mapping[str, Any]) -> str:
    """The one JSON object, on one line that ends in a newline; what is not a number is null."""
    return json.dumps(to_plain(document), allow_nan=False) + "\n"


def versions_here() -> dict[str, str | None]:
    """Versions of what ran; None where something is not installed as a distribution. Imports nothing heavy."""
    found: dict[str, str | None] = {}
    for name, distribution in _DISTRIBUTIONS.items():
        try:
            found[name] = metadata.version(distribution)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found | {"python": platform.python_version(), "kernel": platform.release()}
