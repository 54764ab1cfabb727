"""The two yardsticks: a bare ptr_ring between two CPUs, and the same with one word that both sides add to for each
entry.

What lies between them is the price of a cache line that two CPUs write for every packet. Both use the project's own
ring, and the consumer verifies that every entry arrives once and in order.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from pathlib import Path
from typing import Any

import multiprocess
import numpy as np

from emulator.kernel.jit import kernel
from emulator.kernel.memory import READ_ONCE, atomic_fetch_add, clock_monotonic_ns, cpu_relax
from emulator.kernel.ptr_ring import PTR_RING, ptr_ring_batch, ptr_ring_consume, ptr_ring_produce

RING_SIZE = 256
_LOOK_EVERY = 256

STAGE = np.dtype(
    [
        ("ring", PTR_RING),
        ("counter", "i8"),
        ("_counter_line", "i8", 7),
        ("arrived", "i8"),  # actors that are there
        ("_arrived_line", "i8", 7),
        ("ring_slots", "i8", RING_SIZE),
    ],
    align=True,
)


def measure(contended: bool, seconds: float, cpus: list[int]) -> float:
    """Entries a second through the ring. Raises RuntimeError when one is lost, doubled or out of order."""
    context = multiprocess.get_context("spawn")
    with tempfile.NamedTemporaryFile(dir=_shared_memory()) as file:
        file.truncate(STAGE.itemsize)
        results = context.SimpleQueue()
        actors = [
            context.Process(target=_actor, args=(file.name, role, contended, int(seconds * 1e9), cpus[role], results))
            for role in (0, 1)
        ]
        for actor in actors:
            actor.start()
        found = dict(results.get() for _ in actors)
        for actor in actors:
            actor.join()
    entries, elapsed_ns, wrong = found[1]
    if wrong:
        raise RuntimeError(f"{wrong} of {entries} entries were not the one expected")
    return entries / elapsed_ns * 1e9


def _shared_memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def _actor(path: str, role: int, contended: bool, duration_ns: int, cpu: int, results: Any) -> None:
    os.sched_setaffinity(0, {cpu})
    with Path(path).open("r+b") as file:
        stage = np.frombuffer(mmap.mmap(file.fileno(), 0), dtype=STAGE, count=1)
    if role == 0:
        stage[0]["ring"]["size"] = RING_SIZE
        stage[0]["ring"]["batch"] = int(ptr_ring_batch(RING_SIZE))
    body = _producer if role == 0 else _consumer
    body(stage, contended, 0)  # load the compiled code before the race
    results.put((role, body(stage, contended, duration_ns)))


@kernel
def _meet(stage, duration_ns):
    """Wait for the other actor; the time at which to end."""
    if duration_ns > 0:
        atomic_fetch_add(stage, "arrived", 1)
        while READ_ONCE(stage, "arrived") < 2:
            cpu_relax()
    return clock_monotonic_ns() + duration_ns


@kernel
def _producer(stages, contended, duration_ns):
    stage = stages[0]
    end_ns = _meet(stage, duration_ns)
    entry = 0
    while duration_ns > 0 and clock_monotonic_ns() < end_ns:
        for _ in range(_LOOK_EVERY):
            if ptr_ring_produce(stage, stage.ring, entry + 1) == 0:
                entry += 1
                if contended:
                    atomic_fetch_add(stage, "counter", 1)
            else:
                cpu_relax()
    return entry, duration_ns, 0


@kernel
def _consumer(stages, contended, duration_ns):
    stage = stages[0]
    end_ns = _meet(stage, duration_ns)
    started = clock_monotonic_ns()
    now = started
    entries = 0
    wrong = 0
    while duration_ns > 0 and now < end_ns:
        for _ in range(_LOOK_EVERY):
            entry = ptr_ring_consume(stage, stage.ring)
            if entry != 0:
                entries += 1
                if entry != entries:
                    wrong += 1
                if contended:
                    atomic_fetch_add(stage, "counter", -1)
            else:
                cpu_relax()
        now = clock_monotonic_ns()
    return entries, max(1, now - started), wrong
