"""`emulator sweep`: what it refuses before anything runs, each in one line; the plan of a dry run."""

import json
from pathlib import Path

import pytest

from emulator.cli import main
from emulator.report.sweep_directory import SweepDirectory
from emulator.runtime.sweep.plan import START_S, Plan
from emulator.scenario import load_scenario
from emulator.scenario.matrix import expand

TEXT = """
name: s
host: {stack_rx: 568ns, netfilter_rule: 7.7ns}
device: {bql: {variant: v7}}
ping: {interval: 1ms}
sweep: {fields: {netfilter.rules: [0, 10], device.bql.tx_usecs: [0us, 50us]}}
"""


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(TEXT)
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("--resume", "/nowhere", "--dry-run"),
            "/nowhere/sweep.json: cannot read: No such file or directory; give the",
        ),
        (("--workers", "0"), "--workers 0: at least one is needed"),
        (("--workers", "2"), "--workers 2: with clock: real a cell has the machine to itself; leave it away"),
        (("--retry-failed",), "--retry-failed goes with --resume DIR"),
        (("--resume", "a", "--out", "b"), "--resume DIR keeps its results in DIR; leave --out away"),
        (("--repetitions", "0"), "--set sweep.repetitions=0: sweep.repetitions: expected a whole number, got 0"),
        (("--seed", "x"), "--set seed=x: seed: expected a whole number, got text 'x'"),
        (("--set", "sweep.fields.netfilter.rulez=[1]"), "unknown key, did you mean 'rules'?"),
        (("--set", "sweep.fields.napi.cpu=[4095]"), "sweep.fields.napi.cpu[0]: CPU 4095 is not there"),
        (("--set", "expect.rtt.p99x=1"), "'rtt.p99x' is not in the summary"),
        (("--set", "netfilter.rules=5"), "netfilter.rules: is swept"),
        (
            ("--set", "sweep.fields.netfilter.rules=[1],device.bql.tx_usecs=[2us]"),
            "looks like several settings; write --set once for each",
        ),
        (("--dryrun",), "unknown argument '--dryrun', did you mean '--dry-run'?"),
    ],
)
def test_what_cannot_be_is_one_line(scenario, capsys, arguments, said):
    assert main(["sweep", scenario, *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert said in err


def test_validate_looks_at_every_cell(scenario, capsys):
    assert main(["validate", scenario]) == 0
    assert capsys.readouterr().out.endswith("  sweep: 4 cells\n")
    assert main(["validate", scenario, "--set", "sweep.fields.netfilter.rules=[x]"]) == 2
    assert "sweep.fields.netfilter.rules[0]: expected a whole number" in capsys.readouterr().err


def test_a_dry_run_prints_the_plan_in_the_order_in_which_it_runs(scenario, capsys):
    assert main(["sweep", scenario, "--dry-run", "--repetitions", "2"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "s: 8 cells, real clock, host profile without a name, 20s after 1s of warmup, seed 1\n" in out
    assert "  repetitions: 2, with seeds 1..2\n" in out
    assert "expected to take about 3 min 5 s (5 s of it to start; one cell at a time, " in out
    names = [line.split(maxsplit=1)[1] for line in out.partition("cells in the order")[2].splitlines()[1:]]
    assert main(["sweep", scenario, "--dry-run", "--repetitions", "2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [document["plan"][index]["cell"] for index in document["order"]] == names
    assert names != sorted(names)
    assert document["expected_s"] == 8 * 22.5 + START_S


@pytest.fixture
def kept(scenario, tmp_path):
    """The directory of a sweep that was interrupted before anything was measured."""
    loaded = load_scenario(scenario, ["duration=7s", "sweep.repetitions=2"])
    plan = Plan(loaded, expand(loaded), 1)
    SweepDirectory.create(tmp_path / "kept", plan.identity())
    return str(tmp_path / "kept")


def test_a_sweep_is_gone_on_with_from_its_directory_alone(scenario, kept, capsys):
    assert main(["sweep", scenario, "--dry-run", "--duration", "7s", "--repetitions", "2"]) == 0
    wanted = capsys.readouterr().out
    assert main(["sweep", "--resume", kept, "--dry-run"]) == 0
    assert capsys.readouterr().out == wanted
    Path(scenario).unlink()
    assert main(["sweep", "--dry-run", "--resume", kept, "--repetitions", "2", "--set", "duration=7s"]) == 0
    assert capsys.readouterr().out == wanted


def test_what_is_given_beside_the_directory_must_agree(scenario, kept, capsys):
    assert main(["sweep", "--resume", kept, "--dry-run", "--seed", "4"]) == 2
    hint = f"go on as it is with --resume {kept} alone, or start a new sweep with --out DIR"
    assert capsys.readouterr().err == f"emulator: error: {kept} has another plan: seed was 1, is 4; {hint}\n"
    for options in (["--resume", kept, scenario], [scenario, "--resume", kept]):
        assert main(["sweep", *options, "--dry-run"]) == 2
        assert (
            'another plan: duration was "7s", is "20s"; sweep.repetitions was 2, is 1; go on' in capsys.readouterr().err
        )
    assert main(["sweep", "--resume", kept, "--dry-run", "--set", "netfilter.rulez=1"]) == 2
    assert capsys.readouterr().err.startswith("--set netfilter.rulez=1: netfilter.rulez: unknown key, did you mean")


def test_a_directory_without_a_scenario_is_one_line(kept, capsys):
    manifest = json.loads((Path(kept) / "sweep.json").read_text())
    for scenario, said in [(None, "holds no scenario; give SCENARIO too"), ({"name": "s", "x": 1}, "x: unknown key")]:
        (Path(kept) / "sweep.json").write_text(json.dumps(manifest | {"scenario": scenario}))
        assert main(["sweep", "--resume", kept, "--dry-run"]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f"{kept}/sweep.json" in line
        assert said in line


def test_a_sweep_needs_something_to_sweep(capsys):
    assert main(["sweep", "--dry-run"]) == 2
    said = "give a SCENARIO to sweep, or --resume DIR to go on with a sweep; see emulator sweep --help"
    assert capsys.readouterr().err == f"emulator: error: {said}\n"


def test_options_may_stand_before_the_scenario(scenario, capsys):
    assert main(["sweep", "--duration", "9s", scenario, "--dry-run"]) == 0
    assert ", 9s after 1s of warmup" in capsys.readouterr().out
