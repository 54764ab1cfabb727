"""Enqueue, dequeue, peek and reset of whatever kind a qdisc is.

Scope: a chain of comparisons in place of ``struct Qdisc_ops``, the kind of the hot path first; the compiler turns it
into a jump. Every call needs the qdisc's root_lock (pfifo_fast: see there). ``q.enqueued`` is counted here, once for
each packet.

noop stands in for a qdisc that is being replaced: it frees the packet, counts it in the device's tx_dropped and in no
qdisc, and reports congestion.

Upstream: struct Qdisc_ops (include/net/sch_generic.h), noop_enqueue, qdisc_reset (net/sched/sch_generic.c),
qdisc_dequeue_internal (include/net/sch_generic.h).
"""

from emulator.kernel.clock import QDISC_CHANGE, QDISC_DROP
from emulator.kernel.jit import kernel
from emulator.kernel.memory import atomic_add
from emulator.kernel.qdisc.base import (
    BFIFO,
    CODEL,
    FQ_CODEL,
    NET_XMIT_CN,
    NOQUEUE,
    PFIFO,
    PFIFO_FAST,
    PFIFO_HEAD_DROP,
    SFQ,
    TCQ_F_NOLOCK,
    list_pop,
    qdisc_purge,
)
from emulator.kernel.qdisc.codel import codel_enqueue, codel_qdisc_dequeue, codel_qdisc_reset
from emulator.kernel.qdisc.fifo import (
    bfifo_enqueue,
    fifo_dequeue,
    fifo_peek,
    fifo_reset,
    pfifo_enqueue,
    pfifo_head_drop_enqueue,
)
from emulator.kernel.qdisc.fq_codel import fq_codel_dequeue, fq_codel_enqueue, fq_codel_reset
from emulator.kernel.qdisc.pfifo_fast import (
    pfifo_fast_dequeue,
    pfifo_fast_enqueue,
    pfifo_fast_peek,
    pfifo_fast_reset,
)
from emulator.kernel.qdisc.sfq import sfq_dequeue, sfq_drop, sfq_enqueue, sfq_reset
from emulator.kernel.skb import kfree_skb
from emulator.kernel.trace import QDISC_ENQUEUE, trace_packet


@kernel
def qdisc_enqueue(net, cpu, q, skb):
    """Offer a packet; NET_XMIT_*. Whatever is dropped, this packet or another, has been freed."""
    kind = q.kind
    if kind <= NOQUEUE:  # noop, noqueue
        return _noop_enqueue(net, cpu, skb)
    trace_packet(net, cpu, QDISC_ENQUEUE, skb)
    if kind == PFIFO_FAST:
        atomic_add(q, "enqueued", 1)
        return pfifo_fast_enqueue(net, cpu, q, skb)
    q.enqueued += 1
    if kind == FQ_CODEL:
        return fq_codel_enqueue(net, cpu, q, skb)
    if kind == SFQ:
        return sfq_enqueue(net, cpu, q, skb)
    if kind == PFIFO:
        return pfifo_enqueue(net, cpu, q, skb)
    if kind == CODEL:
        return codel_enqueue(net, cpu, q, skb)
    if kind == BFIFO:
        return bfifo_enqueue(net, cpu, q, skb)
    return pfifo_head_drop_enqueue(net, cpu, q, skb)


@kernel
def qdisc_dequeue(net, cpu, q):
    """The next packet to send, or 0; counted as sent."""
    kind = q.kind
    if kind == FQ_CODEL:
        return fq_codel_dequeue(net, cpu, q)
    if kind == SFQ:
        return sfq_dequeue(net, cpu, q)
    if PFIFO <= kind <= PFIFO_HEAD_DROP:
        return fifo_dequeue(net, cpu, q)
    if kind == CODEL:
        return codel_qdisc_dequeue(net, cpu, q)
    if kind == PFIFO_FAST:
        return pfifo_fast_dequeue(net, cpu, q)
    return 0


@kernel
def qdisc_peek(net, cpu, q):
    """The packet that dequeue would return, left where it is, or 0. The FIFOs only; 0 for the others."""
    kind = q.kind
    if PFIFO <= kind <= PFIFO_HEAD_DROP:
        return fifo_peek(net, cpu, q)
    if kind == PFIFO_FAST:
        return pfifo_fast_peek(net, cpu, q)
    return 0


@kernel
def qdisc_reset(net, cpu, q):
    """Free all that is queued, requeued packets included; afterwards qlen and backlog are 0. Nobody may be inside."""
    kind = q.kind
    if kind == FQ_CODEL:
        fq_codel_reset(net, cpu, q)
    elif kind == SFQ:
        sfq_reset(net, cpu, q)
    elif PFIFO <= kind <= PFIFO_HEAD_DROP:
        fifo_reset(net, cpu, q)
    elif kind == CODEL:
        codel_qdisc_reset(net, cpu, q)
    elif kind == PFIFO_FAST:
        pfifo_fast_reset(net, cpu, q)
    _purge_held(net, cpu, q, q.gso_skb)
    _purge_held(net, cpu, q, q.bad_txq)


@kernel
def qdisc_trim(net, cpu, q):
    """After a change of options: free what lies above the new limits; how many packets.

    codel and fq_codel let the surplus leave by the ordinary dequeue, CoDel's drops and ``bstats`` included; sfq drops
    from the longest slot; the FIFOs keep what they have.
    """
    if q.kind != CODEL and q.kind != FQ_CODEL and q.kind != SFQ:
        return 0
    trimmed = 0
    while q.qlen > q.limit or (q.kind == FQ_CODEL and q.fq.memory_usage > q.fq.memory_limit):
        if q.kind == SFQ:
            if q.sfq.cur_depth == 0:
                break
            sfq_drop(net, cpu, q, QDISC_CHANGE)
        else:
            skb = _unqueue(net, cpu, q)
            if skb == 0:
                break
            kfree_skb(net, cpu, skb, QDISC_CHANGE)
        trimmed += 1
    return trimmed


@kernel
def _unqueue(net, cpu, q):
    """Take one packet out for good: a requeued one, else the next."""
    skb = list_pop(net, q.gso_skb)
    if skb == 0:
        return qdisc_dequeue(net, cpu, q)
    q.held -= 1
    q.qlen -= 1
    q.backlog -= net.skbs[skb].len
    return skb


@kernel
def _purge_held(net, cpu, q, skbs):
    while True:
        skb = list_pop(net, skbs)
        if skb == 0:
            return
        q.held -= 1
        q.held_purged += 1
        if q.flags & TCQ_F_NOLOCK != 0:
            atomic_add(q, "qlen", -1)
            atomic_add(q, "backlog", -net.skbs[skb].len)
        else:
            q.qlen -= 1
            q.backlog -= net.skbs[skb].len
        qdisc_purge(net, cpu, q, skb)


@kernel
def _noop_enqueue(net, cpu, skb):
    cpu.dev[net.skbs[skb].dev].tx_dropped += 1
    kfree_skb(net, cpu, skb, QDISC_DROP)
    return NET_XMIT_CN
