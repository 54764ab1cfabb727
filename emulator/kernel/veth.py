"""veth: one device's transmit is its peer's receive, through a ptr_ring that the qdisc cannot see into.

::

    veth0 txq --veth_xmit--> [ ring 256 of veth1's rq ] --veth_poll--> GRO --> stack of veth1
          ^                                                  |
          +------- completion, wake -------------------------+

    VETH_RQ  notify line   rx_notify_masked        producers set it when they kick, the poll clears it
             napi, ring    napi.py, ptr_ring.py
             poll line     phase of the poll, completion coalescing   NAPI ownership
             gro           gro.py

A ring entry is ``skb << 2 | tags``: bit 0 an XDP frame, bit 1 a packet that was charged to BQL. The tag decides the
completion, so exchanging the qdisc while packets are in the ring cannot unbalance the charges.

Variants of completion (``dev.bql_variant``), all one unit a packet, charged under producer_lock before the entry can be
seen:

    off  stock: no charge; back-pressure is DRV_XOFF on a full ring, woken once a poll
    v5   completed one by one, before the packet's own processing
    v6   coalesced: due tx_usecs after the window's start; looked at when a poll starts and at each charged packet
         before its processing; a poll that empties the ring of a stopped queue flushes
    v7   due when the window is over or more than dql.limit is pending; looked at when a poll starts and after each
         entry's processing

Ordering.
  K1 veth_kick: entry published, then rx_notify_masked read   pairs with K2 in _poll_complete: masked cleared, then the
     ring looked at again (lost NAPI kick otherwise)
  K3 _wake_driver_stop: ring worked off, then DRV_XOFF read   pairs with K1 behind netif_tx_stop_queue: the producer
     that stopped the queue kicks whatever it believes, so a poll follows that sees the stop
  The entry's own publication is R1/R2 of ptr_ring; BQL's is B1/B2 of netdev.

Identity per queue: num_queued - num_completed == tagged entries in the ring + n_bql + in_hand.

Upstream: drivers/net/veth.c (6.17.10 and later) and the veth BQL series, v5 to v7.
"""

import numpy as np

from emulator.kernel.clock import FULL_RING, charge, local_clock
from emulator.kernel.gro import GRO, gro_normal_list, napi_gro_receive
from emulator.kernel.hist import hist_add
from emulator.kernel.jit import kernel
from emulator.kernel.memory import (
    READ_ONCE,
    WRITE_ONCE,
    smp_mb,
    smp_rmb,
    smp_store_mb,
    spin_lock,
    spin_unlock,
    take_line,
)
from emulator.kernel.napi import NAPI, napi_complete_done, napi_schedule, napi_schedule_prep
from emulator.kernel.netdev import (
    STACK_XOFF,
    netdev_tx_completed_queue,
    netdev_tx_sent_queue,
    netif_tx_queue_stopped,
    netif_tx_stop_queue,
    netif_tx_wake_queue,
    txq_trans_cond_update,
)
from emulator.kernel.ptr_ring import (
    PTR_RING,
    ptr_ring_consume,
    ptr_ring_empty,
    ptr_ring_full,
    ptr_ring_produce,
)
from emulator.kernel.qdisc.base import NOQUEUE
from emulator.kernel.skb import kfree_skb
from emulator.kernel.trace import (
    NAPI_POLL_BEGIN,
    NAPI_POLL_END,
    NAPI_SCHEDULE,
    NET_DEV_XMIT,
    trace_event,
    trace_packet,
)

VETH_RING_SIZE = 256
VETH_BQL_UNIT = 1
VETH_XDP_FLAG, VETH_BQL_FLAG = 1, 2
TAG_BITS = 2

VARIANTS = ("off", "v5", "v6", "v7")
VARIANT_OFF, VARIANT_V5, VARIANT_V6, VARIANT_V7 = range(len(VARIANTS))

NETDEV_TX_OK, NETDEV_TX_BUSY = 0, 0x10

# where a poll is
POLL_IDLE, POLL_RECEIVE, POLL_AFTER_ENTRY, POLL_COMPLETE, POLL_REPOLL = range(5)

VETH_RQ = np.dtype(
    [
        ("rx_notify_masked", "i8"),
        ("_notify_line", "i8", 7),
        ("napi", NAPI),
        ("ring", PTR_RING),
        ("phase", "i8"),
        ("done", "i8"),  # entries handled in this poll
        ("bql_time_ns", "i8"),  # start of the coalescing window
        ("n_bql", "i8"),  # charges pending
        ("in_hand", "i8"),  # charged entries taken from the ring and not yet in n_bql
        ("peer_txq", "i8"),  # index of the sender's queue, -1 = none
        ("index", "i8"),
        ("xdp_drops", "i8"),
        ("gro", GRO),
    ],
    align=True,
)


