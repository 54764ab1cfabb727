"""A host profile: what each piece of work costs on some machine, in nanoseconds.

The emulator does most of a packet's work itself: it really takes the lock, writes the ring, shares the cache line.
Under the real clock only what it cannot do itself is burnt: the netfilter rules and `stack_rx`, the stack above GRO.
Under a virtual clock nothing takes time by itself, and every cost of this file is added where its work is done.

    name: my-host
    netfilter_rule: 7.7ns                            # a line through 0 ...
    netfilter_rule: {0: 0ns, 100: 791ns, 1000: 7.4us}  # ... or measured points: rules -> total a packet
    stack_rx: 568ns
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict
from pydantic_core import PydanticCustomError

from emulator.scenario.base import Strict
from emulator.scenario.text import found
from emulator.scenario.units import AsText, Cost, CostNs, SharePpm, fault, faults_below, format_cost, whole

MAX_RULES = 100_000

RuleTable = tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class _RuleCost(AsText):
    """One cost a rule, or a table from number of rules to a packet's total."""

    def parse(self, value: object) -> float | RuleTable:
        if not isinstance(value, dict):
            return Cost().parse(value)
        points = sorted(self._points(value))
        numbers = [n for n, _ in points]
        if len(points) < 2 or numbers[0] != 0:
            raise fault("a table needs 0 and at least one more number of rules; write e.g. {0: 0ns, 1000: 7.7us}")
        if len(set(numbers)) != len(numbers):
            raise fault("a number of rules stands twice in the table; keep one of the two")
        if any(b < a for (_, a), (_, b) in pairwise(points)):
            raise fault("more rules cost less; write costs that do not fall as rules grow")
        return tuple(points)

    def text(self, value: float | RuleTable) -> str | dict[str, str]:
        if isinstance(value, tuple):
            return {str(n): format_cost(ns) for n, ns in value}
        return format_cost(value)

    def _points(self, table: dict[Any, Any]) -> list[tuple[int, float]]:
        good: list[tuple[int, float]] = []
        bad: list[tuple[str, str]] = []
        for key, cost in table.items():
            try:
                good.append((self._rules(key), Cost().parse(cost)))
            except PydanticCustomError as error:
                bad.append((str(key), str(error)))
        if bad:
            raise faults_below(bad)
        return good

    def _rules(self, key: object) -> int:
        text = str(key)
        if not (text.isascii() and text.isdigit() and len(text) <= 6 and int(text) <= MAX_RULES):
            raise fault(f"{found(key)} is not a number of rules; allowed: 0..{MAX_RULES}")
        return int(text)


class HostProfile(Strict):
    """Costs of one machine; all default to nothing. The text below a field is its comment in a written profile."""

    model_config: ClassVar[ConfigDict] = ConfigDict(use_attribute_docstrings=True)

    name: str = ""
    """what reports call it; default: the file's stem"""
    description: str = ""
    """what machine, measured how"""
    hz: Annotated[int, whole(24, 1200)] = 1000
    """jiffies a second"""
    netfilter_rule: Annotated[float | RuleTable, _RuleCost()] = 0.0
    """ns a rule, or (rules, ns a packet) points; burnt for each packet when the GRO list is flushed"""
    stack_rx: CostNs = 0.0
    """ns to deliver one packet above GRO, rules apart; burnt"""
    skb_build: CostNs = 0.0
    """ns to allocate and fill one packet"""
    qdisc_enqueue: CostNs = 0.0
    """ns to enqueue one packet, root lock included"""
    qdisc_dequeue: CostNs = 0.0
    """ns to dequeue one packet, root lock included"""
    veth_xmit: CostNs = 0.0
    """ns from the qdisc into the ring, for one packet"""
    ring_consume: CostNs = 0.0
    """ns to take one entry out of the ring"""
    gro_receive: CostNs = 0.0
    """ns for one packet in GRO, up to the list"""
    completion: CostNs = 0.0
    """ns for one BQL completion, whatever its size"""
    napi_poll: CostNs = 0.0
    """ns for one poll, whatever it finds: begin, complete, bottom halves on"""
    napi_wakeup: CostNs = 0.0
    """ns from napi_schedule to the first poll of an idle NAPI thread"""
    echo_reply: CostNs = 0.0
    """ns to turn an echo request into its reply"""
    return_path: CostNs = 0.0
    """ns of an echo outside veth: ping's own system calls, and waking it for the reply"""
    timer_slack: CostNs = 0.0
    """ns by which a sleeper's timer may be late; how late, the seed says"""
    noise: SharePpm = 0
    """by how much stack_rx and the rules differ from packet to packet, to either side; the seed says how"""
    cache_line: CostNs = 0.0
    """ns to fetch a cache line that another CPU had last: a packet's, the queue's BQL words"""
    lock_handover: CostNs = 0.0
    """ns to take a lock that another CPU held last"""

    def netfilter_cost_ns(self, nrules: int) -> int:
        """ns that `nrules` rules cost a packet: between points on a line, beyond the last with the last slope."""
        if not isinstance(self.netfilter_rule, tuple):
            return round(self.netfilter_rule * nrules)
        points = self.netfilter_rule
        upper = next((i for i in range(1, len(points)) if nrules <= points[i][0]), len(points) - 1)
        (n0, ns0), (n1, ns1) = points[upper - 1], points[upper]
        return round(ns0 + (ns1 - ns0) * (nrules - n0) / (n1 - n0))
