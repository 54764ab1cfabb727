"""A process is its pid *and* its start time: the pid alone is soon another's.

Start times are clock ticks since boot, as in field 22 of /proc/PID/stat.
"""

from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
GONE_STATES = "ZXx"  # zombie, dead
STOPPED_STATES = "Tt"  # by a signal, by a tracer


@dataclass(frozen=True)
class ProcStat:
    """What /proc/PID/stat says of a process."""

    state: str
    parent_pid: int
    start_ticks: int


def read_stat(pid: int) -> ProcStat | None:
    """State, parent and start time of a process; None if there is none or it cannot be read."""
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        fields = text[text.rindex(")") + 1 :].split()  # the name before it may hold anything
        return ProcStat(state=fields[0], parent_pid=int(fields[1]), start_ticks=int(fields[19]))
    except (OSError, ValueError, IndexError):
        return None


def process_start_time(pid: int) -> int | None:
    """When a process started; None if it cannot be read."""
    stat = read_stat(pid)
    return None if stat is None else stat.start_ticks


def is_running(pid: int, started: int) -> bool:
    """Whether that very process still runs. A zombie does not: it will never write again."""
    stat = read_stat(pid)
    return stat is not None and stat.start_ticks == started and stat.state not in GONE_STATES


def read_text(path: Path) -> str | None:
    """The text of a small file of /proc or /sys, stripped; None if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def read_int(path: Path) -> int | None:
    """The number in a small file; None if it cannot be read."""
    text = read_text(path)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
