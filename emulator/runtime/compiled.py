"""The compiled code: which functions are entered from Python, and having them ready before any agent starts.

Compiling takes most of a minute and is done once for a set of sources (kernel/jit.py keys the cache), by one process, which
says what it does. A marker file in the cache directory tells everyone else that all of it is there; agents only load.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from emulator.errors import CannotRun
from emulator.kernel.cache import cache_dir

_MARKER = "complete.json"
_LOCK = "compiling.lock"

Announce = Callable[[int, int, str], None]
"""``announce(done, total, name)``: called before each function, and once at the end with done == total."""


def is_compiled() -> bool:
    """Whether all compiled code of these sources is in the cache. Does not import numba."""
    return (cache_dir() / _MARKER).exists()


def ensure_compiled(announce: Announce) -> bool:
    """Compile what is missing; whether anything had to be. Raises CannotRun under plain Python, which has no atomics."""
    if os.environ.get("EMULATOR_PLAIN") == "1":
        raise CannotRun("EMULATOR_PLAIN=1 is for one process (tools/conformance.py --python); unset it to run a scenario")
    if is_compiled():
        return False
    with _only_one(cache_dir()):
        if is_compiled():
            return False
        functions = list(entry_points())
        for done, (function, signature) in enumerate(functions):
            announce(done, len(functions), function.__name__)
            function.compile(signature)
        announce(len(functions), len(functions), "")
        partial = cache_dir() / f".{_MARKER}.{os.getpid()}"
        partial.write_text(json.dumps([function.__name__ for function, _ in functions]))
        partial.replace(cache_dir() / _MARKER)
    return True


def load_compiled() -> None:
    """Load every entry point from the cache, so that processes forked from this one share it."""
    for function, signature in entry_points():
        function.compile(signature)


def entry_points() -> Iterator[tuple[Any, Any]]:
    """Each function that is entered from Python, with the types it is entered with."""
    import numba
    import numpy as np

    from emulator.agents.agent import drain_softirq
    from emulator.agents.flood import flood_cycle
    from emulator.agents.napi import napi_close, napi_cycle
    from emulator.agents.prober import prober_cycle
    from emulator.agents.watchdog import watchdog_cycle
    from emulator.agents.words import AGENT, is_published, publish
    from emulator.kernel.net import NET
    from emulator.runtime.clocksource import _segment_ns, _tightest
    from emulator.runtime.layout import HEADER

    nets, agents = (numba.typeof(np.zeros(1, dtype)) for dtype in (NET, AGENT))
    header = numba.typeof(np.zeros(1, HEADER)[0])
    i64 = numba.int64
    yield flood_cycle, (nets, agents, i64, i64)
    yield napi_cycle, (nets, agents, i64, i64)
    yield prober_cycle, (nets, agents, i64, i64)
    yield watchdog_cycle, (nets, agents, i64, i64)
    yield drain_softirq, (nets, agents, i64)
    yield napi_close, (nets, agents, i64)
    yield publish, (header,)
    yield is_published, (header,)
    yield _tightest, (i64,)
    yield _segment_ns, (i64, i64, i64)


@contextmanager
def _only_one(directory: Path) -> Iterator[None]:
    """Let one process compile at a time; the others wait and then find it done."""
    with (directory / _LOCK).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
