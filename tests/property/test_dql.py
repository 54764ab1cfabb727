"""Laws of dynamic queue limits, checked on the compiled kernel."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

HZ = 1000
U32 = 1 << 32
FIELDS = ("num_queued", "num_completed", "adj_limit", "prev_num_queued")
DIFFERENCES = ("limit", "prev_ovlimit", "last_obj_cnt", "prev_last_obj_cnt", "lowest_slack", "slack_start_time")


class Queue:
    """One DQL with a clock, and a producer that never stops before it has to."""

    def __init__(self, machine, start=0, hold_time=HZ):
        self.kernel = machine.dql
        self.fault = machine.memory.KernelFault
        queues = machine.raw["devs"][0]["txq"]
        queues[0] = machine.np.zeros((), queues.dtype)
        self.view = machine.view.devs[0].txq[0].dql
        self.dql = machine.native(queues[0]["dql"])
        self.now = 5_000
        self.kernel.dql_init(self.dql, hold_time, self.now)
        for field in FIELDS:
            setattr(self.view, field, start)
        self.peak = 0

    @property
    def inflight(self):
        return (self.view.num_queued - self.view.num_completed) % U32

    @property
    def limit(self):
        return self.view.limit % U32

    def queued(self, count):
        assert self.kernel.dql_queued(self.dql, count, self.now)

    def completed(self, count):
        self.kernel.dql_completed(self.dql, count, self.now)

    def fill(self, unit=1):
        """Queue until over the limit; it always takes one object more than fits."""
        while self.kernel.dql_avail(self.dql) >= 0:
            self.queued(unit)
        self.peak = max(self.peak, self.inflight)

    def rounds(self, count, batch):
        """A greedy producer and completions of ``batch``; a batch that is not there yet is waited for."""
        for _ in range(count):
            self.fill()
            self.completed(min(batch, self.inflight))

    def shape(self):
        """What must not depend on where the counters stand."""
        shape = {field: getattr(self.view, field) for field in DIFFERENCES}
        shape["inflight"] = self.inflight
        shape["avail"] = self.kernel.dql_avail(self.dql)
        shape["since"] = (self.view.num_queued - self.view.prev_num_queued) % U32
        return shape


@given(batch=st.integers(1, 200))
@settings(max_examples=25)
def test_the_limit_is_twice_the_batch_and_in_flight_peaks_one_above(machine, batch):
    queue = Queue(machine)
    queue.rounds(40, batch)
    assert queue.limit == 2 * batch
    queue.peak = 0
    queue.rounds(20, batch)
    assert (queue.limit, queue.peak) == (2 * batch, 2 * batch + 1)


def test_growth_from_nothing_with_batches_of_eight(machine):
    queue = Queue(machine)
    limits = []
    for _ in range(6):
        queue.rounds(1, 8)
        limits.append(queue.limit)
    assert limits == [1, 3, 7, 15, 15, 16]


def test_shrinking_takes_two_hold_times(machine):
    queue = Queue(machine)
    queue.rounds(60, 64)
    assert queue.limit == 128
    limits = []
    for _ in range(2):
        for _ in range(1 + HZ // 10):
            queue.now += 10
            queue.rounds(1, 8)
        limits.append(queue.limit)
    assert limits == [127, 16]


calls = st.lists(
    st.one_of(
        st.tuples(st.just("queued"), st.integers(1, 3000)),
        st.tuples(st.just("completed"), st.floats(0, 1)),
        st.tuples(st.just("wait"), st.integers(0, 400)),
        st.tuples(st.just("fill"), st.integers(1, 1514)),
    ),
    max_size=60,
)


def perform(queue, call):
    name, argument = call
    if name == "queued":
        queue.queued(argument)
    elif name == "completed":
        queue.completed(int(argument * queue.inflight))
    elif name == "fill":
        queue.fill(max(argument, 1 + queue.limit // 50))
    else:
        queue.now += argument


@given(calls=calls, before_the_wrap=st.integers(1, 5000), point=st.sampled_from([U32, U32 // 2]))
def test_nothing_depends_on_where_the_counters_stand(machine, calls, before_the_wrap, point):
    shapes = []
    for start in (0, point - before_the_wrap):
        queue = Queue(machine, start)
        shapes.append([])
        for call in calls:
            perform(queue, call)
            shapes[-1].append(queue.shape())
    assert shapes[0] == shapes[1]


@given(calls=calls, excess=st.integers(1, U32 // 2))
@settings(max_examples=50)
def test_completing_more_than_is_in_flight_is_a_fault_that_changes_nothing(machine, calls, excess):
    queue = Queue(machine)
    for call in calls:
        perform(queue, call)
    before = queue.view.raw.tobytes()
    with pytest.raises(queue.fault):
        queue.completed(queue.inflight + excess)
    assert queue.view.raw.tobytes() == before


@given(calls=calls, low=st.integers(0, 4000), width=st.integers(0, 4000))
def test_the_limit_stays_within_its_bounds(machine, calls, low, width):
    queue = Queue(machine)
    queue.view.min_limit = low
    queue.view.max_limit = low + width
    for call in calls:
        perform(queue, call)
        if call[0] == "completed":
            assert low <= queue.limit <= low + width
            assert queue.view.adj_limit % U32 == (queue.limit + queue.view.num_completed) % U32
