"""Keeping out of the data path's way: where the launcher and the agents' control threads run."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path


def background(cpu: int) -> None:
    """Move every thread of this process to one CPU, and let none of them preempt another task when it wakes."""
    for thread in threads():
        with contextlib.suppress(OSError):  # the thread has ended meanwhile
            os.sched_setaffinity(thread, {cpu})
            os.sched_setscheduler(thread, os.SCHED_BATCH, os.sched_param(0))


@contextlib.contextmanager
def in_background(cpu: int) -> Iterator[None]:
    """The same for a while; the calling thread gets its CPUs and policy back."""
    thread = threading.get_native_id()
    cpus, policy = os.sched_getaffinity(thread), os.sched_getscheduler(thread)
    background(cpu)
    try:
        yield
    finally:
        for thread in threads():
            with contextlib.suppress(OSError):
                os.sched_setaffinity(thread, cpus)
                os.sched_setscheduler(thread, policy, os.sched_param(0))


def threads() -> list[int]:
    """The threads of this process."""
    return [int(path.name) for path in Path("/proc/self/task").iterdir()]
