"""pfifo_fast: three bands in strict priority, each a ptr_ring, and no root lock.

::

    priority & 15    0 1 2 3 4 5 6 7 8..15
    band             1 2 2 2 1 2 0 0 1          band 0 is served first and can starve the others

Any CPU enqueues under the band's producer_lock; the one runner that holds the qdisc's seqlock dequeues. Hence
``qlen``, ``backlog``, ``enqueued`` and ``drops`` are added to atomically, while what is counted at dequeue has one
writer.

Knobs: the device's txqueuelen is the size of *each* band (0: -EINVAL). Scope and limits: a band's room shows up in
batches of 16, as in every ptr_ring; a changed txqueuelen is not followed.

M1 in :func:`pfifo_fast_dequeue` (MISSED cleared, then the rings read again) pairs with the enqueuer, who produces and
then sets MISSED when the runner holds the seqlock: a packet that came in between is seen by one of the two.

Identity: that of every qdisc, see base.py. Validated by tests/conformance (golden ``fifo/pfifo_fast``) and
tests/property/test_qdisc.py.

Upstream: net/sched/sch_generic.c (pfifo_fast_enqueue, _dequeue, _peek, _reset, sch_default_prio2band).
"""

from emulator.kernel.clock import QDISC_DROP
from emulator.kernel.jit import kernel
from emulator.kernel.memory import READ_ONCE, atomic_add, clear_bit, smp_mb_after_atomic, spin_lock, spin_unlock
from emulator.kernel.ptr_ring import ptr_ring_consume, ptr_ring_peek, ptr_ring_produce
from emulator.kernel.qdisc.base import (
    NET_XMIT_DROP,
    NET_XMIT_SUCCESS,
    PFIFO_FAST_BANDS,
    QDISC_STATE_DRAINING,
    QDISC_STATE_MISSED,
    qdisc_bstats_update,
    qdisc_purge,
)
from emulator.kernel.skb import kfree_skb

PRIO2BAND = (1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1)
_TC_PRIO_MAX = 15


@kernel
def pfifo_fast_enqueue(net, cpu, q, skb):
    """Produce into the band of the packet's priority; drop when its ring shows no room."""
    packet = net.skbs[skb]
    length = packet.len
    ring = q.bands[PRIO2BAND[packet.priority & _TC_PRIO_MAX]]
    # Counted before the packet is visible: the runner may take it at once, and the counters must never fall below 0.
    atomic_add(q, "qlen", 1)
    atomic_add(q, "backlog", length)
    spin_lock(net, cpu, ring.producer_lock)
    error = ptr_ring_produce(net, ring, skb)
    spin_unlock(ring.producer_lock)
    if error != 0:
        atomic_add(q, "qlen", -1)
        atomic_add(q, "backlog", -length)
        atomic_add(q, "drops", 1)
        kfree_skb(net, cpu, skb, QDISC_DROP)
        return NET_XMIT_DROP
    return NET_XMIT_SUCCESS


@kernel
def pfifo_fast_dequeue(net, cpu, q):
    """The oldest packet of the first band that has one, or 0. The seqlock's holder only."""
    skb = _take(net, q)
    if skb == 0 and READ_ONCE(q, "state") & (1 << QDISC_STATE_MISSED | 1 << QDISC_STATE_DRAINING) != 0:
        clear_bit(q, "state", QDISC_STATE_MISSED)
        clear_bit(q, "state", QDISC_STATE_DRAINING)
        smp_mb_after_atomic()  # M1, pairs with the enqueuer's test_and_set of MISSED
        skb = _take(net, q)
    if skb != 0:
        qdisc_bstats_update(net, q, skb)
    return skb


@kernel
def pfifo_fast_peek(net, cpu, q):
    """The packet that dequeue would return, left where it is, or 0. The seqlock's holder only."""
    for band in range(PFIFO_FAST_BANDS):
        skb = ptr_ring_peek(net, q.bands[band])
        if skb != 0:
            return skb
    return 0


@kernel
def pfifo_fast_reset(net, cpu, q):
    """Free everything queued. No runner and no enqueuer may be inside."""
    while True:
        skb = _take(net, q)
        if skb == 0:
            return
        qdisc_purge(net, cpu, q, skb)


@kernel
def _take(net, q):
    """Consume from the first band that has something, without counting it as sent."""
    for band in range(PFIFO_FAST_BANDS):
        skb = ptr_ring_consume(net, q.bands[band])
        if skb != 0:
            atomic_add(q, "qlen", -1)
            atomic_add(q, "backlog", -net.skbs[skb].len)
            return skb
    return 0
