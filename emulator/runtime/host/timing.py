"""The timing verdict: could this machine carry out that run on time, or does the result show the machine's own noise?

``good``: nothing worth a word. ``fair``: shapes hold, tails may not. ``poor``: do not compare numbers of this run.
Each threshold below is (fair above, poor above); the worst item decides. What is not known (None) is not judged, and
said so.

===========================  =============  ==========================================================================
item                         fair, poor     because
===========================  =============  ==========================================================================
CPUs wanted beyond those     -, 0           two tasks of the data path on one CPU take turns of milliseconds
there are
stolen time                  0.5 %, 3 %     of the CPU time of the run; the hypervisor ran somebody else
throttled by quota           0 ms, 1 %      of the run; everything stood still for up to a period (100 ms)
quota below CPUs wanted      -, 0           it will be throttled
share of time waiting        1 %, 10 %      of the worst data-path agent: ready, while another had its CPU
involuntary switches         100/s, 1000/s  of the worst data-path agent; each costs caches besides the time
longest duty cycle           5 ms, 50 ms    a cycle is bounded at about 1 ms: the rest, the agent did not run
lock holders preempted       10/s, 1000/s   others spun for a whole time slice
load of others               0.5, 1 x CPUs  in CPUs, when the run began; the share that they will take
===========================  =============  ==========================================================================
"""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["good", "fair", "poor"]
_ORDER: tuple[Verdict, ...] = ("good", "fair", "poor")

STEAL_SHARE = (0.005, 0.03)
THROTTLED_SHARE = (0.0, 0.01)
WAIT_SHARE = (0.01, 0.10)
INVOLUNTARY_PER_S = (100.0, 1000.0)
LONGEST_CYCLE_US = (5_000.0, 50_000.0)
LOCK_PREEMPTIONS_PER_S = (10.0, 1000.0)
OTHERS_LOAD_PER_CPU = (0.5, 1.0)
_STEAL_STEP_MS = 10.0  # /proc/stat counts in these; a single step is no finding


@dataclass(frozen=True)
class TimingInputs:
    """What is known of a run. Agents: those of the data path, the worst of them counts. None: not known."""

    duration_s: float
    cpus_wanted: int
    cpus_available: int | None
    steal_ms: float | None = None  # over all CPUs of the run
    throttled_ms: float | None = None
    quota_cpus: float | None = None  # None: no quota
    wait_share: float | None = None  # wait_ns / duration, worst agent
    involuntary_per_s: float | None = None  # worst agent
    longest_cycle_us: float | None = None
    lock_preemptions: int | None = None  # CPU_STATS.lock_yielded, all agents
    others_load: float | None = None  # load average before the run


def timing_verdict(inputs: TimingInputs) -> tuple[Verdict, list[str]]:
    """The verdict, and a line for each reason, worst first. ``good`` has none, except for what is not known."""
    findings = sorted(_findings(inputs), key=lambda finding: -_ORDER.index(finding[0]))
    verdict = findings[0][0] if findings else "good"
    return verdict, [text for _, text in findings] + _not_known(inputs)


def _findings(inputs: TimingInputs) -> list[tuple[Verdict, str]]:
    seconds = max(inputs.duration_s, 1e-9)
    cpus = max(1, inputs.cpus_available or inputs.cpus_wanted)
    found: list[tuple[Verdict, str]] = []

    def judge(value: float | None, limits: tuple[float, float], text: str) -> None:
        if value is not None and value > limits[0]:
            found.append(("poor" if value > limits[1] else "fair", text))

    if inputs.cpus_available is not None and inputs.cpus_available < inputs.cpus_wanted:
        found.append(("poor", f"{inputs.cpus_wanted} CPUs wanted, {inputs.cpus_available} available"))
    if inputs.quota_cpus is not None and inputs.quota_cpus < inputs.cpus_wanted:
        found.append(("poor", f"cgroup quota of {inputs.quota_cpus:g} CPUs, {inputs.cpus_wanted} wanted"))
    if inputs.steal_ms is not None and inputs.steal_ms > _STEAL_STEP_MS:
        share = inputs.steal_ms / (seconds * 1000 * min(cpus, max(1, inputs.cpus_wanted)))
        judge(share, STEAL_SHARE, f"{inputs.steal_ms:.0f} ms stolen by the hypervisor ({share:.1%})")
    if inputs.throttled_ms is not None:
        share = inputs.throttled_ms / (seconds * 1000)
        judge(share, THROTTLED_SHARE, f"throttled by the cgroup quota for {inputs.throttled_ms:.0f} ms")
    if inputs.wait_share is not None:
        judge(inputs.wait_share, WAIT_SHARE, f"an agent waited for its CPU {inputs.wait_share:.1%} of the time")
    if inputs.involuntary_per_s is not None:
        text = f"an agent was switched out {inputs.involuntary_per_s:.0f} times a second"
        judge(inputs.involuntary_per_s, INVOLUNTARY_PER_S, text)
    if inputs.longest_cycle_us is not None:
        text = f"the longest duty cycle took {inputs.longest_cycle_us / 1000:.1f} ms"
        judge(inputs.longest_cycle_us, LONGEST_CYCLE_US, text)
    if inputs.lock_preemptions is not None:
        rate = inputs.lock_preemptions / seconds
        judge(rate, LOCK_PREEMPTIONS_PER_S, f"lock holders were preempted {inputs.lock_preemptions} times")
    if inputs.others_load is not None:
        text = f"other programs kept {inputs.others_load:.1f} of {cpus} CPUs busy before the run"
        judge(inputs.others_load / cpus, OTHERS_LOAD_PER_CPU, text)
    return found


def _not_known(inputs: TimingInputs) -> list[str]:
    items = {
        "CPUs available": inputs.cpus_available,
        "stolen time": inputs.steal_ms,
        "waiting time": inputs.wait_share,
        "involuntary switches": inputs.involuntary_per_s,
        "longest duty cycle": inputs.longest_cycle_us,
    }
    missing = [name for name, value in items.items() if value is None]
    return [f"not known, so not judged: {', '.join(missing)}"] if missing else []
