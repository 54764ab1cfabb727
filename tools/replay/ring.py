"""Replay of ptr_ring traces."""

from __future__ import annotations

from typing import Any

from replay.machine import Difference, Machine, Replay, compare, compare_fields, integer
from replay.traces import MalformedError, Trace


class RingReplay(Replay):
    """A ptr_ring of plain numbers. A resize moves it between the two ends of the slot arena."""

    def __init__(self, machine: Machine, trace: Trace) -> None:
        self.m = machine
        self.fields: list[str] = trace["fields"]
        self.slots = machine.raw["ring_slots"]
        machine.create_qdisc("noqueue", {}, 0, 1500)
        self.view = machine.view.qdiscs[0].bands[0]
        self.ring = machine.native(machine.raw["qdiscs"][0]["bands"][0])
        self._check_size(trace["size"])
        machine.ptr_ring.ptr_ring_init(machine.net, self.ring, 0, trace["size"])
        start = dict(zip(self.fields, trace["start"], strict=True))
        if start.get("occupied"):
            raise MalformedError("a ring that starts with entries")
        for name in ("producer", "consumer_head", "consumer_tail"):
            setattr(self.view, name, start.get(name, 0))

    def step(self, op: list[Any]) -> list[Difference]:
        name, argument, recorded, expected = op
        return compare("result", recorded, self._call(name, argument)) + compare_fields(
            self.fields, expected, self._state()
        )

    def _call(self, name: str, argument: Any) -> Any:
        ring_code, net, ring = self.m.ptr_ring, self.m.net, self.ring
        if name == "produce":
            return ring_code.ptr_ring_produce(net, ring, integer(argument, low=1))
        if name == "consume":
            return ring_code.ptr_ring_consume(net, ring) or None
        if name == "peek":
            return ring_code.ptr_ring_peek(net, ring) or None
        if name == "full":
            return bool(ring_code.ptr_ring_full(net, ring))
        if name == "empty":
            return bool(ring_code.ptr_ring_empty(net, ring))
        if name == "slots":
            base = self.view.base
            return [int(entry) or None for entry in self.slots[base : base + self.view.size]]
        if name == "consume_batched":
            count = min(integer(argument), self.view.size)
            out = self.m.words(count)
            return [int(out[i]) for i in range(ring_code.ptr_ring_consume_batched(net, ring, out, count))]
        if name == "unconsume":
            batch = self.m.words(len(argument))
            for i, entry in enumerate(argument):
                batch[i] = integer(entry, low=1)
            lost = self.m.words(len(argument))
            return [int(lost[i]) for i in range(ring_code.ptr_ring_unconsume(net, ring, batch, len(argument), lost))]
        if name == "resize":
            self._check_size(argument)
            lost = self.m.words(self.view.size)
            base = len(self.slots) - argument if self.view.base == 0 else 0
            count = ring_code.ptr_ring_resize(net, ring, base, argument, lost)
            return [0, [int(lost[i]) for i in range(count)]]
        raise MalformedError(f"unknown operation {name!r}")

    def _check_size(self, size: int) -> None:
        if integer(size) > len(self.slots) // 2:
            raise MalformedError(f"a ring of {size}: at most {len(self.slots) // 2} here")

    def _state(self) -> dict[str, int]:
        view = self.view
        state = {name: getattr(view, name) for name in ("producer", "consumer_head", "consumer_tail", "size", "batch")}
        state["occupied"] = int(self.m.np.count_nonzero(self.slots[view.base : view.base + view.size]))
        return state
