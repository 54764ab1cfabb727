"""Atomics and barriers with the names of the Linux-kernel memory model, and the spinlock built from them.

Every word that more than one CPU uses is read and written through this module, also where a relaxed access would do:
the compiler hoists a plain load out of a loop.

Which is which on x86: the machine reorders only a store with a later load, so ``smp_rmb`` and ``smp_wmb`` restrain just
the compiler, while ``smp_mb`` is an instruction; a read-modify-write is a full barrier. The source is written for the
kernel's weaker model all the same: each fence carries a label and names the fence it pairs with.

Spinlock. ``owner`` is 0 when free, otherwise 1 + the number of the CPU context that holds it; ``holder`` remembers the
last one under the virtual clock, where a lock costs something when it changes hands. A waiter spins with
pause, then yields. A lock whose owner is no longer online is reported as a fault and never waited for (docs: *locks
live in the segment and hold their owner*); so is waiting while the run is being torn down.
"""

import numpy as np

from emulator.kernel.jit import PLAIN, kernel

if PLAIN:
    from emulator.kernel import plain as _words
else:
    from emulator.kernel import intrinsics as _words

READ_ONCE = _words.READ_ONCE
WRITE_ONCE = _words.WRITE_ONCE
atomic_add = _words.atomic_add
atomic_fetch_add = _words.atomic_fetch_add
atomic_fetch_and = _words.atomic_fetch_and
atomic_fetch_or = _words.atomic_fetch_or
clock_monotonic_ns = _words.clock_monotonic_ns
cmpxchg = _words.cmpxchg
cpu_relax = _words.cpu_relax
futex_wait = _words.futex_wait
futex_wake = _words.futex_wake
mul_u64_u64_shr = _words.mul_u64_u64_shr
prefetch = _words.prefetch
rdtsc = _words.rdtsc
sched_yield = _words.sched_yield
smp_load_acquire = _words.smp_load_acquire
smp_mb = _words.smp_mb
smp_rmb = _words.smp_rmb
smp_store_release = _words.smp_store_release
smp_wmb = _words.smp_wmb
xchg = _words.xchg

__all__ = [
    "LINE",
    "READ_ONCE",
    "SPINLOCK",
    "WRITE_ONCE",
    "KernelFault",
    "atomic_add",
    "atomic_add_return",
    "atomic_fetch_add",
    "atomic_fetch_and",
    "atomic_fetch_or",
    "clear_bit",
    "clock_monotonic_ns",
    "cmpxchg",
    "cmpxchg_unless_alone",
    "cpu_relax",
    "futex_wait",
    "futex_wake",
    "mul_u64_u64_shr",
    "prefetch",
    "rdtsc",
    "sched_yield",
    "set_bit",
    "smp_load_acquire",
    "smp_mb",
    "smp_mb_after_atomic",
    "smp_mb_before_atomic",
    "smp_rmb",
    "smp_store_mb",
    "smp_store_release",
    "smp_wmb",
    "spin_lock",
    "spin_trylock",
    "spin_unlock",
    "take_line",
    "test_and_clear_bit",
    "test_and_set_bit",
    "test_bit",
    "xchg",
    "xchg_unless_alone",
]


class KernelFault(Exception):
    """A mechanism met a state that a kernel would not survive (BUG) or that has no continuation (a dead lock owner).

    The details are in ``net.fault``, written before this is raised.
    """


FAULT = np.dtype(
    [
        ("code", "i8"),  # FAULT_*; 0 = none. First fault wins: set by cmpxchg
        ("cpu", "i8"),  # the CPU context that met it
        ("time_ns", "i8"),
        ("args", "i8", 5),  # meaning depends on the code, see fault_text() in runtime
    ],
    align=True,
)
FAULT_NONE, FAULT_DQL_BUG, FAULT_LOCK_OWNER_DIED, FAULT_INFLIGHT, FAULT_FLOW = range(5)


@kernel
def smp_store_mb(place, key, value):
    """Store, then a full barrier (``smp_store_mb``)."""
    WRITE_ONCE(place, key, value)
    smp_mb()


@kernel
def smp_mb_before_atomic():
    """Order everything before the atomic that follows (``smp_mb__before_atomic``)."""
    smp_mb()


@kernel
def smp_mb_after_atomic():
    """Order the atomic before everything that follows (``smp_mb__after_atomic``)."""
    smp_mb()


@kernel
def atomic_add_return(place, key, value):
    """Add; returns the new value. Full barrier."""
    return atomic_fetch_add(place, key, value) + value


