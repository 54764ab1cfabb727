"""What iptables rules cost: a chain that every packet walks, rule by rule.

Two modes. ``walk`` does it: each rule's fields are compared with the packet's and its counters bumped, over a table
that a large rule count pushes out of the caches. ``burn`` pays nanoseconds from the host profile, the way to stand for
another machine. The cost is paid when the GRO list is flushed, packet by packet, in order (gro.py), never when the ring
is read.

Table: ``net.rules``, one cache line a rule, written by the one NAPI thread of the device that has the rules.

Upstream: net/ipv4/netfilter/ip_tables.c (ipt_do_table); counting rules without a target.
"""

import numpy as np

from emulator.kernel.jit import kernel

RULES_MAX = 100_000
MODE_BURN, MODE_WALK = range(2)

RULE = np.dtype(
    [
        ("src", "i4"),
        ("src_mask", "i4"),
        ("dst", "i4"),
        ("dst_mask", "i4"),
        ("protocol", "i4"),
        ("invert", "i4"),
        ("packets", "i8"),
        ("bytes", "i8"),
        ("_line", "i8", 3),
    ],
    align=True,
)
assert RULE.itemsize == 64, RULE.itemsize
IPPROTO_UDP = 17
_NET_198_18 = 0xC6120000 - (1 << 32)  # 198.18.0.0/15, the benchmark network, as a signed word


def rules_init(net, count):
    """Fill the table with ``count`` counting rules that match every UDP packet from 198.18.0.0/15."""
    table = net.rules.raw[:count]
    table["src"], table["src_mask"] = _NET_198_18, -0x20000
    table["dst"], table["dst_mask"] = 0, 0
    table["protocol"], table["invert"] = IPPROTO_UDP, 0
    table["packets"] = 0
    table["bytes"] = 0


@kernel
def nf_hook(net, dev, skb):
    """Walk the device's rules for one packet; what is to be paid for them instead, in ns, where they are not walked."""
    if dev.nf_mode == MODE_BURN:
        return dev.nf_cost_ns
    if dev.nf_rules > 0:
        _walk(net, dev.nf_rules, net.skbs[skb].hash, net.skbs[skb].len)
    return 0


@kernel
def _walk(net, count, source, length):
    address = (source & 0x1FFFF) | _NET_198_18
    for i in range(count):
        rule = net.rules[i]
        source_matches = ((address ^ rule.src) & rule.src_mask) == 0
        destination_matches = (address & rule.dst_mask) == rule.dst
        if (source_matches and destination_matches and rule.protocol == IPPROTO_UDP) != (rule.invert != 0):
            rule.packets += 1
            rule.bytes += length