@kernel
def veth_xmit(net, cpu, dev, txq, skb):
    """Put one packet on the peer's ring. NETDEV_TX_OK (also when dropped), or NETDEV_TX_BUSY with the queue stopped."""
    charge(cpu, cpu.costs.veth_xmit)
    take_line(cpu, net.skbs[skb], cpu.costs.cache_line)
    stats = cpu.dev[dev.ifindex]
    peer = net.devs[dev.peer]
    rq = peer.rq[txq.index]
    length = net.skbs[skb].len
    has_queue = net.qdiscs[txq.qdisc].kind != NOQUEUE
    charged = dev.bql_variant != VARIANT_OFF and txq.index < dev.real_num_tx_queues and has_queue
    if _veth_ring_produce(net, cpu, txq, rq, skb, charged):
        stats.tx_packets += 1
        stats.tx_bytes += length
        veth_kick(cpu, peer, rq)
        return NETDEV_TX_OK
    if not has_queue:
        stats.tx_dropped += 1
        kfree_skb(net, cpu, skb, FULL_RING)
        veth_kick(cpu, peer, rq)
        return NETDEV_TX_OK
    netif_tx_stop_queue(cpu, txq)
    veth_kick(cpu, peer, rq)
    return NETDEV_TX_BUSY


@kernel
def _veth_ring_produce(net, cpu, txq, rq, skb, charged):
    """Charge, then publish, under producer_lock; False when the ring is full.

    The charge comes first because the consumer may complete the packet the moment that it can be seen.
    """
    ring = rq.ring
    spin_lock(net, cpu, ring.producer_lock)
    if ring.size == 0 or ptr_ring_full(net, ring):
        spin_unlock(ring.producer_lock)
        return False
    trace_packet(net, cpu, NET_DEV_XMIT, skb)
    entry = skb << TAG_BITS
    if charged:
        entry |= VETH_BQL_FLAG
        netdev_tx_sent_queue(net, cpu, txq, VETH_BQL_UNIT)
    ptr_ring_produce(net, ring, entry)
    spin_unlock(ring.producer_lock)
    return True


@kernel
def veth_kick(cpu, dev, rq):
    """Schedule the peer's NAPI unless it is known to be looking (``__veth_xdp_flush``)."""
    smp_mb()  # K1, pairs with K2 in _poll_complete() and K3 in _wake_driver_stop()
    if READ_ONCE(rq, "rx_notify_masked") == 0 and napi_schedule_prep(rq.napi):
        WRITE_ONCE(rq, "rx_notify_masked", 1)
        trace_event(cpu, NAPI_SCHEDULE, dev.ifindex, rq.index)
        napi_schedule(rq.napi)


@kernel
def veth_poll_begin(net, cpu, dev, rq):
    """Start of a poll: a window that began in this CPU's future is pulled back to now; what is due is completed."""
    rq.done = 0
    trace_event(cpu, NAPI_POLL_BEGIN, dev.ifindex, rq.index)
    charge(cpu, cpu.costs.napi_poll)
    if dev.bql_variant >= VARIANT_V6:
        now = local_clock(cpu)
        rq.bql_time_ns = min(rq.bql_time_ns, now)
        _complete_if_due(net, cpu, dev, rq, now)
    rq.phase = POLL_RECEIVE


@kernel
def veth_poll_step(net, cpu, dev, rq):
    """One step of a poll that is under way: one ring entry, or its end."""
    if rq.phase == POLL_AFTER_ENTRY:
        _after_entry(net, cpu, dev, rq)
        return
    if rq.phase == POLL_COMPLETE:
        _poll_complete(net, cpu, dev, rq)
        return
    if rq.phase == POLL_REPOLL:
        _poll_done(cpu, dev, rq)
        return
    entry = 0
    if rq.done < rq.napi.weight:
        entry = ptr_ring_consume(net, rq.ring)
    if entry == 0:
        _poll_end(net, cpu, dev, rq)
        return
    charge(cpu, cpu.costs.ring_consume)
    take_line(cpu, net.skbs[entry >> TAG_BITS], cpu.costs.cache_line)
    if entry & VETH_BQL_FLAG != 0:
        rq.in_hand = 1
        if dev.bql_variant <= VARIANT_V6:
            _complete_before_processing(net, cpu, dev, rq)
    charge(cpu, cpu.costs.gro_receive)
    napi_gro_receive(net, rq.gro, entry >> TAG_BITS)
    if rq.gro.flushing.head != 0:
        rq.phase = POLL_AFTER_ENTRY  # the entry's processing includes the flush that it set off
    else:
        _after_entry(net, cpu, dev, rq)


