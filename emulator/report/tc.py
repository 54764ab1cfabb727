"""A qdisc as `tc -s qdisc show` prints it.

Upstream: iproute2 tc/tc_qdisc.c, tc/q_fq_codel.c, tc/q_codel.c, tc/q_sfq.c, tc/q_fifo.c. Departures: no refcnt, and the
first line is broken where 80 columns end.
"""

import textwrap
from collections.abc import Callable, Mapping
from typing import Any

from emulator.report.figures import duration_ns, size_bytes

WIDTH = 80


def _packets(n: Any) -> str:
    return f"{n}p"


def _flag(name: str) -> Callable[[Any], str]:
    return lambda _on: name


# for each kind: option, how tc names it, how it prints its value; a truth prints its name alone
_OPTIONS: dict[str, tuple[tuple[str, str, Callable[[Any], str]], ...]] = {
    "pfifo": (("limit", "limit", _packets),),
    "pfifo_head_drop": (("limit", "limit", _packets),),
    "bfifo": (("limit", "limit", size_bytes),),
    "codel": (
        ("limit", "limit", _packets),
        ("target", "target", duration_ns),
        ("ce_threshold", "ce_threshold", duration_ns),
        ("interval", "interval", duration_ns),
        ("ecn", "", _flag("ecn")),
    ),
    "fq_codel": (
        ("limit", "limit", _packets),
        ("flows", "flows", str),
        ("quantum", "quantum", str),
        ("target", "target", duration_ns),
        ("ce_threshold", "ce_threshold", duration_ns),
        ("interval", "interval", duration_ns),
        ("memory_limit", "memory_limit", size_bytes),
        ("ecn", "", _flag("ecn")),
        ("drop_batch", "drop_batch", str),
    ),
    "sfq": (
        ("limit", "limit", _packets),
        ("quantum", "quantum", lambda n: f"{n}b"),
        ("depth", "depth", str),
        ("headdrop", "", _flag("headdrop")),
        ("divisor", "divisor", str),
    ),
}

EXTRAS: dict[str, tuple[tuple[str, ...], ...]] = {
    # lines of extras, in tc's order; others follow on a line of their own
    "fq_codel": (
        (
            "maxpacket",
            "drop_overlimit",
            "new_flow_count",
            "ecn_mark",
            "ce_mark",
            "memory_used",
            "drop_overmemory",
        ),
        ("new_flows_len", "old_flows_len"),
    ),
    "codel": (
        ("count", "lastcount", "ldelay", "drop_next"),
        ("maxpacket", "ecn_mark", "ce_mark", "drop_overlimit"),
    ),
}


def qdisc_lines(q: Mapping[str, Any]) -> list[str]:
    """One qdisc; `q`: an entry of the summary's `qdiscs`."""
    head = f"qdisc {q['kind']} {q['handle']} dev {q['dev']} {q['parent']} {_options(q)}"
    lines = textwrap.wrap(head, WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    lines += textwrap.wrap(
        f"Sent {q['sent_bytes']} bytes {q['sent_packets']} pkt"
        f" (dropped {q['dropped']}, overlimits {q['overlimits']} requeues {q['requeues']})",
        WIDTH,
        initial_indent=" ",
        subsequent_indent=" ",
    )
    lines.append(f" backlog {q['backlog_bytes']}b {q['backlog_packets']}p requeues {q['requeues']}")
    return lines + _extras(q["kind"], q["extras"])


def _options(q: Mapping[str, Any]) -> str:
    words = []
    for option, name, show in _OPTIONS.get(q["kind"], ()):
        value = q["options"].get(option)
        if value is not None and value is not False:
            words.append(f"{name} {show(value)}".strip())
    return " ".join(words)


def _extras(kind: str, extras: Mapping[str, Any]) -> list[str]:
    known = EXTRAS.get(kind, ())
    rest = tuple(name for name in extras if not any(name in line for line in known))
    lines = []
    for names in (*known, rest):
        text = " ".join(f"{name} {extras[name]}" for name in names if name in extras)
        lines += textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="  ")
    return lines
