"""How fast is the data path? Packets a second through flood, qdisc, veth, ring and NAPI, beside the bare ring.

    python tools/bench_datapath.py [--rounds 5] [--seconds 1] [--json]

Real clock, two CPUs, host none, 0 rules, 64 B. The cases are run in turn, round after round, so that whatever else the
machine does hits all of them; shown are the median of the rounds and their spread.

    ring            the project's ptr_ring between two processes, nothing else
    ring+counter    the same, and both sides add to one shared word for every entry
    fq_codel+off    the emulator, without BQL: goodput at the receiver, identities checked
    fq_codel+v7     with BQL, completions every 100 us
    fq_codel+v7@0us with BQL, a completion for every packet: a cache line shared for each

Exit code 4 on a machine with fewer than two CPUs, 1 if an identity failed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable

from datapath import emulated, ring

from emulator.errors import EmulatorError


def main() -> int:
    parser = argparse.ArgumentParser(description="Packets a second through the data path, beside the bare ring.")
    parser.add_argument("--rounds", type=int, default=5, help="how often each case is run (default 5)")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each run measures (default 1)")
    parser.add_argument("--case", action="append", help="only this case (may be given again)")
    parser.add_argument("--json", action="store_true", help='print {"cases": [...]} and nothing else on stdout')
    args = parser.parse_args()
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        print("bench_datapath: two CPUs are needed, this process may use one", file=sys.stderr)
        return 4
    cases = _cases(args.seconds, cpus)
    if unknown := set(args.case or ()) - set(cases):
        print(f"bench_datapath: unknown case {min(unknown)!r}; there are {', '.join(cases)}", file=sys.stderr)
        return 2
    cases = {name: case for name, case in cases.items() if not args.case or name in args.case}
    try:
        with emulated.ready():
            measured = _measure(cases, args.rounds)
    except (EmulatorError, RuntimeError) as error:
        print(f"bench_datapath: {error}", file=sys.stderr)
        return 1
    rows = [_row(name, values) for name, values in measured.items()]
    print(json.dumps({"cases": rows}) if args.json else _table(rows))
    return 0


def _cases(seconds: float, cpus: list[int]) -> dict[str, Callable[[], float]]:
    return {
        "ring": lambda: ring.measure(False, seconds, cpus),
        "ring+counter": lambda: ring.measure(True, seconds, cpus),
        "fq_codel+off": lambda: emulated.measure("off", "100us", seconds),
        "fq_codel+v7": lambda: emulated.measure("v7", "100us", seconds),
        "fq_codel+v7@0us": lambda: emulated.measure("v7", "0us", seconds),
    }


def _measure(cases: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    measured: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(rounds):
        for name, case in cases.items():
            print(f"round {number + 1} of {rounds}: {name}", file=sys.stderr)
            measured[name].append(case())
    return measured


def _row(name: str, values: list[float]) -> dict[str, str | float | int]:
    return {
        "case": name,
        "median_pps": round(statistics.median(values)),
        "min_pps": round(min(values)),
        "max_pps": round(max(values)),
        "n": len(values),
    }


def _table(rows: list[dict[str, str | float | int]]) -> str:
    lines = [f"{'case':<18}{'median':>10}{'min':>10}{'max':>10}   n    Mpps"]
    for row in rows:
        numbers = "".join(f"{float(row[key]) / 1e6:>10.2f}" for key in ("median_pps", "min_pps", "max_pps"))
        lines.append(f"{row['case']:<18}{numbers}{row['n']:>4}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
