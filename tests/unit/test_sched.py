"""From dev_queue_xmit to the driver, step by step: requeues, bulks, quotas, and who runs the qdisc."""

import pytest
from network import Network, S

from emulator.kernel.memory import FAULT_LOCK_OWNER_DIED, KernelFault
from emulator.kernel.netdev import DRV_XOFF, STACK_XOFF
from emulator.kernel.qdisc.base import NET_XMIT_DROP, NET_XMIT_SUCCESS
from emulator.kernel.sched import ENETDOWN, dev_queue_xmit
from emulator.kernel.skb import alloc_skb
from emulator.runtime import walk

SCHED, DEACTIVATED, MISSED, DRAINING = 1, 2, 4, 8  # qdisc.state
NAPI = "napi/veth1-0"


def network(
    kind="fq_codel", *, ring=256, queues=1, real=1, flows=1, bql="off", txqueuelen="1000p", threads=1, **options
):
    bql = {"variant": bql} if isinstance(bql, str) else bql
    return Network(
        device={
            "ring_size": ring,
            "num_tx_queues": queues,
            "real_num_tx_queues": real,
            "txqueuelen": txqueuelen,
            "bql": bql,
            "qdisc": {"kind": kind} | options,
        },
        flood={"flows": flows, "threads": threads},
    )


def xmit(net, count=1, flow=0):
    """dev_queue_xmit alone: what it returned, and no step of the run that it may have begun."""
    results = []
    cpu = net.raw_cpu("flood0")
    for _ in range(count):
        skb = alloc_skb(net.raw, cpu)
        packet, record = net.view.skbs[skb], net.view.flows[flow]
        record.sent += 1
        packet.flow, packet.seq, packet.hash, packet.len = flow, record.sent, record.hash, 64
        packet.kind = packet.priority = 0
        packet.check = (record.sent * 31 ^ flow) & 0x7F
        results.append(dev_queue_xmit(net.raw, cpu, net.raw["devs"][0], skb))
    return results[0] if count == 1 else results


def queue_without_running(net, count, **flow):
    """Packets in the qdisc, and a run about to begin."""
    net.qdisc.running = 1
    xmit(net, count, **flow)
    net.cpu("flood0").run_q, net.cpu("flood0").run_quota = 1, 64


def held(net):
    """The numbers of the requeued packets, in order."""
    return net.seqs(walk.list_skbs(net.view, net.qdisc.gso_skb.head))


@pytest.mark.parametrize("kind", ["fq_codel", "sfq", "pfifo", "codel", "pfifo_fast"])
def test_full_ring_requeues_one_packet_with_one_queue(kind):
    net = network(kind, ring=4)
    net.send(10)
    assert net.seqs(net.ring()) == [1, 2, 3, 4]
    assert (net.txq.state, net.txq.drv_xoff) == (DRV_XOFF, 1)
    assert (net.qdisc.requeues, held(net), net.qdisc.qlen, net.qdisc.running) == (1, [5], 6, 0)
    net.check()
    net.receive()  # the packet that was woken for is sent from this CPU's softirq, and so are the rest
    net.receive()
    net.check()
    assert (net.qdisc.qlen, net.txq.state, net.view.flows[0].received) == (0, 0, 10)
    assert net.qdisc.requeues == 2


def test_nothing_else_is_dequeued_while_packets_are_held():
    net = network(queues=2, ring=4)
    net.send(5)
    assert (net.txq.state, held(net)) == (DRV_XOFF, [5])
    net.send(20)
    assert (held(net), net.qdisc.requeues, net.qdisc.qlen) == ([5], 1, 21)
    net.check()


def test_without_onetxqueue_nine_are_taken_for_a_queue_that_is_stopped():
    net = network(queues=2)
    net.txq.state = DRV_XOFF
    queue_without_running(net, 20)
    net.finish()
    assert (held(net), net.qdisc.requeues, net.qdisc.qlen) == (list(range(1, 10)), 9, 20)
    net.check()


def test_slow_bulk_takes_eight_more_whatever_bql_says():
    net = network(queues=6, bql={"variant": "v7", "limit_min": "0p"})
    assert [xmit(net) for _ in range(2)] == [NET_XMIT_SUCCESS] * 2  # 1 bypasses: over limit 0 at once. 2 waits
    assert (net.inflight(), net.txq.state) == (1, STACK_XOFF)
    xmit(net, 18)
    net.finish()
    assert (net.inflight(), net.qdisc.requeues, held(net)) == (1, 9, list(range(2, 11)))
    assert (net.qdisc.held, net.qdisc.qlen) == (9, 19)
    net.txq.state = 0
    net.step("flood0")  # enqueues one, runs: requeued packets go one at a time
    net.step("flood0")
    assert (net.inflight(), net.txq.state, held(net)) == (2, STACK_XOFF, list(range(3, 11)))
    net.check()


