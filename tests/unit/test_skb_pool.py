"""The packet pool: slots travel in batches of 128, and none is ever lost or given twice."""

import random

from network import Network

from emulator.kernel.clock import FULL_RING
from emulator.kernel.skb import SKBS_MAX, alloc_skb, consume_skb, drops_by_reason, kfree_skb
from emulator.runtime.walk import free_slots


def test_slots_travel_in_batches():
    net = Network(flood={"threads": 2})
    first, second = net.raw_cpu("flood0"), net.raw_cpu("flood1")
    held = [alloc_skb(net.raw, first) for _ in range(300)]
    assert (net.cpu("flood0").magazine_count, net.view.pool.depot_count) == (3 * 128 - 300, SKBS_MAX - 1 - 3 * 128)
    for skb in held:
        consume_skb(net.raw, second, skb)
    assert (net.cpu("flood1").magazine_count, net.view.pool.depot_count) == (172, SKBS_MAX - 1 - 3 * 128 + 128)
    assert alloc_skb(net.raw, second) == held[-1]  # the warm one


def test_every_slot_can_be_had_once_and_then_none():
    net = Network()
    cpu = net.raw_cpu("flood0")
    held = {alloc_skb(net.raw, cpu) for _ in range(SKBS_MAX - 1)}
    assert (len(held), 0 in held, alloc_skb(net.raw, cpu)) == (SKBS_MAX - 1, False, 0)
    consume_skb(net.raw, cpu, 5)
    assert (alloc_skb(net.raw, cpu), alloc_skb(net.raw, cpu)) == (5, 0)


def test_random_traffic_between_cpus_conserves_slots():
    net = Network(flood={"threads": 2})
    rng, held = random.Random(3), []
    cpus = [net.raw_cpu(name) for name in ("flood0", "flood1", "watchdog")]
    for _ in range(8000):
        cpu = rng.choice(cpus)
        if rng.random() < 0.5 or not held:
            held.append(alloc_skb(net.raw, cpu))
        else:
            consume_skb(net.raw, cpu, held.pop(rng.randrange(len(held))))
    assert len(set(held)) == len(held)
    assert free_slots(net.view, len(net.seats)) + len(held) == SKBS_MAX - 1


def test_a_drop_says_why_and_whose():
    net = Network()
    cpu = net.raw_cpu("flood0")
    skb = alloc_skb(net.raw, cpu)
    net.view.skbs[skb].flow = 7
    kfree_skb(net.raw, cpu, skb, FULL_RING)
    assert drops_by_reason(net.cpu("flood0")) == {"FULL_RING": {7: 1}}
    assert net.cpu("flood0").trace[0] == skb << 8 | FULL_RING
