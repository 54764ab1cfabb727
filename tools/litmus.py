#!/usr/bin/env python3
"""Litmus tests of the emulator's atomics: what two CPUs can see of each other, with and without barriers.

::

    sb     x = 1; read y        |  y = 1; read x            both read the old value: store buffering
    mp     x = 1; y = 1 (rel.)  |  wait for y (acq.); read x   x is still old
    stop   charge, stop; limit? |  complete; stopped?       a queue with room stays stopped (B1, B2 of netdev.py)
    kick   produce; masked?     |  unmask; ring empty?      an entry that nobody polls for (K1, K2 of veth.py)

Two processes, pinned to two CPUs, share a mapped file and meet before and after each round; then one looks whether
the outcome came about that the barriers forbid. `none`: the barriers are left out, which x86 and others then show;
`smp_mb`, `rel/acq`: the same shape with them; `as built`: the emulator's own functions.

Exit codes: 0 nothing forbidden was seen with barriers, 1 it was, 4 fewer than two CPUs.
"""

import argparse
import json
import mmap
import os
import sys
import tempfile
from pathlib import Path

TWO_CPUS_NEEDED = "litmus: two CPUs are needed, this process may use {}"
NONE, BARRIER, AS_BUILT = range(3)
SB, MP, STOP, KICK = range(4)
CASES = [
    ("sb", "none", SB, NONE),
    ("sb", "smp_mb", SB, BARRIER),
    ("mp", "rel/acq", MP, BARRIER),
    ("stop", "none", STOP, NONE),
    ("stop", "smp_mb", STOP, BARRIER),
    ("stop", "as built", STOP, AS_BUILT),
    ("kick", "none", KICK, NONE),
    ("kick", "smp_mb", KICK, BARRIER),
    ("kick", "as built", KICK, AS_BUILT),
]
SHARED_DIR = "/dev/shm"
_LEGEND = "without a barrier (none) the forbidden outcome may be seen, and on most CPUs is; with one it must be 0"


def main(argv=None):
    """Run the cases; the process's exit code."""
    options = parser().parse_args(argv)
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        print(TWO_CPUS_NEEDED.format(len(cpus)), file=sys.stderr)
        return 4
    wanted = [case for case in CASES if not options.case or case[0] in options.case]
    rows = measure(wanted, options.rounds, options.attempts, (cpus[0], cpus[-1]))
    if options.json:
        print(json.dumps({"cpus": [cpus[0], cpus[-1]], "cases": rows}))
    else:
        print(f"{'litmus':<8}{'barrier':<10}{'n':>12}{'forbidden outcome':>20}")
        for row in rows:
            print(f"{row['litmus']:<8}{row['barrier']:<10}{row['n']:>12}{row['seen']:>20}")
        print(_LEGEND)
    return 1 if any(row["seen"] for row in rows if row["barrier"] != "none") else 0


def parser():
    """The command line."""
    made = argparse.ArgumentParser(prog="litmus.py", description=(__doc__ or "").partition("\n\n")[0])
    made.add_argument("--rounds", type=int, default=300_000, help="rounds of an attempt (default %(default)s)")
    made.add_argument(
        "--attempts",
        type=int,
        default=20,
        help="without barriers: attempts until it is seen; with them: as many as that took (default %(default)s)",
    )
    made.add_argument("--case", action="append", choices=["sb", "mp", "stop", "kick"], help="only these")
    made.add_argument("--json", action="store_true", help="one JSON object")
    return made


def measure(cases, rounds, attempts, cpus):
    """One row a case. Two processes for all of them, started once."""
    import multiprocess
    from litmus_rounds import SHARED, compile_rounds

    compile_rounds()  # once, before two processes would
    context = multiprocess.get_context("spawn")
    with tempfile.NamedTemporaryFile(dir=SHARED_DIR if Path(SHARED_DIR).is_dir() else None) as file:
        file.truncate(SHARED.itemsize)
        pipes = [context.Pipe() for _ in cpus]
        actors = [
            context.Process(target=act, args=(file.name, role, cpu, pipes[role][1]), daemon=True)
            for role, cpu in enumerate(cpus)
        ]
        for actor in actors:
            actor.start()
        for _, theirs in pipes:
            theirs.close()
        rows = []
        needed = 1
        for name, barrier, shape, mode in cases:
            seen = n = 0
            for _ in range(attempts if mode == NONE else needed):
                for mine, _ in pipes:
                    mine.send((shape, mode, rounds))
                seen += sum(mine.recv() for mine, _ in pipes)
                n += rounds
                if seen and mode == NONE:
                    break
            needed = n // rounds if mode == NONE else needed
            rows.append({"litmus": name, "barrier": barrier, "n": n, "seen": seen})
        for mine, _ in pipes:
            mine.send(None)
        for actor in actors:
            actor.join()
    return rows


def act(path, role, cpu, pipe):
    """One of the two processes: rounds as it is told, until it is told None."""
    import numpy as np
    from litmus_rounds import SHARED, prepare, run_rounds

    os.sched_setaffinity(0, {cpu})
    with Path(path).open("r+b") as file:
        shared = np.frombuffer(mmap.mmap(file.fileno(), 0), dtype=SHARED)
    last = 0
    while (order := pipe.recv()) is not None:
        shape, mode, rounds = order
        if role == 0:
            prepare(shared, shape)
        seen = run_rounds(shared, role, shape, mode, last, rounds)
        last += rounds
        pipe.send(seen)


if __name__ == "__main__":
    sys.exit(main())
