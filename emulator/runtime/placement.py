"""Which agent runs on which CPU of the machine, and how it idles.

The scenario's word counts. Where it is silent:

=====  ==========================================================================================
CPUs   flood / NAPI of the flood's peer / NAPI of the replies / ping / watchdog
=====  ==========================================================================================
1      all on the one; every NAPI sleeps when idle. The timing verdict will say what that is worth
2      first / second / first / first / first
3      first / second / third / third / third
4+     first (and further flood threads on the last ones) / second / third / fourth / fourth
=====  ==========================================================================================

A NAPI thread that has its CPU to itself spins when idle; one that shares it sleeps on a futex.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from emulator.scenario.model import Scenario

STOP_ORDER = ("ping", "flood", "napi", "watchdog")
"""roles in the order in which a run is stopped: sources first, and whoever delivers what is left after them"""


@dataclass(frozen=True)
class Seat:
    """Where one agent sits. ``queue``: the receive queue of a NAPI thread, the thread number of a flood."""

    role: str
    name: str
    cpu: int
    dev: int = 0
    queue: int = 0
    idle: str = "futex"
    shares_cpu: bool = False


def place(scenario: Scenario, cpus: Sequence[int]) -> list[Seat]:
    """The agents of a scenario on these CPUs of the machine, in the order of their numbers."""
    first, second, third, fourth = (cpus[min(i, len(cpus) - 1)] for i in range(4))
    if len(cpus) == 2:
        third = fourth = first
    seats = []
    flood = scenario.flood
    for thread in range(flood.threads if scenario.flooding else 0):
        default = first if thread == 0 else cpus[-thread] if len(cpus) > 4 else first
        cpu = flood.cpus[thread] if flood.cpus else default
        seats.append(Seat("flood", f"flood{thread}", cpu, queue=thread))
    napi = scenario.napi
    for queue in range(scenario.device.real_num_tx_queues):
        receive_cpu = second if napi.cpu is None else napi.cpu
        reply_cpu = third if napi.peer_cpu is None else napi.peer_cpu
        seats.append(Seat("napi", f"napi/veth1-{queue}", receive_cpu, 1, queue, napi.idle or ""))
        if scenario.ping is not None:
            seats.append(Seat("napi", f"napi/veth0-{queue}", reply_cpu, 0, queue, napi.peer_idle or ""))
    if scenario.ping is not None:
        seats.append(Seat("ping", "ping", fourth if scenario.ping.cpu is None else scenario.ping.cpu))
    seats.append(Seat("watchdog", "watchdog", fourth if scenario.watchdog.cpu is None else scenario.watchdog.cpu))
    return [_with_company(seat, seats) for seat in seats]


def control_cpu(seats: Sequence[Seat]) -> int:
    """Where everything that is not an agent's main thread runs: beside the watchdog, not beside a lone NAPI thread."""
    return next(seat.cpu for seat in seats if seat.role == "watchdog")


def _with_company(seat: Seat, seats: list[Seat]) -> Seat:
    shares = any(other is not seat and other.cpu == seat.cpu for other in seats)
    return replace(seat, shares_cpu=shares, idle=seat.idle or ("futex" if shares else "spin"))
