"""Does the virtual clock say what the real one measures? A dozen cells both ways, on this machine, with one profile.

    python tools/real_vs_virtual.py [--profile FILE] [--duration 3s] [--repetitions 3] [--json]

The profile is measured first (as `emulator profile measure` does), unless one is given; what rules cost, which both
clocks take from the profile, is the reference machine's table, so that the cells are those of the published tables:
nrules 100, 1000 and 10000 under stock and v7 at 50, 100 and 1000 us. Under the real clock the rules are burnt and
everything else is whatever the emulator's own code takes here; under the virtual clock everything is the profile's.

For each cell: goodput and median round trip, the median of the real repetitions against that of as many virtual runs
with seeds of their own, by how much they differ, and the worst timing verdict of the repetitions. A cell is within when
both are within 15 %. The median round trip, because whoever else uses the machine makes a few pings late and so moves
the average of a real run.

Exit codes: 0 at least ten cells of twelve are within, 1 fewer are, 4 fewer than two CPUs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulator.errors import EmulatorError, UsageError
from emulator.report.summary import summarise
from emulator.runtime.compiled import ensure_compiled
from emulator.runtime.interrupts import interruptible
from emulator.runtime.limits import check_limits
from emulator.runtime.profile_measure import measure_profile
from emulator.runtime.profile_measure.insitu import real_runs, real_summary
from emulator.runtime.progress import Progress
from emulator.runtime.virtual import run_virtual
from emulator.scenario import HostProfile, Scenario, load_profile
from emulator.scenario.shipped import REFERENCE, profile_path
from emulator.scenario.units import parse_duration_ns

NRULES = (100, 1000, 10_000)
VARIANTS = (("stock", None), ("v7", "50us"), ("v7", "100us"), ("v7", "1ms"))
WITHIN = 0.15
WANTED = 10
_TIMINGS = ("poor", "fair", "good")


@dataclass(frozen=True)
class Cell:
    """One cell, under both clocks."""

    name: str
    goodput_pps: tuple[float, float]
    """real, virtual"""
    rtt_p50_ms: tuple[float, float]
    timing: str

    @property
    def differences(self) -> tuple[float, float]:
        """Of goodput and round trip: 0.01 is one percent more under the virtual clock."""
        return tuple(virtual / real - 1 for real, virtual in (self.goodput_pps, self.rtt_p50_ms))  # type: ignore[return-value]

    @property
    def within(self) -> bool:
        return all(abs(difference) <= WITHIN for difference in self.differences)


def main() -> int:
    args = _parser().parse_args()
    if len(os.sched_getaffinity(0)) < 2:
        print("real_vs_virtual: two CPUs are needed, this process may use one", file=sys.stderr)
        return 4
    try:
        with interruptible() as interrupts:
            check_limits()
            duration_ns = _duration(args.duration)
            progress = Progress(sys.stderr)
            with progress.compiling() as announce:
                ensure_compiled(announce, progress.waiting)
            profile = _profile(args.profile, interrupts)
            cells = _cells(profile, duration_ns, args.repetitions, interrupts)
    except EmulatorError as error:
        print("\n".join(error.lines()), file=sys.stderr)
        return int(error.exit_code)
    except KeyboardInterrupt:
        return 130
    inside = sum(cell.within for cell in cells)
    print(json.dumps(_document(cells, profile)) if args.json else _table(cells))
    return 0 if inside >= WANTED else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="A dozen cells under both clocks, on this machine, with one profile.")
    parser.add_argument("--profile", metavar="FILE", help="a measured profile (default: measure one now)")
    parser.add_argument("--duration", default="3s", metavar="D", help="of each run (default %(default)s)")
    parser.add_argument("--repetitions", type=int, default=3, help="real runs of each cell (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else on stdout")
    return parser


def _duration(text: str) -> int:
    try:
        return parse_duration_ns(text)
    except ValueError as error:
        raise UsageError(f"--duration: {error}") from None


def _profile(path: str | None, interrupts: Any) -> HostProfile:
    """What this machine costs, with the rules of the reference machine."""
    if path is None:
        measured = measure_profile("this-machine", interrupts, lambda what: _say(f"measuring {what}"))
        for warning in measured.warnings:
            _say(f"{warning} (warning)")
        profile = measured.profile
    else:
        profile = load_profile(Path(path))
    rules = load_profile(profile_path(REFERENCE)).netfilter_rule
    return profile.model_copy(update={"netfilter_rule": rules})


def _cells(profile: HostProfile, duration_ns: int, repetitions: int, interrupts: Any) -> list[Cell]:
    """Repetition after repetition through all cells, so that whatever else the machine does hits all of them."""
    plan = list(_plan(profile, duration_ns))
    real: list[list[dict[str, Any]]] = [[] for _ in plan]
    with real_runs(interrupts) as invocation:
        interrupts.immediate = False
        for number in range(repetitions):
            for seen, (name, scenario) in zip(real, plan, strict=True):
                _say(f"real {number + 1} of {repetitions}: {name}")
                seen.append(real_summary(scenario, invocation))
    cells = []
    for seen, (name, scenario) in zip(real, plan, strict=True):
        _say(f"virtual: {name}")
        virtual = [summarise(run_virtual(_under("virtual", scenario, seed))) for seed in range(1, repetitions + 1)]
        timing = min((summary["timing"]["verdict"] for summary in seen), key=_TIMINGS.index)
        goodput = _medians(lambda s: s["goodput_pps"], seen, virtual)
        rtt = _medians(lambda s: s["rtt_ms"]["p50"], seen, virtual)
        cells.append(Cell(name, goodput, rtt, timing))
    return cells


def _medians(
    figure: Callable[[dict[str, Any]], float], real: list[dict[str, Any]], virtual: list[dict[str, Any]]
) -> tuple[float, float]:
    return statistics.median(map(figure, real)), statistics.median(map(figure, virtual))


def _plan(profile: HostProfile, duration_ns: int) -> Iterator[tuple[str, Scenario]]:
    for nrules in NRULES:
        for variant, tx_usecs in VARIANTS:
            bql = {"variant": "off"} if tx_usecs is None else {"variant": variant, "tx_usecs": tx_usecs}
            scenario = Scenario.model_validate(
                {
                    "name": f"{variant} {nrules}",
                    "duration": f"{duration_ns}ns",
                    "warmup": "500ms",
                    "host": profile,
                    "device": {"qdisc": {"kind": "fq_codel"}, "bql": bql},
                    "netfilter": {"rules": nrules},
                    "ping": {"interval": "5ms"},
                }
            )
            yield f"nrules {nrules}, {variant}{f' at {tx_usecs}' if tx_usecs else ''}", scenario


def _under(clock: str, scenario: Scenario, seed: int) -> Scenario:
    return scenario.model_copy(update={"clock": clock, "seed": seed})


def _table(cells: list[Cell]) -> str:
    lines = [
        f"{'cell':<26}{'goodput real':>13}{'virtual':>9}{'diff':>8}   {'p50 real':>9}{'virtual':>9}{'diff':>8}  timing"
    ]
    for cell in cells:
        pps, rtt = cell.differences
        lines.append(
            f"{cell.name:<26}{cell.goodput_pps[0]:>9.0f} pps{cell.goodput_pps[1]:>9.0f}{pps:>+8.1%}   "
            f"{cell.rtt_p50_ms[0]:>6.3f} ms{cell.rtt_p50_ms[1]:>9.3f}{rtt:>+8.1%}  {cell.timing}"
            f"{'' if cell.within else '   outside'}"
        )
    inside = sum(cell.within for cell in cells)
    lines.append(
        f"{inside} of {len(cells)} cells within {WITHIN:.0%} in goodput and median round trip (wanted: {WANTED})"
    )
    worst = min((cell.timing for cell in cells), key=_TIMINGS.index)
    lines.append(f"worst timing verdict: {worst}{_MEANING[worst]}")
    return "\n".join(lines)


_MEANING = {
    "poor": "; the machine was not left alone, so that the real figures are partly its doing",
    "fair": "; the machine left most of the runs alone",
    "good": "",
}


def _document(cells: list[Cell], profile: HostProfile) -> dict[str, Any]:
    rows = [
        {
            "cell": cell.name,
            "goodput_pps": dict(
                zip(("real", "virtual", "difference"), (*cell.goodput_pps, cell.differences[0]), strict=True)
            ),
            "rtt_p50_ms": dict(
                zip(("real", "virtual", "difference"), (*cell.rtt_p50_ms, cell.differences[1]), strict=True)
            ),
            "timing": cell.timing,
            "within": cell.within,
        }
        for cell in cells
    ]
    return {
        "cells": rows,
        "within": sum(cell.within for cell in cells),
        "wanted": WANTED,
        "profile": profile.to_plain(),
    }


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
