"""One tree laid over another: `extends:`, the variants of `compare:`, `--set`.

Mappings are merged key by key; anything else is replaced. Three mappings are values rather than sets of keys, and are
replaced whole: one whose `kind` changes (the options of `fq_codel` mean nothing to `sfq`), a host profile read from
its file, and a profile's table of rule costs.
"""

from typing import Any

from emulator.scenario.nodes import Entry, Mark, Node

TABLE = "netfilter_rule"


def merge(below: Node, above: Node) -> Node:
    """`above` laid over `below`; each node keeps the place where it was written."""
    if above.whole or not isinstance(below.value, dict) or not isinstance(above.value, dict):
        return above
    if _kinds_differ(below.plain_child("kind"), above.plain_child("kind")):
        return above
    merged = dict(below.value)
    for key, entry in above.value.items():
        old = merged.get(key)
        merged[key] = entry if old is None or key == TABLE else Entry(entry.key_mark, merge(old.node, entry.node))
    return Node(merged, above.mark, below.whole)


def difference(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """The least that has to be laid over `below` to get `above`."""
    least: dict[str, Any] = {}
    for key, value in above.items():
        old = below.get(key)
        if key in below and old == value:
            continue
        least[key] = value
        if isinstance(old, dict) and isinstance(value, dict) and key != TABLE:
            least[key] = value if _kinds_differ(old.get("kind"), value.get("kind")) else difference(old, value)
    return least


def without(node: Node, *keys: str) -> Node:
    """The mapping without `keys`."""
    return Node({key: entry for key, entry in node.entries().items() if key not in keys}, node.mark, node.whole)


def with_entry(node: Node, key: str, value: Node) -> Node:
    """The mapping with `key` set to `value`; a key that is there keeps its place."""
    old = node.entries().get(key)
    return Node({**node.entries(), key: Entry(old.key_mark if old else value.mark, value)}, node.mark, node.whole)


def nested(path: list[str], value: Node) -> Node:
    """`value` under `path`: `["a", "b"]` is `{a: {b: value}}`."""
    for key in reversed(path):
        value = Node({key: Entry(value.mark, value)}, value.mark)
    return value


def empty(mark: Mark) -> Node:
    """A mapping of nothing."""
    return Node({}, mark)


def _kinds_differ(old: object, new: object) -> bool:
    return old is not None and new is not None and old != new
