"""What the shell may have limited too far for a run, said before anything fails for it."""

from __future__ import annotations

import resource

from emulator.errors import CannotRun

OPEN_FILES_MIN = 64
ADDRESS_SPACE_MIN_MB = 1500
_MB = 1_000_000


def check_limits() -> None:
    """CannotRun when there are too few file descriptors, or too little address space for the compiler's library."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files != resource.RLIM_INFINITY and files < OPEN_FILES_MIN:
        raise CannotRun(
            f"a process may open {files} files here, a run needs {OPEN_FILES_MIN}; raise it: ulimit -n 1024"
        )
    space = resource.getrlimit(resource.RLIMIT_AS)[0]
    if space != resource.RLIM_INFINITY and space < ADDRESS_SPACE_MIN_MB * _MB:
        raise CannotRun(
            f"a process may use {space // _MB} MB of addresses here, a run needs {ADDRESS_SPACE_MIN_MB} MB; "
            "raise it: ulimit -v unlimited"
        )
