"""What a set of processes occupies: the proportional set size, in which a shared page counts once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def pss_mb(pids: Iterable[int]) -> float | None:
    """Sum of the processes' PSS in MB, or None when the kernel does not say."""
    total_kb = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            return None
        total_kb += next((int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")), 0)
    return total_kb / 1000
