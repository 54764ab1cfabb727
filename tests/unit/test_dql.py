"""Single cases of dynamic queue limits that are easy to get wrong, on the compiled kernel."""

import numpy as np
import pytest

from emulator.kernel import dql as kernel
from emulator.kernel.memory import KernelFault
from emulator.kernel.plain import Record

START = 5_000_000


class Queue:
    def __init__(self, now=START, hold_time=1000):
        self.raw = np.zeros(1, kernel.DQL)[0]
        self.view = Record(self.raw)
        self.now = now
        kernel.dql_init(self.raw, hold_time, now)

    def at(self, ahead):
        """Time ``ahead`` jiffies from now, in 64 bits that wrap."""
        self.now = ((self.now + ahead) % 2**64 ^ 1 << 63) - (1 << 63)
        return self

    def queued(self, count):
        return kernel.dql_queued(self.raw, count, self.now)

    def completed(self, count):
        return kernel.dql_completed(self.raw, count, self.now)

    @property
    def avail(self):
        return kernel.dql_avail(self.raw)


def test_a_fresh_queue():
    queue = Queue()
    view = queue.view
    assert (view.max_limit, view.min_limit, view.limit, view.slack_hold_time) == (1879048192, 0, 0, 1000)
    assert (view.lowest_slack & 0xFFFFFFFF, view.slack_start_time, view.last_reap) == (2**32 - 1, START, START)
    assert queue.avail == 0


def test_an_impossibly_large_object_is_ignored():
    queue = Queue()
    assert not queue.queued(2**28)
    assert (queue.view.num_queued, queue.view.last_obj_cnt) == (0, 0)
    assert queue.queued(2**28 - 1)
    assert queue.avail == -(2**28 - 1)


def test_completing_too_much_changes_nothing():
    queue = Queue()
    queue.queued(10)
    before = queue.raw.tobytes()
    with pytest.raises(KernelFault, match="more is completed than is in flight"):
        queue.completed(11)
    assert queue.raw.tobytes() == before


def test_a_reset_leaves_what_the_producer_may_still_send():
    queue = Queue()
    for _ in range(8):
        queue.queued(100)
        queue.queued(100)
        queue.completed(200)
    room = queue.avail
    assert room > 0
    kernel.dql_reset(queue.raw, queue.now)
    assert (queue.view.num_queued, queue.view.limit) == (0, 0)
    assert queue.avail == queue.view.adj_limit > room  # stale until the next completion
    queue.queued(1)
    queue.completed(1)
    assert queue.avail == queue.view.limit


def test_bounds_act_at_the_next_completion_and_the_maximum_is_tested_first():
    queue = Queue()
    queue.view.min_limit, queue.view.max_limit = 50, 40
    assert queue.avail == 0
    limits = []
    for _ in range(4):
        queue.queued(1)
        queue.completed(1)
        limits.append(queue.view.limit)
    assert limits == [50, 40, 40, 40]


@pytest.mark.parametrize("start", [START, 2**63 - 10, -12, 2**62])
def test_a_late_completion_is_a_stall(start):
    queue = Queue(start)
    kernel.dql_set_stall_thrs(queue.raw, 20, queue.now)
    assert queue.at(1).queued(5)
    assert queue.at(30).completed(5) == 30
    assert (queue.view.stall_cnt, queue.view.stall_max) == (1, 30)
    assert queue.at(1).queued(5)
    assert queue.at(15).completed(5) == -1  # late, but below the threshold
    assert queue.at(500).completed(0) == -1  # nothing was queued
    assert queue.at(100).queued(5)
    assert queue.at(200).completed(5) == 200
    assert (queue.view.stall_cnt, queue.view.stall_max) == (2, 200)


def test_what_was_queued_in_the_jiffy_of_the_last_completion_is_not_seen():
    queue = Queue()
    kernel.dql_set_stall_thrs(queue.raw, 20, queue.now)
    queue.at(5).queued(1)
    queue.completed(1)
    queue.queued(1)
    assert queue.at(40).completed(1) == -1


@pytest.mark.parametrize("start", [START, 2**63 - 700, -700])
def test_slack_is_given_back_after_the_hold_time_wherever_jiffies_stand(start):
    queue = Queue(start)
    for _ in range(40):
        while queue.avail >= 0:
            queue.queued(1)
        queue.completed(min(64, queue.view.num_queued - queue.view.num_completed))
    assert queue.view.limit == 128
    limits = []
    for _ in range(2):
        for _ in range(101):
            while queue.avail >= 0:
                queue.queued(1)
            queue.at(10).completed(8)
        limits.append(queue.view.limit)
    assert limits == [127, 16]
