"""The segment's clock: calibrated where the cycle counter can be trusted, CLOCK_MONOTONIC where not."""

import time

import pytest

from emulator.runtime import clocksource
from emulator.runtime.clocksource import ClockParams, Reading, SegmentClock, calibrate, params_from, read_clocks

MS = 1_000_000


def readings(ghz=2.4, width_ns=30, third_error_ns=0, tsc=10**15, ns=5 * 10**12):
    def at(after_ns, error_ns=0):
        return Reading(int(tsc + after_ns * ghz), ns + after_ns + error_ns, width_ns)

    return at(0), at(20 * MS), at(40 * MS, third_error_ns)


@pytest.mark.parametrize("ghz", [0.2, 1.0, 2.4459, 5.7, 10.0])
def test_the_rate_is_found(ghz):
    params = params_from(*readings(ghz))
    assert params.name == "tsc"
    after_an_hour = int(3600e9 * ghz)
    found_ns = after_an_hour * params.tsc_mult >> clocksource.TSC_SHIFT
    assert found_ns == pytest.approx(3600e9, rel=1e-6)
    assert (params.tsc_base, params.ns_base) == (10**15, 5 * 10**12)


@pytest.mark.parametrize(
    ("measured", "reason"),
    [
        (readings(0.19), "seems to run at 0.19 GHz"),
        (readings(11), "seems to run at 11 GHz"),
        (readings(-2.4), "stood still or went back"),
        (readings(0), "stood still"),
        ((Reading(0, 0, 1), Reading(10, 0, 1), Reading(20, 0, 1)), "stood still"),
        (readings(third_error_ns=5_000), "drifted by 5000 ns in 40 ms"),
        (readings(third_error_ns=-5_000), "drifted by"),
    ],
)
def test_a_counter_that_does_not_agree_with_itself_is_not_used(measured, reason):
    params = params_from(*measured)
    assert (params.tsc_base, params.ns_base, params.tsc_mult) == (0, 0, 0)
    assert params.name == "clock_gettime"
    assert reason in params.reason


def test_wide_readings_excuse_an_error_as_large_as_they_are():
    assert params_from(*readings(width_ns=5_000, third_error_ns=5_000)).tsc_mult > 0


def test_a_machine_without_a_trusted_counter_uses_clock_monotonic(monkeypatch):
    monkeypatch.setattr(clocksource, "PLAIN", False)
    monkeypatch.setattr(clocksource, "tsc_unusable_reason", lambda: "no trusted cycle counter here")
    monkeypatch.setattr(clocksource, "read_clocks", None)
    params = calibrate()
    assert params == ClockParams(0, 0, 0, "no trusted cycle counter here")
    before = time.monotonic_ns()
    now = SegmentClock(params).now_ns()
    assert before <= now <= time.monotonic_ns()


def test_a_bad_measurement_is_repeated_and_then_given_up(monkeypatch):
    good, bad = readings(), readings(third_error_ns=9_000)
    monkeypatch.setattr(clocksource, "PLAIN", False)
    monkeypatch.setattr(clocksource, "tsc_unusable_reason", lambda: None)
    for sequence, name in (((*bad, *bad, *good), "tsc"), ((*bad, *bad, *bad), "clock_gettime")):
        remaining = iter(sequence)
        monkeypatch.setattr(clocksource, "read_clocks", lambda remaining=remaining: next(remaining))
        assert calibrate(0).name == name


def test_both_clocks_move_on():
    first, second = read_clocks(), read_clocks()
    assert second.ns > first.ns
    assert second.tsc > first.tsc
    assert first.width_ns >= 0


def test_the_launchers_clock_never_goes_back_and_stays_with_clock_monotonic():
    clock = SegmentClock(calibrate(0.005))
    times = [clock.now_ns() for _ in range(1000)]
    assert times == sorted(times)
    assert times[-1] == pytest.approx(time.monotonic_ns(), abs=10**9)
