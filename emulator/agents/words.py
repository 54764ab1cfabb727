"""The words of an agent in the segment: what it is told to do, and what it says of itself.

::

    AGENT  order line     stop, start_ns          the agent's control thread (or the launcher, for an agent that hangs)
           status line    phase, heartbeat_ns ... the agent's own loop
           wake line      wake                    futex word: bumped to end a sleep
           config lines   role, device, rates     the launcher, before the agent starts
           prober line    next_probe, finished    the prober
           driver line    due_ns                  the virtual clock's driver (runtime/virtual_steps.py)
"""

import numpy as np

from emulator.kernel.jit import kernel
from emulator.kernel.memory import smp_load_acquire, smp_store_release

MAGIC = 0x4C55_4D45_4854_4556  # "VETHEMUL"

ROLES = ("none", "flood", "ping", "napi", "watchdog")
ROLE_NONE, ROLE_FLOOD, ROLE_PING, ROLE_NAPI, ROLE_WATCHDOG = range(len(ROLES))

PHASES = ("created", "ready", "running", "done", "failed")
PHASE_CREATED, PHASE_READY, PHASE_RUNNING, PHASE_DONE, PHASE_FAILED = range(len(PHASES))

IDLE_POLICIES = ("spin", "yield", "futex")
IDLE_SPIN, IDLE_YIELD, IDLE_FUTEX = range(len(IDLE_POLICIES))

AGENT = np.dtype(
    [
        ("stop", "i8"),  # 1: stop at the next step boundary with empty hands
        ("start_ns", "i8"),  # 0: wait; else the absolute time (segment clock) at which to begin
        ("_order_line", "i8", 6),
        ("phase", "i8"),  # PHASE_*
        ("heartbeat_ns", "i8"),  # time of the last finished duty cycle
        ("pid", "i8"),
        ("voluntary", "i8"),  # context switches of the agent's main thread over the measurement (getrusage)
        ("involuntary", "i8"),
        ("wait_ns", "i8"),  # time runnable but not running (schedstat), over the measurement
        ("cpu_ns", "i8"),  # time on the CPU, over the measurement
        ("_status_line", "i8", 1),
        ("wake", "i4"),
        ("_wake_pad", "i4"),
        ("_wake_line", "i8", 7),
        ("role", "i8"),  # ROLE_*
        ("cpu", "i8"),  # index of its CPU context in net.cpus, the agent's own number
        ("affinity", "i8"),  # CPU of the machine, -1 = anywhere
        ("dev", "i8"),  # device it sends on, polls or watches
        ("queue", "i8"),  # receive queue it polls
        ("idle", "i8"),  # IDLE_*
        ("flow", "i8"),  # first flow
        ("flows", "i8"),  # number of flows, used in turn
        ("packet_len", "i8"),  # bytes
        ("interval_ns", "i8"),  # between packets (flood; 0 = as fast as it can) or probes
        ("yields", "i8"),  # 1: others run on this CPU; let them in between steps
        ("control_cpu", "i8"),  # CPU of the machine for everything but the main thread
        ("_config_line", "i8", 4),
        ("next_ns", "i8"),  # flood: when the next packet is due
        ("next_flow", "i8"),
        ("next_probe", "i8"),  # probes sent or given up so far
        ("end_ns", "i8"),  # prober: sends none that is due at or after this
        ("finished", "i8"),  # prober: 1 once the schedule is through
        ("next_check", "i8", 4),  # watchdog: jiffies of the next look at each device
        ("_prober_line", "i8", 7),
        ("due_ns", "i8"),  # virtual clock: when the next step is to be taken
        ("_driver_line", "i8", 7),
    ],
    align=True,
)


@kernel
def publish(header):
    """Store a segment's magic after everything else in it. P1, pairs with P2 in is_published()."""
    smp_store_release(header, "magic", MAGIC)


@kernel
def is_published(header):
    """Whether a segment is complete. P2, pairs with P1 in publish()."""
    return smp_load_acquire(header, "magic") == MAGIC
