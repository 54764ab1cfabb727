"""From measurement to summary: what is counted, what is left out, what is missing."""

import json
from dataclasses import replace

import numpy as np
import pytest

from emulator.errors import ExitCode
from emulator.report.blank import blank_measurement, blank_qdisc, blank_txq, one_value
from emulator.report.measurement import FlowCount, IdentityCheck, Probes, RingCount, VariantMeasurement
from emulator.report.summary import severest, summarise

MS = 1_000_000


def probes(*rows, until=10_000, grace=0):
    """Rows of (intended, sent, received) in ms, 0 for what did not happen."""
    intended, sent, received = (np.array(column, dtype=np.int64) * MS for column in zip(*rows, strict=True))
    return Probes(intended, sent, received, observed_until_ns=until * MS, grace_ns=grace * MS)


def test_a_measurement_survives_json():
    m = blank_measurement()
    plain = json.loads(json.dumps(m.to_dict(), allow_nan=False))
    again = VariantMeasurement.from_dict(plain)
    assert again.to_dict() == m.to_dict()
    assert again.probes.sent_ns.dtype == np.int64
    assert summarise(again) == summarise(m)


def test_a_sample_that_is_missing_survives_json():
    m = replace(blank_measurement(), series={"t_s": np.array([0.0, 1.0]), "limit": np.array([np.nan, 16.0])})
    plain = json.loads(json.dumps(m.to_dict(), allow_nan=False))
    assert plain["series"]["limit"] == [None, 16.0]
    assert np.isnan(VariantMeasurement.from_dict(plain).series["limit"][0])


def test_names_that_are_not_ours_are_refused():
    plain = blank_measurement().to_dict()
    with pytest.raises(ValueError, match="goodput"):
        VariantMeasurement.from_dict(plain | {"goodput": 1})
    with pytest.raises(ValueError, match="duration_s"):
        VariantMeasurement.from_dict({k: v for k, v in plain.items() if k != "duration_s"})


def test_columns_of_different_length_are_refused():
    with pytest.raises(ValueError, match="length"):
        Probes(np.zeros(2, "i8"), np.zeros(2, "i8"), np.zeros(1, "i8"), 0, 0)
    with pytest.raises(ValueError, match="length"):
        replace(blank_measurement(), series={"t_s": np.zeros(2), "limit": np.zeros(3)})


def test_a_summary_is_plain_json():
    s = summarise(blank_measurement())
    assert json.loads(json.dumps(s, allow_nan=False)) == s


def test_goodput_is_what_the_flood_delivered_within_the_window():
    flows = [
        FlowCount(0, "flood 0", sent=9000, received=5000, received_in_window=4000, window_s=2.0),
        FlowCount(1, "flood 1", sent=9000, received=2000, received_in_window=1000, window_s=2.0),
        FlowCount(2, "ping request", sent=500, received=500, received_in_window=500, window_s=2.0),
    ]
    assert summarise(replace(blank_measurement(), flows=flows))["goodput_pps"] == 2500
    assert summarise(replace(blank_measurement(), flows=flows[2:]))["goodput_pps"] is None


def test_a_flood_that_delivered_nothing_has_a_goodput_of_0():
    flows = [FlowCount(0, "flood 0", sent=9, received=0, received_in_window=0, window_s=1.0)]
    assert summarise(replace(blank_measurement(), flows=flows))["goodput_pps"] == 0


def test_the_spread_is_over_ten_parts_of_the_window():
    t = np.arange(-1.0, 3.0001, 0.01)  # a second of warm-up before, one after
    received = np.where(t < 1, 1000 * t, 1000 + 3000 * (t - 1))  # 1000 pps, then 3000 pps
    m = replace(blank_measurement(), duration_s=2.0, series={"t_s": t, "received": received})
    spread = summarise(m)["goodput"]
    assert spread["n"] == 10
    assert spread["window_s"] == pytest.approx(0.2, rel=0.01)
    assert spread["min_pps"] == pytest.approx(1000)
    assert spread["max_pps"] == pytest.approx(3000)
    assert spread["mean_pps"] == pytest.approx(2000, rel=0.01)


