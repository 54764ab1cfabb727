"""Whatever the scenario and whoever runs when: nothing is lost without a reason, doubled, reordered or stuck.

Each example is a whole network (flood, ping, NAPI threads, watchdog) whose agents are stepped in an order, in bursts
and at moments that follow from a seed.
"""

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from network import US, Network

KINDS = ["fq_codel", "sfq", "pfifo", "pfifo_head_drop", "bfifo", "codel", "pfifo_fast", "noqueue"]
SMALL = {
    "fq_codel": {"limit": "20p", "flows": 4},
    "sfq": {"limit": "20p", "depth": 8},
    "pfifo": {"limit": "7p"},
    "pfifo_head_drop": {"limit": "7p"},
    "bfifo": {"limit": "700B"},
    "codel": {"limit": "20p", "target": "20us", "interval": "100us"},
    "pfifo_fast": {},
    "noqueue": {},
}


@st.composite
def scenarios(draw):
    allocated = draw(st.sampled_from([1, 1, 2, 4, 6]))
    real = draw(st.sampled_from([n for n in (1, 1, 2, 4) if n <= allocated]))
    variant = draw(st.sampled_from(["off", "v5", "v6", "v7"]))
    bql = {"variant": variant, "tx_usecs": f"{draw(st.sampled_from([0, 1, 20, 100, 1000]))}us"}
    bql["limit_min"] = draw(st.sampled_from(["0p", "0p", "0p", "1p", "40p", "1000000000p"]))
    if draw(st.integers(0, 5)) == 0:
        bql["limit_max"] = "12p"
    bql["hold_time"] = draw(st.sampled_from(["0ns", "1ms", "1s"]))

    def qdisc():
        kind = draw(st.sampled_from(KINDS))
        return {"kind": kind} | (SMALL[kind] if draw(st.booleans()) else {})

    return {
        "seed": draw(st.integers(0, 99)),
        "device": {
            "ring_size": draw(st.one_of(st.integers(1, 40), st.sampled_from([64, 255, 256, 300]))),
            "num_tx_queues": allocated,
            "real_num_tx_queues": real,
            "txqueuelen": draw(st.sampled_from(["4p", "33p", "1000p"])),
            "bql": bql,
            "qdisc": qdisc(),
            "peer_qdisc": qdisc(),
        },
        "flood": {
            "packet": f"{draw(st.sampled_from([64, 300, 1514]))}B",
            "threads": draw(st.sampled_from([0, 1, 1, 2, 3])),
            "flows": draw(st.sampled_from([1, 1, 3, 8])),
            "rate": draw(st.sampled_from(["max", "max", "200kpps"])),
        },
        "napi": {
            "weight": f"{draw(st.sampled_from([1, 2, 7, 64, 64, 200]))}p",
            "gro_normal_batch": f"{draw(st.sampled_from([1, 3, 8, 8, 64, 256]))}p",
        },
        "netfilter": {"rules": 10, "rule_cost": f"{draw(st.sampled_from([0, 100, 2000]))}ns"},
        "ping": {"interval": draw(st.sampled_from(["100us", "1ms"]))},
        "watchdog": {"timeout": draw(st.sampled_from(["2s", "16s"]))},
    }


def stuck_queues(network):
    """Queues that are stopped although nothing will ever wake them, and packets that nobody will ever move."""
    found = []
    for dev in (network.sender, network.receiver):
        peer = network.view.devs[dev.peer]
        q = network.view.qdiscs[dev.ifindex]
        if q.qlen or q.running or q.defer_head:
            found.append(f"qdisc {dev.ifindex}: qlen {q.qlen}, running {q.running}, state {q.state:#x}")
        for i in range(dev.num_tx_queues):
            txq, rq = dev.txq[i], peer.rq[i]
            if txq.state:
                found.append(f"tx-{dev.ifindex}/{i}: state {txq.state:#x}")
            if network.ring(rq) or rq.gro.rx_list.head or rq.napi.state or rq.rx_notify_masked:
                found.append(f"rx-{peer.ifindex}/{i}: {len(network.ring(rq))} in the ring, napi {rq.napi.state:#x}")
            if network.inflight(txq) != rq.n_bql:
                found.append(f"tx-{dev.ifindex}/{i}: {network.inflight(txq)} in flight, {rq.n_bql} pending")
    return found


@pytest.mark.parametrize("part", range(4))
def test_identities_hold_at_any_moment_and_nothing_stays_stuck(part):
    @settings(max_examples=80)
    @given(
        scenario=scenarios(),
        seed=st.integers(0, 2**31 - 1).map(lambda seed: seed ^ part),
        burst=st.sampled_from([1, 1, 3, 40, 400]),
        pace=st.sampled_from([0, 300, 5 * US, 200 * US]),
        offsets=st.lists(st.sampled_from([0, 0, 5_000_000, -5_000_000]), min_size=20, max_size=20),
        cost=st.sampled_from([0, 50, 3000]),
    )
    def run(scenario, seed, burst, pace, offsets, cost):
        network = Network(**scenario)
        for index, seat in enumerate(network.seats):
            network.view.cpus[index].clock_offset_ns = offsets[index]
            network.words[index].start_ns = network.words[index].next_ns
            if seat.role == "napi":
                network.costs(seat.name, ring_consume=cost, completion=cost)
            else:
                network.costs(seat.name, skb_build=cost, veth_xmit=cost // 2)
        x = seed
        for _ in range(6):
            x = network.shuffle(700, x, burst, pace)
            network.check()
        network.settle()
        where = network.check()
        note(f"{sum(flow.received for flow in network.view.flows)} received, {network.qdisc.requeues} requeues")
        assert stuck_queues(network) == []
        assert [place for place, skbs in where.items() if skbs] == []
        for dev in (network.sender, network.receiver):
            assert [txq.trans_timeout for txq in dev.txq if txq.trans_timeout] == []

    run()
