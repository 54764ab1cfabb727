"""How fast virtual time passes: simulated packets a second, cost against duration, memory against duration.

::

    python tools/bench_virtual.py            # fq_codel, v7 at 100 us, 0 rules, on one CPU
    python tools/bench_virtual.py --json

A packet counts when it has been received; those that the qdisc dropped are simulated too and shown apart. Each figure
is CPU time of this process, median of several runs with the spread. Cost is linear in packets, and memory does not
depend on the duration, when a packet costs the same at eight times the duration and memory has not grown.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from emulator.runtime.compiled import ensure_compiled
from emulator.scenario import load_profile
from emulator.scenario.model import Scenario

PROFILE = Path(__file__).resolve().parents[1] / "scenarios" / "profiles" / "ryzen-5600x.yaml"
WARMUP_S, DURATION_S = 0.2, 1.0
LONGER = 8


def scenario(rules: int, tx_usecs: int) -> Scenario:
    """The flood of the published tables."""
    return Scenario.model_validate(
        {
            "clock": "virtual",
            "host": load_profile(PROFILE).to_plain(),
            "netfilter": {"rules": rules},
            "ping": {"interval": "20ms"},
            "device": {"bql": {"variant": "v7", "tx_usecs": f"{tx_usecs}us"}, "qdisc": {"kind": "fq_codel"}},
        }
    )


def advance(spec: Scenario, seconds: float) -> dict[str, float]:
    """Run one network for so many virtual seconds after a warm-up; what that took."""
    from emulator.runtime.virtual import START_NS, VirtualRun

    run = VirtualRun(spec)
    warm = START_NS + int(WARMUP_S * 1e9)
    run.advance(warm)
    flow = run.segment.view.net.flows[0]
    received, sent = int(flow.received), int(flow.sent)
    gc.collect()
    began = time.process_time()
    steps = run.advance(warm + int(seconds * 1e9))
    taken = time.process_time() - began
    disorder = int(flow.duplicates) + int(flow.reordered) + int(flow.corrupt)
    if disorder or run.segment.view.net.fault.code:
        raise SystemExit(f"bench_virtual: {disorder} packets twice, out of order or damaged: no figure counts")
    received, sent = int(flow.received) - received, int(flow.sent) - sent
    return {
        "cpu_s": taken,
        "received": received,
        "received_per_s": received / taken,
        "sent_per_s": sent / taken,
        "steps_per_s": steps / taken,
        "slowdown": taken / seconds,
    }


def measure(rules: int, tx_usecs: int, repetitions: int) -> dict[str, Any]:
    """Median, minimum and maximum of several runs, and what eight times the duration costs."""
    spec = scenario(rules, tx_usecs)
    advance(spec, 0.05)
    runs = [advance(spec, DURATION_S) for _ in range(repetitions)]
    memory_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    longer = advance(spec, LONGER * DURATION_S)
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory_kb
    per_packet = statistics.median(run["cpu_s"] / run["received"] for run in runs)
    result: dict[str, Any] = {"rules": rules, "tx_usecs": tx_usecs, "n": repetitions}
    for name in ("received_per_s", "sent_per_s", "steps_per_s", "slowdown"):
        values = sorted(run[name] for run in runs)
        result[name] = {"median": statistics.median(values), "min": values[0], "max": values[-1]}
    result["cost_of_a_packet_at_8x_duration"] = longer["cpu_s"] / longer["received"] / per_packet
    result["memory_kb"], result["memory_grown_at_8x_kb"] = memory_kb, grown_kb
    return result


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=5, metavar="N", help="runs of each (default: 5)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    ensure_compiled(lambda done, total, name: print(f"compiling {name} ({done} of {total})", file=sys.stderr))
    results = [measure(rules, tx_usecs, args.repetitions) for rules, tx_usecs in ((0, 100), (0, 0), (10_000, 100))]
    if args.json:
        print(json.dumps(results, indent=2))
        return 0
    print(f"CPU time of one process; median (min..max) of {args.repetitions} runs of {DURATION_S:g} virtual second;")
    print("every received packet checked: once, in order, intact")
    for result in results:
        print(f"\n{result['rules']} rules, v7 at {result['tx_usecs']} us, fq_codel")
        for name, label in (
            ("received_per_s", "packets received, M/s"),
            ("sent_per_s", "packets offered, M/s"),
            ("steps_per_s", "steps, M/s"),
        ):
            figure = result[name]
            print(f"  {label:24}{figure['median'] / 1e6:8.3g} ({figure['min'] / 1e6:.3g}..{figure['max'] / 1e6:.3g})")
        figure = result["slowdown"]
        print(f"  {'seconds a virtual second':24}{figure['median']:8.2f} ({figure['min']:.2f}..{figure['max']:.2f})")
        print(f"  a packet at {LONGER}x duration  {result['cost_of_a_packet_at_8x_duration']:7.2f} times the cost")
        print(
            f"  memory                  {result['memory_kb'] / 1024:8.0f} MB, "
            f"+{result['memory_grown_at_8x_kb']} kB at {LONGER}x"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
