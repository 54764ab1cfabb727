# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
"""A received packet where it is received: on another CPU than the one that sent it.

The flood and the NAPI thread of a private network, each a thread of this process on a CPU of its own. Only the
receiver's time counts, in windows short enough that most of them pass without anybody else wanting the CPU; windows
that somebody disturbed are longer, never shorter, so the lower half is looked at.
"""

from __future__ import annotations

import numpy as np

from emulator.agents.flood import flood_step
from emulator.kernel.clock import local_clock
from emulator.kernel.jit import kernel
from emulator.kernel.memory import READ_ONCE, WRITE_ONCE, cpu_relax
from emulator.kernel.threaded import napi_threaded_step
from emulator.runtime.profile_measure.bench import Bench, Samples
from emulator.runtime.profile_measure.handover import on_two_cpus
from emulator.runtime.profile_measure.steps import FLOOD, RECEIVER

WINDOW = 256
"""packets of a window: four polls, each of which may also have run the qdisc"""
_WARM_UP = 8  # windows
_PATIENCE_NS = 10_000_000_000


def received_packet(cpus: tuple[int, int], windows: int, burn_ns: int) -> Samples:
    """ns that one received packet takes while the flood keeps the ring full and each packet burns ``burn_ns``.

    The less disturbed half of the windows. Raises CannotRun when the two do not run at the same time.
    """
    bench = Bench()
    bench.as_stock(burn_ns)
    taken = np.zeros(windows + _WARM_UP, dtype=np.int64)
    _receive(bench.nets, bench.agents, taken[:0])  # have both compiled before one waits for the other
    _flood(bench.nets, bench.agents)  # which was told to stop
    bench.resume()
    on_two_cpus(
        cpus,
        lambda: _receive(bench.nets, bench.agents, taken),
        lambda: _flood(bench.nets, bench.agents),
    )
    undisturbed = sorted(float(ns) / WINDOW for ns in taken[_WARM_UP:])[: max(2, windows // 2)]
    return Samples(tuple(undisturbed))


@kernel
def _flood(nets, agents):
    """Send until the receiver is done."""
    net = nets[0]
    words = agents[FLOOD]
    sender = net.cpus[words.cpu]
    patience = local_clock(sender) + _PATIENCE_NS
    while READ_ONCE(words, "stop") == 0:
        for _ in range(32):
            if not flood_step(net, sender, words):
                cpu_relax()
        if local_clock(sender) > patience:
            return 0
    return 1


@kernel
def _receive(nets, agents, taken):
    """Receive window after window; the flood is told to stop at the end."""
    net = nets[0]
    words = agents[RECEIVER]
    cpu = net.cpus[words.cpu]
    dev = net.devs[words.dev]
    rq = dev.rq[words.queue]
    stats = cpu.dev[dev.ifindex]
    patience = local_clock(cpu) + _PATIENCE_NS
    done = 0
    began = local_clock(cpu)
    goal = stats.rx_packets + WINDOW
    while done < len(taken):
        if not napi_threaded_step(net, cpu, dev, rq) and local_clock(cpu) > patience:
            break
        if stats.rx_packets >= goal:
            now = local_clock(cpu)
            taken[done] = now - began
            began = now
            goal += WINDOW
            done += 1
    WRITE_ONCE(agents[FLOOD], "stop", 1)
    return 1 if done == len(taken) else 0
