"""`emulator doctor`: what each fact means, and whether a default run can be done."""

import dataclasses
import json

import pytest

from emulator.cli import build_parser, doctor
from emulator.runtime import host, rundir
from emulator.runtime.host import HostFacts
from emulator.runtime.host.cgroup import CpuQuota
from emulator.runtime.rundir import bases

GOOD = HostFacts(
    cpus=[0, 1, 2, 3],
    cpus_online=4,
    cpu_model="Ryzen",
    governor="performance",
    smt_siblings=[],
    clocksource="tsc",
    tsc_unusable=None,
    hypervisor=False,
    steal_ticks=0,
    cpu_quota=CpuQuota(None),
    load_1min=0.1,
    kernel="6.18",
    memory_total_bytes=16 * 10**9,
    memory_available_bytes=12 * 10**9,
    shm_total_bytes=8 * 10**9,
    shm_free_bytes=8 * 10**9,
)


@pytest.fixture(autouse=True)
def base(tmp_path, monkeypatch):
    (tmp_path / "shm").mkdir()
    monkeypatch.setattr(bases, "SHM", tmp_path / "shm")
    monkeypatch.setattr(doctor, "_segment_bytes", lambda: 35 * 10**6)


@pytest.fixture
def examine(monkeypatch, capsys):
    """Exit code, verdict and items of a machine like GOOD but for some facts."""

    def examine(**changes):
        monkeypatch.setattr(host, "read_host", lambda: dataclasses.replace(GOOD, **changes))
        code = doctor.run(build_parser().parse(["doctor", "--json"]))
        out = json.loads(capsys.readouterr().out)
        assert out["can_run"] == (code == 0)
        assert all(item["meaning"] and "\n" not in item["meaning"] for item in out["items"])
        return code, out["verdict"], {item["name"]: item for item in out["items"]}

    return examine


def test_a_good_machine(examine):
    code, verdict, items = examine()
    assert (code, verdict) == (0, "good")
    assert set(items) == {
        "cores", "governor", "SMT", "clocksource", "stolen time", "cgroup quota", "load", "/dev/shm", "memory",
        "compiled code", "runs", "versions",
    }  # fmt: skip
    assert {item["level"] for item in items.values()} <= {"ok", "note"}


@pytest.mark.parametrize(
    ("changes", "name", "level", "says"),
    [
        ({"cpus": [5]}, "cores", "bad", "take turns on one CPU"),
        ({"cpus": [0, 1]}, "cores", "note", "one each"),
        ({"cpus": None}, "cores", "bad", "nothing is pinned"),
        ({"governor": "powersave"}, "governor", "note", "follows the load"),
        ({"governor": None}, "governor", "note", "cannot be read"),
        ({"cpus": [0, 1], "smt_siblings": [[0, 1]]}, "SMT", "bad", "different cores"),
        ({"smt_siblings": [[0, 1], [2, 3]]}, "SMT", "note", "different cores"),
        ({"smt_siblings": None}, "SMT", "note", "cannot be read"),
        ({"tsc_unusable": "it is hpet"}, "clocksource", "note", "it is hpet"),
        ({"hypervisor": True, "steal_ticks": 7}, "stolen time", "note", "virtual machine"),
        ({"steal_ticks": None}, "stolen time", "note", "cannot be read"),
        ({"cpu_quota": CpuQuota(1.5)}, "cgroup quota", "bad", "stands still"),
        ({"cpu_quota": CpuQuota(3)}, "cgroup quota", "note", "enough"),
        ({"cpu_quota": None}, "cgroup quota", "note", "cannot be read"),
        ({"load_1min": 3.0}, "load", "bad", "other programs"),
        ({"load_1min": None}, "load", "note", "cannot be read"),
        ({"memory_available_bytes": 60 * 10**6}, "memory", "bad", "a run needs 35 MB"),
        ({"memory_available_bytes": None}, "memory", "note", "cannot be read"),
    ],
)
def test_what_makes_results_worse_is_told_and_does_not_forbid_them(examine, changes, name, level, says):
    code, verdict, items = examine(**changes)
    assert code == 0
    assert verdict == ("with noise" if level == "bad" else "good")
    assert items[name]["level"] == level
    assert says in items[name]["meaning"]


@pytest.mark.parametrize(
    ("changes", "name", "says"),
    [
        ({"cpus": []}, "cores", "no CPU to run on"),
        ({"shm_free_bytes": 34_999_999}, "/dev/shm", "a run needs 35 MB; free some, or set run_dir"),
        ({"shm_free_bytes": 0}, "/dev/shm", "a run needs 35 MB"),
        ({"shm_free_bytes": None}, "/dev/shm", "set run_dir"),
    ],
)
def test_what_forbids_a_run_is_exit_code_4(examine, changes, name, says):
    code, verdict, items = examine(**changes)
    assert (code, verdict) == (4, "cannot run")
    assert items[name]["level"] == "stop"
    assert says in items[name]["meaning"]


def test_a_compiler_that_is_not_at_home_forbids_a_run(examine, monkeypatch):
    monkeypatch.setattr("emulator.kernel.cache.cache_dir", lambda: 1 / 0)
    code, _, items = examine()
    assert code == 4
    assert "ZeroDivisionError" in items["compiled code"]["meaning"]


def test_a_library_that_is_missing_forbids_a_run(examine, monkeypatch):
    monkeypatch.setattr(doctor, "_LIBRARIES", ("numba", "no-such-library"))
    code, _, items = examine()
    assert code == 4
    assert "not installed: no-such-library" in items["versions"]["meaning"]


def test_a_running_run_and_what_was_left_behind(examine):
    run = rundir.create_run_dir()
    (run.path.parent / "run-4194303-1-0").mkdir(mode=0o700)
    _, verdict, items = examine()
    assert verdict == "with noise"
    assert items["runs"]["value"] == "1 running, 1 left behind"
    run.remove()
    _, verdict, items = examine()
    assert verdict == "good"
    assert items["runs"]["meaning"] == "they hold memory; run: emulator clean"


def test_a_base_that_cannot_be_used_forbids_a_run(examine):
    rundir.prepare_base(rundir.default_base())
    rundir.default_base().chmod(0o755)
    code, _, items = examine()
    assert code == 4
    assert "chmod 700" in items["runs"]["meaning"]


def test_the_text_has_every_item_and_ends_with_the_verdict(monkeypatch, capsys):
    monkeypatch.setattr(host, "read_host", lambda: dataclasses.replace(GOOD, cpus=[0], load_1min=9.0))
    assert doctor.run(build_parser().parse(["doctor"])) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "! cores            1 usable of 4 (Ryzen)"
    assert lines[-1] == "verdict: a default run can be done here, but its timing will suffer from: cores, load"


def test_this_machine_can_be_examined(capsys):
    assert doctor.run(build_parser().parse(["doctor"])) in (0, 4)
    assert "verdict: " in capsys.readouterr().out
