#!/usr/bin/env python3
"""Replay recorded traces of Linux queueing code against the emulated kernel, operation by operation.

    tools/conformance.py [--python] [-v] FILE...

A file holds one trace a line (JSON Lines, plain or compressed with xz, gzip or zstd): a starting state, the operations in
order, and after each one the result and the complete visible state. All of it is compared exactly. What a trace is about
(dql, ptr_ring, codel, fq_codel, sfq, fifo) is read from its content. Without --python the compiled kernel is replayed against,
with it the plain-Python twin of the same source.

Where kernels differ, a trace names in ``variants`` those that behaved so. Of each file the lines of its newest plain version
are replayed; the others (older kernels, kernels with a patch added or removed) are skipped, and counted with -v. A file whose
newest is older than 7.0 is skipped as a whole: the emulated behaviour is that of 7.2.

The last line is ``N traces, M operations, K mismatches``; an operation counts as one mismatch however many of its fields
differ. Exit code 0: all as recorded; 1: a mismatch; 2: a file or line that cannot be read (one message each: file:line: what).
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_PYTHON_TWIN = "--python"
_SHOWN_BY_DEFAULT = 10
_OLDEST_FOLLOWED = (7, 0)
_PLAIN_VERSION = re.compile(r"\d+(\.\d+)*")

Trace = dict[str, Any]
Difference = tuple[str, Any, Any]


class Malformed(Exception):
    """A trace that does not follow the format, or that asks for more than the emulated kernel can hold."""


# --- reading -----------------------------------------------------------------------------------------------------------


def read_text(path: Path) -> str:
    """Text of a file, decompressed according to its first bytes."""
    raw = path.read_bytes()
    if raw.startswith(b"\xfd7zXZ\x00"):
        raw = lzma.decompress(raw)
    elif raw.startswith(b"\x1f\x8b"):
        raw = gzip.decompress(raw)
    elif raw.startswith(b"\x28\xb5\x2f\xfd"):
        raw = _unzstd(raw)
    return raw.decode()


def _unzstd(raw: bytes) -> bytes:
    for module in ("compression.zstd", "zstandard"):
        try:
            library = __import__(module, fromlist=["decompress"])
        except ImportError:
            continue
        if module == "zstandard":
            return bytes(library.ZstdDecompressor().decompressobj().decompress(raw))
        return bytes(library.decompress(raw))
    raise ValueError("zstd needs Python 3.14 or the zstandard package")


def parse_line(line: str) -> Trace:
    """One trace, its frame checked."""
    try:
        trace = json.loads(line)
    except json.JSONDecodeError as error:
        raise Malformed(f"not JSON: {error}") from None
    except RecursionError:
        raise Malformed("not JSON that can be read: nested too deeply") from None
    if not isinstance(trace, dict):
        raise Malformed("a trace is a JSON object")
    ops = trace.get("ops")
    if not isinstance(ops, list) or not all(isinstance(op, list) and op and isinstance(op[0], str) for op in ops):
        raise Malformed("'ops' is not a list of operations")
    if trace.get("n_ops", len(ops)) != len(ops):
        raise Malformed(f"n_ops is {trace['n_ops']}, but there are {len(ops)} operations")
    variants = trace.get("variants", [])
    if not isinstance(variants, list) or not all(isinstance(name, str) for name in variants):
        raise Malformed("'variants' is not a list of names")
    return trace


def family_of(trace: Trace) -> str:
    """What a trace is about, from what it contains."""
    if "hold_time" in trace and "jiffies0" in trace:
        return "dql"
    params = trace.get("params")
    if isinstance(params, dict):
        if params.get("kind") in ("pfifo", "bfifo", "pfifo_head_drop", "pfifo_fast"):
            return "fifo"
        if "divisor" in params:
            return "sfq"
        if "target" in params:
            return "fq_codel" if "flows" in params else "codel"
    elif "size" in trace:
        return "ptr_ring"
    raise Malformed("unknown family of traces")


def _version(name: str) -> tuple[int, ...] | None:
    return tuple(int(part) for part in name.split(".")) if _PLAIN_VERSION.fullmatch(name) else None


def _versions(trace: Trace) -> set[tuple[int, ...]]:
    return {version for name in trace.get("variants", []) if (version := _version(name)) is not None}


def is_followed(trace: Trace, newest: tuple[int, ...] | None) -> bool:
    """Whether a trace is to be replayed, ``newest`` being the newest version named in its file."""
    if "variants" not in trace:
        return True
    return newest is not None and newest >= _OLDEST_FOLLOWED and newest in _versions(trace)


# --- the machine that is replayed on -----------------------------------------------------------------------------------


class Machine:
    """One emulated kernel in private memory, with one CPU whose clock is set by the trace."""

    def __init__(self) -> None:
        import numpy as np

        from emulator.kernel import clock, dql, memory, netdev, ptr_ring, skb
        from emulator.kernel.jit import PLAIN
        from emulator.kernel.net import NET
        from emulator.kernel.plain import Record
        from emulator.kernel.qdisc import base, ops, setup, sfq

        self.clock, self.dql, self.memory, self.netdev, self.ptr_ring, self.skb = clock, dql, memory, netdev, ptr_ring, skb
        self.base, self.ops, self.setup, self.sfq, self.np = base, ops, setup, sfq, np
        self.plain = PLAIN
        self._record = Record
        self.raw = np.zeros(1, NET)[0]
        self.view: Any = Record(self.raw)
        self.net = self.native(self.raw)
        self.cpu = self.native(self.raw["cpus"][0])
        self.cpu_view = self.view.cpus[0]
        skb.pool_init(self.view)
        self.cpu_view.online = 1
        self.cpu_view.virtual = 1

    def native(self, raw: Any) -> Any:
        """A record as the kernel's functions take it: numpy's for compiled code, a view for the plain twin."""
        return self._record(raw) if self.plain else raw

    def words(self, count: int) -> Any:
        """An array of 64-bit words for a kernel function to fill, and to read from."""
        from emulator.kernel.plain import Array

        array = self.np.zeros(max(count, 1), "i8")
        return Array(array) if self.plain else array

    def create_qdisc(self, kind: str, options: dict[str, Any], txqueuelen: int, mtu: int) -> Any:
        """A fresh qdisc in record 0, with all arenas free."""
        self.raw["qdiscs"][0] = self.np.zeros((), self.base.QDISC)
        for top in ("ring_slots_used", "fq_flows_used", "sfq_slots_used", "sfq_ht_used"):
            setattr(self.view.params, top, 0)
        return self.setup.qdisc_create(
            self.view, 0, kind, options, dev=0, txq=-1, txqueuelen=txqueuelen, mtu=mtu, onetxqueue=False
        )


def u32(value: int) -> int:
    """A 32-bit counter as the traces write it."""
    return value & 0xFFFFFFFF


def s64(value: int) -> int:
    """A 64-bit word of a trace as the kernel's records hold it."""
    return ((value & 0xFFFFFFFFFFFFFFFF) ^ (1 << 63)) - (1 << 63)


