"""Files of a run directory: whole or not there, with room for every byte, never through a symbolic link."""

import contextlib
import errno
import fcntl
import json
import os
import shutil
from pathlib import Path
from typing import Any

from emulator.errors import CannotRun

SMALL_BYTES_MAX = 64 * 1024
_MB = 1_000_000


def allocate_file(path: Path, size: int) -> None:
    """Create a file of mode 0600 with room for every byte, so that a full memory disk is met here and not as SIGBUS.

    CannotRun if there is no room; nothing is left behind.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise explain(error, path, size) from None
    try:
        os.posix_fallocate(handle, 0, size)
    except BaseException as error:
        with contextlib.suppress(OSError):
            path.unlink()
        if isinstance(error, OSError):
            raise explain(error, path, size) from None
        raise
    finally:
        os.close(handle)


def explain(error: OSError, path: Path, size: int | None = None) -> CannotRun:
    """One line for what went wrong at a path, and what to do about it."""
    place = _mount_point(path)
    if error.errno == errno.ENOSPC:
        if size is None:
            return CannotRun(f"{place} is full; free some, or set run_dir to another place")
        needs = f"this run needs {-(-size // _MB)} MB"
        return CannotRun(f"{place} has {_free_mb(place)} MB free, {needs}; free some, or set run_dir to another place")
    if error.errno == errno.EDQUOT:
        return CannotRun(f"your disk quota on {place} is used up; free some, or set run_dir to another place")
    if error.errno == errno.EROFS:
        return CannotRun(f"{place} is read-only; set run_dir to another place")
    if error.errno in (errno.EACCES, errno.EPERM):
        return CannotRun(f"no permission for {path}; set run_dir to a place of your own")
    if error.errno == errno.ENOENT:
        return CannotRun(f"{path.parent} does not exist; set run_dir to a place that does")
    if error.errno == errno.EFBIG:
        size_text = "" if size is None else f" of {-(-size // _MB)} MB"
        return CannotRun(f"a file{size_text} is above the limit of this shell; raise it with ulimit -f")
    return CannotRun(f"{path}: {error.strerror or error}; set run_dir to another place")


def lock_directory(path: Path, *, wait: bool = False) -> int | None:
    """An exclusive lock on a directory, held while the descriptor is open; None if another holds it or it is gone."""
    handle = -1
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        if handle >= 0:
            os.close(handle)
        return None
    return handle


def is_locked(path: Path) -> bool:
    """Whether another holds the lock."""
    handle = lock_directory(path)
    if handle is None:
        return path.is_dir()
    os.close(handle)
    return False


def delete_tree(path: Path, expected: os.stat_result) -> None:
    """Delete exactly the directory that ``expected`` describes, following no link on the way."""
    for _ in range(3):  # another may delete single files of it at the same time
        try:
            base = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            now = os.stat(path.name, dir_fd=base, follow_symlinks=False)
            if (now.st_dev, now.st_ino) != (expected.st_dev, expected.st_ino):
                return
            shutil.rmtree(path.name, dir_fd=base)
            return
        except FileNotFoundError:
            continue
        except OSError as error:
            raise CannotRun(f"{path} cannot be deleted: {error.strerror or error}") from None
        finally:
            os.close(base)


def write_whole(directory: Path, name: str, text: str) -> None:
    """Write a file of mode 0600 so that it is seen whole or not at all."""
    temporary = directory / f".{name}.{os.getpid()}"
    with contextlib.suppress(FileNotFoundError):
        temporary.unlink()
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        temporary.replace(directory / name)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def read_json(path: Path) -> Any:
    """What a small JSON file holds; ValueError if it is not small or not JSON."""
    try:
        return json.loads(_read_small(path))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _read_small(path: Path) -> bytes:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        data = file.read(SMALL_BYTES_MAX + 1)
    if len(data) > SMALL_BYTES_MAX:
        raise ValueError(f"longer than {SMALL_BYTES_MAX} bytes")
    return data


def _mount_point(path: Path) -> Path:
    place = path.absolute()
    while not place.is_mount() and place != place.parent:
        place = place.parent
    return place


def _free_mb(place: Path) -> str:
    try:
        disk = os.statvfs(place)
    except OSError:
        return "an unknown number of"
    return str(disk.f_bavail * disk.f_frsize // _MB)
