"""One sentence that says what was seen, worked out from the numbers alone.

What cannot be compared is not compared: an incomplete variant, a broken identity or a kernel fault is named instead.
Otherwise the reference is the first variant without BQL, or else the first. Numbers count as different when

    RTT      its averages differ by more than 5 % and by more than three standard errors
    goodput  the rates differ by more than 3 %

and not otherwise: then "no difference" is what is said. Whether the spreads overlap is said too.
"""

import math
from collections.abc import Sequence

from emulator.report.figures import count, ms, percent, plural, rate, rate_scale, sig
from emulator.report.text import Summary

SAME_RTT = 0.05
SAME_GOODPUT = 0.03
STANDARD_ERRORS = 3
TIMES_FROM = 1.95  # from here on a ratio reads better than a percentage


def sentence(summaries: Sequence[Summary]) -> str:
    """What these variants showed."""
    if not summaries:
        return "nothing ran."
    trouble = [t for s in summaries if (t := _trouble(s))]
    if trouble:
        rest = " Nothing is compared." if len(summaries) > 1 else ""
        return f"{'; '.join(trouble)}.{rest}"
    if len(summaries) == 1:
        return _alone(summaries[0])
    base = _reference(summaries)
    others = [s for s in summaries if s is not base]
    if len(others) == 1:
        return _pair(base, others[0])
    return _several(base, others)


def _reference(summaries: Sequence[Summary]) -> Summary:
    return next((s for s in summaries if s["bql"] and s["bql"]["variant"] == "off"), summaries[0])


def _trouble(s: Summary) -> str | None:
    """Why this variant's numbers must not be compared."""
    if not s["complete"]:
        return f"{label(s)} is incomplete after {sig(s['duration_s'])} s: {s['verdict'].rstrip('.')}"
    if s["fault"]:
        return f"{label(s)} met a kernel fault: {s['fault'].rstrip('.')}"
    if s["identities"]["ok"] is False:
        broken = next(c for c in s["identities"]["checks"] if not c["ok"])
        return (
            f"{label(s)} broke an identity ({broken['name']}: {broken['left']} != {broken['right']}),"
            " so its numbers cannot be trusted"
        )
    return None


def label(s: Summary) -> str:
    """The variant's name; `BQL v7` where it is called just `v7`, and in quotes where it is several words."""
    bql, name = s["bql"], str(s["name"])
    if bql and bql["variant"] == name != "off":
        return f"BQL {name}"
    return f"'{name}'" if " " in name else name


def _alone(s: Summary) -> str:
    facts = []
    if s["rtt_ms"]:
        facts.append(f"the ping's RTT averaged {ms(s['rtt_ms']['avg'])} (p99 {ms(s['rtt_ms']['p99'])})")
    elif s["ping"] and s["ping"]["sent"]:
        facts.append(f"none of {plural(s['ping']['sent'], 'ping')} was answered")
    if s["goodput_pps"] is not None:
        facts.append(f"goodput was {rate(s['goodput_pps'])}")
    facts += _standing(s)
    said = ", ".join(facts) if facts else "no packets were measured"
    return f"{label(s)}: {said}{_loss(s)}{_timeouts([s])}{_timing([s])}."


def _standing(s: Summary) -> list[str]:
    """Where the packets stood: within BQL's limit, or in the ring."""
    bql, ring = s["bql"], s["ring"]
    if bql and bql["limit_p50"] is not None and bql["inflight_max"] is not None:
        return [
            f"BQL held the limit at {count(bql['limit_p50'])} packets and at most"
            f" {count(bql['inflight_max'])} were in flight"
        ]
    if ring and ring["occupied_p50"] is not None and s["goodput_pps"]:
        wait_ms = ring["occupied_p50"] / s["goodput_pps"] * 1000
        return [
            f"half of the time {count(ring['occupied_p50'])} or more of the ring's {ring['size']} entries stood"
            f" before a new packet, {ms(wait_ms)} at this rate"
        ]
    return []


