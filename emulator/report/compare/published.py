"""A result against published figures: for each cell both values and the error, for each table how many are close.

The error is `100 * (result - published) / published` %. A published cell that the result lacks is missing: it counts
as a cell that is not close. A cell of the result that was not published is counted and no more. An error that is not
larger than the rounding of the published figure may be none.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from emulator.errors import UsageError
from emulator.report.compare.metrics import METRICS, Metric, metric_of
from emulator.report.compare.results import Measured
from emulator.report.reference import CellTable, Key
from emulator.scenario.text import allowed_list, quoted

LEVELS_PCT = (5, 10, 20)
ALL = "all"
_SLACK = 1e-9  # of a percent: 1.1 against 1.0 is 10 % and not 10.000000000000009 %
_REQUIREMENT = re.compile(r"(?P<column>[^:]+):(?P<pct>[0-9]+(\.[0-9]+)?)%?:(?P<cells>[0-9]+|all)")


@dataclass(frozen=True)
class CellError:
    """One published figure and what the result has for it."""

    key: Key
    published: float
    half_width: float
    """half of the step in which it was published"""
    result: float | None
    """None: missing"""

    @property
    def error_pct(self) -> float | None:
        """Signed; None when the result is missing, or when 0 was published and something else found."""
        if self.result is None or (self.published == 0 and self.result != 0):
            return None
        return 100 * (self.result - self.published) / self.published if self.published else 0.0

    @property
    def in_rounding(self) -> bool:
        """Whether the true figure may have been the result."""
        return self.result is not None and abs(self.result - self.published) <= self.half_width * (1 + _SLACK)

    def within(self, pct: float) -> bool:
        """Whether the result is there and no farther away than that."""
        error = self.error_pct
        return error is not None and abs(error) <= pct + _SLACK


@dataclass(frozen=True)
class MetricTable:
    """All published cells of one metric."""

    metric: Metric
    cells: tuple[CellError, ...]
    not_published: tuple[Key, ...]
    """cells that only the result has"""

    def within(self, pct: float) -> int:
        """How many cells are that close."""
        return sum(cell.within(pct) for cell in self.cells)

    @property
    def missing(self) -> list[Key]:
        """Published cells that the result lacks."""
        return [cell.key for cell in self.cells if cell.result is None]

    @property
    def median_pct(self) -> float | None:
        """Of the errors' sizes, over the cells that are there."""
        sizes = [abs(cell.error_pct) for cell in self.cells if cell.error_pct is not None]
        return median(sizes) if sizes else None

    @property
    def worst(self) -> CellError | None:
        """The cell with the largest error that is there."""
        there = [cell for cell in self.cells if cell.error_pct is not None]
        return max(there, key=lambda cell: abs(cell.error_pct or 0.0), default=None)


@dataclass(frozen=True)
class Requirement:
    """`COLUMN:PCT%:CELLS`: at least that many cells of a table within that much."""

    metric: Metric
    pct: float
    cells: int | None
    """None: all of them"""

    def __str__(self) -> str:
        wanted = "all cells" if self.cells is None else f"at least {self.cells} cells"
        return f"{self.metric.column} within {self.pct:g} % in {wanted}"


@dataclass(frozen=True)
class Met:
    """What came of a requirement."""

    requirement: Requirement
    found: int
    of: int

    @property
    def ok(self) -> bool:
        """Whether enough cells are close enough."""
        return self.found >= (self.of if self.requirement.cells is None else self.requirement.cells)


@dataclass(frozen=True)
class PublishedComparison:
    """A result against a file of published figures."""

    result: Measured
    reference: CellTable
    tables: tuple[MetricTable, ...]
    met: tuple[Met, ...]

    @property
    def notes(self) -> list[str]:
        """What was left out, a line each."""
        return [*self.reference.notes, *self.result.notes]


def read_requirement(text: str) -> Requirement:
    """`pps:10%:46`, `rtt_avg_ms:35%:all`; UsageError if it is not of this form."""
    found = _REQUIREMENT.fullmatch(text.strip())
    if found is None:
        raise UsageError(
            f"--require {quoted(text)}: expected COLUMN:PERCENT:CELLS, e.g. pps:10%:46, or rtt_avg_ms:35%:all"
        )
    return Requirement(
        metric_of(found["column"]), float(found["pct"]), None if found["cells"] == ALL else int(found["cells"])
    )


def compare_published(
    result: Measured, reference: CellTable, columns: Sequence[str], requirements: Sequence[Requirement]
) -> PublishedComparison:
    """One table for each figure that both have, or for `columns` alone.

    UsageError when nothing can be compared, or when a requirement speaks of a table that is not there or has too few
    cells to ever meet it.
    """
    asked = [metric_of(column) for column in columns]
    tables = [_table(metric, result, reference) for metric in METRICS if _both(metric, result, reference)]
    if not tables:
        raise UsageError(
            f"{result.path} and {reference.path} have no figure in common: {','.join(result.columns)} against"
            f" {','.join(reference.columns)}"
        )
    for metric in [*asked, *(r.metric for r in requirements)]:
        if metric not in [table.metric for table in tables]:
            there = allowed_list(table.metric.column for table in tables)
            raise UsageError(f"{reference.path} and {result.path} do not both have {metric.column}; {there}")
    met = tuple(_met(requirement, tables) for requirement in requirements)
    return PublishedComparison(
        result, reference, tuple(table for table in tables if not asked or table.metric in asked), met
    )


def _both(metric: Metric, result: Measured, reference: CellTable) -> bool:
    published = any(metric.column in row for row in reference.cells.values())
    return published and metric.column in result.columns


def _table(metric: Metric, result: Measured, reference: CellTable) -> MetricTable:
    published = {key: row[metric.column] for key, row in reference.cells.items() if metric.column in row}
    cells = [
        CellError(key, figure.value, figure.half_width, result.cells.get(key, {}).get(metric.column))
        for key, figure in published.items()
    ]
    extra = tuple(key for key, row in result.cells.items() if metric.column in row and key not in published)
    return MetricTable(metric, tuple(cells), extra)


def _met(requirement: Requirement, tables: Sequence[MetricTable]) -> Met:
    table = next(table for table in tables if table.metric == requirement.metric)
    if requirement.cells is not None and requirement.cells > len(table.cells):
        raise UsageError(f"--require: {requirement}, but only {len(table.cells)} are published")
    return Met(requirement, table.within(requirement.pct), len(table.cells))
