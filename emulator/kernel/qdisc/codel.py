"""CoDel: drop (or mark) when even the smallest wait of the last interval was too long; and the qdisc of that name.

A packet's *sojourn* is how long it lay in the queue. When it has been at ``target`` or above for a whole
``interval``, one packet is dropped at dequeue, then more, ``interval / sqrt(count)`` apart, until a packet comes out
below the target::

                 sojourn >= target, first time           now after first_above_time
    (below) ------------------------------------> (above) ------------------------> dropping
       ^   sojourn < target, or backlog <= mtu       |                                 | while now >= drop_next:
       +---------------------------------------------+---------------------------------+   count++, drop, next packet

The algorithm is written once, :func:`codel_dequeue`, for two holders of packets: the codel qdisc (``flow`` negative,
list ``q.q``) and one flow of fq_codel (``flow`` its index). In both the backlog that is compared with ``mtu`` is the
*whole qdisc's*.

Time is counted in ticks of 1024 ns, in 32 bits that wrap. ``rec_inv_sqrt`` is ``2^16 / sqrt(count)``, improved by one
Newton step each time that count changes, so it lags and the first steps are not monotonic; exact roots would give
other drops.

Knobs: target, interval, ecn (mark instead of drop where the packet allows it), ce_threshold (mark every packet above
it; selector and mask choose by the tos byte), limit (codel only); ``stale_fix = 0`` brings back a fault of kernels
before 7.0: a flow found empty kept its first_above_time, so that its next slow packet was dropped at once.

Departures: none known. As in 7.2 one call drops at most 256 packets, and a step of the control law is at least one
tick. ``first_above_time == 0`` means unset, so a computed 0 is mistaken for it; so it is upstream.

Layout: CODEL_PARAMS, CODEL_VARS and CODEL_STATS in base.py. Validated by tests/conformance (golden ``codel/*``).

Upstream: include/net/codel.h, codel_impl.h (codel_dequeue, codel_should_drop, codel_Newton_step, codel_control_law),
net/sched/sch_codel.c.
"""

from emulator.kernel.clock import ECN_MARK, QDISC_CONGESTED, QDISC_OVERLIMIT, local_clock
from emulator.kernel.jit import kernel, mul64, s32, sub64, u32
from emulator.kernel.memory import mul_u64_u64_shr
from emulator.kernel.qdisc.base import (
    NET_XMIT_DROP,
    NET_XMIT_SUCCESS,
    list_pop,
    qdisc_bstats_update,
    qdisc_drop,
)
from emulator.kernel.qdisc.fifo import fifo_append, fifo_peek, fifo_reset
from emulator.kernel.skb import trace_skb

CODEL_SHIFT = 10
CODEL_DISABLED_THRESHOLD = 0x7FFFFFFF
_MAX_DROPS = 256  # in one dequeue
_REC_INV_SQRT_BITS = 16
_FRESH_REC_INV_SQRT = (1 << _REC_INV_SQRT_BITS) - 1

INET_ECN_MASK, INET_ECN_NOT_ECT, INET_ECN_CE = 3, 0, 3

codel_peek = fifo_peek


@kernel
def codel_enqueue(net, cpu, q, skb):
    """Append with a time stamp, or drop when ``limit`` packets are queued."""
    if q.qlen >= q.limit:
        q.drop_overlimit += 1
        qdisc_drop(net, cpu, q, skb, QDISC_OVERLIMIT)
        return NET_XMIT_DROP
    net.skbs[skb].enqueue_ns = local_clock(cpu)
    fifo_append(net, q, skb)
    return NET_XMIT_SUCCESS


@kernel
def codel_qdisc_dequeue(net, cpu, q):
    """The next packet that CoDel lets pass, or 0."""
    skb = codel_dequeue(net, cpu, q, q.q, q.codel_vars, -1)
    if skb != 0:
        qdisc_bstats_update(net, q, skb)
    return skb


@kernel
def codel_qdisc_reset(net, cpu, q):
    """Free everything queued and forget the state of the control law."""
    fifo_reset(net, cpu, q)
    codel_vars_init(q.codel_vars)


@kernel
def codel_vars_init(cvars):
    """A queue that was never above its target."""
    cvars.count = 0
    cvars.lastcount = 0
    cvars.first_above_time = 0
    cvars.drop_next = 0
    cvars.ldelay = 0
    cvars.rec_inv_sqrt = 0
    cvars.dropping = 0


@kernel
def codel_dequeue(net, cpu, q, skbs, cvars, flow):
    """Take the next packet of ``skbs`` that may pass, dropping and marking as the control law says; 0 if none is left.

    ``flow``: index into net.fq_flows of the flow that ``skbs`` and ``cvars`` belong to, or -1 for the codel qdisc.
    """
    skb = _take(net, q, skbs, flow)
    if skb == 0:
        cvars.dropping = 0
        if q.codel_params.stale_fix != 0:
            cvars.first_above_time = 0
        return 0
    now = u32(local_clock(cpu) >> CODEL_SHIFT)
    too_slow = _should_drop(net, q, cvars, skb, now)
    if cvars.dropping != 0:
        if not too_slow:
            cvars.dropping = 0
        elif s32(now - cvars.drop_next) >= 0:
            skb = _go_on_dropping(net, cpu, q, skbs, cvars, flow, skb, now)
    elif too_slow:
        skb = _start_dropping(net, cpu, q, skbs, cvars, flow, skb, now)
    if skb != 0:
        params = q.codel_params
        if s32(cvars.ldelay - params.ce_threshold) > 0:
            _mark_above_threshold(net, cpu, q, skb)
    return skb


