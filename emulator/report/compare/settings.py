"""How a result was made, as its manifest says: in one line, and the settings in which two results differ.

Results of earlier versions may lack any of it; what is not known is not said.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from emulator.report.cells import IN_COLUMNS, Cell, Sweep
from emulator.report.figures import plural
from emulator.report.runs import Run, RunVariant
from emulator.scenario.text import shorten

_NO_SETTINGS = ("name", "description", "run_dir", "expect", "timing", "sweep")
"""what of a scenario decides no figure, or is said elsewhere"""
_SHOWN, _LONGEST_VALUE = 6, 30
SOURCES = "emulator sources"

Plain = Mapping[str, Any]


@dataclass(frozen=True)
class Settings:
    """What a reader must know of a result before its figures."""

    parts: tuple[str, ...] = ()
    """`published-sweep`, `virtual clock`, `host ryzen-5600x`"""
    duration: str = ""
    """`10s`"""
    repetitions: str = ""
    """`3 repetitions`; of a run empty"""
    timing: Mapping[str, int] = field(default_factory=dict)
    """how often each timing verdict was given"""

    @property
    def line(self) -> str:
        """`published-sweep, virtual clock, host ryzen-5600x, 10s x 3 repetitions`; empty when nothing is known."""
        if not self.said:
            return ""
        separator = " x " if self.duration else ", "
        return ", ".join(self.said) + (f"{separator}{self.repetitions}" if self.repetitions else "")

    @property
    def said(self) -> tuple[str, ...]:
        """All but the repetitions, in words."""
        return (*self.parts, *([self.duration] if self.duration else []))

    @property
    def trouble(self) -> str:
        """`timing poor in 3 of 48, fair in 10`; empty when it was good, or is not known."""
        bad = [f"{verdict} in {n}" for verdict in ("poor", "fair") if (n := self.timing.get(verdict, 0))]
        if not bad:
            return ""
        return ", ".join([f"timing {bad[0]} of {sum(self.timing.values())}", *bad[1:]])


UNKNOWN = Settings()


def settings_of_sweep(sweep: Sweep, cells: Sequence[Cell]) -> Settings:
    """Of these cells of a sweep."""
    records = [record for cell in cells for record in cell.ok]
    verdicts = [((record.get("run") or {}).get("timing") or {}).get("verdict") for record in records]
    clocks = {str(r["summary"]["clock"]) for r in records if (r.get("summary") or {}).get("clock")}
    counts = sorted({len(cell.ok) for cell in cells}) or [0]
    times = f"{counts[0]}..{counts[-1]} repetitions" if counts[0] != counts[-1] else plural(counts[0], "repetition")
    scenario = sweep.manifest.get("scenario") or {}
    return Settings(
        _parts(scenario, clocks), str(scenario.get("duration") or ""), times, Counter(v for v in verdicts if v)
    )


def settings_of_run(run: Run) -> Settings:
    """Of a run."""
    clocks = {str(variant.summary["clock"]) for variant in run.variants}
    verdicts = [(variant.summary.get("timing") or {}).get("verdict") for variant in run.variants]
    scenario = run.manifest.get("scenario") or {}
    return Settings(
        _parts(scenario, clocks), str(scenario.get("duration") or ""), "", Counter(v for v in verdicts if v)
    )


def _parts(scenario: Plain, clocks: Iterable[str]) -> tuple[str, ...]:
    there = sorted(clocks) or [clock for clock in [scenario.get("clock")] if clock]
    host = f"host {_host(scenario['host'])}" if "host" in scenario else ""
    clock = f"{' and '.join(there)} clock" if there else ""
    return tuple(part for part in (scenario.get("name") or "", clock, host) if part)


def _host(host: Plain | None) -> str:
    return "none" if host is None else str(host.get("name") or "without a name")


def fields_of_sweep(sweep: Sweep) -> dict[str, str]:
    """What holds in all cells of a sweep, by its name in the scenario; what is told by a cell's columns is left out."""
    scenario = sweep.manifest.get("scenario") or {}
    swept = (scenario.get("sweep") or {}).get("fields") or {}
    fields = {name: text for name, text in flat(scenario).items() if name not in swept and name not in IN_COLUMNS}
    sources = sweep.manifest.get("sources")
    return fields | ({SOURCES: str(sources)} if sources else {})


def fields_of_variant(run: Run, variant: RunVariant) -> dict[str, str]:
    """The settings of one variant of a run, its own over those of the scenario."""
    scenario = dict(run.manifest.get("scenario") or {})
    overlays = {str(one.get("name")): one for one in scenario.pop("compare", None) or []}
    return flat(_merged(scenario, overlays.get(variant.name, {})))


def flat(scenario: Plain) -> dict[str, str]:
    """`{"device.mtu": "1500", "host": "ryzen-5600x", "host.stack_rx": "430ns", ...}`."""
    settings = {key: value for key, value in scenario.items() if key not in _NO_SETTINGS and key != "host"}
    found = dict(_flattened(settings, ""))
    if "host" in scenario:
        costs = {key: value for key, value in (scenario["host"] or {}).items() if key not in _NO_SETTINGS}
        found |= {"host": _host(scenario["host"]), **dict(_flattened(costs, "host."))}
    return found


def _flattened(value: Plain, prefix: str) -> Iterator[tuple[str, str]]:
    for key, item in value.items():
        if isinstance(item, Mapping):
            yield from _flattened(item, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", item if isinstance(item, str) else json.dumps(item)


def _merged(base: Plain, over: Plain) -> dict[str, Any]:
    """Mappings key by key; but one of another `kind` replaces the other whole."""
    merged = {**base, **over}
    for key, value in over.items():
        below = base.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping) and value.get("kind") in (None, below.get("kind")):
            merged[key] = _merged(below, value)
    return merged


def differing(a: Mapping[str, str], b: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """The fields that both have and in which they differ, in the order of A; of other hosts their names alone."""
    found = {name: (a[name], b[name]) for name in a if name in b and a[name] != b[name]}
    if "host" in found:
        found = {name: values for name, values in found.items() if not name.startswith("host.")}
    return found


def differing_text(fields: Mapping[str, Sequence[tuple[str, str]]]) -> str:
    """`duration 10s/5s, host.stack_rx 430ns/500ns and 3 more`."""
    said = [f"{name} {' and '.join(f'{_short(a)}/{_short(b)}' for a, b in pairs)}" for name, pairs in fields.items()]
    more = f" and {len(said) - _SHOWN} more" if len(said) > _SHOWN else ""
    return ", ".join(said[:_SHOWN]) + more


def _short(text: str) -> str:
    return shorten(text, _LONGEST_VALUE)
