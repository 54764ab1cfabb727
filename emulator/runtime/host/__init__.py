"""What the machine is and what it did to a run: processes (procfs), facts, meters over time, and the timing verdict."""

from emulator.runtime.host.facts import HostFacts, read_host, tsc_unusable_reason
from emulator.runtime.host.meters import StealMeter, TaskTimes, task_times
from emulator.runtime.host.procfs import ProcStat, is_running, process_start_time, read_stat
from emulator.runtime.host.timing import TimingInputs, Verdict, timing_verdict

__all__ = [
    "HostFacts",
    "ProcStat",
    "StealMeter",
    "TaskTimes",
    "TimingInputs",
    "Verdict",
    "is_running",
    "process_start_time",
    "read_host",
    "read_stat",
    "task_times",
    "timing_verdict",
    "tsc_unusable_reason",
]
