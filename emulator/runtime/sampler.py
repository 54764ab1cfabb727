"""What a poller of sysfs would have seen: the segment's words, looked at now and then.

Kept apart from the exact histograms on purpose: a limit that swings between two completions shows there and not here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from emulator.runtime.build import RECEIVER, SENDER
from emulator.runtime.walk import ring_occupied


class Sampler:
    """Samples of the flood's path. ``samples``: (now_ns, limit, inflight, ring, backlog, received of each flow ...)."""

    def __init__(self, net: Any) -> None:
        self._net = net
        self.samples: list[tuple[int, ...]] = []
        self._flows = [i for i in range(len(net.flows)) if net.flows[i].used]

    def sample(self, now_ns: int) -> None:
        """Look once."""
        sender, receiver = self._net.devs[SENDER], self._net.devs[RECEIVER]
        limit = inflight = ring = 0
        for queue in range(sender.real_num_tx_queues):
            dql = sender.txq[queue].dql
            completed = dql.num_completed
            limit += dql.limit
            inflight += (dql.num_queued - completed) & 0xFFFFFFFF
            ring += ring_occupied(self._net, receiver.rq[queue].ring)
        received = [self._net.flows[i].received for i in self._flows]
        self.samples.append((now_ns, limit, inflight, ring, self._net.qdiscs[SENDER].qlen, *received))

    def received_between(self, flow: int) -> tuple[int, float]:
        """Packets of a flow from the first sample to the last, and the seconds between these."""
        if len(self.samples) < 2:
            return 0, 0.0
        column = 5 + self._flows.index(flow)
        first, last = self.samples[0], self.samples[-1]
        return last[column] - first[column], (last[0] - first[0]) / 1e9

    def series(self, start_ns: int, flood_flows: list[int]) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
        """The columns of report.measurement.SERIES, times relative to ``start_ns``."""
        table = np.array(self.samples, dtype=np.float64).reshape(len(self.samples), 5 + len(self._flows))
        columns = [5 + self._flows.index(flow) for flow in flood_flows]
        return {
            "t_s": (table[:, 0] - start_ns) / 1e9,
            "limit": table[:, 1],
            "inflight": table[:, 2],
            "ring": table[:, 3],
            "backlog": table[:, 4],
            "received": table[:, columns].sum(axis=1),
        }
