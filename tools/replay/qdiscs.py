"""Replay of qdisc traces: codel, fq_codel, sfq and the FIFOs."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from replay.machine import Difference, Machine, Replay, compare, compare_fields, integer, u32
from replay.traces import MalformedError, Trace


class QdiscReplay(Replay):
    """What the replays of all qdiscs share: packets by the trace's ids, and what became of them in one call."""

    kind = ""

    def __init__(self, machine: Machine, trace: Trace) -> None:
        self.m = machine
        self.trace = trace
        self.queue_fields: list[str] = trace.get("queue_fields") or trace["fields"]
        self.qdisc_kind = self._kind(trace)
        try:
            self.q = machine.create_qdisc(
                self.qdisc_kind, self._options(trace), self._txqueuelen(trace), trace["device_mtu"]
            )
        except ValueError as error:
            raise MalformedError(f"no such qdisc can be made: {error}") from None
        self.record = machine.native(machine.raw["qdiscs"][0])
        self.ids: dict[int, int] = {}  # skb slot -> id of the trace
        self.skbs = machine.raw["skbs"]
        self.seen = machine.cpu_view.trace_head

    def params(self) -> list[Difference]:
        """Differences between the parameters in force in the trace and here."""
        mine = self._params()
        recorded = self.trace["params"]
        return [(name, value, mine[name]) for name, value in recorded.items() if name in mine and mine[name] != value]

    def enqueue(self, packet: dict[str, int]) -> int:
        slot = self.m.skb.alloc_skb(self.m.net, self.m.cpu)
        if slot == 0:
            raise MalformedError(f"{len(self.ids)} packets are queued at once: the pool is empty")
        record = self.skbs[slot]
        for name in ("hash", "tos", "truesize", "wmem", "priority"):
            record[name] = 0
        self.ids[slot] = packet.pop("id")
        record["hash"] = (integer(packet.pop("hash", 0), high=0xFFFFFFFF) ^ 0x80000000) - 0x80000000
        for name, value in packet.items():
            record[name] = value
        return int(self.m.ops.qdisc_enqueue(self.m.net, self.m.cpu, self.record, slot))

    def dequeue(self) -> tuple[int | None, int | None]:
        """Id and traffic class of what came out."""
        slot = int(self.m.ops.qdisc_dequeue(self.m.net, self.m.cpu, self.record))
        return self._id_and_tos(slot)

    def _id_and_tos(self, slot: int) -> tuple[int | None, int | None]:
        if slot == 0:
            return None, None
        tos = int(self.skbs[slot]["tos"])
        self.m.skb.consume_skb(self.m.net, self.m.cpu, slot)
        self._delivered = slot
        return self.ids[slot], tos

    def fates(self) -> tuple[list[list[Any]], list[int]]:
        """``[id, reason]`` of the packets freed, and ids of those marked, since the last call."""
        cpu = self.m.cpu_view
        size = self.m.clock.TRACE_SIZE
        head = cpu.trace_head
        if head - self.seen > size:
            raise MalformedError(f"{head - self.seen} packets dropped or marked in one call: only {size} can be told")
        dropped: list[list[Any]] = []
        marked: list[int] = []
        gone = []
        for i in range(self.seen, head):
            entry = cpu.trace[i & (size - 1)]
            slot, reason = entry >> 8, entry & 0xFF
            if reason == self.m.clock.ECN_MARK:
                marked.append(self.ids[slot])
            else:
                dropped.append([self.ids[slot], self.m.clock.DROP_REASONS[reason]])
                gone.append(slot)
        for slot in gone:
            del self.ids[slot]
        self.seen = head
        return dropped, marked

    def forget_delivered(self) -> None:
        """After fates(): the packet delivered last has left."""
        self.ids.pop(self._delivered, None)
        self._delivered = 0

    _delivered = 0

    def queue(self) -> dict[str, int]:
        q = self.q
        stats = q.codel_stats
        return {
            "qlen": q.qlen,
            "backlog": q.backlog,
            "drops": q.drops,
            "drop_overlimit": q.drop_overlimit,
            "memory_usage": q.fq.memory_usage,
            "drop_overmemory": q.fq.drop_overmemory,
            "new_flow_count": q.fq.new_flow_count,
            "maxpacket": u32(stats.maxpacket),
            "ecn_mark": stats.ecn_mark,
            "ce_mark": stats.ce_mark,
            "cur_depth": q.sfq.cur_depth,
        }

    def close(self) -> list[Difference]:
        """Free what the trace left queued; nothing may be lost."""
        self.m.ops.qdisc_reset(self.m.net, self.m.cpu, self.record)
        return (
            compare("packets left", len(self.ids), self.q.purged)
            + compare("qlen after a reset", 0, self.q.qlen)
            + compare("backlog after a reset", 0, self.q.backlog)
        )

    def _kind(self, trace: Trace) -> str:
        return self.kind

    def _options(self, trace: Trace) -> dict[str, Any]:
        return dict(trace["options_set"])

    def _txqueuelen(self, trace: Trace) -> int:
        return 1000

    @abstractmethod
    def _params(self) -> dict[str, Any]:
        """The parameters in force, by the trace's names."""


