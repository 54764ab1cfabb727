"""From a validation error to one line: `file:line:column: path.to.key: what is wrong; what is allowed`."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from emulator.scenario.nodes import Mark, Node
from emulator.scenario.text import allowed_list, did_you_mean, found, printable, shorten
from emulator.scenario.units import FAULT

Path = tuple[str | int, ...]

NOT_FIELDS = ("extends", "compare", "sweep")  # keys of a scenario file that the loader takes for itself


@dataclass(frozen=True)
class Problem:
    """One fault: where it stands, under which keys, and what it is."""

    mark: Mark
    path: Path
    text: str

    def __str__(self) -> str:
        return f"{self.mark}: {dotted(self.path)}: {printable(self.text)}"


def dotted(path: Path) -> str:
    """`("flood", "cpus", 0)` as `flood.cpus[0]`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{shorten(part)}" for part in path)
    return text.removeprefix(".") or "scenario"


def locate(tree: Node, path: Path) -> tuple[Mark, bool]:
    """The place of the deepest node on `path`, and whether that is the whole path."""
    node = tree
    for part in path:
        below = node.child(part)
        if below is None:
            return node.mark, False
        node = below
    return node.mark, True


def problems_of(error: ValidationError, model: type[BaseModel], tree: Node) -> list[Problem]:
    """Every fault of a validation, placed in `tree`."""
    return [problem for details in error.errors(include_url=False) for problem in _problems(details, model, tree)]


def _problems(details: ErrorDetails, model: type[BaseModel], tree: Node) -> Iterator[Problem]:
    path = _without_tags(details["loc"], tree)
    context: dict[str, Any] = details.get("ctx") or {}
    value = details["input"]
    match details["type"]:
        case t if t == FAULT:
            for below, what in context["parts"]:
                at = path if below is None else (*path, below)
                yield Problem(locate(tree, at)[0], at, what)
        case "extra_forbidden":
            yield Problem(_key_mark(tree, path), path, _unknown_key(str(path[-1]), path[:-1], model, tree))
        case "missing":
            yield Problem(locate(tree, path)[0], path, "is missing; write it")
        case "literal_error":
            yield Problem(locate(tree, path)[0], path, _not_allowed(value, _quoted(context["expected"])))
        case "union_tag_invalid" | "union_tag_not_found":
            path = (*path, "kind") if isinstance(value, dict) else path
            kinds = _quoted(context.get("expected_tags", "")) or kinds_at(model, path[:-1])
            yield Problem(locate(tree, path)[0], path, _wrong_kind(value, kinds))
        case t:
            yield Problem(locate(tree, path)[0], path, _wrong_type(t, details, path, model, tree))


def _without_tags(loc: Sequence[str | int], tree: Node) -> Path:
    """pydantic names the chosen member of a union within the path; the file does not."""
    path: list[str | int] = []
    node: Node | None = tree
    for part in loc:
        kind = node.child("kind") if node is not None else None
        if node is not None and node.child(part) is None and kind is not None and kind.value == part:
            continue
        path.append(part)
        node = node.child(part) if node is not None else None
    return tuple(path)


def _key_mark(tree: Node, path: Path) -> Mark:
    node: Node | None = tree
    for part in path[:-1]:
        node = node.child(part) if node is not None else None
    entry = node.entries().get(str(path[-1])) if node is not None else None
    return entry.key_mark if entry else locate(tree, path)[0]


def _not_allowed(value: object, allowed: Sequence[str]) -> str:
    hint = did_you_mean(value, allowed) if isinstance(value, str) else ""
    return f"{found(value)} is not available{hint}; {allowed_list(allowed)}"


def _wrong_kind(value: object, kinds: Sequence[str]) -> str:
    if not isinstance(value, dict):
        return f"expected a mapping, got {found(value)}; write e.g. {{kind: {kinds[0]}}} ({allowed_list(kinds)})"
    if "kind" not in value:
        return f"is missing; {allowed_list(kinds)}"
    return _not_allowed(value["kind"], kinds)


def _wrong_type(kind: str, details: ErrorDetails, path: Path, model: type[BaseModel], tree: Node) -> str:
    got = found(details["input"])
    match kind:
        case "model_type" | "model_attributes_type" if len(kinds := kinds_at(model, path)) > 1:
            return _wrong_kind(details["input"], kinds)
        case "model_type" | "model_attributes_type":
            return f"expected a mapping, got {got}; {allowed_list(keys_at(model, path, tree))}"
        case "bool_type":
            return f"expected true or false, got {got}; allowed: true, false"
        case "string_type":
            return f"expected text, got {got}; put it in quotes"
        case "tuple_type":
            return f"expected a list, got {got}; write e.g. [0, 1]"
    return f"{details['msg']}, got {got}"


def _unknown_key(key: str, above: Path, model: type[BaseModel], tree: Node) -> str:
    allowed = keys_at(model, above, tree)
    hint = did_you_mean(key, allowed)
    if not hint:
        homes = [home for home in _homes(model).get(key, ()) if home != dotted((*above, key))]
        hint = f", it belongs to {homes[0].rpartition('.')[0] or 'the top level'}" if homes else ""
    return f"unknown key{hint}; {allowed_list(allowed)}" if allowed else f"unknown key{hint}; allowed: nothing here"


def keys_at(model: type[BaseModel], path: Path, tree: Node) -> list[str]:
    """The keys that the mapping under `path` may have."""
    models, node = [model], tree
    for part in path:
        models = [below for m in models for below in _below(m, str(part))]
        node = node.child(part) or Node(None, tree.mark)
    kind = node.child("kind")
    if kind is not None and len(models) > 1:
        models = [m for m in models if m.model_fields["kind"].default == kind.value]
    keys = [key for m in models for key in field_names(m)]
    return [*keys, *NOT_FIELDS] if not path and model.__name__ == "Scenario" else list(dict.fromkeys(keys))


def kinds_at(model: type[BaseModel], path: Path) -> list[str]:
    """The values that `kind` may have in the union under `path`."""
    models = [model]
    for part in path:
        models = [below for m in models for below in _below(m, str(part))]
    return [str(m.model_fields["kind"].default) for m in models if "kind" in m.model_fields]


def field_names(model: type[BaseModel]) -> list[str]:
    """The fields of a model as the file names them."""
    return [field.alias or name for name, field in model.model_fields.items()]


def _below(model: type[BaseModel], key: str) -> list[type[BaseModel]]:
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    return _models_in(fields[key].annotation) if key in fields else []


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models_in(argument)]


@cache
def _homes(model: type[BaseModel], above: str = "") -> dict[str, list[str]]:
    """Every key of the model and below: where it would be right."""
    homes: dict[str, list[str]] = {}
    for key in field_names(model):
        homes.setdefault(key, []).append(above + key)
        below_key = _below(model, key)
        for below in below_key if len(below_key) == 1 else ():  # a union's keys depend on its kind
            for name, paths in _homes(below, f"{above}{key}.").items():
                homes.setdefault(name, []).extend(paths)
    return homes


def _quoted(expected: str) -> list[str]:
    words = re.findall(r"'([^']*)'", expected)
    return words or [word.lower() for word in re.findall(r"\w+", expected) if word != "or"]
