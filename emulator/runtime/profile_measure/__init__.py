"""A host profile of the machine that this runs on: what the emulator's own code takes here under the real clock.

With it `clock: virtual` predicts `clock: real` on this machine. Sources:

* `bench`: the emulator's own steps in a private network, warm, on one CPU. They tell what each operation costs.
* `handover`: two CPUs and what passes between them, cache lines, locks and wake-ups.
* `pair`: a flood and a receiver on two CPUs. What a packet costs where its lines come from another CPU's cache puts
  `gro_receive` right.
* `insitu`: short runs on real processes, for the wait of a reply for a CPU.

With a single CPU only the first is left.

Under the real clock a profile's rules and its `stack_rx` are burnt on top of what the emulator spends itself. So a
measured profile burns no stack: the emulator's own, verification and all, is part of `gro_receive`.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date

from emulator.runtime.interrupts import Interrupts
from emulator.runtime.profile_measure import handover, insitu, pair, steps
from emulator.runtime.profile_measure.bench import Bench, Samples
from emulator.scenario import HostProfile
from emulator.scenario.profile_text import profile_text

_WALKED = (1, 10, 100, 1000, 10_000)
_ROUNDS, _WALKS = 400, 60
_HAND_OVERS, _WAKE_UPS = 300, 100


@dataclass(frozen=True)
class Measured:
    """The profile, and what its comments say of each key."""

    profile: HostProfile
    comments: dict[str, str]
    header: list[str]
    warnings: list[str] = field(default_factory=list)

    def text(self) -> str:
        """The profile as a YAML file."""
        return profile_text(self.profile, self.header, self.comments)


@dataclass
class _Notes:
    costs: dict[str, float] = field(default_factory=dict)
    comments: dict[str, str] = field(default_factory=dict)

    def take(self, key: str, samples: Samples, how: str) -> None:
        self.costs[key] = float(round(samples.median))
        self.comments[key] = f"{_described(key)}. {how}: {samples.spread}"

    def say(self, key: str, cost_ns: float, how: str) -> None:
        self.costs[key] = float(round(cost_ns))
        self.comments[key] = f"{_described(key)}. {how}"


def measure_profile(
    name: str, interrupts: Interrupts, step: Callable[[str], None] = lambda _what: None, *, rounds: int = _ROUNDS
) -> Measured:
    """Measure this machine. ``step`` is told what is being measured; ``rounds``: how often each step is.

    Raises CannotRun when a real run does not end well.
    """
    notes = _Notes()
    step("the emulator's steps on one CPU")
    rules = _one_cpu(notes, rounds)
    cpus = sorted(os.sched_getaffinity(0))
    two = (cpus[0], cpus[1]) if len(cpus) > 1 else None
    if two:
        step("what two CPUs hand to each other")
    _two_cpus(notes, two, rounds)
    profile = HostProfile(name=name, description=f"{_machine()}, measured by the emulator")
    profile = profile.model_copy(update={**notes.costs, "netfilter_rule": rules})
    header = [
        f"Made by `emulator profile measure` on {date.today().isoformat()}: {_machine()}, {len(cpus)} CPUs to use.",
        "What the emulator's own code takes on this machine under the real clock; nothing of a kernel was measured.",
    ]
    if two is None:
        header.append("With one CPU nothing between two could be measured: those costs are 0.")
        return Measured(profile, notes.comments, header)
    profile = _received_on_another_cpu(profile, notes, two, rounds)
    step("real runs, some seconds")
    seen = insitu.short_queue(interrupts)
    profile = profile.model_copy(update={"timer_slack": float(round(2 * seen.late_ns))})
    profile = insitu.with_return_path(profile, seen)
    notes.comments["timer_slack"] = (
        f"{_described('timer_slack')}. In real runs a probe was typically {seen.late_ns / 1000:.1f} us late: twice that"
    )
    notes.comments["return_path"] = (
        f"{_described('return_path')}. In real runs a round trip over a queue of two took {seen.rtt_ns / 1000:.1f} us; "
        "this is what the rest of the profile leaves of it: waiting for a CPU, mostly"
    )
    header.append(f"Timing of the real run that return_path and timer_slack are from: {seen.timing}.")
    warnings = []
    if seen.timing == "poor":
        warnings.append(
            "others used the CPUs: return_path and timer_slack are too large; measure again when it is free"
        )
    return Measured(profile, notes.comments, header, warnings)


def _received_on_another_cpu(profile: HostProfile, notes: _Notes, cpus: tuple[int, int], rounds: int) -> HostProfile:
    """``gro_receive`` such that a received packet takes in all what it takes beside a flood on another CPU."""
    samples = pair.received_packet(cpus, rounds, insitu.BURN_NS)
    warm = profile.gro_receive
    profile = insitu.with_received_packet(profile, samples.median)
    notes.comments["gro_receive"] += (
        f". Together {warm:.0f} ns. Beside a flood on another CPU a received packet took {samples.median:.0f} ns "
        f"with {insitu.BURN_NS} ns of rules ({samples.spread}); the other costs of this file, cache_line among them, "
        f"leave {profile.gro_receive:.0f} ns of that for this one"
    )
    return profile


def _one_cpu(notes: _Notes, rounds: int) -> tuple[tuple[int, float], ...]:
    """What one CPU alone can tell; the table of rules."""
    bench = Bench()
    legs, parts = bench.legs(rounds), bench.parts(rounds)
    build, xmit, consume = parts[steps.BUILD], parts[steps.XMIT], parts[steps.CONSUME]
    poll = bench.single_poll(rounds).less(legs[steps.POLL_LEG])
    notes.say("stack_rx", 0.0, "The emulator's own stack is part of gro_receive: nothing is burnt")
    notes.take("skb_build", build, "Taken from the pool and filled")
    notes.take("qdisc_enqueue", legs[steps.FLOOD_LEG].less(build), "A step of the flood, without building")
    notes.take("qdisc_dequeue", legs[steps.RUN_LEG].less(xmit), "A step of a qdisc run, without veth_xmit")
    notes.take("veth_xmit", xmit, "Into a ring with room")
    notes.take("ring_consume", consume, "Out of the ring, the packet itself not touched")
    notes.take("napi_poll", poll, "A poll for a single packet, less a packet's share of long ones")
    burnt = bench.burn(rounds, insitu.BURN_NS)
    notes.take(
        "gro_receive",
        legs[steps.POLL_LEG].less(consume),
        "The rest of a received packet: GRO, delivery, verification, back to the pool; in full polls",
    )
    notes.comments["gro_receive"] += f". Burning a cost takes {burnt.median:.0f} ns more than the cost"
    notes.costs["gro_receive"] += float(round(burnt.median))
    notes.take("completion", bench.completion(rounds), "Polls that complete each packet, less polls that complete none")
    notes.take("echo_reply", bench.echo(rounds).less(xmit), "An echo request instead of a packet to deliver")
    walks = [(n, bench.walk(_WALKS, n)) for n in _WALKED]
    notes.comments["netfilter_rule"] = (
        f"{_described('netfilter_rule')}. The time in which this machine walks so many rules of the emulator's table "
        "(netfilter.mode: walk)"
    )
    costs, table = 0.0, [(0, 0.0)]
    for n, walked in walks:
        costs = max(costs, float(round(walked.median)))
        table.append((n, costs))
    return tuple(table)


def _two_cpus(notes: _Notes, cpus: tuple[int, int] | None, rounds: int) -> None:
    if cpus is None:
        for key in ("cache_line", "lock_handover", "napi_wakeup", "return_path", "timer_slack"):
            notes.say(key, 0.0, "Not measured: it takes two CPUs")
        return
    on = f"between CPUs {cpus[0]} and {cpus[1]}"
    lines = Samples(tuple(handover.cache_line_ns(cpus, min(rounds, _HAND_OVERS))))
    locks = Samples(tuple(handover.lock_ns(cpus, min(rounds, _HAND_OVERS))))
    spinning = Samples(tuple(handover.wakeup_ns(cpus, min(rounds, _WAKE_UPS), "spin")))
    asleep = Samples(tuple(handover.wakeup_ns(cpus, min(rounds, _WAKE_UPS), "futex")))
    notes.take("cache_line", lines, f"One line after the other {on}")
    notes.take("lock_handover", locks, f"The same with the exchange that takes a lock, {on}")
    notes.take(
        "napi_wakeup",
        spinning,
        "Until a thread that looks again and again has seen it, as a NAPI thread with a CPU to itself does",
    )
    notes.comments["napi_wakeup"] += f". From a futex it is {asleep.median:.0f} ns"


def _machine() -> str:
    from emulator.runtime.host import read_host

    return read_host().cpu_model or platform.machine()


def _described(key: str) -> str:
    return (HostProfile.model_fields[key].description or key).rstrip(".")
