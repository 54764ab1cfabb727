"""Host profiles: what rules cost, and what is refused."""

from pathlib import Path

import pytest

from emulator.errors import ScenarioError
from emulator.scenario import load_profile
from emulator.scenario.profile import HostProfile


def table(**rules: str) -> HostProfile:
    return HostProfile.model_validate({"netfilter_rule": {key.removeprefix("n"): cost for key, cost in rules.items()}})


def test_one_cost_is_a_line_through_zero() -> None:
    profile = HostProfile.model_validate({"netfilter_rule": "7.7ns"})
    assert [profile.netfilter_cost_ns(n) for n in (0, 1, 2, 13000)] == [0, 8, 15, 100_100]


def test_a_table_is_interpolated_and_its_last_slope_goes_on() -> None:
    profile = table(n0="10ns", n100="110ns", n200="1110ns")
    assert [profile.netfilter_cost_ns(n) for n in (0, 50, 100, 150, 200, 300)] == [10, 60, 110, 610, 1110, 2110]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("netfilter_rule: 7.7", "1:17: netfilter_rule: 7.7 has no unit; write 7.7ns"),
        ("netfilter_rule: {}", "1:17: netfilter_rule: a table needs 0 and at least one more number of rules"),
        ("netfilter_rule: {0: 0ns}", "1:17: netfilter_rule: a table needs 0 and at least one more"),
        ("netfilter_rule: {1: 1ns, 2: 2ns}", "1:17: netfilter_rule: a table needs 0"),
        ("netfilter_rule: {0: 0ns, 10: 9ns, 20: 8ns}", "1:17: netfilter_rule: more rules cost less"),
        ("netfilter_rule: {0: 0ns, 010: 9ns, 10: 9ns}", "1:17: netfilter_rule: a number of rules stands twice"),
        ("netfilter_rule: {0: 0ns, x: 9ns}", "1:29: netfilter_rule.x: text 'x' is not a number of rules"),
        ("netfilter_rule: {0: 0ns, 5: 9}", "1:29: netfilter_rule.5: 9 has no unit"),
        ("netfilter_rule: {0: 0ns, 5: [9]}", "1:29: netfilter_rule.5: expected a cost, got a list"),
        ("netfilter_rule: [1]", "1:17: netfilter_rule: expected a cost, got a list"),
        ("stack_rx: 1", "1:11: stack_rx: 1 has no unit; write 1ns"),
        ("stak_rx: 1ns", "1:1: stak_rx: unknown key, did you mean 'stack_rx'?"),
        ("hz: 5000", "1:5: hz: 5000 is out of range; allowed: 24..1200"),
    ],
)
def test_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(text + "\n")
    with pytest.raises(ScenarioError) as error:
        load_profile(path)
    (line,) = error.value.problems
    assert line.startswith(f"{path}:{says}")


def test_all_costs_default_to_nothing_and_the_name_to_the_stem(tmp_path: Path) -> None:
    path = tmp_path / "box.yaml"
    path.write_text("description: x\n")
    profile = load_profile(path)
    assert (profile.name, profile.hz, profile.netfilter_cost_ns(9999)) == ("box", 1000, 0)
    assert {
        value for key, value in profile.to_plain().items() if key not in ("name", "description", "hz", "noise")
    } == {"0ns"}
    assert profile.noise == 0
