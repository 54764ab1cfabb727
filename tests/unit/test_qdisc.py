"""Making qdiscs as `tc` does, changing them, and the corners of their reset and accounting."""

import numpy as np
import pytest

from emulator.kernel.net import NET
from emulator.kernel.plain import Record
from emulator.kernel.qdisc import ops
from emulator.kernel.qdisc.base import TCQ_F_CAN_BYPASS, TCQ_F_NOLOCK, TCQ_F_ONETXQUEUE
from emulator.kernel.qdisc.setup import qdisc_change, qdisc_create
from emulator.kernel.skb import alloc_skb, drops_by_reason, pool_init

MS = 1_000_000


class Kernel:
    """One CPU with a clock of its own and one qdisc."""

    def __init__(self):
        self.raw = np.zeros(1, NET)[0]
        self.view = Record(self.raw)
        self.cpu = self.raw["cpus"][0]
        self.cpu_view = self.view.cpus[0]
        self.cpu_view.virtual = 1
        pool_init(self.view)

    def create(self, kind, options=None, *, index=0, txqueuelen=1000, mtu=1500, onetxqueue=False):
        return qdisc_create(
            self.view,
            index,
            kind,
            options or {},
            dev=0,
            txq=-1,
            txqueuelen=txqueuelen,
            mtu=mtu,
            onetxqueue=onetxqueue,
        )

    def enqueue(self, count=1, length=1000, flow_hash=0, index=0):
        for _ in range(count):
            slot = alloc_skb(self.raw, self.cpu)
            skb = self.view.skbs[slot]
            skb.len, skb.truesize, skb.hash, skb.wmem, skb.tos, skb.dev = length, length, flow_hash, 0, 0, 0
            result = ops.qdisc_enqueue(self.raw, self.cpu, self.raw["qdiscs"][index], slot)
        return result

    def dequeue(self, index=0):
        return ops.qdisc_dequeue(self.raw, self.cpu, self.raw["qdiscs"][index])

    def reset(self, index=0):
        ops.qdisc_reset(self.raw, self.cpu, self.raw["qdiscs"][index])

    def trim(self):
        return ops.qdisc_trim(self.raw, self.cpu, self.raw["qdiscs"][0])


@pytest.fixture
def kernel():
    return Kernel()


def test_defaults_are_the_kernels(kernel):
    q = kernel.create("fq_codel")
    params = q.codel_params
    assert (q.limit, q.fq.flows_cnt, q.fq.quantum, q.fq.drop_batch_size) == (10240, 1024, 1514, 64)
    assert (q.fq.memory_limit, params.target, params.interval, params.mtu) == (32 << 20, 4882, 97656, 1514)
    assert (params.ecn, params.ce_threshold, params.stale_fix) == (1, 2**31 - 1, 1)
    q = kernel.create("codel")
    assert (q.limit, q.codel_params.ecn, q.codel_params.target) == (1000, 0, 4882)
    q = kernel.create("sfq")
    assert (q.limit, q.sfq.maxdepth, q.sfq.maxflows, q.sfq.divisor) == (127, 127, 128, 1024)
    assert (q.sfq.quantum, q.sfq.headdrop) == (1514, 0)
    assert kernel.create("pfifo", txqueuelen=500).limit == 500
    assert kernel.create("bfifo", txqueuelen=10, mtu=1000).limit == 10_140
    q = kernel.create("pfifo_fast", txqueuelen=40)
    assert [(band.size, band.batch) for band in q.bands] == [(40, 16)] * 3
    assert kernel.create("fq_codel", mtu=100).fq.quantum == 114


def test_options_are_rounded_and_cut_as_the_kernel_does(kernel):
    q = kernel.create(
        "fq_codel", {"target": 1_500_999, "interval": 2_000, "quantum": 1, "ce_threshold": 0, "ecn": False}
    )
    assert (q.codel_params.target, q.codel_params.interval, q.codel_params.ce_threshold) == (1464, 1, 0)
    assert (q.fq.quantum, q.codel_params.ecn) == (256, 0)
    q = kernel.create("fq_codel", {"memory_limit": 1 << 40, "drop_batch": 0, "ce_threshold": None})
    assert (q.fq.memory_limit, q.fq.drop_batch_size, q.codel_params.ce_threshold) == (1 << 31, 1, 2**31 - 1)
    q = kernel.create("sfq", {"limit": 60})
    assert (q.limit, q.sfq.maxflows) == (60, 60)
    q = kernel.create("sfq", {"limit": 5000, "depth": 200, "flows": 8, "divisor": 4})
    assert (q.limit, q.sfq.maxdepth, q.sfq.maxflows, q.sfq.divisor) == (4 * 127, 127, 4, 4)
    q = kernel.create("sfq", {"flows": 10**6, "divisor": 65536})
    assert q.sfq.maxflows == 65408


