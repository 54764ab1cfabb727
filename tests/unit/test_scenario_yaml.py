"""Strict YAML: what is read, what is refused, and where the finger points."""

import os
from pathlib import Path

import pytest

from emulator.errors import ScenarioError
from emulator.scenario.nodes import Mark
from emulator.scenario.yamlbuild import MAX_DEPTH, MAX_NODES, resolve
from emulator.scenario.yamltree import MAX_BYTES, parse, read_file


def problems(path: Path, text: str | bytes) -> list[str]:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(ScenarioError) as error:
        read_file(path)
    return [line.removeprefix(f"{path}:") for line in error.value.problems]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "s.yaml"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("FALSE", False),
        ("off", "off"),
        ("no", "no"),
        ("yes", "yes"),
        ("10:30", "10:30"),
        ("1_000", "1_000"),
        ("012", 12),
        ("0o14", 12),
        ("0x1F", 31),
        ("-7", -7),
        ("1e6", 1e6),
        (".5", 0.5),
        ("-.inf", float("-inf")),
        ("20s", "20s"),
        ("2026-01-01", "2026-01-01"),
    ],
)
def test_plain_scalars_follow_the_core_schema_of_yaml_1_2(text: str, value: object) -> None:
    assert resolve(text) == value
    assert type(resolve(text)) is type(value)


def test_quoted_scalars_are_text() -> None:
    tree = parse("{a: '3', b: \"true\", c: 3}", Mark("x", 1, 1))
    assert tree is not None
    assert tree.plain() == {"a": "3", "b": "true", "c": 3}


def test_every_value_knows_its_place(file: Path) -> None:
    file.write_text("a: 1\nb:\n  - x\n  - {c: 2}\n")
    tree = read_file(file)
    inner = tree.child("b").child(1).entries()["c"]  # type: ignore[union-attr]
    assert str(inner.key_mark) == f"{file}:4:6"
    assert str(inner.node.mark) == f"{file}:4:9"


def test_a_byte_order_mark_and_crlf_change_nothing(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")
    assert read_file(file).plain() == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "1:1: the file is empty"),
        ("# nothing\n", "1:1: the file is empty"),
        ("---\n", "the file is empty"),
        ("- a\n", "1:1: the top level is not a mapping"),
        ("hello\n", "1:1: the top level is not a mapping"),
        ("a: 1\nb: 2\na: 3\n", "3:1: a: duplicate key, first at line 1"),
        ("d:\n  x: {k: 1, k: 2}\n", "2:13: d.x.k: duplicate key, first at line 2"),
        ("a:\n\tb: 1\n", "2:1: not YAML"),
        ("a: 'x\n", "not YAML"),
        ("a: b: c\n", "1:5: not YAML"),
        ("a: {b: 1\n", "not YAML"),
        ("a: [1, 2\nb: 3\n", "2:2: not YAML"),
        ("a: >= 3ms\n", "in quotes"),
        ("a: \x00\n", "1:4: not YAML: a character"),
        ("x: 1\na: \x07\n", "2:4: not YAML: a character"),
        ('a: "\\Uffffffff"\n', "not YAML"),
        ("a: &x 1\n", "1:4: the anchor &x is not supported"),
        ("a: *x\n", "1:4: the alias *x is not supported"),
        ("a: !!int 3\n", "1:4: the tag"),
        ("a: !foo {}\n", "1:4: the tag !foo is not supported"),
        ("? {a: 1}\n: 2\n", "1:3: a mapping or a list as a key"),
        ("a: 1\n---\nb: 2\n", "2:1: a second document"),
        ("%YAML 1.1\n---\na: 1\n", "YAML 1.1 is not read here"),
        ("a: " + "9" * 50 + "\n", "1:4: a number of 50 digits"),
        ("a: " + "[" * (MAX_DEPTH + 1) + "\n", f"nested too deeply; allowed: {MAX_DEPTH}"),
        ("a: " + "x" * 20_000 + "\n", "1:10001: the line is longer"),
        ("a:\n" + "- 1\n" * (MAX_NODES + 1), "more than"),
        ("a: 1\n" * (MAX_BYTES // 4), "1:1: larger than"),
        (b"a: \xff\xfe\n", "1:4: byte 0xff is not UTF-8"),
        (b"ok: 1\nab: x\xe9\n", "2:6: byte 0xe9 is not UTF-8"),
        ("a: 1\n".encode("utf-16"), "1:1: byte 0xff is not UTF-8"),
        (b"\x7fELF\x02\x01\x01\x00", "not YAML"),
    ],
)
def test_what_is_not_one_strict_mapping_is_one_line(file: Path, text: str | bytes, expected: str) -> None:
    found = problems(file, text)
    assert len(found) == 1
    assert expected in found[0]
    assert "\n" not in found[0]


def test_faults_that_leave_the_structure_clear_are_all_reported(file: Path) -> None:
    assert len(problems(file, "a: 1\na: 2\nb: !x 1\nc: {d: 1, d: 2}\n")) == 3


@pytest.mark.parametrize("name", ["", "no-such.yaml", "fifo", "loop", "a" * 300, "nul\0.yaml"])
def test_what_is_not_a_readable_file_is_one_line(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ScenarioError) as error:
        read_file(tmp_path / name)
    assert len(error.value.problems) == 1
    assert ":1:1: " in str(error.value)
    assert str(error.value).isprintable()


def test_a_file_that_may_not_be_read_says_why(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("a: 1\n")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "x")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ScenarioError, match="cannot read: Permission denied"):
        read_file(file)
