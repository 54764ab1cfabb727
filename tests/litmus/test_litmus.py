"""The machine reorders, the emulator's barriers stop it: two pinned processes and the atomics of every mechanism."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "litmus.py"
CPUS = len(os.sched_getaffinity(0))
GUARDED = [("sb", "smp_mb"), ("mp", "rel/acq"), ("stop", "smp_mb"), ("kick", "smp_mb")]
AS_BUILT = [("stop", "as built"), ("kick", "as built")]


def litmus(*arguments, cpus=None):
    """Run the tool, on fewer CPUs if told so."""

    def restrict():
        if cpus is not None:
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cpus])

    return subprocess.run(
        [sys.executable, TOOL, *arguments], capture_output=True, text=True, check=False, preexec_fn=restrict
    )


@pytest.fixture(scope="module")
def table():
    """One run of all cases: ``{(litmus, barrier): (n, seen)}``, or None where two CPUs cannot be had."""
    done = litmus("--json")
    if CPUS < 2:
        assert done.returncode == 4
        return None
    assert done.returncode in (0, 1), done.stderr
    return {(row["litmus"], row["barrier"]): (row["n"], row["seen"]) for row in json.loads(done.stdout)["cases"]}


def test_one_cpu_is_refused_by_name():
    done = litmus(cpus=1)
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == "litmus: two CPUs are needed, this process may use 1\n"


@pytest.mark.parametrize("name", ["sb", "stop", "kick"])
def test_without_barriers_the_machine_shows_the_forbidden_outcome(table, name):
    if table is not None:
        n, seen = table[name, "none"]
        assert seen > 0, f"not once in {n} rounds"


@pytest.mark.parametrize("case", GUARDED + AS_BUILT, ids=" ".join)
def test_with_barriers_it_never_does(table, case):
    if table is not None:
        n, seen = table[case]
        assert seen == 0, f"{seen} times in {n} rounds"
        assert n >= table.get((case[0], "none"), (1, 0))[0]  # as often as it took without


def test_table_for_people():
    done = litmus("--case", "mp", "--rounds", "1000")
    if CPUS < 2:
        assert done.returncode == 4
        return
    assert done.stdout.splitlines() == [
        "litmus  barrier              n   forbidden outcome",
        "mp      rel/acq           1000                   0",
        "without a barrier (none) the forbidden outcome may be seen, and on most CPUs is; with one it must be 0",
    ]
    assert (done.returncode, done.stderr) == (0, "")
