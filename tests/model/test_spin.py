"""SPIN explores every interleaving of the stop/wake protocols: no error with the barriers, one without any of them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

MODELS = Path(__file__).resolve().parent
NEEDED = "the models are checked with SPIN and a C compiler; install them (Debian: apt-get install spin gcc)"


def explore(model, defines, directory):
    """All reachable states of a model: (errors, states, output)."""
    missing = [program for program in ("spin", "gcc") if shutil.which(program) is None]
    assert not missing, f"{', '.join(missing)} not found: {NEEDED}"
    for source in MODELS.glob("*.pml"):
        shutil.copy(source, directory)

    def run(*command):
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("spin", *(f"-D{name}" for name in defines), "-a", f"{model}.pml")
    run("gcc", "-O1", "-w", "-DSAFETY", "-DNOREDUCE", "-o", "pan", "pan.c")
    output = run("./pan", "-m100000")
    assert "max search depth too small" not in output
    found = re.search(r"(\d+) states, stored", output)
    return int(re.search(r"errors: (\d+)", output)[1]), int(found[1]), output


@pytest.mark.parametrize(
    ("model", "defines"),
    [
        ("bql", []),
        ("bql", ["NO_B1", "NO_B2", "TEST_THEN_CLEAR"]),  # veth's order alone is enough
        ("bql", ["STOP_LAST"]),
        ("bql", ["STOP_LAST", "TEST_THEN_CLEAR"]),
        ("bql", ["STOP_LAST", "SET_BIT_IS_RMW", "NO_B1"]),  # x86: the locked instruction is the barrier
        ("bql", ["STOP_LAST", "NO_B2"]),  # and so is test_and_clear_bit
        ("napi", []),
    ],
    ids=lambda value: value if isinstance(value, str) else "+".join(value) or "as built",
)
def test_no_wake_is_lost(model, defines, tmp_path):
    errors, states, output = explore(model, defines, tmp_path)
    assert errors == 0, output
    assert states > 500  # everything was explored, nothing got stuck at once


@pytest.mark.parametrize(
    ("model", "defines", "message"),
    [
        ("bql", ["STOP_LAST", "NO_B1"], "invalid end state"),
        ("bql", ["STOP_LAST", "NO_B2", "TEST_THEN_CLEAR"], "invalid end state"),
        ("napi", ["NO_K1"], "assertion violated"),
        ("napi", ["NO_K2"], "assertion violated"),
        ("napi", ["SCHED_STARTS"], "assertion violated"),
    ],
    ids=lambda value: value if isinstance(value, str) else "+".join(value),
)
def test_a_wake_is_lost_without(model, defines, message, tmp_path):
    errors, _, output = explore(model, defines, tmp_path)
    assert errors == 1, output
    assert message in output
    assert (tmp_path / f"{model}.pml.trail").exists()


def test_missing_programs_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AssertionError, match=r"spin, gcc not found: .* apt-get install spin gcc"):
        explore("bql", [], tmp_path)
