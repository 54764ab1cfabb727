"""What a poller of sysfs would have seen, stops included."""

import pytest
from network import MS, US, Network, S

from emulator.kernel.netdev import DRV_XOFF, STACK_XOFF
from emulator.report.measurement import SERIES
from emulator.runtime.sampler import Sampler

NAPI = "napi/veth1-0"


def stopped_network(variant: str) -> Network:
    """The receiver has gone away and the queue is stopped: by BQL, or without it by the full ring."""
    net = Network(
        device={"bql": {"variant": variant, "tx_usecs": "100us"}, "num_tx_queues": 1, "ring_size": 32},
        flood={"rate": "10kpps"},
    )
    net.run(S, idle_ns=100 * US)
    while net.rq.phase or net.rq.napi.state:
        net.step(NAPI)
    net.stop(NAPI)
    while not net.txq.state:
        net.run(10 * MS, idle_ns=100 * US)
    return net


@pytest.mark.parametrize(
    ("variant", "bit", "counter"), [("v7", STACK_XOFF, "stack_xoff"), ("off", DRV_XOFF, "drv_xoff")]
)
def test_a_stopped_queue_shows_its_bit_and_its_count(variant: str, bit: int, counter: str) -> None:
    net = stopped_network(variant)
    sampler = Sampler(net.view)
    sampler.sample(5 * S)
    series = sampler.series(4 * S, [0])
    assert tuple(series) == ("t_s", *SERIES)
    assert series["t_s"].tolist() == [1.0]
    assert series["state"].tolist() == [bit]
    assert series[counter].tolist() == [getattr(net.txq, counter)] != [0]
    other = "drv_xoff" if counter == "stack_xoff" else "stack_xoff"
    assert series[other].tolist() == [getattr(net.txq, other)]
    assert series["backlog"].tolist() == [net.view.qdiscs[0].qlen]
    assert series["received"].tolist() == [net.view.flows[0].received] != [0]


def test_received_between_two_samples() -> None:
    net = stopped_network("v7")
    sampler = Sampler(net.view)
    assert sampler.received_between(0) == (0, 0.0)
    sampler.sample(S)
    net.view.flows[0].received += 30
    sampler.sample(3 * S)
    assert sampler.received_between(0) == (30, 2.0)


def test_no_samples_are_empty_columns() -> None:
    series = Sampler(stopped_network("v7").view).series(0, [0])
    assert tuple(series) == ("t_s", *SERIES)
    assert {len(column) for column in series.values()} == {0}
