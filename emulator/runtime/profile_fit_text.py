"""What a fitted profile says of itself: from what it was made, how well it reproduces that, what stands for what."""

from __future__ import annotations

from emulator.runtime.profile_fit import WAITING, Fit, work_costs
from emulator.scenario import HostProfile
from emulator.scenario.profile_text import profile_text
from emulator.scenario.units import format_cost


def fit_text(fit: Fit, base: HostProfile, source: str) -> str:
    """The profile as a YAML file with its comments. ``source``: the name of the table."""
    return profile_text(fit.profile, _header(fit, base, source), _comments(fit, base))


def fit_table(fit: Fit) -> list[str]:
    """Row by row what was given and what the profile gives."""
    lines = [f"{'nrules':>8} {'pps':>12} {'simulated':>12} {'error':>8}"]
    for fitted in fit.rows:
        row = fitted.row
        lines.append(f"{row.nrules:>8} {row.pps:>12.0f} {fitted.simulated_pps:>12.0f} {fitted.error * 100:>+7.2f}%")
    return lines


def _header(fit: Fit, base: HostProfile, source: str) -> list[str]:
    return [
        f"Made by `emulator profile fit` from {source}: the throughput of stock veth with so many rules, in packets a",
        f"second, and nothing else. What throughput does not tell is taken from the profile {base.name}.",
        "The virtual clock's stock run (fq_codel, one ping each 20 ms) with this profile gives:",
        "",
        *(f"  {line}" for line in fit_table(fit)),
    ]


def _comments(fit: Fit, base: HostProfile) -> dict[str, str]:
    comments = {name: _scaled(fit, base, name) for name in work_costs()}
    for name in WAITING:
        if name in HostProfile.model_fields:
            comments[name] = f"{_described(name)}. As {base.name}: throughput does not tell"
    comments["netfilter_rule"] = f"{_described('netfilter_rule')}. {_rules(fit, base)}"
    return comments


def _scaled(fit: Fit, base: HostProfile, name: str) -> str:
    theirs = format_cost(getattr(base, name))
    if fit.speed == 1.0:
        return f"{_described(name)}. As {base.name}"
    return f"{_described(name)}. {base.name}: {theirs}, times {fit.speed:.3f}"


def _rules(fit: Fit, base: HostProfile) -> str:
    given = [fitted.row.nrules for fitted in fit.rows]
    if given == [0]:
        return f"The column has no row with rules: those of {base.name}, times {fit.speed:.3f}"
    if fit.zero_given:
        return "Each point reproduces its row; beyond the last the slope goes on"
    zero = "on the line through the two lowest rows, not below 0" if len(given) > 1 else f"that of {base.name}"
    return f"Each point reproduces its row; beyond the last the slope goes on. The point for 0 is {zero}"


def _described(name: str) -> str:
    return (HostProfile.model_fields[name].description or name).rstrip(".")
