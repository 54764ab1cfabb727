"""From dev_queue_xmit to the driver: the qdisc's lock, its one runner, requeues, and net_tx_action.

A packet's way::

    dev_queue_xmit -> defer_list -> root_lock: qdisc enqueue -> qdisc_run: dequeue (gso_skb first, a bulk behind it)
                                                                    -> sch_direct_xmit -> veth_xmit
                                                             TX_BUSY or stopped: back to gso_skb, requeues++

Work is cut into steps that end quickly: :func:`dev_queue_xmit` moves one packet into the qdisc, may become the runner
and then moves a first bulk to the driver; each :func:`qdisc_run_step` moves one more packet or bulk. Whose run is in
progress stands in ``cpu.run_q``; a CPU that has one finishes it before it does anything else. No lock is held between
steps; ``q.running`` is, as upstream.

Who runs: the CPU that enqueued, or the CPU that woke the queue (its NET_TX softirq, :func:`net_tx_action_step`), never
two at once for a qdisc with a lock (``running``, under root_lock); for NOLOCK (pfifo_fast) the seqlock and the MISSED
bit.

What a dequeue takes at once, and where a refused packet waits: dequeue.py.

Identity: enqueued == sent + dropped + qlen, where qlen includes gso_skb and bad_txq; requeues change nothing in it.

Upstream: net/core/dev.c (__dev_queue_xmit, __dev_xmit_skb, dev_hard_start_xmit, net_tx_action), net/sched/sch_generic.c
(sch_direct_xmit, __qdisc_run).
"""

from emulator.kernel.clock import DEV_READY, QDISC_BURST_DROP, QUEUE_PURGE, charge
from emulator.kernel.dequeue import dequeue_skb, dev_requeue_skb
from emulator.kernel.jit import kernel
from emulator.kernel.memory import (
    READ_ONCE,
    WRITE_ONCE,
    atomic_add_return,
    clear_bit,
    cmpxchg_unless_alone,
    set_bit,
    smp_mb,
    smp_mb_before_atomic,
    spin_lock,
    spin_trylock,
    spin_unlock,
    test_and_set_bit,
    test_bit,
    xchg_unless_alone,
)
from emulator.kernel.netdev import (
    netif_schedule,
    netif_tx_queue_stopped,
    netif_xmit_frozen_or_stopped,
    netif_xmit_stopped,
)
from emulator.kernel.qdisc.base import (
    NET_XMIT_DROP,
    NET_XMIT_SUCCESS,
    NOQUEUE,
    QDISC_STATE_DEACTIVATED,
    QDISC_STATE_DRAINING,
    QDISC_STATE_MISSED,
    QDISC_STATE_SCHED,
    TCQ_F_CAN_BYPASS,
    TCQ_F_NOLOCK,
    qdisc_bstats_update,
)
from emulator.kernel.qdisc.ops import qdisc_enqueue
from emulator.kernel.skb import kfree_skb
from emulator.kernel.veth import NETDEV_TX_OK, veth_xmit

DEV_TX_WEIGHT = 64  # packets a qdisc run may move
QDISC_MAX_BURST = 1000  # packets that may wait on a defer_list
ENETDOWN = 100


@kernel
def dev_queue_xmit(net, cpu, dev, skb):
    """Hand a packet to a device's qdisc. NET_XMIT_* or -ENETDOWN; the packet is no longer the caller's in any case.

    May leave a qdisc run to the caller's CPU (``cpu.run_q``): call :func:`qdisc_run_step` until it is gone.
    """
    cpu.stats.xmit += 1
    packet = net.skbs[skb]
    packet.dev = dev.ifindex
    packet.queue_mapping = 0 if dev.real_num_tx_queues == 1 else (packet.hash & 0xFFFFFFFF) % dev.real_num_tx_queues
    txq = dev.txq[packet.queue_mapping]
    q = net.qdiscs[txq.qdisc]
    if q.kind == NOQUEUE:
        return _xmit_noqueue(net, cpu, dev, txq, skb)
    charge(cpu, cpu.costs.qdisc_enqueue)
    if q.flags & TCQ_F_NOLOCK != 0:
        return _xmit_nolock(net, cpu, dev, txq, q, skb)
    return _xmit_locked(net, cpu, dev, txq, q, skb)


@kernel
def _xmit_noqueue(net, cpu, dev, txq, skb):
    """No queue: the driver takes it now or it is gone."""
    if not netif_xmit_stopped(txq) and veth_xmit(net, cpu, dev, txq, skb) == NETDEV_TX_OK:
        return NET_XMIT_SUCCESS
    # "Virtual device asks to queue packet!": a stop bit left over from an earlier qdisc.
    cpu.dev[dev.ifindex].tx_dropped += 1
    kfree_skb(net, cpu, skb, DEV_READY)
    return -ENETDOWN


