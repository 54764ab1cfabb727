"""What is compared of two results: for each cell and metric the numbers of one side, and how independent they are.

A sweep gives one number for each repetition. A run is one repetition, so its own parts must do:

    throughput  the rates of its ten parts
    RTT         blocks of consecutive pings: neighbours waited in the same queue, so single pings are not independent

What a run's parts show is how steady it was; how much runs differ from each other, only repetitions can say.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from emulator.errors import UsageError
from emulator.report.cells import is_sweep, read_sweep
from emulator.report.compare.metrics import Metric
from emulator.report.compare.ranks import Samples, Statistic
from emulator.report.compare.results import failure
from emulator.report.compare.settings import (
    UNKNOWN,
    Settings,
    fields_of_sweep,
    fields_of_variant,
    settings_of_run,
    settings_of_sweep,
)
from emulator.report.compare.where import Where, select
from emulator.report.reference import normal_key
from emulator.report.runs import Run, RunVariant, is_run, read_run
from emulator.report.statistics import NS_PER_MS, percentile
from emulator.report.summary import sub_rates

REPETITIONS, PARTS, BLOCKS = "repetitions", "parts", "blocks"
MOST_BLOCKS, LEAST_IN_BLOCK = 20, 5
VIRTUAL = "virtual"


@dataclass(frozen=True, eq=False)
class Sample:
    """One side of one comparison."""

    values: Samples
    """in the metric's shown unit: of each repetition, part or block"""
    kind: str = REPETITIONS
    blocks: tuple[Samples, ...] = ()
    """BLOCKS: the single pings of each"""
    statistic: Statistic | None = None
    """BLOCKS: what `values` are of `blocks`"""

    @property
    def center(self) -> float:
        """The median of the values; of blocks the statistic over all of them."""
        if self.statistic is not None:
            return self.statistic(np.concatenate(self.blocks))
        return float(np.median(self.values))

    @property
    def n(self) -> int:
        """How many repetitions, parts or blocks."""
        return len(self.values)


@dataclass(frozen=True)
class SideCell:
    """A cell of one of the two results."""

    variant: str
    """stock, v5, v6, v7; of a run the variant's name"""
    place: str
    """the rest of its name: `nrules=0 50us`"""
    others: Mapping[str, str]
    """what else the sweep set"""
    samples: Mapping[str, Sample]
    """by column; a metric that was not measured is not there"""
    seeds: tuple[int, ...] = ()
    virtual: bool = False
    trouble: str = ""
    """why it must not be compared"""
    fields: Mapping[str, str] = field(default_factory=dict)
    """the settings that its name does not tell, by their names in the scenario"""


@dataclass(frozen=True)
class Side:
    """One of the two results."""

    path: Path
    cells: tuple[SideCell, ...]
    of_runs: bool
    notes: tuple[str, ...] = field(default=())
    settings: Settings = UNKNOWN


def read_side(path: Path, metrics: Sequence[Metric], where: Where) -> Side:
    """Read a directory of a sweep or of a run; UsageError if it is neither."""
    if is_sweep(path):
        return _of_sweep(path, metrics, where)
    if is_run(path):
        if where:
            raise UsageError(f"{path}: holds a run; --where wants a sweep's directory")
        return _of_run(read_run(path), metrics)
    raise UsageError(f"{path}: is not the directory of a run's or a sweep's results")


def _of_sweep(path: Path, metrics: Sequence[Metric], where: Where) -> Side:
    sweep = read_sweep(path)
    cells = []
    notes = [*sweep.notes]
    if not sweep.complete:
        notes.append(f"{path}: the sweep is not complete: {len(sweep.records)} of {len(sweep.manifest['plan'])} done")
    fields = fields_of_sweep(sweep)
    chosen = select(sweep.cells, where, str(path), fields)
    for cell in chosen:
        if cell.failed:
            notes.append(f"{path}: {failure(cell)}")
        key = normal_key(cell.variant, cell.nrules, cell.tx_usecs)
        found = {m.column: np.array(cell.samples(m.column)) / m.divisor for m in metrics}
        cells.append(
            SideCell(
                variant=cell.variant,
                place=str(key).removeprefix(cell.variant).strip(),
                others={name: str(value) for name, value in cell.others.items()},
                samples={column: Sample(values) for column, values in found.items() if len(values)},
                seeds=tuple(int(record["seed"]) for record in cell.ok),
                virtual=bool(cell.ok) and all(r["summary"].get("clock") == VIRTUAL for r in cell.ok),
                trouble="" if cell.ok else "failed",
                fields=fields,
            )
        )
    return Side(path, tuple(cells), of_runs=False, notes=tuple(notes), settings=settings_of_sweep(sweep, chosen))


def _of_run(run: Run, metrics: Sequence[Metric]) -> Side:
    seed = run.manifest.get("seed")
    return Side(
        run.path,
        tuple(
            SideCell(
                variant=variant.name,
                place="",
                others={},
                samples=_parts(variant, metrics),
                seeds=(seed,) if isinstance(seed, int) else (),
                virtual=variant.summary["clock"] == VIRTUAL,
                trouble=_trouble(variant),
                fields=fields_of_variant(run, variant),
            )
            for variant in run.variants
        ),
        of_runs=True,
        settings=settings_of_run(run),
    )


def _trouble(variant: RunVariant) -> str:
    summary = variant.summary
    if not summary["complete"]:
        return f"incomplete: {summary['verdict']}"
    if summary["fault"]:
        return f"kernel fault: {summary['fault']}"
    return "broke an identity" if summary["identities"]["ok"] is False else ""


def _parts(variant: RunVariant, metrics: Sequence[Metric]) -> dict[str, Sample]:
    samples: dict[str, Sample] = {}
    for metric in metrics:
        statistic = _STATISTICS.get(metric.column)
        if metric.column == "pps":
            rates, _length_s = sub_rates(
                variant.series.get("t_s"), variant.series.get("received"), variant.summary["duration_s"]
            )
            if len(rates):
                samples[metric.column] = Sample(rates / metric.divisor, PARTS)
        elif statistic is not None and len(variant.rtts_ns):
            blocks = rtt_blocks(variant.rtts_ns / NS_PER_MS)
            values = np.array([statistic(block) for block in blocks])
            samples[metric.column] = Sample(values, BLOCKS, blocks, statistic)
    return samples


def rtt_blocks(rtts_ms: Samples) -> tuple[Samples, ...]:
    """Up to twenty blocks of consecutive pings, at least five pings each."""
    count = max(1, min(MOST_BLOCKS, len(rtts_ms) // LEAST_IN_BLOCK))
    return tuple(np.array_split(rtts_ms, count))


def _mean(samples: Samples) -> float:
    return float(samples.mean())


def _rank(q: float) -> Statistic:
    return lambda samples: float(percentile(np.sort(samples), q) or 0.0)


_STATISTICS: dict[str, Statistic] = {
    "rtt_avg_ms": _mean,
    "rtt_p50_ms": _rank(50),
    "rtt_p99_ms": _rank(99),
}
OF_RUNS = ("pps", *_STATISTICS)
"""columns that a run's parts have"""
