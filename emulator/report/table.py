"""Variants side by side, as the list posts them: a row a quantity with its unit, a column a variant.

The cells are made once; `comparison_text` lays them out for 80 columns of plain text, `comparison_rich` for a terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from emulator.report.figures import MISSING, count, percent, rate_scale, sig
from emulator.report.tc import WIDTH
from emulator.report.text import Summary

if TYPE_CHECKING:
    from rich.table import Table

Row = tuple[str, list[str]]
LONGEST_HEADER = 16
_GAP = 2


def headers(summaries: Sequence[Summary]) -> list[str]:
    """Column titles, all different; a long name is cut and numbered."""
    names = [str(s["name"]) for s in summaries]
    short = [n if len(n) <= LONGEST_HEADER else n[: LONGEST_HEADER - 6] + f"~({i})" for i, n in enumerate(names, 1)]
    return [n if short.count(n) == 1 else f"{n[: LONGEST_HEADER - 6]}({i})" for i, n in enumerate(short, 1)]


def rows(summaries: Sequence[Summary]) -> list[Row]:
    """(label with unit, one cell a variant)."""
    divisor, unit = rate_scale(*(s["goodput_pps"] for s in summaries))
    table: list[Row] = [
        (f"goodput, {unit}", [_scaled(s["goodput_pps"], divisor) for s in summaries]),
        ("  min..max of its parts", [_spread(s["goodput"], divisor) for s in summaries]),
        ("RTT avg, ms", [_rtt(s, "avg") for s in summaries]),
        ("RTT p50, ms", [_rtt(s, "p50") for s in summaries]),
        ("RTT p99, ms", [_rtt(s, "p99") for s in summaries]),
        ("RTT max, ms", [_rtt(s, "max") for s in summaries]),
        ("ping loss, %", [_loss(s) for s in summaries]),
        ("BQL limit p50, pkts", [_of(s["bql"], "limit_p50") for s in summaries]),
        ("in flight p50/max, pkts", [_pair(s["bql"], "inflight_p50", "inflight_max") for s in summaries]),
        ("ring p50/max, entries", [_pair(s["ring"], "occupied_p50", "occupied_max") for s in summaries]),
        ("STACK_XOFF, times", [_of(s["bql"], "stack_xoff") for s in summaries]),
        ("DRV_XOFF, times", [_of(s["ring"], "drv_xoff") for s in summaries]),
        ("qdisc requeues", [_of(s["qdisc"], "requeues") for s in summaries]),
        ("qdisc dropped, pkts", [_of(s["qdisc"], "dropped") for s in summaries]),
        ("watchdog timeouts", [count(s["watchdog"]["timeouts"]) for s in summaries]),
        ("timing", [str(s["timing"]["verdict"]) for s in summaries]),
    ]
    if any(not s["complete"] for s in summaries):
        table.insert(0, ("", ["" if s["complete"] else "INCOMPLETE" for s in summaries]))
    if any(s["identities"]["ok"] is False for s in summaries):
        table.append(("identities", [_verdict(s["identities"]["ok"]) for s in summaries]))
    return table


def comparison_text(summaries: Sequence[Summary]) -> str:
    """The table in at most 80 columns, ending in a newline; what does not fit goes below."""
    names, table = headers(summaries), rows(summaries)
    label_width = max(len(label) for label, _ in table)
    widths = [max(len(cell) for cell in (names[i], *(cells[i] for _, cells in table))) for i in range(len(names))]
    blocks = []
    for block in _blocks(widths, WIDTH - label_width):
        lines = [_line("", [names[i] for i in block], label_width, [widths[i] for i in block])]
        lines += [
            _line(label, [cells[i] for i in block], label_width, [widths[i] for i in block]) for label, cells in table
        ]
        blocks.append("".join(f"{line}\n" for line in lines))
    return "\n".join(blocks) + legend(summaries)


def comparison_rich(summaries: Sequence[Summary]) -> Table:
    """The same cells for a terminal."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    table.add_column("")
    for name in headers(summaries):
        table.add_column(escape(name), justify="right", header_style="bold")
    for label, cells in rows(summaries):
        table.add_row(escape(label), *(escape(cell) for cell in cells), style=_style(label, cells))
    return table


def _style(label: str, cells: list[str]) -> str | None:
    if label.startswith("RTT avg"):
        return "bold"
    return "red" if "INCOMPLETE" in cells or "FAILED" in cells else None


def _blocks(widths: list[int], room: int) -> list[list[int]]:
    """Columns that fit next to each other, at least one in each block."""
    blocks: list[list[int]] = [[]]
    used = 0
    for i, width in enumerate(widths):
        if blocks[-1] and used + _GAP + width > room:
            blocks.append([])
            used = 0
        blocks[-1].append(i)
        used += _GAP + width
    return blocks


def _line(label: str, cells: list[str], label_width: int, widths: list[int]) -> str:
    text = label.ljust(label_width)
    for cell, width in zip(cells, widths, strict=True):
        text += " " * _GAP + cell.rjust(width)
    return text.rstrip()


def legend(summaries: Sequence[Summary]) -> str:
    """Full names of the columns that had to be cut, a line each; what the counts count."""
    named = zip(headers(summaries), summaries, strict=True)
    cut = "".join(f"{header}: {s['name']}\n" for header, s in named if header != s["name"])
    return f"{cut}(XOFF, requeues, dropped and timeouts count from the start, warm-up included)\n"


def _scaled(pps: float | None, divisor: float) -> str:
    return MISSING if pps is None else sig(pps / divisor)


def _spread(goodput: dict[str, Any], divisor: float) -> str:
    if not goodput["n"]:
        return MISSING
    return f"{sig(goodput['min_pps'] / divisor)}..{sig(goodput['max_pps'] / divisor)} (n={goodput['n']})"


def _rtt(s: Summary, key: str) -> str:
    rtt = s["rtt_ms"]
    return MISSING if rtt is None else f"{sig(rtt[key])} (n={rtt['n']})" if key == "avg" else sig(rtt[key])


def _loss(s: Summary) -> str:
    ping = s["ping"]
    if ping is None or s["ping_loss_pct"] is None:
        return MISSING
    return f"{percent(s['ping_loss_pct'])} ({ping['lost']}/{ping['sent'] - ping['outstanding']})"


def _of(part: dict[str, Any] | None, key: str) -> str:
    return MISSING if part is None else count(part[key])


def _pair(part: dict[str, Any] | None, first: str, second: str) -> str:
    if part is None or (part[first] is None and part[second] is None):
        return MISSING
    return f"{count(part[first])}/{count(part[second])}"


def _verdict(ok: bool | None) -> str:
    return MISSING if ok is None else "hold" if ok else "FAILED"
