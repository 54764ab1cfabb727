"""Which plots there are of which results, and their files."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.errors import CannotRun, UsageError
from emulator.report.compare.differences import compare_sides
from emulator.report.compare.metrics import USUAL, metrics_of
from emulator.report.compare.samples import read_side
from emulator.report.compare.where import Where
from emulator.report.plot import ab, cdf, heatmap, lines, published, series, violins
from emulator.report.plot.data import Data, Nothing, RunData, SweepData, read_data
from emulator.report.plot.style import styled
from emulator.report.reference import CellTable
from emulator.report.rundir import safe_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = ("lines", "heatmap", "cdf", "violins", "series", "ab", "reference")
FORMATS = ("png", "svg")
_METADATA = {"png": {"Software": "veth-emulator"}, "svg": {"Date": None, "Creator": "veth-emulator"}}


@dataclass(frozen=True)
class Wanted:
    """What a user asked for."""

    results: Sequence[Path]
    kinds: Sequence[str]
    """empty: all that there are of these results"""
    columns: Sequence[str]
    """metrics; empty: those that the list posts"""
    where: Where
    reference: CellTable | None
    elsewhere: Sequence[str] = ()
    """names of `where` that choose among the published figures alone"""


def plot(wanted: Wanted, out: Path, formats: Sequence[str]) -> Iterator[Path | str]:
    """Draws and writes; each path as soon as its file is there, or a line that says what was left out and why.

    UsageError for what is no result or has nothing of a kind that was asked for; CannotRun when it cannot be written.
    """
    results = [read_data(path, wanted.where, wanted.elsewhere) for path in wanted.results]
    suffix = _chosen(wanted)
    with styled():
        for name, made in _make(wanted, results):
            if isinstance(made, str):
                yield f"{name}: nothing to plot: {made}"
                continue
            for form in formats:
                yield _write(out / f"{name}{suffix}.{form}", encoded(made, form))


def _make(wanted: Wanted, results: Sequence[Data]) -> Iterator[tuple[str, Figure | str]]:
    """(name, figure) of each plot; (kind, reason) where a kind that fits these results has nothing to show.

    UsageError when a kind that was asked for has nothing to show.
    """
    for kind in wanted.kinds or _usual(results, wanted.reference):
        try:
            yield from _MAKERS[kind](wanted, results).items()
        except Nothing as reason:
            if wanted.kinds:
                raise UsageError(f"nothing to plot for '{kind}': {reason}") from None
            yield kind, str(reason)


def _chosen(wanted: Wanted) -> str:
    """What `--where` chose, for the names of files: `-num_tx_queues-6`."""
    return "".join(
        f"-{safe_name('-'.join([name.rpartition('.')[2], *values]))}"
        for name, values in wanted.where.items()
        if name not in wanted.elsewhere
    )


def encoded(figure: Figure, form: str) -> bytes:
    """The bytes of a file: the same for the same figure."""
    stream = io.BytesIO()
    figure.savefig(stream, format=form, metadata=_METADATA[form])
    return stream.getvalue()


def _write(path: Path, data: bytes) -> Path:
    beside = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            beside.write_bytes(data)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise CannotRun(
            f"cannot write {path}: {error.strerror or error}; make room or choose another place with --out DIR"
        ) from None
    return path


def _usual(results: Sequence[Data], reference: CellTable | None) -> list[str]:
    """The kinds that fit these results."""
    if len(results) > 1:
        distributions = all(isinstance(data, RunData) or data.cells for data in results)
        return [*(["ab"] if len(results) == 2 else []), *(["cdf"] if distributions else [])]
    if isinstance(results[0], RunData):
        return ["cdf", "series", "violins"]
    return [
        "lines",
        "heatmap",
        *(["cdf", "violins"] if results[0].cells else []),
        *(["reference"] if reference else []),
    ]


def _sweep(results: Sequence[Data]) -> SweepData:
    data = _one(results)
    if not isinstance(data, SweepData):
        raise Nothing(f"{data.path} holds a run; give a sweep")
    return data


def _one(results: Sequence[Data]) -> Data:
    if len(results) != 1:
        raise Nothing("it shows one result; give one")
    return results[0]


def _metrics(wanted: Wanted, data: SweepData, also: Callable[[str], bool] = lambda _column: True) -> list[str]:
    """What was asked for, or what of the usual is there."""
    if wanted.columns:
        return list(wanted.columns)
    there = [c for c in USUAL if any(c in row for row in data.values.values()) and also(c)]
    if not there:
        raise Nothing(f"no cell has {' or '.join(USUAL)}")
    return there


def _lines(wanted: Wanted, results: Sequence[Data]) -> dict[str, Figure]:
    data = _sweep(results)
    return lines.figures(data, metrics_of(_metrics(wanted, data)))


def _heatmap(wanted: Wanted, results: Sequence[Data]) -> dict[str, Figure]:
    data = _sweep(results)
    return heatmap.figures(data, metrics_of(_metrics(wanted, data)))


def _reference(wanted: Wanted, results: Sequence[Data]) -> dict[str, Figure]:
    data, reference = _sweep(results), wanted.reference
    if reference is None:
        raise Nothing("give the published figures with --reference CSV")
    there = _metrics(wanted, data, lambda column: any(column in row for row in reference.cells.values()))
    return published.figures(data, reference, metrics_of(there))


def _cdf(_wanted: Wanted, results: Sequence[Data]) -> dict[str, Figure]:
    return cdf.figures(results)


def _violins(_wanted: Wanted, results: Sequence[Data]) -> dict[str, Figure]:
    return violins.figures(_one(results))


def _series(_wanted: Wanted, results: Sequence[Data]) -> dict[str, Figure]:
    data = _one(results)
    if not isinstance(data, RunData):
        raise Nothing(f"{data.path}: a sweep keeps no time series; give the directory of a run")
    return series.figures(data)


def _ab(wanted: Wanted, results: Sequence[Data]) -> dict[str, Figure]:
    if len(results) != 2:
        raise Nothing("it shows two results; give A and B")
    if any(isinstance(data, SweepData) and not data.cells for data in results):
        raise Nothing("a sweep.csv has no repetitions; give the sweeps' directories")
    metrics = metrics_of(wanted.columns)
    a, b = (read_side(data.path, metrics, wanted.where) for data in results)
    return ab.figures(compare_sides(a, b, metrics))


_MAKERS: dict[str, Callable[[Wanted, Sequence[Data]], dict[str, Figure]]] = {
    "lines": _lines,
    "heatmap": _heatmap,
    "cdf": _cdf,
    "violins": _violins,
    "series": _series,
    "ab": _ab,
    "reference": _reference,
}
