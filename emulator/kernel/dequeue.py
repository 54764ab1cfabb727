"""What a qdisc hands to the driver next, and what it takes back.

::

    gso_skb (refused before) -> one packet at a time, and nothing else while there is one
    bad_txq (for another queue than the rest of its bulk) -> then the qdisc itself, a bulk behind its first packet
    TX_BUSY or stopped: back to gso_skb, requeues++

Bulk dequeue, the reason why num_tx_queues matters: a root qdisc on a device with several *allocated* transmit queues
lacks ONETXQUEUE. It is dequeued without looking at the stop bits, up to 1 + 8 packets at a time and whatever BQL says;
a stopped queue then sends them all to gso_skb. With ONETXQUEUE a stopped queue is left alone and a bulk stays within
dql_avail.

qlen and backlog include what is held in gso_skb and bad_txq. Callers hold root_lock, or the seqlock for NOLOCK.

Upstream: net/sched/sch_generic.c (dequeue_skb, try_bulk_dequeue_skb*, dev_requeue_skb).
"""

from emulator.kernel.dql import dql_avail
from emulator.kernel.jit import kernel
from emulator.kernel.memory import atomic_add_return, clear_bit, set_bit, smp_mb_after_atomic, spin_lock, spin_unlock
from emulator.kernel.netdev import netif_schedule, netif_xmit_frozen_or_stopped
from emulator.kernel.qdisc.base import (
    QDISC_STATE_DRAINING,
    QDISC_STATE_MISSED,
    TCQ_F_NOLOCK,
    TCQ_F_ONETXQUEUE,
    list_append,
    list_pop,
)
from emulator.kernel.qdisc.ops import qdisc_dequeue
from emulator.kernel.trace import QDISC_DEQUEUE, REQUEUE, trace_packet

SLOW_BULK = 8  # further packets of one dequeue without ONETXQUEUE


@kernel
def dequeue_skb(net, cpu, dev, q):
    """The next packet for the driver, or a list of packets; 0 if there is none or its queue is stopped.

    ``cpu.bulk`` says how many. Needs root_lock, or the seqlock for NOLOCK.
    """
    cpu.bulk = 1
    if q.gso_skb.head != 0:
        return _dequeue_requeued(net, cpu, dev, q)
    if q.flags & TCQ_F_ONETXQUEUE != 0:
        txq = dev.txq[max(q.txq, 0)]
        if netif_xmit_frozen_or_stopped(txq):
            _maybe_clear_missed(q, txq)
            return 0
    if q.bad_txq.head != 0:
        txq = dev.txq[net.skbs[q.bad_txq.head].queue_mapping]
        if netif_xmit_frozen_or_stopped(txq):
            _maybe_clear_missed(q, txq)
            return 0
        skb = list_pop(net, q.bad_txq)
        _hold(net, q, skb, -1)
    else:
        skb = qdisc_dequeue(net, cpu, q)
        if skb == 0:
            return 0
    trace_packet(net, cpu, QDISC_DEQUEUE, skb)
    net.skbs[skb].next = 0
    if q.flags & TCQ_F_ONETXQUEUE != 0:
        _bulk_within_bql(net, cpu, dev, q, skb)
    else:
        _bulk_slow(net, cpu, q, skb)
    return skb


@kernel
def _dequeue_requeued(net, cpu, dev, q):
    """One of the packets held in gso_skb, if its queue runs again; nothing else is dequeued while there are any."""
    nolock = q.flags & TCQ_F_NOLOCK != 0
    txq = dev.txq[net.skbs[q.gso_skb.head].queue_mapping]
    if netif_xmit_frozen_or_stopped(txq):
        _maybe_clear_missed(q, txq)
        return 0
    if nolock:
        spin_lock(net, cpu, q.root_lock)
    skb = list_pop(net, q.gso_skb)
    if skb != 0:
        trace_packet(net, cpu, QDISC_DEQUEUE, skb)
        net.skbs[skb].next = 0
        _hold(net, q, skb, -1)
    if nolock:
        spin_unlock(q.root_lock)
    return skb


