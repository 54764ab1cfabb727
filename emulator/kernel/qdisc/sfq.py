"""Stochastic fairness queueing: a short FIFO for each flow, served in turn; the longest loses when all is full.

::

    hash & (divisor - 1) --> net.sfq_ht[bucket]            slot of the bucket, SFQ_NONE = idle
    net.sfq_slots[slot]      head/tail, qlen, backlog, allot, next in the round, neighbours of equal depth
    q.sfq.tail               last slot of the round; the round's head is slots[tail].next
    q.sfq.dep[d]             slots that hold d packets, the one that got there last first; dep[0]: free slots

The lists by depth find a longest slot in constant time. Among equals it is the one that reached that length last,
except when all hold one packet: then it is the one whose turn it is.

Enqueue: a new flow takes a free slot (none: the packet is dropped) and goes to the *end* of the round with one
quantum; a slot that holds ``depth`` packets drops the arriving one; above ``limit`` the longest slot drops its last
packet. With ``headdrop`` both drop the oldest packet of the slot instead, and report congestion. There is no CoDel
and no drop for age.

Dequeue is deficit round robin, in bytes: a slot whose allot is used up gets a quantum and waits for its next turn. A
slot that empties is not charged for its last packet.

Knobs: limit, depth, flows, divisor, quantum, headdrop. Scope and limits: the hash is the packet's own; no
perturbation, so no rehashing; no RED. Departure: a reset does not count what it frees as sent, as upstream's does.

Identities: that of every qdisc, see base.py; ``qlen`` and ``backlog`` are the sums over the slots. Validated by
tests/conformance (golden ``sfq/*``) and tests/property/test_qdisc.py.

Upstream: net/sched/sch_sfq.c (sfq_enqueue, sfq_drop, sfq_dequeue, sfq_inc, sfq_dec, sfq_link, sfq_change, sfq_reset).
"""

import numpy as np

from emulator.kernel.clock import QDISC_FLOW_LIMIT, QDISC_MAXFLOWS, QDISC_OVERLIMIT
from emulator.kernel.jit import kernel
from emulator.kernel.qdisc.base import (
    NET_XMIT_CN,
    NET_XMIT_DROP,
    NET_XMIT_SUCCESS,
    qdisc_bstats_update,
    qdisc_drop,
    qdisc_purge,
    slot,
)

SFQ_NONE = 0xFFFF
SFQ_MAX_DEPTH = 127
SFQ_MAX_FLOWS = 65536 - SFQ_MAX_DEPTH - 1
SFQ_MAX_DIVISOR = 65536
SFQ_DEFAULT_FLOWS = 128
SFQ_DEFAULT_DIVISOR = 1024

SFQ_SLOT = np.dtype(
    [
        ("head", "i4"),  # first and last skb, 0 = none
        ("tail", "i4"),
        ("backlog", "i4"),  # bytes
        ("allot", "i4"),  # bytes it may still send in this turn
        ("bucket", "u2"),  # hash bucket that points here
        ("next", "u2"),  # next slot of the round
        ("before", "u2"),  # neighbours in the list of its depth; SFQ_NONE = the end
        ("after", "u2"),
        ("qlen", "i2"),
        ("_pad", "i2", 3),
    ],
    align=True,
)
assert SFQ_SLOT.itemsize == 32, SFQ_SLOT.itemsize


@kernel
def sfq_enqueue(net, cpu, q, skb):
    """Append to the flow's slot, dropping as the limits say. CN when a packet of that slot had to go."""
    sfq = q.sfq
    bucket = sfq.ht_base + (net.skbs[skb].hash & (sfq.divisor - 1))
    x = net.sfq_ht[bucket] + 0
    if x == SFQ_NONE:
        x = sfq.dep[0] + 0
        if x == SFQ_NONE:
            qdisc_drop(net, cpu, q, skb, QDISC_MAXFLOWS)
            return NET_XMIT_DROP
        net.sfq_ht[bucket] = x
        net.sfq_slots[sfq.slot_base + x].bucket = bucket - sfq.ht_base
    flow = net.sfq_slots[sfq.slot_base + x]
    if flow.qlen >= sfq.maxdepth:
        return _enqueue_full_slot(net, cpu, q, flow, skb)

    _append(net, q, flow, skb)
    _move_to_depth(net, sfq, x, flow.qlen + 1)
    q.qlen += 1
    if flow.qlen == 1:
        _join_round(net, sfq, x)
    if q.qlen <= q.limit:
        return NET_XMIT_SUCCESS
    qlen = flow.qlen
    sfq_drop(net, cpu, q, QDISC_OVERLIMIT)
    return NET_XMIT_CN if flow.qlen != qlen else NET_XMIT_SUCCESS


@kernel
def sfq_dequeue(net, cpu, q):
    """The next packet of the round, or 0."""
    skb = _take(net, q)
    if skb != 0:
        qdisc_bstats_update(net, q, skb)
    return skb


@kernel
def sfq_reset(net, cpu, q):
    """Free everything queued."""
    while True:
        skb = _take(net, q)
        if skb == 0:
            return
        qdisc_purge(net, cpu, q, skb)