def compare(name: str, expected: Any, got: Any) -> list[Difference]:
    """One difference, or none."""
    return [] if expected == got else [(name, expected, got)]


def compare_fields(fields: list[str], expected: list[Any], got: dict[str, Any]) -> list[Difference]:
    """Differences between a recorded state and the present one."""
    if len(fields) != len(expected):
        raise Malformed(f"a state of {len(expected)} values for {len(fields)} fields")
    return [(name, value, got[name]) for name, value in zip(fields, expected, strict=True) if got[name] != value]


# --- dql ---------------------------------------------------------------------------------------------------------------


class DqlReplay:
    """DQL by itself, and behind the netdev calls.

    The netdev calls read jiffies off the CPU's clock, which counts nanoseconds and so ends long before the jiffies do. For
    them all times are counted from a whole number of stall histories before the start of the trace.
    """

    _HISTORY = 256
    _NS_PER_JIFFY = 1_000_000
    _U32 = (
        "num_queued",
        "num_completed",
        "limit",
        "adj_limit",
        "last_obj_cnt",
        "prev_ovlimit",
        "prev_num_queued",
        "prev_last_obj_cnt",
        "lowest_slack",
        "stall_thrs",
        "stall_max",
        "stall_cnt",
        "min_limit",
        "max_limit",
    )
    _TIMES = ("slack_start_time", "last_reap")

    def __init__(self, machine: Machine, trace: Trace) -> None:
        self.m = machine
        self.fields: list[str] = trace["fields"]
        start = dict(zip(self.fields, trace["start"], strict=True))
        netdev = any(op[0] in ("sent", "tx_completed", "tx_reset") for op in trace["ops"])
        self.base = trace["jiffies0"] // self._HISTORY * self._HISTORY if netdev else 0
        self.now = trace["jiffies0"] - self.base
        queues = machine.raw["devs"][0]["txq"]
        queues[0] = machine.np.zeros((), queues.dtype)
        self.txq_view = machine.view.devs[0].txq[0]
        self.dql_view = self.txq_view.dql
        self.txq = machine.native(queues[0])
        self.dql = machine.native(queues[0]["dql"])
        self.qdisc = machine.create_qdisc("pfifo", {}, 1000, 1500)
        machine.dql.dql_init(self.dql, s64(trace["hold_time"]), s64(self.now))
        self.dql_view.min_limit = trace["min_limit"]
        self.dql_view.max_limit = trace["max_limit"]
        for name, value in start.items():
            if name in self._U32:
                setattr(self.dql_view, name, value)
            elif name in self._TIMES:
                setattr(self.dql_view, name, s64(value - self.base))
            elif name == "xoff":
                self.txq_view.state = value << machine.netdev.QUEUE_STATE_STACK_XOFF

    def step(self, op: list[Any]) -> list[Difference]:
        name, argument, expected = op[:3]
        extra = self._call(name, argument)
        recorded = dict(op[3]) if len(op) > 3 else {}
        return compare("extra", recorded, extra) + compare_fields(self.fields, expected, self._state())

    def _call(self, name: str, argument: int) -> dict[str, int]:
        kernel, now = self.m.dql, s64(self.now)
        self.m.cpu_view.now_ns = self.now * self._NS_PER_JIFFY if self.base or self.now < 1 << 40 else 0
        if name == "queued":
            return {} if kernel.dql_queued(self.dql, argument, now) else {"warn": 1}
        if name in ("completed", "tx_completed"):
            return self._complete(name, argument, now)
        if name == "jiffies":
            self.now = self.now + argument & 0xFFFFFFFFFFFFFFFF
        elif name == "reset":
            kernel.dql_reset(self.dql, now)
        elif name == "set_stall_thrs":
            kernel.dql_set_stall_thrs(self.dql, argument, now)
        elif name == "sent":
            if argument > kernel.DQL_MAX_OBJECT:
                self.m.netdev.netdev_tx_sent_queue(self.m.net, self.m.cpu, self.txq, argument)
                return {"warn": 1}
            self.m.netdev.netdev_tx_sent_queue(self.m.net, self.m.cpu, self.txq, argument)
        elif name == "tx_reset":
            self.m.netdev.netdev_tx_reset_queue(self.m.net, self.m.cpu, self.txq)
        elif name in ("set_min_limit", "set_max_limit", "set_limit", "set_slack_hold_time", "set_stall_max"):
            value = s64(argument) if name == "set_slack_hold_time" else argument
            setattr(self.dql_view, name.removeprefix("set_"), value)
        else:
            raise Malformed(f"unknown operation {name!r}")
        return {}

    def _complete(self, name: str, argument: int, now: int) -> dict[str, int]:
        stalls = self.dql_view.stall_cnt
        cpu = self.m.cpu_view
        cpu.output_queue = 0
        self.qdisc.state = 0
        stall = -1
        try:
            if name == "completed":
                stall = self.m.dql.dql_completed(self.dql, argument, now)
            else:
                self.m.netdev.netdev_tx_completed_queue(self.m.net, self.m.cpu, self.txq, argument)
        except self.m.memory.KernelFault:
            self.m.view.fault.code = self.m.memory.FAULT_NONE
            return {"bug": 1}
        extra = {"sched": 1} if cpu.output_queue != 0 else {}
        if name == "completed" and self.dql_view.stall_cnt != stalls:
            extra["stall"] = stall
        return extra

    def _state(self) -> dict[str, int]:
        dql = self.dql_view
        state = {name: u32(getattr(dql, name)) for name in self._U32}
        state |= {name: getattr(dql, name) + self.base & 0xFFFFFFFFFFFFFFFF for name in self._TIMES}
        state["avail"] = self.m.dql.dql_avail(self.dql)
        state["xoff"] = self.txq_view.state >> self.m.netdev.QUEUE_STATE_STACK_XOFF & 1
        return state

    def close(self) -> None:
        """Nothing is held."""


