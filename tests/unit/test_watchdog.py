"""dev_watchdog: when it barks, when it must not, and what a bark mends."""

import pytest
from network import MS, US, Network, S

from emulator.kernel.clock import jiffies
from emulator.kernel.memory import FAULT_DQL_BUG, KernelFault
from emulator.kernel.netdev import DRV_XOFF, STACK_XOFF, netdev_tx_completed_queue
from emulator.kernel.watchdog import dev_watchdog

NAPI = "napi/veth1-0"
TIMEOUT_NS = 2 * S


def network(variant="v7", **more):
    return Network(
        device={"bql": {"variant": variant, "tx_usecs": "100us"}, "num_tx_queues": 1, "ring_size": 32} | more,
        flood={"rate": "10kpps"},
        watchdog={"timeout": "2s"},
    )


def barks(net, index=0):
    return net.sender.txq[index].trans_timeout


def stop_consumer(net):
    """The NAPI thread stops between two polls, and what is sent then stops the queue."""
    while net.rq.phase or net.rq.napi.state:
        net.step(NAPI)
    net.stop(NAPI)


@pytest.mark.parametrize("offset_ms", [0, 1, 250, 499, 500, 999])
@pytest.mark.parametrize("variant", ["v5", "v6", "v7"])
def test_detection_falls_into_the_second_after_the_timeout(variant, offset_ms):
    net = network(variant)
    net.run(S + offset_ms * MS, idle_ns=100 * US)
    stop_consumer(net)
    while not net.txq.state:
        net.run(MS, idle_ns=100 * US)
    stopped = net.txq.trans_start
    assert 0 <= net.cpu("flood0").now_ns // MS - stopped <= 1
    while not barks(net):
        net.run(MS, idle_ns=100 * US)
        assert net.cpu("watchdog").now_ns // MS <= stopped + TIMEOUT_NS // MS + S // MS + 1
    assert net.cpu("watchdog").now_ns // MS > stopped + TIMEOUT_NS // MS
    net.check()


def test_a_queue_that_moves_is_left_alone():
    net = network()
    net.run(8 * S, idle_ns=100 * US)
    assert (barks(net), net.view.flows[0].received) == (0, 80_000)
    assert net.txq.stack_xoff > 0
    net.check()


def test_stock_has_no_watchdog():
    net = network("off")
    net.stop(NAPI)
    net.run(8 * S, idle_ns=MS)
    assert (net.txq.state, barks(net)) == (DRV_XOFF, 0)


def test_device_that_is_down_is_not_watched():
    net = network()
    net.txq.state, net.txq.trans_start = STACK_XOFF, 1
    net.sender.flags = 0
    cpu = net.raw_cpu("watchdog")
    assert dev_watchdog(net.raw, cpu, net.raw["devs"][0]) == jiffies(cpu) + 2000
    net.sender.flags, net.sender.present = 1, 0
    dev_watchdog(net.raw, cpu, net.raw["devs"][0])
    assert barks(net) == 0
    net.sender.present = 1
    assert dev_watchdog(net.raw, cpu, net.raw["devs"][0]) < 0
    assert barks(net) == 1


def test_queue_beyond_the_real_number_is_watched_too_and_one_bark_is_enough():
    net = network(num_tx_queues=4)
    for i in (2, 3):
        net.sender.txq[i].state, net.sender.txq[i].trans_start = STACK_XOFF, 1
    cpu = net.raw_cpu("watchdog")
    dev_watchdog(net.raw, cpu, net.raw["devs"][0])
    assert [barks(net, i) for i in range(4)] == [0, 0, 1, 0]
    assert [txq.state for txq in net.sender.txq][:4] == [0, 0, 0, STACK_XOFF]  # none frozen any more
    dev_watchdog(net.raw, cpu, net.raw["devs"][0])
    assert [barks(net, i) for i in range(4)] == [0, 0, 1, 1]


def test_the_timer_follows_the_oldest_stop():
    net = network(num_tx_queues=4)
    now = net.cpu("watchdog").now_ns // MS
    for i, age in ((0, 100), (1, 1700), (2, 900)):
        net.sender.txq[i].state, net.sender.txq[i].trans_start = DRV_XOFF, now - age
    again = dev_watchdog(net.raw, net.raw_cpu("watchdog"), net.raw["devs"][0])
    assert again == -(-(now - 1700 + 2000) // 1000) * 1000
    assert barks(net) == 0


def test_lost_kick_stops_the_queue_and_one_bark_mends_it():
    """Case: the NAPI is never told. After the bark one packet goes out, and that one kicks."""
    net = network()
    net.run(100 * MS, idle_ns=100 * US)
    while net.rq.phase or net.rq.napi.state:
        net.step(NAPI)
    net.rq.rx_notify_masked = 1  # nobody will kick
    net.run(50 * MS, idle_ns=100 * US)
    assert net.txq.state & STACK_XOFF or net.qdisc.qlen
    assert (net.rq.napi.state, net.ring() != []) == (0, True)
    received = net.view.flows[0].received
    net.run(S, idle_ns=100 * US)
    assert net.view.flows[0].received == received  # for ever, without a watchdog
    net.rq.rx_notify_masked = 0
    net.run(4 * S, idle_ns=100 * US)
    assert barks(net) == 1
    net.stop("flood0")
    net.settle()
    assert net.view.flows[0].received == net.view.flows[0].sent - net.qdisc.drops
    assert (net.txq.state & STACK_XOFF, net.qdisc.qlen) == (0, 0)
    net.check()


def test_leaked_charges_let_one_packet_through_for_each_bark():
    """Charges that nobody will complete: the watchdog cannot mend that, only nudge it along."""
    net = network()
    net.run(200 * MS, idle_ns=100 * US)
    net.txq.dql.num_queued += 1000
    net.run(100 * MS, idle_ns=100 * US)
    assert net.txq.state == STACK_XOFF
    for bark in range(1, 5):
        received = net.view.flows[0].received
        while barks(net) < bark:
            assert net.view.flows[0].received == received
            net.run(5 * MS, idle_ns=100 * US)
        net.run(100 * MS, idle_ns=100 * US)
        assert net.view.flows[0].received == received + 1
        assert net.txq.state == STACK_XOFF
    assert net.view.fault.code == 0


def test_completing_more_than_is_in_flight_is_the_kernels_bug():
    net = network()
    net.send(1)
    with pytest.raises(KernelFault):
        netdev_tx_completed_queue(net.raw, net.raw_cpu(NAPI), net.raw["devs"][0]["txq"][0], 7)
    fault = net.view.fault
    assert (fault.code, fault.cpu) == (FAULT_DQL_BUG, net.names[NAPI])
    assert [fault.args[i] for i in range(5)] == [0, 0, 7, 1, 0]


def test_entry_completed_twice_is_the_kernels_bug_too():
    net = network("v5")
    net.send(1)
    net.rq.n_bql = 1  # another path has counted the same entry
    with pytest.raises(KernelFault):
        net.receive()
    assert net.view.fault.code == FAULT_DQL_BUG
