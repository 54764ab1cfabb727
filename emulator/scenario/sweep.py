"""`sweep:`, a matrix: which fields take which values, and how often each cell is run.

    sweep:
      fields:                                        # any fields of the scenario, by their dotted paths
        device.bql.variant: [v7, off]
        netfilter.rules: [0, 100, 10000]
        device.bql.tx_usecs: [0us, 100us, 10ms]
      repetitions: 3                                 # repetition i runs with seed + i

Every combination of values is a cell, crossed with the variants of `compare:` where there are any. A combination that
differs from another only in what means nothing to its variant is not run twice: `off` (stock) has no byte queue limits,
`v5` no tx_usecs, so stock comes once for each number of rules.

What is not given is the published sweep: 0 1 10 100 1000 10000 rules and 0 50 100 500 1000 5000 10000 us, for the
variants of `compare:`, or else for the scenario's own variant (v7 if that is `off`) and stock.

Here the text is taken apart and checked for form; `matrix` makes the cells of it and has each checked as a scenario.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from emulator.scenario.nodes import Entry, Mark, Node
from emulator.scenario.problems import Path, Problem, locate
from emulator.scenario.text import allowed_list, did_you_mean, found, quoted

KEYS = ("fields", "repetitions")
MAX_REPETITIONS = 1000
MAX_VALUES = 1000
MAX_PARTS = 16

RULES, TX_USECS, VARIANT = "netfilter.rules", "device.bql.tx_usecs", "device.bql.variant"
PUBLISHED_RULES = (0, 1, 10, 100, 1000, 10000)
PUBLISHED_TX_USECS = ("0us", "50us", "100us", "500us", "1ms", "5ms", "10ms")
DEFAULT_VARIANT, STOCK = "v7", "off"

_NOT_SWEPT = {
    "name": "a sweep has one name",
    "description": "a sweep has one description",
    "clock": "a sweep has one clock",
    "seed": "write sweep.repetitions: repetition i runs with seed + i",
    "expect": "what is expected holds for every cell",
    "run_dir": "it changes nothing that is measured",
    "extends": "it belongs at the top level",
    "compare": "the variants of compare: are crossed with the fields as they are",
    "sweep": "a sweep has no sweeps in it",
}


@dataclass(frozen=True)
class Field:
    """A field of the scenario and the values that it takes."""

    name: str
    """dotted path"""
    key_mark: Mark
    values: tuple[Node, ...]

    @property
    def path(self) -> tuple[str, ...]:
        return tuple(self.name.split("."))


@dataclass(frozen=True)
class SweepSpec:
    """What `sweep:` says."""

    fields: tuple[Field, ...] | None
    """None: the published sweep"""
    repetitions: int
    mark: Mark
    repetitions_mark: Mark

    def with_hosts(self, read: Callable[[Node], Node]) -> "SweepSpec":
        """The same with the host profiles that it names, if it sweeps these; `read` does that for `{host: path}`."""
        if self.fields is None:
            return self
        return replace(self, fields=tuple(_with_host(field, read) for field in self.fields))

    def to_plain(self) -> dict[str, Any]:
        """As YAML writes it."""
        plain: dict[str, Any] = {"repetitions": self.repetitions}
        if self.fields is not None:
            plain = {"fields": {f.name: [v.plain() for v in f.values] for f in self.fields}} | plain
        return plain


def read_spec(node: Node) -> tuple[SweepSpec, list[Problem]]:
    """What stands under `sweep:`, and what is wrong with its form."""
    if not isinstance(node.value, dict):
        text = f"expected a mapping, got {found(node.plain())}; {allowed_list(KEYS)}"
        return SweepSpec(None, 1, node.mark, node.mark), [Problem(node.mark, ("sweep",), text)]
    problems = [
        Problem(entry.key_mark, ("sweep", key), f"unknown key{did_you_mean(key, KEYS)}; {allowed_list(KEYS)}")
        for key, entry in node.value.items()
        if key not in KEYS
    ]
    fields = node.child("fields")
    read = None if fields is None else _fields(fields, problems)
    repetitions = node.child("repetitions")
    times = 1 if repetitions is None else _repetitions(repetitions, problems)
    return SweepSpec(read, times, node.mark, repetitions.mark if repetitions else node.mark), problems


def published_fields(mark: Mark, variant: str | None) -> tuple[Field, ...]:
    """The published sweep, for `variant` and stock; None: the variants are given otherwise."""
    values: dict[str, tuple[Any, ...]] = {} if variant is None else {VARIANT: (variant, STOCK)}
    values |= {RULES: PUBLISHED_RULES, TX_USECS: PUBLISHED_TX_USECS}
    return tuple(Field(name, mark, tuple(Node(value, mark) for value in row)) for name, row in values.items())


def _with_host(field: Field, read: Callable[[Node], Node]) -> Field:
    if field.name != "host":
        return field
    trees = [read(Node({"host": Entry(field.key_mark, value)}, value.mark)) for value in field.values]
    return replace(field, values=tuple(tree.entries()["host"].node for tree in trees))


def _fields(node: Node, problems: list[Problem]) -> tuple[Field, ...]:
    if not isinstance(node.value, dict) or not node.value:
        text = f"expected fields and their values, got {found(node.plain()) if node.value != {} else 'none'}"
        problems.append(Problem(node.mark, ("sweep", "fields"), f"{text}; write e.g. {{{RULES}: [0, 1000]}}"))
        return ()
    fields: list[Field] = []
    for name, entry in node.value.items():
        wrong = list(_wrong_field(name, entry.key_mark, entry.node, fields))
        problems += wrong
        if not wrong:
            values = entry.node.value
            fields.append(Field(name, entry.key_mark, tuple(values) if isinstance(values, list) else ()))
    return tuple(fields)


def _wrong_field(name: str, mark: Mark, node: Node, others: list[Field]) -> Iterator[Problem]:
    path: Path = ("sweep", "fields", name)
    parts = name.split(".")
    if not all(parts) or len(parts) > MAX_PARTS:
        yield Problem(mark, path, f"{quoted(name)} is not the path of a field; write e.g. {RULES}")
        return
    if parts[0] in _NOT_SWEPT:
        yield Problem(mark, path, f"cannot be swept: {_NOT_SWEPT[parts[0]]}")
        return
    if isinstance(node.value, dict):
        yield Problem(mark, path, f"expected a list of values, got a mapping; write dotted paths, e.g. {RULES}: [0, 1]")
        return
    if not isinstance(node.value, list) or not node.value:
        got = "an empty list" if node.value == [] else found(node.plain())
        yield Problem(node.mark, path, f"expected a list of values, got {got}; write e.g. [{_shown(node)}]")
        return
    if len(node.value) > MAX_VALUES:
        yield Problem(node.mark, path, f"{len(node.value)} values; allowed: at most {MAX_VALUES}")
    for other in others:
        short, long = sorted((other.path, tuple(parts)), key=len)
        if long[: len(short)] == short:
            yield Problem(mark, path, f"{quoted(other.name)} is swept too, and one contains the other; keep one")


def _shown(node: Node) -> str:
    return "0, 1" if node.value is None or isinstance(node.value, list) else str(node.value)


def _repetitions(node: Node, problems: list[Problem]) -> int:
    value = node.value
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_REPETITIONS:
        text = f"expected a whole number, got {found(node.plain())}; allowed: 1..{MAX_REPETITIONS}"
        problems.append(Problem(node.mark, ("sweep", "repetitions"), text))
        return 1
    return value


def chosen_problem(problem: Problem, field: Field, index: int) -> Problem | None:
    """A problem of a cell as one of the sweep's field or of its value; None if it stands elsewhere."""
    at: Path = ("sweep", "fields", field.name)
    size, value = len(field.path), field.values[index]
    is_of_the_key = problem.text.startswith("unknown key") and field.path[: len(problem.path)] == problem.path
    if is_of_the_key and problem.mark == field.key_mark:
        return Problem(problem.mark, at, problem.text)
    if problem.path[:size] == field.path:
        below = problem.path[size:]
        if problem.mark in (locate(value, below)[0], _key_below(value, below)):
            return Problem(problem.mark, (*at, index, *below), problem.text)
    return None


def _key_below(node: Node, path: Path) -> Mark | None:
    for part in path[:-1]:
        node = node.child(part) or node
    entry = node.entries().get(str(path[-1])) if path else None
    return entry.key_mark if entry else None
