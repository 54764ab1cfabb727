"""From parser events to a tree, bounded in depth and count, resolved by the core schema of YAML 1.2.

Plain `off`, `no` and `10:30` are text, `1e6` is a number, `true` is the only truth. A duplicate key or a tag is noted
and the reading goes on; an anchor or an alias (`&x`, `*x`), a second document, a key that is not text end it.
"""

import re

from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from emulator.errors import ScenarioError
from emulator.scenario.nodes import Entry, Mark, Node, Scalar
from emulator.scenario.text import shorten

MAX_DEPTH = 32
MAX_NODES = 20_000
MAX_DIGITS = 20
INSTEAD = "write the value out, or use extends"

_NULL = re.compile(r"|~|null|Null|NULL")
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def resolve(text: str) -> Scalar:
    """What a plain scalar means by the core schema of YAML 1.2; ValueError if it is a number too long to be meant."""
    if _NULL.fullmatch(text):
        return None
    if _BOOL.fullmatch(text):
        return text.lower() == "true"
    if _INT.fullmatch(text):
        if len(text) > MAX_DIGITS:
            raise ValueError(f"a number of {len(text)} digits; allowed: at most {MAX_DIGITS}")
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    if _FLOAT.fullmatch(text):
        return float(text.replace(".inf", "inf").replace(".nan", "nan") if text[-1].isalpha() and "." in text else text)
    return text


class _Open:
    """A mapping or a list whose end has not been seen."""

    def __init__(self, node: Node, name: str) -> None:
        self.node = node
        self.name = name  # the key it stands under, for messages
        self.key: tuple[str, Mark] | None = None  # a mapping's key that waits for its value


class Builder:
    """Takes parser events, builds the tree; goes on after a fault that leaves the structure clear."""

    def __init__(self, start: Mark) -> None:
        self.start = start
        self.last = start
        self.faults: list[str] = []
        self.root: Node | None = None
        self._open: list[_Open] = []
        self._nodes = 0
        self._documents = 0

    def mark(self, line: int, column: int) -> Mark:
        if not self.start.line:
            return self.start
        return Mark(self.start.source, line + 1, column + 1, self.start.folder)

    def take(self, event: Event) -> None:
        if event.start_mark is not None and not isinstance(event, StreamEndEvent):
            self.last = self.mark(event.start_mark.line, event.start_mark.column)
        match event:
            case DocumentStartEvent():
                self._start_document(event)
            case AliasEvent():
                self._stop(f"the alias *{shorten(str(event.anchor))} is not supported; {INSTEAD}")
            case ScalarEvent():
                self._scalar(event)
            case MappingStartEvent():
                self._start(event, {})
            case SequenceStartEvent():
                self._start(event, [])
            case MappingEndEvent() | SequenceEndEvent():
                self._open.pop()

    def _start_document(self, event: DocumentStartEvent) -> None:
        self._documents += 1
        if self._documents > 1:
            self._stop("a second document; write one document a file")
        if event.version and tuple(event.version) != (1, 2):
            self._stop(f"YAML {'.'.join(map(str, event.version))} is not read here; allowed: YAML 1.2")

    def _start(self, event: Event, empty: "dict[str, Entry] | list[Node]") -> None:
        if len(self._open) >= MAX_DEPTH:
            self._stop(f"nested too deeply; allowed: {MAX_DEPTH} levels")
        self._check(event)
        node = Node(empty, self.last)
        self._expect_value("a mapping or a list")
        key = self._open[-1].key if self._open else None
        self._place(node)
        self._open.append(_Open(node, key[0] if key else ""))

    def _scalar(self, event: ScalarEvent) -> None:
        self._check(event)
        top = self._open[-1] if self._open else None
        if top is not None and isinstance(top.node.value, dict) and top.key is None:
            top.key = (event.value, self.last)
            self._count()
            return
        value: Scalar = event.value
        if event.style is None:
            try:
                value = resolve(event.value)
            except ValueError as error:
                self._fault(str(error))
        nothing = top is not None and top.key is not None and event.style is None and not event.value
        self._place(Node(value, top.key[1] if nothing and top and top.key else self.last))

    def _expect_value(self, what: str) -> None:
        top = self._open[-1] if self._open else None
        if top is not None and isinstance(top.node.value, dict) and top.key is None:
            self._stop(f"{what} as a key; keys are text")

    def _place(self, node: Node) -> None:
        self._count()
        if not self._open:
            self.root = node
            return
        top = self._open[-1]
        if isinstance(top.node.value, list):
            top.node.value.append(node)
        elif isinstance(top.node.value, dict) and top.key is not None:
            key, mark = top.key
            top.key = None
            if key in top.node.value:
                first = top.node.value[key].key_mark
                self.faults.append(
                    f"{mark}: {self._path(key)}: duplicate key, first at line {first.line}; keep one of the two"
                )
                return
            top.node.value[key] = Entry(mark, node)

    def _path(self, key: str) -> str:
        return ".".join(shorten(part) for part in [*(open_.name for open_ in self._open), key] if part)

    def _check(self, event: Event) -> None:
        anchor = getattr(event, "anchor", None)
        if anchor:
            self._stop(f"the anchor &{shorten(str(anchor))} is not supported; {INSTEAD}")
        tag = getattr(event, "tag", None)
        if tag:
            self._fault(f"the tag {shorten(str(tag))} is not supported; quote a value that starts with !")

    def _count(self) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            self._stop(f"more than {MAX_NODES} keys and values; a scenario is a page of text")

    def _fault(self, what: str) -> None:
        self.faults.append(f"{self.last}: {what}")

    def _stop(self, what: str) -> None:
        raise ScenarioError([*self.faults, f"{self.last}: {what}"])