@kernel
def _maybe_clear_missed(q, txq):
    """Keep a NOLOCK qdisc below a stopped queue from being rescheduled in a circle (``qdisc_maybe_clear_missed``)."""
    if q.flags & TCQ_F_NOLOCK == 0:
        return
    clear_bit(q, "state", QDISC_STATE_MISSED)
    smp_mb_after_atomic()  # S2, pairs with the full barrier of test_and_clear_bit(DRV_XOFF) in netif_tx_wake_queue()
    if netif_xmit_frozen_or_stopped(txq):
        set_bit(q, "state", QDISC_STATE_DRAINING)
    else:
        set_bit(q, "state", QDISC_STATE_MISSED)


@kernel
def _bulk_within_bql(net, cpu, dev, q, skb):
    """Append packets while dql_avail, less the bytes already taken, is positive; at most the quota that is left.

    veth charges packets, not bytes: after the first packet's bytes are taken off, there is nothing left. Without BQL
    avail is 0; only a huge limit_min ("BQL off") makes this bulk at all.
    """
    limit = dql_avail(dev.txq[net.skbs[skb].queue_mapping].dql) - net.skbs[skb].len
    last = skb
    while limit > 0 and cpu.bulk < cpu.run_quota:
        following = qdisc_dequeue(net, cpu, q)
        if following == 0:
            break
        trace_packet(net, cpu, QDISC_DEQUEUE, following)
        limit -= net.skbs[following].len
        net.skbs[last].next = following
        net.skbs[following].next = 0
        last = following
        cpu.bulk += 1


@kernel
def _bulk_slow(net, cpu, q, skb):
    """Append up to 8 packets for the same queue, BQL or not; one for another queue waits in bad_txq."""
    last = skb
    mapping = net.skbs[skb].queue_mapping
    for _ in range(SLOW_BULK):
        following = qdisc_dequeue(net, cpu, q)
        if following == 0:
            break
        if net.skbs[following].queue_mapping != mapping:
            list_append(net, q.bad_txq, following)
            _hold(net, q, following, 1)
            break
        trace_packet(net, cpu, QDISC_DEQUEUE, following)
        net.skbs[last].next = following
        net.skbs[following].next = 0
        last = following
        cpu.bulk += 1


@kernel
def dev_requeue_skb(net, cpu, q, skb, nolock):
    """Keep packets that the driver did not take at the front of the queue. Needs root_lock.

    Departs from upstream on purpose: there each goes to the tail of gso_skb, so that one of several requeued packets
    that is refused a second time (a wake with less room than it takes) falls behind its followers. Here what was
    refused goes before what is held, and a flow keeps its order.
    """
    held = int(q.gso_skb.head)
    held_tail = int(q.gso_skb.tail)
    q.gso_skb.head = skb
    while skb != 0:
        following = int(net.skbs[skb].next)
        q.gso_skb.tail = skb
        q.gso_skb.qlen += 1
        q.requeues += 1
        trace_packet(net, cpu, REQUEUE, skb)
        _hold(net, q, skb, 1)
        skb = following
    if held != 0:
        net.skbs[q.gso_skb.tail].next = held
        q.gso_skb.tail = held_tail
    if nolock:
        set_bit(q, "state", QDISC_STATE_MISSED)
    else:
        netif_schedule(net, cpu, cpu.run_q - 1)


@kernel
def _hold(net, q, skb, sign):
    """Count a packet into (+1) or out of (-1) those held back in gso_skb or bad_txq."""
    q.held += sign
    if q.flags & TCQ_F_NOLOCK != 0:
        atomic_add_return(q, "qlen", sign)
        atomic_add_return(q, "backlog", sign * net.skbs[skb].len)
    else:
        q.qlen += sign
        q.backlog += sign * net.skbs[skb].len
