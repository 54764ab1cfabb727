"""Rounds of the emulator's own steps in a private network, and what they come to."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from emulator.kernel.netfilter import MODE_BURN, MODE_WALK, rules_init
from emulator.kernel.veth import VARIANT_OFF, VARIANT_V7
from emulator.runtime.build import RECEIVER, SENDER, build
from emulator.runtime.clocksource import calibrate
from emulator.runtime.placement import place
from emulator.runtime.profile_measure import steps
from emulator.runtime.segment import Segment
from emulator.scenario.model import Scenario

_WARM_UP = 20  # rounds
_NEVER_STOPPED = 1 << 30  # DQL limit
_NEVER_DUE_NS = 1 << 60


@dataclass(frozen=True)
class Samples:
    """Repeated measurements of one thing, in ns."""

    ns: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.ns)

    @property
    def spread(self) -> str:
        """Median, the middle half and how many: for a comment."""
        low, _, high = statistics.quantiles(self.ns, n=4)
        return f"median of {len(self.ns)}, half of them within {low:.1f}..{high:.1f} ns"

    def less(self, *others: Samples) -> Samples:
        """What is left of each when the others' medians are taken off, at least 0."""
        taken = sum(other.median for other in others)
        return Samples(tuple(max(0.0, ns - taken) for ns in self.ns))


class Bench:
    """A private network under the real clock, driven by this thread alone."""

    def __init__(self) -> None:
        scenario = Scenario.model_validate(
            {
                "name": "bench",
                "device": {"qdisc": {"kind": "fq_codel"}, "bql": {"variant": "v7", "limit_min": _NEVER_STOPPED}},
                "ping": {},
            }
        )
        self.segment = Segment.private()
        build(self.segment, scenario, place(scenario, range(4)), calibrate())
        self._net = self.segment.view.net
        self.nets, self.agents = self.segment.nets, self.segment.agents
        self._skbs = np.zeros(steps.BATCH, dtype=np.int64)
        dql = self._net.devs[SENDER].txq[0].dql
        dql.limit = dql.adj_limit = _NEVER_STOPPED

    def as_stock(self, burn_ns: int) -> None:
        """No BQL, and ``burn_ns`` of rules for each received packet."""
        self._bql(VARIANT_OFF, _NEVER_DUE_NS)
        self._net.devs[RECEIVER].nf_cost_ns = burn_ns

    def resume(self) -> None:
        """Let a flood run again that was told to stop."""
        self.segment.view.agents[steps.FLOOD].stop = 0

    def legs(self, rounds: int) -> list[Samples]:
        """ns a packet of each leg, without BQL."""
        self._bql(VARIANT_OFF, _NEVER_DUE_NS)
        return self._legs(rounds)

    def completion(self, rounds: int) -> Samples:
        """ns of one BQL completion: a poll that completes each packet, less one that completes none."""
        self._bql(VARIANT_V7, 0)
        each = self._legs(rounds)[steps.POLL_LEG]
        self._bql(VARIANT_V7, _NEVER_DUE_NS)
        none = self._legs(rounds)[steps.POLL_LEG]
        self._bql(VARIANT_V7, 0)
        self._legs(1)  # what is pending
        return each.less(none)

    def burn(self, rounds: int, cost_ns: int) -> Samples:
        """ns by which burning a cost takes longer than it should."""
        plain = self.legs(rounds)[steps.POLL_LEG]
        self._net.devs[RECEIVER].nf_cost_ns = cost_ns
        burnt = self.legs(rounds)[steps.POLL_LEG]
        self._net.devs[RECEIVER].nf_cost_ns = 0
        return Samples(tuple(ns - cost_ns for ns in burnt.ns)).less(plain)

    def parts(self, rounds: int) -> list[Samples]:
        """ns a packet of the parts of the legs."""
        self._bql(VARIANT_OFF, _NEVER_DUE_NS)
        out = np.zeros(steps.PARTS, dtype=np.int64)
        return _columns(rounds, lambda: steps.parts(self.nets, self.agents, self._skbs, out), out)

    def single_poll(self, rounds: int) -> Samples:
        """ns of a poll that finds one packet."""
        self._bql(VARIANT_OFF, _NEVER_DUE_NS)
        return self._each(rounds, lambda: steps.single_polls(self.nets, self.agents, self._skbs))

    def echo(self, rounds: int) -> Samples:
        """ns to answer an echo request, its way into the ring included, beyond delivering a packet."""
        self._bql(VARIANT_OFF, _NEVER_DUE_NS)
        answered = self._each(rounds, lambda: steps.echoes(self.nets, self.agents, self._skbs))
        delivered = self._each(rounds, lambda: steps.deliveries(self.nets, self.agents, self._skbs))
        return answered.less(delivered)

    def walk(self, rounds: int, nrules: int) -> Samples:
        """ns for one packet to walk ``nrules`` rules."""
        count = max(1, 2000 // nrules)
        rules_init(self._net, nrules)
        dev = self._net.devs[RECEIVER]
        dev.nf_mode, dev.nf_rules = MODE_WALK, nrules
        walked = [steps.rule_walks(self.nets, self.agents, 1, count) / count for _ in range(rounds + 2)]
        dev.nf_mode, dev.nf_rules = MODE_BURN, 0
        return Samples(tuple(walked[2:]))

    def _bql(self, variant: int, tx_coal_ns: int) -> None:
        for number in (SENDER, RECEIVER):
            dev = self._net.devs[number]
            dev.bql_variant, dev.tx_coal_ns = variant, tx_coal_ns

    def _legs(self, rounds: int) -> list[Samples]:
        out = np.zeros(steps.LEGS, dtype=np.int64)
        return _columns(rounds, lambda: steps.legs(self.nets, self.agents, out), out)

    def _each(self, rounds: int, body: Callable[[], Any]) -> Samples:
        times = [float(body()) / steps.BATCH for _ in range(rounds + _WARM_UP)]
        return Samples(tuple(times[_WARM_UP:]))


def _columns(rounds: int, body: Callable[[], Any], out: Any) -> list[Samples]:
    """``body`` again and again; one series of samples for each word of ``out`` that it fills in."""
    taken: list[Sequence[float]] = []
    for _ in range(rounds + _WARM_UP):
        body()
        taken.append([float(ns) / steps.BATCH for ns in out])
    return [Samples(column) for column in zip(*taken[_WARM_UP:], strict=True)]
