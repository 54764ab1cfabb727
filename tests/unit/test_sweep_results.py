"""What a sweep keeps and prints: its directory, the CSV, the tables, the closing lines."""

import csv
import json

import numpy as np
import pytest

from emulator.errors import CannotRun, UsageError
from emulator.report.cells import (
    CELLS_FILE,
    COLUMNS,
    CSV_FILE,
    HISTOGRAMS,
    MANIFEST_FILE,
    cells_of,
    plain_histogram,
    read_sweep,
    record_line,
)
from emulator.report.histogram import histogram_of
from emulator.report.sweep_directory import SweepDirectory, plan_differences, sweep_csv
from emulator.report.sweep_document import Outcome, sweep_document, sweep_text
from emulator.report.sweep_setting import setting_text
from emulator.report.sweep_tables import sweep_tables, throughput

PLAN = [
    {
        "cell": f"v7 nrules={i} tx_usecs=0 #0",
        "index": i,
        "variant": "v7",
        "nrules": i,
        "tx_usecs": 0,
        "fields": {"netfilter.rules": i, "device.bql.tx_usecs": "0us"},
    }
    for i in range(3)
]
SCENARIO = {
    "name": "s",
    "clock": "virtual",
    "host": {"name": "ryzen-5600x", "stack_rx": "430ns"},
    "duration": "10s",
    "warmup": "2s",
    "seed": 1,
}
MANIFEST = {
    "sources": "abc",
    "scenario": {"name": "s", "seed": 1, "duration": "1s", "sweep": {"repetitions": 1}},
    "plan": PLAN,
    "order": [2, 0, 1],
    "command_line": ["emulator", "sweep"],
    "host": {},
}


def record(index=0, variant="v7", nrules=0, tx_usecs=0, *, rep=0, failed=None, others=None, identity=True, **values):
    row = dict.fromkeys(COLUMNS) | {"variant": variant, "nrules": nrules, "tx_usecs": tx_usecs} | values
    usecs = "" if tx_usecs is None else f" tx_usecs={tx_usecs}"
    checks = [{"name": "pool", "ok": identity, "left": 1, "right": 1 if identity else 2, "detail": "free 1"}]
    return {
        "schema": 1,
        "cell": f"{variant} nrules={nrules}{usecs} #{rep}",
        "index": index,
        "rep": rep,
        "seed": 1 + rep,
        "variant": variant,
        "nrules": nrules,
        "tx_usecs": tx_usecs,
        "fields": {"netfilter.rules": nrules, "device.bql.tx_usecs": f"{tx_usecs}us"} | (others or {}),
        "status": "failed" if failed else "ok",
        "verdict": failed or "ok",
        "exit_code": 3 if failed else 0,
        "row": None if failed else row,
        "hist": None
        if failed
        else dict.fromkeys(HISTOGRAMS) | {"rtt_ns": plain_histogram(histogram_of(np.array([5])))},
        "summary": None if failed else {"identities": {"ok": identity, "checks": checks}},
        "run": {},
    }


def test_the_csv_has_the_columns_and_then_what_else_was_swept():
    records = [
        record(0, pps=1622345.5, rtt_avg_ms=0.0161234, n=40, requeues=12, others={"device.ring_size": 64}),
        record(1, rep=1, pps=1622347.5, rtt_avg_ms=0.0161238, n=41, requeues=13, others={"device.ring_size": 64}),
        record(2, "stock", 100, None, pps=736000.0, n=50, others={"device.qdisc": {"kind": "sfq"}}),
        record(3, "v7", 100, 1.5, failed="killed by SIGKILL (9)"),
    ]
    lines = sweep_csv(cells_of(records)).splitlines()
    assert lines[0] == (
        "variant,nrules,tx_usecs,pps,rtt_avg_ms,rtt_p50_ms,rtt_p99_ms,rtt_max_ms,n,limit_p50,count_p50,"
        "interval_p50_us,inflight_max,requeues,device.ring_size,device.qdisc"
    )
    assert lines[1] == "v7,0,0,1622346.5,0.016124,,,,81,,,,,12.5,64,"
    assert next(csv.reader([lines[2]])) == ["stock", "100", "", "736000", *[""] * 4, "50", *[""] * 6, '{"kind": "sfq"}']
    assert len(lines) == 3


