"""A variant's summary as text: `tc -s qdisc show`, `ping`, byte_queue_limits, and what the run says of itself.

80 columns, no colours, no locale. What is missing reads `-`. Counters are of the whole run; RTT, goodput and the
distributions are of the measured window.
"""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from emulator.report.figures import count, percent, plural, rate, rate_scale, sig
from emulator.report.tc import WIDTH, qdisc_lines

Summary = Mapping[str, Any]
_RTT = ("min", "avg", "p50", "p99", "max")


def variant_text(s: Summary) -> str:
    """Everything about one variant, ending in a newline."""
    parts = [
        [_title(s)],
        _scope(),
        _failure(s),
        [line for q in s["qdiscs"] if q["dev"] == s["dev"] for line in qdisc_lines(q)],
        _ping(s),
        _bql(s),
        _ring(s),
        _napi(s),
        _goodput(s),
        _losses(s),
        _watchdog(s),
        _identities(s),
        _expectations(s),
        _timing(s),
        _process(s),
    ]
    return "".join(f"{line}\n" for part in parts for line in part)


def _wrap(text: str, indent: str = "  ") -> list[str]:
    """`text` in 80 columns; continued lines are indented."""
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False) or [""]


def _title(s: Summary) -> str:
    bql, qdisc = s["bql"], s["qdisc"]
    facts = [
        f"BQL {bql['variant']}" if bql else "",
        f"tx-usecs {bql['tx_usecs']:g}" if bql and bql["tx_usecs"] is not None else "",
        qdisc["kind"] if qdisc else "",
        f"{sig(s['duration_s'])} s measured, {s['clock']} clock",
    ]
    title = f"== {s['name']}: {', '.join(f for f in facts if f)} "
    return title + "=" * max(2, WIDTH - len(title))


def _scope() -> list[str]:
    """Said once, so that nobody divides a counter by the measured time."""
    return ["(counters: since the start, warm-up included; all else: of the time measured)"]


def _failure(s: Summary) -> list[str]:
    lines = [] if s["complete"] else _wrap(f"INCOMPLETE: {s['verdict']}")
    if s["complete"] and s["verdict"] != "ok":
        lines += _wrap(f"verdict: {s['verdict']}")
    if s["fault"]:
        lines += _wrap(f"KERNEL FAULT: {s['fault']}")
    return lines + [line for warning in s["warnings"] for line in _wrap(f"warning: {warning}")]


def _ping(s: Summary) -> list[str]:
    ping = s["ping"]
    if ping is None:
        return []
    head = (
        f"{ping['sent']} packets transmitted, {ping['received']} received, {percent(s['ping_loss_pct'])}% packet loss"
    )
    head += f", {ping['outstanding']} outstanding" if ping["outstanding"] else ""
    head += f", {ping['unsent']} due but never sent" if ping["unsent"] else ""
    lines = [f"--- {s['peer']} ping statistics ---", *_wrap(head)]
    if s["rtt_ms"] is None:
        return [*lines, "no reply, so no round-trip time"]
    rtt, intended, later = s["rtt_ms"], s["rtt_intended_ms"], _RTT[1:]
    return [
        *lines,
        *_wrap(f"rtt {'/'.join(_RTT)} = {_slashed(rtt, _RTT)} ms (n={rtt['n']})"),
        *_wrap(
            f"  mdev {rtt['mdev']:.3f} ms; from the intended send {'/'.join(later)} = {_slashed(intended, later)} ms"
        ),
    ]


def _slashed(rtt: Mapping[str, Any], keys: Sequence[str]) -> str:
    return "/".join(f"{rtt[key]:.3f}" for key in keys)


def _bql(s: Summary) -> list[str]:
    bql = s["bql"]
    if bql is None:
        return []
    if bql["variant"] == "off":
        return [f"{s['dev']} byte_queue_limits: off"]
    polled = bql["polled"]
    return [
        *_wrap(
            f"{s['dev']} byte_queue_limits: limit {count(bql['limit_now'])} inflight {count(bql['inflight_now'])}"
            f" stall_cnt {count(bql['stall_cnt'])}; STACK_XOFF set {bql['stack_xoff']} times,"
            f" cleared by completion {bql['stack_wake']}"
        ),
        *_wrap(
            f"  every completion (n={bql['n']}): limit p50 {count(bql['limit_p50'])}"
            f" ({count(bql['limit_min'])}..{count(bql['limit_max'])}), in flight p50 {count(bql['inflight_p50'])}"
            f" max {count(bql['inflight_max'])}, {count(bql['count_p50'])} packets each"
            f" (mean {sig(bql['count_mean'])}), every {sig(bql['interval_us_p50'])} us",
            "    ",
        ),
        *_wrap(
            f"  polled as sysfs (n={polled['n']}): limit p50 {count(polled['limit_p50'])},"
            f" in flight p50 {count(polled['inflight_p50'])} max {count(polled['inflight_max'])}",
            "    ",
        ),
    ]


