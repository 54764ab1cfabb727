"""`emulator clean`: deletes what is dead, leaves and names everything else."""

import json
import os
import subprocess
import sys
import types

import pytest

from emulator.cli import build_parser, clean
from emulator.kernel import cache as compiled_cache
from emulator.runtime import rundir
from emulator.runtime.host import process_start_time
from emulator.runtime.rundir import bases, runs


@pytest.fixture(autouse=True)
def base(tmp_path, monkeypatch):
    """A memory disk of our own, and nothing to salvage."""
    (tmp_path / "shm").mkdir()
    monkeypatch.setattr(bases, "SHM", tmp_path / "shm")
    rundir.prepare_base(rundir.default_base())
    salvage(monkeypatch, lambda run_dir: None)
    return rundir.default_base()


def salvage(monkeypatch, hook):
    module = types.ModuleType("emulator.runtime.measure")
    module.salvage_run = hook
    monkeypatch.setitem(sys.modules, "emulator.runtime.measure", module)


def dead_run(base, counter=0, name="dark"):
    owner = runs.myself(name, None, [])
    started = process_start_time(os.getpid()) - 1
    path = base / f"run-{os.getpid()}-{started}-{counter}"
    path.mkdir(mode=0o700)
    (path / "owner.json").write_text(json.dumps({**owner.__dict__, "start_ticks": started}))
    (path / "segment").write_bytes(b"\0" * 100)
    return path


def run(*argv):
    return clean.run(build_parser().parse(["clean", *map(str, argv)]))


def test_nothing_to_do(capsys):
    assert run() == 0
    assert capsys.readouterr().out == "no runs were left behind\n"


def test_the_dead_are_removed_and_the_living_and_the_unknown_are_left(base, capsys):
    dead, alive = dead_run(base), rundir.create_run_dir(name="now")
    (base / "photos").mkdir()
    assert run() == 0
    out = capsys.readouterr().out
    assert f"removed {dead} (dark): its launcher, pid {os.getpid()}, is gone\n" in out
    assert f"left    {alive.path} (now): its launcher, pid {os.getpid()}, is running\n" in out
    assert f"left    {base / 'photos'}: its name is not that of a run\n" in out
    assert not dead.exists()
    assert alive.path.exists()
    assert (base / "photos").exists()
    alive.remove()


def test_a_dry_run_deletes_nothing(base, capsys, monkeypatch):
    salvage(monkeypatch, lambda run_dir: pytest.fail("nothing is to be written"))
    dead = dead_run(base)
    assert run("--dry-run") == 0
    assert capsys.readouterr().out.startswith(f"would remove {dead}")
    assert (dead / "segment").exists()


def test_partial_results_are_saved_first(base, capsys, monkeypatch):
    dead = dead_run(base)
    saved = []

    def save(run_dir):
        saved.append((run_dir / "segment").read_bytes())
        return f"partial results of {run_dir.name} are in runs/x"

    salvage(monkeypatch, save)
    assert run() == 0
    assert saved == [b"\0" * 100]
    assert f"        partial results of {dead.name} are in runs/x\nremoved " in capsys.readouterr().out


def fail(run_dir):
    raise ValueError("no magic\nat all")


def test_results_that_cannot_be_saved_are_told_and_the_run_still_goes(base, capsys, monkeypatch):
    dead = dead_run(base)
    salvage(monkeypatch, fail)
    assert run() == 0
    assert "        partial results could not be saved: no magic at all\nremoved " in capsys.readouterr().out
    assert not dead.exists()


def test_keep_keeps_what_cannot_be_saved_and_nothing_else(base, capsys, monkeypatch):
    dead = dead_run(base)
    salvage(monkeypatch, fail)
    assert run("--keep") == 0
    assert f"left    {dead} (dark): its partial results could not be saved (--keep)" in capsys.readouterr().out
    assert dead.exists()
    salvage(monkeypatch, lambda run_dir: None)
    assert run("--keep") == 0
    assert not dead.exists()


def test_a_missing_hook_is_told(base, capsys, monkeypatch):
    dead_run(base)
    monkeypatch.setitem(sys.modules, "emulator.runtime.measure", None)
    assert run() == 0
    assert "partial results cannot be read" in capsys.readouterr().out


def test_runs_elsewhere_are_found(base, tmp_path, capsys):
    for place in ("used", "moved"):
        (tmp_path / place).mkdir()
    rundir.create_run_dir(tmp_path / "used").remove()
    remembered = dead_run(rundir.base_in(tmp_path / "used"))
    rundir.prepare_base(rundir.base_in(tmp_path / "moved"))
    forgotten = dead_run(rundir.base_in(tmp_path / "moved"))
    assert run() == 0
    assert not remembered.exists()
    assert forgotten.exists()
    assert run("--run-dir", tmp_path / "moved") == 0
    assert not forgotten.exists()


def test_a_base_that_is_not_to_be_trusted_is_told_and_left(base, capsys):
    dead = dead_run(base)
    base.chmod(0o777)
    assert run() == 4
    assert "can be reached by other users" in capsys.readouterr().err
    assert dead.exists()


def test_what_cannot_be_deleted_is_told(base, capsys, monkeypatch):
    dead = dead_run(base)

    def refuse(*_, **__):
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr("emulator.runtime.rundir.files.shutil.rmtree", refuse)
    assert run() == 4
    assert capsys.readouterr().err == f"left    {dead} cannot be deleted: Operation not permitted\n"


def test_names_from_a_file_cannot_write_to_the_terminal(base, capsys):
    dead_run(base, name="\x1b[2Jgone\ud800")
    (base / "\x1b]0;x\x07").mkdir()
    assert run() == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "(?[2Jgone?)" in out


def test_compiled_code_of_other_versions(capsys, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    current, other = cache / "0123456789abcdef", cache / "fedcba9876543210"
    for place in (current, other, cache / "not-a-hash"):
        place.mkdir(parents=True)
        (place / "x.nbc").write_text("x")
    (cache / "aaaaaaaaaaaaaaaa").symlink_to(current)
    monkeypatch.setattr(compiled_cache, "cache_dir", lambda: current)
    monkeypatch.setattr(compiled_cache, "source_hash", lambda: current.name)
    assert run("--cache", "--dry-run") == 0
    assert other.exists()
    assert run("--cache") == 0
    assert sorted(path.name for path in cache.iterdir()) == ["0123456789abcdef", "aaaaaaaaaaaaaaaa", "not-a-hash"]
    assert (current / "x.nbc").exists()
    assert f"removed {other}: compiled code of another version" in capsys.readouterr().out


def test_several_at_once_do_not_crash_and_leave_nothing(base):
    for counter in range(40):
        dead_run(base, counter)
    code = (
        "import sys, types; from pathlib import Path; from emulator.runtime.rundir import bases\n"
        "bases.SHM = Path(sys.argv[1])\n"
        "measure = types.ModuleType('measure'); measure.salvage_run = lambda run_dir: None\n"
        "sys.modules['emulator.runtime.measure'] = measure\n"
        "from emulator.cli import main; sys.exit(main(['clean']))"
    )
    command = [sys.executable, "-c", code, str(bases.SHM)]
    cleaners = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    outputs = [cleaner.communicate() for cleaner in cleaners]
    assert [cleaner.returncode for cleaner in cleaners] == [0, 0, 0], outputs
    assert [err for _, err in outputs] == ["", "", ""]
    assert sum(out.count("removed ") for out, _ in outputs) == 40  # each by exactly one
    assert list(base.iterdir()) == []
