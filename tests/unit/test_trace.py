"""Tracepoints: each in its place with its values and its time, none when off, and no more than asked for."""

from network import START_NS, US, Network, S

from emulator.kernel.clock import TRACE_EVENTS_MAX
from emulator.report.summary import summarise
from emulator.runtime.traced import traced
from emulator.runtime.virtual import run_virtual
from emulator.scenario.model import LONGEST_TRACE, Scenario

FLOOD, NAPI = "flood0", "napi/veth1-0"
SENDING = {"skb_build": 1, "qdisc_enqueue": 2, "qdisc_dequeue": 4, "veth_xmit": 8}
RECEIVING = {"qdisc_dequeue": 4, "veth_xmit": 8, "ring_consume": 16, "gro_receive": 32, "completion": 64}
RULE = {"rules": 1, "rule_cost": "100ns"}
HOST = {"skb_build": "1us", "veth_xmit": "1us", "napi_wakeup": "2us", "stack_rx": "10us", "echo_reply": "1us"}


def network(trace=100, **scenario):
    """Costs of which every sum is another number; every packet delivered by itself."""
    net = Network(trace=trace, netfilter=RULE, napi={"gro_normal_batch": "1p"}, **scenario)
    net.costs(FLOOD, **SENDING)
    net.costs(NAPI, **RECEIVING)
    return net


def told(net, agent=None, only=None):
    """`time event its values`, of one agent or merged."""
    net.view.params.start_ns = START_NS
    return [
        " ".join(map(str, (e.t_ns, e.event, *e.args.values())))
        for e in traced(net.view, net.scenario, net.seats).events
        if agent in (None, e.agent) and (only is None or e.event in only)
    ]


def test_the_way_of_a_packet():
    net = network(device={"peer_qdisc": {"kind": "noqueue"}})
    net.send()
    net.receive()
    assert told(net, FLOOD) == ["11 net_dev_xmit flood 0.0 1", "11 napi_schedule veth1 0"]
    assert told(net, NAPI) == [
        "0 napi_poll_begin veth1 0",
        "148 netif_receive_skb flood 0.0 1",
        "148 napi_poll_end veth1 1",
    ]


def test_a_stop_by_bql_its_completion_and_its_wake():
    net = network(device={"bql": {"variant": "v7", "tx_usecs": "0us"}, "qdisc": {"kind": "pfifo", "limit": "1p"}})
    net.send(3)
    net.receive()
    assert told(net, FLOOD) == [
        "11 net_dev_xmit flood 0.0 1",
        "11 stack_stop veth0 0",
        "11 napi_schedule veth1 0",
        "14 requeue flood 0.0 2",
        "17 qdisc_enqueue flood 0.0 3",
        "17 drop QDISC_DROP flood 0.0 3",
    ]
    assert told(net, NAPI) == [
        "0 napi_poll_begin veth1 0",
        "148 netif_receive_skb flood 0.0 1",
        "212 bql_complete 1 1",
        "212 stack_wake veth0 0",
        "212 napi_poll_end veth1 1",
        "212 qdisc_dequeue flood 0.0 2",
        "224 net_dev_xmit flood 0.0 2",
        "224 napi_schedule veth1 0",
        "224 napi_poll_begin veth1 0",
        "372 netif_receive_skb flood 0.0 2",
        "436 bql_complete 1 1",
        "436 napi_poll_end veth1 1",
    ]


def test_a_full_ring_stops_the_driver_and_the_end_of_a_poll_wakes_it():
    net = network(device={"ring_size": 1, "qdisc": {"kind": "pfifo", "limit": "2p"}})
    net.send(3)
    net.receive()
    assert told(net, FLOOD) == [
        "11 net_dev_xmit flood 0.0 1",
        "11 napi_schedule veth1 0",
        "22 drv_stop veth0 0",
        "22 requeue flood 0.0 2",
        "25 qdisc_enqueue flood 0.0 3",
    ]
    assert told(net, NAPI)[1:12] == [
        "148 netif_receive_skb flood 0.0 1",
        "148 drv_wake veth0 0",
        "148 napi_poll_end veth1 1",
        "148 qdisc_dequeue flood 0.0 2",
        "160 net_dev_xmit flood 0.0 2",
        "160 napi_schedule veth1 0",
        "160 qdisc_dequeue flood 0.0 3",
        "172 drv_stop veth0 0",
        "172 requeue flood 0.0 3",
        "172 napi_poll_begin veth1 0",
        "320 netif_receive_skb flood 0.0 2",
    ]


def test_without_a_queue_a_full_ring_drops():
    net = network(device={"ring_size": 1, "qdisc": {"kind": "noqueue"}})
    net.send(2)
    assert told(net, FLOOD) == [
        "9 net_dev_xmit flood 0.0 1",
        "9 napi_schedule veth1 0",
        "18 drop FULL_RING flood 0.0 2",
    ]


