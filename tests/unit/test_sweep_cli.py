"""`emulator sweep`: what it refuses before anything runs, each in one line; the plan of a dry run."""

import json

import pytest

from emulator.cli import main

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
    assert "s: 8 cells, real clock, 20s after 1s of warmup, seed 1\n" in out
    assert "  repetitions: 2, with seeds 1..2\n" in out
    assert "expected to take about 3 min (one cell at a time, 1.5 s to start and stop each)\n" in out
    names = [line.split(maxsplit=1)[1] for line in out.partition("cells in the order")[2].splitlines()[1:]]
    assert main(["sweep", scenario, "--dry-run", "--repetitions", "2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [document["plan"][index]["cell"] for index in document["order"]] == names
    assert names != sorted(names)
    assert document["expected_s"] == 8 * 22.5