@pytest.mark.parametrize(
    ("pps", "text"),
    [
        (1622345.5, "1.62M"),
        (681_000, "681K"),
        (13_000, "13.0K"),
        (999_600, "1.00M"),
        (999.4, "999"),
        (12_345_678, "12.3M"),
        (7, "7.00"),
        (0, "0"),
    ],
)
def test_throughput_as_the_list_writes_it(pps, text):
    assert throughput(pps) == text


def test_tables_as_the_list_posts_them():
    records = [
        record(0, "v7", 0, 0, pps=1_622_345.5, rtt_avg_ms=0.0161, rtt_p99_ms=0.026, rtt_max_ms=1.0, n=500),
        record(1, "v7", 0, 50, pps=1_890_000.0, rtt_avg_ms=0.0894, rtt_p99_ms=0.122, rtt_max_ms=1.0, n=500),
        record(2, "v7", 10000, 0, pps=13_000.0, rtt_avg_ms=1.123, rtt_p99_ms=1.94, rtt_max_ms=1.0, n=498),
        record(3, "v7", 10000, 50, failed="killed by SIGKILL (9)"),
        record(4, "stock", 0, None, pps=1_760_000.0, rtt_avg_ms=0.132, rtt_p99_ms=None, rtt_max_ms=1.0, n=500),
    ]
    assert sweep_tables(cells_of(records)) == (
        "BQL v7, throughput, packets a second, 1 run\n"
        "nrules |   0us |   50us || stock\n"
        "     0 | 1.62M |  1.89M || 1.76M\n"
        " 10000 | 13.0K | failed ||     -\n"
        "\n"
        "BQL v7, RTT avg, ms, n = 498..500 pings a cell\n"
        "nrules |    0us |   50us || stock\n"
        "     0 | 0.0161 | 0.0894 || 0.132\n"
        " 10000 |   1.12 | failed ||     -\n"
        "\n"
        "BQL v7, RTT p99, ms, n = 498..500 pings a cell\n"
        "nrules |    0us |   50us || stock\n"
        "     0 | 0.0260 |  0.122 ||     -\n"
        " 10000 |   1.94 | failed ||     -\n"
    )
    assert sweep_tables(cells_of(records), with_max=True).count("\n\n") == 3
    assert "RTT max, ms" in sweep_tables(cells_of(records), with_max=True)


def test_a_p99_of_few_pings_is_said_to_be_the_slowest():
    records = [
        record(0, "v7", 0, 0, pps=1e6, rtt_avg_ms=1.0, rtt_p99_ms=2.0, n=100),
        record(1, "v7", 1, 0, pps=1e6, rtt_avg_ms=1.0, rtt_p99_ms=2.0, n=100),
    ]
    assert "p99 is" not in sweep_tables(cells_of(records))
    records[1]["row"]["n"] = 99
    text = sweep_tables(cells_of(records), with_max=True)
    note = "     1 | 2.00\n(fewer than 100 pings a run in 1 of 2 cells: p99 is the slowest one)\n\nBQL v7, RTT max"
    assert note in text
    assert text.count("p99 is") == 1
    again = [record(rep, rep=rep, rtt_p99_ms=2.0, n=60) for rep in range(2)]
    assert "median of 2 runs, n = 120 pings a cell\nnrules |" in sweep_tables(cells_of(again))
    assert sweep_tables(cells_of(again)).endswith("(fewer than 100 pings a run: p99 is the slowest one)\n")


