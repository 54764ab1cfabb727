# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
"""What it takes to hand something to another CPU: a cache line, and the wake-up of a thread that sleeps on a futex.

Two threads of this process, each pinned to a CPU of its own; compiled code runs without the interpreter's lock. Cache
coherence does not ask whose process a line is mapped into.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from emulator.agents.napi import SPIN_NS
from emulator.errors import CannotRun
from emulator.kernel.jit import kernel
from emulator.kernel.memory import (
    READ_ONCE,
    WRITE_ONCE,
    clock_monotonic_ns,
    cmpxchg,
    cpu_relax,
    futex_wait,
    futex_wake,
    smp_load_acquire,
    smp_store_release,
)

LINES = 256
"""cache lines handed over in a round: as many as a ring has slots"""
_WORDS_A_LINE = 8
_SLEEPS_AFTER_NS = 200_000
_LONGEST_SLEEP_NS = 20_000_000
_PATIENCE_NS = 10_000_000_000

STAGE = np.dtype(
    [
        ("turn", "i8"),  # rounds written. Writer: the first CPU, with release; the second acquires it in _await()
        ("_turn_line", "i8", 7),
        ("answer", "i8"),  # rounds answered. Writer: the second CPU, with release; the first acquires it in _await()
        ("_answer_line", "i8", 7),
        ("wake", "i4"),  # futex word. Writer: the first CPU
        ("_wake_pad", "i4"),
        ("_wake_line", "i8", 7),
        ("woken_ns", "i8"),  # when the sleeper ran again. Writer: the second CPU, before its answer
        ("_woken_line", "i8", 7),
        ("lines", "i8", LINES * _WORDS_A_LINE),  # first word of each: which comes next. The first CPU, then turn
    ],
    align=True,
)


def cache_line_ns(cpus: tuple[int, int], rounds: int) -> list[float]:
    """ns to fetch a line that another CPU wrote last, each line after the one before: a sample for each round.

    Raises CannotRun when the two do not run at the same time.
    """
    return _fetched(cpus, rounds, locks=False)


def lock_ns(cpus: tuple[int, int], rounds: int) -> list[float]:
    """ns to take a free lock that another CPU held last: the same, with the atomic exchange that takes it.

    Raises CannotRun when the two do not run at the same time.
    """
    return _fetched(cpus, rounds, locks=True)


def _fetched(cpus: tuple[int, int], rounds: int, *, locks: bool) -> list[float]:
    order = np.random.default_rng(1).permutation(LINES)
    samples = np.zeros(rounds, dtype=np.int64)
    _both(
        cpus,
        lambda stage, n: _write_lines(stage, order, n),
        lambda stage, n: _fetch_lines(stage, samples[:n], locks),
        rounds,
    )
    return [float(ns) / LINES for ns in samples]


def wakeup_ns(cpus: tuple[int, int], rounds: int, idle: str) -> list[float]:
    """ns from scheduling a NAPI thread on another CPU until it notices, when it idles as ``spin`` or ``futex`` says.

    Raises CannotRun when the two do not run at the same time.
    """
    samples = np.zeros(rounds, dtype=np.int64)
    spins = idle == "spin"
    _both(cpus, lambda stage, n: _wake(stage, samples[:n]), lambda stage, n: _sleep(stage, n, spins), rounds)
    return [float(ns) for ns in samples]


Role = Callable[[Any, int], int]


def _both(cpus: tuple[int, int], first: Role, second: Role, rounds: int) -> None:
    """Run both at once on a stage that they share."""
    stage = np.zeros(1, STAGE)
    for role in (first, second):
        role(stage, 0)  # have it compiled before the other waits for it
    on_two_cpus(cpus, lambda: first(stage, rounds), lambda: second(stage, rounds))


def on_two_cpus(cpus: tuple[int, int], first: Callable[[], int], second: Callable[[], int]) -> None:
    """Run both at once, each on its CPU, the first in this thread: compiled functions, which return 0 to give up.

    Raises CannotRun when one did.
    """
    before = os.sched_getaffinity(0)
    done = []

    def on_the_second() -> None:
        os.sched_setaffinity(0, {cpus[1]})
        done.append(second())

    thread = threading.Thread(target=on_the_second, daemon=True)
    try:
        os.sched_setaffinity(0, {cpus[0]})  # this thread alone; the other inherits it and moves away
        thread.start()
        done.append(first())
    finally:
        thread.join()
        os.sched_setaffinity(0, before)
    if not all(done):
        raise CannotRun(
            f"CPUs {cpus[0]} and {cpus[1]} did not run at the same time; repeat it when the machine is free"
        )


@kernel
def _await(stage, key, value):
    """Wait until a word is there; False when it does not come."""
    patience = clock_monotonic_ns() + _PATIENCE_NS
    while True:
        for _ in range(100):
            if smp_load_acquire(stage, key) >= value:
                return True
            cpu_relax()
        if clock_monotonic_ns() > patience:
            return False


@kernel
def _write_lines(stages, order, rounds):
    stage = stages[0]
    for number in range(1, rounds + 1):
        for i in range(LINES):
            WRITE_ONCE(stage.lines, order[i] * _WORDS_A_LINE, order[(i + 1) % LINES])
        smp_store_release(stage, "turn", number)
        if not _await(stage, "answer", number):
            return 0
    return 1


@kernel
def _fetch_lines(stages, samples, locks):
    """Follow the lines of each round, by reading each, or by the exchange that takes a lock."""
    stage = stages[0]
    for number in range(1, len(samples) + 1):
        if not _await(stage, "turn", number):
            return 0
        began = clock_monotonic_ns()
        line = 0
        for _ in range(LINES):
            if locks:
                line = cmpxchg(stage.lines, line * _WORDS_A_LINE, -1, 0)
            else:
                line = READ_ONCE(stage.lines, line * _WORDS_A_LINE)
        samples[number - 1] = clock_monotonic_ns() - began
        smp_store_release(stage, "answer", number)
    return 1


@kernel
def _wake(stages, samples):
    stage = stages[0]
    for number in range(1, len(samples) + 1):
        asleep = clock_monotonic_ns() + _SLEEPS_AFTER_NS
        while clock_monotonic_ns() < asleep:
            cpu_relax()
        began = clock_monotonic_ns()
        smp_store_release(stage, "wake", number)
        futex_wake(stage, "wake", 1, 0)
        if not _await(stage, "answer", number):
            return 0
        samples[number - 1] = READ_ONCE(stage, "woken_ns") - began
    return 1


@kernel
def _sleep(stages, rounds, spins):
    stage = stages[0]
    patience = clock_monotonic_ns() + _PATIENCE_NS
    for number in range(1, rounds + 1):
        while READ_ONCE(stage, "wake") < number:
            if spins:
                looks_away = clock_monotonic_ns() + SPIN_NS
                while clock_monotonic_ns() < looks_away:
                    cpu_relax()
            else:
                futex_wait(stage, "wake", number - 1, _LONGEST_SLEEP_NS)
            if clock_monotonic_ns() > patience:
                return 0
        WRITE_ONCE(stage, "woken_ns", clock_monotonic_ns())
        patience = clock_monotonic_ns() + _PATIENCE_NS
        smp_store_release(stage, "answer", number)
    return 1
