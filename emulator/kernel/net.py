"""``struct net``: everything that the mechanisms share, as one record.

::

    NET  params        start, measurement window             the launcher, before the run
         fault         the first fault of the run            whoever meets it, by cmpxchg
         cpus[32]      clock.py      one writer each, its agent
         devs[4]       netdev.py, veth.py
         qdiscs[32]    qdisc/base.py
         flows[64]     receive.py    a sender's line and a receiver's line
         probes[...]   receive.py    the prober writes the first half of a record, the receiver the second
         pool, skbs    skb.py
         ring_slots, fq_flows, fq_backlogs, sfq_slots, sfq_ht, rules     arenas, allocated once by their users

The arenas make sizes a matter of the scenario while the layout stays fixed, so that the code is compiled once.
"""

import numpy as np

from emulator.kernel.clock import CPU, CPUS_MAX, DEVS_MAX, FLOWS_MAX
from emulator.kernel.device import NETDEV
from emulator.kernel.memory import FAULT
from emulator.kernel.netfilter import RULE, RULES_MAX
from emulator.kernel.qdisc.base import FQ_FLOW, QDISC
from emulator.kernel.qdisc.sfq import SFQ_SLOT
from emulator.kernel.receive import FLOW, PROBE, PROBES_MAX
from emulator.kernel.skb import POOL, SKB, SKBS_MAX

QDISCS_MAX = 32
RING_SLOTS_MAX = 524288  # room for resizing a ring of 100000, and for pfifo_fast with three such bands
FQ_FLOWS_MAX = 2 * 65536  # both devices with as many as fq_codel allows
SFQ_SLOTS_MAX = 2 * 65536
SFQ_BUCKETS_MAX = 2 * 65536

PARAMS = np.dtype(
    [
        ("start_ns", "i8"),
        ("measure_start_ns", "i8"),
        ("measure_end_ns", "i8"),
        ("_pad", "i8"),
        ("ring_slots_used", "i8"),  # arena tops
        ("fq_flows_used", "i8"),
        ("sfq_slots_used", "i8"),
        ("sfq_ht_used", "i8"),
    ],
    align=True,
)

NET = np.dtype(
    [
        ("params", PARAMS),
        ("fault", FAULT),
        ("cpus", CPU, CPUS_MAX),
        ("devs", NETDEV, DEVS_MAX),
        ("qdiscs", QDISC, QDISCS_MAX),
        ("flows", FLOW, FLOWS_MAX),
        ("probes", PROBE, PROBES_MAX),
        ("pool", POOL),
        ("skbs", SKB, SKBS_MAX),
        ("ring_slots", "i8", RING_SLOTS_MAX),
        ("fq_backlogs", "i4", FQ_FLOWS_MAX),
        ("fq_flows", FQ_FLOW, FQ_FLOWS_MAX),
        ("sfq_slots", SFQ_SLOT, SFQ_SLOTS_MAX),
        ("sfq_ht", "i4", SFQ_BUCKETS_MAX),
        ("rules", RULE, RULES_MAX),
    ],
    align=True,
)
