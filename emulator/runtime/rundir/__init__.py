"""Where a run lives while it runs, whose it is, and who may delete it.

::

    /dev/shm/veth-emulator-UID/              base: mode 0700, the user's own, no symlink
        bases.json                           other bases that runs were ever put in, mode 0600
        run-PID-STARTTIME-N/                 one run; its launcher holds a flock on the directory
            owner.json                       the launcher, written first and whole
            segment, sockets, ...

With ``run_dir`` in the scenario the base is ``run_dir/veth-emulator-UID``.

A run is alive while its launcher is: the same pid with the same start time, or, seen from another pid namespace, while
the flock is held. A run is deleted by its id and only when its launcher is known to be gone. Whatever cannot be judged
(garbage, another's files, another machine's) is listed with the reason and left alone.
"""

from emulator.runtime.host.procfs import process_start_time
from emulator.runtime.rundir.bases import (
    base_in,
    default_base,
    forget_missing_bases,
    known_bases,
    prepare_base,
    register_base,
)
from emulator.runtime.rundir.files import allocate_file, delete_tree, explain
from emulator.runtime.rundir.owner import OWNER_FILE, Owner, is_alive
from emulator.runtime.rundir.runs import Claim, FoundRun, RunDir, RunState, claim, create_run_dir, list_runs, remove

__all__ = [
    "OWNER_FILE",
    "Claim",
    "FoundRun",
    "Owner",
    "RunDir",
    "RunState",
    "allocate_file",
    "base_in",
    "claim",
    "create_run_dir",
    "default_base",
    "delete_tree",
    "explain",
    "forget_missing_bases",
    "is_alive",
    "known_bases",
    "list_runs",
    "prepare_base",
    "process_start_time",
    "register_base",
    "remove",
]