# --- ptr_ring ----------------------------------------------------------------------------------------------------------


class RingReplay:
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
            raise Malformed("a ring that starts with entries")
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
            return ring_code.ptr_ring_produce(net, ring, argument)
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
            out = self.m.words(argument)
            return [int(out[i]) for i in range(ring_code.ptr_ring_consume_batched(net, ring, out, argument))]
        if name == "unconsume":
            batch = self.m.words(len(argument))
            for i, entry in enumerate(argument):
                batch[i] = entry
            lost = self.m.words(len(argument))
            return [int(lost[i]) for i in range(ring_code.ptr_ring_unconsume(net, ring, batch, len(argument), lost))]
        if name == "resize":
            self._check_size(argument)
            lost = self.m.words(self.view.size)
            base = len(self.slots) - argument if self.view.base == 0 else 0
            count = ring_code.ptr_ring_resize(net, ring, base, argument, lost)
            return [0, [int(lost[i]) for i in range(count)]]
        raise Malformed(f"unknown operation {name!r}")

    def _check_size(self, size: int) -> None:
        if not 0 <= size <= len(self.slots) // 2:
            raise Malformed(f"a ring of {size}: at most {len(self.slots) // 2} here")

    def _state(self) -> dict[str, int]:
        view = self.view
        state = {name: getattr(view, name) for name in ("producer", "consumer_head", "consumer_tail", "size", "batch")}
        state["occupied"] = int(self.m.np.count_nonzero(self.slots[view.base : view.base + view.size]))
        return state

    def close(self) -> None:
        """Nothing is held."""


