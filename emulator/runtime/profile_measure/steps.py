# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
"""What the emulator's own steps take, warm and alone: one CPU drives a private network, batch by batch.

A round moves one batch of packets from the flood to the receiver, with the very functions that agents call, and notes
how long each leg took::

    flood_step (a runner holds the qdisc: build and enqueue alone)
        -> qdisc_run_step until the qdisc is empty (dequeue and veth_xmit)
            -> napi_threaded_step until nothing is left (ring, GRO, delivery)

Whole steps, because their sum is what a packet costs; the parts (a bare build, veth_xmit, ring entry) are measured
beside them to tell the legs apart.
"""

from __future__ import annotations

from emulator.agents.flood import build_skb, flood_step
from emulator.kernel.clock import local_clock
from emulator.kernel.jit import kernel
from emulator.kernel.netfilter import nf_hook
from emulator.kernel.ptr_ring import ptr_ring_consume
from emulator.kernel.receive import netif_receive_skb
from emulator.kernel.sched import qdisc_run_step
from emulator.kernel.skb import KIND_ECHO_REQUEST, KIND_FLOOD, alloc_skb, consume_skb
from emulator.kernel.threaded import napi_threaded_step
from emulator.kernel.veth import TAG_BITS, veth_xmit

FLOOD, RECEIVER, REPLIES, PING = range(4)
"""agents' numbers: the flood, the NAPI threads of its peer and of its own device, the prober"""
BATCH = 128
"""packets of a round: half a ring, two polls"""
LEGS = 3
FLOOD_LEG, RUN_LEG, POLL_LEG = range(LEGS)
_UNLIMITED = 1 << 40


@kernel
def legs(nets, agents, out):
    """One batch on its whole way; ``out``: ns of each leg, for the batch."""
    net = nets[0]
    words = agents[FLOOD]
    sender = net.cpus[words.cpu]
    q = net.qdiscs[net.devs[0].txq[0].qdisc]
    q.running = 1
    began = local_clock(sender)
    for _ in range(BATCH):
        flood_step(net, sender, words)
    enqueued = local_clock(sender)
    sender.run_q = net.devs[0].txq[0].qdisc + 1
    sender.run_quota = _UNLIMITED
    started = local_clock(sender)
    while sender.run_q != 0:
        qdisc_run_step(net, sender)
    sent = local_clock(sender)
    out[FLOOD_LEG] = enqueued - began
    out[RUN_LEG] = sent - started
    out[POLL_LEG] = _receive(net, agents)


@kernel
def _receive(net, agents):
    """Poll until nothing is left; ns."""
    cpu = net.cpus[agents[RECEIVER].cpu]
    dev = net.devs[agents[RECEIVER].dev]
    rq = dev.rq[agents[RECEIVER].queue]
    began = local_clock(cpu)
    while napi_threaded_step(net, cpu, dev, rq):
        pass
    return local_clock(cpu) - began


PARTS = 4
BUILD, XMIT, CONSUME, FREE = range(PARTS)


@kernel
def parts(nets, agents, skbs, out):
    """Parts of the legs, a batch of each: build, veth_xmit, take from the ring, free. ``skbs``: room for a batch."""
    net = nets[0]
    words = agents[FLOOD]
    sender = net.cpus[words.cpu]
    dev = net.devs[0]
    txq = dev.txq[0]
    rq = net.devs[1].rq[0]
    began = local_clock(sender)
    for i in range(BATCH):
        skbs[i] = alloc_skb(net, sender)
        build_skb(net, skbs[i], words.flow, i + 1, words.packet_len, KIND_FLOOD)
    built = local_clock(sender)
    for i in range(BATCH):
        veth_xmit(net, sender, dev, txq, skbs[i])
    sent = local_clock(sender)
    for i in range(BATCH):
        skbs[i] = ptr_ring_consume(net, rq.ring) >> TAG_BITS
    taken = local_clock(sender)
    for i in range(BATCH):
        consume_skb(net, sender, skbs[i])
    freed = local_clock(sender)
    out[BUILD] = built - began
    out[XMIT] = sent - built
    out[CONSUME] = taken - sent
    out[FREE] = freed - taken


@kernel
def single_polls(nets, agents, skbs):
    """A batch of packets, each a poll of its own; ns of the batch, the reading of the clock left out."""
    net = nets[0]
    words = agents[FLOOD]
    sender = net.cpus[words.cpu]
    spent = 0
    for _ in range(BATCH):
        skbs[0] = alloc_skb(net, sender)
        flow = net.flows[words.flow]
        flow.sent += 1
        build_skb(net, skbs[0], words.flow, flow.sent, words.packet_len, KIND_FLOOD)
        veth_xmit(net, sender, net.devs[0], net.devs[0].txq[0], skbs[0])
        spent += _receive(net, agents)
    began = local_clock(sender)
    for _ in range(BATCH):
        local_clock(sender)
    return max(0, spent - (local_clock(sender) - began))


@kernel
def echoes(nets, agents, skbs):
    """A batch of echo requests answered on the receiving device, the replies delivered unmeasured; ns of the batch."""
    net = nets[0]
    _build_batch(net, agents[PING], KIND_ECHO_REQUEST, skbs)
    spent = _deliver_batch(net, agents, skbs)
    replies = net.cpus[agents[REPLIES].cpu]
    dev = net.devs[0]
    while napi_threaded_step(net, replies, dev, dev.rq[0]):
        pass
    return spent


@kernel
def deliveries(nets, agents, skbs):
    """A batch of the flood's packets delivered on the receiving device; ns of the batch."""
    net = nets[0]
    _build_batch(net, agents[FLOOD], KIND_FLOOD, skbs)
    return _deliver_batch(net, agents, skbs)


@kernel
def _build_batch(net, words, kind, skbs):
    sender = net.cpus[words.cpu]
    flow = net.flows[words.flow]
    for i in range(BATCH):
        skbs[i] = alloc_skb(net, sender)
        flow.sent += 1
        build_skb(net, skbs[i], words.flow, flow.sent, words.packet_len, kind)


@kernel
def _deliver_batch(net, agents, skbs):
    receiver = net.cpus[agents[RECEIVER].cpu]
    began = local_clock(receiver)
    for i in range(BATCH):
        netif_receive_skb(net, receiver, net.devs[1], skbs[i])
    return local_clock(receiver) - began


@kernel
def rule_walks(nets, agents, skb, count):
    """One packet over the receiving device's rules, ``count`` times; ns of all."""
    net = nets[0]
    receiver = net.cpus[agents[RECEIVER].cpu]
    dev = net.devs[1]
    began = local_clock(receiver)
    for _ in range(count):
        nf_hook(net, dev, skb)
    return local_clock(receiver) - began
