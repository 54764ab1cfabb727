"""The plan of a sweep: its cells, their order, the time that they will take.

Cells run in an order shuffled by the scenario's seed, so that what changes with the time of day on a real machine does
not look like an effect of the fields. The order depends on nothing but the seed and the number of cells.

Expected time. Real clock: warm-up, window and what starting and stopping take, one cell after the other. Virtual clock:
the packets that the flood sends, at `SIMULATED_PPS` simulated packets a second and worker. A flood sends what its rate
says, and at `max` a packet in what the host profile says that building and enqueuing cost. Cells that have finished
then say how far that was from the truth.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from emulator.report.figures import plural, rate, wait
from emulator.scenario import LoadedScenario, Scenario
from emulator.scenario.matrix import Matrix, PlannedCell
from emulator.scenario.units import format_duration

SIMULATED_PPS = 3_000_000
REAL_OVERHEAD_S = 1.5
"""starting the agents, waiting for the last replies, stopping"""
_VIRTUAL_OVERHEAD_S = 0.1

_PACKAGE = Path(__file__).resolve().parents[2]
_MEASURES = ("kernel/**/*.py", "agents/*.py", "runtime/*.py")


class Plan:
    """The cells of a sweep, the order in which they run, and how long each is expected to take."""

    def __init__(self, loaded: LoadedScenario, matrix: Matrix, workers: int) -> None:
        self.loaded, self.matrix, self.workers = loaded, matrix, workers
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
        """How long these take."""
        return Forecast([self.expected_s(cell) for cell in cells], self.workers)

    def to_plain(self) -> list[dict[str, Any]]:
        """The cells without their scenarios, which follow from the sweep's."""
        return [{key: value for key, value in asdict(cell).items() if key != "scenario"} for cell in self.cells]

    def text(self, cells: Sequence[PlannedCell]) -> str:
        """What is to be run, how long that takes, and what that rests on; ends in a newline."""
        base, done = self.loaded.base, len(self.cells) - len(cells)
        lines = [
            f"{base.name}: {plural(len(self.cells), 'cell')}, {base.clock} clock{self._window()}, seed {base.seed}"
        ]
        if self.loaded.compares:
            lines.append(f"  compare: {', '.join(placed.scenario.variant_name for placed in self.loaded.running)}")
        lines += [f"  {name}: {', '.join(values)}" for name, values in self.matrix.values().items()]
        if self.matrix.repetitions > 1:
            lines.append(f"  repetitions: {self.matrix.repetitions}, with seeds {base.seed}..{self.cells[-1].seed}")
        if self.matrix.left_out:
            lines.append(f"  {plural(self.matrix.left_out, 'combination')} left out, which mean the same as another")
        if done:
            lines.append(f"  {plural(done, 'cell')} of these are there already")
        lines.append(f"expected to take about {wait(self.forecast(cells).left_s())} ({self._assumption()})")
        return "".join(f"{line}\n" for line in lines)

    def _window(self) -> str:
        if {"duration", "warmup"} & {field.name for field in self.matrix.fields}:
            return ""
        base = self.loaded.base
        return f", {format_duration(base.duration)} after {format_duration(base.warmup)} of warmup"

    def _assumption(self) -> str:
        base = self.loaded.base
        if base.clock == "real":
            return f"one cell at a time, {REAL_OVERHEAD_S:g} s to start and stop each"
        sent, simulated = rate(flood_pps(base)), rate(SIMULATED_PPS)
        return f"assuming a flood of {sent}, and {simulated} simulated by each of {plural(self.workers, 'worker')}"


class Forecast:
    """How long the rest of a sweep takes, the better known the more cells have finished."""

    def __init__(self, expected_s: Sequence[float], workers: int) -> None:
        """expected_s: of each cell that is to run."""
        self._left_s = sum(expected_s)
        self._workers = min(workers, max(1, len(expected_s)))
        self._expected_done_s = 0.0
        self._took_s = 0.0

    def finished(self, expected_s: float, took_s: float | None) -> None:
        """A cell that was expected to take so long took so long; None: it is not known."""
        self._left_s = max(0.0, self._left_s - expected_s)
        if took_s is not None:
            self._expected_done_s += expected_s
            self._took_s += took_s

    def left_s(self) -> float:
        """Seconds until the last cell ends."""
        scale = self._took_s / self._expected_done_s if self._expected_done_s else 1.0
        return self._left_s * scale / self._workers


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
    return _VIRTUAL_OVERHEAD_S + simulated_s * flood_pps(scenario) / SIMULATED_PPS


def flood_pps(scenario: Scenario) -> float:
    """Packets a second that all threads of the flood are taken to send."""
    if not scenario.flooding:
        return 0.0
    cost_ns = scenario.host.skb_build + scenario.host.qdisc_enqueue if scenario.host else 0.0
    fastest = 1e9 / cost_ns if cost_ns > 0 else float(SIMULATED_PPS)
    return scenario.flood.threads * min(fastest, fastest if scenario.flood.rate is None else scenario.flood.rate)


def sources_hash() -> str:
    """Hash of the sources that decide what a cell measures, the same wherever they lie."""
    digest = hashlib.sha256()
    for pattern in _MEASURES:
        for path in sorted(_PACKAGE.glob(pattern)):
            digest.update(str(path.relative_to(_PACKAGE)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
