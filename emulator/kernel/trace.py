"""Tracepoints: what happened on a CPU, event by event, with the time of each.

::

    TRACE   limit     events this CPU may note; 0 = off         read-only after start
            count     events so far, whether noted or not       its agent
            entries   the first `limit` of them                 its agent

An event has a code and two numbers; :data:`TRACEPOINTS` names them. The first events of a run are kept, not the last:
they are what a scripted scenario is about, and nothing that was noted is ever overwritten.

A tracepoint stands where its mechanism acts: before what lets another CPU go on (a packet is noted before it can be
seen in the ring), so that cause comes before effect also in the times of two CPUs. Off it costs a load and a branch.

The record itself is part of CPU, in clock.py. Upstream: include/trace/events/{net,napi,qdisc,skb}.h; the stops, wakes,
requeues and completions have no tracepoint there and are named for what they are.
"""

from emulator.kernel.clock import FLOWS_MAX, local_clock
from emulator.kernel.jit import kernel

TRACEPOINTS = (
    ("none", ("a", "b")),  # a code of 0: nothing was noted here
    ("qdisc_enqueue", ("flow", "seq")),  # offered to the qdisc, which may still drop it; not what bypasses it
    ("qdisc_dequeue", ("flow", "seq")),  # taken out for the driver, a requeued one too
    ("net_dev_xmit", ("flow", "seq")),  # put on the ring
    ("requeue", ("flow", "seq")),  # not taken by the driver, back to gso_skb
    ("drv_stop", ("dev", "queue")),  # DRV_XOFF set
    ("drv_wake", ("dev", "queue")),  # ... found set and cleared
    ("stack_stop", ("dev", "queue")),  # STACK_XOFF set, and it stayed
    ("stack_wake", ("dev", "queue")),
    ("bql_complete", ("count", "limit")),  # units completed, DQL limit afterwards
    ("napi_schedule", ("dev", "queue")),
    ("napi_poll_begin", ("dev", "queue")),
    ("napi_poll_end", ("dev", "done")),  # entries that the poll handled
    ("netif_receive_skb", ("flow", "seq")),  # delivered, its rules paid for
    ("drop", ("reason", "packet")),  # packet: see packet_id()
    ("net_dev_xmit_timeout", ("dev", "queue")),  # the watchdog found the queue stopped for too long
)
"""(name, its two numbers) of each code."""
(
    _,
    QDISC_ENQUEUE,
    QDISC_DEQUEUE,
    NET_DEV_XMIT,
    REQUEUE,
    DRV_STOP,
    DRV_WAKE,
    STACK_STOP,
    STACK_WAKE,
    BQL_COMPLETE,
    NAPI_SCHEDULE,
    NAPI_POLL_BEGIN,
    NAPI_POLL_END,
    NETIF_RECEIVE_SKB,
    DROP,
    NET_DEV_XMIT_TIMEOUT,
) = range(len(TRACEPOINTS))


@kernel
def trace_event(cpu, code, a, b):
    """Note an event on this CPU, if it traces."""
    if cpu.events.limit != 0:
        _note(cpu, code, a, b)


@kernel
def trace_packet(net, cpu, code, skb):
    """Note an event that is about one packet, by its flow and its number within that."""
    if cpu.events.limit != 0:
        _note(cpu, code, int(net.skbs[skb].flow), net.skbs[skb].seq)


@kernel
def trace_drop(net, cpu, skb, reason):
    """Note that a packet ends here, and why."""
    if cpu.events.limit != 0:
        _note(cpu, DROP, reason, packet_id(int(net.skbs[skb].flow), net.skbs[skb].seq))


@kernel
def packet_id(flow, seq):
    """A packet's flow and number in one word; the flow is the remainder by FLOWS_MAX."""
    return seq * FLOWS_MAX + flow


@kernel
def _note(cpu, code, a, b):
    events = cpu.events
    count = events.count
    if count < events.limit:
        event = events.entries[count]
        event.time_ns = local_clock(cpu)
        event.code = code
        event.a = a
        event.b = b
    events.count = count + 1
