"""Where run directories live: the bases, private to the user, and the list of those that are not the default one."""

import contextlib
import errno
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path

from emulator.errors import CannotRun
from emulator.runtime.rundir.files import explain, read_json, write_whole

SHM = Path("/dev/shm")
REGISTRY_FILE = "bases.json"


def default_base() -> Path:
    """Where runs live unless the scenario says otherwise."""
    return SHM / f"veth-emulator-{os.geteuid()}"


def base_in(run_dir: Path) -> Path:
    """Where runs live with ``run_dir`` in the scenario."""
    return run_dir / f"veth-emulator-{os.geteuid()}"


def prepare_base(base: Path) -> None:
    """Create a base, or check that it is a directory that this user alone can reach."""
    try:
        with contextlib.suppress(FileExistsError):
            base.mkdir(mode=0o700)
        check_private(base)
    except OSError as error:
        raise explain(error, base) from None


def register_base(base: Path) -> bool:
    """Remember a base, so that ``clean`` finds what was left there; False if it could not be written down."""
    try:
        prepare_base(default_base())
        with _registry_lock():
            known = _read_registry()
            if str(base) not in known:
                write_whole(default_base(), REGISTRY_FILE, json.dumps({"bases": [*known, str(base)]}, indent=1))
    except (OSError, CannotRun):
        return False
    return True


def known_bases() -> list[Path]:
    """The default base and every other base that was used and is still there."""
    return [default_base(), *(Path(base) for base in _read_registry() if os.path.lexists(base))]


def forget_missing_bases() -> None:
    """Drop bases that are no longer there from the registry."""
    with contextlib.suppress(OSError, CannotRun):
        check_private(default_base())
        with _registry_lock():
            known = _read_registry()
            there = [base for base in known if os.path.lexists(base)]
            if there != known:
                write_whole(default_base(), REGISTRY_FILE, json.dumps({"bases": there}, indent=1))


def check_private(base: Path) -> None:
    """CannotRun unless the base is a directory that this user alone can reach; OSError if it cannot be opened."""
    handle = -1
    try:
        handle = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        info = os.fstat(handle)
    except OSError as error:
        if base.is_symlink():
            raise CannotRun(f"{base} is a symbolic link, which is not followed; remove it, or set run_dir") from None
        if error.errno == errno.ENOTDIR and base.exists():
            raise CannotRun(f"{base} is no directory; remove it, or set run_dir to another place") from None
        raise
    finally:
        if handle >= 0:
            os.close(handle)
    if info.st_uid != os.geteuid():
        raise CannotRun(f"{base} belongs to user {info.st_uid}, not to you; set run_dir to another place")
    if info.st_mode & 0o077:
        raise CannotRun(
            f"{base} can be reached by other users (mode {info.st_mode & 0o777:04o}); run: chmod 700 {base}"
        )


@contextlib.contextmanager
def _registry_lock() -> Iterator[None]:
    handle = os.open(default_base(), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _read_registry() -> list[str]:
    """The bases that were written down; whatever is not an absolute path is passed over."""
    try:
        check_private(default_base())
        data = read_json(default_base() / REGISTRY_FILE)
        return [base for base in data["bases"] if isinstance(base, str) and base.startswith("/") and "\0" not in base]
    except (OSError, ValueError, KeyError, TypeError, CannotRun):
        return []
