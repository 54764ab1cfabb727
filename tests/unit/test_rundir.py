"""Run directories: private, owned, deleted by id and only when their launcher is known to be gone."""

import errno
import json
import os
import shutil
import stat
import subprocess
import sys
import threading

import pytest

from emulator.errors import CannotRun
from emulator.runtime import rundir
from emulator.runtime.host import process_start_time
from emulator.runtime.rundir import bases, files, runs

MODE = stat.S_IMODE


@pytest.fixture(autouse=True)
def shm(tmp_path, monkeypatch):
    """A memory disk of our own."""
    place = tmp_path / "shm"
    place.mkdir()
    monkeypatch.setattr(bases, "SHM", place)
    return place


@pytest.fixture
def base():
    base = rundir.default_base()
    rundir.prepare_base(base)
    return base


def put(base, *, pid=None, started=None, text=None, run_id=None, **changes):
    """A run directory as a launcher of that pid and start time would have left it."""
    pid = os.getpid() if pid is None else pid
    started = process_start_time(os.getpid()) - 1 if started is None else started
    path = base / (run_id or f"run-{pid}-{started}-0")
    path.mkdir(mode=0o700)
    owner = runs.myself("left", None, ["emulator", "run"])
    data = {**owner.__dict__, "pid": pid, "start_ticks": started, **changes}
    (path / "owner.json").write_text(json.dumps(data) if text is None else text)
    return path


def only(base):
    [found] = rundir.list_runs(base)
    return found


def test_a_run_directory_is_private_and_says_whose_it_is(base, tmp_path):
    run = rundir.create_run_dir(name="dark", out_dir=tmp_path, command=["emulator", "run", "x.yaml"])
    assert run.path.parent == base
    assert run.id == f"run-{os.getpid()}-{process_start_time(os.getpid())}-0"
    assert MODE(run.path.stat().st_mode) == MODE(base.stat().st_mode) == 0o700
    assert MODE((run.path / "owner.json").stat().st_mode) == 0o600
    found = only(base)
    assert (found.state, found.owner) == ("alive", run.owner)
    assert run.owner.command == ["emulator", "run", "x.yaml"]
    assert [path.name for path in run.path.iterdir()] == ["owner.json"]
    run.remove()
    run.remove()
    assert rundir.list_runs(base) == []


def test_two_runs_of_one_process_do_not_meet(base):
    first, second = rundir.create_run_dir(), rundir.create_run_dir()
    assert first.path != second.path
    first.remove()
    assert only(base).path == second.path
    second.remove()


def test_the_users_umask_does_not_matter(base):
    before = os.umask(0)
    try:
        run = rundir.create_run_dir()
        rundir.allocate_file(run.path / "segment", 10)
    finally:
        os.umask(before)
    assert MODE(run.path.stat().st_mode) == 0o700
    assert MODE((run.path / "segment").stat().st_mode) == 0o600
    run.remove()


def test_a_dead_launchers_run_is_found_and_removed_by_id(base):
    code = (
        "import sys; from pathlib import Path; from emulator.runtime import rundir; "
        "from emulator.runtime.rundir import bases; bases.SHM = Path(sys.argv[1]); rundir.create_run_dir(name='gone')"
    )
    subprocess.run([sys.executable, "-c", code, str(bases.SHM)], check=True)
    found = only(base)
    assert found.state == "dead"
    assert found.owner.name == "gone"
    assert rundir.remove(found)
    assert not found.path.exists()
    assert not rundir.remove(found)


def test_the_pid_of_a_dead_launcher_may_be_in_use_again(base):
    path = put(base)  # our own pid, but another start time
    assert only(base).state == "dead"
    assert rundir.remove(only(base))
    assert not path.exists()


def test_a_zombie_launcher_is_dead(base):
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    put(base, pid=child.pid, started=process_start_time(child.pid))
    assert only(base).state == "dead"
    child.wait()


