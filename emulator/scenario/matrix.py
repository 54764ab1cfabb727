"""From a loaded scenario to the cells of its sweep, each checked as a scenario of its own.

    placed variant ── fields[0][i] ── fields[1][j] ── ... ──> scenario ── x repetitions ──> PlannedCell

Precedence, weakest first: the file, a variant of `compare:`, the swept value. A setting of the command line (`--set`)
must not name a swept field, which would make all its values the same. Faults of all cells are reported together, each
once, where it stands: at the swept value if that is to blame.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from pydantic import ValidationError

from emulator.scenario import checks
from emulator.scenario.load import Check, LoadedScenario, Placed, raise_problems
from emulator.scenario.merge import merge
from emulator.scenario.model import Scenario
from emulator.scenario.nodes import Entry, Mark, Node
from emulator.scenario.problems import Problem, locate, problems_of
from emulator.scenario.sweep import (
    DEFAULT_VARIANT,
    RULES,
    STOCK,
    TX_USECS,
    VARIANT,
    Field,
    SweepSpec,
    chosen_problem,
    published_fields,
)
from emulator.scenario.text import quoted
from emulator.scenario.units import NS_PER_US

MAX_CELLS = 10_000
MAX_SEED = 2**63 - 1
COMPARE = "compare"
"""the name, among a cell's fields, of its variant of `compare:`"""

_WITHOUT_TX_USECS = ("off", "v5")


@dataclass(frozen=True)
class PlannedCell:
    """A unit of work: everything that a cell needs, in plain values."""

    index: int
    """place in the plan"""
    cell: str
    """`v7 nrules=1000 tx_usecs=100 #0`"""
    rep: int
    seed: int
    variant: str
    """off is called stock"""
    nrules: int
    tx_usecs: float | None
    """us; None where the variant does not wait"""
    fields: dict[str, Any]
    """what the sweep set, as the scenario writes it"""
    scenario: dict[str, Any]
    """the effective scenario, its seed included"""


@dataclass(frozen=True)
class Matrix:
    """The plan of a sweep."""

    cells: tuple[PlannedCell, ...]
    fields: tuple[Field, ...]
    repetitions: int
    left_out: int
    """combinations that mean the same as another"""
    warnings: tuple[str, ...]

    def values(self) -> dict[str, list[str]]:
        """The fields and their values as they were written; a host profile by its name."""
        return {
            field.name: [_text(value.plain_child("name") or value.plain()) for value in field.values]
            for field in self.fields
        }


@dataclass(frozen=True)
class _Choice:
    """One combination: a variant of `compare:` and a value of each field, by its index."""

    placed: Placed
    fields: tuple[Field, ...]
    indices: tuple[int, ...]

    def overlay(self) -> Node:
        tree = Node({}, Mark("sweep"))
        for field, index in self.chosen():
            tree = merge(tree, _nested(field, field.values[index]))
        return tree

    def chosen(self) -> list[tuple[Field, int]]:
        return list(zip(self.fields, self.indices, strict=True))

    def __str__(self) -> str:
        named = [f"{COMPARE}={self.placed.overlay.name}"] if self.placed.overlay else []
        return " ".join(named + [f"{field.name}={_text(field.values[i].plain())}" for field, i in self.chosen()])


@dataclass(frozen=True)
class _Valid:
    """A combination whose fields are right."""

    choice: _Choice
    placed: Placed
    plain: dict[str, Any]

    @property
    def bql(self) -> str:
        return self.placed.scenario.device.bql.variant

    def label(self, field: Field, index: int) -> Any:
        """A value in its canonical form: `0.1ms` as `100us`; a mapping as written, a host profile by name."""
        if field.name == "host":
            return self.placed.scenario.host.name if self.placed.scenario.host else "none"
        canonical = self.canonical(field)
        return field.values[index].plain() if isinstance(canonical, dict | list) else canonical

    def canonical(self, field: Field) -> Any:
        value: Any = self.plain
        for part in field.path:
            value = value[part]
        return value

    def meaning(self) -> str:
        """What makes this a cell of its own."""
        plain, device = self.plain, self.plain["device"]
        bql = {key: value for key, value in device["bql"].items() if _means_something(f"device.bql.{key}", self.bql)}
        return json.dumps(plain | {"device": device | {"bql": bql}}, sort_keys=True)


