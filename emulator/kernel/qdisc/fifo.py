"""The FIFOs: one list, and three rules for the packet that finds it full.

=============== ================================= ===============================================
kind            full when                         then
=============== ================================= ===============================================
pfifo           ``qlen >= limit`` (packets)       the arriving packet is dropped
bfifo           ``backlog + len > limit`` (bytes) the arriving packet is dropped
pfifo_head_drop ``qlen >= limit`` (packets)       the oldest is dropped, the arriving queued (CN)
=============== ================================= ===============================================

Knobs: ``limit``; its default is the device's txqueuelen, for bfifo times a full frame. A limit of 0 drops everything,
also with head drop.

Layout: ``q.q`` (head, tail, qlen) links skbs by ``next``. Identity: that of every qdisc, see base.py.

Scope: the whole of the qdisc. Validated by tests/conformance (golden ``fifo/fifo``) and tests/property/test_qdisc.py.

Upstream: net/sched/sch_fifo.c (pfifo_enqueue, bfifo_enqueue, pfifo_tail_enqueue), include/net/sch_generic.h.
"""

from emulator.kernel.clock import QDISC_DROP
from emulator.kernel.jit import kernel
from emulator.kernel.qdisc.base import (
    NET_XMIT_CN,
    NET_XMIT_DROP,
    NET_XMIT_SUCCESS,
    list_append,
    list_pop,
    qdisc_bstats_update,
    qdisc_drop,
    qdisc_purge,
    slot,
)


@kernel
def pfifo_enqueue(net, cpu, q, skb):
    """Append, or drop when ``limit`` packets are queued."""
    if q.qlen >= q.limit:
        qdisc_drop(net, cpu, q, skb, QDISC_DROP)
        return NET_XMIT_DROP
    fifo_append(net, q, skb)
    return NET_XMIT_SUCCESS


@kernel
def bfifo_enqueue(net, cpu, q, skb):
    """Append, or drop what would lift the backlog above ``limit`` bytes."""
    if q.backlog + net.skbs[skb].len > q.limit:
        qdisc_drop(net, cpu, q, skb, QDISC_DROP)
        return NET_XMIT_DROP
    fifo_append(net, q, skb)
    return NET_XMIT_SUCCESS


@kernel
def pfifo_head_drop_enqueue(net, cpu, q, skb):
    """Append; when ``limit`` packets are queued, drop the oldest first and say so with NET_XMIT_CN."""
    if q.limit == 0:
        qdisc_drop(net, cpu, q, skb, QDISC_DROP)
        return NET_XMIT_DROP
    if q.qlen < q.limit:
        fifo_append(net, q, skb)
        return NET_XMIT_SUCCESS
    oldest = fifo_take(net, q)
    if oldest != 0:  # else all that is queued was requeued and waits in gso_skb; upstream counts a drop all the same
        q.head_drops += 1
        qdisc_drop(net, cpu, q, oldest, QDISC_DROP)
    fifo_append(net, q, skb)
    return NET_XMIT_CN


@kernel
def fifo_dequeue(net, cpu, q):
    """The oldest packet, or 0."""
    skb = fifo_take(net, q)
    if skb != 0:
        qdisc_bstats_update(net, q, skb)
    return skb


@kernel
def fifo_peek(net, cpu, q):
    """The oldest packet, left where it is, or 0."""
    return slot(q.q.head)


@kernel
def fifo_reset(net, cpu, q):
    """Free everything queued."""
    while True:
        skb = fifo_take(net, q)
        if skb == 0:
            return
        qdisc_purge(net, cpu, q, skb)


@kernel
def fifo_append(net, q, skb):
    """Queue a packet at the tail of ``q.q`` (``qdisc_enqueue_tail``)."""
    list_append(net, q.q, skb)
    q.qlen += 1
    q.backlog += net.skbs[skb].len


@kernel
def fifo_take(net, q):
    """Unlink the oldest packet of ``q.q`` without counting it as sent, or 0."""
    skb = list_pop(net, q.q)
    if skb != 0:
        q.qlen -= 1
        q.backlog -= net.skbs[skb].len
    return skb
