"""The figures that cells are compared by: columns of a sweep, with names and units for people."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from emulator.errors import UsageError
from emulator.scenario.text import allowed_list, did_you_mean, quoted


@dataclass(frozen=True)
class Metric:
    """A column of `sweep.csv` that can be compared."""

    column: str
    name: str
    unit: str
    """as shown; `` for a count of packets or times"""
    divisor: float = 1.0
    """from the column's unit to the shown one"""
    positive: bool = True
    """whether 0 would mean that nothing was measured"""

    @property
    def title(self) -> str:
        """`throughput, kpps`."""
        return f"{self.name}, {self.unit}" if self.unit else self.name


METRICS = (
    Metric("pps", "throughput", "kpps", 1000.0),
    Metric("rtt_avg_ms", "RTT avg", "ms"),
    Metric("rtt_p50_ms", "RTT p50", "ms"),
    Metric("rtt_p99_ms", "RTT p99", "ms"),
    Metric("rtt_max_ms", "RTT max", "ms"),
    Metric("limit_p50", "BQL limit p50", "packets", positive=False),
    Metric("count_p50", "completion p50", "packets", positive=False),
    Metric("interval_p50_us", "completion interval p50", "us"),
    Metric("inflight_max", "in flight max", "packets", positive=False),
    Metric("requeues", "requeues", "times", positive=False),
)
BY_COLUMN = {metric.column: metric for metric in METRICS}
USUAL = ("pps", "rtt_avg_ms", "rtt_p99_ms")
"""what the list posts"""


def metric_of(column: str) -> Metric:
    """The metric of a column; UsageError if none is called so."""
    if column not in BY_COLUMN:
        near = did_you_mean(column, BY_COLUMN)
        raise UsageError(f"no metric is called {quoted(column)}{near}; {allowed_list(BY_COLUMN)}")
    return BY_COLUMN[column]


def metrics_of(columns: Iterable[str], otherwise: Sequence[str] = USUAL) -> list[Metric]:
    """The metrics of columns that a user gave, each once, or of `otherwise` when none were given."""
    return [metric_of(column) for column in dict.fromkeys(columns) or otherwise]