@pytest.mark.parametrize(
    ("kind", "options", "txqueuelen", "flags"),
    [
        ("pfifo", {}, 1000, TCQ_F_CAN_BYPASS),
        ("pfifo", {}, 0, 0),
        ("pfifo_head_drop", {"limit": 1}, 0, TCQ_F_CAN_BYPASS),
        ("bfifo", {"limit": 1513}, 1000, 0),
        ("bfifo", {"limit": 1514}, 1000, TCQ_F_CAN_BYPASS),
        ("codel", {}, 1000, TCQ_F_CAN_BYPASS),
        ("codel", {"limit": 0}, 1000, 0),
        ("fq_codel", {}, 1000, TCQ_F_CAN_BYPASS),
        ("fq_codel", {"limit": 0}, 1000, 0),
        ("sfq", {}, 1000, TCQ_F_CAN_BYPASS),
        ("pfifo_fast", {}, 1000, TCQ_F_CAN_BYPASS | TCQ_F_NOLOCK),
        ("noqueue", {}, 1000, 0),
    ],
)
def test_who_may_be_bypassed(kernel, kind, options, txqueuelen, flags):
    assert kernel.create(kind, options, txqueuelen=txqueuelen).flags == flags
    assert kernel.create(kind, options, txqueuelen=txqueuelen, onetxqueue=True).flags == flags | TCQ_F_ONETXQUEUE


@pytest.mark.parametrize(
    ("kind", "options", "txqueuelen", "reason"),
    [
        ("sfq", {"limit": 1}, 1000, "invalid limit"),
        ("sfq", {"depth": 1, "flows": 1, "limit": 9}, 1000, "invalid limit"),
        ("sfq", {"divisor": 1000}, 1000, "not a power of two"),
        ("sfq", {"divisor": 1 << 17}, 1000, "not a power of two"),
        ("sfq", {"perturb": 10}, 1000, "no rehashing"),
        ("fq_codel", {"flows": 0}, 1000, "0 flows"),
        ("fq_codel", {"flows": 65537}, 1000, "65537 flows"),
        ("pfifo_fast", {}, 0, "txqueuelen is 0"),
        ("pfifo_fast", {}, 10**6, "no room for 3000000 ring slots"),
        ("pfifo", {"quantum": 1}, 1000, "no option 'quantum'"),
        ("red", {}, 1000, "unknown qdisc"),
    ],
)
def test_what_is_refused(kernel, kind, options, txqueuelen, reason):
    with pytest.raises(ValueError, match=reason):
        kernel.create(kind, options, txqueuelen=txqueuelen)


def test_a_replaced_qdisc_gives_its_arena_to_the_next(kernel):
    for generation in range(1, 200):
        q = kernel.create(("fq_codel", "sfq", "pfifo_fast")[generation % 3])
        assert q.generation == generation
        kernel.enqueue(3)
        assert kernel.dequeue() != 0
        kernel.reset()
        assert q.qlen == 0
    params = kernel.view.params
    used = (params.fq_flows_used, params.sfq_slots_used, params.sfq_ht_used, params.ring_slots_used)
    assert used == (1024, 128, 1024, 3000)
    kernel.create("fq_codel", index=1)
    assert (params.fq_flows_used, kernel.view.qdiscs[1].fq.base) == (2048, 1024)


def test_two_qdiscs_do_not_share_flows(kernel):
    for index in (0, 1):
        kernel.create("fq_codel", index=index)
        kernel.create("sfq", index=index + 2)
    for index in range(4):
        kernel.enqueue(index + 1, index=index)
    assert [kernel.view.qdiscs[i].qlen for i in range(4)] == [1, 2, 3, 4]
    for index in range(4):
        for _ in range(index + 1):
            assert kernel.dequeue(index) != 0
        assert kernel.dequeue(index) == 0


