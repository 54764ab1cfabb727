"""Two results against each other: for each cell and metric the difference B - A, its interval, and what may be said.

::

    lower, higher   the 95 % interval leaves out 0, and p <= 0.05 when all cells of the table are taken together (Holm)
    no difference   the interval has 0 within it, and p > 0.05
    unclear         one says so and the other does not: mostly, that p is small alone but not among so many cells
    too few         so few repetitions that even the clearest difference would have p > 0.05
    exact           the virtual clock, one repetition each: nothing but the seed is chance, and its spread is not known
    not compared    a side failed or did not measure it

Cells are matched by what the sweep set. What has one value in all cells of a sweep does not count, nor what the one BQL
variant of a sweep is called: so a sweep of v6 can be held against one of v7. Variants of runs are matched by name; two
runs of one variant each are compared whatever these are called.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from emulator.errors import UsageError
from emulator.report.cells import STOCK
from emulator.report.compare.metrics import Metric
from emulator.report.compare.ranks import (
    ALPHA,
    Interval,
    bootstrap_difference,
    holm,
    least_p,
    least_repetitions,
    rank_test,
    shift,
)
from emulator.report.compare.samples import BLOCKS, Sample, Side, SideCell
from emulator.report.compare.settings import differing
from emulator.report.figures import sig

RESAMPLES = 4000
BOOTSTRAP_SEED = 1
LOWER, HIGHER, NO_DIFFERENCE, UNCLEAR = "lower", "higher", "no difference", "unclear"
TOO_FEW, EXACT, NOT_COMPARED = "too few", "exact", "not compared"


@dataclass(frozen=True, eq=False)
class Difference:
    """One metric of one cell."""

    label: str
    a: Sample | None
    b: Sample | None
    verdict: str
    said: str
    """the verdict in words"""
    estimate: float | None = None
    """B - A in the metric's shown unit"""
    interval: Interval | None = None
    p: float | None = None
    p_holm: float | None = None

    @property
    def relative_pct(self) -> float | None:
        """Of A; None where A is 0."""
        if self.estimate is None or self.a is None or self.a.center == 0:
            return None
        return 100 * self.estimate / self.a.center


@dataclass(frozen=True)
class DifferenceTable:
    """All matched cells of one metric."""

    metric: Metric
    cells: tuple[Difference, ...]

    @property
    def tests(self) -> int:
        """How many rank tests are in the family."""
        return sum(cell.p is not None for cell in self.cells)

    def having(self, *verdicts: str) -> list[Difference]:
        """The cells of which this was said."""
        return [cell for cell in self.cells if cell.verdict in verdicts]


@dataclass(frozen=True)
class Differences:
    """Two results."""

    a: Side
    b: Side
    tables: tuple[DifferenceTable, ...]
    only_a: tuple[str, ...]
    """cells that the other lacks"""
    only_b: tuple[str, ...]
    settings: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """fields of the scenario in which compared cells differ: (A's value, B's) of each pair that is another"""
    settings_known: bool = False
    """whether both results say how they were made"""

    @property
    def notes(self) -> list[str]:
        """What was left out, a line each."""
        return [*self.a.notes, *self.b.notes]


def compare_sides(a: Side, b: Side, metrics: Sequence[Metric]) -> Differences:
    """One table for each metric that was measured; UsageError when there is nothing to compare."""
    if a.of_runs != b.of_runs:
        kinds = {True: "a run", False: "a sweep"}
        raise UsageError(f"{a.path} holds {kinds[a.of_runs]} and {b.path} {kinds[b.of_runs]}; give two of one kind")
    pairs, only_a, only_b = _matched(a, b)
    if not pairs:
        raise UsageError(f"{a.path} and {b.path} have no cell in common: {_some(only_a)} against {_some(only_b)}")
    tables = [DifferenceTable(metric, _differences(metric, pairs)) for metric in metrics]
    measured = tuple(t for t in tables if any(cell.a is not None and cell.b is not None for cell in t.cells))
    if not measured:
        asked = ", ".join(metric.column for metric in metrics)
        raise UsageError(f"{a.path} and {b.path} did not both measure {asked} in any cell")
    known = all(cell.fields for _label, *cells in pairs for cell in cells)
    return Differences(a, b, measured, tuple(only_a), tuple(only_b), _settings(pairs), known)


Pair = tuple[str, SideCell, SideCell]


def _settings(pairs: Sequence[Pair]) -> dict[str, tuple[tuple[str, str], ...]]:
    """What the names of the cells do not tell."""
    found: dict[str, dict[tuple[str, str], None]] = {}
    for _label, a, b in pairs:
        for name, values in differing({**a.fields, **a.others}, {**b.fields, **b.others}).items():
            if not (name in a.others and name in b.others):
                found.setdefault(name, {})[values] = None
    return {name: tuple(values) for name, values in found.items()}


def _matched(a: Side, b: Side) -> tuple[list[Pair], list[str], list[str]]:
    """(label and both cells), cells of A alone, cells of B alone."""
    if a.of_runs and len(a.cells) == len(b.cells) == 1:
        return [(_label(a.cells[0], b.cells[0]), a.cells[0], b.cells[0])], [], []
    in_a, in_b = _by_place(a), _by_place(b)
    pairs = [(_label(cell, in_b[place]), cell, in_b[place]) for place, cell in in_a.items() if place in in_b]
    only_a = [_label(cell, cell) for place, cell in in_a.items() if place not in in_b]
    only_b = [_label(cell, cell) for place, cell in in_b.items() if place not in in_a]
    return pairs, only_a, only_b