@pytest.mark.parametrize(("samples", "parts"), [(0, 0), (1, 0), (2, 0), (3, 1), (8, 3), (500, 10)])
def test_a_part_has_at_least_two_samples(samples, parts):
    t = np.linspace(0, 1, samples)
    spread = summarise(replace(blank_measurement(), series={"t_s": t, "received": 100 * t}))["goodput"]
    assert spread["n"] == parts
    assert (spread["min_pps"] is None) == (parts == 0)


def test_rtt_is_from_the_send_and_delay_from_the_schedule():
    s = summarise(replace(blank_measurement(), probes=probes((100, 101, 103), (120, 130, 131))))
    assert (s["rtt_ms"]["avg"], s["rtt_ms"]["max"], s["rtt_ms"]["n"]) == (1.5, 2.0, 2)
    assert (s["rtt_intended_ms"]["avg"], s["rtt_intended_ms"]["max"]) == (7.0, 11.0)


def test_probes_of_the_last_moment_are_outstanding_not_lost():
    rows = [(100, 100, 102), (200, 200, 0), (960, 960, 0), (970, 970, 972), (980, 0, 0)]
    s = summarise(replace(blank_measurement(), probes=probes(*rows, until=1000, grace=50)))
    assert s["ping"] == {"sent": 4, "received": 2, "lost": 1, "outstanding": 1, "unsent": 1}
    assert s["ping_loss_pct"] == pytest.approx(100 / 3)
    assert s["rtt_ms"]["n"] == 2


def test_no_ping_no_numbers():
    s = summarise(replace(blank_measurement(), probes=None))
    assert (s["ping"], s["ping_loss_pct"], s["rtt_ms"], s["rtt_intended_ms"]) == (None, None, None, None)


def test_every_probe_lost_is_a_loss_but_no_rtt():
    s = summarise(replace(blank_measurement(), probes=probes((1, 1, 0), (2, 2, 0))))
    assert (s["ping_loss_pct"], s["rtt_ms"]) == (100, None)


def test_nothing_sent_has_no_loss():
    s = summarise(replace(blank_measurement(), probes=probes((1, 0, 0))))
    assert (s["ping_loss_pct"], s["ping"]["unsent"]) == (None, 1)


def test_a_reply_before_its_request_fails_the_run_and_stays_out_of_the_rtt():
    s = summarise(replace(blank_measurement(), probes=probes((10, 10, 9), (20, 20, 22))))
    assert s["rtt_ms"]["n"] == 1
    assert s["identities"]["ok"] is False
    assert s["exit_code"] == ExitCode.CHECK_FAILED


def test_without_bql_there_is_no_limit_but_the_counters_stay():
    bql = summarise(blank_measurement(bql="off"))["bql"]
    assert bql["variant"] == "off"
    missing = ("tx_usecs", "limit_p50", "limit_now", "limit_max", "inflight_p50", "inflight_max", "count_p50", "polled")
    assert [bql[key] for key in missing] == [None] * len(missing)
    assert bql["stack_xoff"] == 0


def test_bql_that_completed_nothing_has_no_percentiles():
    empty = one_value(0, n=0)
    txq = replace(blank_txq("v7"), limit_hist=empty, inflight_hist=empty, count_hist=empty, interval_hist=empty)
    bql = summarise(replace(blank_measurement(), txqs=[txq]))["bql"]
    assert (bql["limit_p50"], bql["limit_max"], bql["inflight_max"], bql["n"]) == (None, None, None, 0)
    assert bql["limit_now"] == 1


def test_queues_of_a_device_are_taken_together_and_the_peers_are_not():
    first = replace(blank_txq("v7"), limit_hist=one_value(16, 3), inflight_hist=one_value(17, 3), stack_xoff=5)
    second = replace(blank_txq("v7"), queue=1, limit_hist=one_value(20), inflight_hist=one_value(9), stack_xoff=2)
    back = replace(blank_txq("v7"), dev="veth1", limit_hist=one_value(99, 99), stack_xoff=100, trans_timeout=1)
    s = summarise(replace(blank_measurement(), txqs=[first, second, back]))
    bql = s["bql"]
    assert (bql["limit_p50"], bql["limit_min"], bql["limit_max"], bql["n"]) == (16, 16, 20, 4)
    assert (bql["inflight_max"], bql["stack_xoff"]) == (17, 7)
    assert s["watchdog"]["timeouts"] == 1


