"""Making a qdisc, and changing the options of one: what `tc qdisc add` and `tc qdisc change` do.

Plain Python on plain views (:class:`emulator.kernel.plain.Record`) of the segment, run by the launcher or by a
control thread that holds the qdisc's root_lock. Options have the names of `tc`, times in nanoseconds, sizes in bytes;
one that is missing or None takes the kernel's default. What the kernel answers with -EINVAL raises ValueError with
its reason.

Options, all optional:

=============== ====================================================================================
pfifo           limit (packets)
pfifo_head_drop limit (packets)
bfifo           limit (bytes)
pfifo_fast      none; each band has the device's txqueuelen
codel           limit, target, interval, ecn, ce_threshold
fq_codel        limit, flows, quantum, target, interval, memory_limit, drop_batch, ecn,
                ce_threshold, ce_threshold_selector, ce_threshold_mask
sfq             limit, depth, flows, divisor, quantum, headdrop (perturb: 0 only)
=============== ====================================================================================

codel and fq_codel also take ``stale_fix`` (see codel.py). Note that an option *given* is not always the same as its
default: sfq with an explicit limit of 127 has 127 slots, without it 128.

Arena space of a replaced qdisc is used again by the next one in the same record, if it is large enough.

Upstream: qdisc_create, the init and change functions of net/sched/sch_*.c.
"""

import numpy as np

from emulator.kernel.ptr_ring import ptr_ring_batch
from emulator.kernel.qdisc.base import (
    BFIFO,
    CODEL,
    FQ_CODEL,
    KINDS,
    PFIFO,
    PFIFO_FAST,
    PFIFO_FAST_BANDS,
    PFIFO_HEAD_DROP,
    QDISC,
    SFQ,
    TCQ_F_CAN_BYPASS,
    TCQ_F_NOLOCK,
    TCQ_F_ONETXQUEUE,
)
from emulator.kernel.qdisc.codel import CODEL_DISABLED_THRESHOLD, CODEL_SHIFT
from emulator.kernel.qdisc.sfq import (
    SFQ_DEFAULT_DIVISOR,
    SFQ_DEFAULT_FLOWS,
    SFQ_MAX_DEPTH,
    SFQ_MAX_DIVISOR,
    SFQ_MAX_FLOWS,
    SFQ_NONE,
)

ETH_HLEN = 14
_MAX_MEMORY_LIMIT = 1 << 31
_MIN_QUANTUM = 256
_MAX_FLOWS = 65536
_NS_PER_US = 1000


def psched_mtu(mtu):
    """Bytes of a full frame: what quantum and bfifo's limit are derived from."""
    return mtu + ETH_HLEN


def qdisc_create(net, index, kind, options, *, dev, txq, txqueuelen, mtu, onetxqueue):
    """Fill ``net.qdiscs[index]`` with a fresh qdisc; its record.

    ``txq``: index of the queue it hangs below, -1 for the device's root. ``onetxqueue``: the device has one tx queue,
    or the qdisc is a child of mq; then a stopped queue stops the qdisc, and bulks follow BQL.
    """
    if kind not in KINDS:
        raise ValueError(f"unknown qdisc {kind!r}")
    known = _OPTIONS.get(kind, frozenset())
    unknown = sorted(set(options) - known)
    if unknown:
        raise ValueError(f"{kind} has no option {unknown[0]!r}")
    q = net.qdiscs[index]
    arenas = (q.fq.base, q.fq.capacity, q.sfq.slot_base, q.sfq.slot_capacity, q.sfq.ht_base, q.sfq.ht_capacity)
    bands = (q.bands[0].base, q.bands_capacity)
    generation = q.generation
    net.qdiscs.raw[index] = np.zeros((), QDISC)
    q.kind = KINDS.index(kind)
    q.generation = generation + 1
    q.dev = dev
    q.txq = txq
    q.fq.base, q.fq.capacity, q.sfq.slot_base, q.sfq.slot_capacity, q.sfq.ht_base, q.sfq.ht_capacity = arenas
    q.bands[0].base, q.bands_capacity = bands
    if onetxqueue:
        q.flags = TCQ_F_ONETXQUEUE
    given = _given(options)
    init = _INIT.get(q.kind)
    if init is not None:
        init(net, q, given, txqueuelen, psched_mtu(mtu))
    return q


