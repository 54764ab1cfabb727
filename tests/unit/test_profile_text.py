"""Host profiles as text: a comment for every key, and the same profile again when it is read."""

from itertools import pairwise
from pathlib import Path

import pytest

from emulator.errors import UsageError
from emulator.scenario import HostProfile, load_profile
from emulator.scenario.profile_text import profile_text
from emulator.scenario.shipped import PROFILES, profile_path


def box(**fields: object) -> HostProfile:
    return HostProfile.model_validate({"name": "box", "stack_rx": "400.5ns", **fields})


@pytest.mark.parametrize("rules", ["7.7ns", {"0": "0ns", "100": "790ns", "20000": "153us"}])
def test_reads_back_as_the_same_profile(tmp_path: Path, rules: object) -> None:
    profile = box(netfilter_rule=rules, description="a: b # c", name="12")
    path = tmp_path / "p.yaml"
    path.write_text(profile_text(profile, ["where from: a.csv", ""]))
    assert load_profile(path) == profile
    assert path.read_text().startswith("# where from: a.csv\n#\n")


def test_every_key_has_a_comment_of_its_own() -> None:
    lines = profile_text(box()).splitlines()
    keys = [line.partition(":")[0] for line in lines if line and not line.startswith("#")]
    comments = [HostProfile.model_fields[key].description for key in keys]
    assert keys == list(HostProfile.model_fields)
    assert all(comments)
    assert len(set(comments)) == len(comments)
    for before, line in pairwise(lines):
        assert line.startswith("#") or not line or before.startswith("# "), line


def test_a_comment_from_the_writer_stays_within_120_columns_and_on_its_lines() -> None:
    text = profile_text(box(), comments={"stack_rx": "long " * 100 + "\nname: evil"})
    assert max(map(len, text.splitlines())) <= 120
    assert [line for line in text.splitlines() if line.startswith("name:")] == ["name: box"]


def test_a_profile_is_named_by_its_path_or_as_it_is_shipped(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("stack_rx: 1ns\n")
    assert profile_path(str(own)) == own
    assert profile_path("ryzen-5600x") == PROFILES / "ryzen-5600x.yaml"
    for wrong in ("rizen", "x" * 5000):
        with pytest.raises(UsageError, match=r"give the path of one, or a shipped one: .*ryzen-5600x"):
            profile_path(wrong)