def test_stack_xoff_does_not_end_a_train_but_drv_xoff_does():
    net = network(queues=6, ring=5, bql="v7")
    queue_without_running(net, 12)
    assert net.step("flood0") == 1
    assert (net.inflight(), net.txq.state, net.txq.stack_xoff) == (5, STACK_XOFF | DRV_XOFF, 1)
    assert (held(net), net.qdisc.requeues, net.qdisc.qlen) == ([6, 7, 8, 9], 4, 7)
    net.finish()
    net.check()


def test_onetxqueue_leaves_the_qdisc_of_a_stopped_queue_alone():
    net = network(bql="v7")
    queue_without_running(net, 30)
    net.finish()  # the first is charged over the limit of 0
    assert (net.txq.state, net.inflight(), net.qdisc.running) == (STACK_XOFF, 1, 0)
    assert (net.qdisc.requeues, net.qdisc.held, net.qdisc.qlen, net.qdisc.bstats_packets) == (0, 0, 29, 1)
    net.send(10)
    assert (net.qdisc.requeues, net.qdisc.held, net.qdisc.qlen, net.qdisc.bstats_packets) == (0, 0, 39, 1)
    net.check()


@pytest.mark.parametrize(("limit_min", "bulk"), [("0p", 1), ("65p", 2), ("1000p", 16), ("1000000000p", 64)])
def test_bulk_within_bql_takes_bytes_from_packets(limit_min, bulk):
    """A 64-byte packet uses up 64 packets' worth of room: only a huge limit_min bulks, up to the quota."""
    net = network("pfifo", bql={"variant": "v7", "limit_min": limit_min})
    net.send(1)
    net.receive()  # the limit acts at the first completion
    assert (net.inflight(), net.qdisc.qlen) == (0, 0)
    queue_without_running(net, 100)
    before = net.cpu("flood0").dev[0].tx_packets
    net.step("flood0")
    assert net.cpu("flood0").dev[0].tx_packets - before == bulk
    assert net.cpu("flood0").stats.time_squeeze == (1 if bulk == 64 else 0)
    net.finish()
    net.check()


def test_stock_never_bulks_with_one_queue():
    net = network("pfifo")
    queue_without_running(net, 100)
    stats = net.cpu("flood0").dev[0]
    for _ in range(300):
        before = stats.tx_packets
        net.step("flood0")
        assert stats.tx_packets - before in (0, 1)
    assert stats.tx_packets >= 100
    net.check()


def test_quota_of_64_then_a_new_run_from_the_softirq():
    net = network("pfifo")
    net.txq.state = DRV_XOFF
    xmit(net, 200)
    net.finish()
    net.txq.state = 0
    cpu = net.cpu("flood0")
    xmit(net)
    moved = []
    while cpu.run_q or cpu.output_queue:
        if cpu.run_q == 0:
            moved.append(cpu.dev[0].tx_packets)
        net.step("flood0")
    assert (moved, cpu.stats.time_squeeze, cpu.stats.net_tx_action) == ([64, 128, 192], 3, 4)
    assert net.qdisc.qlen == 0


def test_packet_that_bypasses_costs_no_quota():
    net = network("fq_codel")
    xmit(net)
    assert (net.cpu("flood0").run_q, net.cpu("flood0").run_quota) == (1, 64)
    assert (net.qdisc.bstats_packets, net.qdisc.enqueued, net.qdisc.qlen) == (1, 1, 0)
    net.finish()
    net.check()


def test_kick_is_unconditional_when_the_ring_is_full():
    net = network(ring=4)
    net.send(4)
    net.receive()
    assert net.rq.rx_notify_masked == 0
    for _ in range(4):
        net.send(1)
    net.rq.rx_notify_masked = net.rq.napi.state = 0  # as if every kick so far had been lost
    net.send(1)
    assert (net.txq.state, net.rq.rx_notify_masked) == (DRV_XOFF, 1)
    assert net.receive() > 0
    assert net.view.flows[0].received >= 8


def test_noqueue_drops_at_a_full_ring():
    net = network("noqueue", ring=4, bql="v7")
    assert xmit(net, 6) == [NET_XMIT_SUCCESS] * 6
    assert (net.drops("FULL_RING"), net.txq.state, net.inflight()) == (2, 0, 0)
    assert net.cpu("flood0").dev[0].tx_dropped == 2
    net.check()


