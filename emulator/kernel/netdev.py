"""The transmit queue: its stop bits, who may wake it, and the BQL glue around its DQL.

::

    TXQ  state line      DRV_XOFF, STACK_XOFF, FROZEN       any CPU, by atomic bit operations
         stop line       trans_start, stop counters         whoever stops the queue: the runner, or producer_lock
         wake line       wake counters, last completion     whoever completes: NAPI ownership
         config line     qdisc, trans_timeout               control (under RTNL), watchdog
         dql             dql.py
         histograms      limit, inflight, count, interval   whoever completes

The two stop bits are independent and both must be clear. A driver stops with DRV_XOFF (ring full), the stack with
STACK_XOFF (over the DQL limit). Waking the driver's bit schedules the qdisc whatever the other bit says; clearing the
stack's bit schedules it only if no XOFF bit remains.

Full barriers:
  B1 in netdev_tx_sent_queue       set STACK_XOFF, then re-read avail       pairs with B2
  B2 in netdev_tx_completed_queue  new adj_limit, then test STACK_XOFF      pairs with B1: a lost wake-up otherwise
  W1 before either stop bit        trans_start, then the bit                pairs with W2 in dev_watchdog: a false alarm

Upstream: include/linux/netdevice.h (netif_tx_*, netdev_tx_*_queue), net/core/dev.c (__netif_schedule).
"""

import numpy as np

from emulator.kernel.clock import jiffies, local_clock
from emulator.kernel.dql import DQL, dql_avail, dql_completed, dql_queued, dql_reset
from emulator.kernel.hist import HIST, hist_add, hist_clear
from emulator.kernel.jit import kernel, s32, u32
from emulator.kernel.memory import (
    FAULT_DQL_BUG,
    LINE,
    READ_ONCE,
    WRITE_ONCE,
    clear_bit,
    record_fault,
    smp_mb,
    smp_mb_after_atomic,
    smp_mb_before_atomic,
    take_line,
    test_and_clear_bit,
    test_and_set_bit,
)
from emulator.kernel.qdisc.base import QDISC_STATE_SCHED
from emulator.kernel.trace import BQL_COMPLETE, DRV_STOP, DRV_WAKE, STACK_STOP, STACK_WAKE, trace_event

QUEUE_STATE_DRV_XOFF, QUEUE_STATE_STACK_XOFF, QUEUE_STATE_FROZEN = range(3)
DRV_XOFF, STACK_XOFF, FROZEN = 1, 2, 4
ANY_XOFF = DRV_XOFF | STACK_XOFF
ANY_XOFF_OR_FROZEN = ANY_XOFF | FROZEN

TXQ = np.dtype(
    [
        ("state", "i8"),
        ("line", LINE),  # this line and the DQL's, which change hands with it
        ("_state_line", "i8", 6),
        ("trans_start", "i8"),  # jiffies
        ("drv_xoff", "i8"),  # times DRV_XOFF was set
        ("stack_xoff", "i8"),  # times STACK_XOFF was set and stayed
        ("_stop_line", "i8", 5),
        ("drv_wake", "i8"),  # times DRV_XOFF was found set and cleared by the consumer
        ("stack_wake", "i8"),
        ("completions", "i8"),
        ("last_completion_ns", "i8"),  # 0 = none in this measurement
        ("inflight_max", "i8"),
        ("measured", "i8"),  # 1 once the histograms were cleared at the start of the measurement
        ("_wake_line", "i8", 2),
        ("index", "i8"),
        ("dev", "i8"),
        ("qdisc", "i8"),  # index of the qdisc this queue feeds from
        ("trans_timeout", "i8"),  # transmit timeouts seen (sysfs tx_timeout)
        ("_config_line", "i8", 4),
        ("dql", DQL),
        ("limit_hist", HIST),  # DQL limit after each completion
        ("inflight_hist", HIST),  # in flight before each completion
        ("count_hist", HIST),  # units of each completion
        ("interval_hist", HIST),  # ns between completions
    ],
    align=True,
)


@kernel
def netif_xmit_stopped(txq):
    """Stopped by the driver or the stack."""
    return READ_ONCE(txq, "state") & ANY_XOFF != 0


@kernel
def netif_xmit_frozen_or_stopped(txq):
    """Stopped by anyone, or frozen by the watchdog."""
    return READ_ONCE(txq, "state") & ANY_XOFF_OR_FROZEN != 0


@kernel
def netif_tx_queue_stopped(txq):
    """Stopped by the driver."""
    return READ_ONCE(txq, "state") & DRV_XOFF != 0


@kernel
def netif_schedule(net, cpu, index):
    """Have this CPU's NET_TX softirq run a qdisc (``__netif_schedule``).

    Nothing to do while its defer_list holds packets: whoever put the first one there is about to run it.
    """
    q = net.qdiscs[index]
    if READ_ONCE(q, "defer_head") != 0:
        return
    if test_and_set_bit(q, "state", QDISC_STATE_SCHED):
        return
    q.next_sched = 0
    if cpu.output_queue == 0:
        cpu.output_queue = index + 1
    else:
        net.qdiscs[cpu.output_queue_tail - 1].next_sched = index + 1
    cpu.output_queue_tail = index + 1