_IN_MICROSECONDS = ("target", "interval", "ce_threshold")
_REASONS = {
    "QDISC_OVERLIMIT": "overlimit",
    "QDISC_MEMORY": "memory",
    "QDISC_CONGESTED": "codel",
    "QDISC_CHANGE": "change",
    "QDISC_FLOW_LIMIT": "flow_limit",
    "QDISC_MAXFLOWS": "maxflows",
}


def _named(dropped: list[list[Any]]) -> list[list[Any]]:
    return [[packet, _REASONS.get(reason, reason)] for packet, reason in dropped]


def _in_ns(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value * 1000 if name in _IN_MICROSECONDS else value for name, value in options.items()}


class CodelReplay(QdiscReplay):
    """The codel qdisc."""

    kind = "codel"

    def step(self, op: list[Any]) -> list[Difference]:
        name, time_ns, argument, recorded, expected = op
        self.m.cpu_view.now_ns = integer(time_ns)
        if name == "enq":
            packet = dict(zip(("id", "len", "tos"), argument, strict=True))
            result: list[Any] = [self.enqueue(packet)]
            dropped, _ = self.fates()
            result.append(_named(dropped))
        elif name == "deq":
            result = self.dequeued()
        else:
            raise MalformedError(f"unknown operation {name!r}")
        return compare("result", recorded, result) + compare_fields(self.queue_fields, expected, self._state())

    def dequeued(self) -> list[Any]:
        """Dequeue once: id, drops, marks and traffic class, as recorded."""
        out, tos = self.dequeue()
        dropped, marked = self.fates()
        self.forget_delivered()
        return [out, _named(dropped), marked, tos]

    def _options(self, trace: Trace) -> dict[str, Any]:
        return _in_ns(trace["options_set"])

    def _params(self) -> dict[str, Any]:
        params = self.q.codel_params
        names = ("target", "interval", "mtu", "ecn", "ce_threshold", "ce_threshold_selector", "ce_threshold_mask")
        return {name: getattr(params, name) for name in names} | {"limit": self.q.limit}

    def _state(self) -> dict[str, int]:
        return self.queue() | codel_state(self.q.codel_vars)


def codel_state(cvars: Any) -> dict[str, int]:
    """CoDel's variables as the traces write them."""
    names = ("count", "lastcount", "rec_inv_sqrt", "first_above_time", "drop_next", "ldelay")
    return {name: u32(getattr(cvars, name)) for name in names} | {"dropping": cvars.dropping}


class FqCodelReplay(CodelReplay):
    """fq_codel: the queue, the two lists of flows, and each flow that an operation changed."""

    kind = "fq_codel"

    def __init__(self, machine: Machine, trace: Trace) -> None:
        super().__init__(machine, trace)
        self.flow_fields: list[str] = trace["flow_fields"]
        fq = self.q.fq
        self.flows = machine.raw["fq_flows"][fq.base : fq.base + fq.flows_cnt]
        self.backlogs = machine.raw["fq_backlogs"][fq.base : fq.base + fq.flows_cnt]
        self._flow_words = self.flows.view("i8").reshape(fq.flows_cnt, -1)
        self._flows_before = self._flow_words.copy()
        self._backlogs_before = self.backlogs.copy()
        self._visible: dict[int, list[int]] = {}

    def step(self, op: list[Any]) -> list[Difference]:
        name, time_ns, argument, recorded, queue, new, old, flows = op
        self.m.cpu_view.now_ns = integer(time_ns)
        if name == "enq":
            packet = dict(zip(("id", "hash", "len", "tos", "truesize", "wmem"), argument, strict=True))
            result: list[Any] = [self.enqueue(packet)]
            dropped, _ = self.fates()
            result.append(_named(dropped))
        elif name == "deq":
            result = self.dequeued()
        elif name == "change":
            result = self._change(argument)
        else:
            raise MalformedError(f"unknown operation {name!r}")
        fq = self.q.fq
        return (
            compare("result", recorded, result)
            + compare_fields(self.queue_fields, queue, self.queue())
            + compare("new", new, self._list(fq.new_flows.head))
            + compare("old", old, self._list(fq.old_flows.head))
            + compare("flows", flows, self._changed_flows())
        )

    def _change(self, options: dict[str, Any]) -> list[Any]:
        self.m.setup.qdisc_change(self.m.view, self.q, _in_ns(options), txqueuelen=1000, mtu=self.trace["device_mtu"])
        self.m.ops.qdisc_trim(self.m.net, self.m.cpu, self.record)
        dropped, _ = self.fates()
        return [0, _named(dropped)]

    def _list(self, head: int) -> list[int]:
        following = self.flows["next"]
        flows = []
        while head:
            flows.append(head - 1)
            head = int(following[head - 1])
        return flows

    def _changed_flows(self) -> dict[str, list[int]]:
        np = self.m.np
        touched = (self._flow_words != self._flows_before).any(axis=1) | (self.backlogs != self._backlogs_before)
        changed = {}
        for index in map(int, np.flatnonzero(touched)):
            flow = self.m.view.fq_flows[self.q.fq.base + index]
            state = codel_state(flow.cvars) | {"deficit": flow.deficit, "qlen": flow.q.qlen}
            state["backlog"] = u32(int(self.backlogs[index]))
            visible = [state[name] for name in self.flow_fields]
            if visible != self._visible.get(index, [0] * len(visible)):
                self._visible[index] = visible
                changed[str(index)] = visible
            self._flows_before[index] = self._flow_words[index]
            self._backlogs_before[index] = self.backlogs[index]
        return changed

    def _params(self) -> dict[str, Any]:
        fq = self.q.fq
        return super()._params() | {
            "flows": fq.flows_cnt,
            "quantum": fq.quantum,
            "drop_batch": fq.drop_batch_size,
            "memory_limit": fq.memory_limit,
        }


