# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
"""The segment's clock: nanoseconds that every process of a run agrees on; the cycle counter where it can be trusted.

::

    ns = ns_base + ((tsc - tsc_base) * tsc_mult >> 32)        as local_clock() in kernel/clock.py

`calibrate` measures ``tsc_mult`` against CLOCK_MONOTONIC. The cycle counter is used only where the kernel itself keeps
time with it (x86, constant_tsc, nonstop_tsc, clocksource tsc); elsewhere, and whenever the measurement does not agree
with itself, ``tsc_mult`` is 0, which means: call clock_gettime.

Reading the two clocks is not one instruction, so the cycle counter is read between two readings of CLOCK_MONOTONIC,
often, and the pair that took the least time counts. Over 20 ms that leaves an error of a few parts per million, which
is the same for every process of the run.
"""

import time
from dataclasses import dataclass

from emulator.kernel.jit import PLAIN, kernel
from emulator.kernel.memory import clock_monotonic_ns, mul_u64_u64_shr, rdtsc
from emulator.runtime.host import tsc_unusable_reason

TSC_SHIFT = 32  # as in kernel/clock.py
_READINGS = 200
_ATTEMPTS = 3
_GHZ_MIN, _GHZ_MAX = 0.2, 10.0
_DRIFT_PPM_MAX = 100


@dataclass(frozen=True)
class ClockParams:
    """How cycles become nanoseconds. ``tsc_mult`` 0: not at all, and ``reason`` says why."""

    tsc_base: int
    ns_base: int
    tsc_mult: int
    reason: str = ""

    @property
    def name(self) -> str:
        """For the manifest: which clock it is."""
        return "tsc" if self.tsc_mult else "clock_gettime"


@dataclass(frozen=True)
class Reading:
    """The cycle counter and CLOCK_MONOTONIC at one moment, and how long that moment was."""

    tsc: int
    ns: int
    width_ns: int


class SegmentClock:
    """The segment's clock, for the launcher."""

    def __init__(self, params: ClockParams) -> None:
        self.params = params

    def now_ns(self) -> int:
        """What local_clock() would say on a CPU without offset."""
        if self.params.tsc_mult == 0:
            return time.monotonic_ns()
        return int(_segment_ns(self.params.tsc_base, self.params.ns_base, self.params.tsc_mult))


def calibrate(duration_s: float = 0.02) -> ClockParams:
    """Measure the cycle counter for about twice ``duration_s``; falls back to CLOCK_MONOTONIC with a reason."""
    reason = "plain Python has no cycle counter" if PLAIN else tsc_unusable_reason()
    for _ in range(_ATTEMPTS if reason is None else 0):
        first = read_clocks()
        time.sleep(duration_s)
        second = read_clocks()
        time.sleep(duration_s)
        params = params_from(first, second, read_clocks())
        if params.tsc_mult:
            return params
        reason = params.reason
    return _fallback(reason or "")


def params_from(first: Reading, second: Reading, third: Reading) -> ClockParams:
    """The rate between the first two readings, checked by the third."""
    cycles, elapsed_ns = second.tsc - first.tsc, second.ns - first.ns
    if cycles <= 0 or elapsed_ns <= 0:
        return _fallback("the cycle counter or CLOCK_MONOTONIC stood still or went back")
    if not _GHZ_MIN <= cycles / elapsed_ns <= _GHZ_MAX:
        return _fallback(f"the cycle counter seems to run at {cycles / elapsed_ns:.3g} GHz")
    params = ClockParams(first.tsc, first.ns, ((elapsed_ns << TSC_SHIFT) + cycles // 2) // cycles)
    predicted_ns = first.ns + ((third.tsc - first.tsc) * params.tsc_mult >> TSC_SHIFT)
    error_ns = abs(predicted_ns - third.ns)
    scale = (third.ns - first.ns) / elapsed_ns
    uncertain_ns = (first.width_ns + second.width_ns) * scale + third.width_ns
    if error_ns > uncertain_ns + (third.ns - first.ns) * _DRIFT_PPM_MAX / 1e6:
        return _fallback(f"the cycle counter drifted by {error_ns} ns in {(third.ns - first.ns) / 1e6:.0f} ms")
    return params


def read_clocks() -> Reading:
    """Both clocks at one moment: the tightest of many readings."""
    tsc, ns, width_ns = _tightest(_READINGS)
    return Reading(int(tsc), int(ns), int(width_ns))


def _fallback(reason: str) -> ClockParams:
    return ClockParams(0, 0, 0, reason)


@kernel
def _tightest(readings):
    best_tsc, best_ns, best_width = 0, 0, 1 << 62
    for _ in range(readings):
        before = clock_monotonic_ns()
        tsc = rdtsc()
        width = clock_monotonic_ns() - before
        if width < best_width:
            best_tsc, best_ns, best_width = tsc, before + width // 2, width
    return best_tsc, best_ns, best_width


@kernel
def _segment_ns(tsc_base, ns_base, tsc_mult):
    return ns_base + mul_u64_u64_shr(rdtsc() - tsc_base, tsc_mult, TSC_SHIFT)
