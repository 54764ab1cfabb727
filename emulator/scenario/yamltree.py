"""Strict YAML 1.2 text to a tree with places; safe with anything that anyone may hand in.

Events are taken from the parser one at a time and the tree is built in `yamlbuild`, so size, depth and count are
bounded before anything is built. Every fault is one line with its place.
"""

import os
import stat
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.reader import ReaderError

from emulator.errors import ScenarioError
from emulator.scenario.nodes import Mark, Node
from emulator.scenario.text import printable, shorten
from emulator.scenario.yamlbuild import Builder

MAX_BYTES = 1_000_000
MAX_LINE = 10_000  # characters; the scanner's time grows with the square of some of its tokens


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
    builder = Builder(start)
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
    for number, content in enumerate(text.split("\n"), 1):
        if len(content) > MAX_LINE:
            at = Mark(mark.source, number, MAX_LINE + 1)
            raise ScenarioError(f"{at}: the line is longer than {MAX_LINE} characters; break it")
    return text


def _reason(error: MarkedYAMLError) -> str:
    problem = shorten(str(error.problem), 200)
    if "chomping" in problem:  # a plain value that starts with > or |
        return f"{problem}; put a value that starts with > or | in quotes"
    return f"{problem}; see the examples in scenarios/"
