"""Where the control sockets may be: in a directory of the owner's, or, when asked for, on this machine's loopback."""

import ipaddress
import os
import re
import stat
from pathlib import Path

from emulator.errors import CannotRun

IPC_PATH_BYTES_MAX = 107  # sun_path holds 108 with its final NUL
CONTROL_SOCKET = "control.sock"
_TCP = re.compile(r"tcp://(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._*-]+):(?P<port>\*|[0-9]{1,5})")


def control_endpoint(run_dir: Path) -> str:
    """Endpoint of the control socket of a run; CannotRun if its path is too long for a socket."""
    return ipc_endpoint(run_dir.absolute() / CONTROL_SOCKET)


def ipc_endpoint(path: Path) -> str:
    """Endpoint of a socket file; CannotRun if its path is too long."""
    size = len(os.fsencode(path))
    if size > IPC_PATH_BYTES_MAX:
        raise CannotRun(
            f"the socket path {path} has {size} bytes, {IPC_PATH_BYTES_MAX} are the most; set run_dir to a shorter path"
        )
    return f"ipc://{path}"


def check_endpoint(url: str, *, keys: bool = False) -> str:
    """The endpoint if it may be bound; CannotRun if others could reach it: beyond loopback only with keys."""
    if url.startswith("ipc://"):
        _check_ipc(Path(url.removeprefix("ipc://")))
        return url
    if not url.startswith("tcp://"):
        raise CannotRun(f"{url}: an endpoint begins with ipc:// or tcp://")
    host = _tcp_host(url)
    if not keys and not _is_loopback(host):
        raise CannotRun(f"{url} can be reached from other machines, which needs keys; use tcp://127.0.0.1:PORT")
    return url


def _check_ipc(path: Path) -> None:
    if not path.is_absolute():
        raise CannotRun(f"ipc://{path}: the path of a socket begins with /")
    ipc_endpoint(path)
    try:
        info = path.parent.lstat()
    except OSError as error:
        raise CannotRun(f"{path.parent}: {error.strerror}") from None
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid() or info.st_mode & 0o077:
        raise CannotRun(f"{path.parent} has to be a directory of your own with mode 0700, for the sockets in it")


def _tcp_host(url: str) -> str:
    parts = _TCP.fullmatch(url)
    if parts is None or (parts["port"] != "*" and int(parts["port"]) > 65535):
        raise CannotRun(f"{url}: a TCP endpoint is tcp://HOST:PORT")
    return parts["host"].removeprefix("[").removesuffix("]")


def _is_loopback(host: str) -> bool:
    """Only what is loopback by its number: a name may mean anything by the time it is bound."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
