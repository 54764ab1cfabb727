"""One run of the emulator as a benchmark case: the launcher's own machinery, in this process, with nothing to print."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

from emulator.report.summary import summarise
from emulator.runtime.clocksource import calibrate
from emulator.runtime.compiled import ensure_compiled
from emulator.runtime.interrupts import Interrupts
from emulator.runtime.processes import shut_down, warm_up
from emulator.runtime.progress import Progress
from emulator.runtime.real import Invocation, run_variant
from emulator.scenario import Scenario


@contextlib.contextmanager
def ready() -> Iterator[None]:
    """Have the compiled code and the fork server at hand."""
    with Progress(sys.stderr).compiling() as announce:
        ensure_compiled(announce)
    warm_up()
    try:
        yield
    finally:
        shut_down()


def measure(variant: str, tx_usecs: str, seconds: float) -> float:
    """Goodput in packets a second. Raises RuntimeError when the run did not end well or an identity failed."""
    scenario = Scenario.model_validate(
        {
            "name": "bench",
            "duration": f"{round(seconds * 1000)}ms",
            "warmup": "300ms",
            "host": "none",
            "device": {"bql": {"variant": variant, "tx_usecs": tx_usecs}, "qdisc": {"kind": "fq_codel"}},
            "flood": {"packet": "64B", "rate": "max"},
            "netfilter": {"rules": 0},
        }
    )
    invocation = Invocation(clock=calibrate(), interrupts=Interrupts(), cpus=sorted(os.sched_getaffinity(0)))
    summary = summarise(run_variant(scenario, invocation))
    if not summary["complete"] or not summary["identities"]["ok"]:
        raise RuntimeError(f"{variant} at {tx_usecs}: {summary['verdict']}; identities {summary['identities']}")
    return float(summary["goodput_pps"])