@pytest.mark.parametrize("bit", [DRV_XOFF, STACK_XOFF])
def test_noqueue_below_a_stop_bit_left_over_is_a_network_down(bit):
    net = network("noqueue")
    net.txq.state = bit
    assert xmit(net) == -ENETDOWN
    assert (net.drops("DEV_READY"), net.cpu("flood0").dev[0].tx_dropped) == (1, 1)
    net.check()


def test_pfifo_of_a_device_without_txqueuelen_drops_all():
    net = network("pfifo", txqueuelen="0p")
    assert net.qdisc.limit == 0
    assert xmit(net, 3) == [NET_XMIT_DROP] * 3
    assert (net.qdisc.drops, net.drops("QDISC_DROP")) == (3, 3)
    net.check()


def test_head_drop_finds_nothing_to_drop_when_all_is_held():
    net = network("pfifo_head_drop", queues=2, limit="3p")
    net.txq.state = DRV_XOFF
    queue_without_running(net, 3)
    net.finish()
    assert (held(net), net.qdisc.q.qlen) == ([1, 2, 3], 0)
    net.send(1)
    assert (net.qdisc.qlen, net.qdisc.drops, net.qdisc.head_drops) == (4, 0, 0)
    net.send(1)
    assert (net.qdisc.qlen, net.qdisc.drops, net.qdisc.head_drops) == (4, 1, 1)
    assert held(net) == [1, 2, 3]
    net.check()


def test_defer_list_is_worked_off_by_whoever_was_first_and_is_limited():
    net = network()
    stuck = alloc_skb(net.raw, net.raw_cpu("flood0"))
    net.view.skbs[stuck].next = 0
    net.qdisc.defer_head = stuck  # a CPU that was interrupted between adding and locking
    assert xmit(net, 1001) == [NET_XMIT_SUCCESS] * 1000 + [NET_XMIT_DROP]
    assert (net.qdisc.defer_count, net.drops("QDISC_BURST_DROP"), net.qdisc.qlen) == (1001, 1, 0)
    assert len(walk.list_skbs(net.view, net.qdisc.defer_head)) == 1001
    head, net.qdisc.defer_head = net.qdisc.defer_head, 0
    first = walk.list_skbs(net.view, head)[-2]
    assert net.view.skbs[first].seq == 1  # last in, first in the list
    net.qdisc.defer_head = head
    from emulator.kernel.netdev import netif_schedule

    netif_schedule(net.raw, net.raw_cpu("flood0"), 0)
    assert net.qdisc.state == 0  # whoever put the first packet there is about to run it


def test_deactivated_qdisc_frees_what_comes():
    net = network()
    net.qdisc.state = DEACTIVATED
    assert xmit(net) == NET_XMIT_DROP
    assert (net.drops("QUEUE_PURGE"), net.cpu("flood0").dev[0].tx_dropped, net.qdisc.enqueued) == (1, 1, 0)
    net.check()


def test_only_one_runs_a_qdisc():
    net = network(ring=100, threads=2)
    queue_without_running(net, 30)  # flood0 is about to run it
    assert net.step("flood1") == 1
    assert (net.cpu("flood1").run_q, net.cpu("flood1").dev[0].tx_packets, net.qdisc.qlen) == (0, 0, 31)
    net.finish("flood0")
    assert (net.cpu("flood0").dev[0].tx_packets, net.qdisc.qlen, net.qdisc.running) == (31, 0, 0)
    net.check()


def test_who_wakes_a_queue_runs_its_qdisc():
    net = network(ring=4)
    net.send(6)
    assert net.cpu(NAPI).stats.net_tx_action == 0
    net.receive()
    assert net.cpu(NAPI).stats.net_tx_action >= 1
    assert net.cpu(NAPI).dev[0].tx_packets == 2  # what was left over, sent from the CPU that woke the queue
    net.check()


@pytest.mark.parametrize("real", [2, 3, 4])
def test_packet_for_another_queue_waits_in_bad_txq(real):
    net = network("pfifo", queues=4, real=real, flows=8)
    for txq in net.sender.txq:
        txq.state = DRV_XOFF
    net.send(40)
    for txq in net.sender.txq:
        txq.state = 0
    most = 0
    net.step("flood0")
    while net.cpu("flood0").run_q or net.cpu("flood0").output_queue:
        net.step("flood0")
        most = max(most, net.qdisc.bad_txq.qlen)
        net.check()
    assert (most, net.qdisc.qlen, net.qdisc.bad_txq.qlen) == (1, 0, 0)
    per_queue = [len(net.ring(net.receiver.rq[i])) for i in range(4)]
    assert sum(per_queue) == 41
    assert sum(map(bool, per_queue)) == real
    assert per_queue[real:] == [0] * (4 - real)