@kernel
def _xmit_locked(net, cpu, dev, txq, q, skb):
    """Add to defer_list; whoever adds the first packet takes the lock and the whole list."""
    first = READ_ONCE(q, "defer_head")
    counted = False
    while True:
        if first != 0 and not counted:
            counted = True
            if atomic_add_return(q, "defer_count", 1) > QDISC_MAX_BURST:
                kfree_skb(net, cpu, skb, QDISC_BURST_DROP)
                return NET_XMIT_DROP
        net.skbs[skb].next = first
        found = cmpxchg_unless_alone(cpu, q, "defer_head", first, skb)
        if found == first:
            break
        first = found
    if first != 0:
        return NET_XMIT_SUCCESS

    spin_lock(net, cpu, q.root_lock)
    pending = _reverse(net, xchg_unless_alone(cpu, q, "defer_head", 0))
    WRITE_ONCE(q, "defer_count", 0)
    if test_bit(q, "state", QDISC_STATE_DEACTIVATED):
        while pending != 0:
            following = net.skbs[pending].next
            cpu.dev[dev.ifindex].tx_dropped += 1
            kfree_skb(net, cpu, pending, QUEUE_PURGE)
            pending = following
        spin_unlock(q.root_lock)
        return NET_XMIT_DROP

    alone = net.skbs[pending].next == 0
    if alone and q.qlen == 0 and q.flags & TCQ_F_CAN_BYPASS != 0 and _run_begin_locked(cpu, txq.qdisc, q):
        q.enqueued += 1
        qdisc_bstats_update(net, q, pending)
        spin_unlock(q.root_lock)
        sch_direct_xmit(net, cpu, dev, q, txq, pending, 0)
        return NET_XMIT_SUCCESS

    result = NET_XMIT_SUCCESS
    while pending != 0:
        following = net.skbs[pending].next
        net.skbs[pending].next = 0
        result = qdisc_enqueue(net, cpu, q, pending)
        pending = following
    _qdisc_run_locked(net, cpu, dev, q, txq.qdisc)
    return result if alone else NET_XMIT_SUCCESS


@kernel
def _reverse(net, skb):
    """Turn a last-in-first-out list round; its new head."""
    head = 0
    while skb != 0:
        following = int(net.skbs[skb].next)
        net.skbs[skb].next = head
        head = skb
        skb = following
    return head


@kernel
def _run_begin_locked(cpu, index, q):
    """Become the runner unless someone is. Needs root_lock."""
    if q.running != 0:
        return False
    q.running = 1
    cpu.run_q = index + 1
    cpu.run_quota = DEV_TX_WEIGHT
    return True


@kernel
def _xmit_nolock(net, cpu, dev, txq, q, skb):
    """A qdisc without a lock: enqueue first, then run it, or mark it MISSED for whoever is running it."""
    if q.flags & TCQ_F_CAN_BYPASS != 0 and _nolock_is_empty(q) and _run_begin_nolock(cpu, txq.qdisc, q):
        if _nolock_is_empty(q):
            atomic_add_return(q, "enqueued", 1)
            qdisc_bstats_update(net, q, skb)
            sch_direct_xmit(net, cpu, dev, q, txq, skb, 0)
            return NET_XMIT_SUCCESS
        return qdisc_enqueue(net, cpu, q, skb)  # the run that we began takes it
    result = qdisc_enqueue(net, cpu, q, skb)
    _run_begin_nolock(cpu, txq.qdisc, q)
    return result


@kernel
def _nolock_is_empty(q):
    """Whether a NOLOCK qdisc certainly holds nothing (``nolock_qdisc_is_empty``)."""
    mask = (1 << QDISC_STATE_MISSED) | (1 << QDISC_STATE_DRAINING)
    return READ_ONCE(q, "state") & mask == 0 and READ_ONCE(q, "qlen") == 0


@kernel
def _run_begin_nolock(cpu, index, q):
    """Become the runner, or leave MISSED set so that the present runner goes round again (``qdisc_run_begin``)."""
    if not spin_trylock(cpu, q.seqlock):
        if test_and_set_bit(q, "state", QDISC_STATE_MISSED):
            return False
        # The runner may have released the lock before it could see MISSED: try once more.
        if not spin_trylock(cpu, q.seqlock):
            return False
    cpu.run_q = index + 1
    cpu.run_quota = DEV_TX_WEIGHT
    return True


@kernel
def _run_end(net, cpu, q):
    """Stop running. Locked qdiscs: needs root_lock. NOLOCK: a run that was missed meanwhile is scheduled."""
    index = cpu.run_q - 1
    cpu.run_q = 0
    if q.flags & TCQ_F_NOLOCK == 0:
        q.running = 0
        return
    spin_unlock(q.seqlock)
    smp_mb()  # S1, pairs with the full barrier of test_and_set_bit(MISSED) in _run_begin_nolock()
    if test_bit(q, "state", QDISC_STATE_MISSED):
        netif_schedule(net, cpu, index)


