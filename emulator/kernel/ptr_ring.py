"""ptr_ring: a bounded FIFO of pointers between one producer side and one consumer side.

::

    slots     ... [ 0 | 0 | p | p | p | 0 | 0 ] ...       0 is NULL: the slot is free
                        ^tail   ^head   ^producer
    PTR_RING  line 0  producer                        written under producer_lock
              line 1  consumer_head, consumer_tail    written by the consumer (NAPI ownership stands for consumer_lock)
              line 2  base, size, batch               written at init and resize only

Full is ``slots[producer] != NULL``: there is no shared index. The consumer clears slots late, ``batch`` at a time and
from the highest to the lowest, so that the slot which the producer polls opens last; "room" seen by a producer is
therefore a lower bound (a full 256-ring shows no room for the first 15 entries consumed, then 16 at once).

Ordering. R1: the entry's payload is written before its slot (release store in :func:`__ptr_ring_produce`), pairs with
R2: the acquire load of the slot in :func:`__ptr_ring_consume` (the kernel's smp_wmb and address dependency).

Entries are 64-bit words, never 0. A driver keeps tags in their low bits.

Upstream: include/linux/ptr_ring.h.
"""

import numpy as np

from emulator.kernel.jit import kernel
from emulator.kernel.memory import (
    READ_ONCE,
    SPINLOCK,
    WRITE_ONCE,
    smp_load_acquire,
    smp_store_release,
)

ENOSPC = 28
EINVAL = 22
L1_CACHE_BYTES = 64
BATCH = 2 * L1_CACHE_BYTES // 8

PTR_RING = np.dtype(
    [
        ("producer", "i8"),
        ("producer_lock", SPINLOCK),
        ("_producer_line", "i8", 5),
        ("consumer_head", "i8"),
        ("consumer_tail", "i8"),
        ("_consumer_line", "i8", 6),
        ("base", "i8"),  # first slot in net.ring_slots
        ("size", "i8"),
        ("batch", "i8"),
        ("_config_line", "i8", 5),
    ],
    align=True,
)
assert PTR_RING.itemsize == 192, PTR_RING.itemsize


@kernel
def ptr_ring_batch(size):
    """Slots cleared at a time: 16 entries, or 1 in a ring too small to hold two batches."""
    return BATCH if size // 2 >= BATCH else 1


@kernel
def ptr_ring_set_size(ring, size):
    """Set the size and the batch that follows from it."""
    ring.size = size
    ring.batch = ptr_ring_batch(size)


@kernel
def ptr_ring_init(net, ring, base, size):
    """Make an empty ring of ``size`` slots at ``net.ring_slots[base:]``. Nobody else may use it yet."""
    ring.base = base
    ptr_ring_set_size(ring, size)
    ring.producer = 0
    ring.consumer_head = 0
    ring.consumer_tail = 0
    for i in range(size):
        net.ring_slots[base + i] = 0


@kernel
def ptr_ring_full(net, ring):
    """Whether the next produce would fail. Needs producer_lock."""
    return READ_ONCE(net.ring_slots, ring.base + ring.producer) != 0


@kernel
def ptr_ring_check_produce(net, ring):
    """0 if there is room, -EINVAL for a ring without slots, -ENOSPC when full. Needs producer_lock."""
    if ring.size == 0:
        return -EINVAL
    if ptr_ring_full(net, ring):
        return -ENOSPC
    return 0


@kernel
def ptr_ring_produce(net, ring, entry):
    """Append; 0, or -ENOSPC. Needs producer_lock (``__ptr_ring_produce``)."""
    if ring.size == 0 or ptr_ring_full(net, ring):
        return -ENOSPC
    smp_store_release(net.ring_slots, ring.base + ring.producer, entry)  # R1, pairs with R2 in ptr_ring_peek()
    producer = ring.producer + 1
    WRITE_ONCE(ring, "producer", 0 if producer >= ring.size else producer)
    return 0


@kernel
def ptr_ring_peek(net, ring):
    """The next entry, or 0. Consumer only."""
    if ring.size == 0:
        return 0
    return smp_load_acquire(net.ring_slots, ring.base + ring.consumer_head)  # R2, pairs with R1 in ptr_ring_produce()


@kernel
def ptr_ring_empty(net, ring):
    """Whether there is nothing to consume. Only the consumer may trust it (a producer that does loses wake-ups)."""
    if ring.size == 0:
        return True
    return READ_ONCE(net.ring_slots, ring.base + READ_ONCE(ring, "consumer_head")) == 0


@kernel
def ptr_ring_consume(net, ring):
    """Remove and return the next entry, or 0. Consumer only (``__ptr_ring_consume``)."""
    entry = ptr_ring_peek(net, ring)
    if entry != 0:
        _discard_one(net, ring)
    return entry


@kernel
def _discard_one(net, ring):
    """Step past the entry at the head; clear slots when a batch of them, or the end of the array, is reached.

    The batch does not span the wrap: at the end of the array everything up to it is cleared, whatever the count.
    """
    head = ring.consumer_head + 1
    tail = ring.consumer_tail
    if head - tail >= ring.batch or head >= ring.size:
        for i in range(head - 1, tail - 1, -1):
            WRITE_ONCE(net.ring_slots, ring.base + i, 0)
        tail = head
    if head >= ring.size:
        head = 0
        tail = 0
    WRITE_ONCE(ring, "consumer_head", head)
    ring.consumer_tail = tail


@kernel
def ptr_ring_consume_batched(net, ring, out, count):
    """Consume up to ``count`` entries into ``out``; how many."""
    for done in range(count):
        entry = ptr_ring_consume(net, ring)
        if entry == 0:
            return done
        out[done] = entry
    return count


@kernel
def ptr_ring_unconsume(net, ring, batch, count, destroyed):
    """Put ``batch[:count]`` back in front, in the order in which it was consumed; needs both locks.

    Entries for which the producer left no room go into ``destroyed``, in that order; returns how many. First the slots
    already consumed but not yet cleared are given up, then entries are put back from the last to the first.
    """
    head = ring.consumer_head - 1
    while head >= ring.consumer_tail:
        WRITE_ONCE(net.ring_slots, ring.base + head, 0)
        head -= 1
    ring.consumer_tail = ring.consumer_head
    left = count
    while left > 0 and ring.size > 0:
        head = ring.consumer_head - 1
        if head < 0:
            head = ring.size - 1
        if READ_ONCE(net.ring_slots, ring.base + head) != 0:
            break  # the ring is full
        left -= 1
        WRITE_ONCE(net.ring_slots, ring.base + head, batch[left])
        ring.consumer_tail = head
        WRITE_ONCE(ring, "consumer_head", head)
    lost = 0
    while left > 0:
        left -= 1
        destroyed[lost] = batch[left]
        lost += 1
    return lost


@kernel
def ptr_ring_resize(net, ring, base, size, destroyed):
    """Move to ``size`` slots at another ``base``, keeping order; what does not fit goes into ``destroyed``.

    Needs both locks, consumer_lock outside. Returns how many entries were destroyed; the caller frees them and gives
    their BQL charge back.
    """
    producer = 0
    lost = 0
    for i in range(size):
        net.ring_slots[base + i] = 0
    while True:
        entry = ptr_ring_consume(net, ring)
        if entry == 0:
            break
        if producer < size:
            net.ring_slots[base + producer] = entry
            producer += 1
        else:
            destroyed[lost] = entry
            lost += 1
    ring.base = base
    ptr_ring_set_size(ring, size)
    ring.producer = 0 if producer >= size else producer
    ring.consumer_head = 0
    ring.consumer_tail = 0
    return lost