def test_bad_txq_waits_for_its_own_queue_alone():
    net = network("pfifo", queues=2, real=2, flows=8)
    mapping = [(net.view.flows[i].hash & 0xFFFFFFFF) % 2 for i in range(8)]
    here, there = mapping.index(0), mapping.index(1)
    net.txq.state = net.sender.txq[1].state = DRV_XOFF
    for flow in (here, here, there, here):
        xmit(net, flow=flow)
        net.finish()
    net.txq.state = 0  # queue 1 stays stopped
    net.cpu("flood0").run_q, net.cpu("flood0").run_quota, net.qdisc.running = 1, 64, 1
    net.finish()
    assert len(net.ring()) == 2
    assert net.qdisc.bad_txq.qlen == 1
    assert net.qdisc.qlen == 2  # the third packet of queue 0 waits behind it
    net.check()


@pytest.mark.parametrize("queues", [1, 2])
@pytest.mark.parametrize("bit", [DRV_XOFF, STACK_XOFF])
def test_nolock_run_below_a_stopped_queue_is_not_scheduled_for_ever(bit, queues):
    net = network("pfifo_fast", threads=2, bql="v7", queues=queues)
    net.step("flood0")  # bypasses; the run is not over
    net.step("flood1")  # enqueues and leaves MISSED
    net.txq.state = bit
    net.finish("flood0")
    assert (net.qdisc.seqlock.owner, net.qdisc.qlen) == (0, 1)
    assert net.qdisc.state == DRAINING
    net.txq.state = 0
    net.send(1)
    assert (net.qdisc.state, net.qdisc.qlen, net.inflight() + net.qdisc.qlen) == (
        0,
        0,
        3,
    ) or net.txq.state == STACK_XOFF
    net.check()


def test_nolock_enqueuer_that_finds_a_runner_leaves_missed():
    net = network("pfifo_fast", threads=2)
    net.step("flood0")  # bypasses, its run goes on
    assert net.qdisc.seqlock.owner == net.names["flood0"] + 1
    net.step("flood1")
    assert (net.qdisc.qlen, net.qdisc.state & MISSED, net.cpu("flood1").run_q) == (1, MISSED, 0)
    net.finish("flood0")  # goes round again for what it missed
    assert (net.qdisc.qlen, net.qdisc.state, net.qdisc.seqlock.owner, len(net.ring())) == (0, 0, 0, 2)
    net.check()


def test_requeued_packets_that_are_refused_again_stay_in_front():
    net = network(queues=6, ring=1)
    queue_without_running(net, 12)
    net.finish()
    assert (net.seqs(net.ring()), held(net)) == ([1], list(range(2, 10)))
    for first in range(2, 8):
        assert net.step(NAPI) == 1
        while net.txq.state or net.cpu(NAPI).run_q or net.cpu(NAPI).output_queue or net.cpu(NAPI).net_tx_list:
            net.step(NAPI)
            if held(net)[:1] == [first + 1] and net.cpu(NAPI).run_q == 0 and net.cpu(NAPI).output_queue == 0:
                break
        assert held(net) == list(range(held(net)[0], 10))
    net.settle()
    assert (net.view.flows[0].received, net.view.flows[0].reordered) == (12, 0)
    net.check()


def test_lock_of_a_dead_owner_is_reported_and_not_waited_for():
    net = network(threads=2)
    dead = net.names["flood1"]
    net.qdisc.root_lock.owner = dead + 1
    net.view.cpus[dead].online = 0
    with pytest.raises(KernelFault):
        net.step("flood0")
    assert (net.view.fault.code, net.view.fault.cpu, net.view.fault.args[0]) == (FAULT_LOCK_OWNER_DIED, 0, dead)
    assert net.cpu("flood0").stats.lock_yielded == 1


def test_the_first_fault_is_kept():
    net = network(threads=2)
    for owner in (net.names["flood1"], net.names["watchdog"]):
        net.qdisc.root_lock.owner = owner + 1
        net.view.cpus[owner].online = 0
        with pytest.raises(KernelFault):
            net.step("flood0")
        net.qdisc.defer_head = 0
    assert net.view.fault.args[0] == net.names["flood1"]


def test_empty_pool_is_counted_and_recovers():
    net = network("pfifo", limit="100000p")
    net.view.pool.depot_count = 0
    assert net.step("flood0") == 0
    assert net.view.flows[0].nomem == 1
    net.view.pool.depot_count = 65535
    net.send(3)
    net.run(S // 1000)
    net.check()
