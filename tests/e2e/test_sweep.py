"""`emulator sweep` as a user has it, under the virtual clock: one result whatever happens on the way."""

import contextlib
import csv
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from emulator.report.cells import COLUMNS

pytestmark = pytest.mark.timeout(120)

SMALL = """
name: small
clock: virtual
duration: 50ms
warmup: 20ms
host: {stack_rx: 568ns, skb_build: 200ns, qdisc_enqueue: 100ns, netfilter_rule: 7.7ns}
device: {bql: {variant: v7}}
ping: {interval: 997us}
sweep:
  fields:
    device.bql.variant: [v7, off]
    netfilter.rules: [0, 100, 1000]
    device.bql.tx_usecs: [0us, 100us]
"""
CELLS = 9
LONG = """
name: long
clock: virtual
warmup: 20ms
host: {stack_rx: 568ns, skb_build: 200ns, qdisc_enqueue: 100ns}
device: {bql: {variant: v7}}
ping: {interval: 20ms}
sweep: {fields: {duration: [50ms, 51ms, 20min], device.bql.tx_usecs: [0us, 100us]}}
"""
SHORT_CELLS = 4
MANY = """
name: many
clock: virtual
duration: 2ms
warmup: 1ms
host: {stack_rx: 568ns, skb_build: 200ns, qdisc_enqueue: 100ns, netfilter_rule: 1ns}
sweep: {fields: {device.bql.variant: [v7], netfilter.rules: [0, 1, 2, 3, 4, 5, 6, 7]}, repetitions: 10}
"""


def lines(path):
    """Complete lines of a `cells.jsonl`, as far as it is there."""
    with contextlib.suppress(FileNotFoundError):
        return path.read_bytes().count(b"\n")
    return 0


def wait_for_lines(run, directory, number):
    deadline = time.monotonic() + 60
    while lines(directory / "cells.jsonl") < number and run.process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    assert lines(directory / "cells.jsonl") >= number, run.err()


def records(directory):
    """The records without what may differ."""
    found = [json.loads(line) for line in (directory / "cells.jsonl").open()]
    for record in found:
        assert record.pop("run")["elapsed_s"] >= 0
    return found


def workers(run):
    """Pids of the children of the fork server."""
    fork_server = run.child("multiprocess.forkserver")
    return [pid for pid in run.processes() if parent(pid) == fork_server]


