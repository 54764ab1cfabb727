"""What plots are drawn from: the cells of a sweep, or the variants of a run."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from emulator.errors import UsageError
from emulator.report.cells import CSV_FILE, STOCK, Cell, is_sweep, read_sweep
from emulator.report.compare.metrics import Metric
from emulator.report.compare.results import unique
from emulator.report.compare.settings import UNKNOWN, Settings, fields_of_sweep, settings_of_run, settings_of_sweep
from emulator.report.compare.where import Where, select
from emulator.report.histogram import Hist, bucket_bounds
from emulator.report.measurement import Floats
from emulator.report.reference import Key, read_cells_csv, tx_text
from emulator.report.runs import Run, is_run, read_run

MOST_CURVES = 9


class Nothing(Exception):
    """There is nothing of this kind to draw; its text says why."""


@dataclass(frozen=True)
class SweepData:
    """The cells of a sweep; of a `sweep.csv` alone there are figures and no distributions."""

    path: Path
    values: Mapping[Key, Mapping[str, float]]
    """medians over repetitions; what was not measured is not there"""
    cells: Mapping[Key, Cell]
    """empty for a `sweep.csv`"""
    notes: tuple[str, ...] = ()
    settings: Settings = UNKNOWN

    @property
    def chosen(self) -> str:
        """What else was swept and has one value in all cells: `device.num_tx_queues=6`."""
        names = dict.fromkeys(name for cell in self.cells.values() for name in cell.others)
        values = {n: {str(c.others[n]) for c in self.cells.values() if n in c.others} for n in names}
        return ", ".join(f"{name}={one.pop()}" for name, one in values.items() if len(one) == 1)

    def spread(self, key: Key, metric: Metric) -> tuple[float, float] | None:
        """Smallest and largest repetition, in the shown unit; None with fewer than two."""
        samples = self.cells[key].samples(metric.column) if key in self.cells else []
        return (min(samples) / metric.divisor, max(samples) / metric.divisor) if len(samples) > 1 else None

    @property
    def source(self) -> str:
        """Where it comes from, with its n, for below a title."""
        pings = [int(n) for cell in self.cells.values() if (n := cell.values["n"]) is not None]
        return f"{self.origin}{f', {_range(pings)} pings a cell' if pings else ''}"

    @property
    def origin(self) -> str:
        """The same without its pings, for what has nothing to do with them."""
        name = _name(self.path)
        if not self.cells:
            return f"{name}, one number a cell"
        repetitions = _range([len(cell.ok) for cell in self.cells.values()])
        n = f"n = {repetitions} repetition{'' if repetitions == '1' else 's'} a cell"
        trouble = [self.settings.trouble] if self.settings.trouble else []
        return ", ".join([name, *self.settings.said, n, *trouble])


@dataclass(frozen=True)
class RunData:
    """The variants of a run."""

    run: Run

    @property
    def path(self) -> Path:
        """Its directory."""
        return self.run.path

    @property
    def source(self) -> str:
        """Where it comes from, for below a title."""
        settings = settings_of_run(self.run)
        trouble = [settings.trouble] if settings.trouble else []
        return ", ".join([_name(self.path), *settings.said, "one run a variant", *trouble])

    @property
    def origin(self) -> str:
        """The same, as a sweep has it."""
        return self.source


Data = SweepData | RunData


def read_data(path: Path, where: Where, elsewhere: Sequence[str] = ()) -> Data:
    """Read a result; UsageError of one line if it is none.

    elsewhere: names of `where` that published figures know.
    """
    if path.name == CSV_FILE and is_sweep(path.parent):
        path = path.parent
    if is_sweep(path):
        sweep = read_sweep(path)
        selected = select(sweep.cells, where, str(path), fields_of_sweep(sweep), elsewhere)
        cells = unique(selected, str(path))
        values = {
            key: {column: float(value) for column, value in cell.values.items() if value is not None}
            for key, cell in cells.items()
        }
        return SweepData(path, values, cells, sweep.notes, settings_of_sweep(sweep, selected))
    if is_run(path):
        if where:
            raise UsageError(f"{path}: --where wants a sweep")
        return RunData(read_run(path))
    if path.is_dir():
        raise UsageError(f"{path}: is not the directory of a run's or a sweep's results")
    table = read_cells_csv(path, where, zeros=True, elsewhere=elsewhere)
    rows = {key: {column: figure.value for column, figure in row.items()} for key, row in table.cells.items()}
    return SweepData(path, rows, {}, table.notes)


@dataclass(frozen=True)
class Grid:
    """One metric of one BQL variant and of stock: rows are rules, columns tx-usecs, in the metric's shown unit."""

    metric: Metric
    variant: str
    rules: tuple[int, ...]
    tx_usecs: tuple[float, ...]
    beside: tuple[str, ...]
    """variants that do not wait, and have one column each: v5, stock"""
    values: Mapping[Key, float]

    @property
    def columns(self) -> list[tuple[str, float | None]]:
        """(variant, tx_usecs) from left to right."""
        return [*((self.variant, tx) for tx in self.tx_usecs), *((name, None) for name in self.beside)]

    @property
    def column_labels(self) -> list[str]:
        """What stands below them."""
        return [tx_text(tx).removesuffix("us") if tx is not None else name for name, tx in self.columns]