def test_every_packet_of_a_bulk_is_dequeued():
    """Several queues allocated: up to nine at once. One alone, and BQL off by limit_min: as many as it allows."""
    for device in ({"num_tx_queues": 6}, {"num_tx_queues": 1, "bql": {"variant": "v7", "limit_min": "100000p"}}):
        net = network(device={"ring_size": 1, "qdisc": {"kind": "pfifo"}} | device)
        net.send(5)
        net.receive()
        bulk = [line.split()[-1] for line in told(net, NAPI, {"qdisc_dequeue", "requeue"})[:6]]
        assert bulk[:4] == ["2", "3", "4", "5"], (device, told(net))
        net.check()


def test_what_is_dequeued_is_sent_or_requeued():
    """Also a packet that a bulk met and left for later, because it was for another queue."""
    net = network(
        trace=1000,
        device={"num_tx_queues": 2, "real_num_tx_queues": 2, "ring_size": 1, "qdisc": {"kind": "pfifo"}},
        flood={"flows": 8},
    )
    net.send(30)
    net.settle()
    assert traced(net.view, net.scenario, net.seats).lost == 0
    enqueued, dequeued, sent, requeued = (
        [line.split(maxsplit=2)[2] for line in told(net, only={event})]
        for event in ("qdisc_enqueue", "qdisc_dequeue", "net_dev_xmit", "requeue")
    )
    bypassed = set(sent) - set(enqueued) - set(dequeued)
    first_refused = set(requeued) - set(enqueued)
    assert len(sent) == len(set(sent)) == 30
    assert len(sent) + len(requeued) == len(dequeued) + len(bypassed) + len(first_refused)
    assert set(enqueued) <= set(dequeued)
    assert {line.split()[-1] for line in told(net, only={"drv_stop"})} == {"0", "1"}
    net.check()


def test_a_poll_says_how_many_entries_it_handled():
    net = network(device={"qdisc": {"kind": "noqueue"}})
    net.send(3)
    net.receive()
    assert told(net, NAPI, {"napi_poll_end"}) == ["444 napi_poll_end veth1 3"]


def test_the_watchdog_says_which_queue_and_what_it_woke():
    net = network(
        device={"bql": {"variant": "v7"}, "num_tx_queues": 1}, flood={"rate": "1pps"}, watchdog={"timeout": "2s"}
    )
    net.stop(NAPI)
    net.run(5 * S, idle_ns=100 * US)
    assert [line.split(maxsplit=1)[1] for line in told(net, "watchdog")][:2] == [
        "net_dev_xmit_timeout veth0 0",
        "stack_wake veth0 0",
    ]


def test_off_notes_nothing():
    net = network(trace=0)
    net.send(20)
    net.receive()
    assert net.view.flows[0].received == 20
    for index in range(len(net.seats)):
        events = net.view.cpus[index].events
        assert events.count == 0
        assert not any(events.entries.raw[name].any() for name in ("time_ns", "code", "a", "b"))
    assert traced(net.view, net.scenario, net.seats) is None


def test_the_first_are_kept_and_the_others_counted():
    whole, short = network(trace=1024), network(trace=3)
    for net in (whole, short):
        net.send(5)
        net.receive()
    for agent in (FLOOD, NAPI):
        assert told(short, agent) == told(whole, agent)[:3]
        assert short.cpu(agent).events.count == whole.cpu(agent).events.count > 3
        assert not short.cpu(agent).events.entries.raw["code"][3:].any()
    everything = traced(whole.view, whole.scenario, whole.seats)
    assert traced(short.view, short.scenario, short.seats).lost == len(everything.events) - 6
    assert everything.lost == 0


def test_room_for_as_many_as_a_scenario_may_ask_for():
    assert LONGEST_TRACE == TRACE_EVENTS_MAX
    net = network(trace=LONGEST_TRACE, device={"qdisc": {"kind": "pfifo", "limit": "1p"}, "ring_size": 1})
    net.send(1000)
    assert net.cpu(FLOOD).events.count > TRACE_EVENTS_MAX
    assert len(told(net, FLOOD)) == TRACE_EVENTS_MAX
    net.check()


def scenario(**changes):
    base = {"clock": "virtual", "host": HOST, "duration": "5ms", "warmup": "1ms", "flood": {"rate": "1kpps"}}
    return Scenario.model_validate(base | {"ping": {"interval": "1ms"}, "trace": 1024} | changes)


def test_a_run_tells_it_by_time_since_its_start():
    measurement = run_virtual(scenario())
    events = measurement.trace.events
    assert [e.t_ns for e in events] == sorted(e.t_ns for e in events)
    assert (events[0].t_ns, events[0].agent, events[0].event) == (2_000, "flood0", "net_dev_xmit")
    assert {e.agent for e in events} == {"flood0", "napi/veth1-0", "napi/veth0-0", "ping"}
    assert {e.args["flow"] for e in events if "flow" in e.args} == {"flood 0.0", "ping request", "ping reply"}
    assert summarise(measurement)["trace"] == {"events": len(events), "lost": 0}
    received = [e for e in events if e.event == "netif_receive_skb" and e.args["flow"] == "flood 0.0"]
    assert [e.args["seq"] for e in received] == list(range(1, measurement.flows[0].received + 1))


def test_tracing_changes_nothing_else():
    on, off = (summarise(run_virtual(scenario(trace=n))) for n in (5, 0))
    assert on.pop("trace")["lost"] > 0
    assert on == off