@kernel
def qdisc_run_step(net, cpu):
    """One step of this CPU's qdisc run: one packet, or one bulk, to the driver (``qdisc_restart``)."""
    q = net.qdiscs[cpu.run_q - 1]
    dev = net.devs[q.dev]
    if q.flags & TCQ_F_NOLOCK == 0:
        spin_lock(net, cpu, q.root_lock)
        _qdisc_restart_locked(net, cpu, dev, q)
        return
    skb = dequeue_skb(net, cpu, dev, q)
    if skb == 0:
        _run_end(net, cpu, q)
    else:
        _transmit(net, cpu, dev, q, skb)


@kernel
def _qdisc_run_locked(net, cpu, dev, q, index):
    """Begin a run and take its first step in the same hold of root_lock, which is released (``qdisc_run``).

    So another CPU that has the lock finds a runner only while packets are on their way to the driver.
    """
    if _run_begin_locked(cpu, index, q):
        _qdisc_restart_locked(net, cpu, dev, q)
    else:
        spin_unlock(q.root_lock)


@kernel
def _qdisc_restart_locked(net, cpu, dev, q):
    """Dequeue under root_lock, release it, transmit; without a packet the run ends."""
    skb = dequeue_skb(net, cpu, dev, q)
    if skb == 0:
        _run_end(net, cpu, q)
        spin_unlock(q.root_lock)
    else:
        spin_unlock(q.root_lock)
        _transmit(net, cpu, dev, q, skb)


@kernel
def _transmit(net, cpu, dev, q, skb):
    """Pay for the dequeue of a list and give it to the driver."""
    count = cpu.bulk
    charge(cpu, cpu.costs.qdisc_dequeue * count)
    sch_direct_xmit(net, cpu, dev, q, dev.txq[net.skbs[skb].queue_mapping], skb, count)


@kernel
def sch_direct_xmit(net, cpu, dev, q, txq, skb, count):
    """Give a list of packets to the driver; what it does not take goes back and the run ends.

    ``count``: packets that the run's quota pays for, 0 for one that bypassed the queue. Takes no lock for the driver
    (veth is lltx). Root lock and driver are never held together.
    """
    left = skb
    if not netif_xmit_frozen_or_stopped(txq):
        left = dev_hard_start_xmit(net, cpu, dev, txq, skb)
    nolock = q.flags & TCQ_F_NOLOCK != 0
    if left != 0:
        spin_lock(net, cpu, q.root_lock)
        dev_requeue_skb(net, cpu, q, left, nolock)
        if not nolock:
            _run_end(net, cpu, q)
        spin_unlock(q.root_lock)
        if nolock:
            _run_end(net, cpu, q)
        return
    cpu.run_quota -= count
    if cpu.run_quota <= 0:
        cpu.stats.time_squeeze += 1
        if nolock:
            set_bit(q, "state", QDISC_STATE_MISSED)
            _run_end(net, cpu, q)
        else:
            netif_schedule(net, cpu, cpu.run_q - 1)
            spin_lock(net, cpu, q.root_lock)
            _run_end(net, cpu, q)
            spin_unlock(q.root_lock)


@kernel
def dev_hard_start_xmit(net, cpu, dev, txq, skb):
    """Send a list, packet by packet; the first packet that was not taken, with the rest behind it, or 0.

    Between packets only the driver's stop bit counts: STACK_XOFF does not end a list half-way.
    """
    while skb != 0:
        following = int(net.skbs[skb].next)
        net.skbs[skb].next = 0
        if veth_xmit(net, cpu, dev, txq, skb) != NETDEV_TX_OK:
            net.skbs[skb].next = following
            return skb
        skb = following
        if skb != 0 and netif_tx_queue_stopped(txq):
            return skb
    return 0


@kernel
def softirq_pending(cpu):
    """Whether NET_TX has something to do on this CPU."""
    return cpu.run_q != 0 or cpu.net_tx_list != 0 or cpu.output_queue != 0


@kernel
def net_tx_action_step(net, cpu):
    """One step of the NET_TX softirq: go on with the qdisc run in progress, or begin the next scheduled one."""
    if cpu.run_q != 0:
        qdisc_run_step(net, cpu)
        return
    if cpu.net_tx_list == 0:
        cpu.stats.net_tx_action += 1
        cpu.net_tx_list = cpu.output_queue
        cpu.output_queue = 0
        cpu.output_queue_tail = 0
    index = cpu.net_tx_list - 1
    q = net.qdiscs[index]
    cpu.net_tx_list = q.next_sched
    nolock = q.flags & TCQ_F_NOLOCK != 0
    if not nolock:
        spin_lock(net, cpu, q.root_lock)
    smp_mb_before_atomic()  # S3, next_sched is read before another CPU links q; pairs with its test_and_set_bit(SCHED)
    clear_bit(q, "state", QDISC_STATE_SCHED)
    deactivated = test_bit(q, "state", QDISC_STATE_DEACTIVATED)
    if nolock:
        if not deactivated:
            _run_begin_nolock(cpu, index, q)
    elif deactivated:
        spin_unlock(q.root_lock)
    else:
        _qdisc_run_locked(net, cpu, net.devs[q.dev], q, index)
