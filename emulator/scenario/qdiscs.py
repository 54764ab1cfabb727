"""The queueing disciplines and their options, by the names and defaults of `tc`.

Each follows its `net/sched/sch_*.c`; what the kernel answers with -EINVAL is refused here too. `FROM_DEVICE` stands
for a default that the device decides (`txqueuelen`, `mtu`) until `Device` fills it in; no model that came from a file
still holds it.
"""

from typing import Annotated, Literal

from pydantic import Field, StrictBool, field_validator

from emulator.scenario.base import Strict, settle
from emulator.scenario.units import NS_PER_MS, OrWord, Packets, duration, fault, packets, size, whole

FROM_DEVICE = -1
ETH_HLEN = 14

Limit = Annotated[int, packets(0, 1_000_000)]
Quantum = Annotated[int, size("256B", "1MiB")]
Target = Annotated[int, duration("0ns", "100s", "ms")]
Interval = Annotated[int, duration("2us", "100s", "ms")]  # CoDel counts in ticks of 1.024 us
Threshold = Annotated[int | None, OrWord("off", duration("0ns", "100s", "ms"))]


class Noqueue(Strict):
    """No queue at all: a packet that the driver cannot take is dropped."""

    kind: Literal["noqueue"] = "noqueue"


class Pfifo(Strict):
    """One FIFO, tail drop. Limit 0 drops everything."""

    kind: Literal["pfifo"] = "pfifo"
    limit: Limit = FROM_DEVICE
    """packets; default: the device's txqueuelen"""


class PfifoHeadDrop(Strict):
    """One FIFO that drops its oldest packet when full."""

    kind: Literal["pfifo_head_drop"] = "pfifo_head_drop"
    limit: Limit = FROM_DEVICE
    """packets; default: the device's txqueuelen"""


class Bfifo(Strict):
    """One FIFO, tail drop, limited in bytes."""

    kind: Literal["bfifo"] = "bfifo"
    limit: Annotated[int, size("0B", "1024MiB")] = FROM_DEVICE
    """bytes; default: txqueuelen packets of mtu + 14"""


class PfifoFast(Strict):
    """Three bands by priority, each a ring of the device's txqueuelen; lockless."""

    kind: Literal["pfifo_fast"] = "pfifo_fast"


class Codel(Strict):
    """One FIFO under CoDel."""

    kind: Literal["codel"] = "codel"
    limit: Packets = 1000
    target: Target = 5 * NS_PER_MS
    """ns of sojourn that are good"""
    interval: Interval = 100 * NS_PER_MS
    """ns above target before the first drop"""
    ecn: StrictBool = False
    ce_threshold: Threshold = None
    """ns of sojourn above which every packet is marked; None: off"""


class FqCodel(Strict):
    """A DRR of flow queues, each under CoDel; new flows first."""

    kind: Literal["fq_codel"] = "fq_codel"
    limit: Packets = 10240
    flows: Annotated[int, whole(1, 65536)] = 1024
    quantum: Quantum = FROM_DEVICE
    """bytes a flow may send a round; default: mtu + 14"""
    target: Target = 5 * NS_PER_MS
    interval: Interval = 100 * NS_PER_MS
    memory_limit: Annotated[int, size("0B", "1024MiB")] = 32 * 1024**2
    """bytes of truesize"""
    drop_batch: Annotated[int, packets(1, 65536)] = 64
    """packets dropped at most from the fattest flow when over the limit"""
    ecn: StrictBool = True
    ce_threshold: Threshold = None


class Sfq(Strict):
    """Stochastic fairness: a DRR of short FIFOs. No CoDel, so nothing is dropped for its age."""

    kind: Literal["sfq"] = "sfq"
    limit: Annotated[int, packets(1, 1_000_000)] = 127
    depth: Annotated[int, packets(1, 127)] = 127
    """packets a flow may hold"""
    flows: Annotated[int, whole(1, 65408)] = 128
    divisor: Annotated[int, whole(1, 65536)] = 1024
    """hash buckets, a power of two"""
    quantum: Quantum = FROM_DEVICE
    """bytes a flow may send a round; default: mtu + 14"""
    headdrop: StrictBool = False
    perturb: int = 0
    """seconds between rehashes; only 0, never, is available"""

    @field_validator("limit")
    @classmethod
    def _limit_above_one(cls, limit: int) -> int:
        if limit == 1:
            raise fault("sfq with limit 1 is refused by the kernel (-EINVAL); allowed: 2p..1000000p")
        return limit

    @field_validator("divisor")
    @classmethod
    def _power_of_two(cls, divisor: int) -> int:
        if divisor & (divisor - 1):
            raise fault(f"{divisor} is not a power of two (-EINVAL); allowed: 1, 2, 4 ... 65536")
        return divisor

    @field_validator("perturb", mode="before")
    @classmethod
    def _never_perturbed(cls, perturb: object) -> object:
        if perturb != 0 or isinstance(perturb, bool | float):
            raise fault("no rehashing is available; allowed: 0")
        return perturb


Qdisc = Annotated[
    Noqueue | Pfifo | Bfifo | PfifoHeadDrop | PfifoFast | Codel | FqCodel | Sfq,
    Field(discriminator="kind"),
]


def settle_defaults(qdisc: Strict, txqueuelen: int, mtu: int) -> None:
    """Fill in what the device decides: qdisc_init takes it from `dev->tx_queue_len` and psched_mtu()."""
    psched_mtu = mtu + ETH_HLEN
    match qdisc:
        case Pfifo(limit=-1) | PfifoHeadDrop(limit=-1):
            settle(qdisc, "limit", txqueuelen)
        case Bfifo(limit=-1):
            settle(qdisc, "limit", txqueuelen * psched_mtu)
        case FqCodel(quantum=-1) | Sfq(quantum=-1):
            settle(qdisc, "quantum", max(256, psched_mtu))