@kernel
def _go_on_dropping(net, cpu, q, skbs, cvars, flow, skb, now):
    """In the dropping state with drop_next reached: drop what is due; the packet to deliver, or 0."""
    params = q.codel_params
    stats = q.codel_stats
    dropped = 0
    while True:
        cvars.count = s32(cvars.count + 1)
        _newton_step(cvars)
        if params.ecn != 0 and _set_ce(net, cpu, skb):
            stats.ecn_mark += 1
            cvars.drop_next = _control_law(cvars.drop_next, params.interval, cvars.rec_inv_sqrt)
            return skb
        _drop(net, cpu, q, skb)
        dropped += 1
        skb = _take(net, q, skbs, flow)
        if not _should_drop(net, q, cvars, skb, now):
            cvars.dropping = 0
            return skb
        if dropped == _MAX_DROPS:
            cvars.drop_next = _control_law(now, params.interval, cvars.rec_inv_sqrt)
            return skb
        cvars.drop_next = _control_law(cvars.drop_next, params.interval, cvars.rec_inv_sqrt)
        if s32(now - cvars.drop_next) < 0:
            return skb


@kernel
def _start_dropping(net, cpu, q, skbs, cvars, flow, skb, now):
    """Above the target for an interval: drop or mark one and enter the dropping state; the packet to deliver, or 0."""
    params = q.codel_params
    if params.ecn != 0 and _set_ce(net, cpu, skb):
        q.codel_stats.ecn_mark += 1
    else:
        _drop(net, cpu, q, skb)
        skb = _take(net, q, skbs, flow)
        _should_drop(net, q, cvars, skb, now)
    cvars.dropping = 1
    # Left that state a short while ago: go on at the rate that controlled the queue then.
    delta = u32(cvars.count - cvars.lastcount)
    if delta > 1 and s32(now - cvars.drop_next - 16 * params.interval) < 0:
        cvars.count = s32(delta)
        _newton_step(cvars)
    else:
        cvars.count = 1
        cvars.rec_inv_sqrt = _FRESH_REC_INV_SQRT
    cvars.lastcount = cvars.count
    cvars.drop_next = _control_law(now, params.interval, cvars.rec_inv_sqrt)
    return skb


@kernel
def _should_drop(net, q, cvars, skb, now):
    """Whether the sojourn has been at the target or above for an interval, this packet included."""
    if skb == 0:
        cvars.first_above_time = 0
        return False
    packet = net.skbs[skb]
    params = q.codel_params
    sojourn = u32(now - (packet.enqueue_ns >> CODEL_SHIFT))
    cvars.ldelay = s32(sojourn)
    if packet.len > q.codel_stats.maxpacket:
        q.codel_stats.maxpacket = packet.len
    if s32(sojourn - params.target) < 0 or q.backlog <= params.mtu:
        cvars.first_above_time = 0
        return False
    if cvars.first_above_time == 0:
        cvars.first_above_time = s32(now + params.interval)
        return False
    return s32(now - cvars.first_above_time) > 0


@kernel
def _newton_step(cvars):
    """rec_inv_sqrt = y (3 - count y^2) / 2 in 16-bit fixed point.

    Computed in 64 bits, which wrap when count was raised by more than y can follow.
    """
    y = cvars.rec_inv_sqrt << (32 - _REC_INV_SQRT_BITS)
    y_squared = mul_u64_u64_shr(y, y, 32)
    rest = sub64(3 << 32, mul64(u32(cvars.count), y_squared))
    rest = (rest >> 2) & ((1 << 62) - 1)
    cvars.rec_inv_sqrt = (mul64(rest, y) >> (32 - 2 + 1 + 32 - _REC_INV_SQRT_BITS)) & _FRESH_REC_INV_SQRT


@kernel
def _control_law(time, interval, rec_inv_sqrt):
    """When to drop next: ``interval / sqrt(count)`` after ``time``, at least one tick."""
    return s32(time + max(1, interval * rec_inv_sqrt >> _REC_INV_SQRT_BITS))


@kernel
def _take(net, q, skbs, flow):
    """Unlink the oldest packet of the holder without counting it as sent, or 0."""
    skb = list_pop(net, skbs)
    if skb != 0:
        packet = net.skbs[skb]
        q.qlen -= 1
        q.backlog -= packet.len
        if flow >= 0:
            net.fq_backlogs[flow] -= packet.len
            if packet.wmem == 0:
                q.fq.memory_usage -= packet.truesize
    return skb


@kernel
def _drop(net, cpu, q, skb):
    stats = q.codel_stats
    stats.drop_count += 1
    stats.drop_len += net.skbs[skb].len
    qdisc_drop(net, cpu, q, skb, QDISC_CONGESTED)


@kernel
def _mark_above_threshold(net, cpu, q, skb):
    """The packet waited longer than ce_threshold: mark it, if it is of the class that is to be marked."""
    params = q.codel_params
    selected = net.skbs[skb].tos & params.ce_threshold_mask == params.ce_threshold_selector
    if (params.ce_threshold_mask == 0 or selected) and _set_ce(net, cpu, skb):
        q.codel_stats.ce_mark += 1


@kernel
def _set_ce(net, cpu, skb):
    """Set Congestion Experienced, which only a packet of an ECN-capable transport allows (``INET_ECN_set_ce``)."""
    packet = net.skbs[skb]
    if packet.tos & INET_ECN_MASK == INET_ECN_NOT_ECT:
        return False
    packet.tos |= INET_ECN_CE
    trace_skb(cpu, skb, ECN_MARK)
    return True
