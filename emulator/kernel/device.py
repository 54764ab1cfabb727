"""``struct net_device``: a veth end with its transmit queues and, as its peer's receive side, its rings.

Configuration words are written by the launcher before the run (later: under RTNL, by the control thread); the
mechanisms read them. Transmit queue i of one end feeds receive queue i of the other.

Upstream: include/linux/netdevice.h, drivers/net/veth.c (veth_priv).
"""

import numpy as np

from emulator.kernel.netdev import TXQ
from emulator.kernel.veth import VETH_RQ

QUEUES_MAX = 8
NETDEV_UP = 1

NETDEV = np.dtype(
    [
        ("ifindex", "i8"),  # index in net.devs
        ("peer", "i8"),
        ("present", "i8"),
        ("flags", "i8"),
        ("num_tx_queues", "i8"),
        ("real_num_tx_queues", "i8"),
        ("real_num_rx_queues", "i8"),
        ("tx_queue_len", "i8"),
        ("mtu", "i8"),
        ("bql_variant", "i8"),
        ("tx_coal_ns", "i8"),  # ethtool -C tx-usecs; read on the receiving end
        ("watchdog_timeo", "i8"),  # jiffies
        ("has_tx_timeout", "i8"),  # a driver without ndo_tx_timeout has no watchdog (stock veth)
        ("nf_mode", "i8"),
        ("nf_rules", "i8"),
        ("nf_cost_ns", "i8"),  # all rules, one packet
        ("txq", TXQ, QUEUES_MAX),
        ("rq", VETH_RQ, QUEUES_MAX),
    ],
    align=True,
)
