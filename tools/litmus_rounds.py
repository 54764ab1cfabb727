"""The rounds of tools/litmus.py, compiled: built from the atomics and the functions of the emulator."""

import numpy as np

from emulator.kernel.clock import DEVS_MAX
from emulator.kernel.jit import kernel
from emulator.kernel.memory import (
    READ_ONCE,
    WRITE_ONCE,
    smp_load_acquire,
    smp_mb,
    smp_store_release,
)
from emulator.kernel.napi import SCHED, SCHED_THREADED, napi_complete_done, napi_schedule, napi_schedule_prep
from emulator.kernel.net import NET
from emulator.kernel.netdev import netdev_tx_completed_queue, netdev_tx_sent_queue
from emulator.kernel.plain import Record
from emulator.kernel.ptr_ring import ptr_ring_batch, ptr_ring_consume, ptr_ring_empty, ptr_ring_produce
from emulator.kernel.veth import POLL_COMPLETE, veth_kick, veth_poll_step

LINE = np.dtype([("value", "i8"), ("_line", "i8", 7)], align=True)
TURN, OTHER_TURN, X, Y, SEEN, OTHER_SEEN, WORDS = range(7)
SHARED = np.dtype([("words", LINE, WORDS + 1), ("net", NET)], align=True)
NONE, BARRIER, AS_BUILT = range(3)
SB, MP, STOP, KICK = range(4)
RING = 64


def prepare(shared, shape):
    """The state before the first round. Only one process may do it, before either runs."""
    net = Record(shared[0]["net"])
    for i in range(DEVS_MAX):
        net.devs[i].ifindex, net.devs[i].peer = i, 1 - i
    for i in range(2):
        net.cpus[i].id, net.cpus[i].online = i, 1
    txq, rq = net.devs[0].txq[0], net.devs[1].rq[0]
    txq.dql.max_limit = txq.dql.min_limit = txq.dql.limit = txq.dql.adj_limit = 1
    txq.dql.num_queued = txq.dql.prev_num_queued = 1
    txq.dql.num_completed = 0
    txq.state = 0
    rq.ring.size, rq.ring.batch = RING, ptr_ring_batch(RING)
    rq.peer_txq = 0
    rq.napi.state, rq.rx_notify_masked = SCHED | SCHED_THREADED, 1
    shared[0]["words"]["value"][X:] = 0


def compile_rounds():
    """Compile, or load from the cache."""
    shared = np.zeros(1, SHARED)
    run_rounds(shared, 0, SB, NONE, 0, 0)


@kernel
def run_rounds(shared, role, shape, mode, last, rounds):
    """Take part in ``rounds`` rounds after round ``last``; how often role 0 saw what must not be."""
    words = shared[0].words
    net = shared[0].net
    seen = 0
    for i in range(last + 1, last + rounds + 1):
        _meet(words, role, 2 * i - 1)
        if shape == SB:
            _store_buffering(words, role, mode, i)
        elif shape == MP:
            _message_passing(words, role, i)
        elif shape == STOP:
            _stop_and_wake(words, net, role, mode)
        else:
            _kick_and_complete(net, role, mode)
        _meet(words, role, 2 * i)
        if role == 0 and _forbidden(words, net, shape, mode, i):
            seen += 1
    return seen


@kernel
def _meet(words, role, turn):
    smp_store_release(words[role], "value", turn)
    while smp_load_acquire(words[1 - role], "value") < turn:
        pass


@kernel
def _store_buffering(words, role, mode, i):
    WRITE_ONCE(words[X + role], "value", i)
    if mode == BARRIER:
        smp_mb()
    WRITE_ONCE(words[SEEN + role], "value", READ_ONCE(words[Y - role], "value"))


@kernel
def _message_passing(words, role, i):
    if role == 0:
        WRITE_ONCE(words[X], "value", i)
        smp_store_release(words[Y], "value", i)
        return
    while smp_load_acquire(words[Y], "value") < i:
        pass
    WRITE_ONCE(words[SEEN], "value", READ_ONCE(words[X], "value"))


