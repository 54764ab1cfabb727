"""How a mechanism is compiled, and how to run the same source as plain Python.

``@kernel`` compiles a function with numba: cached, releasing the GIL, with C division. With ``EMULATOR_PLAIN=1`` in
the environment it returns the function unchanged and :mod:`emulator.kernel.memory` supplies the plain-Python twin of
the atomics, so that the very same source can be stepped through, covered and driven by hypothesis.

Integers. numba promotes ``uint64 + int64`` to a float and never wraps ``uint32``. So: every field is a *signed* integer
(``i4`` or ``i8``), arithmetic is done in int64, and where the kernel relies on 32-bit wrap-around the source says so with
:func:`u32` (the low 32 bits as a non-negative number) or :func:`s32` (the low 32 bits as a signed number). Both mean the
same to numba and to Python. What may overflow 64 bits (jiffies near 2^63, a product of two 32-bit numbers) is written
with :func:`add64`, :func:`sub64` and :func:`mul64`: a plain signed operation that overflows is undefined once compiled.

The cache lives in a directory keyed by the package's sources, numba's version and the CPU, because numba itself does not
notice an edit in an imported file.
"""

import hashlib
import os
import platform
import tempfile
from pathlib import Path

PLAIN = os.environ.get("EMULATOR_PLAIN") == "1"
_PACKAGE = Path(__file__).resolve().parent.parent
_COMPILED_FOLDERS = ("kernel", "agents")  # whatever holds a @kernel function


def source_hash() -> str:
    """Hash of every source that is compiled, of numba's and llvmlite's versions and of the CPU's model."""
    from importlib.metadata import version

    digest = hashlib.sha256()
    for folder in _COMPILED_FOLDERS:
        for path in sorted((_PACKAGE / folder).rglob("*.py")):
            digest.update(path.relative_to(_PACKAGE).as_posix().encode())
            digest.update(path.read_bytes())
    digest.update(f"{version('numba')} {version('llvmlite')} {platform.python_version()} {_cpu_model()}".encode())
    return digest.hexdigest()[:16]


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


if PLAIN:

    def kernel(function):
        """Return the function as it is: the plain-Python twin."""
        return function

    def _s64(value):
        """Low 64 bits of an integer, as a signed number."""
        return ((value & 0xFFFFFFFFFFFFFFFF) ^ (1 << 63)) - (1 << 63)

    def add64(a, b):
        """``a + b``, wrapping at 64 bits."""
        return _s64(a + b)

    def sub64(a, b):
        """``a - b``, wrapping at 64 bits."""
        return _s64(a - b)

    def mul64(a, b):
        """``a * b``, wrapping at 64 bits."""
        return _s64(a * b)

else:
    import numba
    import numpy as np

    numba.config.CACHE_DIR = str(cache_dir())

    def kernel(function):
        """Compile a mechanism: cached on disk, GIL released, division as in C."""
        return numba.njit(function, cache=True, nogil=True, error_model="numpy")

    # numba tells LLVM that signed integers never overflow, and LLVM believes it: only unsigned ones wrap.

    @kernel
    def add64(a, b):
        """``a + b``, wrapping at 64 bits."""
        return np.int64(np.uint64(a) + np.uint64(b))

    @kernel
    def sub64(a, b):
        """``a - b``, wrapping at 64 bits."""
        return np.int64(np.uint64(a) - np.uint64(b))

    @kernel
    def mul64(a, b):
        """``a * b``, wrapping at 64 bits."""
        return np.int64(np.uint64(a) * np.uint64(b))


@kernel
def u32(value):
    """Low 32 bits of an integer, as a non-negative number."""
    return value & 0xFFFFFFFF


@kernel
def s32(value):
    """Low 32 bits of an integer, as a signed number (C's cast to int)."""
    return ((value & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000
