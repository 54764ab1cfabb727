"""The list of packets that a poll has taken from the ring and not yet handed to the stack.

UDP without a GRO socket is not merged (GRO_NORMAL): the packet joins ``rx_list``, and the list goes up the stack when
it holds ``gro_normal_batch`` packets (8) or when the poll ends. So ring entries, and with some completion rules their
BQL charges, are released eight at a time at almost no cost, and then eight packets' worth of netfilter is paid in one
go. That burst is what sets the DQL limit's floor of 16.

::

    GRO   rx_list          collected, in order
          flushing         the part of it that is being delivered, one packet after the other (receive.py)
          paid             1 while the first of these has been paid for and not yet delivered

Owner: NAPI ownership. Upstream: gro_normal_one, gro_normal_list (include/net/gro.h), napi_gro_receive (net/core/gro.c).
"""

import numpy as np

from emulator.kernel.jit import kernel
from emulator.kernel.qdisc.base import SKB_LIST, list_append, list_pop

GRO_NORMAL_BATCH = 8

GRO = np.dtype(
    [
        ("rx_list", SKB_LIST),
        ("flushing", SKB_LIST),
        ("normal_batch", "i8"),
        ("flushes", "i8"),
        ("paid", "i8"),
        ("_line", "i8", 1),
    ],
    align=True,
)


@kernel
def napi_gro_receive(net, gro, skb):
    """Add a packet to rx_list, and start a flush when that makes a batch."""
    list_append(net, gro.rx_list, skb)
    if gro.rx_list.qlen >= gro.normal_batch:
        gro_normal_list(gro)


@kernel
def gro_normal_list(gro):
    """Start delivering what was collected, if anything; whether there is something to deliver."""
    if gro.rx_list.qlen == 0:
        return False
    gro.flushing.head = gro.rx_list.head
    gro.flushing.tail = gro.rx_list.tail
    gro.flushing.qlen = gro.rx_list.qlen
    gro.rx_list.head = 0
    gro.rx_list.tail = 0
    gro.rx_list.qlen = 0
    gro.flushes += 1
    return True


@kernel
def gro_next(net, gro):
    """The next packet to deliver, or 0."""
    return list_pop(net, gro.flushing)
