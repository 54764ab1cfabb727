"""Host facts: read where they are, None where they are not, and the verdict that follows from them."""

import dataclasses
import os
import subprocess
import sys
import threading

import pytest

from emulator.runtime.host import (
    StealMeter,
    TaskTimes,
    TimingInputs,
    cgroup,
    facts,
    is_running,
    meters,
    process_start_time,
    procfs,
    read_host,
    read_stat,
    task_times,
    timing_verdict,
    tsc_unusable_reason,
)
from emulator.runtime.host.cgroup import CpuQuota, read_cpu_quota, read_throttled_us


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine of files: nothing is there until it is written."""
    for module in (facts, procfs, cgroup, meters):
        monkeypatch.setattr(module, "PROC", tmp_path / "proc")
    monkeypatch.setattr(facts, "SYS", tmp_path / "sys")
    monkeypatch.setattr(facts, "SHM", tmp_path / "shm")
    monkeypatch.setattr(cgroup, "CGROUP_ROOT", tmp_path / "sys/fs/cgroup")

    def write(**files: str) -> None:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return lambda files: write(**files)


# -- processes


def test_a_name_full_of_parentheses_and_blanks_confuses_nobody(machine):
    machine({"proc/7/stat": "7 (a) R 1 (x) T 6 " + " ".join(map(str, range(5, 50))) + "\n"})
    assert read_stat(7) == procfs.ProcStat(state="T", parent_pid=6, start_ticks=22)


@pytest.mark.parametrize("text", ["", "7 (x", "7 (x) R", "7 (x) R a b c", "\udcff".encode("utf-8", "surrogateescape")])
def test_a_process_that_cannot_be_read_is_none(machine, tmp_path, text):
    machine({"proc/7/stat": ""})
    (tmp_path / "proc/7/stat").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert read_stat(7) is None
    assert not is_running(7, 0)


def test_this_process_runs_and_its_pid_at_another_time_does_not():
    started = process_start_time(os.getpid())
    assert is_running(os.getpid(), started)
    assert not is_running(os.getpid(), started + 1)
    assert read_stat(os.getpid()).parent_pid == os.getppid()


# -- facts


def test_a_machine_that_says_nothing_gives_none_and_never_zero(machine, monkeypatch):
    def refuse(*_):
        raise OSError

    monkeypatch.setattr(facts.os, "sched_getaffinity", refuse)
    monkeypatch.setattr(facts.os, "getloadavg", refuse)
    monkeypatch.setattr(facts.os, "cpu_count", lambda: None)
    monkeypatch.setattr(facts.platform, "machine", lambda: "x86_64")
    read = dataclasses.asdict(read_host())
    assert read.pop("kernel") == os.uname().release
    assert read.pop("tsc_unusable") == "the CPU does not report constant_tsc and nonstop_tsc"
    assert read == dict.fromkeys(read)


def test_a_machine_that_says_everything(machine, monkeypatch, tmp_path):
    monkeypatch.setattr(facts.os, "sched_getaffinity", lambda _: {3, 1, 2})
    monkeypatch.setattr(facts.platform, "machine", lambda: "x86_64")
    (tmp_path / "shm").mkdir()
    cpu = "sys/devices/system/cpu/cpu"
    machine(
        {
            "proc/cpuinfo": "model name\t: Ryzen\nflags\t\t: fpu constant_tsc nonstop_tsc\nmodel name : other\n",
            "proc/stat": "cpu  1 2 3 4 5 6 7 99 9 9\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu1 0 0 0 0 0 0 0 5 0 0\nintr 1 2\n",
            "proc/meminfo": "MemTotal:       1000 kB\nMemAvailable:    500 kB\n",
            "proc/self/cgroup": "0::/\n",
            "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
            **{f"{cpu}{one}/cpufreq/scaling_governor": name for one, name in ((1, "schedutil"), (2, "performance"))},
            **{f"{cpu}{one}/topology/thread_siblings_list": pair for one, pair in ((1, "1,9"), (2, "2-3"), (3, "2-3"))},
        }
    )
    read = read_host()
    assert read.cpus == [1, 2, 3]
    assert (read.cpu_model, read.governor) == ("Ryzen", "performance+schedutil")
    assert read.smt_siblings == [[2, 3]]
    assert (read.clocksource, read.tsc_unusable, read.hypervisor) == ("tsc", None, False)
    assert read.steal_ticks == 13
    assert (read.memory_total_bytes, read.memory_available_bytes) == (1_024_000, 512_000)
    assert read.shm_free_bytes > 0


@pytest.mark.parametrize(
    ("platform", "flags", "source", "reason"),
    [
        ("x86_64", "constant_tsc nonstop_tsc", "tsc", None),
        ("x86_64", "constant_tsc nonstop_tsc", "kvm-clock", "the kernel's own clocksource is kvm-clock, not tsc"),
        ("x86_64", "constant_tsc nonstop_tsc", "", "the kernel's own clocksource is unknown, not tsc"),
        ("x86_64", "constant_tsc", "tsc", "the CPU does not report nonstop_tsc"),
        ("aarch64", "", "arch_sys_counter", "no trusted cycle counter on aarch64"),
    ],
)
def test_the_cycle_counter_is_used_only_where_the_kernel_trusts_it(
    machine, monkeypatch, platform, flags, source, reason
):
    monkeypatch.setattr(facts.platform, "machine", lambda: platform)
    machine(
        {
            "proc/cpuinfo": f"flags : {flags}\n",
            "sys/devices/system/clocksource/clocksource0/current_clocksource": source,
        }
    )
    assert tsc_unusable_reason() == reason


# -- control groups

V1 = {"proc/self/cgroup": "9:name=systemd:/\n3:cpu,cpuacct:/a/b\n0::/\n"}
V2 = {"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/cgroup.controllers": "cpu memory\n"}


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"proc/self/cgroup": "nonsense\n::\n"}, None),
        ({**V2, "sys/fs/cgroup/a/b/cpu.max": "max 100000\n"}, CpuQuota(None)),
        ({**V2, "sys/fs/cgroup/a/b/cpu.max": "150000 100000\n"}, CpuQuota(1.5)),
        ({**V2, "sys/fs/cgroup/a/b/cpu.max": "max 1\n", "sys/fs/cgroup/a/cpu.max": "50000 100000"}, CpuQuota(0.5)),
        ({**V2, "sys/fs/cgroup/a/b/cpu.max": "300000 100000", "sys/fs/cgroup/a/cpu.max": "2 1"}, CpuQuota(2.0)),
        ({**V2, "sys/fs/cgroup/a/b/cpu.max": "garbage\n"}, CpuQuota(None)),
        ({**V2, "sys/fs/cgroup/cpu.max": "2 1\n"}, CpuQuota(2.0)),  # a namespace hides /a/b
        (
            {
                **V1,
                "sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us": "100000",
                "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us": "250000",
                "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us": "100000",
            },
            CpuQuota(2.5),
        ),
        ({**V1, "sys/fs/cgroup/cpu/x": ""}, CpuQuota(None)),
    ],
)
def test_the_tightest_quota_up_to_the_root_counts(machine, files, quota):
    machine(files)
    assert read_cpu_quota() == quota


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [("nr_periods 1\nthrottled_usec 77\n", 77), ("throttled_time 5000\n", 5), ("", None), ("throttled_usec x\n", None)],
)
def test_throttled_time(machine, text, microseconds):
    machine({**V2, "sys/fs/cgroup/a/b/cpu.stat": text})
    assert read_throttled_us() == microseconds


# -- meters


def test_stolen_time_between_start_and_stop(machine):
    def stat(*steal: int) -> dict[str, str]:
        return {"proc/stat": "".join(f"cpu{cpu} 0 0 0 0 0 0 0 {ticks} 0 0\n" for cpu, ticks in enumerate(steal))}

    machine({**stat(5, 7), **V2, "sys/fs/cgroup/a/b/cpu.stat": "throttled_usec 1000\n"})
    meter = StealMeter()
    meter.start()
    machine({**stat(5, 10, 3), "sys/fs/cgroup/a/b/cpu.stat": "throttled_usec 3500\n"})
    assert meter.stop() == {0: 0.0, 1: 3000 / os.sysconf("SC_CLK_TCK")}
    assert meter.throttled_ms == 2.5


def test_stolen_time_that_is_not_told_is_none(machine):
    meter = StealMeter()
    meter.start()
    assert (meter.stop(), meter.throttled_ms) == (None, None)
    machine({"proc/stat": "cpu0 1 2 3\n"})  # an old kernel without the column
    meter.start()
    assert meter.stop() is None


def test_the_account_of_a_task(machine):
    status = "Name:\tx\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t3\n"
    machine({"proc/7/task/7/schedstat": "100 20 3\n", "proc/7/task/7/status": status})
    assert task_times(7) == TaskTimes(cpu_ns=100, wait_ns=20, voluntary=5, involuntary=3)
    assert task_times(7, 8) == TaskTimes(None, None, None, None)
    assert task_times(7).since(TaskTimes(40, None, 1, 3)) == TaskTimes(60, None, 4, 0)


def test_the_account_of_this_thread_and_of_one_that_waits():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    mine, others = task_times(os.getpid(), threading.get_native_id()), task_times(child.pid)
    assert mine.voluntary is not None
    assert others.involuntary is not None
    child.communicate()
    assert task_times(child.pid) == TaskTimes(None, None, None, None)


# -- the verdict

CALM = TimingInputs(
    duration_s=10.0,
    cpus_wanted=2,
    cpus_available=4,
    steal_ms=0.0,
    throttled_ms=0.0,
    quota_cpus=None,
    wait_share=0.001,
    involuntary_per_s=3.0,
    longest_cycle_us=1200.0,
    lock_preemptions=0,
    others_load=0.1,
)


def test_a_calm_run_is_good_and_needs_no_reason():
    assert timing_verdict(CALM) == ("good", [])


@pytest.mark.parametrize(
    ("change", "verdict", "says"),
    [
        ({"cpus_available": 1}, "poor", "2 CPUs wanted, 1 available"),
        ({"quota_cpus": 1.5}, "poor", "cgroup quota of 1.5 CPUs, 2 wanted"),
        ({"quota_cpus": 2.0}, "good", ""),
        ({"steal_ms": 10.0, "duration_s": 0.5}, "good", ""),  # one step of the counter
        ({"steal_ms": 120.0}, "fair", "120 ms stolen by the hypervisor (0.6%)"),
        ({"steal_ms": 900.0}, "poor", "900 ms stolen"),
        ({"throttled_ms": 1.0}, "fair", "throttled by the cgroup quota for 1 ms"),
        ({"throttled_ms": 101.0}, "poor", "throttled"),
        ({"wait_share": 0.02}, "fair", "waited for its CPU 2.0% of the time"),
        ({"wait_share": 0.5}, "poor", "waited for its CPU 50.0%"),
        ({"involuntary_per_s": 101.0}, "fair", "switched out 101 times a second"),
        ({"involuntary_per_s": 1001.0}, "poor", "switched out"),
        ({"longest_cycle_us": 5001.0}, "fair", "the longest duty cycle took 5.0 ms"),
        ({"longest_cycle_us": 50001.0}, "poor", "the longest duty cycle"),
        ({"lock_preemptions": 101}, "fair", "lock holders were preempted 101 times"),
        ({"lock_preemptions": 10_001}, "poor", "lock holders"),
        ({"others_load": 2.1}, "fair", "other programs kept 2.1 of 4 CPUs busy"),
        ({"others_load": 4.1}, "poor", "other programs"),
        ({"duration_s": 0.0}, "good", ""),
    ],
)
def test_each_item_decides(change, verdict, says):
    found, reasons = timing_verdict(dataclasses.replace(CALM, **change))
    assert found == verdict
    assert len(reasons) == (verdict != "good")
    assert says in "".join(reasons)


def test_the_worst_item_comes_first():
    verdict, reasons = timing_verdict(dataclasses.replace(CALM, involuntary_per_s=200, wait_share=0.9, steal_ms=100.5))
    assert verdict == "poor"
    assert [reason.split()[1] for reason in reasons] == ["agent", "ms", "agent"]
    assert "waited" in reasons[0]


def test_what_is_not_known_is_not_judged_and_said_so():
    verdict, reasons = timing_verdict(TimingInputs(duration_s=1.0, cpus_wanted=2, cpus_available=None))
    assert verdict == "good"
    assert reasons == [
        "not known, so not judged: CPUs available, stolen time, waiting time, involuntary switches, longest duty cycle"
    ]