# --- qdiscs ------------------------------------------------------------------------------------------------------------


class QdiscReplay:
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
            raise Malformed(f"no such qdisc can be made: {error}") from None
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
            raise Malformed(f"more than {len(self.ids)} packets are queued at once: the pool is empty")
        record = self.skbs[slot]
        for name in ("hash", "tos", "truesize", "wmem", "priority"):
            record[name] = 0
        self.ids[slot] = packet.pop("id")
        hash_value = packet.pop("hash", 0)
        record["hash"] = (u32(hash_value) ^ 0x80000000) - 0x80000000
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
            raise Malformed(f"{head - self.seen} packets dropped or marked in one call: at most {size} can be told here")
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

    def close(self) -> None:
        """Free what the trace left queued; nothing may be lost."""
        self.m.ops.qdisc_reset(self.m.net, self.m.cpu, self.record)
        self.fates()
        if self.ids or self.q.qlen or self.q.backlog:
            raise AssertionError(f"{len(self.ids)} packets lost, qlen {self.q.qlen}, backlog {self.q.backlog}")

    def _kind(self, trace: Trace) -> str:
        return self.kind

    def _options(self, trace: Trace) -> dict[str, Any]:
        return dict(trace["options_set"])

    def _txqueuelen(self, trace: Trace) -> int:
        return 1000

    def _params(self) -> dict[str, Any]:
        raise NotImplementedError


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
        self.m.cpu_view.now_ns = time_ns
        if name == "enq":
            packet = dict(zip(("id", "len", "tos"), argument, strict=True))
            result: list[Any] = [self.enqueue(packet)]
            dropped, _ = self.fates()
            result.append(_named(dropped))
        elif name == "deq":
            result = self.dequeued()
        else:
            raise Malformed(f"unknown operation {name!r}")
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
        self.m.cpu_view.now_ns = time_ns
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
            raise Malformed(f"unknown operation {name!r}")
        fq = self.q.fq
        return (
            compare("result", recorded, result)
            + compare_fields(self.queue_fields, queue, self.queue())
            + compare("new", new, self._list(fq.new_flows.head))
            + compare("old", old, self._list(fq.old_flows.head))
            + compare("flows", flows, self._changed_flows())
        )

    def _change(self, options: dict[str, Any]) -> list[Any]:
        self.m.setup.qdisc_change(
            self.m.view, self.q, _in_ns(options), txqueuelen=1000, mtu=self.trace["device_mtu"]
        )
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
            raise Malformed(f"unknown operation {name!r}")
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
            raise Malformed(f"unknown operation {name!r}")
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


