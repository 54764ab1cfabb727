"""Whose a run is: the launcher, as owner.json holds it."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from emulator.errors import CannotRun
from emulator.runtime.host.procfs import is_running, process_start_time, read_text
from emulator.runtime.rundir.files import read_json

OWNER_FILE = "owner.json"


@dataclass(frozen=True)
class Owner:
    """The launcher of a run, as owner.json holds it."""

    pid: int
    start_ticks: int
    name: str
    out_dir: str | None
    command: list[str]
    created: str  # ISO 8601, UTC
    hostname: str
    boot_id: str | None
    pid_namespace: str | None


def is_alive(owner: Owner) -> bool | None:
    """Whether the launcher still runs; None if that cannot be told from here."""
    if owner.hostname != os.uname().nodename:
        return None
    boot_id = _boot_id()
    if owner.boot_id is not None and boot_id is not None and owner.boot_id != boot_id:
        return False
    if owner.pid_namespace != _pid_namespace():
        return None
    return is_running(owner.pid, owner.start_ticks)


def myself(name: str, out_dir: Path | None, command: Sequence[str]) -> Owner:
    """This process as an owner."""
    started = process_start_time(os.getpid())
    if started is None:
        raise CannotRun("/proc/self/stat cannot be read; /proc has to be mounted")
    return Owner(
        pid=os.getpid(),
        start_ticks=started,
        name=name,
        out_dir=None if out_dir is None else str(out_dir),
        command=list(command),
        created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        hostname=os.uname().nodename,
        boot_id=_boot_id(),
        pid_namespace=_pid_namespace(),
    )


def read_owner(path: Path) -> Owner:
    """owner.json; ValueError if it is not exactly what this version writes."""
    data = read_json(path / OWNER_FILE)
    names = {one.name for one in fields(Owner)}
    if not isinstance(data, dict) or set(data) != names:
        raise ValueError("its keys are not those of an owner")
    for key in ("pid", "start_ticks"):
        if type(data[key]) is not int or data[key] < 0:
            raise ValueError(f"{key} is no number")
    for key in names - {"pid", "start_ticks", "command"}:
        optional = key in ("out_dir", "boot_id", "pid_namespace")
        if not isinstance(data[key], str) and not (optional and data[key] is None):
            raise ValueError(f"{key} is no text")
    if not isinstance(data["command"], list) or not all(isinstance(word, str) for word in data["command"]):
        raise ValueError("command is no list of words")
    return Owner(**data)


def _boot_id() -> str | None:
    return read_text(Path("/proc/sys/kernel/random/boot_id"))


def _pid_namespace() -> str | None:
    try:
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115
    except OSError:
        return None
