"""A whole sweep as one JSON object, and as a user reads it: the tables, what failed, whether the identities hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulator.errors import ExitCode
from emulator.report.cells import COLUMNS, KEYS, KIND, SCHEMA, VALUES, Record, cells_of
from emulator.report.codec import to_plain
from emulator.report.figures import plural
from emulator.report.summary import severest
from emulator.report.sweep_setting import setting_text
from emulator.report.sweep_tables import sweep_tables

_NAMED = 3  # cells that are listed by name before it says how many more there are


@dataclass(frozen=True)
class Outcome:
    """What became of a sweep's plan."""

    plan: Sequence[Mapping[str, Any]]
    records: Sequence[Record]
    """in the order of the plan"""
    others: Sequence[int] = ()
    """exit codes of what else happened: an interrupt, results that could not be written"""

    @property
    def failed(self) -> list[Record]:
        return [r for r in self.records if r["status"] != "ok"]

    @property
    def missing(self) -> list[str]:
        """Cells that were not run."""
        there = {int(r["index"]) for r in self.records}
        return [str(cell["cell"]) for cell in self.plan if int(cell["index"]) not in there]

    @property
    def exit_code(self) -> int:
        """That of the worst cell, or of what else happened."""
        return severest([*(int(r["exit_code"]) for r in self.records), *map(int, self.others), int(ExitCode.OK)])

    @property
    def timing(self) -> list[str]:
        """Cells during which the machine got in the way."""
        return [r["cell"] for r in self.records if ((r["run"] or {}).get("timing") or {}).get("verdict") == "poor"]

    def unmet(self) -> list[tuple[str, str]]:
        """(cell, what it failed to show) of cells that were measured and do not end well."""
        return [(r["cell"], r["verdict"]) for r in self.records if r["status"] == "ok" and r["verdict"] != "ok"]


def identities(records: Sequence[Record]) -> dict[str, Any]:
    """Whether all of them hold in all cells: `ok` is null when none was checked."""
    verdicts = [r["summary"]["identities"]["ok"] for r in records if r["summary"] is not None]
    broken = [
        {"cell": r["cell"], "name": c["name"], "left": c["left"], "right": c["right"], "detail": c["detail"]}
        for r in records
        if r["summary"] is not None
        for c in r["summary"]["identities"]["checks"]
        if not c["ok"]
    ]
    checked = sum(verdict is not None for verdict in verdicts)
    return {"ok": False if broken else True if checked else None, "cells": checked, "broken": broken}


def sweep_document(outcome: Outcome, manifest: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """What `--json` prints."""
    rows = [
        {key: getattr(cell, key) for key in KEYS}
        | {name: cell.values[name] for name in VALUES}
        | {"fields": cell.others, "repetitions": len(cell.ok), "failed": len(cell.failed)}
        for cell in cells_of(outcome.records, outcome.plan)
    ]
    document = {
        "schema": SCHEMA,
        "kind": KIND,
        "command_line": manifest["command_line"],
        "versions": manifest["versions"],
        "host": manifest["host"],
        "scenario": manifest["scenario"],
        "columns": list(COLUMNS),
        "rows": rows,
        "failed": [{key: r[key] for key in ("cell", "verdict", "exit_code")} for r in outcome.failed],
        "missing": outcome.missing,
        "identities": identities(outcome.records),
        "results": str(path),
        "exit_code": outcome.exit_code,
    }
    plain: dict[str, Any] = to_plain(document)
    return plain


def sweep_text(outcome: Outcome, scenario: Mapping[str, Any], *, with_max: bool = False) -> str:
    """What it was measured under, the tables, a paragraph for what did not go well; ends in a newline.

    scenario: the sweep's effective one.
    """
    parts: list[str] = []
    if outcome.records:
        tables = sweep_tables(cells_of(outcome.records, outcome.plan), with_max=with_max)
        parts = [f"{setting_text(scenario)}\n", tables]
    parts.append("".join(f"{line}\n" for line in _closing(outcome)))
    return "\n".join(parts)


def _closing(outcome: Outcome) -> list[str]:
    of = len(outcome.plan)
    lines: list[str] = []
    if outcome.failed:
        lines.append(f"FAILED: {len(outcome.failed)} of {plural(of, 'cell')}")
        lines += [f"  {r['cell']}: {r['verdict']}" for r in outcome.failed]
    if outcome.missing:
        lines.append(f"INCOMPLETE: {len(outcome.missing)} of {plural(of, 'cell')} not run: {_few(outcome.missing)}")
    unmet = outcome.unmet()
    if unmet:
        lines.append(f"not as expected: {len(unmet)} of {plural(of, 'cell')}")
        lines += [f"  {cell}: {verdict}" for cell, verdict in unmet]
    if outcome.timing:
        lines.append(f"timing was poor in {len(outcome.timing)} of {plural(of, 'cell')}: {_few(outcome.timing)}")
    found = identities(outcome.records)
    if found["ok"] is None:
        lines.append("identities: nothing was checked")
    elif found["ok"]:
        lines.append(f"identities: all hold in {plural(found['cells'], 'cell')}")
    else:
        lines.append(f"identities: {len(found['broken'])} FAILED")
        lines += [f"  {b['cell']}: {b['name']}: {b['left']} is not {b['right']} {b['detail']}" for b in found["broken"]]
    return lines


def _few(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
