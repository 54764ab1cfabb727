"""The one sentence must be right for any numbers."""

import math
from itertools import product

import pytest

from emulator.report.blank import blank_measurement
from emulator.report.sentence import sentence
from emulator.report.summary import summarise


def summary(name, bql, rtt=None, pps=None, *, mdev=0.5, n=500, lost=0, spread=0.01, **changes):
    """A summary with this average RTT in ms (None: no reply) and this goodput."""
    s = summarise(blank_measurement(name, bql=bql))
    s["ping"] = {"sent": n, "received": n - lost, "lost": lost, "outstanding": 0, "unsent": 0}
    s["ping_loss_pct"] = 100 * lost / n
    s["rtt_ms"] = rtt and {"min": rtt, "avg": rtt, "p50": rtt, "p99": rtt, "max": rtt, "mdev": mdev, "n": n - lost}
    s["goodput_pps"] = pps
    if pps:
        s["goodput"] = {"n": 10, "mean_pps": pps, "min_pps": pps * (1 - spread), "max_pps": pps * (1 + spread)}
    return s | changes


def stock(rtt=22.4, pps=9960.0, **changes):
    return summary("stock", "off", rtt, pps, **changes)


def v7(rtt=2.2, pps=10000.0, **changes):
    return summary("v7", "v7", rtt, pps, **changes)


def test_the_cure():
    assert sentence([stock(), v7()]) == (
        "BQL v7 cut the ping's RTT from 22.4 ms to 2.20 ms (10.2 times less)"
        " at the same goodput (10.0 kpps, difference 0.4 %)."
    )


def test_the_reference_is_the_one_without_bql_wherever_it_stands():
    assert sentence([v7(), stock()]) == sentence([stock(), v7()])


def test_no_difference():
    assert sentence([stock(0.137, 1.73e6, mdev=0.01), v7(0.139, 1.74e6, mdev=0.01)]) == (
        "no difference: the ping's RTT was 0.139 ms with BQL v7 against 0.137 ms with stock"
        " (+1.5 %; n=500 and 500) at the same goodput (1.74 Mpps, difference 0.6 %)."
    )


def test_a_difference_within_the_noise_is_none():
    said = sentence([stock(20, mdev=40, n=10), v7(24, mdev=40, n=10)])
    assert said.startswith("no difference:")
    assert sentence([stock(20, mdev=4, n=500), v7(24, mdev=4, n=500)]).startswith("BQL v7 raised")


def test_worse_latency_and_less_goodput():
    assert sentence([stock(2.0, 10000), v7(6.2, 9000)]) == (
        "BQL v7 raised the ping's RTT from 2.00 ms to 6.20 ms (3.10 times as much),"
        " with 10.0 % less goodput (9.00 against 10.0 kpps)."
    )


def test_more_goodput_whose_spread_overlaps():
    said = sentence([stock(22, 10000, spread=0.2), v7(20, 11000, spread=0.2)])
    assert "(9.1 % less)" in said
    assert "with 10.0 % more goodput (11.0 against 10.0 kpps, though their spreads overlap)" in said


def test_the_same_latency_for_less_goodput_is_not_no_difference():
    said = sentence([stock(0.162, 2169898, mdev=0.01), v7(0.162, 1000000, mdev=0.01)])
    assert said.startswith("no clear difference in the ping's RTT")
    assert "2.17 times less goodput (1.00 against 2.17 Mpps)" in said


def test_losses_are_told_of_both():
    said = sentence([stock(lost=20), v7()])
    assert said.endswith("; ping loss was 4 % with stock, 0 % with BQL v7.")


def test_a_ping_that_was_never_answered():
    said = sentence([stock(None, lost=500), v7()])
    assert said.startswith("no ping was answered with stock, so RTTs are not compared; goodput was 10.0 kpps")
    assert "(no difference, +0.4 %)" in said
    assert "100 % with stock" in said


