"""fq_codel: a queue for each flow, served in turn, each under CoDel; what just became active is served first.

::

    hash * flows >> 32 --> net.fq_flows[base + flow]      FIFO, deficit, CoDel state
                           net.fq_backlogs[base + flow]   bytes
    new_flows  1 -> 7 -> .                                flows that became active, one quantum each, always first
    old_flows  3 -> 4 -> 9 -> .                           the rest, deficit round robin

A sparse flow is rarely on a list when its packet comes, so it goes through new_flows and its wait here is next to
nothing, and what its packets do see is whatever lies below the qdisc.

Over the limit (packets, or bytes of truesize) the flow with most *bytes* loses packets from its head: half of its
backlog, at most ``drop_batch``. Finding it is a linear walk over all backlogs, which is why the drops come in
batches.

Knobs: limit, flows, quantum, target, interval, memory_limit, drop_batch, ecn, ce_threshold (with selector and mask).
Units: packets, bytes, ticks of 1024 ns.

Corners, as upstream: over-limit drops raise the flow's CoDel count but not its rec_inv_sqrt; ties for the fattest go
to the lowest index; a packet still owned by its sending socket is charged no memory; a flow that ran empty is noticed
at the next dequeue, and goes to the old list only if that is not empty.

Identities: that of every qdisc, see base.py; ``backlog`` is the sum of the flows' backlogs, ``qlen - held`` of their
lengths, ``memory_usage`` of the truesizes. Validated by tests/conformance (golden ``fq_codel/*``) and
tests/property/test_qdisc.py.

Upstream: net/sched/sch_fq_codel.c (fq_codel_enqueue, fq_codel_drop, fq_codel_dequeue, fq_codel_change, fq_codel_reset).
"""

from emulator.kernel.clock import QDISC_MEMORY, QDISC_OVERLIMIT, local_clock
from emulator.kernel.jit import kernel, s32, u32
from emulator.kernel.qdisc.base import (
    NET_XMIT_CN,
    NET_XMIT_SUCCESS,
    list_append,
    list_pop,
    qdisc_bstats_update,
    qdisc_drop,
    qdisc_purge,
)
from emulator.kernel.qdisc.codel import codel_dequeue, codel_vars_init


@kernel
def fq_codel_enqueue(net, cpu, q, skb):
    """Append to the packet's flow; over a limit, drop from the fattest. CN when that was the packet's own flow."""
    fq = q.fq
    packet = net.skbs[skb]
    index = fq.base + (u32(packet.hash) * fq.flows_cnt >> 32)
    flow = net.fq_flows[index]
    packet.enqueue_ns = local_clock(cpu)
    list_append(net, flow.q, skb)
    net.fq_backlogs[index] += packet.len
    q.backlog += packet.len
    q.qlen += 1
    if packet.wmem == 0:
        fq.memory_usage += packet.truesize
    if flow.on_list == 0:
        flow.on_list = 1
        flow.deficit = fq.quantum
        fq.new_flow_count += 1
        _append(net, fq, fq.new_flows, index)
    over_memory = fq.memory_usage > fq.memory_limit
    if q.qlen <= q.limit and not over_memory:
        return NET_XMIT_SUCCESS

    qlen = q.qlen
    fattest = _drop_from_fattest(net, cpu, q, QDISC_MEMORY if over_memory else QDISC_OVERLIMIT)
    dropped = qlen - q.qlen
    q.drop_overlimit += dropped
    if over_memory:
        fq.drop_overmemory += dropped
    return NET_XMIT_CN if fattest == index else NET_XMIT_SUCCESS


@kernel
def fq_codel_dequeue(net, cpu, q):
    """The next packet: of the first new flow, else of the first old one, that has a deficit left; or 0."""
    fq = q.fq
    while True:
        from_new = fq.new_flows.head != 0
        if from_new:
            flows = fq.new_flows
        else:
            flows = fq.old_flows
            if flows.head == 0:
                return 0
        index = fq.base + flows.head - 1
        flow = net.fq_flows[index]
        if flow.deficit <= 0:
            flow.deficit += fq.quantum
            _pop(net, fq, flows)
            _append(net, fq, fq.old_flows, index)
            continue
        skb = codel_dequeue(net, cpu, q, flow.q, flow.cvars, index)
        if skb == 0:
            _pop(net, fq, flows)
            if from_new and fq.old_flows.head != 0:
                _append(net, fq, fq.old_flows, index)  # one round behind the others, or it would always be new
            else:
                flow.on_list = 0
            continue
        qdisc_bstats_update(net, q, skb)
        flow.deficit -= net.skbs[skb].len
        return skb


@kernel
def fq_codel_reset(net, cpu, q):
    """Free everything queued and forget every flow's state."""
    fq = q.fq
    fq.new_flows.head = 0
    fq.new_flows.tail = 0
    fq.old_flows.head = 0
    fq.old_flows.tail = 0
    for index in range(fq.base, fq.base + fq.flows_cnt):
        flow = net.fq_flows[index]
        while True:
            skb = list_pop(net, flow.q)
            if skb == 0:
                break
            q.qlen -= 1
            q.backlog -= net.skbs[skb].len
            qdisc_purge(net, cpu, q, skb)
        flow.next = 0
        flow.on_list = 0
        codel_vars_init(flow.cvars)
        net.fq_backlogs[index] = 0
    fq.memory_usage = 0


@kernel
def _drop_from_fattest(net, cpu, q, reason):
    """Drop half of the fattest flow's backlog, one packet at least and drop_batch at most; the flow's index."""
    fq = q.fq
    fattest = fq.base
    most = 0
    for index in range(fq.base, fq.base + fq.flows_cnt):
        backlog = net.fq_backlogs[index]
        if backlog > most:
            most = backlog + 0
            fattest = index
    flow = net.fq_flows[fattest]
    enough = most >> 1
    packets = 0
    length = 0
    memory = 0
    while True:
        skb = list_pop(net, flow.q)
        packet = net.skbs[skb]
        length += packet.len
        if packet.wmem == 0:
            memory += packet.truesize
        packets += 1
        qdisc_drop(net, cpu, q, skb, reason)
        if packets >= fq.drop_batch_size or length >= enough:
            break
    flow.cvars.count = s32(flow.cvars.count + packets)
    net.fq_backlogs[fattest] -= length
    fq.memory_usage -= memory
    q.backlog -= length
    q.qlen -= packets
    return fattest


@kernel
def _append(net, fq, flows, index):
    """Link a flow at the tail of a round-robin list."""
    mark = index - fq.base + 1
    net.fq_flows[index].next = 0
    if flows.head == 0:
        flows.head = mark
    else:
        net.fq_flows[fq.base + flows.tail - 1].next = mark
    flows.tail = mark


@kernel
def _pop(net, fq, flows):
    """Unlink the flow at the head of a round-robin list."""
    flows.head = net.fq_flows[fq.base + flows.head - 1].next
    if flows.head == 0:
        flows.tail = 0
