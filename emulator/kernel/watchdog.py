"""dev_watchdog: finds a transmit queue that has been stopped for too long, and lets the driver recover it.

A queue counts as hung when it is stopped (by driver or stack) and its trans_start is older than ``watchdog_timeo``. All
``num_tx_queues`` queues are looked at, also those beyond the real number; the first hung one ends the search. Recovery:
freeze all queues, ``ndo_tx_timeout`` (clears STACK_XOFF and wakes; the DQL is left alone, because a reset would race
with completions), unfreeze, which schedules every queue that is not stopped. The timer is then set to the oldest
stopped queue's trans_start plus the timeout, so that detection falls into (timeo, timeo + 1 s].

W2 here, XOFF bit then trans_start, pairs with W1 in netif_tx_stop_queue and netdev_tx_sent_queue.

A driver without ndo_tx_timeout (stock veth) has no watchdog.

Upstream: dev_watchdog (net/sched/sch_generic.c), veth_tx_timeout of the veth BQL series.
"""

from emulator.kernel.clock import jiffies
from emulator.kernel.device import NETDEV_UP
from emulator.kernel.jit import kernel
from emulator.kernel.memory import READ_ONCE, clear_bit, set_bit, smp_mb, test_and_clear_bit
from emulator.kernel.netdev import (
    QUEUE_STATE_FROZEN,
    QUEUE_STATE_STACK_XOFF,
    netif_schedule_queue,
    netif_tx_wake_queue,
    netif_xmit_stopped,
)
from emulator.kernel.trace import NET_DEV_XMIT_TIMEOUT, STACK_WAKE, trace_event


@kernel
def dev_watchdog(net, cpu, dev):
    """Look once. Returns the jiffies at which to look again, negative if a timeout was handled just now."""
    now = jiffies(cpu)
    next_check = now + dev.watchdog_timeo
    if dev.has_tx_timeout == 0 or dev.present == 0 or dev.flags & NETDEV_UP == 0:
        return next_check
    hung = -1
    for i in range(dev.num_tx_queues):
        txq = dev.txq[i]
        if not netif_xmit_stopped(txq):
            continue
        smp_mb()  # W2, pairs with W1 in netif_tx_stop_queue() and netdev_tx_sent_queue()
        trans_start = READ_ONCE(txq, "trans_start")
        if now > trans_start + dev.watchdog_timeo:
            txq.trans_timeout += 1
            trace_event(cpu, NET_DEV_XMIT_TIMEOUT, txq.dev, txq.index)
            hung = i
            break
        next_check = min(next_check, trans_start + dev.watchdog_timeo)
    if hung >= 0:
        _handle_timeout(net, cpu, dev, hung)
    next_check = _round_jiffies(cpu, next_check, now)
    return -next_check if hung >= 0 else next_check


@kernel
def _handle_timeout(net, cpu, dev, hung):
    for i in range(dev.num_tx_queues):
        set_bit(dev.txq[i], "state", QUEUE_STATE_FROZEN)
    veth_tx_timeout(net, cpu, dev.txq[hung])
    for i in range(dev.num_tx_queues):
        clear_bit(dev.txq[i], "state", QUEUE_STATE_FROZEN)
        netif_schedule_queue(net, cpu, dev.txq[i])


@kernel
def veth_tx_timeout(net, cpu, txq):
    """The driver's answer: forget the stack's stop and wake the queue; the charges stay."""
    if test_and_clear_bit(txq, "state", QUEUE_STATE_STACK_XOFF):
        trace_event(cpu, STACK_WAKE, txq.dev, txq.index)
    netif_tx_wake_queue(net, cpu, txq)


@kernel
def _round_jiffies(cpu, when, now):
    """Round up to a whole second, as timers do that need no precision; never into the past."""
    hz = 1_000_000_000 // cpu.jiffy_ns
    rounded = (when + hz - 1) // hz * hz
    return max(rounded, now + 1)