class SfqReplay(QdiscReplay):
    """sfq: the queue and the active slots in the order of service."""

    kind = "sfq"

    def step(self, op: list[Any]) -> list[Difference]:
        name, argument, recorded, queue, ring = op
        if name == "enq":
            packet = dict(zip(("id", "hash", "len"), argument, strict=True))
            ret = self.enqueue(packet)
            dropped, _ = self.fates()
            result: Any = [ret, _named(dropped)]
        elif name == "deq":
            result, _ = self.dequeue()
            self.forget_delivered()
        else:
            raise MalformedError(f"unknown operation {name!r}")
        return (
            compare("result", recorded, result)
            + compare_fields(self.queue_fields, queue, self.queue())
            + compare("ring", ring, self._round())
        )

    def _round(self) -> list[list[int]]:
        sfq = self.q.sfq
        slots = self.m.raw["sfq_slots"][sfq.slot_base : sfq.slot_base + sfq.maxflows]
        active: list[list[int]] = []
        if sfq.tail == self.m.sfq.SFQ_NONE:
            return active
        number = int(slots["next"][sfq.tail])
        while True:
            slot = slots[number]
            state = {name: int(slot[name]) for name in ("bucket", "qlen", "allot", "backlog")} | {"slot": number}
            active.append([state[name] for name in self.trace["slot_fields"]])
            if number == sfq.tail:
                return active
            number = int(slot["next"])

    def _params(self) -> dict[str, Any]:
        sfq = self.q.sfq
        names = ("divisor", "headdrop", "maxdepth", "maxflows", "quantum")
        return {name: getattr(sfq, name) for name in names} | {"limit": self.q.limit}


class FifoReplay(QdiscReplay):
    """pfifo, bfifo, pfifo_head_drop, and pfifo_fast with its three rings."""

    def step(self, op: list[Any]) -> list[Difference]:
        name, argument, recorded, queue = op[:4]
        if name == "enq":
            packet = dict(zip(("id", "len", "priority"), argument, strict=True))
            packet["priority"] &= 15
            ret = self.enqueue(packet)
            dropped, _ = self.fates()
            result: Any = [ret, [packet_id for packet_id, _ in dropped]]
        elif name == "deq":
            result, _ = self.dequeue()
            self.forget_delivered()
        elif name == "peek":
            result = self.ids.get(int(self.m.ops.qdisc_peek(self.m.net, self.m.cpu, self.record)))
        else:
            raise MalformedError(f"unknown operation {name!r}")
        differences = compare("result", recorded, result) + compare_fields(self.queue_fields, queue, self.queue())
        if len(op) > 4:
            differences += compare("bands", op[4], self._bands())
        return differences

    def _bands(self) -> list[list[int]]:
        slots = self.m.raw["ring_slots"]
        bands = []
        for band in range(self.m.base.PFIFO_FAST_BANDS):
            ring = self.q.bands[band]
            occupied = int(self.m.np.count_nonzero(slots[ring.base : ring.base + ring.size]))
            bands.append([ring.producer, ring.consumer_head, ring.consumer_tail, occupied])
        return bands

    def _kind(self, trace: Trace) -> str:
        return str(trace["params"]["kind"])

    def _options(self, trace: Trace) -> dict[str, Any]:
        limit = trace["params"]["limit"]
        return {} if limit is None else {"limit": limit}

    def _txqueuelen(self, trace: Trace) -> int:
        return int(trace["params"]["tx_queue_len"])

    def _params(self) -> dict[str, Any]:
        if self.qdisc_kind != "pfifo_fast":
            return {"limit": self.q.limit}
        return {"band_ring_size": self.q.bands[0].size, "band_ring_batch": self.q.bands[0].batch}