def test_reset_frees_requeued_packets_too_and_the_account_still_balances(kernel):
    q = kernel.create("fq_codel")
    kernel.enqueue(5)
    for _ in range(2):  # as dev_requeue_skb() does
        slot = kernel.dequeue()
        skbs = q.gso_skb
        kernel.view.skbs[slot].next = skbs.head
        skbs.head = slot
        skbs.qlen += 1
        q.held += 1
        q.qlen += 1
        q.backlog += 1000
    assert q.enqueued == q.bstats_packets - q.held + q.drops + q.qlen
    kernel.reset()
    assert (q.qlen, q.backlog, q.held, q.gso_skb.head, q.gso_skb.qlen) == (0, 0, 0, 0, 0)
    assert (q.purged, q.held_purged, q.drops, q.bstats_packets) == (5, 2, 0, 2)
    assert q.enqueued == q.bstats_packets - q.held - q.held_purged + q.drops + q.purged + q.qlen
    assert drops_by_reason(kernel.cpu_view) == {"QUEUE_PURGE": {0: 5}}


def test_noop_frees_the_packet_and_counts_it_in_the_device_alone(kernel):
    q = kernel.create("noop")
    assert kernel.enqueue() == 2
    assert (q.enqueued, q.drops, kernel.cpu_view.dev[0].tx_dropped) == (0, 0, 1)
    assert kernel.dequeue() == 0


@pytest.mark.parametrize("kind", ["fq_codel", "codel", "sfq"])
def test_a_lowered_limit_takes_effect_at_once(kernel, kind):
    q = kernel.create(kind)
    kernel.enqueue(50)
    qdisc_change(kernel.view, q, {"limit": 20}, txqueuelen=1000, mtu=1500)
    assert kernel.trim() == 30
    assert (q.limit, q.qlen, q.backlog) == (20, 20, 20_000)
    assert drops_by_reason(kernel.cpu_view)["QDISC_CHANGE"] == {0: 30}
    assert kernel.trim() == 0


def test_some_options_are_for_life(kernel):
    q = kernel.create("fq_codel")
    with pytest.raises(ValueError, match="flows of fq_codel can not be changed"):
        qdisc_change(kernel.view, q, {"flows": 5}, txqueuelen=1000, mtu=1500)
    q = kernel.create("pfifo")
    qdisc_change(kernel.view, q, {"limit": 0}, txqueuelen=1000, mtu=1500)
    assert (q.limit, q.flags) == (0, 0)
    with pytest.raises(ValueError, match="nothing to change"):
        qdisc_change(kernel.view, kernel.create("pfifo_fast"), {"limit": 1}, txqueuelen=1000, mtu=1500)


@pytest.mark.parametrize(("fixed", "dropped"), [(1, 0), (0, 1)])
def test_an_empty_flow_forgets_that_it_was_slow_unless_the_old_fault_is_asked_for(kernel, fixed, dropped):
    q = kernel.create("codel", {"stale_fix": fixed})
    clock = kernel.cpu_view
    for _ in range(2):  # bursts of three, 150 ms apart, each packet 8 ms late
        kernel.enqueue(3, length=1514)
        clock.now_ns += 8 * MS
        while kernel.dequeue() != 0:
            pass
        clock.now_ns += 150 * MS
    # The last packet of a burst leaves an empty queue, which is below one mtu: make the burst end above it.
    q.codel_vars.first_above_time = 1
    kernel.dequeue()
    kernel.enqueue(3, length=1514)
    clock.now_ns += 8 * MS
    kernel.dequeue()
    assert q.drops == dropped


def test_steps_of_the_control_law(kernel):
    """Newton's steps lag behind: 95.4 ms, 50.0 ms, then 56.2 ms."""
    q = kernel.create("codel")
    kernel.enqueue(100, length=1514)
    clock, cvars = kernel.cpu_view, q.codel_vars
    clock.now_ns = 20 * MS
    kernel.dequeue()
    clock.now_ns = (cvars.first_above_time + 1) << 10
    steps = []
    for drops in range(1, 9):
        now = clock.now_ns >> 10
        kernel.dequeue()
        assert (q.drops, cvars.count) == (drops, drops)
        steps.append(cvars.drop_next - now)
        clock.now_ns = cvars.drop_next << 10
    assert steps == [97654, 48829, 54931, 47635, 43116, 39459, 36638, 34327]
