"""The mapped file of a run: created whole by the launcher, attached by everyone else.

The file is allocated in full when it is created, so that a full filesystem is an error here and not a SIGBUS later. It
outlives its processes; a reader attaches to a dead run's file just as well.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np

from emulator.agents.words import AGENT, MAGIC, is_published, publish
from emulator.errors import CannotRun
from emulator.kernel.clock import CPUS_MAX
from emulator.kernel.net import NET
from emulator.kernel.plain import Record
from emulator.runtime.layout import LAYOUT_VERSION, SEGMENT
from emulator.runtime.rundir import allocate_file, process_start_time

SEGMENT_FILE = "segment"
_OFFSETS = {name: int(SEGMENT.fields[name][1]) for name in SEGMENT.names or () if SEGMENT.fields}


class Segment:
    """One run's memory. ``raw``: the structured scalar that compiled code takes; ``view``: the same with plain ints."""

    def __init__(self, path: Path, mapping: mmap.mmap) -> None:
        self.path = path
        self._mapping = mapping
        self.raw: Any = np.frombuffer(mapping, dtype=SEGMENT, count=1)[0]  # keeps the mapping alive
        self.view: Any = Record(self.raw)

    @classmethod
    def create(cls, run_dir: Path) -> Segment:
        """Allocate and map a zeroed segment, not yet published.

        Raises CannotRun when the filesystem has no room.
        """
        path = run_dir / SEGMENT_FILE
        allocate_file(path, SEGMENT.itemsize)
        return cls(path, _map(path, writable=True))

    @classmethod
    def private(cls) -> Segment:
        """A zeroed segment in this process's own memory, without a file.

        Raises CannotRun when there is no memory for it.
        """
        try:
            memory = mmap.mmap(-1, SEGMENT.itemsize)
        except OSError as error:
            size_mb = SEGMENT.itemsize / 1e6
            raise CannotRun(f"no memory for a run, {size_mb:.0f} MB: {error.strerror}; end something else") from None
        return cls(Path("(private)"), memory)

    @classmethod
    def attach(cls, run_dir: Path, *, writable: bool = True) -> Segment:
        """Map a published segment.

        Raises CannotRun when it is not (yet) a segment, or is one of another layout.
        """
        path = run_dir / SEGMENT_FILE
        size = path.stat().st_size if path.exists() else 0
        if size != SEGMENT.itemsize:
            raise CannotRun(f"{path}: {size} bytes are not a segment of this version ({SEGMENT.itemsize} bytes)")
        segment = cls(path, _map(path, writable))
        if writable and not is_published(segment.header):
            raise CannotRun(f"{path}: no segment was published here")
        if segment.view.header.magic != MAGIC:
            raise CannotRun(f"{path}: no segment was published here")
        if segment.view.header.layout != LAYOUT_VERSION:
            raise CannotRun(
                f"{path}: layout {segment.view.header.layout:x}, this version reads {LAYOUT_VERSION:x}; "
                "use the version that wrote it"
            )
        return segment

    def publish(self) -> None:
        """Say that everything is in place: magic last, with release."""
        header = self.view.header
        header.layout = LAYOUT_VERSION
        header.launcher_pid = os.getpid()
        header.launcher_start = process_start_time(os.getpid()) or 0
        publish(self.header)

    @property
    def header(self) -> Any:
        """The header, as compiled code takes it."""
        return self.raw["header"]

    @property
    def nets(self) -> Any:
        """The network, as duty cycles take it: an array of shape (1,)."""
        return self._array("net", NET, 1)

    @property
    def agents(self) -> Any:
        """All agents' words, as duty cycles take them: an array of shape (CPUS_MAX,)."""
        return self._array("agents", AGENT, CPUS_MAX)

    def _array(self, name: str, dtype: np.dtype[Any], count: int) -> Any:
        return np.frombuffer(self._mapping, dtype=dtype, count=count, offset=_OFFSETS[name])


def _map(path: Path, writable: bool) -> mmap.mmap:
    with path.open("r+b" if writable else "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ)