def test_the_setting_leaves_out_what_is_not_one_for_all_cells():
    assert setting_text(SCENARIO | {"host": "none", "clock": "real"}, "3 cells") == (
        "s: 3 cells, real clock, no host profile, 10s after 2s of warmup, seed 1"
    )
    swept = {"sweep": {"fields": {"host.stack_rx": ["1us"], "duration": ["1s"]}, "repetitions": 1}}
    assert setting_text(SCENARIO | swept) == "s: virtual clock, seed 1"
    compared = {"compare": [{"name": "a", "host": {"stack_rx": "1us"}}, {"name": "b"}]}
    assert setting_text(SCENARIO | compared) == "s: virtual clock, 10s after 2s of warmup, seed 1"


def test_each_variant_that_waits_has_its_tables_beside_the_same_stock():
    records = [
        record(0, "v7", 0, 0, pps=7e6, n=1),
        record(1, "v6", 0, 0, pps=6e6, n=1),
        record(2, "v5", 0, None, pps=5e6, n=1),
        record(3, "stock", 0, None, pps=1e6, n=1),
    ]
    text = sweep_tables(cells_of(records))
    assert "BQL v7, throughput, packets a second, 1 run\nnrules |   0us ||    v5 | stock\n" in text
    assert "     0 | 7.00M || 5.00M | 1.00M\n" in text
    assert "     0 | 6.00M || 5.00M | 1.00M\n" in text


def test_stock_alone_has_tables_too():
    text = sweep_tables(cells_of([record(0, "stock", 5, None, pps=1e6, n=1)]))
    assert text.startswith("throughput, packets a second, 1 run\nnrules | stock\n     5 | 1.00M\n")


def test_another_swept_field_heads_a_set_of_tables_for_each_of_its_values():
    one, six = ({"device.num_tx_queues": n} for n in (1, 6))
    records = [
        record(0, "v7", 0, 0, pps=1e6, n=1, others=one),
        record(1, "v7", 0, 0, pps=6e6, n=1, others=six),
        record(2, "stock", 0, None, pps=2e6, n=1, others=one),
        record(3, "stock", 0, None, pps=3e6, n=1, others=six),
    ]
    text = sweep_tables(cells_of(records))
    first, second = text.split("== device.num_tx_queues=6")
    assert first.startswith("== device.num_tx_queues=1\n\nBQL v7, throughput")
    assert "1.00M || 2.00M" in first
    assert "6.00M || 3.00M" in second


def test_stock_stands_beside_every_value_of_a_field_that_means_nothing_to_it():
    records = [
        record(0, "v7", 0, 0, pps=1e6, n=1, others={"device.bql.limit_min": "0p"}),
        record(1, "v7", 0, 0, pps=6e6, n=1, others={"device.bql.limit_min": "8p"}),
        record(2, "stock", 0, None, pps=2e6, n=1),
    ]
    text = sweep_tables(cells_of(records))
    assert "1.00M || 2.00M" in text
    assert "6.00M || 2.00M" in text


def test_repetitions_are_said_and_a_failed_one_is_marked():
    records = [record(0, pps=1e6, n=5), record(1, rep=1, pps=3e6, n=5), record(2, rep=2, failed="gone")]
    text = sweep_tables(cells_of(records))
    assert "throughput, packets a second, median of 2 runs\nnrules |    0us\n     0 | 2.00M*\n" in text
    assert "median of 2 runs, n = 10 pings a cell" in text
    assert text.endswith("* some repetitions of this cell failed\n")


