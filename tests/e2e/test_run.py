"""`emulator run` as a user has it: what it prints, what it keeps, how it ends."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(120)

SHORT = """
name: short
host: none
duration: 400ms
warmup: 200ms
netfilter: {rules: 2600, mode: burn, rule_cost: 7.7ns}
device: {bql: {variant: v7, tx_usecs: 100us}}
flood: {packet: 64B, rate: max}
ping: {interval: 5ms}
"""
KEYS = {
    "name",
    "goodput_pps",
    "rtt_ms",
    "ping_loss_pct",
    "qdisc",
    "bql",
    "ring",
    "watchdog",
    "identities",
    "timing",
}


def test_json_is_one_object_with_everything(launch):
    run = launch(SHORT + "compare: [{name: stock, device: {bql: {variant: off}}}, {name: v7}]\n", "--json")
    assert run.wait() == 0
    assert run.out().count("\n") == 1
    document = json.loads(run.out())
    assert document == run.document()
    stock, v7 = document["variants"]
    for variant in (stock, v7):
        assert set(variant) >= KEYS
        assert set(variant["rtt_ms"]) >= {"min", "avg", "p50", "p99", "max", "n"}
        assert set(variant["ring"]) >= {"drv_xoff"}
        assert variant["watchdog"] == {"timeouts": 0}
        assert variant["identities"]["ok"] is True
        assert variant["timing"]["verdict"] in ("good", "fair", "poor")
        assert variant["ping_loss_pct"] == 0
        assert variant["rtt_ms"]["n"] == 80
        assert variant["goodput_pps"] > 0
    assert set(v7["bql"]) >= {"limit_p50", "inflight_p50", "inflight_max", "stack_xoff"}
    assert v7["bql"]["stack_xoff"] > 0
    assert stock["ring"]["drv_xoff"] > 0
    assert stock["start_to_first_packet_s"] > 0
    assert v7["start_to_first_packet_s"] is None
    assert 0 < stock["memory_mb"] < 700
    assert run.left() == {}
    assert run.run_dirs() == []


def test_text_and_results(launch):
    run = launch(SHORT)
    assert run.wait() == 0
    text = run.out()
    assert text.startswith("== short: BQL v7, tx-usecs 100, fq_codel, ")
    for part in ("qdisc fq_codel 8001: dev veth0 root", "rtt min/avg/p50/p99/max = ", "identities: all ", "timing: "):
        assert part in text
    assert text.endswith(f"results in {run.results}\n")
    assert max(len(line) for line in text.splitlines()[:-1]) <= 80
    assert run.err() == "running short\n"
    manifest = json.loads((run.results / "run.json").read_text())
    assert manifest["complete"]
    assert manifest["scenario"]["name"] == "short"
    assert (run.results / "variants" / "short" / "probes.csv").exists()


def test_the_heavy_case_holds_sixteen(launch):
    """13000 rules of 7.7 ns: a packet takes as long as a completion interval, and the limit settles at two GRO batches.

    The band is for machines that others use too: a NAPI thread that is switched out completes more at once.
    """
    scenario = SHORT.replace("rules: 2600", "rules: 13000").replace("duration: 400ms", "duration: 2s")
    run = launch(scenario.replace("warmup: 200ms", "warmup: 2s"), "--json")
    assert run.wait() == 0
    (variant,) = json.loads(run.out())["variants"]
    assert 15 <= variant["bql"]["limit_p50"] <= 25
    assert variant["ping_loss_pct"] == 0
    assert variant["identities"]["ok"]


def test_an_expectation_that_fails(launch):
    run = launch(SHORT + "expect: {ping.loss: 0, rtt.avg: <= 1us}\n")
    assert run.wait() == 1
    assert "expectations: 1 of 2 FAILED" in run.out()


def test_below_the_timing_that_is_asked_for(launch):
    """Everything on one CPU works, is judged to be poor, and ends with 5 only where the scenario asks for more."""
    run = launch(SHORT, before=("taskset", "-c", "0"))
    assert run.wait() == 0
    assert run.document()["variants"][0]["timing"]["verdict"] == "poor"
    assert run.document()["variants"][0]["identities"]["ok"]
    strict = launch(SHORT + "timing: {require: good}\n", before=("taskset", "-c", "0"))
    assert strict.wait() == 5


def test_two_at_once(launch):
    first, second = launch(SHORT), launch(SHORT)
    assert (first.wait(), second.wait()) == (0, 0)
    for run in (first, second):
        (variant,) = run.document()["variants"]
        assert variant["identities"]["ok"]
        assert variant["ping"]["received"] == 80
        assert run.run_dirs() == []


def test_nobody_reads_the_output(launch):
    """`emulator run ... | head -1`: the run is whole, its results are kept."""
    reader, writer = os.pipe()
    run = launch(SHORT, stdout=writer)
    os.close(writer)
    os.close(reader)
    assert run.wait() == 141
    assert run.err() == "running short\n"
    assert run.document()["variants"][0]["complete"]
    assert run.left() == {}


def test_nobody_reads_the_progress(launch):
    reader, writer = os.pipe()
    run = launch(SHORT, stderr=writer)
    os.close(writer)
    os.close(reader)
    assert run.wait() == 0
    assert run.document()["variants"][0]["complete"]


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_closed_streams(launch, closed):
    run = launch(SHORT, before=("sh", "-c", f'exec "$@" {closed}', "sh"))
    assert run.wait() == 0
    assert run.document()["variants"][0]["complete"]
    assert run.document()["variants"][0]["identities"]["ok"]
    assert "Traceback" not in run.err()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("flood: {cpus: [4000]}", "flood.cpus[0]: CPU 4000 is not there"),
        ("flod: {}", "flod: unknown key"),
        ("seed: text", "seed: "),
        ("seed: 1\nseed: 2", "seed"),
        ("watchdog: {timeout: 3 parsecs}", "watchdog.timeout: "),
    ],
)
@pytest.mark.parametrize("verb", ["run", "validate"])
def test_a_wrong_scenario(launch, verb, change, says):
    text = SHORT.replace("flood: {packet: 64B, rate: max}\n", "") if change.startswith("flood") else SHORT
    run = launch(f"{text}{change}\n", verb=verb)
    assert run.wait() == 2
    (line,) = run.err().splitlines()
    assert says in line
    place, number, column = line.split(":")[:3]
    assert place.endswith(".yaml")
    assert int(number) > 0
    assert int(column) > 0
    assert run.out() == ""
    assert not run.results.exists()


def test_no_room_for_the_segment(launch, tmp_path):
    """A limit on the size of files stands for a full memory disk, which only root could make."""
    run = launch(SHORT, before=("sh", "-c", 'ulimit -f 1024; exec "$@"', "sh"))
    assert run.wait() == 4
    (error,) = [line for line in run.err().splitlines() if line.startswith("emulator: error: ")]
    assert "ulimit -f" in error
    assert run.run_dirs() == []
    assert run.left() == {}


def test_no_place_for_the_run(launch, tmp_path):
    run = launch(SHORT, "--set", f"run_dir={tmp_path}/nowhere")
    assert run.wait() == 4
    (error,) = [line for line in run.err().splitlines() if line.startswith("emulator: error: ")]
    assert error.endswith("does not exist; set run_dir to a place that does")


def test_a_place_of_its_own(launch):
    with tempfile.TemporaryDirectory() as place:  # short: a socket goes there
        run = launch(SHORT, "--set", f"run_dir={place}")
        assert run.wait() == 0
        assert list(Path(place).glob("*/run-*")) == []
        assert run.left() == {}


def test_results_that_cannot_be_written(launch, tmp_path):
    """Refused before anything runs, when it is known by then."""
    file = tmp_path / "file"
    file.write_text("mine")
    run = launch(SHORT, "--out", str(file / "below"))
    assert run.wait() == 4
    (error,) = run.err().splitlines()
    assert error.startswith(f"emulator: error: cannot write results to {file / 'below'}: ")
    assert file.read_text() == "mine"


def test_results_that_vanish_while_running(launch):
    """The summary still goes to the terminal."""
    run = launch(SHORT.replace("duration: 400ms", "duration: 1s"))
    run.running()
    (run.results / "run.json").unlink()
    run.results.rmdir()
    run.results.write_text("in the way")
    assert run.wait() == 4
    assert "identities: all " in run.out()
    assert "results in" not in run.out()
    (error,) = [line for line in run.err().splitlines() if line.startswith("emulator: error: ")]
    assert "cannot write results to" in error


def test_doctor_and_clean(compiled):
    doctor = _emulator("doctor", "--json")
    assert json.loads(doctor.stdout)["can_run"] is True
    assert doctor.returncode == 0
    assert _emulator("clean", "--dry-run").returncode == 0


def _emulator(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "emulator", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        start_new_session=True,
        check=False,
    )
