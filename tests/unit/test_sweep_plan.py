"""The order of a sweep, the time that it is expected to take, and a single cell without its clock."""

import json
import pickle
import shlex
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

import emulator
from emulator.errors import CannotRun
from emulator.report.blank import blank_measurement
from emulator.report.cells import COLUMNS, HISTOGRAMS, OF_THE_PROCESS, record_line
from emulator.report.measurement import IdentityCheck
from emulator.runtime.sweep.cell import run_cell
from emulator.runtime.sweep.command import resume_command
from emulator.runtime.sweep.plan import (
    OFFERED_NS,
    REAL_OVERHEAD_S,
    RECEIVED_NS,
    START_S,
    VIRTUAL_OVERHEAD_S,
    Forecast,
    Plan,
    expected_cell_s,
    measuring_sources,
    run_order,
    sources_hash,
)
from emulator.scenario import load_scenario
from emulator.scenario.matrix import expand

TEXT = """
name: s
duration: 3s
warmup: 500ms
host: {name: mine, stack_rx: 568ns, skb_build: 150ns, qdisc_enqueue: 100ns, netfilter_rule: 7.7ns}
device: {bql: {variant: v7}}
ping: {interval: 1ms}
sweep: {fields: {netfilter.rules: [0, 10], device.bql.tx_usecs: [0us, 50us]}}
"""


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    (tmp_path / "s.yaml").write_text(TEXT)
    loaded = load_scenario(tmp_path / "s.yaml")
    return Plan(loaded, expand(loaded), workers=1)


def test_the_order_is_shuffled_by_the_seed_and_nothing_else():
    assert run_order(48, 1) == run_order(48, 1)
    assert sorted(run_order(48, 1)) == list(range(48))
    assert run_order(48, 1) not in (list(range(48)), run_order(48, 2))


def test_a_plan_says_what_runs_how_long_and_why(plan):
    assert plan.text(plan.to_run()) == (
        "s: 4 cells, real clock, host profile mine, 3s after 500ms of warmup, seed 1\n"
        "  netfilter.rules: 0, 10\n"
        "  device.bql.tx_usecs: 0us, 50us\n"
        f"expected to take about {START_S + 20:g} s ({START_S:g} s of it to start; one cell at a time, "
        "1.5 s to start and stop each)\n"
    )
    assert [cell.index for cell in plan.to_run([0, 2])] == [i for i in plan.order if i not in (0, 2)]
    rest = plan.text(plan.to_run([0, 2]))
    assert f"2 cells of these are there already\nexpected to take about {START_S + 10:g} s" in rest
    assert plan.text([]).endswith("  4 cells of these are there already\nnothing is left to run\n")


def virtual(tmp_path, workers, cpus):
    (tmp_path / "v.yaml").write_text(TEXT + "clock: virtual\n")
    loaded = load_scenario(tmp_path / "v.yaml")
    return Plan(loaded, expand(loaded), workers, cpus)


def test_more_workers_than_cpus_or_cells_are_not_faster_and_the_plan_says_so(tmp_path):
    two, many = virtual(tmp_path, 2, 2), virtual(tmp_path, 99, 2)
    assert two.whole_s(two.cells) == many.whole_s(many.cells)
    assert two.whole_s(two.cells) == pytest.approx(START_S + sum(map(two.expected_s, two.cells)) / 2)
    assert "; 2 workers, each with a CPU that does nothing else)\n" in two.text(two.cells)
    assert "; 4 workers on 2 CPUs, which do nothing else)\n" in many.text(many.cells)
    assert "; 1 worker, which has a CPU that does nothing else)\n" in many.text(many.cells[:1])
    assert many.whole_s(many.cells[:1]) == START_S + many.expected_s(many.cells[0])
    assert many.whole_s([]) == 0


def test_a_real_cell_takes_its_warmup_and_window_and_its_start(plan):
    assert plan.expected_s(plan.cells[0]) == 3.5 + REAL_OVERHEAD_S


def test_a_virtual_cell_takes_as_long_as_its_packets(plan):
    scenario = plan.loaded.base.model_copy(update={"clock": "virtual"})
    flood = scenario.flood.model_copy(update={"rate": 600_000})
    slow = expected_cell_s(scenario.model_copy(update={"flood": flood}))
    offered, received = 1e9 / 250, 1e9 / 568
    expected = VIRTUAL_OVERHEAD_S + 3.5 * (offered * OFFERED_NS + received * RECEIVED_NS) / 1e9
    assert expected_cell_s(scenario) == pytest.approx(expected)
    all_of_it = VIRTUAL_OVERHEAD_S + 3.5 * 600_000 * (OFFERED_NS + RECEIVED_NS) / 1e9
    assert slow == pytest.approx(all_of_it)
    rules = scenario.model_copy(update={"netfilter": scenario.netfilter.model_copy(update={"rules": 10_000})})
    assert expected_cell_s(rules) < expected_cell_s(scenario)  # what is dropped costs less than what is received
    silent = scenario.model_copy(update={"flood": flood.model_copy(update={"threads": 0})})
    assert expected_cell_s(silent) == pytest.approx(VIRTUAL_OVERHEAD_S)


def test_a_forecast_learns_from_what_has_finished():
    forecast = Forecast([10.0, 10.0, 10.0, 10.0], workers=2, cpus=2)
    assert forecast.left_s() == 20
    forecast.finished(10.0, 30.0)
    assert forecast.left_s() == 45
    forecast.finished(10.0, None)
    assert forecast.left_s() == 30
    forecast.finished(10.0, 10.0)
    assert forecast.left_s() == 20  # one cell has one worker
    forecast.finished(10.0, None)
    assert forecast.left_s() == Forecast([], workers=2, cpus=2).left_s() == 0