def _pair(base: Summary, other: Summary) -> str:
    tail = f"{_losses(base, other)}{_timeouts([base, other])}{_timing([base, other])}."
    if not base["rtt_ms"] or not other["rtt_ms"]:
        return f"{_without_rtt(base, other)}{tail}"
    a, b = base["rtt_ms"]["avg"], other["rtt_ms"]["avg"]
    same_rtt, same_goodput = _same_rtt(base, other), _same_goodput(base, other)
    if same_rtt and same_goodput is not False:
        return (
            f"no difference: the ping's RTT was {ms(b)} with {label(other)} against {ms(a)} with {label(base)}"
            f" ({_relative(a, b)}; n={other['rtt_ms']['n']} and {base['rtt_ms']['n']})"
            f"{_at_goodput(base, other)}{tail}"
        )
    if same_rtt:
        return (
            f"no clear difference in the ping's RTT: {ms(b)} with {label(other)} against {ms(a)} with {label(base)}"
            f" ({_relative(a, b)}, within its spread){_at_goodput(base, other)}{tail}"
        )
    verb = "cut" if b < a else "raised"
    return (
        f"{label(other)} {verb} the ping's RTT from {ms(a)} to {ms(b)} ({_ratio(a, b)})"
        f"{_against(base, other)}{_at_goodput(base, other)}{tail}"
    )


def _against(base: Summary, other: Summary) -> str:
    """Names the reference where the reader could not guess it."""
    stock = base["bql"] and base["bql"]["variant"] == "off" and other["bql"] and other["bql"]["variant"] != "off"
    return "" if stock else f" against {label(base)}"


def _several(base: Summary, others: Sequence[Summary]) -> str:
    all_of_them = [base, *others]
    tail = f"{_losses(*all_of_them)}{_timeouts(all_of_them)}{_timing(all_of_them)}."
    if not base["rtt_ms"]:
        goodputs = ", ".join(f"{label(s)} {rate(s['goodput_pps'])}" for s in all_of_them)
        return f"no ping was answered with {label(base)}, so RTTs are not compared; goodput: {goodputs}{tail}"
    parts = []
    for s in others:
        if not s["rtt_ms"]:
            parts.append(f"{label(s)} has no RTT")
            continue
        a, b = base["rtt_ms"]["avg"], s["rtt_ms"]["avg"]
        parts.append(f"{label(s)} {ms(b)} ({'no difference' if _same_rtt(base, s) else _ratio(a, b)})")
    return (
        f"against the RTT of {ms(base['rtt_ms']['avg'])} with {label(base)}: {', '.join(parts)}"
        f"{_goodput_range(all_of_them)}{tail}"
    )


def _goodput_range(summaries: Sequence[Summary]) -> str:
    rates = [s["goodput_pps"] for s in summaries if s["goodput_pps"] is not None]
    if len(rates) < 2 or max(rates) == 0:
        return ""
    if (max(rates) - min(rates)) / max(rates) <= SAME_GOODPUT:
        return f"; all at the same goodput ({rate(max(rates))}, within {_difference(min(rates), max(rates))})"
    return f"; goodput from {rate(min(rates))} to {rate(max(rates))}"


def _without_rtt(base: Summary, other: Summary) -> str:
    missing = [s for s in (base, other) if not s["rtt_ms"]]
    if all(s["ping"] is None for s in missing):
        said = "there was no ping" if len(missing) == 2 else f"there was no ping with {label(missing[0])}"
    else:
        said = f"no ping was answered with {' and '.join(label(s) for s in missing)}"
    return f"{said}, so RTTs are not compared{_goodput_alone(base, other)}"


