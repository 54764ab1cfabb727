"""YAML 1.2 text as a tree in which every key and value knows its line and column.

Read strictly, and safely from anyone: events are taken one at a time and the tree is built here, so depth, size and
count are bounded before anything is built. A duplicate key, a tag, an anchor or an alias (`&x`, `*x`), a second
document: each is a fault with its place. Plain scalars are resolved by the core schema of YAML 1.2: `off`, `no` and
`10:30` are text, `1e6` is a number, `true` is the only truth.
"""

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    ScalarEvent,
    SequenceStartEvent,
    StreamEndEvent,
)
from ruamel.yaml.reader import ReaderError

from emulator.errors import ScenarioError
from emulator.scenario.text import printable, shorten

MAX_BYTES = 1_000_000
MAX_LINE = 10_000  # characters; the scanner's time grows with the square of some of its tokens
MAX_DEPTH = 32
MAX_NODES = 20_000
MAX_DIGITS = 20
INSTEAD = "write the value out, or use extends"

Scalar = str | int | float | bool | None

_NULL = re.compile(r"|~|null|Null|NULL")
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


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


def read_file(path: Path) -> Node:
    """The tree of a file; ScenarioError if it cannot be read or is not one strict YAML mapping."""
    mark = Mark(printable(str(path)), 1, 1, path.parent)
    root = parse(_read_text(path, mark), mark)
    if root is None or root.value is None:
        raise ScenarioError(f"{mark}: the file is empty; write at least 'name: ...'")
    if not isinstance(root.value, dict):
        raise ScenarioError(f"{root.mark}: the top level is not a mapping; write 'key: value' lines")
    return root


def parse(text: str, start: Mark) -> Node | None:
    """The tree of `text`, None if it is empty; ScenarioError with every fault found."""
    builder = _Builder(start)
    try:
        for event in YAML(typ="safe", pure=True).parse(text):
            builder.take(event)
    except ScenarioError:
        raise
    except MarkedYAMLError as error:
        where = error.problem_mark or error.context_mark
        at = builder.mark(where.line, where.column) if where else start
        raise ScenarioError([*builder.faults, f"{at}: not YAML: {_reason(error)}"]) from None
    except ReaderError as error:
        before = text[: error.position]
        at = builder.mark(before.count("\n"), error.position - before.rfind("\n") - 1)
        raise ScenarioError([*builder.faults, f"{at}: not YAML: a character that is not allowed in text"]) from None
    except Exception as error:  # the parser meets odd escapes with whatever chr() or int() raises
        at = builder.last
        raise ScenarioError([*builder.faults, f"{at}: not YAML: {shorten(str(error), 200)}"]) from None
    if builder.faults:
        raise ScenarioError(builder.faults)
    return builder.root


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


def _read_text(path: Path, mark: Mark) -> str:
    try:
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            raise ScenarioError(f"{mark}: is a directory; give a file in it")
        if not stat.S_ISREG(kind):
            raise ScenarioError(f"{mark}: is not a regular file; give a YAML file")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        raise ScenarioError(f"{mark}: cannot read: {why}; give the path of a readable YAML file") from None
    if len(data) > MAX_BYTES:
        raise ScenarioError(f"{mark}: larger than {MAX_BYTES} bytes; a scenario is a page of text")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        at = Mark(mark.source, line, column)
        raise ScenarioError(f"{at}: byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8 text") from None
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > MAX_LINE:
            raise ScenarioError(
                f"{Mark(mark.source, number, MAX_LINE + 1)}: the line is longer than {MAX_LINE}; break it"
            )
    return text


def _reason(error: MarkedYAMLError) -> str:
    problem = shorten(str(error.problem), 200)
    if "chomping" in problem:  # a plain value that starts with > or |
        return f"{problem}; put a value that starts with > or | in quotes"
    return f"{problem}; see the examples in scenarios/"


class _Open:
    """A mapping or a list whose end has not been seen."""

    def __init__(self, node: Node, name: str) -> None:
        self.node = node
        self.name = name  # the key it stands under, for messages
        self.key: tuple[str, Mark] | None = None  # a mapping's key that waits for its value


class _Builder:
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
            case _ if type(event).__name__ in ("MappingEndEvent", "SequenceEndEvent"):
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
