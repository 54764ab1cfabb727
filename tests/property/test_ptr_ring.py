"""The ring against a queue that only knows the rules: order, and how late a slot is free again."""

from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st

ENOSPC = 28


class Model:
    """Entries in order, and how many consumed slots have not been cleared yet."""

    def __init__(self, size):
        self.size = size
        self.batch = 16 if size >= 32 else 1
        self.entries = deque()
        self.uncleared = 0
        self.head = 0

    @property
    def full(self):
        return len(self.entries) + self.uncleared == self.size

    def produce(self, entry):
        if self.full:
            return -ENOSPC
        self.entries.append(entry)
        return 0

    def consume(self):
        if not self.entries:
            return 0
        self.head += 1
        self.uncleared += 1
        if self.uncleared >= self.batch or self.head == self.size:
            self.uncleared = 0
        self.head %= self.size
        return self.entries.popleft()

    def unconsume(self, batch):
        self.uncleared = 0
        batch = list(batch)
        while batch and len(self.entries) < self.size:
            self.entries.appendleft(batch.pop())
            self.head = (self.head - 1) % self.size
        return batch[::-1]

    def resize(self, size):
        entries = list(self.entries)
        self.__init__(size)
        self.entries.extend(entries[:size])
        return entries[size:]


class Ring:
    """The same calls on the compiled ring."""

    def __init__(self, machine, size):
        self.m = machine
        self.code = machine.ptr_ring
        machine.create_qdisc("noqueue", {}, 0, 1500)
        self.view = machine.view.qdiscs[0].bands[0]
        self.ring = machine.native(machine.raw["qdiscs"][0]["bands"][0])
        self.code.ptr_ring_init(machine.net, self.ring, 0, size)

    @property
    def full(self):
        return bool(self.code.ptr_ring_full(self.m.net, self.ring))

    @property
    def empty(self):
        return bool(self.code.ptr_ring_empty(self.m.net, self.ring))

    def produce(self, entry):
        return self.code.ptr_ring_produce(self.m.net, self.ring, entry)

    def consume(self):
        return self.code.ptr_ring_consume(self.m.net, self.ring)

    def unconsume(self, batch):
        words, lost = self.m.words(len(batch)), self.m.words(len(batch))
        for i, entry in enumerate(batch):
            words[i] = entry
        count = self.code.ptr_ring_unconsume(self.m.net, self.ring, words, len(batch), lost)
        return [int(lost[i]) for i in range(count)]

    def resize(self, size):
        lost = self.m.words(self.view.size)
        base = 1000 if self.view.base == 0 else 0
        count = self.code.ptr_ring_resize(self.m.net, self.ring, base, size, lost)
        return [int(lost[i]) for i in range(count)]


SIZES = st.sampled_from([1, 2, 3, 16, 30, 31, 32, 33, 48, 64])
bursts = st.lists(st.tuples(st.booleans(), st.integers(1, 40)), min_size=5, max_size=30)


@given(size=SIZES, bursts=bursts)
@settings(max_examples=50)
def test_order_and_room(machine, size, bursts):
    ring, model = Ring(machine, size), Model(size)
    entry = 0
    for producing, count in bursts:
        for _ in range(count):
            if producing:
                entry += 1
                assert ring.produce(entry) == model.produce(entry)
            else:
                assert ring.consume() == model.consume()
            assert (ring.full, ring.empty) == (model.full, not model.entries)


@given(size=SIZES, other=SIZES, bursts=bursts, data=st.data())
@settings(max_examples=50)
def test_nothing_is_lost_in_resize_and_unconsume(machine, size, other, bursts, data):
    ring, model = Ring(machine, size), Model(size)
    entry = 0
    for producing, count in bursts:
        taken = []
        for _ in range(count):
            if producing:
                entry += 1
                assert ring.produce(entry) == model.produce(entry)
            else:
                taken.append(ring.consume())
                assert taken[-1] == model.consume()
        taken = [number for number in taken if number]
        back = taken[len(taken) - data.draw(st.integers(0, len(taken))) :]
        while data.draw(st.booleans()) and ring.produce(entry + 1) == 0:
            entry += 1
            model.produce(entry)
        lost = ring.unconsume(back)
        assert lost == model.unconsume(back)
        assert ring.consume() == model.consume()
        if data.draw(st.booleans()):
            assert ring.resize(other) == model.resize(other)
            size, other = other, size
        assert (ring.full, ring.empty) == (model.full, not model.entries)
    while model.entries:
        assert ring.consume() == model.consume()
    assert ring.consume() == 0