Replay = DqlReplay | RingReplay | CodelReplay | SfqReplay | FifoReplay
_REPLAYS: dict[str, Callable[[Machine, Trace], Replay]] = {
    "dql": DqlReplay,
    "ptr_ring": RingReplay,
    "codel": CodelReplay,
    "fq_codel": FqCodelReplay,
    "sfq": SfqReplay,
    "fifo": FifoReplay,
}


# --- the run -----------------------------------------------------------------------------------------------------------


class Run:
    """Counts, and what is printed."""

    def __init__(self, verbose: bool) -> None:
        self.verbose = verbose
        self.traces = self.operations = self.mismatches = self.skipped = self.errors = self.shown = 0
        self._machine: Machine | None = None

    @property
    def machine(self) -> Machine:
        if self._machine is None:
            self._machine = Machine()
        return self._machine

    def error(self, path: Path, line: int, what: object) -> None:
        self.errors += 1
        print(f"{path}:{line}: {what}", file=sys.stderr)

    def file(self, path: Path) -> None:
        try:
            lines = list(self._traces(path, read_text(path)))
        except (OSError, EOFError, ValueError, lzma.LZMAError) as error:
            self.error(path, 0, getattr(error, "strerror", None) or error)
            return
        newest = max((version for _, trace in lines for version in _versions(trace)), default=None)
        for number, trace in lines:
            if not is_followed(trace, newest):
                self.skipped += 1
                continue
            try:
                self._replay(path, number, trace)
            except Malformed as error:
                self.error(path, number, error)

    def _traces(self, path: Path, text: str) -> Iterator[tuple[int, Trace]]:
        found = False
        for number, line in enumerate(text.splitlines(), start=1):
            if not line.strip():
                continue
            found = True
            try:
                yield number, parse_line(line)
            except Malformed as error:
                self.error(path, number, error)
        if not found:
            self.error(path, 1, "no trace in this file")

    def _replay(self, path: Path, line: int, trace: Trace) -> None:
        where = f"{path}:{line}: {trace.get('id', 'trace')}"
        replay = _guarded("start", lambda: _REPLAYS[family_of(trace)](self.machine, trace))
        self.traces += 1
        if isinstance(replay, QdiscReplay):
            in_force = replay
            self._report(where, -1, "params", _guarded("params", in_force.params))
        try:
            for index, op in enumerate(trace["ops"]):
                differences = _guarded(f"op {index}", lambda op=op: replay.step(op))
                self.operations += 1
                self._report(where, index, op[0], differences)
        except BaseException:
            self._machine = None  # whatever it holds is of no use to the next trace
            raise
        replay.close()

    def _report(self, where: str, index: int, op: str, differences: list[Difference]) -> None:
        if not differences:
            return
        self.mismatches += 1
        if self.verbose or self.shown < _SHOWN_BY_DEFAULT:
            self.shown += 1
            for field, expected, got in differences:
                print(f"{where}: op {index} {op}: {field}: expected {expected}, got {got}")


def _guarded(where: str, call: Callable[[], Any]) -> Any:
    """Run one call; what goes wrong with a trace's content says where."""
    try:
        return call()
    except Malformed as error:
        raise Malformed(f"{where}: {error}") from None
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        raise Malformed(f"{where}: {type(error).__name__}: {error}") from error


def main(arguments: list[str] | None = None) -> int:
    """Replay the files; the exit code."""
    parser = argparse.ArgumentParser(description="Replay recorded traces of Linux queueing code.")
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path)
    parser.add_argument(_PYTHON_TWIN, dest="python", action="store_true", help="replay against the plain-Python twin")
    parser.add_argument("-v", "--verbose", action="store_true", help="show every mismatch, and what was skipped")
    options = parser.parse_args(arguments)
    os.environ["EMULATOR_PLAIN"] = "1" if options.python else "0"  # read when the kernel is imported

    run = Run(options.verbose)
    for path in options.files:
        run.file(path)
    if options.verbose and run.skipped:
        print(f"{run.skipped} traces of other kernels skipped", file=sys.stderr)
    print(f"{run.traces} traces, {run.operations} operations, {run.mismatches} mismatches")
    if run.errors:
        return 2
    return 1 if run.mismatches else 0


if __name__ == "__main__":
    sys.exit(main())
