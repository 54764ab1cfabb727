"""One tree laid over another: `extends:`, the variants of `compare:`, `--set`.

Mappings are merged key by key; anything else is replaced. Two mappings are values rather than sets of keys, and are replaced whole: one whose
`kind` changes (the options of `fq_codel` mean nothing to `sfq`), and `host` (a table of costs is measured as a whole).
"""

from emulator.scenario.yamltree import Entry, Mark, Node

REPLACED_WHOLE = frozenset({"host"})


def merge(below: Node, above: Node) -> Node:
    """`above` laid over `below`; each node keeps the place where it was written."""
    if not isinstance(below.value, dict) or not isinstance(above.value, dict) or _kind_changes(below, above):
        return above
    merged = dict(below.value)
    for key, entry in above.value.items():
        old = merged.get(key)
        keep = old is None or key in REPLACED_WHOLE
        merged[key] = entry if keep or old is None else Entry(entry.key_mark, merge(old.node, entry.node))
    return Node(merged, above.mark)


def without(node: Node, *keys: str) -> Node:
    """The mapping without `keys`."""
    return Node({key: entry for key, entry in node.entries().items() if key not in keys}, node.mark)


def nested(path: list[str], value: Node, mark: Mark) -> Node:
    """`value` under `path`: `["a", "b"]` is `{a: {b: value}}`."""
    for key in reversed(path):
        value = Node({key: Entry(mark, value)}, mark)
    return value


def _kind_changes(below: Node, above: Node) -> bool:
    old, new = below.child("kind"), above.child("kind")
    return old is not None and new is not None and old.value != new.value
