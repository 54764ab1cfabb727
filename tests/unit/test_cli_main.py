"""The command line as a process: what it imports, prints and returns."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import emulator.cli
from emulator import errors
from emulator.cli import build_parser, main
from emulator.errors import ExitCode

HEAVY = ("numba", "llvmlite", "matplotlib", "numpy", "zmq", "pydantic", "rich", "ruamel", "shtab", "multiprocess")


def emulator_(*argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "emulator", *argv]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **env}, check=False)


@pytest.mark.parametrize("argv", [["--help"], ["validate", "--help"], ["--version"], ["no-such-verb"]])
def test_help_imports_nothing_heavy(argv: list[str]) -> None:
    script = (
        "import sys\nfrom emulator.cli import main\n"
        f"main({argv})\n"
        f"print('HEAVY', [m for m in {HEAVY} if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "HEAVY []"


def test_help_and_version_go_to_stdout() -> None:
    assert "validate" in emulator_("--help").stdout
    assert re.fullmatch(r"emulator \d+\.\d+\.\d+\n", emulator_("--version").stdout)


def test_every_verb_says_what_it_is_for() -> None:
    text = build_parser().format_help()
    assert build_parser().verbs is not None
    for verb in build_parser().verbs.choices:  # type: ignore[union-attr]
        assert re.search(rf"{verb}\s+\S", text)


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["vlidate", "x"], "emulator: error: unknown 'vlidate', did you mean 'validate'?; allowed: "),
        (["validate", "x", "--sett", "y"], "emulator: error: unknown argument '--sett', did you mean '--set'?; see"),
        (["validate", "x", "--zzz"], "emulator: error: unknown argument '--zzz'; see emulator validate --help"),
        (["validate", "x", "a\nb"], "emulator: error: unknown argument 'a b'; see emulator validate --help"),
        (["validate"], "emulator: error: the following arguments are required: SCENARIO; see emulator validate --help"),
        (["completion", "bsh"], "emulator: error: unknown 'bsh', did you mean 'bash'?; allowed: bash, zsh, tcsh; see"),
    ],
)
def test_usage_errors_are_one_line_with_the_nearest_match(
    argv: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == ExitCode.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(line)
    assert err.count("\n") == 1


def test_no_verb_shows_the_help_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == ExitCode.USAGE
    out, err = capsys.readouterr()
    assert (out, "validate" in err) == ("", True)


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> int:
    def fail(_argv: object) -> int:
        raise error

    monkeypatch.setattr(emulator.cli, "_dispatch", fail)
    return main([])


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UsageError("x"), 2),
        (errors.AgentFailure("x"), 3),
        (errors.CannotRun("x"), 4),
        (errors.IdentityFailure("x"), 1),
    ],
)
def test_an_error_carries_its_exit_code(
    error: errors.EmulatorError, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert raising(monkeypatch, error) == code
    assert capsys.readouterr().err == "emulator: error: x\n"


def test_scenario_errors_are_printed_as_they_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert raising(monkeypatch, errors.ScenarioError(["a:1:1: x", "a:2:1: y"])) == 2
    assert capsys.readouterr().err == "a:1:1: x\na:2:1: y\n"


def test_ctrl_c_is_130_without_a_word(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert raising(monkeypatch, KeyboardInterrupt()) == ExitCode.INTERRUPTED == 130
    assert capsys.readouterr() == ("", "")


def test_a_bug_is_one_line_and_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv("EMULATOR_DEBUG", raising=False)
    assert raising(monkeypatch, RuntimeError("two\nlines")) not in list(ExitCode)
    err = capsys.readouterr().err
    assert err.startswith("emulator: error: this is a bug: RuntimeError: two lines; traceback in ")
    assert err.count("\n") == 1
    (saved,) = tmp_path.iterdir()
    assert str(saved) in err
    assert "Traceback" in saved.read_text()


def test_a_bug_shows_its_traceback_when_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EMULATOR_DEBUG", "1")
    raising(monkeypatch, RuntimeError("boom"))
    assert "Traceback" in capsys.readouterr().err


def test_a_reader_that_leaves_is_no_error() -> None:
    script = (
        "import os, sys\nfrom emulator.cli import main\n"
        "r, w = os.pipe()\nos.close(r)\nos.dup2(w, 1)\n"
        "sys.exit(main(['completion', 'bash']))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion_knows_the_verbs(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert "validate" in capsys.readouterr().out