@kernel
def cmpxchg_unless_alone(cpu, place, key, old, new):
    """cmpxchg; without the locked instruction under the virtual clock, whose steps cannot interleave."""
    if cpu.virtual == 0:
        return cmpxchg(place, key, old, new)
    found = READ_ONCE(place, key)
    if found == old:
        WRITE_ONCE(place, key, new)
    return found


@kernel
def xchg_unless_alone(cpu, place, key, new):
    """xchg; without the locked instruction under the virtual clock."""
    if cpu.virtual == 0:
        return xchg(place, key, new)
    found = READ_ONCE(place, key)
    WRITE_ONCE(place, key, new)
    return found


@kernel
def set_bit(place, key, bit):
    """Set one bit atomically. Implies no barrier."""
    atomic_fetch_or(place, key, 1 << bit)


@kernel
def clear_bit(place, key, bit):
    """Clear one bit atomically. Implies no barrier."""
    atomic_fetch_and(place, key, ~(1 << bit))


@kernel
def test_bit(place, key, bit):
    """Whether a bit is set."""
    return (READ_ONCE(place, key) >> bit) & 1 != 0


@kernel
def test_and_set_bit(place, key, bit):
    """Set a bit; whether it was set before. Full barrier."""
    return (atomic_fetch_or(place, key, 1 << bit) >> bit) & 1 != 0


@kernel
def test_and_clear_bit(place, key, bit):
    """Clear a bit; whether it was set before. Full barrier."""
    return (atomic_fetch_and(place, key, ~(1 << bit)) >> bit) & 1 != 0


SPINLOCK = np.dtype([("owner", "i8"), ("holder", "i8")], align=True)
LINE = np.dtype([("holder", "i8")], align=True)
"""A cache line that CPUs hand to each other; ``holder``: 1 + the CPU that had it last, kept under the virtual clock."""

_SPINS_BEFORE_YIELD = 200
_YIELDS_BEFORE_CHECK = 4


@kernel
def take_line(cpu, line, cost_ns):
    """Virtual clock: pay for a cache line, or a lock, that another CPU had last. On metal the machine sees to that."""
    if cpu.virtual != 0 and line.holder != cpu.id + 1:
        if line.holder != 0:
            cpu.stats.burnt_ns += cost_ns
            cpu.now_ns += cost_ns
        line.holder = cpu.id + 1


@kernel
def spin_trylock(cpu, lock):
    """Take the lock if it is free; whether it was taken. Acquire."""
    if READ_ONCE(lock, "owner") != 0:
        return False
    if cmpxchg_unless_alone(cpu, lock, "owner", 0, cpu.id + 1) != 0:
        return False
    take_line(cpu, lock, cpu.costs.lock_handover)
    return True


@kernel
def spin_lock(net, cpu, lock):
    """Take the lock. Acquire, pairs with the release in :func:`spin_unlock`.

    Raises KernelFault if the owner's CPU context went offline while holding it.
    """
    if not spin_trylock(cpu, lock):
        _spin_lock_slowpath(net, cpu, lock)


@kernel
def spin_unlock(lock):
    """Release the lock."""
    smp_store_release(lock, "owner", 0)


@kernel
def _spin_lock_slowpath(net, cpu, lock):
    cpu.stats.lock_contended += 1
    yields = 0
    while True:
        for _ in range(_SPINS_BEFORE_YIELD):
            if spin_trylock(cpu, lock):
                return
            cpu_relax()
        if yields == 0:
            cpu.stats.lock_yielded += 1  # longer than any critical section: the holder is preempted
        yields += 1
        if yields % _YIELDS_BEFORE_CHECK == 0:
            owner = READ_ONCE(lock, "owner")
            if owner != 0 and READ_ONCE(net.cpus[owner - 1], "online") == 0 and READ_ONCE(lock, "owner") == owner:
                record_fault(net, cpu, FAULT_LOCK_OWNER_DIED, owner - 1, 0, 0, 0, 0)
                raise KernelFault("a lock's owner died")
        sched_yield()


@kernel
def record_fault(net, cpu, code, a, b, c, d, e):
    """Write down a fault; the first one of a run is kept."""
    if cmpxchg(net.fault, "code", FAULT_NONE, code) == FAULT_NONE:
        fault = net.fault
        fault.cpu = cpu.id
        fault.args[0] = a
        fault.args[1] = b
        fault.args[2] = c
        fault.args[3] = d
        fault.args[4] = e
