"""Scenario files and the files that they name: `extends:` and `host:`.

Paths are relative to the file in which they are written. A host profile is also looked for beside the scenario and in
`profiles/` there, with or without `.yaml`.
"""

from pathlib import Path

from pydantic import ValidationError

from emulator.errors import ScenarioError
from emulator.scenario.merge import merge, with_entry, without
from emulator.scenario.model import LONGEST_NAME
from emulator.scenario.nodes import Mark, Node
from emulator.scenario.problems import Problem, problems_of
from emulator.scenario.profile import HostProfile
from emulator.scenario.text import found, printable, quoted
from emulator.scenario.yamltree import read_file

MAX_EXTENDS = 16
NO_HOST = "none"


def read_extending(path: Path, faults: list[str], above: tuple[Path, ...] = ()) -> Node:
    """The file merged over what it extends, its name its own, its host profiles in place.

    What is wrong with the files that it names goes to `faults`, and the file is read as if it did not name them.
    """
    tree = read_file(path)
    if tree.child("name") is None:
        tree = with_entry(tree, "name", Node(name_of(path), Mark(tree.mark.source, 1, 1)))
    tree = with_host(tree, path.parent, faults)
    extends = tree.child("extends")
    tree = without(tree, "extends")
    if extends is None:
        return tree
    try:
        chain = (*above, path.resolve())
        below = read_extending(_extended(extends, path, chain), faults, chain)
    except ScenarioError as error:
        faults.extend(error.problems)
        return tree
    return merge(without(below, "name"), tree)


def with_host(tree: Node, beside: Path, faults: list[str]) -> Node:
    """The tree with the path under `host` replaced by the profile that it names."""
    host = tree.child("host")
    if host is None or not isinstance(host.value, str) or host.value == NO_HOST:
        return tree
    target = _first_file(_candidates(host.value, host.mark.folder or beside, beside))
    try:
        if target is None:
            text = f"no host profile {quoted(host.value)}; write 'none', or a path relative to this file"
            raise ScenarioError(str(Problem(host.mark, ("host",), text)))
        return with_entry(tree, "host", read_profile(target)[1])
    except ScenarioError as error:
        faults.extend(error.problems)
        return with_entry(tree, "host", Node(NO_HOST, host.mark))


def read_profile(path: Path) -> tuple[HostProfile, Node]:
    """A host profile and its tree; ScenarioError with a line for each fault."""
    tree = read_file(path)
    if tree.child("name") is None:
        tree = with_entry(tree, "name", Node(name_of(path), Mark(tree.mark.source, 1, 1)))
    tree = Node(tree.value, tree.mark, whole=True)
    try:
        return HostProfile.model_validate(tree.plain()), tree
    except ValidationError as error:
        raise ScenarioError([str(p) for p in problems_of(error, HostProfile, tree)]) from None


def load_profile(path: Path) -> HostProfile:
    """Read and validate a host profile; ScenarioError with a line for each fault."""
    return read_profile(path)[0]


def name_of(path: Path) -> str:
    """A file's stem, made a valid name."""
    return printable(path.stem)[:LONGEST_NAME].strip() or "scenario"


def _extended(extends: Node, path: Path, chain: tuple[Path, ...]) -> Path:
    def problem(text: str) -> ScenarioError:
        return ScenarioError(str(Problem(extends.mark, ("extends",), text)))

    if not isinstance(extends.value, str) or not extends.value or Path(extends.value).is_absolute():
        raise problem(f"expected a relative path, got {found(extends.value)}; write a file relative to this one")
    target = _first_file([path.parent / extends.value])
    if target is None:
        raise problem(f"no file {quoted(extends.value)}; write a file relative to this one")
    if target.resolve() in chain:
        names = " -> ".join(p.name for p in (*chain, target))
        raise problem(f"goes round in a circle: {names}; break it")
    if len(chain) > MAX_EXTENDS:
        raise problem(f"more than {MAX_EXTENDS} files; extend fewer")
    return target


def _candidates(written: str, folder: Path, beside: Path) -> list[Path]:
    folders = [folder, beside, folder / "profiles", beside / "profiles"]
    return [place / name for place in folders for name in (written, f"{written}.yaml")]


def _first_file(paths: list[Path]) -> Path | None:
    for path in paths:
        try:
            if path.is_file():
                return path
        except (OSError, ValueError):  # too long a name, a NUL in it
            continue
    return None
