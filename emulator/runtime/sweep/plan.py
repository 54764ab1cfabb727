"""The plan of a sweep: its cells, their order, the time that they will take.

Cells run in an order shuffled by the scenario's seed, so that what changes with the time of day on a real machine does
not look like an effect of the fields. The order depends on nothing but the seed and the number of cells.

Expected time. Real clock: warm-up, window and what starting and stopping take, one cell after the other. Virtual clock:
`OFFERED_NS` for each packet that the flood sends and `RECEIVED_NS` more for each that is received, on a CPU that has
nothing else to do; no more cells at once than there are CPUs. A flood sends what its rate says, and at `max` a packet
in what the host profile says that building and enqueuing cost; the receiver takes what its own costs let it. Cells that
have finished then say how far that was from the truth.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from emulator.report.figures import plural, wait
from emulator.report.sweep_setting import setting_text
from emulator.scenario import LoadedScenario, Scenario
from emulator.scenario.matrix import Matrix, PlannedCell

START_S = 5.0
"""from the command line to the first cell: loading the compiled code"""
REAL_OVERHEAD_S = 1.5
"""starting the agents, waiting for the last replies, stopping"""
VIRTUAL_OVERHEAD_S = 0.15
OFFERED_NS = 125.0
"""what one packet of the flood takes to simulate, up to the qdisc"""
RECEIVED_NS = 120.0
"""what it takes more when it is received"""
_UNKNOWN_PPS = 3_000_000.0
"""a flood that costs nothing"""

_PACKAGE = Path(__file__).resolve().parents[2]
_MEASURES = (
    "kernel/**/*.py",
    "agents/*.py",
    "runtime/*.py",
    "runtime/sweep/cell.py",
    "scenario/*.py",
    *(f"report/{name}.py" for name in ("cell_form", "cells", "codec", "expect", "histogram", "measurement")),
    *(f"report/{name}.py" for name in ("statistics", "summary", "tc")),
)


class Plan:
    """The cells of a sweep, the order in which they run, and how long each is expected to take."""

    def __init__(self, loaded: LoadedScenario, matrix: Matrix, workers: int, cpus: int | None = None) -> None:
        """cpus: that the workers share; by default those that this process may use."""
        self.loaded, self.matrix, self.workers = loaded, matrix, workers
        self.cpus = len(os.sched_getaffinity(0)) if cpus is None else cpus
        self.cells = matrix.cells
        self.order = run_order(len(self.cells), loaded.base.seed)
        self._expected: dict[int, float] = {}

    def to_run(self, done: Sequence[int] = ()) -> list[PlannedCell]:
        """The cells in the order in which they run, without those at these places of the plan."""
        there = set(done)
        return [self.cells[index] for index in self.order if index not in there]

    def expected_s(self, cell: PlannedCell) -> float:
        """Seconds that a cell takes a worker."""
        if cell.index not in self._expected:
            self._expected[cell.index] = expected_cell_s(Scenario.model_validate(cell.scenario))
        return self._expected[cell.index]

    def forecast(self, cells: Sequence[PlannedCell]) -> Forecast:
        """How long these take, once the first has begun."""
        return Forecast([self.expected_s(cell) for cell in cells], self.workers, self.cpus)

    def whole_s(self, cells: Sequence[PlannedCell]) -> float:
        """Seconds that these take, start-up included."""
        return START_S + self.forecast(cells).left_s() if cells else 0.0

    def to_plain(self) -> list[dict[str, Any]]:
        """The cells without their scenarios, which follow from the sweep's."""
        return [{key: value for key, value in asdict(cell).items() if key != "scenario"} for cell in self.cells]

    def identity(self) -> dict[str, Any]:
        """What makes a sweep this one: two with the same give the same records."""
        return {
            "sources": sources_hash(),
            "scenario": self.loaded.effective(),
            "plan": self.to_plain(),
            "order": self.order,
        }

    def text(self, cells: Sequence[PlannedCell]) -> str:
        """What is to be run, how long that takes, and what that rests on; ends in a newline."""
        base, done = self.loaded.base, len(self.cells) - len(cells)
        lines = [setting_text(self.loaded.effective(), plural(len(self.cells), "cell"))]
        if self.loaded.compares:
            lines.append(f"  compare: {', '.join(placed.scenario.variant_name for placed in self.loaded.running)}")
        lines += [f"  {name}: {', '.join(values)}" for name, values in self.matrix.values().items()]
        if self.matrix.repetitions > 1:
            lines.append(f"  repetitions: {self.matrix.repetitions}, with seeds {base.seed}..{self.cells[-1].seed}")
        if self.matrix.left_out:
            lines.append(f"  {plural(self.matrix.left_out, 'combination')} left out, which mean the same as another")
        if done:
            lines.append(f"  {plural(done, 'cell')} of these are there already")
        if cells:
            lines.append(f"expected to take about {wait(self.whole_s(cells))} ({self._assumption(cells)})")
        else:
            lines.append("nothing is left to run")
        return "".join(f"{line}\n" for line in lines)

    def _assumption(self, cells: Sequence[PlannedCell]) -> str:
        start = f"{START_S:g} s of it to start"
        if self.loaded.base.clock == "real":
            return f"{start}; one cell at a time, {REAL_OVERHEAD_S:g} s to start and stop each"
        at_once = min(self.workers, len(cells))
        workers = plural(at_once, "worker")
        if at_once > self.cpus:
            return f"{start}; {workers} on {plural(self.cpus, 'CPU')}, which do nothing else"
        return f"{start}; {workers}, {'which has' if at_once == 1 else 'each with'} a CPU that does nothing else"


