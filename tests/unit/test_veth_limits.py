"""The law of the limit, through the whole stack: limit = 2 x completion batch, in flight up to limit + 1 or + 9."""

import pytest
from network import MS, US, Network, S

from emulator.kernel.hist import bucket_bounds, percentile

HEAVY = {"rules": 1000, "rule_cost": "100ns"}  # 100 us a packet


def flooded(bql, *, queues=6, batch=8, weight=64, rules=HEAVY, **more):
    """Four seconds, the last two measured, of a flood that offers 200 kpps to a receiver of 10 kpps."""
    network = Network(
        device={"bql": bql, "num_tx_queues": queues} | more,
        napi={"gro_normal_batch": f"{batch}p", "weight": f"{weight}p"},
        netfilter=rules,
    )
    network.costs("flood0", skb_build=5 * US)
    network.run(2 * S)
    network.view.params.measure_start_ns = network.cpu("flood0").now_ns
    network.txq.measured = network.txq.inflight_max = 0
    network.received = network.view.flows[0].received
    network.run(2 * S)
    network.received = network.view.flows[0].received - network.received
    network.check()
    return network


def seen(hist):
    """The values that a histogram counted, each the lowest of its bucket."""
    return {bucket_bounds(int(index))[0] for index in hist.counts.raw.nonzero()[0]}


def steady(network):
    """The limit nearly all the time: after each hold time some slack is given back, and taken again at once."""
    counts = network.txq.limit_hist.counts.raw
    assert percentile(counts, 2) == percentile(counts, 98)
    return percentile(counts, 50)


@pytest.mark.parametrize(("queues", "peak"), [(1, 17), (6, 25)])
def test_v7_with_a_gro_batch_of_8_settles_at_16(queues, peak):
    network = flooded({"variant": "v7", "tx_usecs": "100us"}, queues=queues)
    txq = network.txq
    assert (steady(network), txq.inflight_max) == (16, peak)
    assert percentile(txq.count_hist.counts.raw, 2) == 8
    assert (txq.drv_xoff, txq.trans_timeout) == (0, 0)
    assert 0 <= txq.stack_xoff - txq.stack_wake <= 1
    assert network.received == pytest.approx(20_000, abs=10)  # the receiver never starves


def test_v6_may_settle_at_17():
    network = flooded({"variant": "v6", "tx_usecs": "100us"}, queues=1)
    assert (steady(network), network.txq.inflight_max) == (17, 18)


@pytest.mark.parametrize("variant", ["v5", "v6", "v7"])
def test_one_completion_a_packet_settles_at_2(variant):
    tx_usecs = "100us" if variant == "v5" else "0us"  # v5 has no such knob
    network = flooded({"variant": variant, "tx_usecs": tx_usecs}, queues=1)
    txq = network.txq
    assert (txq.dql.limit, seen(txq.count_hist), txq.inflight_max) == (2, {1}, 3)
    assert seen(txq.limit_hist) <= {1, 2}
    assert network.qdisc.requeues <= 1
    assert flooded({"variant": variant, "tx_usecs": tx_usecs}, queues=6).txq.inflight_max == 11


def test_gro_batch_of_1_settles_at_2_although_completions_may_wait():
    network = flooded({"variant": "v7", "tx_usecs": "100us"}, queues=1, batch=1)
    assert (network.txq.dql.limit, network.txq.inflight_max) == (2, 3)
    assert seen(network.txq.limit_hist) <= {1, 2}


@pytest.mark.parametrize("variant", ["v6", "v7"])
def test_completions_at_the_end_of_a_poll_settle_at_128(variant):
    network = flooded({"variant": variant, "tx_usecs": "100us"}, queues=1, batch=64)
    assert network.txq.dql.limit in (127, 128)
    assert percentile(network.txq.count_hist.counts.raw, 50) == 64
    assert network.txq.inflight_max == 129


def test_a_longer_window_gives_a_larger_limit():
    network = flooded({"variant": "v7", "tx_usecs": "1000us"}, queues=1)
    assert (steady(network), percentile(network.txq.count_hist.counts.raw, 50)) == (32, 16)


@pytest.mark.parametrize(("queues", "most_requeued"), [(1, 1), (6, 9)])
def test_stock_fills_the_ring_and_is_woken_once_a_poll(queues, most_requeued):
    network = flooded({"variant": "off"}, queues=queues)
    txq, napi = network.txq, network.rq.napi
    assert (txq.completions, txq.stack_xoff, network.inflight()) == (0, 0, 0)
    assert napi.polls - 1 <= txq.drv_wake <= txq.drv_xoff <= napi.polls
    assert seen(napi.work_hist) <= {1, 64}
    assert napi.work_hist.counts.raw[64] > 600
    assert network.qdisc.requeues <= most_requeued * txq.drv_xoff
    assert network.qdisc.requeues >= txq.drv_xoff
    assert len(network.ring()) >= 256 - 64


def test_bql_off_by_a_huge_limit_min_is_not_stock():
    """avail is a huge number of packets, from which bytes are taken: one queue then bulks up to its quota."""
    stock = flooded({"variant": "off"}, queues=1)
    huge = flooded({"variant": "v7", "limit_min": "1000000000p"}, queues=1)
    assert stock.txq.drv_xoff == pytest.approx(huge.txq.drv_xoff, abs=1)
    assert stock.qdisc.requeues == stock.txq.drv_xoff  # never more than the one packet in hand
    assert huge.qdisc.requeues > 50 * huge.txq.drv_xoff  # whole bulks of 64 go back
    several = flooded({"variant": "v7", "limit_min": "1000000000p"}, queues=6)
    assert several.qdisc.requeues <= 9 * several.txq.drv_xoff


def test_a_light_consumer_never_feels_the_limit():
    """Without rules 100 us hold more packets than the ring: DRV_XOFF stops the queue and BQL hardly ever does."""
    network = flooded({"variant": "v7", "tx_usecs": "100us"}, rules={})
    assert network.txq.stack_xoff <= 20
    assert network.received == pytest.approx(400_000, rel=0.01)


def test_dql_hold_time_lets_the_limit_fall_after_the_load_did():
    network = flooded({"variant": "v7", "tx_usecs": "1000us", "hold_time": "10ms"}, queues=1)
    assert network.txq.dql.limit in (31, 32)
    network.receiver.tx_coal_ns = 100 * US
    network.run(40 * MS)
    assert network.txq.dql.limit in (15, 16)
