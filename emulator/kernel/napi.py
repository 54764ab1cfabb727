"""NAPI: who polls, and how a poll is asked for without being lost.

::

    NAPI  state line   SCHED, MISSED, DISABLE, SCHED_THREADED   any CPU, by atomic bit operations
          wake line    wake (futex word), sleeping          producers bump wake; the NAPI thread writes sleeping
          owner line   weight, counters                     whoever owns SCHED, that is the NAPI thread

Owning SCHED is the right to poll; it stands for consumer_lock of the ring, for dql_completed and for the coalescing
state. schedule_prep on a NAPI that is already scheduled sets MISSED, so that the poll that is about to complete goes
round again.

SCHED alone does not let the thread begin: SCHED_THREADED does, which napi_schedule sets after whoever won schedule_prep
has done what must come before the poll (veth: rx_notify_masked = 1). A thread that began on SCHED could finish its poll
before that store, which would then mask a NAPI that nobody has scheduled.

N1 in napi_schedule (SCHED_THREADED set, then sleeping read) pairs with N2 in napi_sleep (sleeping set, then the bit
read).

Upstream: napi_schedule_prep, __napi_schedule, napi_complete_done, napi_threaded_poll (net/core/dev.c).
"""

import numpy as np

from emulator.kernel.hist import HIST
from emulator.kernel.jit import kernel
from emulator.kernel.memory import (
    READ_ONCE,
    WRITE_ONCE,
    atomic_fetch_add,
    cmpxchg,
    futex_wait,
    futex_wake,
    set_bit,
    smp_mb,
    smp_mb_after_atomic,
)

NAPI_STATE_SCHED, NAPI_STATE_MISSED, NAPI_STATE_DISABLE, NAPI_STATE_SCHED_THREADED = range(4)
SCHED, MISSED, DISABLE, SCHED_THREADED = 1, 2, 4, 8
NAPI_POLL_WEIGHT = 64

NAPI = np.dtype(
    [
        ("state", "i8"),
        ("_state_line", "i8", 7),
        ("wake", "i4"),  # futex word, bumped by each schedule that finds the thread asleep
        ("sleeping", "i4"),
        ("_wake_line", "i8", 7),
        ("weight", "i8"),
        ("polls", "i8"),
        ("repolls", "i8"),  # polls that used the whole weight
        ("missed", "i8"),  # completes refused because of MISSED
        ("work", "i8"),  # entries handled
        ("_owner_line", "i8", 3),
        ("work_hist", HIST),  # entries a poll
    ],
    align=True,
)


@kernel
def napi_schedule_prep(napi):
    """Try to become the one who schedules this NAPI; marks it MISSED when it is scheduled already. Full barrier."""
    state = READ_ONCE(napi, "state")
    while True:
        if state & DISABLE != 0:
            return False
        wanted = state | SCHED
        if state & SCHED != 0:
            wanted |= MISSED
        found = cmpxchg(napi, "state", state, wanted)
        if found == state:
            return state & SCHED == 0
        state = found


@kernel
def napi_schedule(napi):
    """Let the NAPI thread run; call only after napi_schedule_prep() said so (``__napi_schedule``)."""
    set_bit(napi, "state", NAPI_STATE_SCHED_THREADED)
    smp_mb_after_atomic()  # N1, pairs with N2 in napi_sleep(): now look whether the thread sleeps
    if READ_ONCE(napi, "sleeping") != 0:
        atomic_fetch_add(napi, "wake", 1)
        futex_wake(napi, "wake", 1, 0)


@kernel
def napi_sleep(napi, timeout_ns):
    """Sleep until scheduled, at most ``timeout_ns``. NAPI thread only."""
    wake = READ_ONCE(napi, "wake")
    WRITE_ONCE(napi, "sleeping", 1)
    smp_mb()  # N2, pairs with N1 in napi_schedule()
    if READ_ONCE(napi, "state") & SCHED_THREADED == 0:
        futex_wait(napi, "wake", wake, timeout_ns)
    WRITE_ONCE(napi, "sleeping", 0)


@kernel
def napi_complete_done(napi):
    """Give SCHED back. False when a schedule came in meanwhile: SCHED is kept and the driver must touch nothing."""
    state = READ_ONCE(napi, "state")
    while True:
        wanted = state & ~(SCHED | SCHED_THREADED | MISSED)
        if state & MISSED != 0:
            wanted |= SCHED | SCHED_THREADED
        found = cmpxchg(napi, "state", state, wanted)
        if found == state:
            break
        state = found
    if state & MISSED != 0:
        napi.missed += 1
        return False
    return True
