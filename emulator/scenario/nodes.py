"""A YAML document as a tree in which every key and value knows its line and column."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Mark:
    """A place: `file:line:column` from 1, or just the source where there are no lines (`--set a.b=1`)."""

    source: str
    line: int = 0
    column: int = 0
    folder: Path | None = None  # what relative paths written here are relative to

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}" if self.line else self.source


class Entry(NamedTuple):
    """One `key: value` of a mapping."""

    key_mark: Mark
    node: "Node"


@dataclass(frozen=True, slots=True)
class Node:
    """A scalar, a mapping of entries, or a list of nodes, and where it starts."""

    value: "Scalar | dict[str, Entry] | list[Node]"
    mark: Mark
    whole: bool = False  # replaces what it is laid over, rather than being merged with it

    def entries(self) -> dict[str, Entry]:
        """The mapping's entries; none if it is not a mapping."""
        return self.value if isinstance(self.value, dict) else {}

    def child(self, key: str | int) -> "Node | None":
        """The value under `key`, or None."""
        if isinstance(self.value, dict) and isinstance(key, str):
            entry = self.value.get(key)
            return entry.node if entry else None
        if isinstance(self.value, list) and isinstance(key, int) and 0 <= key < len(self.value):
            return self.value[key]
        return None

    def plain_child(self, key: str) -> Any:
        """The plain value under `key`, or None."""
        below = self.child(key)
        return below.plain() if below is not None else None

    def plain(self) -> Any:
        """The same as dicts, lists and scalars."""
        if isinstance(self.value, dict):
            return {key: entry.node.plain() for key, entry in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value
