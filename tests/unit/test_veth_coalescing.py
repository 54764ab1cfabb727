"""When a completion is due: windows across polls, clocks that are behind, links that go idle."""

import pytest
from network import MS, US, Network

from emulator.kernel.netdev import STACK_XOFF

NAPI = "napi/veth1-0"
WINDOW = 100 * US


def network(variant, *, tx_usecs="100us", limit_min="0p", batch=8):
    net = Network(
        device={
            "bql": {"variant": variant, "tx_usecs": tx_usecs, "limit_min": limit_min},
            "num_tx_queues": 1,
            "qdisc": {"kind": "pfifo"},
        },
        napi={"gro_normal_batch": f"{batch}p"},
    )
    net.stop("watchdog")
    net.cpu(NAPI).now_ns += WINDOW  # any window that began before now is over
    net.send(1)
    net.receive()  # the first completion: limits act, and a window begins
    assert (net.inflight(), net.rq.n_bql) == (0, 0)
    assert variant == "v5" or net.rq.bql_time_ns == net.cpu(NAPI).now_ns
    return net


def completions(net, count):
    """How many were completed at each step of a poll of ``count`` packets that completed any."""
    net.send(count)
    found = []
    done = net.txq.dql.num_completed
    while net.step(NAPI):
        if net.txq.dql.num_completed != done:
            found.append(net.txq.dql.num_completed - done)
            done = net.txq.dql.num_completed
    net.check()
    return found


@pytest.mark.parametrize("variant", ["v6", "v7"])
def test_pending_charges_on_an_idle_link_are_no_error(variant):
    net = network(variant, tx_usecs="1000us", limit_min="10p")
    assert completions(net, 5) == []
    assert (net.inflight(), net.rq.n_bql, net.txq.state, net.rq.napi.state) == (5, 5, 0, 0)
    net.cpu(NAPI).now_ns += 10 * MS  # idle: nothing changes
    assert net.step(NAPI) == 0
    assert net.inflight() == 5
    assert completions(net, 1) == [5]  # the next poll's start finds the window over
    assert (net.inflight(), net.rq.n_bql, net.txq.stack_xoff) == (1, 1, 1)


@pytest.mark.parametrize("variant", ["v6", "v7"])
def test_window_and_count_survive_polls(variant):
    net = network(variant, limit_min="100p")
    began = net.rq.bql_time_ns
    assert completions(net, 3) == []
    net.cpu(NAPI).now_ns = began + WINDOW - 1
    assert completions(net, 2) == []
    assert (net.rq.bql_time_ns, net.rq.n_bql) == (began, 5)
    net.cpu(NAPI).now_ns = began + WINDOW
    assert completions(net, 1) == [5]
    assert (net.rq.bql_time_ns, net.rq.n_bql) == (began + WINDOW, 1)


def test_v6_completes_before_the_processing_and_v7_after_it():
    """The window ends while a packet waits: v6 completes it when it is taken, v7 when it has been delivered."""
    net = network("v6", limit_min="100p")
    net.send(1)
    net.step(NAPI)
    net.cpu(NAPI).now_ns += WINDOW
    assert net.step(NAPI) == 1
    assert (net.inflight(), net.rq.in_hand, len(net.ring())) == (0, 0, 0)
    net = network("v7", limit_min="100p", batch=1)
    net.send(1)
    net.step(NAPI)
    net.cpu(NAPI).now_ns += WINDOW
    net.step(NAPI)
    assert (net.inflight(), net.rq.in_hand) == (1, 1)  # taken, its flush has begun
    net.check()
    net.step(NAPI, 3)  # paid for, delivered, completed
    assert (net.inflight(), net.rq.in_hand, net.view.flows[0].received) == (0, 0, 2)


@pytest.mark.parametrize(("count", "found"), [(4, []), (5, [5]), (9, [5])])
def test_v7_flushes_when_strictly_more_than_the_limit_is_pending(count, found):
    net = network("v7", limit_min="4p")
    assert completions(net, min(count, 5)) == found
    if count > 5:
        assert completions(net, count - 5) == []
        assert net.rq.n_bql == count - 5
    assert net.txq.state == 0


def test_v6_flushes_at_the_end_of_a_poll_if_the_stack_is_stopped():
    net = network("v6", limit_min="4p")
    assert completions(net, 4) == []
    assert net.txq.state == 0
    assert completions(net, 1) == [5]  # the fifth went over the limit
    assert (net.txq.state, net.txq.stack_xoff, net.txq.stack_wake) == (0, 2, 2)


def test_v6_does_not_flush_at_the_end_of_a_poll_for_the_drivers_stop():
    net = network("v6", limit_min="4p")
    net.send(3)
    net.txq.state = 1
    assert completions(net, 0) == []
    assert (net.rq.n_bql, net.txq.state) == (3, 0)


@pytest.mark.parametrize("variant", ["v6", "v7"])
def test_window_of_a_clock_that_was_ahead_is_pulled_back(variant):
    """The NAPI moves to a CPU whose clock is 5 ms behind: what waits is delayed by tx_usecs, not by 5 ms."""
    net = network(variant, limit_min="100p")
    assert completions(net, 3) == []
    net.cpu(NAPI).clock_offset_ns = -5 * MS
    behind = net.cpu(NAPI).now_ns - 5 * MS
    assert completions(net, 1) == []
    assert net.rq.bql_time_ns == behind
    net.cpu(NAPI).now_ns += WINDOW
    assert completions(net, 1) == [4]


@pytest.mark.parametrize("variant", ["v5", "v6", "v7"])
def test_tag_decides_when_the_qdisc_is_exchanged(variant):
    """Packets charged below fq_codel are completed although the queue has none by the time that they are taken."""
    net = network(variant, tx_usecs="0us", limit_min="50p")
    net.send(6)
    net.qdisc.kind = 1  # noqueue
    net.send(4)
    assert net.inflight() == 6
    net.receive()
    assert (net.inflight(), net.view.flows[0].received) == (0, 11)
    assert net.view.fault.code == 0


def test_without_a_peer_queue_packets_are_delivered_and_nothing_is_completed():
    net = network("v7", limit_min="50p")
    net.rq.peer_txq = -1
    net.send(6)
    net.cpu(NAPI).now_ns += WINDOW
    net.receive()
    assert (net.view.flows[0].received, net.inflight(), net.rq.n_bql) == (7, 6, 6)
    net.check()


def test_wake_of_the_drivers_stop_leaves_the_stacks():
    net = network("v7", tx_usecs="1000us")
    softirqs = net.cpu(NAPI).stats.net_tx_action
    net.txq.state = STACK_XOFF | 1
    net.txq.dql.num_queued += 200
    net.rq.rx_notify_masked, net.rq.napi.state = 1, 9
    net.step(NAPI, 3)
    assert (net.txq.state, net.txq.drv_wake) == (STACK_XOFF, 1)
    assert net.cpu(NAPI).output_queue == 1  # scheduled whatever STACK_XOFF says: a wasted softirq
    net.receive()
    assert net.cpu(NAPI).stats.net_tx_action == softirqs + 1