def test_an_alive_run_cannot_be_removed(base):
    run = rundir.create_run_dir()
    assert not rundir.remove(only(base))
    stale = rundir.FoundRun(run.id, run.path, "dead", "as an old listing had it", run.owner)
    assert not rundir.remove(stale)
    run.release()  # without its lock it is still the run of a process that lives
    assert not rundir.remove(stale)
    assert run.path.exists()


def test_a_run_that_another_cleaner_holds_is_left_to_it(base):
    put(base)
    found = only(base)
    with rundir.claim(found) as claimed:
        assert claimed is not None
        assert not rundir.remove(found)
        claimed.delete()
        claimed.delete()
    assert rundir.list_runs(base) == []


def test_after_a_reboot_the_same_pid_and_start_time_prove_nothing(base):
    put(base, started=process_start_time(os.getpid()), boot_id="another boot")
    assert only(base).state == "dead"


def test_a_run_in_another_pid_namespace_is_judged_by_its_lock(base):
    path = put(base, pid=2**22 + 1, started=5, pid_namespace="pid:[1]")
    lock = files.lock_directory(path)
    assert only(base).state == "alive"
    os.close(lock)
    assert only(base).state == "dead"
    assert rundir.remove(only(base))


@pytest.mark.parametrize(
    ("arrange", "why"),
    [
        (lambda base: put(base, text=""), "owner.json cannot be read"),
        (lambda base: put(base, text='{"pid": 1'), "owner.json cannot be read"),
        (lambda base: put(base, text="\x00" * 100), "owner.json cannot be read"),
        (lambda base: put(base, text="[" * 100_000), "owner.json cannot be read"),
        (lambda base: put(base, text="[" * 60_000), "owner.json cannot be read"),
        (lambda base: put(base, text="[]"), "its keys are not those of an owner"),
        (lambda base: put(base, more=1), "its keys are not those of an owner"),
        (lambda base: put(base, pid_namespace=3), "pid_namespace is no text"),
        (lambda base: put(base, command=[1]), "command is no list of words"),
        (lambda base: put(base, start_ticks=True), "start_ticks is no number"),
        (lambda base: put(base, run_id="run-1-1-0"), "names another process"),
        (lambda base: put(base, hostname="elsewhere"), "made on host elsewhere"),
        (lambda base: put(base, run_id="run-x"), "its name is not that of a run"),
        (lambda base: put(base, run_id="photos"), "its name is not that of a run"),
        (lambda base: (base / "run-1-1-0").write_text("x"), "it is no directory"),
        (lambda base: (base / "run-1-1-0").symlink_to("/"), "it is no directory"),
    ],
)
def test_what_cannot_be_judged_is_listed_and_left(base, arrange, why):
    arrange(base)
    found = only(base)
    assert found.state == "unknown"
    assert why in found.why
    assert not rundir.remove(found)
    assert os.path.lexists(found.path)


def test_a_run_of_another_user_is_left(base, monkeypatch):
    found = only_after_put = put(base)
    real = os.geteuid()
    monkeypatch.setattr(runs.os, "geteuid", lambda: real + 1)
    [found] = [runs._look(only_after_put)]
    assert found.state == "unknown"
    assert f"belongs to user {real}" in found.why


def test_a_launcher_killed_before_it_wrote_its_name_leaves_nothing_for_ever(base):
    empty = base / "run-4194303-7-0"
    empty.mkdir(mode=0o700)
    (empty / ".owner.json.4194303").write_text('{"pid"')
    assert only(base).state == "dead"
    assert rundir.remove(only(base))


def test_a_launcher_that_is_about_to_write_its_name_is_alive(base):
    (base / f"run-{os.getpid()}-{process_start_time(os.getpid())}-0").mkdir(mode=0o700)
    assert only(base).state == "alive"


def test_files_without_an_owner_are_left(base):
    path = base / "run-4194303-7-0"
    path.mkdir(mode=0o700)
    (path / "thesis.tex").write_text("x")
    assert only(base).state == "unknown"
    assert "holds 'thesis.tex'" in only(base).why


