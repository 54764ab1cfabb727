"""GRO's batches, and what rules cost: paid when a batch is flushed, packet by packet, in order."""

import pytest
from network import US, Network

from emulator.kernel.netfilter import nf_hook

NAPI = "napi/veth1-0"


def polled(count, *, batch=8, rules=100, **more):
    """The times, from the poll's start, at which packets were delivered: burnt rules of 1 us each."""
    net = Network(
        device={"qdisc": {"kind": "noqueue"}},
        napi={"gro_normal_batch": f"{batch}p"},
        netfilter={"rules": rules, "rule_cost": "1000ns"} | more,
    )
    net.stop("watchdog")
    net.send(count)
    start, received, times = net.cpu(NAPI).now_ns, 0, []
    began = start
    while net.step(NAPI):
        if net.view.flows[0].received > received:
            received += 1
            times.append((began - start, len(net.ring())))
        began = net.cpu(NAPI).now_ns  # a step delivers what was paid for before it
    net.check()
    return net, times


def test_eight_ring_entries_are_taken_before_the_first_is_paid_for():
    net, times = polled(20)
    assert times == [(100 * US * (i + 1), 20 - min(20, 8 * (i // 8 + 1))) for i in range(20)]
    assert net.rq.gro.flushes == 3
    assert net.cpu(NAPI).stats.burnt_ns == 20 * 100 * US


@pytest.mark.parametrize(("batch", "flushes"), [(1, 20), (3, 7), (8, 3), (20, 1), (64, 1)])
def test_batches(batch, flushes):
    net, times = polled(20, batch=batch)
    assert net.rq.gro.flushes == flushes
    assert [left for _, left in times] == [20 - min(20, batch * (i // batch + 1)) for i in range(20)]
    assert net.view.flows[0].reordered == 0


def test_walk_bumps_the_counters_of_every_rule():
    net, times = polled(5, rules=300, mode="walk", rule_cost=None)
    rules = net.view.rules.raw
    assert (rules["packets"][:300] == 5).all()
    assert (rules["packets"][300:] == 0).all()
    assert (rules["bytes"][:300] == 5 * 64).all()
    assert [at for at, _ in times] == [0] * 5  # nothing is charged: walking is the cost


def test_rules_that_do_not_match_count_nothing():
    net = Network(netfilter={"rules": 4, "mode": "walk"})
    for i, (field, value) in enumerate([("protocol", 6), ("invert", 1), ("dst", 1), ("src", 1 << 20)]):
        setattr(net.view.rules[i], field, value)
    nf_hook(net.raw, net.raw["devs"][1], 1)
    assert net.view.rules.raw["packets"][:4].tolist() == [0, 0, 0, 0]
    net.view.rules[3].invert = net.view.rules[0].invert = 1
    nf_hook(net.raw, net.raw["devs"][1], 1)
    assert net.view.rules.raw["packets"][:4].tolist() == [1, 0, 0, 1]


def test_replies_pay_no_rules():
    net = Network(netfilter={"rules": 100, "rule_cost": "1000ns"}, ping={"interval": "1ms"}, flood={"threads": 0})
    net.run(10_500 * US, step_ns=1)
    assert net.cpu(NAPI).stats.burnt_ns == 10 * 100 * US
    assert net.cpu("napi/veth0-0").stats.burnt_ns == 0
    probes = net.view.probes.raw[:10]
    assert (probes["intended_ns"] == probes["sent_ns"]).all()
    assert (probes["received_ns"] > probes["sent_ns"]).all()
    assert net.view.probes[10].sent_ns == 0
    net.check()
