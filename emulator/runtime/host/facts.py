"""What this machine is. Whatever cannot be read is None: missing is missing, never 0."""

import os
import platform
from dataclasses import dataclass
from pathlib import Path

from emulator.runtime.host.cgroup import CpuQuota, read_cpu_quota
from emulator.runtime.host.procfs import PROC, read_text

SYS = Path("/sys")
SHM = Path("/dev/shm")


@dataclass(frozen=True)
class HostFacts:
    """Facts that stand in every result. CPU numbers are those that this process may use."""

    cpus: list[int] | None
    cpus_online: int | None
    cpu_model: str | None
    governor: str | None  # several are joined with +
    smt_siblings: list[list[int]] | None  # groups of CPUs that share a core; [] = none do
    clocksource: str | None
    tsc_unusable: str | None  # why the cycle counter is not used; None = it is
    hypervisor: bool | None
    steal_ticks: int | None  # since boot, all CPUs
    cpu_quota: CpuQuota | None
    load_1min: float | None
    kernel: str
    memory_total_bytes: int | None
    memory_available_bytes: int | None
    shm_total_bytes: int | None
    shm_free_bytes: int | None


def read_host() -> HostFacts:
    """Read everything. Takes a few milliseconds."""
    cpus, disk = read_affinity(), _statvfs(SHM)
    return HostFacts(
        cpus=cpus,
        cpus_online=os.cpu_count(),
        cpu_model=_cpuinfo("model name") or _cpuinfo("CPU part"),
        governor=_governor(cpus or []),
        smt_siblings=_smt_siblings(cpus),
        clocksource=read_text(SYS / "devices/system/clocksource/clocksource0/current_clocksource"),
        tsc_unusable=tsc_unusable_reason(),
        hypervisor=_hypervisor(),
        steal_ticks=_sum_or_none(read_steal_ticks()),
        cpu_quota=read_cpu_quota(),
        load_1min=_load(),
        kernel=platform.release(),
        memory_total_bytes=_meminfo("MemTotal"),
        memory_available_bytes=_meminfo("MemAvailable"),
        shm_total_bytes=disk.f_blocks * disk.f_frsize if disk else None,
        shm_free_bytes=disk.f_bavail * disk.f_frsize if disk else None,
    )


def read_affinity() -> list[int] | None:
    """The CPUs that this process may use."""
    try:
        return sorted(os.sched_getaffinity(0))
    except OSError:
        return None


def read_steal_ticks() -> dict[int, int] | None:
    """Clock ticks that the hypervisor took from each CPU since boot; None where the kernel does not say."""
    text = read_text(PROC / "stat")
    if text is None:
        return None
    steal = {}
    for line in text.splitlines():
        name, *values = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and len(values) >= 8:
            steal[int(name[3:])] = int(values[7])
    return steal or None


def tsc_unusable_reason() -> str | None:
    """Why the cycle counter cannot be the segment's clock; None if it can."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return f"no trusted cycle counter on {platform.machine()}"
    flags = (_cpuinfo("flags") or "").split()
    missing = [flag for flag in ("constant_tsc", "nonstop_tsc") if flag not in flags]
    if missing:
        return f"the CPU does not report {' and '.join(missing)}"
    source = read_text(SYS / "devices/system/clocksource/clocksource0/current_clocksource")
    if source != "tsc":
        return f"the kernel's own clocksource is {source or 'unknown'}, not tsc"
    return None


def _cpuinfo(key: str) -> str | None:
    for line in (read_text(PROC / "cpuinfo") or "").splitlines():
        name, colon, value = line.partition(":")
        if colon and name.strip() == key:
            return value.strip()
    return None


def _governor(cpus: list[int]) -> str | None:
    found = {read_text(SYS / f"devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor") for cpu in cpus}
    return "+".join(sorted(filter(None, found))) or None


def _smt_siblings(cpus: list[int] | None) -> list[list[int]] | None:
    if cpus is None:
        return None
    cores: dict[str, list[int]] = {}
    for cpu in cpus:
        siblings = read_text(SYS / f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        if siblings is None:
            return None
        cores.setdefault(siblings, []).append(cpu)
    return [group for group in cores.values() if len(group) > 1]


def _hypervisor() -> bool | None:
    flags = _cpuinfo("flags")
    return None if flags is None else "hypervisor" in flags.split()


def _load() -> float | None:
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None


def _meminfo(key: str) -> int | None:
    for line in (read_text(PROC / "meminfo") or "").splitlines():
        name, _, value = line.partition(":")
        number = value.split()
        if name == key and number and number[0].isdigit():
            return int(number[0]) * 1024
    return None


def _statvfs(place: Path) -> os.statvfs_result | None:
    try:
        return os.statvfs(place) if place.is_dir() else None
    except OSError:
        return None


def _sum_or_none(ticks: dict[int, int] | None) -> int | None:
    return None if ticks is None else sum(ticks.values())