def test_a_link_inside_a_run_is_removed_and_not_followed(base, tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("x")
    path = put(base)
    (path / "link").symlink_to(precious)
    (path / "sub").mkdir()
    (path / "sub" / "link").symlink_to(precious / "file")
    assert rundir.remove(only(base))
    assert (precious / "file").read_text() == "x"


def test_a_directory_that_took_the_place_of_a_run_is_not_deleted(base):
    path = put(base)
    with rundir.claim(only(base)) as claimed:
        path.rename(base / "aside")
        path.mkdir()
        claimed.delete()
    assert path.exists()
    assert (base / "aside").exists()


def test_an_owner_that_is_a_link_or_a_pipe_is_not_followed(base, tmp_path):
    path = put(base)
    secret = tmp_path / "secret"
    (path / "owner.json").rename(secret)
    (path / "owner.json").symlink_to(secret)
    assert only(base).state == "unknown"
    (path / "owner.json").unlink()
    os.mkfifo(path / "owner.json")
    assert only(base).state == "unknown"


# -- the base


def test_a_base_that_is_a_link_is_refused(shm, tmp_path):
    target = tmp_path / "target"
    target.mkdir(mode=0o700)
    rundir.default_base().symlink_to(target)
    with pytest.raises(CannotRun, match="is a symbolic link"):
        rundir.create_run_dir()
    with pytest.raises(CannotRun, match="is a symbolic link"):
        rundir.list_runs(rundir.default_base())
    assert list(target.iterdir()) == []


def test_a_dangling_link_is_refused(shm, tmp_path):
    rundir.default_base().symlink_to(tmp_path / "nowhere")
    with pytest.raises(CannotRun, match="is a symbolic link"):
        rundir.create_run_dir()
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("mode", [0o710, 0o701, 0o777, 0o750])
def test_a_base_that_others_can_reach_is_refused(base, mode):
    base.chmod(mode)
    with pytest.raises(CannotRun, match=f"mode {mode:04o}.*chmod 700"):
        rundir.create_run_dir()


def test_a_base_of_another_user_is_refused(base, monkeypatch):
    mine = os.geteuid()
    monkeypatch.setattr(bases.os, "geteuid", lambda: mine + 1)
    with pytest.raises(CannotRun, match=f"belongs to user {mine}"):
        bases.check_private(base)


def test_a_base_that_is_a_file_is_refused(shm):
    rundir.default_base().write_text("x")
    with pytest.raises(CannotRun, match="is no directory"):
        rundir.create_run_dir()


def test_a_run_dir_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(CannotRun, match="nowhere does not exist"):
        rundir.create_run_dir(tmp_path / "nowhere")


def test_custom_bases_are_remembered_once_and_forgotten_when_gone(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    first, second = rundir.create_run_dir(place), rundir.create_run_dir(place)
    custom = rundir.base_in(place)
    assert first.path.parent == second.path.parent == custom
    assert rundir.known_bases() == [rundir.default_base(), custom]
    assert MODE((rundir.default_base() / "bases.json").stat().st_mode) == 0o600
    first.remove()
    second.remove()
    rundir.forget_missing_bases()
    assert custom in rundir.known_bases()  # a run may begin there any moment
    shutil.rmtree(place)
    rundir.forget_missing_bases()
    assert json.loads((rundir.default_base() / "bases.json").read_text()) == {"bases": []}
    assert rundir.list_runs(rundir.default_base()) == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"bases": 3}', '{"bases": [1, "relative", "/a\\u0000b"]}'])
def test_a_damaged_registry_is_passed_over_and_mended(base, tmp_path, text):
    (base / "bases.json").write_text(text)
    assert rundir.known_bases() == [base]
    rundir.create_run_dir(tmp_path).remove()
    assert rundir.known_bases() == [base, rundir.base_in(tmp_path)]


def test_a_run_elsewhere_works_without_a_default_base(tmp_path, monkeypatch):
    monkeypatch.setattr(bases, "SHM", tmp_path / "none")
    rundir.create_run_dir(tmp_path).remove()
    assert rundir.known_bases() == [rundir.default_base()]


# -- room


def test_a_file_is_allocated_whole(base):
    rundir.allocate_file(base / "f", 1_000_000)
    assert (base / "f").stat().st_size == 1_000_000
    assert (base / "f").stat().st_blocks * 512 >= 1_000_000


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.ENOSPC, "has 7 MB free, this run needs 36 MB; free some, or set run_dir to another place"),
        (errno.EDQUOT, "disk quota"),
        (errno.EROFS, "is read-only"),
        (errno.EACCES, "no permission"),
        (errno.EFBIG, "a file of 36 MB is above the limit of this shell"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_no_room_is_one_line_and_nothing_is_left(base, monkeypatch, number, says):
    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files.os, "posix_fallocate", fail)
    monkeypatch.setattr(files, "_free_mb", lambda _: "7")
    with pytest.raises(CannotRun, match=says) as refused:
        rundir.allocate_file(base / "f", 35_200_000)
    assert refused.value.exit_code == 4
    assert "\n" not in str(refused.value)
    assert list(base.iterdir()) == []


