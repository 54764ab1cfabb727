"""A host profile from the throughput of a stock column alone.

Without BQL the receiver is the bottleneck and the ring never runs dry, so one packet takes 1e9 / pps nanoseconds on the
receiving CPU: its own costs and that of the rules. What follows from that, and what is taken from a base profile:

* Netfilter's table, a point for each row: the cost with which the virtual clock's own stock run gives the row's pps.
  Between the rows and beyond the last the profile interpolates as always.
* The speed of the machine, if there is a row without rules: the base's costs of work are scaled, all by one factor,
  until its packet without rules takes as long. Without such a row there is nothing to tell it from, and the base's
  costs stay as they are, unless they are more than the fastest row leaves room for. Then that row stands for 0 rules.
* Waiting (`WAITING`), which costs no throughput, is the base's.
* The point for 0 rules where no row gives it: on the line through the two lowest rows, but not below 0. With a single
  row: the base's.

Each row is simulated, corrected by the difference of the packet times, and simulated again: the costs are in series, so
that a few steps do. Costs are whole nanoseconds, as the clock adds them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from emulator.report.summary import summarise
from emulator.runtime.stock_column import StockRow
from emulator.runtime.virtual import run_virtual
from emulator.scenario import HostProfile, Scenario

WAITING = ("napi_wakeup", "return_path", "timer_slack")
"""costs during which no CPU works"""
TOLERANCE = 0.001
_CLOSE, _CLOSE_NS = TOLERANCE / 4, 0.6  # no nearer is worth another step, or possible
_STEPS = 8
_PACKETS = 10_000  # simulated for each row; one more or less is 0.01 %
_SETTLE_PACKETS = 2_000
_FLOOD_PPS = 300_000
_EXCESS = 3  # a flood of this many times what arrives is as good as the fastest, and quicker to simulate
_SHORTEST_NS = 1_000_000
_GUESS_PPS = 1_000_000  # without rules, before anything is known

Simulate = Callable[[HostProfile, int, float, bool], float]
"""``simulate(profile, nrules, expected_pps, all_out)``: packets a second that arrive; ``all_out``: expected may be far
off, so flood as fast as the profile can"""


@dataclass(frozen=True)
class FittedRow:
    """A row and what the fitted profile makes of it."""

    row: StockRow
    simulated_pps: float

    @property
    def error(self) -> float:
        """Relative: 0.01 is one percent too fast."""
        return self.simulated_pps / self.row.pps - 1

    @property
    def ok(self) -> bool:
        """Within a thousandth, or within the nanosecond that is the least that a cost can change by."""
        return abs(self.error) <= TOLERANCE or abs(1e9 / self.simulated_pps - self.row.packet_ns) <= 1


@dataclass(frozen=True)
class Fit:
    """The profile, and how it was come by."""

    profile: HostProfile
    rows: tuple[FittedRow, ...]
    speed: float
    """factor on the base's costs of work; 1: as they are"""
    zero_given: bool
    """whether a row says what a packet costs without rules"""


def fit_profile(
    rows: Sequence[StockRow],
    base: HostProfile,
    name: str,
    description: str = "",
    *,
    simulate: Simulate | None = None,
) -> Fit:
    """Fit `rows`, fewest rules first."""
    return _Fitter(rows, _with(base, name=name, description=description), simulate or simulated_pps).fit()


def simulated_pps(profile: HostProfile, nrules: int, expected_pps: float, all_out: bool = False) -> float:
    """What arrives in a stock run by the virtual clock, long enough for some 10000 packets."""
    scenario = Scenario.model_validate(
        {
            "name": "fit",
            "clock": "virtual",
            "warmup": _time_of(_SETTLE_PACKETS, expected_pps),
            "duration": _time_of(_PACKETS, expected_pps),
            "host": profile,
            "device": {"bql": {"variant": "off"}, "qdisc": {"kind": "fq_codel"}},
            "flood": {"rate": _flood_rate(expected_pps, all_out)},
            "netfilter": {"rules": nrules},
            "ping": {},
        }
    )
    goodput = summarise(run_virtual(scenario))["goodput_pps"]
    return float(goodput or 0)


def _flood_rate(expected_pps: float, all_out: bool) -> str:
    return "max" if all_out or expected_pps * _EXCESS > _FLOOD_PPS else f"{round(expected_pps * _EXCESS)}pps"


def _time_of(packets: int, pps: float) -> str:
    return f"{max(_SHORTEST_NS, round(packets / pps * 1e9))}ns"


