"""The CPU context: whose time it is, what things cost here, and this CPU's own counters.

Every mechanism takes one ``cpu`` record as its argument. There is one per agent, written by that agent alone (except
``online``, which the supervisor writes), so nothing in it needs an atomic::

    CPU   identity, clock      read-only after start (online: the supervisor)
          costs                read-only after start, or written by the agent's own control thread
          softirq              NET_TX output queue and the qdisc run in progress
          stats                counters, single writer
          skb magazine         this CPU's free packets
          drops[reason][flow]  where and why packets ended here
          trace                the last packets freed, with the reason
          events               the first events of the run, if they are traced (trace.py)

Two clocks. Under the real clock :func:`local_clock` reads the machine and :func:`charge` burns the nanoseconds; under
the virtual clock (``cpu.virtual``) time is the counter ``cpu.now_ns`` and :func:`charge` adds. No mechanism knows
which.

Upstream: ``sched_clock``/``local_clock`` (kernel/sched/clock.c), ``struct softnet_data`` (include/linux/netdevice.h).
"""

import numpy as np

from emulator.kernel.jit import kernel, sub64
from emulator.kernel.memory import clock_monotonic_ns, cpu_relax, mul_u64_u64_shr, rdtsc

CPUS_MAX = 32  # CPU contexts of a run, one per agent
DEVS_MAX = 4  # two veth pairs
FLOWS_MAX = 64  # flows whose packets are accounted one by one
MAGAZINE_SIZE = 256  # free packets a CPU keeps to itself, two batches of 128
TRACE_SIZE = 16384  # last packets freed, per CPU
TRACE_EVENTS_MAX = 1024  # events noted, per CPU
HZ = 1000  # jiffies a second, unless the host profile says otherwise
TSC_SHIFT = 32
_PAUSE_NS = 200  # a pause and a look at the clock take less than this

DROP_REASONS = (
    "NONE",  # consumed: delivered to its receiver
    "QDISC_DROP",  # tail drop, or no room in the qdisc
    "QDISC_OVERLIMIT",  # fq_codel and sfq: the whole qdisc over its limit
    "QDISC_MEMORY",  # fq_codel: over memory_limit
    "QDISC_CONGESTED",  # CoDel
    "QDISC_FLOW_LIMIT",  # sfq: the flow's slot is full
    "QDISC_MAXFLOWS",  # sfq: no free slot
    "QDISC_CHANGE",  # limits lowered at run time
    "QDISC_BURST_DROP",  # defer_list longer than qdisc_max_burst
    "QUEUE_PURGE",  # qdisc reset or deactivated
    "FULL_RING",  # driver's ring full and no qdisc to hold the packet
    "DEV_READY",  # device down, or noqueue asked to queue
    "NOMEM",  # pool empty
    "ECN_MARK",  # not a drop: CoDel set CE (appears in the trace only)
)
REASONS_MAX = len(DROP_REASONS)
(
    NOT_DROPPED,
    QDISC_DROP,
    QDISC_OVERLIMIT,
    QDISC_MEMORY,
    QDISC_CONGESTED,
    QDISC_FLOW_LIMIT,
    QDISC_MAXFLOWS,
    QDISC_CHANGE,
    QDISC_BURST_DROP,
    QUEUE_PURGE,
    FULL_RING,
    DEV_READY,
    NOMEM,
    ECN_MARK,
) = range(REASONS_MAX)

COSTS = np.dtype(
    [
        ("skb_build", "i8"),  # building a packet in the flood
        ("qdisc_enqueue", "i8"),
        ("qdisc_dequeue", "i8"),
        ("veth_xmit", "i8"),
        ("ring_consume", "i8"),
        ("gro_receive", "i8"),
        ("stack_rx", "i8"),  # delivery of a packet above GRO, without rules
        ("completion", "i8"),
        ("napi_poll", "i8"),  # a poll, whatever it finds: begin, complete, bottom halves on
        ("napi_wakeup", "i8"),  # from napi_schedule to the first poll of a sleeping NAPI thread
        ("echo_reply", "i8"),
        ("return_path", "i8"),  # latency: from a reply above GRO to ping, its sendto and recvmsg included
        ("timer_slack", "i8"),  # latency: how late a sleeper's timer may fire
        ("cache_line", "i8"),  # a shared line that another CPU had last
        ("lock_handover", "i8"),  # a lock that another CPU held last
        ("noise_ppm", "i8"),  # by how much a packet's stack_rx and rules may differ from what they cost on average
    ],
    align=True,
)
"""What an operation costs on this CPU, in nanoseconds, on top of what the emulator itself spends."""

CPU_STATS = np.dtype(
    [
        ("lock_contended", "i8"),  # spin_lock found the lock taken
        ("lock_yielded", "i8"),  # ... for longer than any critical section: the holder was preempted
        ("burnt_ns", "i8"),  # costs charged
        ("net_tx_action", "i8"),  # softirq runs
        ("time_squeeze", "i8"),  # a qdisc run ended by its quota
        ("xmit", "i8"),  # dev_queue_xmit calls
        ("steps", "i8"),  # steps of this agent that did something
        ("idle_loops", "i8"),
        ("cycles", "i8"),  # duty cycles
        ("longest_cycle_ns", "i8"),
        ("first_step_ns", "i8"),  # time of the first step that did something
        ("sleeps", "i8"),  # futex waits
        ("_line", "i8", 4),
    ],
    align=True,
)

