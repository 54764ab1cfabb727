"""The compiled code: which functions are entered from Python, and having them ready before any agent starts.

Compiling takes most of a minute and is done once for a set of sources (kernel/jit.py keys the cache), by one process,
which says what it does. A marker file in the cache directory tells everyone else that all of it is there; agents only
load.
"""

from __future__ import annotations

import compileall
import fcntl
import json
import os
import subprocess
import sys
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


def ensure_compiled(announce: Announce, waiting: Callable[[], None] = lambda: None) -> bool:
    """Compile what is missing, in a process of its own, whose 400 MB end with it; whether anything had to be.

    ``waiting`` is called when another process is doing it already.
    Raises CannotRun when compiling fails, and under plain Python, which has no atomics.
    """
    if os.environ.get("EMULATOR_PLAIN") == "1":
        raise CannotRun("EMULATOR_PLAIN=1 is for one process (conformance.py --python); unset it to run a scenario")
    if is_compiled():
        return False
    with _only_one(cache_dir(), waiting):
        if is_compiled():
            return False
        command = [sys.executable, "-m", __name__, str(os.getpid())]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as compiler:
            try:
                assert compiler.stdout is not None
                assert compiler.stderr is not None
                for line in compiler.stdout:
                    done, total, name = line.split(" ")
                    announce(int(done), int(total), name.strip())
                trouble = compiler.stderr.read().strip().splitlines()
            except BaseException:  # Ctrl-C: not without the compiler
                compiler.kill()
                raise
        if compiler.returncode or not is_compiled():
            reason = trouble[-1] if trouble else f"exit code {compiler.returncode}"
            raise CannotRun(f"compiling the kernel failed: {reason}; is {cache_dir()} writable, is there memory?")
    return True


def _compile_all(launcher: int) -> None:
    """Compile everything, a line before each function; the marker last."""
    from emulator.runtime.rundir import process_start_time
    from emulator.runtime.supervision import die_with_parent

    die_with_parent(launcher, process_start_time(launcher) or 0)
    functions = list(entry_points())
    for done, (function, signature) in enumerate(functions):
        print(done, len(functions), function.__name__, flush=True)
        function.compile(signature)
    # A start is short: have the bytecode at hand too, also where Python is told to write none by itself.
    compileall.compile_dir(Path(__file__).parent.parent, quiet=2)
    partial = cache_dir() / f".{_MARKER}.{os.getpid()}"
    partial.write_text(json.dumps([function.__name__ for function, _ in functions]))
    partial.replace(cache_dir() / _MARKER)
    print(len(functions), len(functions), "", flush=True)


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
    from emulator.runtime.virtual_steps import run_until

    nets, agents = (numba.typeof(np.zeros(1, dtype)) for dtype in (NET, AGENT))
    header = numba.typeof(np.zeros(1, HEADER)[0])
    i64 = numba.int64
    yield flood_cycle, (nets, agents, i64, i64)
    yield napi_cycle, (nets, agents, i64, i64)
    yield prober_cycle, (nets, agents, i64, i64)
    yield watchdog_cycle, (nets, agents, i64, i64)
    yield drain_softirq, (nets, agents, i64)
    yield napi_close, (nets, agents, i64)
    yield run_until, (nets, agents, i64, i64)
    yield publish, (header,)
    yield is_published, (header,)
    yield _tightest, (i64,)
    yield _segment_ns, (i64, i64, i64)


@contextmanager
def _only_one(directory: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Let one process compile at a time; the others wait and then find it done."""
    with (directory / _LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    _compile_all(int(sys.argv[1]))