def _ring(s: Summary) -> list[str]:
    ring = s["ring"]
    if ring is None:
        return []
    return _wrap(
        f"ring of {s['peer']}: {ring['size']} entries; occupied p50 {count(ring['occupied_p50'])}"
        f" max {count(ring['occupied_max'])} (polled, n={ring['n']}); DRV_XOFF set {count(ring['drv_xoff'])} times,"
        f" woken {count(ring['drv_wake'])}"
    )


def _napi(s: Summary) -> list[str]:
    napi = s["napi"]
    if napi is None:
        return []
    return _wrap(
        f"napi of {s['peer']}: {napi['polls']} polls, {napi['work']} packets, p50 {count(napi['work_p50'])} a poll;"
        f" {napi['repolls']} used the whole weight, {napi['missed']} missed, {napi['gro_flushes']} GRO flushes"
    )


def _goodput(s: Summary) -> list[str]:
    if s["goodput_pps"] is None:
        return []
    text = f"goodput {rate(s['goodput_pps'])}"
    spread = s["goodput"]
    if spread["n"]:
        divisor, unit = rate_scale(s["goodput_pps"])
        low, mean, high = (sig(spread[key] / divisor) for key in ("min_pps", "mean_pps", "max_pps"))
        text += f" (min/mean/max {low}/{mean}/{high} {unit} over n={spread['n']} parts of {sig(spread['window_s'])} s)"
    return _wrap(text)


def _losses(s: Summary) -> list[str]:
    """Where packets ended that did not arrive; nothing is said of flows that lost none."""
    lines = []
    for f in s["flows"]:
        facts = [f"{reason} {n}" for reason, n in sorted(f["drops"].items()) if n]
        facts += [f"{key} {f[key]}" for key in ("nomem", "duplicates", "reordered", "corrupt") if f[key]]
        if facts:
            lines += _wrap(f"{f['label']}: sent {f['sent']}, received {f['received']}; {', '.join(facts)}")
    return lines


def _watchdog(s: Summary) -> list[str]:
    timeouts = s["watchdog"]["timeouts"]
    return [f"watchdog: {'not known' if timeouts is None else plural(timeouts, 'transmit timeout')}"]


def _identities(s: Summary) -> list[str]:
    checks = s["identities"]["checks"]
    failed = [c for c in checks if not c["ok"]]
    if s["identities"]["ok"] is None and not failed:
        return ["identities: not checked"]
    if not failed:
        return [f"identities: all {len(checks)} hold"]
    if s["identities"]["ok"] is None:
        mark, lines = (
            "off",
            [f"identities: {len(checks) - len(failed)} of {len(checks)} hold; who died had something in hand"],
        )
    else:
        mark, lines = "FAILED", [f"identities: {len(failed)} of {len(checks)} FAILED"]
    for c in failed:
        difference = "" if c["difference"] is None else f" (difference {c['difference']:+})"
        detail = f": {c['detail']}" if c["detail"] else ""
        lines += _wrap(f"  {mark} {c['name']}: {c['left']} != {c['right']}{difference}{detail}", "    ")
    return lines


def _expectations(s: Summary) -> list[str]:
    results = s["expectations"]
    failed = [r for r in results if not r["ok"]]
    if not results:
        return []
    if not failed:
        return [f"expectations: all {len(results)} met"]
    lines = [f"expectations: {len(failed)} of {len(results)} FAILED"]
    for r in failed:
        lines += _wrap(f"  FAILED {r['expected']}: {r['message']}", "    ")
    return lines


def _timing(s: Summary) -> list[str]:
    timing = s["timing"]
    reasons = "; ".join(timing["reasons"])
    return _wrap(f"timing: {timing['verdict']}{' - ' + reasons if reasons else ''}")


def _process(s: Summary) -> list[str]:
    facts = [
        f"{sig(s['memory_mb'])} MB" if s["memory_mb"] is not None else "",
        f"start to first packet {sig(s['start_to_first_packet_s'])} s"
        if s["start_to_first_packet_s"] is not None
        else "",
        plural(len(s["agents"]), "agent"),
    ]
    dead = [a for a in s["agents"] if a["exit"] != "ok"]
    lines = _wrap("process: " + ", ".join(f for f in facts if f))
    return lines + [line for a in dead for line in _wrap(f"  {a['name']} (pid {a['pid']}): {a['exit']}", "    ")]
