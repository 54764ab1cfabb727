"""Dynamic queue limits: how much a queue may have in flight so that its consumer never starves, and no more.

::

    DQL  line 0  producer   num_queued, adj_limit (= limit + num_completed), last_obj_cnt, stall history
         line 2  consumer   limit, num_completed, prev_*, lowest_slack, slack_start_time; stall results
         line 4  config     max_limit, min_limit, slack_hold_time; written from outside, act at the next completion

``num_queued`` is written by the producer and read by the consumer; ``adj_limit`` the other way round; everything else
has one reader. All counters have 32 bits and wrap; they are only ever compared by their difference. Time is in
jiffies and is an argument.

The law to remember: with a greedy producer, unit charges and completions of k, the limit settles at 2k, and what is
in flight peaks at limit + 1.

Locking: none here. queued() is serialised by the caller (veth: the ring's producer_lock), completed() by NAPI
ownership; the two may overlap. reset() may overlap with neither.

Identities: a completion never exceeds what is in flight (the kernel's BUG_ON): :class:`KernelFault` otherwise.
Validated by tests/conformance (golden ``dql/*``) and tests/property/test_dql.py.

Upstream: lib/dynamic_queue_limits.c, include/linux/dynamic_queue_limits.h.
"""

import numpy as np

from emulator.kernel.clock import time_after, time_after_eq
from emulator.kernel.jit import add64, kernel, s32, sub64, u32
from emulator.kernel.memory import READ_ONCE, WRITE_ONCE, KernelFault, smp_rmb, smp_wmb

UINT_MAX = 0xFFFFFFFF
DQL_MAX_OBJECT = UINT_MAX // 16
DQL_MAX_LIMIT = UINT_MAX // 2 - DQL_MAX_OBJECT
DQL_HIST_LEN = 4
BITS_PER_LONG = 64
DQL_HIST_ENT = DQL_HIST_LEN * BITS_PER_LONG

DQL = np.dtype(
    [
        ("num_queued", "i4"),
        ("adj_limit", "i4"),
        ("last_obj_cnt", "i4"),
        ("stall_thrs", "i4"),  # jiffies; 0 = no stall detection
        ("history_head", "i8"),  # jiffies / 64 of the newest history word
        ("history", "i8", DQL_HIST_LEN),  # one bit a jiffy: something was queued
        ("_producer_line", "i8", 1),
        ("limit", "i4"),
        ("num_completed", "i4"),
        ("prev_ovlimit", "i4"),
        ("prev_num_queued", "i4"),
        ("prev_last_obj_cnt", "i4"),
        ("lowest_slack", "i4"),
        ("slack_start_time", "i8"),
        ("last_reap", "i8"),
        ("stall_max", "i4"),
        ("stall_cnt", "i4"),
        ("_consumer_line", "i8", 2),
        ("max_limit", "i4"),
        ("min_limit", "i4"),
        ("slack_hold_time", "i8"),
        ("_config_line", "i8", 6),
    ],
    align=True,
)
assert DQL.itemsize == 192, DQL.itemsize


@kernel
def posdiff(a, b):
    """max(0, a - b) for 32-bit counters that wrap (POSDIFF)."""
    return max(0, s32(a - b))


@kernel
def dql_init(dql, hold_time, now):
    """A fresh queue: no limit learned, ``hold_time`` and ``now`` in jiffies."""
    dql.max_limit = DQL_MAX_LIMIT
    dql.min_limit = 0
    dql.slack_hold_time = hold_time
    dql.stall_thrs = 0
    dql.adj_limit = 0
    dql_reset(dql, now)


@kernel
def dql_reset(dql, now):
    """Forget what was learned. As upstream it leaves ``adj_limit`` alone: avail() is stale until a completion."""
    dql.limit = dql.min_limit
    dql.num_queued = 0
    dql.num_completed = 0
    dql.last_obj_cnt = 0
    dql.prev_num_queued = 0
    dql.prev_last_obj_cnt = 0
    dql.prev_ovlimit = 0
    dql.lowest_slack = s32(UINT_MAX)
    dql.slack_start_time = now
    dql.last_reap = now
    _forget_history(dql, now)


@kernel
def dql_avail(dql):
    """Room below the limit; negative when over it. Either side may ask."""
    return s32(READ_ONCE(dql, "adj_limit") - READ_ONCE(dql, "num_queued"))


@kernel
def dql_queued(dql, count, now):
    """Charge ``count`` units. Producer only. False, and nothing done, for an object that is impossibly large."""
    if count > DQL_MAX_OBJECT:
        return False
    dql.last_obj_cnt = count
    WRITE_ONCE(dql, "num_queued", s32(dql.num_queued + count))
    if READ_ONCE(dql, "stall_thrs") != 0:
        _note_queued(dql, now)
    return True


