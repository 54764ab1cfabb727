"""`emulator doctor`: what this machine is, and what that does to results."""

import argparse
import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from emulator.runtime.host import HostFacts

Level = Literal["ok", "note", "bad", "stop"]  # bad: numbers suffer; stop: a default run cannot be done
_MARKS = {"ok": " ", "note": "-", "bad": "!", "stop": "X"}
_LIBRARIES = ("numba", "llvmlite", "numpy", "pyzmq", "msgpack", "multiprocess", "pydantic", "ruamel.yaml", "rich")
_CPUS_WANTED = 2
_MB = 1_000_000


@dataclass(frozen=True)
class Item:
    """One fact, and in one sentence what it means for results."""

    name: str
    value: str
    meaning: str
    level: Level = "ok"


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "doctor",
        help="say what this machine is good for",
        description="Say what this machine is and what that means for results. Exit code 0 if a default run can be "
        "done here, 4 if not.",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")


def run(args: argparse.Namespace) -> int:
    """Print the examination; 4 if a default run cannot be done here."""
    from emulator.errors import ExitCode
    from emulator.runtime.host import read_host

    facts = read_host()
    items = examine(facts)
    verdict, line = conclude(items)
    if args.json:
        print(json.dumps(_as_json(facts, items, verdict, line), indent=2))
    else:
        for item in items:
            print(f"{_MARKS[item.level]} {item.name:<16} {item.value}\n{'':<19}{item.meaning}")
        print(f"\n{line}")
    return ExitCode.CANNOT_RUN if verdict == "cannot run" else ExitCode.OK


def examine(facts: "HostFacts") -> list[Item]:
    """Every item, in the order of the output."""
    return [
        _cores(facts),
        _governor(facts),
        _smt(facts),
        _clocksource(facts),
        _hypervisor(facts),
        _quota(facts),
        _load(facts),
        *_memory(facts),
        _compiled(),
        _leftovers(),
        _versions(facts),
    ]


def conclude(items: list[Item]) -> tuple[str, str]:
    """The verdict and the line that says it."""
    stops = [item for item in items if item.level == "stop"]
    bad = [item for item in items if item.level == "bad"]
    if stops:
        return "cannot run", f"verdict: a default run cannot be done here: {'; '.join(item.meaning for item in stops)}"
    if bad:
        names = ", ".join(item.name for item in bad)
        return "with noise", f"verdict: a default run can be done here, but its timing will suffer from: {names}"
    return "good", "verdict: a default run can be done here"


def _cores(facts: "HostFacts") -> Item:
    if facts.cpus is None:
        return Item("cores", "unknown", "which CPUs may be used cannot be read, so nothing is pinned", "bad")
    model = f" ({facts.cpu_model})" if facts.cpu_model else ""
    value = f"{len(facts.cpus)} usable of {_shown(facts.cpus_online)}{model}"
    if not facts.cpus:
        return Item("cores", value, "there is no CPU to run on", "stop")
    if len(facts.cpus) == 1:
        return Item(
            "cores",
            value,
            "sender and NAPI thread take turns on one CPU: each hand-over waits for the scheduler, so round trips show "
            "time slices and not queues",
            "bad",
        )
    if len(facts.cpus) == _CPUS_WANTED:
        return Item(
            "cores", value, "sender and NAPI thread get one each; whatever else runs here disturbs them", "note"
        )
    return Item("cores", value, "sender and NAPI thread get one each, with room for everything else")


def _governor(facts: "HostFacts") -> Item:
    if facts.governor is None:
        return Item("governor", "unknown", "whether the clock rate of the CPUs changes cannot be read", "note")
    if facts.governor == "performance":
        return Item("governor", facts.governor, "the clock rate stays up")
    return Item("governor", facts.governor, "the clock rate follows the load: short runs begin slowly", "note")


def _smt(facts: "HostFacts") -> Item:
    if facts.smt_siblings is None:
        return Item("SMT", "unknown", "whether two CPUs share a core cannot be read", "note")
    if not facts.smt_siblings:
        return Item("SMT", "none", "no two usable CPUs share a core")
    pairs = " ".join("+".join(map(str, group)) for group in facts.smt_siblings)
    cores = len(facts.cpus or []) - sum(len(group) - 1 for group in facts.smt_siblings)
    meaning = "pin sender and NAPI thread to different cores, else they share one core's units and its first caches"
    return Item("SMT", f"CPUs that share a core: {pairs}", meaning, "note" if cores >= _CPUS_WANTED else "bad")


def _clocksource(facts: "HostFacts") -> Item:
    if facts.tsc_unusable is None:
        return Item("clocksource", _shown(facts.clocksource), "the cycle counter is the clock, at some 10 ns a reading")
    meaning = f"clock_gettime is the clock, which is slower: {facts.tsc_unusable}"
    return Item("clocksource", _shown(facts.clocksource), meaning, "note")