def parent(pid):
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Where the sweep that nothing disturbed lies; filled by the first test."""
    return tmp_path_factory.mktemp("sweeps") / "whole"


@pytest.fixture
def undisturbed(launch, whole):
    """The same, also when this test is the only one."""
    if not whole.exists():
        assert sweep(launch, SMALL, whole).wait() == 0
    return whole


def sweep(launch, text, out, *arguments):
    return launch(text, "--out", str(out), *arguments, verb="sweep")


def test_one_and_two_workers_give_the_same(launch, whole, tmp_path):
    one = sweep(launch, SMALL, whole, "--workers", "1", "--max")
    two = sweep(launch, SMALL, tmp_path / "two", "--workers", "2", "--max")
    assert (one.wait(), two.wait()) == (0, 0)
    assert len(records(whole)) == CELLS
    assert records(whole) == records(tmp_path / "two")
    assert (whole / "sweep.csv").read_bytes() == (tmp_path / "two" / "sweep.csv").read_bytes()
    assert one.out().replace(str(whole), "") == two.out().replace(str(tmp_path / "two"), "")
    assert (one.left(), two.left()) == ({}, {})
    setting = "virtual clock, host profile without a name, 50ms after 20ms of warmup, seed 1\n"
    assert f"small: 9 cells, {setting}" in one.err()
    assert one.out().startswith(f"small: {setting}\nBQL v7, throughput, packets a second, 1 run\n")
    for title in ("throughput, packets a second, 1 run", "RTT avg, ms", "RTT p99, ms", "RTT max, ms"):
        assert f"BQL v7, {title}" in one.out()
    assert re.search(r"\nnrules \| +0us \| +100us \|\| +stock\n", one.out())
    assert one.out().endswith(f"\nidentities: all hold in 9 cells\nresults in {whole}\n")


def test_csv_and_manifest(launch, undisturbed):
    rows = list(csv.DictReader((undisturbed / "sweep.csv").open()))
    assert tuple(rows[0]) == COLUMNS
    assert [(r["variant"], r["nrules"], r["tx_usecs"]) for r in rows] == [
        *(("v7", nrules, usecs) for nrules in ("0", "100", "1000") for usecs in ("0", "100")),
        *(("stock", nrules, "") for nrules in ("0", "100", "1000")),
    ]
    assert all(float(r["pps"]) > 0 and int(r["n"]) == 50 for r in rows)
    assert all(bool(r["limit_p50"]) == (r["variant"] == "v7") for r in rows)
    manifest = json.loads((undisturbed / "sweep.json").read_text())
    assert manifest["complete"]
    assert [cell["index"] for cell in manifest["plan"]] == list(range(CELLS))
    assert sorted(manifest["order"]) == list(range(CELLS)) != manifest["order"]


def test_json_with_another_seed_and_repetitions(launch, tmp_path):
    fields = "sweep.fields.netfilter.rules=[5]"
    run = sweep(launch, SMALL, tmp_path / "out", "--json", "--seed", "5", "--repetitions", "2", "--set", fields)
    assert run.wait() == 0
    document = json.loads(run.out())
    assert run.out().count("\n") == 1
    assert [(row["variant"], row["repetitions"]) for row in document["rows"]] == [("v7", 2), ("v7", 2), ("stock", 2)]
    assert (document["failed"], document["missing"], document["identities"]["ok"]) == ([], [], True)
    assert [(r["rep"], r["seed"]) for r in records(tmp_path / "out")] == [(0, 5), (1, 6)] * 3
    assert len((tmp_path / "out" / "sweep.csv").read_text().splitlines()) == 4


def test_a_dry_run_prints_the_plan_and_makes_nothing(launch, tmp_path):
    run = sweep(launch, SMALL, tmp_path / "out", "--dry-run")
    assert run.wait() == 0
    assert "expected to take about " in run.out()
    assert len([line for line in run.out().splitlines() if " #0" in line]) == CELLS
    assert not (tmp_path / "out").exists()


def test_interrupted_killed_and_gone_on_with_it_is_the_same(launch, undisturbed, tmp_path):
    out = tmp_path / "out"
    first = sweep(launch, SMALL, out, "--workers", "1")
    wait_for_lines(first, out, 2)
    os.killpg(first.pid, signal.SIGINT)
    assert first.wait() == 130
    assert first.left() == {}
    kept = records(out)
    assert 2 <= len(kept) < CELLS
    assert f"INCOMPLETE: {CELLS - len(kept)} of 9 cells not run: " in first.out()
    assert [r["index"] for r in kept] == sorted(r["index"] for r in kept)
    assert not json.loads((out / "sweep.json").read_text())["complete"]

    second = launch(SMALL, "--resume", str(out), "--workers", "1", verb="sweep")
    wait_for_lines(second, out, len(kept) + 1)
    os.kill(second.pid, signal.SIGKILL)
    second.wait()
    assert second.left() == {}
    with (out / "cells.jsonl").open("ab") as file:  # as if it had been killed while it wrote
        file.write(b'{"schema":1,"cell":"v7 nrules=')

    (command,) = re.findall(r"^go on with: (.*)$", first.out(), re.MULTILINE)
    third = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd="/", check=True, timeout=60)
    assert "is torn (30 bytes) and left out (warning)" in third.stderr
    assert "cells of these are there already" in third.stderr
    assert third.stdout.startswith(
        "small: virtual clock, host profile without a name, 50ms after 20ms of warmup, seed 1\n"
    )
    assert records(out) == records(undisturbed)
    assert (out / "sweep.csv").read_bytes() == (undisturbed / "sweep.csv").read_bytes()


def test_a_killed_worker_costs_its_cell_and_no_other(launch, tmp_path):
    out = tmp_path / "out"
    run = sweep(launch, LONG, out, "--workers", "3")
    wait_for_lines(run, out, SHORT_CELLS)
    for pid in workers(run):
        os.kill(pid, signal.SIGKILL)
    assert run.wait() == 3
    assert run.left() == {}
    failed = [r for r in map(json.loads, (out / "cells.jsonl").open()) if r["status"] == "failed"]
    assert [r["fields"]["duration"] for r in failed] == ["1200s", "1200s"]
    for record in failed:
        assert (record["row"], record["verdict"]) == (None, "its worker: killed by SIGKILL (9)")
        assert f"  {record['cell']}: its worker: killed by SIGKILL (9)\n" in run.out()
    assert "FAILED: 2 of 6 cells\n" in run.out()
    assert f" sweep --resume {out} --retry-failed\nresults in {out}\n" in run.out()
    assert len((out / "sweep.csv").read_text().splitlines()) == 1 + SHORT_CELLS
    again = launch(LONG, "--resume", str(out), verb="sweep")
    assert again.wait() == 3  # listed again, not repeated: that is asked for with --retry-failed
    assert "FAILED: 2 of 6 cells" in again.out()


def test_a_full_disk_is_one_line_and_what_was_measured_is_kept(launch, tmp_path):
    """A limit on the size of files stands for a full disk, which only root could make."""
    out = tmp_path / "out"
    limited = ("bash", "-c", 'ulimit -f 64; exec "$0" "$@"')
    run = launch(SMALL, "--out", str(out), "--workers", "1", verb="sweep", before=limited)
    assert run.wait() == 4
    errors = [line for line in run.err().splitlines() if line.startswith("emulator: error: ")]
    assert errors == [
        f"emulator: error: cannot write results to {out}: File too large; make room, then go on with --resume"
    ]
    assert "Traceback" not in run.err()
    assert "BQL v7, throughput" in run.out()
    assert lines(out / "cells.jsonl") > 0


def test_another_plan_is_not_gone_on_with(launch, undisturbed):
    whole = undisturbed
    before = (whole / "cells.jsonl").read_bytes()
    run = launch(SMALL, "--resume", str(whole), "--duration", "60ms", verb="sweep")
    assert run.wait() == 2
    assert f'{whole} has another plan: duration was "50ms", is "60ms"; go on as it is with ' in run.err()
    assert (whole / "cells.jsonl").read_bytes() == before


def test_an_identical_cell_comes_of_the_function_alone(compiled):
    """A cell is a unit of work: the same record in this process as in a worker."""
    from dataclasses import asdict

    from emulator.runtime.sweep.cell import run_cell
    from emulator.scenario import load_scenario
    from emulator.scenario.matrix import expand

    path = Path(__file__).parents[2] / "scenarios" / "published-sweep.yaml"
    fields = ["sweep.fields.netfilter.rules=[100]", "sweep.fields.device.bql.tx_usecs=[1us]"]
    cell, _stock = expand(load_scenario(path, ["duration=20ms", "warmup=5ms", *fields])).cells
    first, second = run_cell(asdict(cell)), run_cell(asdict(cell))
    assert first.pop("run").keys() == second.pop("run").keys()
    assert first == second
    assert first["status"] == "ok"


def test_too_few_files_for_all_workers_is_no_reason_to_stop(launch, tmp_path):
    """A worker that cannot be started is done without."""
    few_files = ["bash", "-c", 'ulimit -n 64; exec "$@"', "bash"]
    run = launch(MANY, "--out", str(tmp_path / "out"), "--workers", "60", verb="sweep", before=few_files)
    assert run.wait() == 0, run.err()
    assert len(records(tmp_path / "out")) == 80
    assert "Traceback" not in run.err()