def test_both_views_of_bql_are_kept_apart():
    series = {"t_s": np.array([0.0, 1, 2]), "limit": np.array([np.nan, 8, 16]), "inflight": np.array([3.0, 1, 2])}
    txq = replace(blank_txq("v7"), limit_hist=one_value(16), inflight_hist=one_value(17))
    bql = summarise(replace(blank_measurement(), txqs=[txq], series=series))["bql"]
    assert (bql["limit_p50"], bql["inflight_max"]) == (16, 17)
    assert bql["polled"] == {"limit_p50": 8, "inflight_p50": 2, "inflight_max": 3, "n": 3}


def test_v5_has_no_tx_usecs():
    assert summarise(blank_measurement(bql="v5"))["bql"]["tx_usecs"] is None
    assert summarise(blank_measurement(bql="v6"))["bql"]["tx_usecs"] == 100


def test_the_ring_is_the_peers():
    rings = [RingCount("veth0", 0, 512, 1, 1), RingCount("veth1", 0, 256, 7, 5)]
    m = replace(blank_measurement(), rings=rings, txqs=[replace(blank_txq("off"), drv_xoff=4, drv_wake=3)])
    m = replace(m, series={"t_s": np.array([0.0, 1, 2]), "ring": np.array([256.0, 200, 192])})
    ring = summarise(m)["ring"]
    assert ring == {
        "size": 256, "drv_xoff": 4, "drv_wake": 3, "occupied_p50": 200, "occupied_max": 256, "n": 3,
        "occupied_now": 7, "tagged_now": 5,
    }  # fmt: skip


def test_qdiscs_of_several_queues_are_added_up():
    one = replace(blank_qdisc("fq_codel"), sent_packets=10, dropped=1, requeues=2, extras={"maxpacket": 98})
    two = replace(one, handle="8002:", sent_packets=5, extras={"maxpacket": 64, "ecn_mark": 3})
    q = summarise(replace(blank_measurement(), qdiscs=[one, two]))["qdisc"]
    assert (q["sent"], q["dropped"], q["requeues"], q["maxpacket"], q["ecn_mark"]) == (15, 2, 4, 98, 3)


def test_what_the_run_does_not_have_is_null():
    bare = replace(blank_measurement(), qdiscs=[], txqs=[], rings=[], napis=[], identities=[], pool=None, series={})
    s = summarise(bare)
    assert [s[key] for key in ("qdisc", "bql", "ring", "napi", "pool")] == [None] * 5
    assert s["watchdog"]["timeouts"] is None
    assert s["identities"]["ok"] is None


def test_a_broken_identity_shows_both_sides_and_fails_the_run():
    checks = [IdentityCheck("per qdisc", False, 10, 12, "enqueued 10"), IdentityCheck("pool", True, 1, 1)]
    s = summarise(replace(blank_measurement(), identities=checks))
    assert s["identities"]["ok"] is False
    assert s["identities"]["checks"][0] == {
        "name": "per qdisc", "ok": False, "left": 10, "right": 12, "difference": -2, "detail": "enqueued 10",
    }  # fmt: skip
    assert s["exit_code"] == ExitCode.CHECK_FAILED


def test_a_kernel_fault_fails_the_run():
    assert summarise(replace(blank_measurement(), fault="DQL BUG"))["exit_code"] == ExitCode.CHECK_FAILED


@pytest.mark.parametrize(
    ("codes", "expected"),
    [([], 0), ([0, 0], 0), ([0, 5], 5), ([5, 1], 1), ([1, 3], 3), ([3, 130, 1], 130), ([0, 77], 77)],
)
def test_what_cut_the_run_short_comes_before_what_it_failed_to_show(codes, expected):
    assert severest(codes) == expected