def _hypervisor(facts: "HostFacts") -> Item:
    value = "unknown" if facts.steal_ticks is None else f"{facts.steal_ticks} ticks since boot"
    if facts.hypervisor is False and facts.steal_ticks == 0:
        return Item("stolen time", value, "no hypervisor, nobody to steal time")
    if facts.steal_ticks is None:
        return Item("stolen time", value, "whether a hypervisor takes time away cannot be read", "note")
    meaning = "a virtual machine: the hypervisor may stop a CPU at any time, and each run says how much it took"
    return Item("stolen time", value, meaning, "note")


def _quota(facts: "HostFacts") -> Item:
    if facts.cpu_quota is None:
        return Item("cgroup quota", "unknown", "whether CPU time is limited cannot be read", "note")
    if facts.cpu_quota.cpus is None:
        return Item("cgroup quota", "none", "CPU time is not limited")
    if facts.cpu_quota.cpus < _CPUS_WANTED:
        meaning = "two busy agents use this up, and then everything stands still until the next period"
        return Item("cgroup quota", f"{facts.cpu_quota.cpus:g} CPUs", meaning, "bad")
    return Item("cgroup quota", f"{facts.cpu_quota.cpus:g} CPUs", "enough for two busy agents and the launcher", "note")


def _load(facts: "HostFacts") -> Item:
    if facts.load_1min is None:
        return Item("load", "unknown", "how busy the machine is cannot be read", "note")
    free = len(facts.cpus or []) - facts.load_1min
    value = f"{facts.load_1min:.2f} over the last minute"
    if free >= _CPUS_WANTED - 0.5:
        return Item("load", value, "the CPUs are free")
    return Item("load", value, "other programs want the CPUs too and will take their share of time slices", "bad")


def _memory(facts: "HostFacts") -> list[Item]:
    needed = _segment_bytes()
    needs = "" if needed is None else f"a run needs {-(-needed // _MB)} MB"
    free, available = facts.shm_free_bytes, facts.memory_available_bytes
    if free is None:
        room = Item("/dev/shm", "not there", "no shared memory for a run; set run_dir to a place on disk", "stop")
    elif needed is not None and free < needed:
        room = Item(
            "/dev/shm", f"{free // _MB} MB free", f"{needs}; free some, or set run_dir to another place", "stop"
        )
    else:
        room = Item("/dev/shm", f"{free // _MB} MB free", f"enough; {needs}" if needs else "room for a run")
    if available is None:
        return [room, Item("memory", "unknown", "how much memory is free cannot be read", "note")]
    if needed is not None and available < 2 * needed:
        return [room, Item("memory", f"{available // _MB} MB available", f"{needs} and as much again to work", "bad")]
    return [room, Item("memory", f"{available // _MB} MB available", "enough")]


def _segment_bytes() -> int | None:
    """Size of a run's segment; None where it cannot be told, which `_compiled` explains."""
    try:
        from emulator.runtime.layout import SEGMENT
    except Exception:
        return None
    return int(SEGMENT.itemsize)


def _compiled() -> Item:
    try:
        from emulator.kernel.cache import cache_dir

        directory = cache_dir()
        code = list(directory.rglob("*.nbc"))
        megabytes = sum(path.stat().st_size for path in code) / _MB
    except Exception as error:  # numba fails in many ways where it is not at home
        return Item("compiled code", "none", f"the compiler cannot be used: {type(error).__name__}: {error}", "stop")
    if code:
        value = f"{len(code)} functions, {megabytes:.1f} MB in {directory}"
        return Item("compiled code", value, "what is compiled already is not compiled again")
    return Item(
        "compiled code", f"none in {directory}", "the first run compiles, which takes one to two minutes", "note"
    )


def _leftovers() -> Item:
    from emulator.errors import CannotRun
    from emulator.runtime.rundir import known_bases, list_runs

    states: list[str] = []
    for base in known_bases():
        try:
            states += [one.state for one in list_runs(base)]
        except CannotRun as error:
            return Item("runs", "cannot be listed", str(error), "stop")
    dead, alive, unknown = (states.count(state) for state in ("dead", "alive", "unknown"))
    value = f"{alive} running, {dead} left behind" + (f", {unknown} not to be judged" if unknown else "")
    if alive:
        return Item("runs", value, "a run that goes on now takes CPUs from the next one", "bad")
    if dead or unknown:
        return Item("runs", value, "they hold memory; run: emulator clean", "note")
    return Item("runs", value, "nothing in the way")


def _versions(facts: "HostFacts") -> Item:
    import platform
    from importlib.metadata import PackageNotFoundError, version

    found, missing = [f"Python {platform.python_version()}"], []
    for name in _LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    value = f"{', '.join(found)}, Linux {facts.kernel}"
    if missing:
        return Item("versions", value, f"not installed: {', '.join(missing)}; run: pip install veth-emulator", "stop")
    return Item("versions", value, "they are written into each result")


def _as_json(facts: "HostFacts", items: list[Item], verdict: str, line: str) -> dict[str, Any]:
    return {
        "can_run": verdict != "cannot run",
        "verdict": verdict,
        "text": line,
        "items": [dataclasses.asdict(item) for item in items],
        "host": dataclasses.asdict(facts),
    }


def _shown(value: object) -> str:
    return "unknown" if value is None else str(value)
