"""Replay of DQL traces, the netdev calls around it included."""

from __future__ import annotations

from typing import Any

from replay.machine import Difference, Machine, Replay, compare, compare_fields, integer, s64, u32
from replay.traces import MalformedError, Trace

_U64_MAX = (1 << 64) - 1


class DqlReplay(Replay):
    """DQL by itself, and behind the netdev calls.

    The netdev calls read jiffies off the CPU's clock, which counts nanoseconds and so ends long before the jiffies
    do. For them all times are counted from a whole number of stall histories before the start of the trace.
    """

    _HISTORY = 256
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
        self.netdev = any(op[0] in ("sent", "tx_completed", "tx_reset") for op in trace["ops"])
        jiffies = integer(trace["jiffies0"], high=_U64_MAX)
        self.base = jiffies // self._HISTORY * self._HISTORY if self.netdev else 0
        self.now = jiffies - self.base
        queues = machine.raw["devs"][0]["txq"]
        queues[0] = machine.np.zeros((), queues.dtype)
        self.txq_view = machine.view.devs[0].txq[0]
        self.dql_view = self.txq_view.dql
        self.txq = machine.native(queues[0])
        self.dql = machine.native(queues[0]["dql"])
        self.qdisc = machine.create_qdisc("pfifo", {}, 1000, 1500)
        machine.dql.dql_init(self.dql, s64(integer(trace["hold_time"], high=_U64_MAX)), s64(self.now))
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
        extra = self._call(name, integer(argument, high=_U64_MAX))
        recorded = dict(op[3]) if len(op) > 3 else {}
        return compare("extra", recorded, extra) + compare_fields(self.fields, expected, self._state())

    def _call(self, name: str, argument: int) -> dict[str, int]:
        kernel, now = self.m.dql, s64(self.now)
        if self.netdev:
            self.m.cpu_view.now_ns = integer(self.now * (1_000_000_000 // self.m.clock.HZ))
        if name in ("queued", "sent", "completed", "tx_completed"):
            integer(argument, high=0xFFFFFFFF)
        if name == "queued":
            return {} if kernel.dql_queued(self.dql, argument, now) else {"warn": 1}
        if name in ("completed", "tx_completed"):
            return self._complete(name, argument, now)
        if name == "jiffies":
            self.now = (self.now + argument) & _U64_MAX
        elif name == "reset":
            kernel.dql_reset(self.dql, now)
        elif name == "set_stall_thrs":
            kernel.dql_set_stall_thrs(self.dql, argument, now)
        elif name == "sent":
            self.m.netdev.netdev_tx_sent_queue(self.m.net, self.m.cpu, self.txq, argument)
            return {} if argument <= kernel.DQL_MAX_OBJECT else {"warn": 1}
        elif name == "tx_reset":
            self.m.netdev.netdev_tx_reset_queue(self.m.net, self.m.cpu, self.txq)
        elif name in ("set_min_limit", "set_max_limit", "set_limit", "set_slack_hold_time", "set_stall_max"):
            value = s64(argument) if name == "set_slack_hold_time" else argument
            setattr(self.dql_view, name.removeprefix("set_"), value)
        else:
            raise MalformedError(f"unknown operation {name!r}")
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
        state |= {name: (getattr(dql, name) + self.base) & _U64_MAX for name in self._TIMES}
        state["avail"] = self.m.dql.dql_avail(self.dql)
        state["xoff"] = self.txq_view.state >> self.m.netdev.QUEUE_STATE_STACK_XOFF & 1
        return state