def test_an_interrupt_while_allocating_leaves_nothing(base, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "posix_fallocate", interrupt)
    with pytest.raises(KeyboardInterrupt):
        rundir.allocate_file(base / "f", 10)
    assert list(base.iterdir()) == []


def test_a_file_size_limit_is_met_as_an_error_and_not_as_a_signal(base):
    code = (
        "import resource, sys; from pathlib import Path; from emulator.runtime.rundir import allocate_file\n"
        "from emulator.errors import CannotRun\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "try: allocate_file(Path(sys.argv[1]), 1_000_000)\n"
        "except CannotRun as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(base / "f")], capture_output=True, text=True, check=True)
    assert done.stdout == "a file of 1 MB is above the limit of this shell; raise it with ulimit -f\n"
    assert list(base.iterdir()) == []


def test_a_file_that_is_there_is_neither_overwritten_nor_deleted(base):
    (base / "f").write_text("x")
    with pytest.raises(CannotRun, match="File exists"):
        rundir.allocate_file(base / "f", 10)
    assert (base / "f").read_text() == "x"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_while_the_owner_is_written_leaves_nothing(base, monkeypatch, number):
    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(runs, "write_whole", fail)
    with pytest.raises(CannotRun, match="set run_dir to another place"):
        rundir.create_run_dir()
    assert list(base.iterdir()) == []


# -- many at once


def test_launchers_and_cleaners_at_once(base):
    code = (
        "import sys; from pathlib import Path; from emulator.runtime import rundir; "
        "from emulator.runtime.rundir import bases; bases.SHM = Path(sys.argv[1])\n"
        "for number in range(60):\n"
        "    run = rundir.create_run_dir()\n"
        "    (run.path / 'segment').write_text('x')\n"
        "    assert (run.path / 'owner.json').exists()\n"
        "    if number % 2: run.remove()\n"
        "    else: run.release()\n"
    )
    launchers = [subprocess.Popen([sys.executable, "-c", code, str(bases.SHM)]) for _ in range(2)]
    failed = []

    def clean():
        try:
            while any(launcher.poll() is None for launcher in launchers):
                for found in rundir.list_runs(base):
                    rundir.remove(found)
        except BaseException as error:
            failed.append(error)

    cleaners = [threading.Thread(target=clean) for _ in range(2)]
    for cleaner in cleaners:
        cleaner.start()
    assert [launcher.wait() for launcher in launchers] == [0, 0]
    for cleaner in cleaners:
        cleaner.join()
    assert failed == []
    for found in rundir.list_runs(base):
        assert found.state == "dead"
        assert rundir.remove(found)
    assert list(base.iterdir()) == []