def expand(loaded: LoadedScenario, extra_checks: Collection[Check] = ()) -> Matrix:
    """The cells of a sweep; ScenarioError with a line for each fault of any of them.

    extra_checks: like those of `checks`, for what the caller alone can know.
    """
    start = Mark(loaded.base_tree.mark.source, 1, 1)
    spec = loaded.sweep or SweepSpec(None, 1, start, start)
    fields = published_fields(spec.mark, _default_variant(loaded)) if spec.fields is None else spec.fields
    raise_problems([*_too_many(loaded, fields, spec), *_set_and_swept(loaded, fields)])
    choices = [
        _Choice(placed, fields, indices)
        for placed in loaded.running
        for indices in product(*(range(len(field.values)) for field in fields))
    ]
    combinations = _validated(choices)
    raise_problems([*_found(combinations, [checks.impossible, *extra_checks]), *_same_values(combinations, fields)])
    distinct = _distinct(combinations, spec)
    odd = [str(problem) for problem in _found(combinations, [checks.odd])]
    return Matrix(
        cells=tuple(_cells(distinct, spec.repetitions, _compare_named(loaded, fields))),
        fields=fields,
        repetitions=spec.repetitions,
        left_out=len(combinations) - len(distinct),
        warnings=tuple(line for line in odd if line not in loaded.warnings),
    )


def _default_variant(loaded: LoadedScenario) -> str | None:
    """Which variant a sweep without fields has beside stock; None where `compare:` says it."""
    if loaded.compares:
        return None
    own = loaded.base.device.bql.variant
    return DEFAULT_VARIANT if own == STOCK else own


def _too_many(loaded: LoadedScenario, fields: Sequence[Field], spec: SweepSpec) -> Iterator[Problem]:
    runs = len(loaded.running) * spec.repetitions
    for field in fields:
        runs *= len(field.values)
    if runs > MAX_CELLS:
        yield Problem(spec.mark, ("sweep",), f"{runs} cells; allowed: at most {MAX_CELLS}")
    if loaded.base.seed + spec.repetitions - 1 > MAX_SEED:
        text = f"the last repetition's seed is beyond {MAX_SEED}; write a smaller seed"
        yield Problem(spec.repetitions_mark, ("sweep", "repetitions"), text)


def _set_and_swept(loaded: LoadedScenario, fields: Sequence[Field]) -> Iterator[Problem]:
    for field in fields:
        mark, whole = locate(loaded.settings, field.path)
        if whole:
            yield Problem(mark, field.path, f"is swept; write --set 'sweep.fields.{field.name}=[...]' to sweep others")


def _validated(choices: Sequence[_Choice]) -> list[_Valid]:
    """Each combination as a scenario; ScenarioError if any cannot be one."""
    valid: list[_Valid] = []
    faults = _Faults(len(choices))
    for choice in choices:
        overlay = choice.overlay()
        tree = merge(choice.placed.tree, overlay)
        try:
            scenario = Scenario.model_validate(tree.plain())
        except ValidationError as error:
            for problem in problems_of(error, Scenario, tree):
                faults.add(problem, choice)
            continue
        placed = Placed(scenario, tree, overlay, choice.placed.overlay)
        valid.append(_Valid(choice, placed, scenario.to_plain()))
    raise_problems(faults.problems())
    return valid


def _found(combinations: Sequence[_Valid], wanted: Sequence[Check]) -> list[Problem]:
    faults = _Faults(len(combinations))
    for one in combinations:
        for check in wanted:
            for problem in one.placed.found(check):
                faults.add(problem, one.choice)
    return faults.problems()


class _Faults:
    """Problems of many cells, each said once."""

    def __init__(self, of: int) -> None:
        self._of = of
        self._seen: dict[Problem, list[_Choice]] = {}

    def add(self, problem: Problem, choice: _Choice) -> None:
        self._seen.setdefault(_at_its_value(problem, choice), []).append(choice)

    def problems(self) -> list[Problem]:
        """In the order in which they were found; what stands outside the sweep says in which cells it is."""
        return [self._told(problem, choices) for problem, choices in self._seen.items()]

    def _told(self, problem: Problem, choices: Sequence[_Choice]) -> Problem:
        if problem.path[:1] == ("sweep",) or len(choices) == self._of:
            return problem
        where = f"in {len(choices)} of {self._of} cells, the first is {choices[0]}"
        return Problem(problem.mark, problem.path, f"{problem.text} ({where})")


