"""A transmit queue's stop bits: independent of each other, and what a wake schedules."""

import pytest
from network import Network

from emulator.kernel import netdev
from emulator.kernel.netdev import DRV_XOFF, FROZEN, STACK_XOFF

CPU = "flood0"


@pytest.fixture
def net():
    return Network(device={"bql": {"variant": "v7"}})


def queue(net):
    return net.raw["devs"][0]["txq"][0]


@pytest.mark.parametrize(
    ("state", "driver", "xmit", "frozen_or"),
    [
        (0, False, False, False),
        (DRV_XOFF, True, True, True),
        (STACK_XOFF, False, True, True),
        (FROZEN, False, False, True),
        (DRV_XOFF | STACK_XOFF | FROZEN, True, True, True),
    ],
)
def test_who_looks_at_which_bit(net, state, driver, xmit, frozen_or):
    net.txq.state = state
    assert netdev.netif_tx_queue_stopped(queue(net)) == driver
    assert netdev.netif_xmit_stopped(queue(net)) == xmit
    assert netdev.netif_xmit_frozen_or_stopped(queue(net)) == frozen_or


def test_stop_is_stamped_and_counted_once(net):
    net.cpu(CPU).now_ns += 7_000_000
    netdev.netif_tx_stop_queue(net.raw_cpu(CPU), queue(net))
    netdev.netif_tx_stop_queue(net.raw_cpu(CPU), queue(net))
    assert (net.txq.state, net.txq.drv_xoff) == (DRV_XOFF, 1)
    assert net.txq.trans_start == net.cpu(CPU).now_ns // 1_000_000


@pytest.mark.parametrize("other", [0, STACK_XOFF])
def test_the_drivers_wake_schedules_whatever_the_stacks_bit_says(net, other):
    net.txq.state = DRV_XOFF | other
    assert netdev.netif_tx_wake_queue(net.raw, net.raw_cpu(CPU), queue(net))
    assert (net.txq.state, net.cpu(CPU).output_queue) == (other, 1)
    assert not netdev.netif_tx_wake_queue(net.raw, net.raw_cpu(CPU), queue(net))


@pytest.mark.parametrize(("other", "scheduled"), [(0, 1), (DRV_XOFF, 0), (FROZEN, 1)])
def test_the_stacks_wake_schedules_only_if_nobody_else_stops(net, other, scheduled):
    netdev.netdev_tx_sent_queue(net.raw, net.raw_cpu(CPU), queue(net), 1)
    assert net.txq.state == STACK_XOFF
    net.txq.state = STACK_XOFF | other
    assert netdev.netdev_tx_completed_queue(net.raw, net.raw_cpu(CPU), queue(net), 1)
    assert (net.txq.state, net.cpu(CPU).output_queue) == (other, scheduled)


def test_completing_nothing_has_no_effect(net):
    netdev.netdev_tx_sent_queue(net.raw, net.raw_cpu(CPU), queue(net), 1)
    before = net.segment.raw["net"]["devs"][0]["txq"][0].tobytes()
    assert not netdev.netdev_tx_completed_queue(net.raw, net.raw_cpu(CPU), queue(net), 0)
    assert net.segment.raw["net"]["devs"][0]["txq"][0].tobytes() == before


def test_reset_forgets_charges_and_schedules_nothing(net):
    netdev.netdev_tx_sent_queue(net.raw, net.raw_cpu(CPU), queue(net), 5)
    netdev.netdev_tx_reset_queue(net.raw, net.raw_cpu(CPU), queue(net))
    assert (net.txq.state, net.inflight(), net.cpu(CPU).output_queue) == (0, 0, 0)


def test_several_qdiscs_on_one_output_queue_run_in_the_order_of_their_schedules(net):
    cpu = net.raw_cpu(CPU)
    for index in (1, 0, 1):  # the second time it is scheduled already
        netdev.netif_schedule(net.raw, cpu, index)
    assert (net.cpu(CPU).output_queue, net.cpu(CPU).output_queue_tail) == (2, 1)
    net.step(CPU)
    assert net.view.qdiscs[1].state == 0
    assert (net.cpu(CPU).net_tx_list, net.qdisc.state) == (1, 1)
    net.finish(CPU)
    assert (net.qdisc.state, net.qdisc.running, net.cpu(CPU).stats.net_tx_action) == (0, 0, 1)
