"""NAPI from both sides: whatever the order of steps, nothing waits for a poll that nobody asked for."""

from itertools import combinations
from math import comb

import pytest
from network import Network

from emulator.kernel.napi import DISABLE, MISSED, SCHED, SCHED_THREADED, napi_schedule, napi_schedule_prep
from emulator.kernel.veth import POLL_IDLE, POLL_RECEIVE

NAPI = "napi/veth1-0"


def network(**device):
    net = Network(device={"qdisc": {"kind": "noqueue"}} | device)
    net.stop("watchdog")
    return net


def prep(net):
    return napi_schedule_prep(net.raw["devs"][1]["rq"][0]["napi"])


def schedule(net):
    napi_schedule(net.raw["devs"][1]["rq"][0]["napi"])


def test_sched_alone_does_not_start_a_poll():
    net = network()
    assert prep(net)
    assert net.rq.napi.state == SCHED
    assert net.step(NAPI) == 0
    assert net.rq.phase == POLL_IDLE
    net.rq.rx_notify_masked = 1
    schedule(net)
    assert net.rq.napi.state == SCHED | SCHED_THREADED
    assert net.step(NAPI) == 1
    assert net.rq.phase == POLL_RECEIVE


def test_second_schedule_is_missed_and_the_poll_goes_round():
    net = network()
    net.send(1)
    assert net.step(NAPI, 2) == 2  # begin, one entry
    assert not prep(net)
    assert net.rq.napi.state == SCHED | SCHED_THREADED | MISSED
    net.receive()
    assert (net.rq.napi.missed, net.rq.napi.polls, net.rq.napi.state) == (1, 2, 0)
    assert net.rq.rx_notify_masked == 0  # by the second poll: the first one had to leave it alone


def test_complete_that_was_missed_leaves_the_flag_alone():
    net = network()
    net.send(1)
    net.step(NAPI, 5)  # begin, entry, ring found empty, the packet paid for, delivered
    prep(net)
    assert net.step(NAPI) == 1
    assert (net.rq.napi.state, net.rq.rx_notify_masked) == (SCHED | SCHED_THREADED, 1)


def test_disabled_napi_is_not_scheduled():
    net = network()
    net.rq.napi.state = DISABLE
    assert not prep(net)
    assert net.rq.napi.state == DISABLE


def test_weight_ends_a_poll_and_keeps_the_right_to_poll():
    net = network()
    net.send(150)
    polls = []
    while net.step(NAPI):
        if net.rq.napi.polls > len(polls):
            polls.append((net.rq.napi.work, net.rq.napi.state))
    owned = SCHED | SCHED_THREADED
    assert polls == [(64, owned), (128, owned), (150, 0)]
    assert (net.rq.napi.repolls, net.rq.napi.polls) == (2, 3)
    net.check()


def test_exactly_the_weight_takes_one_more_poll_to_find_nothing():
    net = network()
    net.send(64)
    net.receive()
    assert (net.rq.napi.repolls, net.rq.napi.polls, net.rq.napi.work) == (1, 2, 64)
    assert net.rq.napi.state == net.rq.rx_notify_masked == 0


@pytest.mark.parametrize("produced", [1, 2, 3])
def test_no_kick_is_lost_in_any_order_of_steps(produced):
    """All orders of ``produced`` sends among the first steps of the consumer."""
    net = network(ring_size=8)
    orders = 0
    for steps in range(13):
        for places in combinations(range(steps + produced), produced):
            for turn in range(steps + produced):
                if turn in places:
                    net.send(1)
                else:
                    net.step(NAPI)
            net.receive()
            assert net.view.flows[0].received == net.view.flows[0].sent, (steps, places)
            assert (net.rq.napi.state, net.rq.rx_notify_masked, net.rq.phase) == (0, 0, POLL_IDLE), (steps, places)
            orders += 1
    assert orders == sum(comb(steps + produced, produced) for steps in range(13))
