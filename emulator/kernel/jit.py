"""How a mechanism is compiled, and how to run the same source as plain Python.

``@kernel`` compiles a function with numba: cached, releasing the GIL, with C division. With ``EMULATOR_PLAIN=1`` in
the environment it returns the function unchanged and :mod:`emulator.kernel.memory` supplies the plain-Python twin of
the atomics, so that the very same source can be stepped through, covered and driven by hypothesis.

Integers. numba promotes ``uint64 + int64`` to a float and never wraps ``uint32``. So: every field is a *signed*
integer (``i4`` or ``i8``), arithmetic is done in int64, and where the kernel relies on 32-bit wrap-around the source
says so with :func:`u32` (the low 32 bits as a non-negative number) or :func:`s32` (the low 32 bits as a signed
number). Both mean the same to numba and to Python. What may overflow 64 bits (jiffies near 2^63, a product of two
32-bit numbers) is written with :func:`add64`, :func:`sub64` and :func:`mul64`: a plain signed operation that
overflows is undefined once compiled.

Where compiled code is kept: cache.py.
"""

import os

from emulator.kernel.cache import cache_dir

PLAIN = os.environ.get("EMULATOR_PLAIN") == "1"

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