@kernel
def netif_schedule_queue(net, cpu, txq):
    """Schedule the queue's qdisc if no XOFF bit is left."""
    if not netif_xmit_stopped(txq):
        netif_schedule(net, cpu, txq.qdisc)


@kernel
def netif_tx_stop_queue(cpu, txq):
    """Stop by the driver."""
    WRITE_ONCE(txq, "trans_start", jiffies(cpu))
    smp_mb_before_atomic()  # W1, pairs with W2 in dev_watchdog()
    if not test_and_set_bit(txq, "state", QUEUE_STATE_DRV_XOFF):
        txq.drv_xoff += 1
        trace_event(cpu, DRV_STOP, txq.dev, txq.index)


@kernel
def netif_tx_wake_queue(net, cpu, txq):
    """Wake from the driver's stop; schedules the qdisc whatever STACK_XOFF says. Whether the bit was set."""
    if not test_and_clear_bit(txq, "state", QUEUE_STATE_DRV_XOFF):
        return False
    trace_event(cpu, DRV_WAKE, txq.dev, txq.index)
    netif_schedule(net, cpu, txq.qdisc)
    return True


@kernel
def txq_trans_cond_update(cpu, txq):
    """Move trans_start to now unless it is there already."""
    now = jiffies(cpu)
    if READ_ONCE(txq, "trans_start") != now:
        WRITE_ONCE(txq, "trans_start", now)


@kernel
def netdev_tx_sent_queue(net, cpu, txq, count):
    """Charge ``count`` units to the queue and stop it when over the limit. Caller serialises (veth: producer_lock)."""
    take_line(cpu, txq.line, cpu.costs.cache_line)
    dql = txq.dql
    now = jiffies(cpu) if READ_ONCE(dql, "stall_thrs") != 0 else 0
    dql_queued(dql, count, now)
    if dql_avail(dql) >= 0:
        return
    WRITE_ONCE(txq, "trans_start", jiffies(cpu))
    smp_mb_before_atomic()  # W1, pairs with W2 in dev_watchdog()
    was_stopped = test_and_set_bit(txq, "state", QUEUE_STATE_STACK_XOFF)
    smp_mb_after_atomic()  # B1, pairs with B2 in netdev_tx_completed_queue()
    if dql_avail(dql) >= 0:
        clear_bit(txq, "state", QUEUE_STATE_STACK_XOFF)  # completed meanwhile; we are the producer, nobody to schedule
    elif not was_stopped:
        txq.stack_xoff += 1
        trace_event(cpu, STACK_STOP, txq.dev, txq.index)


@kernel
def netdev_tx_completed_queue(net, cpu, txq, count):
    """Complete ``count`` units and let the queue go on if that made room. NAPI ownership serialises.

    Returns whether STACK_XOFF was cleared. Raises KernelFault (DQL BUG) when more is completed than is in flight.
    """
    if count == 0:
        return False
    take_line(cpu, txq.line, cpu.costs.cache_line)
    dql = txq.dql
    now_ns = local_clock(cpu)
    inflight = u32(READ_ONCE(dql, "num_queued") - dql.num_completed)
    if count > inflight:
        record_fault(net, cpu, FAULT_DQL_BUG, txq.dev, txq.index, count, inflight, u32(dql.num_completed))
    dql_completed(dql, count, now_ns // cpu.jiffy_ns)
    _observe_completion(net, txq, count, inflight, now_ns)
    trace_event(cpu, BQL_COMPLETE, count, u32(dql.limit))
    smp_mb()  # B2, pairs with B1 in netdev_tx_sent_queue()
    if dql_avail(dql) < 0:
        return False
    if not test_and_clear_bit(txq, "state", QUEUE_STATE_STACK_XOFF):
        return False
    txq.stack_wake += 1
    trace_event(cpu, STACK_WAKE, txq.dev, txq.index)
    netif_schedule_queue(net, cpu, txq)
    return True


@kernel
def netdev_tx_reset_queue(net, cpu, txq):
    """Clear STACK_XOFF and forget all charges. Schedules nothing; must overlap with neither charge nor completion."""
    clear_bit(txq, "state", QUEUE_STATE_STACK_XOFF)
    dql_reset(txq.dql, jiffies(cpu))


@kernel
def bql_inflight(txq):
    """Units charged and not completed, as sysfs shows them."""
    completed = READ_ONCE(txq.dql, "num_completed")
    return s32(READ_ONCE(txq.dql, "num_queued") - completed)


@kernel
def _observe_completion(net, txq, count, inflight, now_ns):
    """Keep the exact distributions; what happened before the measurement started is forgotten."""
    if txq.measured == 0 and now_ns >= net.params.measure_start_ns:
        hist_clear(txq.limit_hist)
        hist_clear(txq.inflight_hist)
        hist_clear(txq.count_hist)
        hist_clear(txq.interval_hist)
        txq.last_completion_ns = 0
        txq.measured = 1
    txq.completions += 1
    txq.inflight_max = max(txq.inflight_max, inflight)
    hist_add(txq.limit_hist, u32(txq.dql.limit))
    hist_add(txq.inflight_hist, inflight)
    hist_add(txq.count_hist, count)
    if txq.last_completion_ns != 0:
        hist_add(txq.interval_hist, now_ns - txq.last_completion_ns)
    txq.last_completion_ns = now_ns
