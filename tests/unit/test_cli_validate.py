"""`emulator validate`."""

import re
from pathlib import Path

import pytest

from emulator.cli import main
from emulator.scenario import load_scenario


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "s.yaml"
    path.write_text("name: x\nseed: 5\ncompare: [{name: a}, {name: b, device: {bql: {variant: v7}}}]\n")
    return path


def test_ok_names_the_variants(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", str(file)]) == 0
    first, a, b = capsys.readouterr().out.splitlines()
    assert first == f"{file}: ok"
    assert a == "  a: fq_codel, ring 256, bql off, 0 rules, 20s after 1s of warmup"
    assert b.startswith("  b: fq_codel, ring 256, bql v7 100us")


def test_warnings_are_shown(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", str(file), "--duration", "500ms"]) == 0
    assert "warmup: longer than what is measured, 500ms (warning)" in capsys.readouterr().out


def test_faults_go_to_stderr_with_exit_code_2(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", str(file), "--set", "seed=x", "--set", "foo=1", "--duration", "3"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.split(": ")[:2] for line in err.splitlines()] == [
        ["--set duration=3", "duration"],
        ["--set foo=1", "foo"],
        ["--set seed=x", "seed"],
    ]


def test_a_cpu_that_is_not_there(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: {0, 1})
    file.write_text("napi: {cpu: 5}\n")
    assert main(["validate", str(file)]) == 2
    expected = f"{file}:1:13: napi.cpu: CPU 5 is not there, or not ours to use; allowed: 0-1\n"
    assert capsys.readouterr().err == expected


def test_effective_is_a_scenario_of_the_same_meaning(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", str(file), "--effective", "--set", "device.ring_size=8"]) == 0
    again = file.with_name("again.yaml")
    again.write_text(capsys.readouterr().out)
    assert load_scenario(again).variants == load_scenario(file, ["device.ring_size=8"]).variants


@pytest.mark.parametrize("name", ["no-such-file.yaml", ".", "s.yaml/x"])
def test_what_is_no_file_is_one_line(file: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", str(file.parent / name)]) == 2
    assert re.fullmatch(r".*:1:1: .*\n", capsys.readouterr().err)


def test_an_expectation_that_no_run_could_meet_is_a_fault(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(file.read_text() + "expect: {rtt.avgg: <= 3ms}\n")
    assert main(["validate", str(file)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{file}:4:")
    assert "expect.rtt.avgg" in line
