"""What every qdisc has: its record, its counters, its lists of skbs.

::

    QDISC  config     kind, flags, device, queue, limits          written at creation and change, under root_lock
           defer      defer_list head and count                   any CPU, by cmpxchg / atomic add
           lock       root_lock, running                          the lock
           state      SCHED, MISSED, DRAINING, DEACTIVATED bits   any CPU, by atomic bit operations
           counters   qlen, backlog, bstats, qstats               under root_lock (NOLOCK: the runner and atomics)
           requeue    gso_skb, skb_bad_txq                        under root_lock
           kind       private records of each discipline          under root_lock

Identity: enqueued == bstats_packets - held - held_purged + drops + purged + qlen, where ``held`` are the packets
dequeued once that wait in gso_skb or bad_txq (they are part of qlen too), ``purged`` those that a reset freed and
``held_purged`` the ones among them that had been dequeued once; a requeue changes ``requeues`` and nothing else in
it.

An skb list is (head, tail) of slots linked by ``skb.next``. An skb number is an int64 wherever it is passed on: a
field of four bytes is widened with :func:`slot`, so that every mechanism is compiled for one type.

Upstream: ``struct Qdisc`` (include/net/sch_generic.h), include/net/sch_generic.h helpers.
"""

import numpy as np

from emulator.kernel.clock import QUEUE_PURGE
from emulator.kernel.jit import kernel
from emulator.kernel.memory import SPINLOCK, prefetch
from emulator.kernel.ptr_ring import PTR_RING
from emulator.kernel.skb import kfree_skb

NET_XMIT_SUCCESS, NET_XMIT_DROP, NET_XMIT_CN = 0, 1, 2

KINDS = ("noop", "noqueue", "pfifo", "bfifo", "pfifo_head_drop", "pfifo_fast", "codel", "fq_codel", "sfq")
# The three that share fifo.py stand side by side; those before them hold no packets.
NOOP, NOQUEUE, PFIFO, BFIFO, PFIFO_HEAD_DROP, PFIFO_FAST, CODEL, FQ_CODEL, SFQ = range(len(KINDS))

# flags
TCQ_F_ONETXQUEUE, TCQ_F_CAN_BYPASS, TCQ_F_NOLOCK = 1, 2, 4

# state bits
QDISC_STATE_SCHED, QDISC_STATE_DEACTIVATED, QDISC_STATE_MISSED, QDISC_STATE_DRAINING = range(4)

SKB_LIST = np.dtype([("head", "i4"), ("tail", "i4"), ("qlen", "i8")], align=True)

CODEL_PARAMS = np.dtype(
    [
        ("target", "i8"),  # ticks of 1024 ns, as all times below
        ("interval", "i8"),
        ("ce_threshold", "i8"),  # CODEL_DISABLED_THRESHOLD = off
        ("mtu", "i8"),  # bytes
        ("ecn", "i8"),
        ("ce_threshold_selector", "i4"),
        ("ce_threshold_mask", "i4"),
        ("stale_fix", "i8"),  # 1: an empty flow clears first_above_time (upstream 815980fe6dbb); 0: the old fault
        ("_line", "i8", 1),
    ],
    align=True,
)
CODEL_VARS = np.dtype(
    [
        ("count", "i4"),  # 32 bits that wrap, like all times here
        ("lastcount", "i4"),
        ("first_above_time", "i4"),
        ("drop_next", "i4"),
        ("ldelay", "i4"),
        ("rec_inv_sqrt", "i4"),  # 16-bit fixed point
        ("dropping", "i4"),
        ("_pad", "i4"),
    ],
    align=True,
)
CODEL_STATS = np.dtype(
    [
        ("maxpacket", "i4"),
        ("drop_count", "i4"),
        ("drop_len", "i8"),
        ("ecn_mark", "i8"),
        ("ce_mark", "i8"),
    ],
    align=True,
)
FQ_FLOW = np.dtype(
    [
        ("q", SKB_LIST),
        ("next", "i4"),  # next flow in new_flows or old_flows, 1 + index; 0 = end
        ("on_list", "i4"),  # 0 none, 1 linked (new or old)
        ("deficit", "i4"),
        ("_pad", "i4"),
        ("cvars", CODEL_VARS),
    ],
    align=True,
)
assert FQ_FLOW.itemsize == 64, FQ_FLOW.itemsize
FQ_LIST = np.dtype([("head", "i4"), ("tail", "i4")], align=True)  # flows, 1 + index; 0 = empty
FQ_CODEL_QDISC = np.dtype(
    [
        ("base", "i8"),  # first flow in net.fq_flows and first word in net.fq_backlogs
        ("capacity", "i8"),  # flows reserved there; survives a replaced qdisc
        ("flows_cnt", "i8"),
        ("quantum", "i8"),
        ("drop_batch_size", "i8"),
        ("memory_limit", "i8"),
        ("memory_usage", "i8"),
        ("drop_overmemory", "i8"),
        ("new_flow_count", "i8"),
        ("new_flows", FQ_LIST),
        ("old_flows", FQ_LIST),
        ("_line", "i8", 5),
    ],
    align=True,
)
PFIFO_FAST_BANDS = 3
SFQ_DEPTHS = 128  # a slot holds 0 to 127 packets
SFQ_QDISC = np.dtype(
    [
        ("slot_base", "i8"),  # first slot in net.sfq_slots
        ("slot_capacity", "i8"),  # slots reserved there; survives a replaced qdisc, as does ht_capacity
        ("ht_base", "i8"),  # first bucket in net.sfq_ht
        ("ht_capacity", "i8"),
        ("divisor", "i8"),
        ("maxflows", "i8"),
        ("maxdepth", "i8"),
        ("headdrop", "i8"),
        ("quantum", "i8"),
        ("cur_depth", "i8"),  # packets in the longest slot
        ("tail", "i8"),  # last slot of the round; SFQ_NONE = no active slot
        ("_line", "i8", 5),
        (
            "dep",
            "i4",
            SFQ_DEPTHS,
        ),  # dep[d]: the slot that reached depth d last; dep[0]: the free slots; SFQ_NONE = none
    ],
    align=True,
)

