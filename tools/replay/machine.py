"""The emulated kernel that traces are replayed on, and how states are compared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from replay.traces import MalformedError

Difference = tuple[str, Any, Any]
"""Name of a field, its recorded value, its present one."""


class Machine:
    """One emulated kernel in private memory, with one CPU whose clock is set by the trace."""

    def __init__(self) -> None:
        # Here, because which of the two kernels is imported depends on the environment that the command line sets.
        import numpy as np

        from emulator.kernel import clock, dql, jit, memory, net, netdev, plain, ptr_ring, skb
        from emulator.kernel.qdisc import base, ops, setup, sfq

        self.np: Any = np
        self.clock: Any = clock
        self.dql: Any = dql
        self.memory: Any = memory
        self.netdev: Any = netdev
        self.ptr_ring: Any = ptr_ring
        self.skb: Any = skb
        self.base: Any = base
        self.ops: Any = ops
        self.setup: Any = setup
        self.sfq: Any = sfq
        self._is_plain = jit.PLAIN
        self._plain: Any = plain
        self.raw: Any = np.zeros(1, net.NET)[0]
        self.view = self._plain.Record(self.raw)
        self.net = self.native(self.raw)
        self.cpu = self.native(self.raw["cpus"][0])
        self.cpu_view = self.view.cpus[0]
        self.skb.pool_init(self.view)
        self.cpu_view.online = 1
        self.cpu_view.virtual = 1
        self.cpu_view.jiffy_ns = 1_000_000_000 // self.clock.HZ

    def native(self, raw: Any) -> Any:
        """A record as the kernel's functions take it: numpy's for compiled code, a view for the plain twin."""
        return self._plain.Record(raw) if self._is_plain else raw

    def words(self, count: int) -> Any:
        """An array of 64-bit words for a kernel function to fill, and to read from."""
        array = self.np.zeros(max(count, 1), "i8")
        return self._plain.Array(array) if self._is_plain else array

    def create_qdisc(self, kind: str, options: dict[str, Any], txqueuelen: int, mtu: int) -> Any:
        """A fresh qdisc in record 0, with all arenas free."""
        self.raw["qdiscs"][0] = self.np.zeros((), self.base.QDISC)
        for top in ("ring_slots_used", "fq_flows_used", "sfq_slots_used", "sfq_ht_used"):
            setattr(self.view.params, top, 0)
        return self.setup.qdisc_create(
            self.view, 0, kind, options, dev=0, txq=-1, txqueuelen=txqueuelen, mtu=mtu, onetxqueue=False
        )


class Replay(ABC):
    """One trace on a machine; made from its starting state, then stepped through its operations."""

    @abstractmethod
    def step(self, op: list[Any]) -> list[Difference]:
        """Perform one operation; where the result or the state differs from the recorded ones."""

    def params(self) -> list[Difference]:
        """Where the parameters in force differ from the recorded ones."""
        return []

    def close(self) -> list[Difference]:
        """After the last operation: give back what is held; what has gone missing."""
        return []


def integer(value: Any, low: int = 0, high: int = (1 << 63) - 1) -> int:
    """A value of a trace that has to be a whole number within bounds."""
    if type(value) is not int or not low <= value <= high:
        raise MalformedError(f"{value!r} is not a whole number from {low} to {high}")
    return value


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
        raise MalformedError(f"a state of {len(expected)} values for {len(fields)} fields")
    return [(name, value, got[name]) for name, value in zip(fields, expected, strict=True) if got[name] != value]