def _at_its_value(problem: Problem, choice: _Choice) -> Problem:
    for field, index in choice.chosen():
        placed = chosen_problem(problem, field, index)
        if placed is not None:
            return placed
    return problem


def _same_values(combinations: Sequence[_Valid], fields: Sequence[Field]) -> Iterator[Problem]:
    """Values of a field that are the same once they are read: `100us` and `0.1ms`."""
    for position, field in enumerate(fields):
        first: dict[str, int] = {}
        for one in combinations:
            index = one.choice.indices[position]
            for form in (one.canonical(field), ("label", one.label(field, index))):
                other = first.setdefault(json.dumps(form), index)
                if other < index:
                    same = _text(field.values[other].plain())
                    path = ("sweep", "fields", field.name, index)
                    yield Problem(field.values[index].mark, path, f"is the same as {quoted(same)}; keep one of the two")


def _distinct(combinations: Sequence[_Valid], spec: SweepSpec) -> list[_Valid]:
    """Of combinations that mean the same, the first; ScenarioError if two variants of `compare:` do."""
    first: dict[str, _Valid] = {}
    problems = []
    for one in combinations:
        other = first.setdefault(one.meaning(), one)
        if other.choice.placed is not one.choice.placed:
            text = f"two variants of compare: come to the same cell: {other.choice} and {one.choice}; drop one"
            problems.append(Problem(spec.mark, ("sweep",), text))
    raise_problems(problems[:1])
    return list(first.values())


def _compare_named(loaded: LoadedScenario, fields: Sequence[Field]) -> bool:
    """Whether cells are told apart by the names of `compare:`, because the BQL variant does not do it."""
    variants = [placed.scenario.device.bql.variant for placed in loaded.running]
    swept = any(field.path[:2] == ("device", "bql") and field.name != TX_USECS for field in fields)
    return len(variants) > 1 and (swept or len(set(variants)) < len(variants))


def _cells(combinations: Sequence[_Valid], repetitions: int, compare_named: bool) -> Iterator[PlannedCell]:
    index = 0
    for one in combinations:
        overlay = one.choice.placed.overlay
        fields: dict[str, Any] = {COMPARE: overlay.name} if compare_named and overlay else {}
        fields |= {f.name: one.label(f, i) for f, i in one.choice.chosen() if _means_something(f.name, one.bql)}
        bql = one.placed.scenario.device.bql
        variant = "stock" if one.bql == STOCK else one.bql
        rules = one.placed.scenario.netfilter.rules
        tx_usecs = None if one.bql in _WITHOUT_TX_USECS else _us(bql.tx_usecs)
        name = _name(variant, rules, tx_usecs, fields)
        for rep in range(repetitions):
            seed = one.placed.scenario.seed + rep
            scenario = one.plain | {"seed": seed}
            yield PlannedCell(index, f"{name} #{rep}", rep, seed, variant, rules, tx_usecs, fields, scenario)
            index += 1


def _name(variant: str, rules: int, tx_usecs: float | None, fields: dict[str, Any]) -> str:
    parts = [variant, f"nrules={rules}"]
    if tx_usecs is not None:
        parts.append(f"tx_usecs={tx_usecs}")
    parts += [f"{name}={_text(value)}" for name, value in fields.items() if name not in (RULES, TX_USECS, VARIANT)]
    return " ".join(parts)


def _us(ns: int) -> float:
    return ns // NS_PER_US if ns % NS_PER_US == 0 else ns / NS_PER_US


def _means_something(name: str, bql: str) -> bool:
    """Whether a field makes a difference to a variant."""
    if name == TX_USECS:
        return bql not in _WITHOUT_TX_USECS
    return bql != STOCK or not name.startswith("device.bql.") or name == VARIANT


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _nested(field: Field, value: Node) -> Node:
    for key in reversed(field.path):
        value = Node({key: Entry(field.key_mark, value)}, value.mark)
    return value