def test_workers_that_share_cpus_take_longer_each_and_no_longer_together():
    forecast = Forecast([10.0] * 8, workers=4, cpus=2)
    assert forecast.left_s() == 40
    for _ in range(4):
        forecast.finished(10.0, 20.0)
    assert forecast.left_s() == 20


def test_the_sources_have_one_hash():
    assert sources_hash() == sources_hash()
    assert len(sources_hash()) == 16


def test_whatever_decides_a_record_is_among_them():
    """All that making a record imports of the emulator, but for what only starts, shows or keeps it."""
    files = {str(path) for path in measuring_sources()}
    assert {"report/cells.py", "report/summary.py", "scenario/matrix.py", "kernel/memory.py", "agents/napi.py"} <= files
    assert {"runtime/virtual.py", "runtime/real.py", "runtime/sweep/cell.py"} <= files
    assert not {"report/sweep_tables.py", "runtime/sweep/command.py", "cli/sweep.py"} & files
    code = "import sys, emulator.runtime.sweep.cell; print(*(m for m in sys.modules if m.startswith('emulator.')))"
    names = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    package = Path(emulator.__file__).parent
    loaded = {f"{name.removeprefix('emulator.').replace('.', '/')}.py" for name in names}
    assert {f for f in loaded if (package / f).exists()} - files == {"errors.py"}


def test_a_cell_is_plain_values_in_and_a_record_out(plan):
    cell = json.loads(json.dumps(asdict(plan.cells[3])))
    seen = []

    def runner(scenario):
        seen.append(scenario)
        return blank_measurement(scenario.variant_name)

    record = run_cell(cell, runner)
    assert (seen[0].netfilter.rules, seen[0].device.bql.tx_usecs, seen[0].seed) == (10, 50_000, 1)
    assert (record["status"], record["verdict"], record["exit_code"]) == ("ok", "ok", 0)
    assert tuple(record["row"]) == COLUMNS
    assert (record["row"]["nrules"], record["row"]["tx_usecs"], record["row"]["pps"]) == (10, 50, 1.0)
    assert set(record["hist"]) == set(HISTOGRAMS)
    assert record["summary"]["name"] == "v7 nrules=10 tx_usecs=50 #0"
    assert not set(OF_THE_PROCESS) & set(record["summary"])
    assert set(OF_THE_PROCESS) < set(record["run"])
    assert json.loads(record_line(record)) == record
    assert pickle.loads(pickle.dumps(run_cell)) is run_cell
    whole = run_cell(plan.cells[3], runner)
    assert whole.pop("run").keys() == record.pop("run").keys()
    assert whole == record


def test_the_command_that_goes_on_is_one_that_can_be_typed(tmp_path, monkeypatch):
    installed = tmp_path / "bin" / "emulator"
    installed.parent.mkdir()
    installed.write_text("#!/bin/sh\n")
    installed.chmod(0o755)
    out = Path("my runs/a")
    monkeypatch.setenv("PATH", "/usr/bin")
    assert shlex.split(resume_command(str(installed), out)) == [str(installed), "sweep", "--resume", "my runs/a"]
    monkeypatch.setenv("PATH", str(installed.parent))
    assert resume_command(str(installed), Path("a"), "--retry-failed") == "emulator sweep --resume a --retry-failed"
    module = resume_command("/somewhere/emulator/__main__.py", out)
    assert shlex.split(module)[:4] == [sys.executable, "-m", "emulator", "sweep"]


def failing(plan, measurement=None, error=None):
    def runner(_scenario):
        if error:
            raise error
        return measurement

    record = run_cell(asdict(plan.cells[0]), runner)
    assert (record["status"], record["row"], record["hist"]) == ("failed", None, None)
    return record


def test_what_prevents_a_cell_is_its_verdict_and_what_it_measured_is_no_result(plan):
    record = failing(plan, error=CannotRun("no memory\nat all"))
    assert (record["verdict"], record["exit_code"], record["summary"]) == ("no memory at all", 4, None)
    record = failing(plan, error=KeyError("x"))
    assert record["verdict"] == "this is a bug: KeyError: 'x'"
    record = failing(plan, replace(blank_measurement(), complete=False, verdict="agent flood0 died", exit_code=3))
    assert (record["verdict"], record["exit_code"]) == ("agent flood0 died", 3)
    assert record["summary"]["complete"] is False


def test_a_broken_identity_fails_the_cell(plan):
    record = failing(plan, replace(blank_measurement(), identities=[IdentityCheck("pool", False, 1, 2)]))
    assert (record["verdict"], record["exit_code"]) == ("identity does not hold: pool", 1)
    record = failing(plan, replace(blank_measurement(), fault="DQL BUG on veth0 tx-0"))
    assert (record["verdict"], record["exit_code"]) == ("DQL BUG on veth0 tx-0", 1)


def test_an_expectation_that_fails_does_not_take_the_cell_away(plan):
    cell = asdict(plan.cells[0])
    cell["scenario"] = cell["scenario"] | {"expect": {"ping.loss": 7}}
    record = run_cell(cell, lambda s: blank_measurement(s.variant_name))
    assert (record["status"], record["exit_code"]) == ("ok", 1)
    assert record["verdict"] == "1 of 1 expectations failed"


def test_what_may_differ_between_two_runs_lies_under_run(plan):
    def runner_of(memory_mb, agents):
        return lambda s: replace(blank_measurement(s.variant_name), memory_mb=memory_mb, agents=agents)

    first = run_cell(asdict(plan.cells[0]), runner_of(1.0, blank_measurement().agents))
    second = run_cell(asdict(plan.cells[0]), runner_of(2.0, blank_measurement().agents[:1]))
    assert first.pop("run") != second.pop("run")
    assert first == second
