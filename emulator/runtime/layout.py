"""The bytes of a segment: one mapped file a run.

::

    offset 0      HEADER    magic, layout version, launcher's pid and start time; magic is stored last
           4096   CONTROL   words of the launcher
                  AGENTS    agents/words.py, one record an agent
                  NET       kernel/net.py

``SEGMENT`` is one structured type; ``LAYOUT_VERSION`` is a hash of it, so that two builds with different layouts cannot
mistake each other's files.

A reader checks ``magic`` with an acquire load first; the launcher stores it with release after everything else.
"""

import hashlib

import numpy as np

from emulator.agents.words import AGENT
from emulator.kernel.clock import CPUS_MAX
from emulator.kernel.net import NET

HEADER = np.dtype(
    [
        ("magic", "i8"),
        ("layout", "i8"),
        ("launcher_pid", "i8"),
        ("launcher_start", "i8"),  # clock ticks since boot, from /proc/PID/stat
        ("_pad", "i8", 508),
    ],
    align=True,
)

CONTROL = np.dtype(
    [
        ("launcher_heartbeat_ns", "i8"),
        ("agents", "i8"),  # number of agents
        ("stop", "i8"),  # 1: the run is being taken down
        ("_launcher_line", "i8", 5),
    ],
    align=True,
)

SEGMENT = np.dtype([("header", HEADER), ("control", CONTROL), ("agents", AGENT, CPUS_MAX), ("net", NET)], align=True)


def _layout_version() -> int:
    return int.from_bytes(hashlib.sha256(repr(SEGMENT.descr).encode()).digest()[:7], "little")


LAYOUT_VERSION = _layout_version()
