"""What a poller of sysfs would have seen: the segment's words, looked at now and then.

Kept apart from the exact histograms on purpose: a limit that swings between two completions shows there and not here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from emulator.kernel.netdev import ANY_XOFF
from emulator.report.measurement import SERIES
from emulator.runtime.build import RECEIVER, SENDER
from emulator.runtime.walk import ring_occupied

_BEFORE_FLOWS = ("now_ns", "limit", "inflight", "ring", "backlog", "drv_xoff", "stack_xoff", "state")


class Sampler:
    """Samples of the flood's path. ``samples``: ``_BEFORE_FLOWS``, then what each flow had received.

    The stop counters are cumulative and the state has the stop bits of all queues, so that a plot can mark both the
    stops between two samples and the samples that fell into one.
    """

    def __init__(self, net: Any) -> None:
        self._net = net
        self.samples: list[tuple[int, ...]] = []
        self._flows = [i for i in range(len(net.flows)) if net.flows[i].used]

    def sample(self, now_ns: int) -> None:
        """Look once."""
        sender, receiver = self._net.devs[SENDER], self._net.devs[RECEIVER]
        limit = inflight = ring = drv_xoff = stack_xoff = state = 0
        for queue in range(sender.real_num_tx_queues):
            txq = sender.txq[queue]
            dql = txq.dql
            completed = dql.num_completed
            limit += dql.limit
            inflight += (dql.num_queued - completed) & 0xFFFFFFFF
            ring += ring_occupied(self._net, receiver.rq[queue].ring)
            drv_xoff += txq.drv_xoff
            stack_xoff += txq.stack_xoff
            state |= txq.state & ANY_XOFF
        received = [self._net.flows[i].received for i in self._flows]
        backlog = self._net.qdiscs[SENDER].qlen
        self.samples.append((now_ns, limit, inflight, ring, backlog, drv_xoff, stack_xoff, state, *received))

    def received_between(self, flow: int) -> tuple[int, float]:
        """Packets of a flow from the first sample to the last, and the seconds between these."""
        if len(self.samples) < 2:
            return 0, 0.0
        column = self._column(flow)
        first, last = self.samples[0], self.samples[-1]
        return last[column] - first[column], (last[0] - first[0]) / 1e9

    def series(self, start_ns: int, flood_flows: list[int]) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
        """The columns of report.measurement.SERIES, times relative to ``start_ns``."""
        table = np.array(self.samples, dtype=np.float64).reshape(len(self.samples), self._column() + len(self._flows))
        columns = dict(zip(_BEFORE_FLOWS, table.T, strict=False))
        columns["t_s"] = (columns.pop("now_ns") - start_ns) / 1e9
        columns["received"] = table[:, [self._column(flow) for flow in flood_flows]].sum(axis=1)
        return {name: columns[name] for name in ("t_s", *SERIES)}

    def _column(self, flow: int | None = None) -> int:
        """Where a flow's counter stands in a sample, or the first of them."""
        return len(_BEFORE_FLOWS) + (0 if flow is None else self._flows.index(flow))