@kernel
def dql_completed(dql, count, now):
    """Complete ``count`` units and adapt the limit. Consumer only.

    Returns the length in jiffies of the stall that this completion ends, -1 if there was none. Raises KernelFault when
    more is completed than is in flight; nothing is changed then.
    """
    num_queued = u32(READ_ONCE(dql, "num_queued"))
    num_completed = u32(dql.num_completed)
    limit = u32(dql.limit)
    if count > u32(num_queued - num_completed):
        raise KernelFault("dql_completed: more is completed than is in flight")

    completed = u32(num_completed + count)
    prev_num_queued = u32(dql.prev_num_queued)
    prev_ovlimit = u32(dql.prev_ovlimit)
    ovlimit = posdiff(num_queued - num_completed, limit)
    inprogress = u32(num_queued - completed)
    prev_inprogress = u32(prev_num_queued - num_completed)
    all_prev_completed = s32(completed - prev_num_queued) >= 0

    new_limit = limit
    starved_now = ovlimit != 0 and inprogress == 0
    starved_since = prev_ovlimit != 0 and all_prev_completed
    if starved_now or starved_since:
        # The producer was held back and the consumer ran dry: allow that much more.
        new_limit = u32(limit + posdiff(completed, prev_num_queued) + prev_ovlimit)
        dql.slack_start_time = now
        dql.lowest_slack = s32(UINT_MAX)
    elif inprogress != 0 and prev_inprogress != 0 and not all_prev_completed:
        # Busy all along: what was never needed is slack, given back once it has been there for a hold time.
        slack = posdiff(limit + prev_ovlimit, 2 * count)
        slack_last_objects = posdiff(dql.prev_last_obj_cnt, prev_ovlimit) if prev_ovlimit != 0 else 0
        lowest_slack = min(u32(dql.lowest_slack), max(slack, slack_last_objects))
        dql.lowest_slack = s32(lowest_slack)
        if time_after(now, add64(dql.slack_start_time, dql.slack_hold_time)):
            new_limit = posdiff(limit, lowest_slack)
            dql.slack_start_time = now
            dql.lowest_slack = s32(UINT_MAX)

    max_limit = u32(READ_ONCE(dql, "max_limit"))
    min_limit = u32(READ_ONCE(dql, "min_limit"))
    if new_limit >= max_limit:  # also where min is above max: which of them is tested first shows then
        new_limit = max_limit
    elif new_limit < min_limit:
        new_limit = min_limit
    if new_limit != limit:
        WRITE_ONCE(dql, "limit", s32(new_limit))
        ovlimit = 0

    WRITE_ONCE(dql, "adj_limit", s32(new_limit + completed))
    dql.prev_ovlimit = s32(ovlimit)
    dql.prev_last_obj_cnt = READ_ONCE(dql, "last_obj_cnt")
    WRITE_ONCE(dql, "num_completed", s32(completed))
    dql.prev_num_queued = s32(num_queued)
    return _check_stall(dql, now)


@kernel
def dql_set_stall_thrs(dql, thrs, now):
    """Switch stall detection on (jiffies) or off (0). Switching it on starts a new observation."""
    if thrs != 0 and dql.stall_thrs == 0:
        dql.last_reap = now
        _forget_history(dql, now)
    WRITE_ONCE(dql, "stall_thrs", thrs)


@kernel
def _forget_history(dql, now):
    dql.history_head = now // BITS_PER_LONG
    for i in range(DQL_HIST_LEN):
        dql.history[i] = 0


@kernel
def _note_queued(dql, now):
    """Mark this jiffy in the history: a ring of words, those skipped since the last mark cleared first."""
    word = now // BITS_PER_LONG
    if word != dql.history_head:
        skipped = sub64(word * BITS_PER_LONG, dql.history_head * BITS_PER_LONG) // BITS_PER_LONG
        if skipped < 0 or skipped > DQL_HIST_LEN:
            skipped = DQL_HIST_LEN
        for back in range(skipped):
            WRITE_ONCE(dql.history, (word - back) % DQL_HIST_LEN, 0)
        smp_wmb()  # D1, pairs with D2 in _check_stall(): the words are cleared before the head says they count
        WRITE_ONCE(dql, "history_head", word)
    index = word % DQL_HIST_LEN
    bits = READ_ONCE(dql.history, index)
    mark = 1 << (now % BITS_PER_LONG)
    if bits & mark == 0:
        WRITE_ONCE(dql.history, index, bits | mark)


@kernel
def _check_stall(dql, now):
    """Whether something queued long ago is only completed now; its age in jiffies, or -1."""
    thrs = READ_ONCE(dql, "stall_thrs")
    if thrs == 0:
        return -1
    stall = -1
    if time_after_eq(now, add64(dql.last_reap, thrs)):
        stall = _oldest_unreaped(dql, now, thrs)
        if stall >= 0:
            dql.stall_cnt += 1
            dql.stall_max = max(dql.stall_max, stall & 0xFFFF)
    dql.last_reap = now
    return stall


@kernel
def _oldest_unreaped(dql, now, thrs):
    """Age in jiffies of the oldest mark after the last completion and half a threshold ago or more; -1 if none."""
    while True:
        head = READ_ONCE(dql, "history_head")
        smp_rmb()  # D2, pairs with D1 in _note_queued()
        start = sub64(head * BITS_PER_LONG, (DQL_HIST_LEN - 1) * BITS_PER_LONG)  # the oldest word
        first_unseen = add64(dql.last_reap, 1)
        if time_after(first_unseen, start):
            start = first_unseen
        end = head * BITS_PER_LONG + (BITS_PER_LONG - 1)
        latest = sub64(now, thrs // 2)
        if time_after(end, latest):
            end = latest
        found = -1
        for ahead in range(sub64(end, start) + 1):
            t = add64(start, ahead)
            if (READ_ONCE(dql.history, (t // BITS_PER_LONG) % DQL_HIST_LEN) >> (t % BITS_PER_LONG)) & 1 != 0:
                found = sub64(now, t)
                break
        if READ_ONCE(dql, "history_head") == head:
            return found