def qdisc_change(net, q, options, *, txqueuelen, mtu):
    """Change options of a qdisc that may hold packets. The caller holds root_lock and calls ops.qdisc_trim() next."""
    kind = KINDS[q.kind]
    fixed = sorted({"flows", "depth", "divisor"} & set(options))
    if fixed:
        raise ValueError(f"{fixed[0]} of {kind} can not be changed")
    given = _given(options)
    if q.kind == FQ_CODEL:
        _fq_codel_options(q, given)
    elif q.kind == CODEL:
        _codel_options(q, given)
    elif q.kind == SFQ:
        _sfq_options(q, given)
    elif q.kind in (PFIFO, BFIFO, PFIFO_HEAD_DROP):
        _fifo_init(net, q, given, txqueuelen, psched_mtu(mtu))
    elif given:
        raise ValueError(f"{kind} has nothing to change")


def _given(options):
    """The options that were given; a ce_threshold of None means off, which is the default."""
    return {name: value for name, value in options.items() if value is not None}


def _ticks(ns):
    """A time as CoDel keeps it. The kernel is given microseconds."""
    return (ns // _NS_PER_US * _NS_PER_US) >> CODEL_SHIFT


def _can_bypass(q, allowed):
    q.flags = q.flags | TCQ_F_CAN_BYPASS if allowed else q.flags & ~TCQ_F_CAN_BYPASS


def _fifo_init(net, q, options, txqueuelen, frame):
    in_bytes = q.kind == BFIFO
    q.limit = options.get("limit", txqueuelen * (frame if in_bytes else 1))
    _can_bypass(q, q.limit >= (frame if in_bytes else 1))


def _pfifo_fast_init(net, q, options, txqueuelen, frame):
    if txqueuelen == 0:
        raise ValueError("pfifo_fast: txqueuelen is 0 (-EINVAL)")
    base = q.bands[0].base
    slots = PFIFO_FAST_BANDS * txqueuelen
    if slots > q.bands_capacity:
        base = _reserve(net.params, "ring_slots_used", slots, len(net.ring_slots), "ring slots")
        q.bands_capacity = slots
    net.ring_slots.raw[base : base + slots] = 0
    for band in range(PFIFO_FAST_BANDS):
        ring = q.bands[band]
        ring.base = base + band * txqueuelen
        ring.size = txqueuelen
        ring.batch = ptr_ring_batch(txqueuelen)
    q.flags = q.flags | TCQ_F_NOLOCK
    _can_bypass(q, True)


def _codel_init(net, q, options, txqueuelen, frame):
    _codel_defaults(q, frame, ecn=0)
    q.limit = 1000
    _codel_options(q, options)


def _codel_defaults(q, frame, ecn):
    params = q.codel_params
    params.target = _ticks(5_000_000)
    params.interval = _ticks(100_000_000)
    params.ce_threshold = CODEL_DISABLED_THRESHOLD
    params.mtu = frame
    params.ecn = ecn
    params.stale_fix = 1


def _codel_options(q, options):
    params = q.codel_params
    if "target" in options:
        params.target = _ticks(options["target"])
    if "interval" in options:
        params.interval = _ticks(options["interval"])
    if "ce_threshold" in options:
        params.ce_threshold = _ticks(options["ce_threshold"])
    params.ce_threshold_selector = options.get("ce_threshold_selector", params.ce_threshold_selector)
    params.ce_threshold_mask = options.get("ce_threshold_mask", params.ce_threshold_mask)
    params.ecn = int(options.get("ecn", params.ecn) != 0)
    params.stale_fix = int(options.get("stale_fix", params.stale_fix) != 0)
    q.limit = options.get("limit", q.limit)
    _can_bypass(q, q.limit >= 1)


def _fq_codel_init(net, q, options, txqueuelen, frame):
    flows = options.get("flows", 1024)
    if not 1 <= flows <= _MAX_FLOWS:
        raise ValueError(f"fq_codel: {flows} flows (-EINVAL)")
    fq = q.fq
    if flows > fq.capacity:
        fq.base = _reserve(net.params, "fq_flows_used", flows, len(net.fq_flows), "fq_codel flows")
        fq.capacity = flows
    fq.flows_cnt = flows
    net.fq_flows.raw[fq.base : fq.base + flows] = np.zeros((), net.fq_flows.raw.dtype)
    net.fq_backlogs.raw[fq.base : fq.base + flows] = 0
    q.limit = 10 * 1024
    fq.quantum = frame
    fq.memory_limit = 32 << 20
    fq.drop_batch_size = 64
    _codel_defaults(q, frame, ecn=1)
    _fq_codel_options(q, options)


def _fq_codel_options(q, options):
    _codel_options(q, options)
    fq = q.fq
    if "quantum" in options:
        fq.quantum = max(_MIN_QUANTUM, options["quantum"])
    if "drop_batch" in options:
        fq.drop_batch_size = max(1, options["drop_batch"])
    if "memory_limit" in options:
        fq.memory_limit = min(_MAX_MEMORY_LIMIT, options["memory_limit"])


def _sfq_init(net, q, options, txqueuelen, frame):
    sfq = q.sfq
    q.limit = SFQ_MAX_DEPTH
    sfq.quantum = frame
    sfq.maxdepth = SFQ_MAX_DEPTH
    sfq.maxflows = SFQ_DEFAULT_FLOWS
    sfq.divisor = SFQ_DEFAULT_DIVISOR
    _sfq_options(q, options)
    if sfq.maxflows > sfq.slot_capacity:
        sfq.slot_base = _reserve(net.params, "sfq_slots_used", sfq.maxflows, len(net.sfq_slots), "sfq slots")
        sfq.slot_capacity = sfq.maxflows
    if sfq.divisor > sfq.ht_capacity:
        sfq.ht_base = _reserve(net.params, "sfq_ht_used", sfq.divisor, len(net.sfq_ht), "sfq buckets")
        sfq.ht_capacity = sfq.divisor
    net.sfq_ht.raw[sfq.ht_base : sfq.ht_base + sfq.divisor] = SFQ_NONE
    sfq.tail = SFQ_NONE
    sfq.dep.raw[:] = SFQ_NONE
    # All slots are free: slot maxflows - 1 comes first, each is followed by the one below.
    slots = net.sfq_slots.raw[sfq.slot_base : sfq.slot_base + sfq.maxflows]
    slots[:] = np.zeros((), slots.dtype)
    numbers = np.arange(sfq.maxflows)
    slots["before"] = np.append(numbers[1:], SFQ_NONE)
    slots["after"] = np.append(SFQ_NONE, numbers[:-1])
    sfq.dep[0] = sfq.maxflows - 1


def _sfq_options(q, options):
    """Take over what was given; 0 counts as not given, and what exceeds a maximum is cut, as in sfq_change()."""
    sfq = q.sfq
    given = {name: value for name, value in options.items() if value != 0}
    if "perturb" in given:
        raise ValueError("sfq: no rehashing is available, perturb is 0")
    divisor = given.get("divisor", sfq.divisor)
    if divisor & (divisor - 1) or divisor > SFQ_MAX_DIVISOR:
        raise ValueError(f"sfq: divisor {divisor} is not a power of two up to {SFQ_MAX_DIVISOR} (-EINVAL)")
    maxflows = min(given.get("flows", sfq.maxflows), SFQ_MAX_FLOWS)
    if "divisor" in given:
        maxflows = min(maxflows, divisor)
    maxdepth = min(given.get("depth", sfq.maxdepth), SFQ_MAX_DEPTH)
    limit = q.limit
    if "limit" in given:
        limit = min(given["limit"], maxdepth * maxflows)
        maxflows = min(maxflows, limit)
    if limit == 1:
        raise ValueError("sfq: invalid limit (-EINVAL)")
    q.limit = limit
    sfq.divisor = divisor
    sfq.maxflows = maxflows
    sfq.maxdepth = maxdepth
    sfq.quantum = given.get("quantum", sfq.quantum)
    sfq.headdrop = int(options.get("headdrop", sfq.headdrop) != 0)
    _can_bypass(q, limit >= 1)


def _reserve(params, top, count, size, what):
    """Take ``count`` elements from the top of an arena; the first one's index."""
    base = getattr(params, top)
    if base + count > size:
        raise ValueError(f"no room for {count} {what}: {size - base} left")
    setattr(params, top, base + count)
    return base


_CODEL_OPTIONS = frozenset({"limit", "target", "interval", "ecn", "ce_threshold", "stale_fix"})
_OPTIONS = {
    "pfifo": frozenset({"limit"}),
    "bfifo": frozenset({"limit"}),
    "pfifo_head_drop": frozenset({"limit"}),
    "codel": _CODEL_OPTIONS,
    "fq_codel": _CODEL_OPTIONS
    | {"flows", "quantum", "memory_limit", "drop_batch", "ce_threshold_selector", "ce_threshold_mask"},
    "sfq": frozenset({"limit", "depth", "flows", "divisor", "quantum", "headdrop", "perturb"}),
}
_INIT = {
    PFIFO: _fifo_init,
    BFIFO: _fifo_init,
    PFIFO_HEAD_DROP: _fifo_init,
    PFIFO_FAST: _pfifo_fast_init,
    CODEL: _codel_init,
    FQ_CODEL: _fq_codel_init,
    SFQ: _sfq_init,
}
