"""Stochastic fairness queueing."""

import numpy as np

SFQ_SLOT = np.dtype(
    [
        ("head", "i4"),  # first and last skb, 0 = none
        ("tail", "i4"),
        ("backlog", "i4"),  # bytes
        ("allot", "i4"),  # bytes it may still send in this turn
        ("bucket", "u2"),  # hash bucket that points here
        ("next", "u2"),  # next slot of the round
        ("shallower", "u2"),  # neighbours in the list of slots of equal depth, or in the free list
        ("deeper", "u2"),
        ("qlen", "i2"),
        ("_pad", "i2", 3),
    ],
    align=True,
)
assert SFQ_SLOT.itemsize == 32, SFQ_SLOT.itemsize