class _Fitter:
    def __init__(self, rows: Sequence[StockRow], base: HostProfile, simulate: Simulate) -> None:
        self._rows, self._base, self._simulate = rows, base, simulate
        self._speed = 1.0

    def fit(self) -> Fit:
        lowest = self._rows[0]
        zero_given = lowest.nrules == 0
        profile = _with(self._base, netfilter_rule=0.0)
        zero_ns = 1e9 / self._simulate(profile, 0, _GUESS_PPS, True)
        if zero_given or zero_ns > lowest.packet_ns * (1 + TOLERANCE):
            profile, zero_ns = self._scaled_to(lowest, zero_ns)
        costs = [max(0.0, row.packet_ns - zero_ns) for row in self._rows]
        profile, fitted = self._corrected(profile, costs)
        return Fit(profile, tuple(fitted), self._speed, zero_given)

    def _scaled_to(self, row: StockRow, ns: float) -> tuple[HostProfile, float]:
        """All work of the base scaled by one factor, so that with no cost of rules a packet takes what it takes here.

        What rounding leaves goes to ``stack_rx``, the largest of the costs that no other figure depends on.
        """
        profile = self._base
        for number in range(_STEPS):
            if number < 2:
                self._speed *= row.packet_ns / ns
                profile = _with(_scaled(self._base, self._speed), netfilter_rule=0.0)
            else:
                profile = _with(profile, stack_rx=max(0.0, profile.stack_rx + round(row.packet_ns - ns)))
            ns = 1e9 / self._simulate(profile, 0, row.pps, True)
            if number > 0 and abs(row.packet_ns - ns) <= _CLOSE_NS:
                break
        return profile, ns

    def _corrected(self, profile: HostProfile, costs: list[float]) -> tuple[HostProfile, list[FittedRow]]:
        """The costs of the rules moved until every row is reproduced; the closest of all steps counts, row by row."""
        best: list[tuple[float, float, float]] = [(float("inf"), 0.0, 0.0)] * len(costs)
        open_rows = set(range(len(costs)))
        for _ in range(_STEPS):
            costs = list(accumulate(costs, max))
            trial = _with(profile, netfilter_rule=self._table(costs))
            for i in sorted(open_rows):
                row = self._rows[i]
                pps = self._simulate(trial, row.nrules, row.pps, False)
                best[i] = min(best[i], (abs(pps / row.pps - 1), costs[i], pps))
                if best[i][0] <= _CLOSE or abs(row.packet_ns - 1e9 / pps) <= _CLOSE_NS:
                    open_rows.discard(i)
                else:
                    costs[i] = max(0.0, float(round(costs[i] + row.packet_ns - 1e9 / pps)))
            if not open_rows:
                break
        profile = _with(profile, netfilter_rule=self._table(list(accumulate((cost for _, cost, _ in best), max))))
        fitted = [FittedRow(row, self._simulate(profile, row.nrules, row.pps, False)) for row in self._rows]
        return profile, fitted

    def _table(self, costs: Sequence[float]) -> Any:
        points = [(row.nrules, float(round(cost))) for row, cost in zip(self._rows, costs, strict=True)]
        if points[0][0] != 0:
            return ((0, self._zero_point(points)), *points)
        return tuple(points) if len(points) > 1 else _scaled_rules(self._base, self._speed)

    def _zero_point(self, points: Sequence[tuple[int, float]]) -> float:
        (n1, cost1), rest = points[0], points[1:]
        if not rest:
            return min(cost1, float(self._base.netfilter_cost_ns(0)))
        n2, cost2 = rest[0]
        return float(max(0, round(cost1 - (cost2 - cost1) * n1 / (n2 - n1))))


def _with(profile: HostProfile, **fields: Any) -> HostProfile:
    return profile.model_copy(update=fields)


def _scaled(base: HostProfile, speed: float) -> HostProfile:
    """Every cost of work times ``speed``, in whole nanoseconds."""
    return _with(base, **{name: float(round(getattr(base, name) * speed)) for name in work_costs()})


def _scaled_rules(base: HostProfile, speed: float) -> Any:
    if isinstance(base.netfilter_rule, tuple):
        return tuple((n, float(round(ns * speed))) for n, ns in base.netfilter_rule)
    return base.netfilter_rule * speed


def work_costs() -> list[str]:
    """The costs that a faster machine pays less of, rules apart."""
    apart = ("netfilter_rule", *WAITING)
    return [name for name, field in HostProfile.model_fields.items() if field.annotation is float and name not in apart]
