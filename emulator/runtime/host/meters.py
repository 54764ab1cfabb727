"""What the machine took from a run while it ran: stolen time, throttling, and the scheduler's account of each task."""

import os
from dataclasses import dataclass

from emulator.runtime.host.cgroup import read_throttled_us
from emulator.runtime.host.facts import read_steal_ticks
from emulator.runtime.host.procfs import PROC, read_text

_TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")  # what /proc/stat counts in; 10 ms almost everywhere


class StealMeter:
    """Stolen time by CPU, and throttling by quota, between `start` and `stop`. Steps of 10 ms."""

    def __init__(self) -> None:
        self._steal_ticks: dict[int, int] | None = None
        self._throttled_us: int | None = None
        self.throttled_ms: float | None = None

    def start(self) -> None:
        """Remember where the counters stand."""
        self._steal_ticks, self._throttled_us = read_steal_ticks(), read_throttled_us()

    def stop(self) -> dict[int, float] | None:
        """Milliseconds stolen from each CPU since `start`; None if the kernel does not say."""
        throttled_us = read_throttled_us()
        if throttled_us is not None and self._throttled_us is not None:
            self.throttled_ms = (throttled_us - self._throttled_us) / 1000
        steal_ticks = read_steal_ticks()
        if steal_ticks is None or self._steal_ticks is None:
            return None
        before = self._steal_ticks
        return {cpu: max(0, ticks - before[cpu]) * _TICK_MS for cpu, ticks in steal_ticks.items() if cpu in before}


@dataclass(frozen=True)
class TaskTimes:
    """What the scheduler says of one task since it began. None: the kernel does not say."""

    cpu_ns: int | None
    wait_ns: int | None  # ready to run, but another ran
    voluntary: int | None  # context switches because it waited for something
    involuntary: int | None  # context switches because another was put in its place

    def since(self, before: "TaskTimes") -> "TaskTimes":
        """What was added after ``before``."""
        return TaskTimes(
            cpu_ns=_minus(self.cpu_ns, before.cpu_ns),
            wait_ns=_minus(self.wait_ns, before.wait_ns),
            voluntary=_minus(self.voluntary, before.voluntary),
            involuntary=_minus(self.involuntary, before.involuntary),
        )


def task_times(pid: int, tid: int | None = None) -> TaskTimes:
    """The account of one thread; of the main thread unless ``tid`` names another."""
    task = PROC / str(pid) / "task" / str(pid if tid is None else tid)
    cpu_ns, wait_ns = _schedstat(read_text(task / "schedstat"))
    status = dict(line.partition(":")[::2] for line in (read_text(task / "status") or "").splitlines())
    return TaskTimes(
        cpu_ns=cpu_ns,
        wait_ns=wait_ns,
        voluntary=_number(status.get("voluntary_ctxt_switches")),
        involuntary=_number(status.get("nonvoluntary_ctxt_switches")),
    )


def _schedstat(text: str | None) -> tuple[int | None, int | None]:
    values = (text or "").split()
    return (_number(values[0]), _number(values[1])) if len(values) >= 2 else (None, None)


def _number(text: str | None) -> int | None:
    text = (text or "").strip()
    return int(text) if text.isdigit() else None


def _minus(now: int | None, before: int | None) -> int | None:
    return None if now is None or before is None else now - before
