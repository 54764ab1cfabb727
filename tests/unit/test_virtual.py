"""The virtual clock: the real one's steps in the order of their times, the same result every time."""

import json

import pytest

from emulator.agents import flood, napi, prober, watchdog
from emulator.kernel.jit import PLAIN
from emulator.report.summary import summarise
from emulator.runtime import virtual_steps
from emulator.runtime.virtual import START_NS, VirtualRun, run_virtual
from emulator.scenario import load_profile
from emulator.scenario.model import Scenario

MS, US = 1_000_000, 1_000
HOST = {
    "skb_build": "150ns", "qdisc_enqueue": "90ns", "qdisc_dequeue": "20ns", "veth_xmit": "15ns", "ring_consume": "20ns",
    "gro_receive": "30ns", "stack_rx": "430ns", "napi_poll": "300ns", "completion": "45ns", "napi_wakeup": "1.5us",
    "echo_reply": "300ns", "return_path": "5us", "timer_slack": "50us", "cache_line": "40ns", "lock_handover": "40ns",
    "netfilter_rule": "7.6ns",
}  # fmt: skip


def scenario(**changes):
    base = {
        "clock": "virtual",
        "host": HOST,
        "duration": "40ms",
        "warmup": "10ms",
        "ping": {"interval": "1ms"},
        "netfilter": {"rules": 100},
        "device": {"bql": {"variant": "v7", "tx_usecs": "50us"}},
    }
    return Scenario.model_validate(base | changes)


def test_the_same_again_bit_for_bit():
    first, second = run_virtual(scenario()), run_virtual(scenario())
    assert json.dumps(first.to_dict()) == json.dumps(second.to_dict())


def test_another_seed_another_run():
    first, second = run_virtual(scenario()), run_virtual(scenario(seed=2))
    assert list(first.probes.sent_ns) != list(second.probes.sent_ns)


@pytest.mark.parametrize("kind", ["fq_codel", "sfq", "pfifo", "pfifo_fast", "codel", "noqueue"])
@pytest.mark.parametrize("variant", ["off", "v5", "v6", "v7"])
def test_identities_hold(variant, kind):
    device = {"bql": {"variant": variant}, "qdisc": {"kind": kind}}
    summary = summarise(run_virtual(scenario(device=device)))
    assert summary["identities"]["ok"], summary["identities"]["checks"]
    assert (summary["verdict"], summary["exit_code"]) == ("ok", 0)
    assert summary["flows"][0]["received"] > 1000
    assert summary["ping"]["sent"] == 40


def test_it_steps_what_processes_step():
    """One implementation: the scheduler calls the very compiled functions that the duty cycles call."""
    assert virtual_steps.flood_step is flood.flood_step
    assert virtual_steps.prober_step is prober.prober_step
    assert virtual_steps.watchdog_step is watchdog.watchdog_step
    assert virtual_steps.napi_threaded_step is napi.napi_threaded_step
    if not PLAIN:
        for step, cycle in (
            (flood.flood_step, flood.flood_cycle),
            (napi.napi_threaded_step, napi.napi_cycle),
            (prober.prober_step, prober.prober_cycle),
            (watchdog.watchdog_step, watchdog.watchdog_cycle),
        ):
            assert cycle.py_func.__globals__[step.__name__] is step
            assert virtual_steps.agent_step.py_func.__globals__[step.__name__] is step


def test_time_is_what_costs_add_up_to():
    """A receiver that is the bottleneck takes exactly its costs for each packet."""
    host = HOST | {
        "cache_line": "0ns",
        "lock_handover": "0ns",
        "napi_poll": "0ns",
        "qdisc_dequeue": "0ns",
        "veth_xmit": "0ns",
    }
    summary = summarise(run_virtual(scenario(host=host, device={}, ping=None, duration="100ms")))
    # one packet: consume, GRO, stack, 100 rules, and a step each to consume it, to pay for it and to deliver it
    assert 1e9 / summary["goodput_pps"] == pytest.approx(20 + 30 + 430 + 760, rel=0.002)


def test_clocks_only_go_forward_and_none_runs_ahead_of_its_turn():
    run = VirtualRun(scenario())
    until = START_NS
    net = run.segment.view.net
    seen = [0] * 5
    for _ in range(200):
        until += 7 * US
        run.advance(until)
        times = [int(net.cpus[i].now_ns) for i in range(5)]
        assert all(now >= before for now, before in zip(times, seen, strict=True))
        assert all(int(run.segment.view.agents[i].due_ns) >= until for i in range(5))
        seen = times


def test_stopped_early_keeps_what_was_measured():
    asked = iter(range(1000))
    summary = summarise(run_virtual(scenario(duration="10s"), stop=lambda: next(asked) > 10))
    assert summary["verdict"].startswith("interrupted after 0.")
    assert summary["exit_code"] == 130
    assert summary["goodput_pps"] > 0


def test_nobody_steps_while_nothing_is_due():
    """An almost idle link: a few steps for each packet, none for the time between them."""
    run = VirtualRun(scenario(flood={"rate": "10pps"}, ping=None))
    assert run.advance(START_NS + 60_000 * MS) < 600 * 20


def test_the_shipped_profile_reproduces_its_stock_column():
    from pathlib import Path

    profile = load_profile(Path(__file__).parents[2] / "scenarios/profiles/ryzen-5600x.yaml")
    for rules, pps in ((0, 1_760_000), (100, 736_000), (1000, 126_000), (10_000, 13_000)):
        stock = scenario(host=profile.to_plain(), netfilter={"rules": rules}, device={}, ping=None, duration="200ms")
        assert summarise(run_virtual(stock))["goodput_pps"] == pytest.approx(pps, rel=0.005)


def test_a_thread_that_looks_again_needs_no_waking():
    """Few packets, so that each finds the NAPI threads idle: asleep, or looking every 2 us."""
    host = HOST | {"napi_wakeup": "20us", "return_path": "0ns", "timer_slack": "0ns", "noise": "0%"}
    rtt_us = {}
    for idle in ("futex", "spin", "yield"):
        napi = {"idle": idle, "peer_idle": idle}
        probes = run_virtual(scenario(host=host, flood={"threads": 0}, napi=napi, netfilter={})).probes
        rtt_us[idle] = (probes.received_ns - probes.sent_ns) / US
        assert (probes.received_ns > 0).all()
    assert rtt_us["spin"].max() < 2 * 2 + 4
    assert rtt_us["yield"].tolist() == rtt_us["spin"].tolist()
    assert 2 * 10 < rtt_us["futex"].min() < rtt_us["futex"].max() < 2 * 40 + 4
    default = run_virtual(scenario(host=host, flood={"threads": 0}, netfilter={})).probes
    assert ((default.received_ns - default.sent_ns) / US).tolist() == rtt_us["futex"].tolist()


def test_no_cpu_of_this_machine_is_named():
    assert {agent.cpu for agent in run_virtual(scenario(duration="5ms")).agents} == {None}
