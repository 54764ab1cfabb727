"""From files and `--set` to validated scenarios.

    file over what it extends  ─┬─────────────── --set ──> base
                                └─ compare[i] ── --set ──> variant i

Precedence, weakest first: the extended file, the file, a variant of `compare:`, `--set`. So `--set` reaches every
variant; `--set compare=[]` drops them. `name` is not inherited: it defaults to the stem of the file that is loaded.
`sweep:` is read here; `matrix` makes its cells.
Faults are reported together, each where it stands; what no single field can know (`checks`) is asked only of
scenarios whose fields are right, and only of those that would run.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from emulator.errors import ScenarioError
from emulator.scenario import checks
from emulator.scenario.files import read_extending, with_host
from emulator.scenario.merge import difference, merge, without
from emulator.scenario.model import Scenario, valid_name
from emulator.scenario.nodes import Mark, Node
from emulator.scenario.problems import Path as KeyPath
from emulator.scenario.problems import Problem, locate, problems_of
from emulator.scenario.sets import settings_tree
from emulator.scenario.sweep import SweepSpec, read_spec
from emulator.scenario.text import found, printable
from emulator.scenario.write import to_yaml
from emulator.scenario.yamltree import parse

MAX_VARIANTS = 64

Check = Callable[[Scenario], Iterator[checks.Finding]]


@dataclass(frozen=True)
class Overlay:
    """An entry of `compare:`."""

    name: str
    index: int
    tree: Node


@dataclass(frozen=True)
class Placed:
    """A scenario and where its values were written."""

    scenario: Scenario
    tree: Node
    settings: Node
    overlay: Overlay | None = None

    def problems(self, check: Check, known: Collection[Problem] = ()) -> list[Problem]:
        """What `check` finds, as its reader needs it; `known` are what the base has too."""
        return [_in_variant(problem, self.overlay, known) for problem in self.found(check)]

    def found(self, check: Check) -> list[Problem]:
        """What `check` finds, placed where the user wrote it."""
        return [self._place(paths, text) for paths, text in check(self.scenario)]

    def _place(self, paths: Sequence[KeyPath], text: str) -> Problem:
        for tree in (self.settings, self.overlay.tree if self.overlay else self.settings, self.tree):
            for path in paths:
                mark, whole = locate(tree, path)
                if whole:
                    return Problem(mark, path, text)
        return Problem(locate(self.tree, paths[0])[0], paths[0], text)


@dataclass(frozen=True)
class LoadedScenario:
    """What a scenario file says: the base, and what runs."""

    base: Scenario
    variants: tuple[Scenario, ...]
    """what runs, one after the other; the base alone where there is no `compare:`"""
    warnings: tuple[str, ...]
    """one line each, with its place"""
    placed: tuple[Placed, ...] = field(repr=False)
    """the base, then the variants of `compare:`, with their places"""
    sweep: SweepSpec | None = None
    """what `sweep:` says, if it is there; not yet the cells"""

    @property
    def running(self) -> tuple[Placed, ...]:
        """What runs, with its places."""
        return self.placed[1:] or self.placed

    @property
    def compares(self) -> bool:
        """Whether there is a `compare:` that names variants."""
        return len(self.placed) > 1

    @property
    def base_tree(self) -> Node:
        """The file merged with what it extends and with `--set`."""
        return self.placed[0].tree

    @property
    def settings(self) -> Node:
        """What `--set` says."""
        return self.placed[0].settings

    def effective(self) -> dict[str, Any]:
        """Every key with its value, units as text; loading it again gives the same scenarios."""
        base = self.base.to_plain()
        plain = dict(base)
        if self.compares:
            plain["compare"] = [{"name": v.variant_name} | difference(base, v.to_plain()) for v in self.variants]
        if self.sweep is not None:
            plain["sweep"] = self.sweep.to_plain()
        return plain


def load_scenario(path: Path, sets: Sequence[str] = ()) -> LoadedScenario:
    """Read, merge and validate a scenario file with `path=value` settings; ScenarioError with a line for each fault."""
    path = Path(path)
    faults: list[str] = []
    return _load(read_extending(path, faults), sets, path.parent, faults)


def load_effective(plain: Mapping[str, Any], source: Path, sets: Sequence[str] = ()) -> LoadedScenario:
    """What gave `LoadedScenario.effective()`, once more, with further settings; ScenarioError as for a file.

    source: where it is kept, for messages; host profiles that the settings name are looked for beside it.
    """
    tree = parse(to_yaml(dict(plain)), Mark(printable(str(source)), folder=source.parent))
    if tree is None or not isinstance(tree.value, dict):
        raise ScenarioError(f"{printable(str(source))}: holds no scenario; give the file of the scenario")
    return _load(tree, sets, source.parent, [])


def _load(tree: Node, sets: Sequence[str], folder: Path, faults: list[str]) -> LoadedScenario:
    settings = with_host(settings_tree(sets), folder, faults)
    overlays, problems = _overlays(settings.child("compare") or tree.child("compare"), folder, faults)
    sweep = _sweep(tree.child("sweep"), settings.child("sweep"), folder, faults, problems)
    tree, settings = without(tree, "compare", "sweep"), without(settings, "compare", "sweep")
    placed = []
    for overlay in (None, *overlays):
        try:
            placed.append(_build(tree, settings, overlay))
        except _InvalidError as error:
            problems += [_in_variant(p, overlay, problems) for p in error.problems]
    raise_problems(problems, faults)
    raise_problems(_find(placed, checks.impossible))
    warnings = tuple(dict.fromkeys(str(problem) for problem in _find(placed, checks.odd)))
    variants = tuple(p.scenario for p in _running(placed))
    return LoadedScenario(placed[0].scenario, variants, warnings, tuple(placed), sweep)


def check_cpus(loaded: LoadedScenario, allowed: Collection[int] | None = None) -> None:
    """ScenarioError if a scenario is pinned to a CPU outside `allowed`, by default this process's affinity."""
    cpus = os.sched_getaffinity(0) if allowed is None else allowed
    raise_problems(_find(loaded.placed, lambda scenario: checks.absent_cpus(scenario, cpus)))


