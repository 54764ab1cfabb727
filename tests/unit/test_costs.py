"""What costs something under the virtual clock alone, and the dice that the seed throws."""

import statistics

import pytest
from network import Network

from emulator.kernel.clock import charge_about, dice, jiffies, wakeup_ns
from emulator.kernel.memory import spin_lock, spin_trylock, spin_unlock, take_line
from emulator.kernel.netdev import netdev_tx_completed_queue, netdev_tx_sent_queue

FLOOD, NAPI = "flood0", "napi/veth1-0"


@pytest.fixture
def net():
    network = Network(device={"bql": {"variant": "v7", "limit_min": "100p"}})
    for name in (FLOOD, NAPI):
        network.costs(name, cache_line=40, lock_handover=70)
    return network


def spent(net, name, action):
    before = net.cpu(name).now_ns
    action(net.raw_cpu(name))
    return net.cpu(name).now_ns - before


def test_a_line_costs_whoever_takes_it_from_another_cpu(net):
    line = net.raw["devs"][0]["txq"][0]["line"]

    def take(cpu):
        take_line(cpu, line, 40)

    order = [FLOOD, FLOOD, NAPI, NAPI, FLOOD]
    assert [spent(net, name, take) for name in order] == [0, 0, 40, 0, 40]
    for name in (FLOOD, NAPI):
        net.cpu(name).virtual = 0
    assert [spent(net, name, take) for name in (NAPI, FLOOD)] == [0, 0]


def test_a_lock_costs_whoever_takes_it_after_another_cpu(net):
    lock = net.raw["qdiscs"][0]["root_lock"]

    def take(cpu):
        spin_lock(net.raw, cpu, lock)
        assert not spin_trylock(cpu, lock)
        spin_unlock(lock)

    assert [spent(net, name, take) for name in (FLOOD, FLOOD, NAPI, FLOOD)] == [0, 0, 70, 70]


def test_charging_and_completing_on_two_cpus_hands_the_bql_words_over(net):
    txq = net.raw["devs"][0]["txq"][0]

    def charge(cpu):
        netdev_tx_sent_queue(net.raw, cpu, txq, 1)

    def complete(cpu):
        netdev_tx_completed_queue(net.raw, cpu, txq, 1)

    steps = [(FLOOD, charge), (FLOOD, charge), (NAPI, complete), (NAPI, complete), (FLOOD, charge)]
    assert [spent(net, name, action) for name, action in steps] == [0, 0, 40, 0, 40]


def test_a_packet_is_fetched_once_by_the_cpu_that_receives_it(net):
    net.costs(NAPI, lock_handover=0)
    net.send(3)
    before = net.cpu(NAPI).stats.burnt_ns
    net.receive()
    # three packets, and the queue's words for the completion of the three
    assert net.cpu(NAPI).stats.burnt_ns - before == 4 * 40


def test_the_dice_follow_from_the_seed_and_are_even():
    throws = [dice(Network(seed=seed).raw_cpu(FLOOD), 1_000_000) for seed in (1, 1, 2)]
    assert throws[0] == throws[1] != throws[2]
    cpu = Network().raw_cpu(FLOOD)
    assert [dice(cpu, sides) for sides in (-1, 0, 1)] == [0, 0, 0]
    many = [dice(cpu, 7) for _ in range(7000)]
    assert set(many) == set(range(7))
    assert all(800 < many.count(side) < 1200 for side in range(7))


def test_a_wake_up_takes_from_half_to_twice_as_long_and_is_more_often_short():
    cpu = Network().raw_cpu(FLOOD)
    many = [wakeup_ns(cpu, 2000) for _ in range(20_000)]
    assert min(many) >= 1000
    assert 3900 < max(many) < 4000
    assert statistics.mean(many) == pytest.approx(2000, rel=0.02)
    assert statistics.median(many) == pytest.approx(1750, rel=0.02)
    assert wakeup_ns(cpu, 0) == 0


@pytest.mark.parametrize(("ppm", "spread"), [(0, 0), (10_000, 100), (1_000_000, 10_000)])
def test_noise_stays_within_its_share_and_costs_nothing_on_average(ppm, spread):
    net = Network()
    net.costs(FLOOD, noise_ppm=ppm)
    many = [spent(net, FLOOD, lambda cpu: charge_about(cpu, 10_000)) for _ in range(5000)]
    assert min(many) >= 10_000 - spread
    assert max(many) <= 10_000 + spread
    assert statistics.mean(many) == pytest.approx(10_000, abs=spread * 0.05)


@pytest.mark.parametrize(("hz", "jiffy_ns"), [(1000, 1_000_000), (250, 4_000_000), (100, 10_000_000)])
def test_jiffies_are_the_profiles(hz, jiffy_ns):
    net = Network(host={"hz": hz}, watchdog={"timeout": "2s"}, device={"bql": {"hold_time": "1s"}})
    assert jiffies(net.raw_cpu(FLOOD)) == net.cpu(FLOOD).now_ns // jiffy_ns
    assert (net.sender.watchdog_timeo, net.txq.dql.slack_hold_time) == (2 * hz, hz)