def grids(data: SweepData, metric: Metric) -> list[Grid]:
    """A grid for each BQL variant that waits; Nothing when none has the metric."""
    values = {k: row[metric.column] / metric.divisor for k, row in data.values.items() if metric.column in row}
    values = {k: value for k, value in values.items() if k.nrules is not None}
    if not values:
        raise Nothing(f"no cell has {metric.column}")
    waiting = list(dict.fromkeys(key.variant for key in values if key.tx_usecs is not None))
    beside = [name for name in ("v5", STOCK) if any(key.variant == name for key in values)]
    return [_grid(metric, variant, beside, values) for variant in waiting or [""]]


def _grid(metric: Metric, variant: str, beside: Sequence[str], values: Mapping[Key, float]) -> Grid:
    mine = {key: value for key, value in values.items() if key.variant in (variant, *beside)}
    return Grid(
        metric,
        variant,
        tuple(sorted({key.nrules for key in mine if key.nrules is not None})),
        tuple(sorted({key.tx_usecs for key in mine if key.tx_usecs is not None})),
        tuple(beside),
        mine,
    )


def few(results: Sequence[SweepData], names: Sequence[str]) -> list[dict[Key, Cell]]:
    """The cells of which curves or violins are drawn; Nothing when a result has none with one of these distributions.

    All cells that have one if they are few in each result; otherwise those of the largest rules count that all results
    have, evenly thinned out.
    """
    found = [_with_distribution(data, names) for data in results]
    if max(map(len, found), default=0) > MOST_CURVES:
        shared = set.intersection(*({key.nrules or 0 for key in cells} for cells in found))
        found = [_of_rules(cells, max(shared or {key.nrules or 0 for key in cells})) for cells in found]
    return [_thinned(cells) for cells in found]


def _with_distribution(data: SweepData, names: Sequence[str]) -> dict[Key, Cell]:
    if not data.cells:
        raise Nothing("a sweep.csv has no distributions; give the sweep's directory")
    cells = {k: c for k, c in data.cells.items() if any(c.histogram(name) is not None for name in names)}
    if not cells:
        raise Nothing(f"no cell has a distribution of {' or '.join(names)}")
    return cells


def _of_rules(cells: Mapping[Key, Cell], nrules: int) -> dict[Key, Cell]:
    return {key: cell for key, cell in cells.items() if (key.nrules or 0) == nrules}


def _thinned(cells: dict[Key, Cell]) -> dict[Key, Cell]:
    if len(cells) <= MOST_CURVES:
        return cells
    picked = np.linspace(0, len(cells) - 1, MOST_CURVES).round().astype(int)
    return {key: cells[key] for i, key in enumerate(list(cells)) if i in picked}


def labels(keys: Iterable[Key]) -> tuple[str, dict[Key, str]]:
    """(what all of these cells have in common, what tells them apart)."""
    together = list(dict.fromkeys(keys))
    same_rules = len({key.nrules for key in together}) == 1
    same_variant = len({key.variant for key in together} - {STOCK}) == 1
    common = [f"nrules={together[0].nrules}"] if same_rules else []
    common = [*({key.variant for key in together} - {STOCK}), *common] if same_variant else common
    return ", ".join(common), {k: _short(k, same_rules=same_rules, same_variant=same_variant) for k in together}


def _short(key: Key, *, same_rules: bool, same_variant: bool) -> str:
    variant = "" if same_variant and key.variant != STOCK and key.tx_usecs is not None else key.variant
    rules = "" if same_rules else f"nrules={key.nrules}"
    return " ".join(part for part in (variant, rules, tx_text(key.tx_usecs)) if part)


def cumulative(hist: Hist) -> tuple[Floats, Floats]:
    """(edges, share of all at or below each): a line that rises evenly within a bucket.

    A whole number v is taken to lie between v - 0.5 and v + 0.5; no edge lies beyond the smallest and largest value.
    """
    filled = np.flatnonzero(hist.counts)
    bounds = np.array([bucket_bounds(int(i)) for i in filled], dtype=np.float64)
    low, high = np.maximum(bounds[:, 0], hist.min) - 0.5, np.minimum(bounds[:, 1], hist.max) + 0.5
    shares = np.cumsum(hist.counts[filled]) / hist.counts.sum()
    edges = np.column_stack([low, high]).ravel()
    at = np.column_stack([np.concatenate([[0.0], shares[:-1]]), shares]).ravel()
    return edges, at


def middle_percentile(hist: Hist, q: float) -> float | None:
    """The middle of the bucket in which a percentile lies; exact below 128."""
    highest = hist.percentile(q)
    if highest is None:
        return None
    index = int(np.searchsorted(np.cumsum(hist.counts), max(1, np.ceil(q * hist.counts.sum() / 100))))
    low, high = bucket_bounds(index)
    return (max(low, hist.min) + min(high, hist.max)) / 2


def _name(path: Path) -> str:
    return path.name or path.resolve().name


def _range(numbers: Sequence[int]) -> str:
    if not numbers:
        return "0"
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low}..{high}"