def _by_place(side: Side) -> dict[tuple[str, ...], SideCell]:
    names = dict.fromkeys(name for cell in side.cells for name in cell.others)
    telling = [n for n in names if len({cell.others.get(n) for cell in side.cells}) > 1]
    one_bql = not side.of_runs and len({cell.variant for cell in side.cells} - {STOCK}) == 1
    found: dict[tuple[str, ...], SideCell] = {}
    for cell in side.cells:
        variant = "bql" if one_bql and cell.variant != STOCK else cell.variant
        place = (variant, cell.place, *(f"{n}={cell.others[n]}" for n in sorted(telling) if n in cell.others))
        found[place] = cell
    return found


def _label(a: SideCell, b: SideCell) -> str:
    variant = a.variant if a.variant == b.variant else f"{a.variant}/{b.variant}"
    others = [_other(name, a.others, b.others) for name in dict.fromkeys([*a.others, *b.others])]
    return " ".join(part for part in (variant, a.place, *others) if part)


def _other(name: str, a: Mapping[str, str], b: Mapping[str, str]) -> str:
    values = dict.fromkeys(side[name] for side in (a, b) if name in side)
    return f"{name}={'/'.join(values)}"


def _some(labels: Sequence[str]) -> str:
    return ", ".join(labels[:3]) + (f" and {len(labels) - 3} more" if len(labels) > 3 else "") if labels else "none"


def _differences(metric: Metric, pairs: Sequence[Pair]) -> tuple[Difference, ...]:
    found = [_difference(metric, *pair) for pair in pairs]
    tested = [i for i, cell in enumerate(found) if cell.p is not None]
    adjusted = holm([p for cell in found if (p := cell.p) is not None])
    for i, p_holm in zip(tested, adjusted, strict=True):
        found[i] = _judged(replace(found[i], p_holm=p_holm), len(tested))
    return tuple(found)


def _difference(metric: Metric, label: str, a: SideCell, b: SideCell) -> Difference:
    one, other = a.samples.get(metric.column), b.samples.get(metric.column)
    trouble = next((f"{side} {cell.trouble}" for side, cell in (("A", a), ("B", b)) if cell.trouble), "")
    if trouble or one is None or other is None:
        lacking = " and ".join(side for side, sample in (("A", one), ("B", other)) if sample is None)
        return Difference(label, one, other, NOT_COMPARED, trouble or f"not measured in {lacking}")
    if not _testable(one, other):
        return _untested(label, one, other, a, b)
    p = rank_test(one.values, other.values)
    if one.kind == BLOCKS and one.statistic is not None:
        interval: Interval | None = bootstrap_difference(
            one.blocks, other.blocks, one.statistic, RESAMPLES, BOOTSTRAP_SEED
        )
        return Difference(label, one, other, UNCLEAR, "", other.center - one.center, interval, p)
    estimate, interval = shift(one.values, other.values)
    return Difference(label, one, other, UNCLEAR, "", estimate, interval, p)


def _testable(a: Sample, b: Sample) -> bool:
    return least_p(a.n, b.n) <= ALPHA


def _untested(label: str, one: Sample, other: Sample, a: SideCell, b: SideCell) -> Difference:
    estimate = other.center - one.center
    if a.virtual and b.virtual and one.n == other.n == 1:
        seeds = dict.fromkeys([*a.seeds, *b.seeds])
        word = f"seed {next(iter(seeds))}" if len(seeds) == 1 else f"seeds {' and '.join(map(str, seeds))}"
        same = "equal" if estimate == 0 else "exact"
        return Difference(label, one, other, EXACT, f"{same} for {word}, spread not known", estimate)
    return Difference(label, one, other, TOO_FEW, f"too few {one.kind} to tell", estimate)


def _judged(d: Difference, tests: int) -> Difference:
    """What a tested cell shows."""
    assert d.p is not None
    assert d.p_holm is not None
    around_zero = d.interval is None or d.interval.low <= 0 <= d.interval.high
    if around_zero and d.p > ALPHA:
        return replace(d, verdict=NO_DIFFERENCE, said=NO_DIFFERENCE)
    if not around_zero and d.p_holm <= ALPHA:
        verdict = LOWER if (d.estimate or 0.0) < 0 else HIGHER
        return replace(d, verdict=verdict, said=f"B {verdict}")
    return replace(d, verdict=UNCLEAR, said=f"unclear: {_why_unclear(d, tests, around_zero=around_zero)}")


def _why_unclear(d: Difference, tests: int, *, around_zero: bool) -> str:
    assert d.p is not None
    assert d.a is not None
    assert d.b is not None
    if around_zero or d.p > ALPHA:
        return f"p = {sig(d.p, 2)}, 0 {'within' if around_zero else 'outside'} the interval"
    needed = least_repetitions(tests)
    few = f", {needed} {d.a.kind} could tell" if min(d.a.n, d.b.n) < needed else ""
    return f"p = {sig(d.p, 2)} alone{few}"