class Forecast:
    """How long the rest of a sweep takes, the better known the more cells have finished."""

    def __init__(self, expected_s: Sequence[float], workers: int, cpus: int) -> None:
        """expected_s: of each cell that is to run, with a CPU to itself."""
        self._left = list(expected_s)
        self._workers = min(workers, max(1, len(expected_s)))
        self._at_once = min(self._workers, cpus)
        self._expected_done_s = 0.0
        self._took_s = 0.0

    def finished(self, expected_s: float, took_s: float | None) -> None:
        """A cell that was expected to take so long took so long; None: it is not known."""
        self._left.remove(expected_s)
        if took_s is not None:
            self._expected_done_s += expected_s
            self._took_s += took_s

    def left_s(self) -> float:
        """Seconds until the last cell ends."""
        if not self._left:
            return 0.0
        scale = 1.0
        if self._expected_done_s:  # workers that share a CPU each take longer by as much
            scale = self._took_s / self._expected_done_s * self._at_once / self._workers
        return scale * max(sum(self._left) / self._at_once, max(self._left))


def run_order(cells: int, seed: int) -> list[int]:
    """Places in the plan in the order in which they run."""
    order = list(range(cells))
    random.Random(seed).shuffle(order)
    return order


def expected_cell_s(scenario: Scenario) -> float:
    """Seconds that one cell takes one worker."""
    simulated_s = (scenario.warmup + scenario.duration) / 1e9
    if scenario.clock == "real":
        return simulated_s + REAL_OVERHEAD_S
    offered = flood_pps(scenario)
    received = min(offered, receiver_pps(scenario))
    return VIRTUAL_OVERHEAD_S + simulated_s * (offered * OFFERED_NS + received * RECEIVED_NS) / 1e9


def flood_pps(scenario: Scenario) -> float:
    """Packets a second that all threads of the flood are taken to send."""
    if not scenario.flooding:
        return 0.0
    cost_ns = scenario.host.skb_build + scenario.host.qdisc_enqueue if scenario.host else 0.0
    fastest = 1e9 / cost_ns if cost_ns > 0 else _UNKNOWN_PPS
    return scenario.flood.threads * min(fastest, fastest if scenario.flood.rate is None else scenario.flood.rate)


def receiver_pps(scenario: Scenario) -> float:
    """Packets a second that the receiver can take, which runs the qdisc too when it wakes the queue."""
    cost_ns = float(scenario.netfilter_cost_ns)
    if scenario.host:
        host = scenario.host
        cost_ns += host.ring_consume + host.gro_receive + host.stack_rx + host.qdisc_dequeue + host.veth_xmit
    return 1e9 / cost_ns if cost_ns > 0 else float("inf")


def measuring_sources() -> list[Path]:
    """The files of the package that decide what the record of a cell holds, relative to it."""
    return [path.relative_to(_PACKAGE) for pattern in _MEASURES for path in sorted(_PACKAGE.glob(pattern))]


def sources_hash() -> str:
    """Hash of those files, the same wherever the package lies."""
    digest = hashlib.sha256()
    for path in measuring_sources():
        digest.update(str(path).encode() + b"\0" + (_PACKAGE / path).read_bytes())
    return digest.hexdigest()[:16]
