"""Run directories: made and held by a launcher, found and judged by anybody, deleted by id."""

import contextlib
import json
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from emulator.errors import CannotRun
from emulator.runtime.host.procfs import is_running
from emulator.runtime.rundir.bases import (
    REGISTRY_FILE,
    base_in,
    check_private,
    default_base,
    prepare_base,
    register_base,
)
from emulator.runtime.rundir.files import delete_tree, explain, is_locked, lock_directory, write_whole
from emulator.runtime.rundir.owner import OWNER_FILE, Owner, is_alive, myself, read_owner

_RUN_ID = re.compile(r"run-([1-9][0-9]{0,9})-([0-9]{1,19})-([0-9]{1,9})")


@dataclass
class RunDir:
    """A run directory held by this process."""

    id: str
    path: Path
    owner: Owner
    _lock_fd: int = field(repr=False)

    def remove(self) -> None:
        """Delete the directory and let go of it. Twice is harmless."""
        if self._lock_fd >= 0:
            delete_tree(self.path, os.fstat(self._lock_fd))
            self.release()

    def release(self) -> None:
        """Let go of the directory and leave it where it is."""
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1


RunState = Literal["alive", "dead", "unknown"]


@dataclass(frozen=True)
class FoundRun:
    """An entry of a base. Only what is ``dead`` may be removed; ``why`` is a half sentence for the user."""

    id: str
    path: Path
    state: RunState
    why: str
    owner: Owner | None = None


def create_run_dir(
    run_dir: Path | None = None, *, name: str = "", out_dir: Path | None = None, command: Sequence[str] = ()
) -> RunDir:
    """Create a run directory of mode 0700 and write down its owner; CannotRun if this place cannot be used."""
    base = default_base() if run_dir is None else base_in(run_dir.absolute())
    owner = myself(name, out_dir, command)
    for counter in range(10_000):
        prepare_base(base)
        if run_dir is not None and counter == 0:
            register_base(base)
        made = _make_run(base, f"run-{owner.pid}-{owner.start_ticks}-{counter}", owner)
        if made is not None:
            return made
    raise CannotRun(f"{base} holds 10000 runs of this process; run: emulator clean")


def list_runs(base: Path) -> list[FoundRun]:
    """What lies in a base, oldest first. One that is not there holds nothing; CannotRun if it is not to be trusted."""
    try:
        check_private(base)
        names = sorted(os.listdir(base))  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise explain(error, base) from None
    found = (_look(base / name) for name in names if name != REGISTRY_FILE and not name.startswith(f".{REGISTRY_FILE}"))
    return sorted(filter(None, found), key=lambda run: (run.owner.created if run.owner else "", run.id))


def remove(run: FoundRun) -> bool:
    """Delete a dead run; False if it is not dead, gone, or in another's hands. CannotRun if it cannot be deleted."""
    if run.state != "dead":
        return False
    with claim(run) as claimed:
        if claimed is None:
            return False
        claimed.delete()
    return True


@dataclass(frozen=True)
class Claim:
    """A dead run that is ours alone to deal with."""

    path: Path
    info: os.stat_result

    def delete(self) -> None:
        """Delete it; CannotRun if that fails."""
        delete_tree(self.path, self.info)


@contextlib.contextmanager
def claim(run: FoundRun) -> Iterator[Claim | None]:
    """Hold a dead run so that no other ``clean`` works on it; None if another holds it or it is not dead after all."""
    lock = lock_directory(run.path)
    try:
        now = _look(run.path, lock) if lock is not None else None
        is_dead = lock is not None and now is not None and now.state == "dead"
        yield Claim(run.path, os.fstat(lock)) if lock is not None and is_dead else None
    finally:
        if lock is not None:
            os.close(lock)


def _make_run(base: Path, run_id: str, owner: Owner) -> RunDir | None:
    """One attempt; None if the name is taken or a cleaner took the directory before its owner was written."""
    path = base / run_id
    try:
        path.mkdir(mode=0o700)
    except (FileExistsError, FileNotFoundError):
        return None
    except OSError as error:
        raise explain(error, path) from None
    lock = lock_directory(path, wait=True)  # somebody may be looking at it
    if lock is None:
        return None
    try:
        write_whole(path, OWNER_FILE, json.dumps(asdict(owner), indent=1))
    except BaseException as error:
        with contextlib.suppress(CannotRun):
            delete_tree(path, os.fstat(lock))
        os.close(lock)
        if isinstance(error, FileNotFoundError):
            return None
        if isinstance(error, OSError):
            raise explain(error, path) from None
        raise
    return RunDir(id=run_id, path=path, owner=owner, _lock_fd=lock)


def _look(path: Path, held: int | None = None) -> FoundRun | None:
    """Judge one entry of a base; None if it is gone. ``held``: our own lock on it."""
    named = _RUN_ID.fullmatch(path.name)
    try:
        info = path.lstat()
    except OSError:
        return None
    if named is None:
        return _unknown(path, "its name is not that of a run")
    if not stat.S_ISDIR(info.st_mode):
        return _unknown(path, "it is no directory")
    if info.st_uid != os.geteuid():
        return _unknown(path, f"it belongs to user {info.st_uid}")
    pid, started = int(named[1]), int(named[2])
    try:
        owner = read_owner(path)
    except FileNotFoundError:
        return _look_without_owner(path, is_running(pid, started), held)
    except (OSError, ValueError) as error:
        return _unknown(path, f"{OWNER_FILE} cannot be read: {error}")
    if (owner.pid, owner.start_ticks) != (pid, started):
        return _unknown(path, f"{OWNER_FILE} names another process than the directory does", owner)
    return _judge(path, owner, held)


def _judge(path: Path, owner: Owner, held: int | None) -> FoundRun:
    alive = is_alive(owner)
    if alive is None and owner.hostname != os.uname().nodename:
        return _unknown(path, f"it was made on host {owner.hostname}", owner)
    if alive is None and held is None and is_locked(path):
        return FoundRun(path.name, path, "alive", "its launcher is running in another pid namespace", owner)
    if alive:
        return FoundRun(path.name, path, "alive", f"its launcher, pid {owner.pid}, is running", owner)
    return FoundRun(path.name, path, "dead", f"its launcher, pid {owner.pid}, is gone", owner)


def _look_without_owner(path: Path, alive: bool, held: int | None) -> FoundRun | None:
    """A launcher that was killed between its first two steps leaves an empty directory, or a half-written owner."""
    if alive or (held is None and is_locked(path)):
        return FoundRun(path.name, path, "alive", "its launcher is starting")
    try:
        strangers = [name for name in os.listdir(path) if not name.startswith(f".{OWNER_FILE}.")]  # noqa: PTH208
    except FileNotFoundError:
        return None
    except OSError as error:
        return _unknown(path, f"it cannot be read: {error.strerror}")
    if strangers:
        return _unknown(path, f"it has no {OWNER_FILE} but holds {strangers[0]!r}")
    return FoundRun(path.name, path, "dead", "its launcher was gone before it began")


def _unknown(path: Path, why: str, owner: Owner | None = None) -> FoundRun:
    return FoundRun(path.name, path, "unknown", why, owner)
