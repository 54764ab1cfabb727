"""`--where`: which cells of a sweep are looked at.

`variant`, `nrules`, `tx_usecs` or a field that the sweep set, by its name in the scenario. The same name given again
adds another value. A cell to which a field means nothing (`tx_usecs` to stock) stays. A field that was not swept has
its value in all cells; a column that only the published table has narrows that table alone.
"""

from collections.abc import Collection, Mapping, Sequence

from emulator.errors import UsageError
from emulator.report.cells import KEYS, NRULES_FIELD, STOCK, TX_USECS_FIELD, VARIANT_FIELD, Cell
from emulator.report.reference import normal_key, tx_text
from emulator.scenario.text import allowed_list, did_you_mean, quoted

_COLUMN_OF = {VARIANT_FIELD: "variant", NRULES_FIELD: "nrules", TX_USECS_FIELD: "tx_usecs"}

Where = Mapping[str, tuple[str, ...]]


def read_where(texts: Sequence[str]) -> Where:
    """`["nrules=0", "nrules=10"]` as `{"nrules": ("0", "10")}`; UsageError for what has no `=`."""
    wanted: dict[str, tuple[str, ...]] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise UsageError(f"--where {quoted(text)}: expected NAME=VALUE, e.g. nrules=1000")
        name = _COLUMN_OF.get(name, name)
        wanted[name] = (*wanted.get(name, ()), value)
    return wanted


def select(
    cells: Sequence[Cell],
    where: Where,
    of: str,
    settings: Mapping[str, str] | None = None,
    elsewhere: Collection[str] = (),
) -> list[Cell]:
    """The cells that are wanted, in their order; UsageError when a name or a value is not that of any cell.

    settings: what holds in all cells, by its name in the scenario. elsewhere: names that are known to somebody else.
    """
    known = dict.fromkeys([*KEYS, *(name for cell in cells for name in cell.others)])
    for name, values in where.items():
        if name not in known:
            _check_setting(name, values, of, settings or {}, known, elsewhere)
            continue
        there = dict.fromkeys(text for cell in cells for text in _texts(cell, name)[:1])
        for value in values:
            if not any(value in _texts(cell, name) for cell in cells):
                raise UsageError(f"--where {name}={quoted(value)}: {of} has none; {allowed_list(there)}")
    return [cell for cell in cells if all(_fits(cell, name, values) for name, values in where.items())]


def _check_setting(
    name: str,
    values: Sequence[str],
    of: str,
    settings: Mapping[str, str],
    known: Collection[str],
    elsewhere: Collection[str],
) -> None:
    if name in settings:
        if settings[name] not in values:
            raise UsageError(f"--where {name}={quoted(values[0])}: {of} has {settings[name]} in all cells")
    elif name not in elsewhere:
        near = did_you_mean(name, [*known, *settings, *elsewhere])
        raise UsageError(f"--where: {of} has no {quoted(name)}{near}; {allowed_list([*known, *elsewhere])}")


def _fits(cell: Cell, name: str, values: tuple[str, ...]) -> bool:
    texts = _texts(cell, name)
    return not texts or any(value in texts for value in values)


def _texts(cell: Cell, name: str) -> list[str]:
    """How a user may write a cell's value; nothing where the field means nothing to it."""
    if name == "variant":
        return [cell.variant, *(["off"] if cell.variant == STOCK else [])]
    if name == "nrules":
        return [] if cell.nrules is None else [str(cell.nrules)]
    if name == "tx_usecs":
        text = tx_text(normal_key(cell.variant, cell.nrules, cell.tx_usecs).tx_usecs)
        return [text.removesuffix("us"), text] if text else []
    return [str(cell.others[name])] if name in cell.others else []