QDISC = np.dtype(
    [
        ("kind", "i8"),
        ("flags", "i8"),
        ("dev", "i8"),
        ("txq", "i8"),  # queue it hangs below, or -1 for the device's root
        ("limit", "i8"),  # packets, or bytes for bfifo
        ("generation", "i8"),  # counts reuses of this record
        ("_config_line", "i8", 2),
        ("defer_head", "i8"),  # skb slot, 0 = empty
        ("defer_count", "i8"),
        ("_defer_line", "i8", 6),
        ("root_lock", SPINLOCK),
        ("running", "i8"),
        ("seqlock", SPINLOCK),  # NOLOCK only
        ("_lock_line", "i8", 3),
        ("state", "i8"),
        ("next_sched", "i8"),  # in a CPU's output queue; owned by whoever set SCHED
        ("_state_line", "i8", 6),
        ("qlen", "i8"),
        ("backlog", "i8"),  # bytes
        ("enqueued", "i8"),  # packets offered to enqueue or sent by bypass
        ("bstats_packets", "i8"),
        ("bstats_bytes", "i8"),
        ("drops", "i8"),
        ("overlimits", "i8"),
        ("requeues", "i8"),
        ("drop_overlimit", "i8"),  # codel and fq_codel
        ("held", "i8"),  # packets in gso_skb and bad_txq
        ("head_drops", "i8"),
        ("purged", "i8"),  # freed by reset, as upstream not part of drops
        ("held_purged", "i8"),  # ... of these, taken from gso_skb or bad_txq
        ("_counters_line", "i8", 3),
        ("gso_skb", SKB_LIST),
        ("bad_txq", SKB_LIST),
        ("_requeue_line", "i8", 4),
        ("q", SKB_LIST),  # the one list of the FIFOs and of codel
        ("codel_vars", CODEL_VARS),
        ("codel_params", CODEL_PARAMS),
        ("codel_stats", CODEL_STATS),
        ("_codel_line", "i8", 6),
        ("fq", FQ_CODEL_QDISC),
        ("sfq", SFQ_QDISC),
        ("bands", PTR_RING, PFIFO_FAST_BANDS),  # pfifo_fast
        ("bands_capacity", "i8"),  # ring slots reserved from bands[0].base on; survives a replaced qdisc
        ("_bands_line", "i8", 7),
    ],
    align=True,
)
assert QDISC.itemsize == 2048, QDISC.itemsize


@kernel
def slot(value):
    """An skb number, read from a narrower field, as int64."""
    return value + 0


@kernel
def list_append(net, skbs, skb):
    """Append an skb to a list (``__skb_queue_tail``)."""
    net.skbs[skb].next = 0
    if skbs.head == 0:
        skbs.head = skb
    else:
        net.skbs[skbs.tail].next = skb
    skbs.tail = skb
    skbs.qlen += 1


@kernel
def list_pop(net, skbs):
    """Remove and return the first skb of a list, or 0 (``__skb_dequeue``)."""
    skb = slot(skbs.head)
    if skb != 0:
        following = net.skbs[skb].next
        net.skbs[skb].next = 0  # whoever passes it on may take it for a list of one
        skbs.head = following
        if following == 0:
            skbs.tail = 0
        else:
            prefetch(net.skbs[following], "next")  # of a long queue it is no longer in the nearest cache
        skbs.qlen -= 1
    return skb


@kernel
def qdisc_bstats_update(net, q, skb):
    """Count a packet as sent, at its first dequeue."""
    q.bstats_packets += 1
    q.bstats_bytes += net.skbs[skb].len


@kernel
def qdisc_drop(net, cpu, q, skb, reason):
    """Drop a packet and count it in the qdisc."""
    q.drops += 1
    kfree_skb(net, cpu, skb, reason)


@kernel
def qdisc_purge(net, cpu, q, skb):
    """Free a packet because its qdisc is reset; not a drop of the qdisc."""
    q.purged += 1
    kfree_skb(net, cpu, skb, QUEUE_PURGE)
