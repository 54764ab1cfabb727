"""Where every packet is, found by walking the segment when nobody is running.

An independent count: it uses no counter, only the lists and rings themselves, so that a counter can be checked against
it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from emulator.kernel.qdisc.base import FQ_CODEL, PFIFO_FAST, SFQ
from emulator.kernel.skb import SKBS_MAX
from emulator.kernel.veth import TAG_BITS, VETH_BQL_FLAG

_CYCLE = "a list of packets goes round in a circle"


def list_skbs(net: Any, head: int) -> list[int]:
    """The packets of a list, in order. Raises ValueError for a list that never ends."""
    links = net.skbs.raw["next"]
    found = []
    skb = int(head)
    while skb:
        if not 0 < skb < SKBS_MAX:
            raise ValueError(f"a list of packets leads to {skb}, which is none")
        found.append(skb)
        if len(found) >= SKBS_MAX:
            raise ValueError(_CYCLE)
        skb = int(links[skb])
    return found


def ring_entries(net: Any, ring: Any) -> list[int]:
    """The entries of a ptr_ring that are still to be consumed; those consumed and not yet cleared are left out."""
    size = ring.size
    if size == 0:
        return []
    slots = net.ring_slots.raw[ring.base : ring.base + size]
    pending = size - (ring.consumer_head - ring.consumer_tail)
    order = (ring.consumer_head + np.arange(pending)) % size
    entries = slots[order]
    empty = np.flatnonzero(entries == 0)
    return [int(entry) for entry in entries[: empty[0] if len(empty) else pending]]


def ring_occupied(net: Any, ring: Any) -> int:
    """Entries in a ring, seen from outside while it is in use: what moves between two looks makes it a little too many.

    The head is read first: the other way round the consumer could overtake the producer's old place.
    """
    head = int(ring.consumer_head)
    ahead = (ring.producer - head) % max(1, ring.size)
    if ahead == 0 and ring.size and net.ring_slots.raw[ring.base + head]:
        return int(ring.size)
    return int(ahead)


def tagged(entries: list[int]) -> int:
    """How many ring entries were charged to BQL."""
    return sum(1 for entry in entries if entry & VETH_BQL_FLAG)


def qdisc_skbs(net: Any, q: Any) -> list[int]:
    """All packets that a qdisc holds, those requeued or waiting for another queue included."""
    found: list[int] = []
    for head in _qdisc_heads(net, q):
        found += list_skbs(net, head)
    if q.kind == PFIFO_FAST:
        for band in range(3):
            found += ring_entries(net, q.bands[band])
    return found


def _qdisc_heads(net: Any, q: Any) -> Iterator[int]:
    yield from (q.gso_skb.head, q.bad_txq.head, q.q.head)
    if q.kind == FQ_CODEL:
        flows = net.fq_flows.raw[q.fq.base : q.fq.base + q.fq.flows_cnt]
        yield from flows["q"]["head"][flows["q"]["head"] != 0]
    elif q.kind == SFQ:
        slots = net.sfq_slots.raw[q.sfq.slot_base : q.sfq.slot_base + q.sfq.maxflows]
        used = slots[slots["qlen"] > 0]
        yield from used["head"]


def in_flight(net: Any, devices: int, qdiscs: int, cpus: int) -> dict[str, list[int]]:
    """Every packet outside the pool, by where it is."""
    places: dict[str, list[int]] = {}
    for index in range(qdiscs):
        q = net.qdiscs[index]
        places[f"qdisc {index}"] = qdisc_skbs(net, q)
        places[f"defer_list {index}"] = list_skbs(net, q.defer_head)
    for number in range(devices):
        dev = net.devs[number]
        for queue in range(dev.real_num_rx_queues):
            rq = dev.rq[queue]
            where = f"{number}/{queue}"
            places[f"ring {where}"] = [entry >> TAG_BITS for entry in ring_entries(net, rq.ring)]
            places[f"gro {where}"] = list_skbs(net, rq.gro.rx_list.head) + list_skbs(net, rq.gro.flushing.head)
    return places


def free_slots(net: Any, cpus: int) -> int:
    """Packets in the pool: the depot and every CPU's magazine."""
    return int(net.pool.depot_count + sum(net.cpus[i].magazine_count for i in range(cpus)))
