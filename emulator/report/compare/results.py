"""What a result gave, cell by cell, for holding against published figures: a sweep's directory or its `sweep.csv`."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from emulator.errors import UsageError
from emulator.report.cells import CSV_FILE, VALUES, Cell, is_sweep, read_sweep
from emulator.report.compare.settings import UNKNOWN, Settings, fields_of_sweep, settings_of_sweep
from emulator.report.compare.where import Where, select
from emulator.report.reference import Key, normal_key, read_cells_csv
from emulator.report.rundir import MANIFEST


@dataclass(frozen=True)
class Measured:
    """Figures of a result."""

    path: Path
    columns: tuple[str, ...]
    cells: Mapping[Key, Mapping[str, float]]
    """what was not measured is not there; of a failed cell nothing is"""
    notes: tuple[str, ...] = ()
    settings: Settings = UNKNOWN


def read_measured(path: Path, where: Where, elsewhere: Collection[str] = ()) -> Measured:
    """Read a result; UsageError if it is none, or if two of its cells would stand in one place.

    A `sweep.csv` that lies in its sweep's directory is read as that sweep. elsewhere: names of `where` that the other
    side knows.
    """
    if not path.is_dir() and not (path.name == CSV_FILE and is_sweep(path.parent)):
        return _of_csv(path, where, elsewhere)
    if not is_sweep(path) and (path / MANIFEST).exists():
        raise UsageError(f"{path}: holds a run; --reference wants a sweep's directory or its sweep.csv")
    sweep = read_sweep(path)
    cells = select(sweep.cells, where, str(path), fields_of_sweep(sweep), elsewhere)
    notes = [*sweep.notes]
    if not sweep.complete:
        notes.append(f"{path}: the sweep is not complete: {len(sweep.records)} of {len(sweep.manifest['plan'])} done")
    notes += [f"{path}: {failure(cell)}" for cell in cells if cell.failed]
    return Measured(path, VALUES, _by_key(path, cells), tuple(notes), settings_of_sweep(sweep, cells))


def unique(cells: Sequence[Cell], of: str) -> dict[Key, Cell]:
    """Cells by their place in the tables; UsageError when a place is taken twice."""
    found: dict[Key, Cell] = {}
    for cell in cells:
        key = normal_key(cell.variant, cell.nrules, cell.tx_usecs)
        if key in found:
            raise UsageError(f"{of}: {_collision(key, found[key], cell)}")
        found[key] = cell
    return found


def _by_key(path: Path, cells: Sequence[Cell]) -> dict[Key, dict[str, float]]:
    return {
        key: {column: float(value) for column, value in cell.values.items() if value is not None}
        for key, cell in unique(cells, str(path)).items()
    }


def _collision(key: Key, one: Cell, other: Cell) -> str:
    name = next((n for n in one.others if one.others[n] != other.others.get(n)), None)
    if name is None:
        return f"{key} is there twice"
    value, another = one.others[name], other.others.get(name)
    return f"{key} is there for {name} {value} and {another}; choose, e.g. --where {name}={value}"


def failure(cell: Cell) -> str:
    """What failed of a cell, in one line."""
    verdict = cell.failed[0]["verdict"]
    if not cell.ok:
        return f"{cell.name} failed: {verdict}"
    return f"{len(cell.failed)} of {len(cell.failed) + len(cell.ok)} repetitions of {cell.name} failed: {verdict}"


def _of_csv(path: Path, where: Where, elsewhere: Collection[str]) -> Measured:
    if path.suffix == ".json":
        raise UsageError(f"{path}: is not a result; give a sweep's directory or its sweep.csv")
    table = read_cells_csv(path, where, zeros=True, elsewhere=elsewhere)
    cells = {key: {column: figure.value for column, figure in row.items()} for key, row in table.cells.items()}
    return Measured(path, table.columns, cells, table.notes)
