"""Single cases of the ring: when room shows, rings without slots, and what does not fit back."""

import numpy as np
import pytest

from emulator.kernel import ptr_ring as kernel
from emulator.kernel.net import NET
from emulator.kernel.plain import Record


class Ring:
    def __init__(self, size):
        self.raw = np.zeros(1, NET)[0]
        self.ring = self.raw["qdiscs"][0]["bands"][0]
        self.view = Record(self.ring)
        self.net = self.raw
        kernel.ptr_ring_init(self.raw, self.ring, 0, size)

    def fill(self):
        entry = 0
        while kernel.ptr_ring_produce(self.net, self.ring, entry + 1) == 0:
            entry += 1
        return entry

    def consume(self, count=1):
        return [kernel.ptr_ring_consume(self.net, self.ring) for _ in range(count)]

    @property
    def full(self):
        return bool(kernel.ptr_ring_full(self.net, self.ring))


@pytest.mark.parametrize(("size", "batch"), [(1, 1), (30, 1), (31, 1), (32, 16), (33, 16), (256, 16), (0, 1)])
def test_batch(size, batch):
    assert kernel.ptr_ring_batch(size) == batch
    assert Ring(size).view.batch == batch


def test_a_full_ring_shows_no_room_for_fifteen_entries_then_sixteen_at_once():
    ring = Ring(256)
    assert ring.fill() == 256
    for i in range(15):
        assert ring.consume() == [i + 1]
        assert ring.full
    ring.consume()
    assert not ring.full
    assert ring.fill() == 16
    assert ring.full


def test_a_small_ring_shows_room_at_once():
    ring = Ring(30)
    ring.fill()
    ring.consume()
    assert not ring.full


def test_a_ring_without_slots_takes_and_gives_nothing():
    ring = Ring(0)
    assert kernel.ptr_ring_produce(ring.net, ring.ring, 7) == -kernel.ENOSPC
    assert kernel.ptr_ring_check_produce(ring.net, ring.ring) == -kernel.EINVAL
    assert ring.consume() == [0]
    assert kernel.ptr_ring_empty(ring.net, ring.ring)
    batch, lost = np.array([1, 2, 3]), np.zeros(3, "i8")
    assert kernel.ptr_ring_unconsume(ring.net, ring.ring, batch, 3, lost) == 3
    assert lost.tolist() == [3, 2, 1]
    assert ring.raw["ring_slots"].any() == np.False_


def test_check_produce_tells_full_from_room():
    ring = Ring(2)
    assert kernel.ptr_ring_check_produce(ring.net, ring.ring) == 0
    ring.fill()
    assert kernel.ptr_ring_check_produce(ring.net, ring.ring) == -kernel.ENOSPC


def test_a_shrinking_resize_keeps_the_oldest_and_destroys_the_rest_in_order():
    ring = Ring(40)
    ring.fill()
    ring.consume(5)
    lost = np.zeros(40, "i8")
    assert kernel.ptr_ring_resize(ring.net, ring.ring, 100, 10, lost) == 25
    assert lost[:25].tolist() == list(range(16, 41))
    assert (ring.view.base, ring.view.size, ring.view.batch, ring.view.producer) == (100, 10, 1, 0)
    assert ring.full
    assert ring.consume(11) == [*range(6, 16), 0]