def _goodput_alone(base: Summary, other: Summary) -> str:
    a, b = base["goodput_pps"], other["goodput_pps"]
    if a is None or b is None:
        return ""
    same = _same_goodput(base, other)
    change = f"no difference, {_relative(a, b)}" if same else _ratio(a, b)
    return f"; goodput was {rate(b)} with {label(other)} against {rate(a)} with {label(base)} ({change})"


def _same_rtt(base: Summary, other: Summary) -> bool:
    a, b = base["rtt_ms"], other["rtt_ms"]
    error = math.hypot(a["mdev"] / math.sqrt(a["n"]), b["mdev"] / math.sqrt(b["n"]))
    apart = abs(a["avg"] - b["avg"])
    return bool(apart <= SAME_RTT * a["avg"] or apart <= STANDARD_ERRORS * error)


def _same_goodput(base: Summary, other: Summary) -> bool | None:
    a, b = base["goodput_pps"], other["goodput_pps"]
    if a is None or b is None:
        return None
    return bool(abs(a - b) <= SAME_GOODPUT * max(a, b))


def _at_goodput(base: Summary, other: Summary) -> str:
    a, b = base["goodput_pps"], other["goodput_pps"]
    if a is None or b is None:
        return ""
    if max(a, b) == 0:
        return ", with no goodput at all"
    if _same_goodput(base, other):
        return f" at the same goodput ({rate(b)}, difference {_difference(a, b)})"
    divisor, unit = rate_scale(a, b)
    numbers = f"{sig(b / divisor)} against {sig(a / divisor)} {unit}"
    overlap = ", though their spreads overlap" if _overlap(base, other) else ""
    return f", with {_ratio(a, b)} goodput ({numbers}{overlap})" if a and b else f", with goodput {numbers}"


def _overlap(base: Summary, other: Summary) -> bool:
    a, b = base["goodput"], other["goodput"]
    if min(a["n"], b["n"]) < 2:
        return False
    return bool(a["min_pps"] <= b["max_pps"] and b["min_pps"] <= a["max_pps"])


def _ratio(a: float, b: float) -> str:
    """How b relates to a: `10.2 times less`, `3.1 times as much`, `12 % less`."""
    if a == b:
        return "as much"
    if b == 0:
        return "nothing left"
    if a == 0:
        return "up from nothing"
    if a / b >= TIMES_FROM:
        return f"{sig(a / b)} times less"
    if b / a >= TIMES_FROM:
        return f"{sig(b / a)} times as much"
    return f"{100 * abs(b - a) / a:.1f} % {'less' if b < a else 'more'}"


def _relative(a: float, b: float) -> str:
    if a == 0:
        return "up from 0" if b else "0 %"
    return f"{100 * (b - a) / a:+.1f} %"


def _difference(a: float, b: float) -> str:
    return f"{100 * abs(a - b) / max(a, b):.1f} %"


def _loss(s: Summary) -> str:
    return f"; {percent(s['ping_loss_pct'])} % of pings were lost" if s["ping_loss_pct"] else ""


def _losses(*summaries: Summary) -> str:
    """Ping loss of each, when any lost one."""
    if not any(s["ping_loss_pct"] for s in summaries):
        return ""
    said = ", ".join(f"{percent(s['ping_loss_pct'])} % with {label(s)}" for s in summaries if s["ping"])
    return f"; ping loss was {said}"


def _timeouts(summaries: Sequence[Summary]) -> str:
    """Watchdog timeouts, when there were any."""
    fired = [s for s in summaries if s["watchdog"]["timeouts"]]
    said = ", ".join(f"{plural(s['watchdog']['timeouts'], 'time')} with {label(s)}" for s in fired)
    return f"; the watchdog fired {said}" if fired else ""


def _timing(summaries: Sequence[Summary]) -> str:
    """A machine that got in the way is mentioned wherever a difference is claimed."""
    poor = [label(s) for s in summaries if s["timing"]["verdict"] == "poor"]
    return f"; timing was poor with {' and '.join(poor)}" if poor else ""