def test_no_ping_in_the_scenario():
    silent = {"ping": None, "ping_loss_pct": None}
    said = sentence([stock(None, 2000, **silent), v7(None, 1000, **silent)])
    assert said == (
        "there was no ping, so RTTs are not compared; goodput was 1.00 kpps with BQL v7 against 2.00 kpps with stock"
        " (2.00 times less)."
    )


def test_an_incomplete_variant_is_not_compared():
    dead = v7(complete=False, duration_s=1.2, verdict="agent flood (pid 123) killed by SIGKILL 1.2 s into the run")
    assert sentence([stock(), dead]) == (
        "BQL v7 is incomplete after 1.20 s: agent flood (pid 123) killed by SIGKILL 1.2 s into the run."
        " Nothing is compared."
    )


def test_a_broken_identity_is_not_trusted():
    broken = {"ok": False, "checks": [{"name": "pool", "ok": False, "left": 5, "right": 6}]}
    said = sentence([stock(identities=broken), v7()])
    assert said == ("stock broke an identity (pool: 5 != 6), so its numbers cannot be trusted. Nothing is compared.")


def test_a_kernel_fault_is_named():
    assert sentence([stock(), v7(fault="DQL BUG: completed 5 of 3")]) == (
        "BQL v7 met a kernel fault: DQL BUG: completed 5 of 3. Nothing is compared."
    )


def test_the_watchdog_and_poor_timing_are_mentioned():
    said = sentence([stock(watchdog={"timeouts": 2}), v7(timing={"verdict": "poor"})])
    assert said.endswith("; the watchdog fired 2 times with stock; timing was poor with BQL v7.")


def test_variants_that_both_lack_bql_are_named_against_each_other():
    said = sentence([summary("fq_codel", "off", 22, 1e4), summary("sfq", "off", 24.5, 1e4)])
    assert said.startswith(
        "sfq raised the ping's RTT from 22.0 ms to 24.5 ms (11.4 % more) against fq_codel at the same"
    )


def test_several_variants():
    six = summary("v6", "v6", 2.3, 9990)
    assert sentence([stock(), six, v7()]) == (
        "against the RTT of 22.4 ms with stock: BQL v6 2.30 ms (9.74 times less), BQL v7 2.20 ms (10.2 times less);"
        " all at the same goodput (10.0 kpps, within 0.4 %)."
    )
    assert "no difference" in sentence([stock(), summary("v6", "v6", 22.5, 9990), v7()])
    assert "; goodput from 5.00 kpps to 10.0 kpps" in sentence([stock(), summary("v6", "v6", 2.3, 5000), v7()])


def test_one_variant_says_where_the_packets_stood():
    s = v7()
    s["bql"] |= {"limit_p50": 16, "inflight_max": 17}
    assert sentence([s]) == (
        "BQL v7: the ping's RTT averaged 2.20 ms (p99 2.20 ms), goodput was 10.0 kpps,"
        " BQL held the limit at 16 packets and at most 17 were in flight."
    )
    s = stock()
    s["ring"] |= {"occupied_p50": 224, "size": 256}
    assert "224 or more of the ring's 256 entries stood before a new packet, 22.5 ms at this rate" in sentence([s])


def test_nothing():
    assert sentence([]) == "nothing ran."


@pytest.mark.parametrize(
    ("rtt_a", "rtt_b", "pps_a", "pps_b"),
    list(product((None, 0.016, 22.4), (None, 0.016, 2.2), (None, 0.0, 1e4), (None, 0.0, 2e6))),
)
def test_any_numbers_give_one_line_that_claims_no_wrong_direction(rtt_a, rtt_b, pps_a, pps_b):
    said = sentence([stock(rtt_a, pps_a), v7(rtt_b, pps_b)])
    assert said.endswith(".")
    assert not any(word in said for word in ("\n", "nan", "inf ", "None"))
    if rtt_a and rtt_b and not math.isclose(rtt_a, rtt_b):
        assert ("cut" in said) == (rtt_b < rtt_a)
        assert ("raised" in said) == (rtt_b > rtt_a)
    else:
        assert "cut" not in said
        assert "raised" not in said