def check_expectations(loaded: LoadedScenario, senseless: Callable[[Scenario], Iterable[tuple[str, str]]]) -> None:
    """ScenarioError for each expectation that no run could meet: ``senseless`` gives (path as written, why)."""
    raise_problems(
        _find(loaded.placed, lambda scenario: ((((("expect", path),), why)) for path, why in senseless(scenario)))
    )


def raise_problems(problems: Iterable[Problem], faults: Sequence[str] = ()) -> None:
    """ScenarioError with what is wrong with other files, then file by file from top to bottom; nothing twice."""
    ordered = sorted(problems, key=lambda p: (p.mark.source, p.mark.line, p.mark.column))
    lines = list(dict.fromkeys([*faults, *map(str, ordered)]))
    if lines:
        raise ScenarioError(lines)


class _InvalidError(Exception):
    def __init__(self, problems: list[Problem]) -> None:
        super().__init__()
        self.problems = problems


def _build(tree: Node, settings: Node, overlay: Overlay | None) -> Placed:
    if overlay is not None:
        tree = merge(tree, overlay.tree)
    tree = merge(tree, settings)
    try:
        scenario = Scenario.model_validate(tree.plain())
    except ValidationError as error:
        raise _InvalidError(problems_of(error, Scenario, tree)) from None
    if overlay is not None:
        scenario = scenario.named(overlay.name)
    return Placed(scenario, tree, settings, overlay)


def _sweep(
    below: Node | None, above: Node | None, folder: Path, faults: list[str], problems: list[Problem]
) -> SweepSpec | None:
    node = merge(below, above) if below is not None and above is not None else above or below
    if node is None:
        return None
    spec, wrong = read_spec(node)
    problems += wrong
    return spec.with_hosts(lambda tree: with_host(tree, folder, faults))


def _overlays(compare: Node | None, folder: Path, faults: list[str]) -> tuple[list[Overlay], list[Problem]]:
    overlays: list[Overlay] = []
    problems: list[Problem] = []
    if compare is None:
        return overlays, problems
    if not isinstance(compare.value, list):
        text = f"expected a list, got {found(compare.plain())}; write e.g. [{{name: stock}}, {{name: v7}}], or []"
        return overlays, [Problem(compare.mark, ("compare",), text)]
    if len(compare.value) > MAX_VARIANTS:
        text = f"{len(compare.value)} variants; allowed: at most {MAX_VARIANTS}"
        return overlays, [Problem(compare.mark, ("compare",), text)]
    for index, node in enumerate(compare.value):
        text, at = _wrong_overlay(node, [overlay.name for overlay in overlays])
        if text:
            path = ("compare", index, *at)
            problems.append(Problem(locate(node, at)[0], path, text))
            continue
        name = node.plain()["name"]
        overlays.append(Overlay(name, index, with_host(without(node, "name"), folder, faults)))
    return overlays, problems


def _wrong_overlay(node: Node, names: Collection[str]) -> tuple[str, KeyPath]:
    """What is wrong with an entry of `compare:` as such, and the key; nothing if it is well."""
    if not isinstance(node.value, dict):
        return f"expected a mapping, got {found(node.plain())}; write e.g. {{name: stock}}", ()
    for key in ("extends", "compare", "sweep"):
        if key in node.value:
            return "does not belong in a variant; write it at the top level", (key,)
    name = node.child("name")
    if name is None:
        return "is missing; every variant needs a name", ("name",)
    if not isinstance(name.value, str):
        return f"expected text, got {found(name.plain())}; put it in quotes", ("name",)
    if name.value in names:
        return f"{found(name.value)} names two variants; write another", ("name",)
    try:
        valid_name(name.value)
    except PydanticCustomError as error:
        return str(error), ("name",)
    return "", ()


def _in_variant(problem: Problem, overlay: Overlay | None, known: Collection[Problem]) -> Problem:
    """The problem as its reader needs it: under `compare[i]` if it stands there, else with the variant's name."""
    if overlay is None or problem in known:
        return problem
    if locate(overlay.tree, problem.path) == (problem.mark, True) or _key_of(overlay.tree, problem):
        return replace(problem, path=("compare", overlay.index, *problem.path))
    return replace(problem, text=f"{problem.text} (in variant '{overlay.name}')")


def _key_of(tree: Node, problem: Problem) -> bool:
    node: Node | None = tree
    for part in problem.path[:-1]:
        node = node.child(part) if node is not None else None
    entry = node.entries().get(str(problem.path[-1])) if node is not None and problem.path else None
    return entry is not None and entry.key_mark == problem.mark


def _running(placed: Sequence[Placed]) -> Sequence[Placed]:
    return placed[1:] or placed


def _find(placed: Sequence[Placed], check: Check) -> list[Problem]:
    known = placed[0].problems(check)
    return [problem for each in _running(placed) for problem in each.problems(check, known)]