@kernel
def _stop_and_wake(words, net, role, mode):
    """One unit is in flight and the limit is 1: one CPU charges a second unit, the other completes the first.

    Without the emulator's functions the stop bit is a word of its own (X): an atomic bit operation is a barrier on x86.
    """
    txq = net.devs[0].txq[0]
    dql = txq.dql
    if mode == AS_BUILT:
        if role == 0:
            netdev_tx_sent_queue(net, net.cpus[0], txq, 1)
        else:
            netdev_tx_completed_queue(net, net.cpus[1], txq, 1)
    elif role == 0:
        queued = READ_ONCE(dql, "num_queued") + 1
        WRITE_ONCE(dql, "num_queued", queued)
        if READ_ONCE(dql, "adj_limit") - queued >= 0:
            return
        WRITE_ONCE(words[X], "value", 1)
        if mode == BARRIER:
            smp_mb()  # B1
        if READ_ONCE(dql, "adj_limit") - queued >= 0:
            WRITE_ONCE(words[X], "value", 0)
    else:
        WRITE_ONCE(dql, "adj_limit", READ_ONCE(dql, "adj_limit") + 1)
        if mode == BARRIER:
            smp_mb()  # B2
        if READ_ONCE(words[X], "value") != 0:
            WRITE_ONCE(words[X], "value", 0)


@kernel
def _kick_and_complete(net, role, mode):
    """The ring is empty, the poll about to complete: one CPU produces and kicks, the other completes."""
    dev = net.devs[1]
    rq = dev.rq[0]
    if role == 0:
        ptr_ring_produce(net, rq.ring, 4)
        if mode == AS_BUILT:
            veth_kick(net.cpus[0], dev, rq)
            return
        if mode == BARRIER:
            smp_mb()  # K1
        if READ_ONCE(rq, "rx_notify_masked") == 0 and napi_schedule_prep(rq.napi):
            WRITE_ONCE(rq, "rx_notify_masked", 1)
            napi_schedule(rq.napi)
    elif mode == AS_BUILT:
        rq.phase = POLL_COMPLETE
        veth_poll_step(net, net.cpus[1], dev, rq)
    elif napi_complete_done(rq.napi):
        WRITE_ONCE(rq, "rx_notify_masked", 0)
        if mode == BARRIER:
            smp_mb()  # K2
        if not ptr_ring_empty(net, rq.ring) and napi_schedule_prep(rq.napi):
            WRITE_ONCE(rq, "rx_notify_masked", 1)
            napi_schedule(rq.napi)


@kernel
def _forbidden(words, net, shape, mode, i):
    """Whether this round ended as it must not; makes the state ready for the next."""
    if shape == SB:
        return READ_ONCE(words[SEEN], "value") < i and READ_ONCE(words[OTHER_SEEN], "value") < i
    if shape == MP:
        return READ_ONCE(words[SEEN], "value") < i
    if shape == STOP:
        txq = net.devs[0].txq[0]
        stopped = READ_ONCE(txq, "state") != 0 or READ_ONCE(words[X], "value") != 0
        room = READ_ONCE(txq.dql, "adj_limit") - READ_ONCE(txq.dql, "num_queued") >= 0
        WRITE_ONCE(txq, "state", 0)
        WRITE_ONCE(words[X], "value", 0)
        return stopped and room
    rq = net.devs[1].rq[0]
    left = not ptr_ring_empty(net, rq.ring) and READ_ONCE(rq.napi, "state") & SCHED_THREADED == 0
    ptr_ring_consume(net, rq.ring)
    _owned(rq)
    return left


@kernel
def _owned(rq):
    """As during a poll."""
    WRITE_ONCE(rq.napi, "state", SCHED | SCHED_THREADED)
    WRITE_ONCE(rq, "rx_notify_masked", 1)