@kernel
def _complete_before_processing(net, cpu, dev, rq):
    rq.in_hand = 0
    rq.n_bql += 1
    if dev.bql_variant == VARIANT_V6 and dev.tx_coal_ns != 0:
        if local_clock(cpu) >= rq.bql_time_ns + dev.tx_coal_ns:
            _flush_completions(net, cpu, dev, rq, local_clock(cpu))
    else:
        _flush_completions(net, cpu, dev, rq, rq.bql_time_ns)


@kernel
def _after_entry(net, cpu, dev, rq):
    rq.done += 1
    rq.phase = POLL_RECEIVE
    if rq.in_hand != 0:  # v7: counted after its processing; an exchange of variant leaves v6 nothing here
        rq.in_hand = 0
        rq.n_bql += 1
    if dev.bql_variant == VARIANT_V7:
        _complete_if_due(net, cpu, dev, rq, local_clock(cpu))


@kernel
def _complete_if_due(net, cpu, dev, rq, now):
    due = rq.bql_time_ns + dev.tx_coal_ns <= now
    if not due and dev.bql_variant == VARIANT_V7 and rq.peer_txq >= 0:
        # Strictly more: the producer overshoots the limit by one, so equality is a normal state.
        due = rq.n_bql > net.devs[dev.peer].txq[rq.peer_txq].dql.limit
    if due:
        _flush_completions(net, cpu, dev, rq, now)


@kernel
def _flush_completions(net, cpu, dev, rq, now):
    """Complete what is pending and start a new window. Without a peer queue the charges stay pending."""
    if rq.peer_txq < 0:
        return
    count = rq.n_bql
    rq.n_bql = 0
    rq.bql_time_ns = now
    if count > 0:
        charge(cpu, cpu.costs.completion)
        netdev_tx_completed_queue(net, cpu, net.devs[dev.peer].txq[rq.peer_txq], count)


@kernel
def _poll_end(net, cpu, dev, rq):
    """The weight is used up, or the ring is empty: start the last flush of this poll's packets."""
    if rq.done < rq.napi.weight:
        if dev.bql_variant == VARIANT_V6 and rq.n_bql > 0 and rq.peer_txq >= 0 and ptr_ring_empty(net, rq.ring):
            txq = net.devs[dev.peer].txq[rq.peer_txq]
            if READ_ONCE(txq, "state") & STACK_XOFF != 0:
                _flush_completions(net, cpu, dev, rq, local_clock(cpu))
        rq.phase = POLL_COMPLETE
    else:
        _wake_driver_stop(net, cpu, dev, rq)
        rq.napi.repolls += 1
        rq.phase = POLL_REPOLL
    gro_normal_list(rq.gro)


@kernel
def _poll_complete(net, cpu, dev, rq):
    """Everything is delivered: give the NAPI back, look at the ring once more, wake the sender."""
    if napi_complete_done(rq.napi):
        smp_store_mb(rq, "rx_notify_masked", 0)  # K2, pairs with K1 in veth_kick()
        if not ptr_ring_empty(net, rq.ring) and napi_schedule_prep(rq.napi):
            WRITE_ONCE(rq, "rx_notify_masked", 1)
            trace_event(cpu, NAPI_SCHEDULE, dev.ifindex, rq.index)
            napi_schedule(rq.napi)
    _wake_driver_stop(net, cpu, dev, rq)
    _poll_done(cpu, dev, rq)


@kernel
def _wake_driver_stop(net, cpu, dev, rq):
    """Once a poll: let a sender go on that found the ring full."""
    smp_rmb()  # K3, pairs with K1 in veth_kick(), which follows the stop
    if rq.peer_txq < 0:
        return
    txq = net.devs[dev.peer].txq[rq.peer_txq]
    if netif_tx_queue_stopped(txq):
        txq_trans_cond_update(cpu, txq)
        if netif_tx_wake_queue(net, cpu, txq):
            txq.drv_wake += 1


@kernel
def _poll_done(cpu, dev, rq):
    trace_event(cpu, NAPI_POLL_END, dev.ifindex, rq.done)
    napi = rq.napi
    napi.polls += 1
    napi.work += rq.done
    hist_add(napi.work_hist, rq.done)
    rq.phase = POLL_IDLE
