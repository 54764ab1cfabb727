"""What a sweep was measured under, in one line: the clock, the host profile, the window, the seed.

    published-sweep: virtual clock, host profile ryzen-5600x, 10s after 2s of warmup, seed 1

What the sweep sets itself (a swept `host` or `duration`), or a variant of `compare:`, is not one for all cells and left
out here.
"""

from collections.abc import Iterator, Mapping
from typing import Any


def setting_text(scenario: Mapping[str, Any], cells: str = "") -> str:
    """The line, without a newline, of an effective scenario as `sweep.json` keeps it.

    cells: what is said of the number of cells, before the rest.
    """
    return f"{scenario['name']}: {', '.join([*([cells] if cells else []), *_parts(scenario)])}"


def host_name(scenario: Mapping[str, Any]) -> str | None:
    """What the host profile is called; None where there is none."""
    host = scenario.get("host")
    return str(host["name"] or "without a name") if isinstance(host, Mapping) else None


def _parts(scenario: Mapping[str, Any]) -> Iterator[str]:
    yield f"{scenario['clock']} clock"
    if not _differs(scenario, "host"):
        name = host_name(scenario)
        yield "no host profile" if name is None else f"host profile {name}"
    if not _differs(scenario, "duration") and not _differs(scenario, "warmup"):
        yield f"{scenario['duration']} after {scenario['warmup']} of warmup"
    yield f"seed {scenario['seed']}"


def _differs(scenario: Mapping[str, Any], key: str) -> bool:
    """Whether cells have values of their own of this key, or of something in it."""
    swept = (scenario.get("sweep") or {}).get("fields") or {}
    return any(name.split(".")[0] == key for name in swept) or any(key in v for v in scenario.get("compare") or ())
