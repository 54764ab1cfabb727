"""Where compiled code is kept: a directory of its own for every state of the sources.

numba does not notice an edit in an imported file, so its cache directory is keyed by everything that the code depends
on: the sources (their content, and their place and time, which numba itself looks at), numba's and llvmlite's versions,
Python's and the CPU. Importing this module does not import numba.
"""

import hashlib
import os
import platform
import tempfile
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent
_COMPILED = (  # whatever holds a @kernel function
    "kernel/**/*.py",
    "agents/*.py",
    "runtime/clocksource.py",
    "runtime/virtual_steps.py",
)


@cache
def source_hash() -> str:
    """Hash of every source that is compiled, of numba's and llvmlite's versions and of the CPU's model."""
    from importlib.metadata import version

    digest = hashlib.sha256()
    for pattern in _COMPILED:
        for path in sorted(_PACKAGE.glob(pattern)):
            digest.update(f"{path} {path.stat().st_mtime_ns}".encode())
            digest.update(path.read_bytes())
    digest.update(f"{version('numba')} {version('llvmlite')} {platform.python_version()} {_cpu_model()}".encode())
    return digest.hexdigest()[:16]


@cache
def cache_dir() -> Path:
    """Directory of the compiled code of exactly these sources on this CPU; created on demand, private to the user."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    for base in (home / "veth-emulator", Path(tempfile.gettempdir()) / f"veth-emulator-cache-{os.getuid()}"):
        path = base / source_hash()
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(path, os.W_OK) and path.stat().st_uid == os.getuid():
            return path
    return Path(tempfile.mkdtemp(prefix="veth-emulator-cache-"))


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("model name", "CPU part")):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()
