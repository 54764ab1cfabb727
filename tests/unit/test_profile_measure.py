"""Measuring this machine: it compiles, ends, and what it says can be read and run. How fast the machine is, nobody
asserts."""

import os
from pathlib import Path

import pytest

from emulator.runtime.interrupts import Interrupts
from emulator.runtime.profile_measure import Measured, insitu, measure_profile
from emulator.runtime.profile_measure.bench import Samples
from emulator.scenario import HostProfile, load_profile

ROUNDS = 4
TWO_CPUS = ("cache_line", "lock_handover", "napi_wakeup")
STEPS = ("skb_build", "qdisc_enqueue", "veth_xmit", "ring_consume", "gro_receive")


def measure(monkeypatch: pytest.MonkeyPatch, cpus: set[int]) -> Measured:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: cpus)
    monkeypatch.setattr(insitu, "short_queue", lambda _interrupts: insitu.InSitu(90_000.0, 12_000.0, "poor"))
    return measure_profile("here", Interrupts(), rounds=ROUNDS)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Measured:
    return measure(monkeypatch, os.sched_getaffinity(0))


def test_what_is_measured_is_a_profile_that_runs(measured: Measured, tmp_path: Path) -> None:
    path = tmp_path / "here.yaml"
    path.write_text(measured.text())
    profile = load_profile(path)
    assert profile == measured.profile
    # What a packet's line costs on its way from the other CPU may be all that receiving costs.
    assert all(getattr(profile, name) > 0 for name in STEPS if name != "gro_receive")
    costs = [profile.netfilter_cost_ns(n) for n in (0, 1, 10, 100, 1000, 10_000)]
    assert costs == sorted(costs)
    assert costs[-1] > 0
    assert profile.stack_rx == 0
    if len(os.sched_getaffinity(0)) > 1:
        assert all(getattr(profile, name) > 0 for name in TWO_CPUS)
        assert profile.timer_slack == 24_000
        assert measured.warnings == [
            "others used the CPUs: return_path and timer_slack are too large; measure again when it is free"
        ]


def test_with_one_cpu_what_takes_two_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = measure(monkeypatch, {min(os.sched_getaffinity(0))})
    assert all(getattr(measured.profile, name) > 0 for name in STEPS)
    for name in (*TWO_CPUS, "return_path"):
        assert getattr(measured.profile, name) == 0
        assert "Not measured: it takes two CPUs" in measured.comments[name]
    assert "With one CPU nothing between two could be measured" in measured.text()


def known() -> HostProfile:
    plain = {"skb_build": "100ns", "qdisc_enqueue": "100ns", "gro_receive": "60ns", "ring_consume": "10ns"}
    return HostProfile.model_validate({"name": "known", **plain})


def test_a_received_packet_and_a_round_trip_are_put_right_by_the_virtual_clock() -> None:
    truth = known().model_copy(update={"gro_receive": 340.0, "return_path": 7000.0})
    stock, short = (insitu.virtual_summary(truth, variant) for variant in ("off", "v7"))
    right = insitu.with_received_packet(known(), 1e9 / stock["goodput_pps"])
    assert right.gro_receive == pytest.approx(340, abs=2)
    right = insitu.with_return_path(right, insitu.InSitu(short["rtt_ms"]["p50"] * 1e6, 0.0, "good"))
    assert right.return_path == pytest.approx(7000, abs=500)


def test_samples_say_how_far_they_spread() -> None:
    samples = Samples((10.0, 11.0, 12.0, 13.0, 90.0))
    assert samples.median == 12
    assert samples.spread == "median of 5, half of them within 10.5..51.5 ns"
    assert samples.less(Samples((11.5, 11.5))).ns == (0.0, 0.0, 0.5, 1.5, 78.5)
