"""`--set path=value` as a tree that is laid over everything else.

The value is YAML: `50us`, `null`, `[0, 1]`, `{kind: sfq}`. Under `expect` and under `sweep.fields` the rest of the path
is one key: `--set sweep.fields.netfilter.rules=[0,10]`. Under `expect` a value may start with an operator:
`--set 'expect.rtt.p99=<= 3ms'`. A list is set whole.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from emulator.errors import ScenarioError
from emulator.scenario.merge import empty, merge, nested
from emulator.scenario.nodes import Mark, Node
from emulator.scenario.text import shorten
from emulator.scenario.yamltree import parse

MAX_PARTS = 16

_ANOTHER = re.compile(r",\s*\w+(\.\w+)*=")
"""`,b=` in `a=[1],b=[2]`"""


def settings_tree(sets: Sequence[str]) -> Node:
    """All settings as one tree, later ones on top; ScenarioError with a line for each that cannot be read."""
    tree = empty(Mark("--set"))
    faults: list[str] = []
    for text in sets:
        try:
            tree = merge(tree, _setting(text))
        except ScenarioError as error:
            faults.extend(error.problems)
    if faults:
        raise ScenarioError(faults)
    return tree


def _setting(text: str) -> Node:
    mark = Mark(f"--set {shorten(text, 100)}", folder=Path())
    key, equals, value = text.partition("=")
    path = _split(key.strip())
    if not equals or not all(path) or len(path) > MAX_PARTS:
        raise ScenarioError(f"{mark}: not a setting; write path=value, e.g. device.bql.tx_usecs=50us")
    if path == ["extends"]:
        raise ScenarioError(f"{mark}: extends: belongs in a file; name that file instead")
    if not value.strip():
        raise ScenarioError(f"{mark}: {shorten(key)}: no value; write null to switch something off")
    if path[0] == "expect" and value.lstrip()[0] in "<>=!":
        return nested(path, Node(value.strip(), mark))
    try:
        node = parse(value, mark)
    except ScenarioError:
        if _ANOTHER.search(value) is None:
            raise
        raise ScenarioError(f"{mark}: looks like several settings; write --set once for each") from None
    return nested(path, node or Node(None, mark))


def _split(key: str) -> list[str]:
    parts = key.split(".")
    for above in (["expect"], ["sweep", "fields"]):
        size = len(above)
        if parts[:size] == above and len(parts) > size:
            return [*above, ".".join(parts[size:])]
    return parts