def test_a_sweep_is_kept_line_by_line_and_ends_in_the_order_of_its_plan(tmp_path):
    directory = SweepDirectory.create(tmp_path / "a", MANIFEST)
    for index in (2, 0):
        directory.append(record(index, nrules=index, pps=1.0, n=1))
    assert [json.loads(line)["index"] for line in (tmp_path / "a" / CELLS_FILE).open()] == [2, 0]
    assert not json.loads((tmp_path / "a" / MANIFEST_FILE).read_text())["complete"]
    directory.append(record(1, nrules=1, failed="gone"))
    directory.finish(3)
    sweep = read_sweep(tmp_path / "a")
    assert [json.loads(line)["index"] for line in (tmp_path / "a" / CELLS_FILE).open()] == [0, 1, 2]
    assert (sweep.manifest["complete"], sweep.manifest["exit_code"], sweep.complete) == (True, 3, True)
    assert len((tmp_path / "a" / CSV_FILE).read_text().splitlines()) == 3


def resumable(path, records, torn=b""):
    directory = SweepDirectory.create(path, MANIFEST)
    for one in records:
        directory.append(one)
    directory.finish(130)
    with (path / CELLS_FILE).open("ab") as file:
        file.write(torn)


def test_a_sweep_is_gone_on_with_and_what_a_crash_has_torn_is_left_out(tmp_path):
    resumable(tmp_path, [record(0), record(2, failed="gone")], torn=record_line(record(1)).encode()[:50])
    directory, notes = SweepDirectory.resume(tmp_path, MANIFEST)
    assert sorted(directory.records) == [0, 2]
    assert len(notes) == 1
    assert "line 3 is torn (50 bytes) and left out" in notes[0]
    directory.append(record(1))
    directory.finish(0)
    assert [r["index"] for r in read_sweep(tmp_path).records] == [0, 1, 2]
    assert read_sweep(tmp_path).notes == ()
    assert len(read_sweep(tmp_path).manifest["resumed"]) == 1


def test_what_failed_is_run_again_only_when_asked_for(tmp_path):
    resumable(tmp_path / "a", [record(0), record(2, failed="gone")])
    resumable(tmp_path / "b", [record(0), record(2, failed="gone")])
    assert sorted(SweepDirectory.resume(tmp_path / "a", MANIFEST)[0].records) == [0, 2]
    assert sorted(SweepDirectory.resume(tmp_path / "b", MANIFEST, retry_failed=True)[0].records) == [0]


def test_another_plan_is_refused_and_what_differs_is_said(tmp_path):
    resumable(tmp_path, [record(0)])
    scenario = MANIFEST["scenario"] | {"duration": "2s", "seed": 9}
    with pytest.raises(UsageError) as error:
        SweepDirectory.resume(tmp_path, MANIFEST | {"scenario": scenario, "order": [0, 1, 2]})
    assert str(error.value) == (
        f'{tmp_path} has another plan: seed was 1, is 9; duration was "1s", is "2s"; '
        f"go on as it is with --resume {tmp_path} alone, or start a new sweep with --out DIR"
    )
    with pytest.raises(UsageError, match=r"by other sources of the emulator; start a new sweep with --out DIR$"):
        SweepDirectory.resume(tmp_path, MANIFEST | {"sources": "x"})
    assert sorted(SweepDirectory.resume(tmp_path, MANIFEST)[0].records) == [0]


def test_differences_of_plans():
    assert plan_differences(MANIFEST, MANIFEST) == []
    assert plan_differences(MANIFEST, MANIFEST | {"sources": "x"}) == ["it was made by other sources of the emulator"]
    assert plan_differences(MANIFEST, MANIFEST | {"plan": PLAN[:2]}) == ["its cells are others"]
    many = plan_differences(MANIFEST, MANIFEST | {"scenario": {str(i): i for i in range(9)}})
    assert len(many) == 5
    assert many[-1] == "and 9 more"


def test_a_directory_is_one_sweeps_alone(tmp_path):
    directory = SweepDirectory.create(tmp_path / "a", MANIFEST)
    with pytest.raises(CannotRun, match="another sweep is writing"):
        SweepDirectory.create(tmp_path / "a", MANIFEST)
    directory.finish(0)
    with pytest.raises(CannotRun, match="holds a sweep already; go on with it"):
        SweepDirectory.create(tmp_path / "a", MANIFEST)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "mine").touch()
    with pytest.raises(CannotRun, match="is not empty"):
        SweepDirectory.create(tmp_path / "b", MANIFEST)
    assert (tmp_path / "b" / "mine").exists()


