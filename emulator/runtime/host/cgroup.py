"""How much CPU time the control groups of this process allow, v1 and v2."""

from dataclasses import dataclass
from pathlib import Path

from emulator.runtime.host.procfs import PROC, read_int, read_text

CGROUP_ROOT = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class CpuQuota:
    """The tightest limit up to the root. ``cpus`` None: there is none."""

    cpus: float | None


def read_cpu_quota() -> CpuQuota | None:
    """The limit in CPUs; None if no control group of this process can be read."""
    limits: list[float] = []
    seen = False
    for directory, top in _cpu_groups():
        for group in _up_to(directory, top):
            seen = True
            limit = _limit_v2(group) or _limit_v1(group)
            if limit is not None:
                limits.append(limit)
    return CpuQuota(min(limits, default=None)) if seen else None


def read_throttled_us() -> int | None:
    """Microseconds for which this process's group was held back by its quota; None if it does not say."""
    for directory, _ in _cpu_groups():
        for line in (read_text(directory / "cpu.stat") or "").splitlines():
            name, _, value = line.partition(" ")
            if name == "throttled_usec" and value.isdigit():
                return int(value)
            if name == "throttled_time" and value.isdigit():
                return int(value) // 1000
    return None


def _cpu_groups() -> list[tuple[Path, Path]]:
    """Directories of the groups that can limit the CPU of this process, and the top of the tree that each is in."""
    groups = []
    for line in (read_text(PROC / "self/cgroup") or "").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers == "":
            tops = [CGROUP_ROOT, CGROUP_ROOT / "unified"]
            tops = [top for top in tops if (top / "cgroup.controllers").is_file()]
        elif "cpu" in controllers.split(","):
            tops = [top for top in (CGROUP_ROOT / controllers, CGROUP_ROOT / "cpu") if top.is_dir()]
        else:
            continue
        for top in tops[:1]:
            inside = top / path.lstrip("/")
            groups.append((inside if inside.is_dir() and ".." not in inside.parts else top, top))
    return groups


def _up_to(directory: Path, top: Path) -> list[Path]:
    return [directory, *(parent for parent in directory.parents if parent.is_relative_to(top))]


def _limit_v2(group: Path) -> float | None:
    quota, _, period = (read_text(group / "cpu.max") or "").partition(" ")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) > 0 else None


def _limit_v1(group: Path) -> float | None:
    quota, period = read_int(group / "cpu.cfs_quota_us"), read_int(group / "cpu.cfs_period_us")
    return quota / period if quota is not None and period and quota > 0 else None