DEV_STATS = np.dtype(
    [
        ("tx_packets", "i8"),
        ("tx_bytes", "i8"),
        ("tx_dropped", "i8"),
        ("rx_packets", "i8"),
        ("rx_bytes", "i8"),
        ("rx_dropped", "i8"),
        ("_line", "i8", 2),
    ],
    align=True,
)
"""What this CPU did for one device (dev_lstats, veth_rq_stats)."""

EVENT = np.dtype([("time_ns", "i8"), ("code", "i8"), ("a", "i8"), ("b", "i8")], align=True)
TRACE = np.dtype(
    [
        ("limit", "i8"),  # events that may be noted; 0 = off
        ("count", "i8"),  # events so far
        ("_line", "i8", 6),
        ("entries", EVENT, TRACE_EVENTS_MAX),
    ],
    align=True,
)

CPU = np.dtype(
    [
        # identity and clock
        ("id", "i8"),
        ("online", "i8"),  # 1 while the agent lives; written by the supervisor
        ("virtual", "i8"),  # 1: time is now_ns
        ("tsc_base", "i8"),  # cycle counter at ns_base
        ("ns_base", "i8"),
        ("tsc_mult", "i8"),  # nanoseconds a cycle << TSC_SHIFT; 0: use CLOCK_MONOTONIC
        ("clock_offset_ns", "i8"),  # a CPU whose clock is ahead or behind
        ("now_ns", "i8"),  # virtual time
        ("costs", COSTS),
        # softirq: NET_TX
        ("output_queue", "i8"),  # first scheduled qdisc, 1 + index; 0 = none. Linked by qdisc.next_sched
        ("run_q", "i8"),  # qdisc whose run is in progress on this CPU, 1 + index
        ("run_quota", "i8"),  # packets left in that run
        ("net_tx_list", "i8"),  # output queue being worked off by net_tx_action
        ("output_queue_tail", "i8"),  # last scheduled qdisc, 1 + index
        ("bulk", "i8"),  # packets that the last dequeue returned
        ("jiffy_ns", "i8"),  # read-only after start
        ("random", "i8"),  # state of this CPU's dice
        ("stats", CPU_STATS),
        ("dev", DEV_STATS, DEVS_MAX),
        ("magazine_count", "i8"),
        ("_magazine_line", "i8", 7),
        ("magazine", "i4", MAGAZINE_SIZE),
        ("drops", "i8", (REASONS_MAX * FLOWS_MAX)),  # [reason * FLOWS_MAX + flow]
        ("trace_head", "i8"),  # packets freed so far
        ("_trace_line", "i8", 7),
        ("trace", "i8", TRACE_SIZE),  # (skb << 8) | reason
        ("events", TRACE),
    ],
    align=True,
)


@kernel
def local_clock(cpu):
    """Time on this CPU in nanoseconds."""
    if cpu.virtual != 0:
        return cpu.now_ns + cpu.clock_offset_ns
    if cpu.tsc_mult != 0:
        cycles = rdtsc() - cpu.tsc_base
        return cpu.ns_base + mul_u64_u64_shr(cycles, cpu.tsc_mult, TSC_SHIFT) + cpu.clock_offset_ns
    return clock_monotonic_ns() + cpu.clock_offset_ns


@kernel
def jiffies(cpu):
    """Time on this CPU in jiffies."""
    return local_clock(cpu) // cpu.jiffy_ns


@kernel
def time_after(a, b):
    """Whether time a is after time b, for clocks that wrap at 64 bits."""
    return sub64(b, a) < 0


@kernel
def time_after_eq(a, b):
    """Whether time a is at or after time b, for clocks that wrap at 64 bits."""
    return sub64(a, b) >= 0


@kernel
def dice(cpu, sides):
    """A number of 0..sides-1, sides below 2^31, that follows from the scenario's seed (xorshift64)."""
    if sides <= 1:
        return 0
    x = cpu.random
    x ^= (x << 13) & 0x7FFFFFFFFFFFFFFF
    x ^= x >> 7
    x ^= (x << 17) & 0x7FFFFFFFFFFFFFFF
    cpu.random = x
    return (((x >> 31) & 0xFFFFFFFF) * sides) >> 32


@kernel
def wakeup_ns(cpu, latency_ns):
    """What waking a thread takes this time: mostly less than the latency, now and then up to twice, on average as long.

    Half of it, and thrice that times the square of a number that is evenly spread between 0 and 1.
    """
    number = dice(cpu, 1024)
    return latency_ns // 2 + 3 * latency_ns * number * number // (2 << 20)


@kernel
def charge_about(cpu, cost_ns):
    """Pay a cost that differs from packet to packet, evenly within noise_ppm to either side."""
    spread_ns = cost_ns * cpu.costs.noise_ppm // 1_000_000
    charge(cpu, cost_ns - spread_ns + dice(cpu, 2 * spread_ns + 1))


@kernel
def charge(cpu, cost_ns):
    """Pay a cost: burn it under the real clock, add it under the virtual one. Zero costs nothing."""
    if cost_ns > 0:
        cpu.stats.burnt_ns += cost_ns
        if cpu.virtual != 0:
            cpu.now_ns += cost_ns
        else:
            _burn(cpu, cost_ns)


@kernel
def _burn(cpu, cost_ns):
    deadline = local_clock(cpu) + cost_ns
    while local_clock(cpu) < deadline - _PAUSE_NS:
        cpu_relax()
    while local_clock(cpu) < deadline:
        pass  # a pause would end too late
