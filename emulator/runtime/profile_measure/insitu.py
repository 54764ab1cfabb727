"""Real runs of the emulator on this machine: how long a reply takes back to ping.

On a machine with few CPUs that is mostly the wait for one. It is the part of the round trip over a short queue, that of
v7 with a completion for each packet, that the profile does not explain so far. The typical round trip, of the run in
which it was shortest: whoever else uses the machine only adds to it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from emulator.errors import CannotRun, ExitCode
from emulator.report.summary import summarise
from emulator.runtime.clocksource import calibrate
from emulator.runtime.interrupts import Interrupts
from emulator.runtime.processes import shut_down, warm_up
from emulator.runtime.real import Invocation, run_variant
from emulator.runtime.virtual import run_virtual
from emulator.scenario import HostProfile, Scenario

BURN_NS = 2000
"""what a received packet burns in these runs, so that the receiver is the bottleneck on any machine"""
REPETITIONS, REPETITIONS_AT_MOST = 3, 8
"""further ones while the machine leaves none of them alone"""
_STEPS = 3


@dataclass(frozen=True)
class InSitu:
    """What the real runs showed."""

    rtt_ns: float
    """median round trip over the short queue"""
    late_ns: float
    """by how much a probe was typically sent later than its schedule wanted"""
    timing: str
    """verdict on that run"""


def scenario(clock: str, host: HostProfile, variant: str = "v7") -> Scenario:
    """The run that is made under both clocks; ``host`` burns nothing under the real one but the rule."""
    return Scenario.model_validate(
        {
            "name": "measure",
            "clock": clock,
            "duration": "300ms",
            "warmup": "100ms",
            "host": host,
            "device": {"qdisc": {"kind": "fq_codel"}, "bql": {"variant": variant, "tx_usecs": "0us"}},
            "netfilter": {"rules": 1, "rule_cost": f"{BURN_NS}ns"},
            "ping": {"interval": "1ms"},
        }
    )


@contextmanager
def real_runs(interrupts: Interrupts) -> Iterator[Invocation]:
    """What real runs of this process need, the fork server in particular."""
    warm_up()
    try:
        yield Invocation(clock=calibrate(), interrupts=interrupts, cpus=sorted(os.sched_getaffinity(0)))
    finally:
        shut_down()


def real_summary(wanted: Scenario, invocation: Invocation) -> dict[str, Any]:
    """The summary of one real run. Raises CannotRun when it did not end well."""
    summary = summarise(run_variant(wanted, invocation))
    if invocation.interrupts.count:
        raise KeyboardInterrupt
    if not summary["complete"] or summary["exit_code"] != ExitCode.OK:
        raise CannotRun(f"a real run, {wanted.name}: {summary['verdict']}; repeat it when the machine is free")
    return summary


def short_queue(interrupts: Interrupts) -> InSitu:
    """The real run, again and again. Raises CannotRun when one does not end well."""
    with real_runs(interrupts) as invocation:
        summaries: list[dict[str, Any]] = []
        while len(summaries) < REPETITIONS or (_all_poor(summaries) and len(summaries) < REPETITIONS_AT_MOST):
            summaries.append(real_summary(scenario("real", HostProfile(name="none")), invocation))
    best = min(summaries, key=lambda summary: float(summary["rtt_ms"]["p50"]))
    rtt_ms, from_schedule_ms = best["rtt_ms"]["p50"], best["rtt_intended_ms"]["p50"]
    return InSitu(rtt_ms * 1e6, max(0.0, from_schedule_ms - rtt_ms) * 1e6, best["timing"]["verdict"])


def _all_poor(summaries: list[dict[str, Any]]) -> bool:
    return all(summary["timing"]["verdict"] == "poor" for summary in summaries)


def virtual_summary(profile: HostProfile, variant: str) -> dict[str, Any]:
    """The summary of the same run under the virtual clock."""
    return summarise(run_virtual(scenario("virtual", profile, variant)))


def with_received_packet(profile: HostProfile, packet_ns: float) -> HostProfile:
    """The profile with the ``gro_receive`` with which a packet of the virtual clock's stock run takes so long."""
    for _ in range(_STEPS):
        summary = virtual_summary(profile, "off")
        missing = packet_ns - 1e9 / summary["goodput_pps"]
        profile = profile.model_copy(update={"gro_receive": max(0.0, float(round(profile.gro_receive + missing)))})
    return profile


def with_return_path(profile: HostProfile, seen: InSitu) -> HostProfile:
    """The profile with the ``return_path`` with which the virtual clock gives the round trip that was seen."""
    summary = virtual_summary(profile, "v7")
    back = seen.rtt_ns - summary["rtt_ms"]["p50"] * 1e6
    return profile.model_copy(update={"return_path": max(0.0, float(round(profile.return_path + back)))})
