"""From the events that CPUs noted to one story: by time, with the names of agents, flows and devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from emulator.kernel.clock import DROP_REASONS, FLOWS_MAX
from emulator.kernel.trace import DROP, TRACEPOINTS
from emulator.report.measurement import Trace, TraceEvent
from emulator.runtime.build import DEVICE_NAMES, flow_labels
from emulator.runtime.placement import Seat
from emulator.scenario.model import Scenario


def traced(net: Any, scenario: Scenario, seats: Sequence[Seat]) -> Trace | None:
    """What a segment at rest holds of events; None if nothing was to be traced. IndexError if it is damaged."""
    if scenario.trace == 0:
        return None
    labels = flow_labels(scenario)
    events = [event for index, seat in enumerate(seats) for event in _of(net, index, seat.name, labels)]
    noted = [net.cpus[index].events for index in range(len(seats))]
    lost = sum(max(0, cpu.count - cpu.limit) for cpu in noted)
    return Trace(sorted(events, key=lambda event: event.t_ns), lost)


def _of(net: Any, index: int, agent: str, labels: dict[int, str]) -> Iterator[TraceEvent]:
    cpu = net.cpus[index].events
    for time_ns, code, a, b in cpu.entries.raw[: min(cpu.count, cpu.limit)].tolist():
        yield TraceEvent(time_ns - net.params.start_ns, agent, TRACEPOINTS[code][0], _args(code, a, b, labels))


def _args(code: int, a: int, b: int, labels: dict[int, str]) -> dict[str, int | str]:
    if code == DROP:
        seq, flow = divmod(b, FLOWS_MAX)
        return {"reason": DROP_REASONS[a], "flow": labels.get(flow, str(flow)), "seq": seq}
    first, second = TRACEPOINTS[code][1]
    named: dict[str, int | str] = {first: a, second: b}
    if first == "flow":
        named["flow"] = labels.get(a, str(a))
    elif first == "dev":
        named["dev"] = DEVICE_NAMES[a]
    return named
