"""The packet pool: where an skb comes from and where it returns to.

::

    net.skbs[1 .. SKBS_MAX-1]      one cache line each; slot 0 is NULL
    cpu.magazine                   up to 256 free slots of this CPU, last in first out (warm)
    net.pool.depot                 free slots of nobody, moved 128 at a time under pool.lock

Packets are built on one CPU and freed on another, so free slots must travel back. They do so in batches of 128: a
lock and a copied batch for every 128 packets, instead of a shared word for each.

Identity: depot + all magazines + in use == SKBS_MAX - 1, ``in use`` being found by walking the queues.

An skb belongs to whoever holds its number; no field of it is shared. Its content is published to another CPU by the
ring (ptr_ring.py) or a lock, never by itself.

Upstream: ``struct sk_buff`` (include/linux/skbuff.h), ``kfree_skb_reason``, per-CPU skb caches (net/core/skbuff.c).
"""

import numpy as np

from emulator.kernel.clock import DROP_REASONS, FLOWS_MAX, MAGAZINE_SIZE, NOT_DROPPED, TRACE_SIZE
from emulator.kernel.jit import kernel
from emulator.kernel.memory import SPINLOCK, prefetch, spin_lock, spin_unlock
from emulator.kernel.trace import trace_drop

SKBS_MAX = 65536
BATCH = MAGAZINE_SIZE // 2
KIND_FLOOD, KIND_ECHO_REQUEST, KIND_ECHO_REPLY = range(3)

SKB = np.dtype(
    [
        ("next", "i4"),  # next in whatever list holds this skb; 0 = end
        ("len", "i4"),  # bytes on the wire
        ("hash", "i4"),  # flow hash, 32 bits
        ("truesize", "i4"),  # bytes of memory it stands for
        ("seq", "i8"),  # number within its flow, from 1
        ("sent_ns", "i8"),  # when the sender handed it to dev_queue_xmit
        ("enqueue_ns", "i8"),  # when the qdisc took it (codel_set_enqueue_time)
        ("intended_ns", "i8"),  # when the schedule wanted it sent
        ("flow", "i2"),  # index of its accounting flow
        ("queue_mapping", "i2"),
        ("kind", "i1"),
        ("dev", "i1"),  # device that is sending it
        ("priority", "i1"),
        ("tos", "u1"),  # low two bits: ECN
        ("wmem", "i1"),  # still owned by its sending socket (fq_codel then charges no memory)
        ("check", "i1"),  # low byte of seq ^ flow, written with the payload
        ("holder", "i1"),  # 1 + the CPU that had the packet's line last (virtual clock, see take_line)
        ("_pad", "i1"),
        ("prev", "i4"),  # previous in a list that is also emptied from its tail (sfq)
    ],
    align=True,
)
assert SKB.itemsize == 64, SKB.itemsize

POOL = np.dtype(
    [
        ("lock", SPINLOCK),
        ("depot_count", "i8"),
        ("_line", "i8", 5),
        ("depot", "i4", SKBS_MAX),
    ],
    align=True,
)


def pool_init(net):
    """Put every slot but 0 into the depot. ``net``: plain view of the segment, before anyone else sees it."""
    net.pool.depot.raw[: SKBS_MAX - 1] = np.arange(SKBS_MAX - 1, 0, -1, dtype=np.int32)
    net.pool.depot_count = SKBS_MAX - 1


@kernel
def alloc_skb(net, cpu):
    """A free slot, or 0 when the pool is empty. Fields hold whatever the last owner left."""
    if cpu.magazine_count == 0 and not _refill(net, cpu):
        return 0
    count = cpu.magazine_count - 1
    cpu.magazine_count = count
    if count > 0:
        prefetch(net.skbs[cpu.magazine[count - 1]], "next")  # for the next packet
    skb = int(cpu.magazine[count])
    net.skbs[skb].holder = cpu.id + 1
    return skb


@kernel
def kfree_skb(net, cpu, skb, reason):
    """Return a slot to the pool, counting why and leaving a trace."""
    packet = net.skbs[skb]
    cpu.drops[reason * FLOWS_MAX + packet.flow] += 1
    trace_skb(cpu, skb, reason)
    trace_drop(net, cpu, skb, reason)
    _free(net, cpu, skb)


@kernel
def consume_skb(net, cpu, skb):
    """Return a delivered packet's slot to the pool."""
    _free(net, cpu, skb)


@kernel
def trace_skb(cpu, skb, reason):
    """Note (skb, reason) in this CPU's trace."""
    cpu.trace[cpu.trace_head & (TRACE_SIZE - 1)] = (skb << 8) | reason
    cpu.trace_head += 1


@kernel
def _free(net, cpu, skb):
    if cpu.magazine_count == MAGAZINE_SIZE:
        _spill(net, cpu)
    count = cpu.magazine_count
    cpu.magazine[count] = skb
    cpu.magazine_count = count + 1


@kernel
def _refill(net, cpu):
    """Move a batch from the depot to the magazine; False when the depot is empty."""
    pool = net.pool
    spin_lock(net, cpu, pool.lock)
    count = min(BATCH, pool.depot_count)
    start = pool.depot_count - count
    for i in range(count):
        cpu.magazine[i] = pool.depot[start + i]
    pool.depot_count = start
    spin_unlock(pool.lock)
    cpu.magazine_count = count
    return count > 0


@kernel
def _spill(net, cpu):
    """Move the colder half of a full magazine to the depot."""
    pool = net.pool
    spin_lock(net, cpu, pool.lock)
    start = pool.depot_count
    for i in range(BATCH):
        pool.depot[start + i] = cpu.magazine[i]
    pool.depot_count = start + BATCH
    spin_unlock(pool.lock)
    for i in range(BATCH):
        cpu.magazine[i] = cpu.magazine[i + BATCH]
    cpu.magazine_count = BATCH


def drops_by_reason(cpu):
    """Drops on one CPU: ``{reason: {flow: packets}}``, zero entries left out. ``cpu``: plain view."""
    table = cpu.drops.raw.reshape(len(DROP_REASONS), FLOWS_MAX)
    found = {}
    for reason, name in enumerate(DROP_REASONS):
        if reason != NOT_DROPPED:
            row = {int(flow): int(table[reason, flow]) for flow in np.flatnonzero(table[reason])}
            if row:
                found[name] = row
    return found