@kernel
def sfq_drop(net, cpu, q, reason):
    """Drop one packet of the longest slot; nothing if there is none."""
    sfq = q.sfq
    depth = sfq.cur_depth
    if depth == 0:
        return
    if depth > 1:
        x = sfq.dep[depth] + 0
        flow = net.sfq_slots[sfq.slot_base + x]
    else:
        x = net.sfq_slots[sfq.slot_base + sfq.tail].next + 0
        flow = net.sfq_slots[sfq.slot_base + x]
        _leave_round(net, sfq, x)
    skb = _pop_head(net, q, flow) if sfq.headdrop != 0 else _pop_tail(net, q, flow)
    _move_to_depth(net, sfq, x, flow.qlen - 1)
    q.qlen -= 1
    qdisc_drop(net, cpu, q, skb, reason)


@kernel
def _enqueue_full_slot(net, cpu, q, flow, skb):
    """The slot holds all that it may: the arriving packet goes, or with headdrop the oldest one."""
    if q.sfq.headdrop == 0:
        qdisc_drop(net, cpu, q, skb, QDISC_FLOW_LIMIT)
        return NET_XMIT_DROP
    qdisc_drop(net, cpu, q, _pop_head(net, q, flow), QDISC_FLOW_LIMIT)
    _append(net, q, flow, skb)
    return NET_XMIT_CN


@kernel
def _take(net, q):
    """Unlink the next packet of the round without counting it as sent, or 0."""
    sfq = q.sfq
    if sfq.tail == SFQ_NONE:
        return 0
    while True:
        x = net.sfq_slots[sfq.slot_base + sfq.tail].next + 0
        flow = net.sfq_slots[sfq.slot_base + x]
        if flow.allot > 0:
            break
        flow.allot += sfq.quantum
        sfq.tail = x
    skb = _pop_head(net, q, flow)
    _move_to_depth(net, sfq, x, flow.qlen - 1)
    q.qlen -= 1
    if flow.qlen == 0:
        _leave_round(net, sfq, x)
    else:
        flow.allot -= net.skbs[skb].len
    return skb


@kernel
def _join_round(net, sfq, x):
    """Put a slot at the end of the round, with one quantum to send."""
    flow = net.sfq_slots[sfq.slot_base + x]
    if sfq.tail == SFQ_NONE:
        flow.next = x
    else:
        last = net.sfq_slots[sfq.slot_base + sfq.tail]
        flow.next = last.next
        last.next = x
    sfq.tail = x
    flow.allot = sfq.quantum


@kernel
def _leave_round(net, sfq, x):
    """Take the slot at the head of the round out of it; its bucket is free again."""
    flow = net.sfq_slots[sfq.slot_base + x]
    net.sfq_ht[sfq.ht_base + flow.bucket] = SFQ_NONE
    if flow.next == x:
        sfq.tail = SFQ_NONE
    else:
        net.sfq_slots[sfq.slot_base + sfq.tail].next = flow.next


@kernel
def _move_to_depth(net, sfq, x, depth):
    """Move a slot, one packet longer or shorter, to the list of its new depth."""
    flow = net.sfq_slots[sfq.slot_base + x]
    before = flow.before + 0
    after = flow.after + 0
    if before == SFQ_NONE:
        sfq.dep[flow.qlen] = after
    else:
        net.sfq_slots[sfq.slot_base + before].after = after
    if after != SFQ_NONE:
        net.sfq_slots[sfq.slot_base + after].before = before
    was_the_longest = flow.qlen == sfq.cur_depth and sfq.dep[flow.qlen] == SFQ_NONE
    if depth > sfq.cur_depth or was_the_longest:
        sfq.cur_depth = depth
    flow.qlen = depth
    _link(net, sfq, x, depth)


@kernel
def _link(net, sfq, x, depth):
    """Put a slot in front of the list of its depth."""
    flow = net.sfq_slots[sfq.slot_base + x]
    first = sfq.dep[depth] + 0
    flow.before = SFQ_NONE
    flow.after = first
    if first != SFQ_NONE:
        net.sfq_slots[sfq.slot_base + first].before = x
    sfq.dep[depth] = x


@kernel
def _append(net, q, flow, skb):
    """Queue a packet at the tail of a slot."""
    packet = net.skbs[skb]
    packet.next = 0
    packet.prev = flow.tail
    if flow.tail == 0:
        flow.head = skb
    else:
        net.skbs[flow.tail].next = skb
    flow.tail = skb
    flow.backlog += packet.len
    q.backlog += packet.len


@kernel
def _pop_head(net, q, flow):
    """Unlink the oldest packet of a slot."""
    skb = slot(flow.head)
    packet = net.skbs[skb]
    flow.head = packet.next
    if packet.next == 0:
        flow.tail = 0
    else:
        net.skbs[packet.next].prev = 0
    flow.backlog -= packet.len
    q.backlog -= packet.len
    return skb


@kernel
def _pop_tail(net, q, flow):
    """Unlink the newest packet of a slot."""
    skb = slot(flow.tail)
    packet = net.skbs[skb]
    flow.tail = packet.prev
    if packet.prev == 0:
        flow.head = 0
    else:
        net.skbs[packet.prev].next = 0
    flow.backlog -= packet.len
    q.backlog -= packet.len
    return skb