def test_a_full_disk_is_one_line_and_costs_no_record(tmp_path, monkeypatch):
    directory = SweepDirectory.create(tmp_path / "a", MANIFEST)
    directory.append(record(0))
    directory._cells.close()
    directory._cells = open("/dev/full", "ab", buffering=0)  # noqa: PTH123, SIM115
    with pytest.raises(CannotRun, match="No space left on device; make room, then go on with --resume") as error:
        directory.append(record(1))
    assert len(error.value.lines()) == 1
    assert sorted(directory.records) == [0, 1]
    assert [r["index"] for r in read_sweep(tmp_path / "a").records] == [0]


def test_what_did_not_go_well_is_listed_after_the_tables():
    records = [record(0, pps=1.0, n=1), record(2, nrules=2, failed="its worker: killed by SIGKILL (9)")]
    outcome = Outcome(PLAN, records, [130])
    text = sweep_text(outcome, SCENARIO)
    assert text.startswith(
        "s: virtual clock, host profile ryzen-5600x, 10s after 2s of warmup, seed 1\n"
        "\n"
        "BQL v7, throughput, packets a second, 1 run\n"
        "nrules |    0us\n"
        "     0 |   1.00\n"
        "     1 |      -\n"
        "     2 | failed\n"
    )
    assert text.endswith(
        "\nFAILED: 1 of 3 cells\n"
        "  v7 nrules=2 tx_usecs=0 #0: its worker: killed by SIGKILL (9)\n"
        "INCOMPLETE: 1 of 3 cells not run: v7 nrules=1 tx_usecs=0 #0\n"
        "identities: all hold in 1 cell\n"
    )
    assert outcome.exit_code == 130


def test_an_identity_that_does_not_hold_is_named():
    outcome = Outcome(PLAN[:1], [record(0, identity=False, failed=None) | {"exit_code": 1}])
    assert "identities: 1 FAILED\n  v7 nrules=0 tx_usecs=0 #0: pool: 1 is not 2 free 1\n" in sweep_text(
        outcome, SCENARIO
    )
    assert outcome.exit_code == 1


def test_an_unmet_expectation_is_named():
    outcome = Outcome(PLAN[:1], [record(0) | {"verdict": "1 of 2 expectations failed", "exit_code": 1}])
    assert "not as expected: 1 of 1 cell\n  v7 nrules=0 tx_usecs=0 #0: 1 of 2 expectations failed\n" in sweep_text(
        outcome, SCENARIO
    )


def test_json_holds_rows_failures_and_what_is_missing(tmp_path):
    records = [record(0, pps=1.0, n=1), record(2, nrules=2, failed="gone")]
    manifest = MANIFEST | {"versions": {}}
    document = sweep_document(Outcome(PLAN, records), manifest, tmp_path)
    assert document["rows"][0]["pps"] == 1.0
    assert [(row["pps"], row["repetitions"], row["failed"]) for row in document["rows"][1:]] == [
        (None, 0, 0),
        (None, 0, 1),
    ]
    assert document["failed"] == [{"cell": "v7 nrules=2 tx_usecs=0 #0", "verdict": "gone", "exit_code": 3}]
    assert document["missing"] == ["v7 nrules=1 tx_usecs=0 #0"]
    assert (document["identities"]["ok"], document["exit_code"]) == (True, 3)
    json.dumps(document, allow_nan=False)


def test_nothing_measured_has_no_tables():
    assert sweep_text(Outcome(PLAN, [], [130]), SCENARIO).startswith("INCOMPLETE: 3 of 3 cells not run")
