"""Records of a sweep: written, read back, put together."""

import json
import math

import numpy as np
import pytest

from emulator.errors import UsageError
from emulator.kernel.hist import HIST, hist_add
from emulator.report.blank import blank_measurement
from emulator.report.cells import (
    CELLS_FILE,
    COLUMNS,
    HISTOGRAMS,
    KIND,
    MANIFEST_FILE,
    SCHEMA,
    cell_histograms,
    cell_row,
    cells_of,
    complete_records,
    is_sweep,
    plain_histogram,
    read_histogram,
    read_sweep,
    record_line,
)
from emulator.report.histogram import Hist, histogram_of
from emulator.report.summary import summarise

KEYS = {"variant": "v7", "nrules": 1000, "tx_usecs": 100}


def record(index, *, rep=0, pps=1000.0, n=10, requeues=3, status="ok", variant="v7", fields=None):
    ok = status == "ok"
    row = dict.fromkeys(COLUMNS) | KEYS | {"variant": variant, "pps": pps, "n": n, "requeues": requeues}
    return {
        "schema": SCHEMA,
        "cell": f"{variant} nrules=1000 tx_usecs=100 #{rep}",
        "index": index,
        "rep": rep,
        "seed": 1 + rep,
        **KEYS,
        "variant": variant,
        "fields": {"netfilter.rules": 1000} if fields is None else fields,
        "status": status,
        "verdict": "ok" if ok else "killed by SIGKILL (9)",
        "exit_code": 0 if ok else 3,
        "row": row if ok else None,
        "hist": dict.fromkeys(HISTOGRAMS) | {"rtt_ns": plain_histogram(histogram_of(np.array([1000 * (rep + 1)])))}
        if ok
        else None,
        "summary": {} if ok else None,
        "run": {},
    }


def written(tmp_path, records, plan=2, **manifest):
    (tmp_path / MANIFEST_FILE).write_text(json.dumps({"kind": KIND, "schema": SCHEMA, "plan": [{}] * plan, **manifest}))
    (tmp_path / CELLS_FILE).write_text("".join(map(record_line, records)))
    return tmp_path


def test_a_histogram_of_values_is_the_one_that_the_kernel_counts():
    values = np.random.default_rng(1).integers(0, 2**41, 300) >> np.random.default_rng(2).integers(0, 41, 300)
    counted = np.zeros(1, HIST).view(np.recarray)[0]
    for value in [*values.tolist(), -5]:
        hist_add(counted, value)
    made = histogram_of(np.array([*values.tolist(), -5]))
    assert made.counts.tolist() == counted.counts.tolist()
    assert (made.n, made.sum, made.min, made.max) == tuple(counted[k] for k in ("n", "sum", "min", "max"))


def test_a_histogram_survives_writing_and_reading():
    hist = histogram_of(np.array([0, 5, 5, 127, 128, 10**9]))
    back = read_histogram(json.loads(json.dumps(plain_histogram(hist))))
    assert back.counts.tolist() == hist.counts.tolist()
    assert (back.n, back.sum, back.min, back.max) == (6, 10**9 + 265, 0, 10**9)
    assert plain_histogram(Hist()) == {"n": 0, "sum": 0, "min": None, "max": None, "buckets": []}
    assert read_histogram(plain_histogram(Hist())).n == 0


def test_the_row_of_a_cell_has_the_columns_in_their_order_and_nothing_that_was_not_measured():
    row = cell_row(summarise(blank_measurement()), KEYS)
    assert tuple(row) == COLUMNS
    assert (row["pps"], row["n"], row["requeues"], row["limit_p50"]) == (1.0, 1, 0, 1)
    stock = cell_row(summarise(blank_measurement(bql="off")), KEYS | {"variant": "stock", "tx_usecs": None})
    assert stock["limit_p50"] is None
    assert stock["interval_p50_us"] is None
    assert stock["pps"] == 1.0


def test_histograms_of_a_cell_are_those_of_the_flood_and_stock_has_none_of_bql():
    assert set(cell_histograms(blank_measurement())) == set(HISTOGRAMS)
    assert cell_histograms(blank_measurement())["rtt_ns"]["sum"] == 10**9
    stock = cell_histograms(blank_measurement(bql="off"))
    assert [name for name in HISTOGRAMS if stock[name] is None] == ["limit", "inflight", "count", "interval_ns"]


def test_repetitions_become_one_cell_with_medians_and_the_sum_of_n():
    cell, other = cells_of(
        [record(3, variant="stock"), record(2, rep=2, pps=5.0), record(0, pps=1.0), record(1, rep=1, pps=2.0)]
    )
    assert (cell.variant, other.variant) == ("v7", "stock")
    assert (cell.values["pps"], cell.values["n"], cell.values["rtt_avg_ms"]) == (2.0, 30, None)
    assert cell.samples("pps") == [1.0, 2.0, 5.0]
    assert cell.histogram("rtt_ns").sum == 6000
    assert cell.histogram("limit") is None
    assert cell.name == "v7 nrules=1000 tx_usecs=100"


def test_a_median_of_counts_is_whole_when_it_can_be():
    (cell,) = cells_of([record(0, requeues=2), record(1, rep=1, requeues=4)])
    assert json.dumps(cell.values["requeues"]) == "3"
    (cell,) = cells_of([record(0, requeues=2), record(1, rep=1, requeues=5)])
    assert cell.values["requeues"] == 3.5


def test_a_failed_repetition_counts_for_nothing_and_is_kept():
    (cell,) = cells_of([record(0, pps=7.0), record(1, rep=1, status="failed")])
    assert (cell.values["pps"], len(cell.failed)) == (7.0, 1)
    (cell,) = cells_of([record(0, status="failed")])
    assert set(cell.values.values()) == {None}


def test_other_fields_of_the_sweep_keep_their_order_and_columns_are_not_among_them():
    fields = {"device.ring_size": 64, "netfilter.rules": 1, "device.bql.tx_usecs": "1us", "ping.interval": "1ms"}
    (cell,) = cells_of([record(0, fields=fields)])
    assert list(cell.others.items()) == [("device.ring_size", 64), ("ping.interval", "1ms")]


def test_a_sweep_is_read_in_the_order_of_its_plan(tmp_path):
    sweep = read_sweep(written(tmp_path, [record(1, rep=1), record(0)]))
    assert [r["index"] for r in sweep.records] == [0, 1]
    assert sweep.complete
    assert not read_sweep(written(tmp_path, [record(1)])).complete
    assert [c.values["n"] for c in read_sweep(tmp_path / CELLS_FILE).cells] == [10]


def test_a_torn_line_is_left_out_and_said(tmp_path):
    written(tmp_path, [record(0), record(1)])
    whole = (tmp_path / CELLS_FILE).read_bytes()
    (tmp_path / CELLS_FILE).write_bytes(whole[:-40])
    sweep = read_sweep(tmp_path)
    assert len(sweep.records) == 1
    assert "line 2 is torn" in sweep.notes[0]


def test_of_two_records_of_a_cell_the_later_counts():
    records, _ = complete_records((record_line(record(0, status="failed")) + record_line(record(0))).encode())
    assert [r["status"] for r in records] == ["ok"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "give the directory of a sweep's results"),
        ("{", "is not JSON"),
        ("{}", "is not of a sweep"),
        ('{"kind": "emulator results"}', "is not of a sweep"),
        (json.dumps({"kind": KIND, "schema": 99}), "results of version 99; this emulator reads version 1"),
    ],
)
def test_what_is_no_sweep_is_refused_in_one_line(tmp_path, text, said):
    if text is not None:
        (tmp_path / MANIFEST_FILE).write_text(text)
    with pytest.raises(UsageError, match=said) as caught:
        read_sweep(tmp_path)
    assert len(caught.value.lines()) == 1
    assert not is_sweep(tmp_path)


def test_records_of_another_version_are_refused(tmp_path):
    with pytest.raises(UsageError, match="records of version 2"):
        read_sweep(written(tmp_path, [record(0) | {"schema": 2}]))


OK = {
    "schema": 1, "cell": "v7 nrules=0 tx_usecs=0 #0", "index": 0, "rep": 0, "seed": 1, "variant": "v7", "nrules": 0,
    "tx_usecs": 0, "fields": {}, "status": "ok", "verdict": "ok", "exit_code": 0, "summary": {}, "run": {},
    "row": dict.fromkeys(COLUMNS, 1),
    "hist": {name: {"n": 1, "sum": 3, "min": 3, "max": 3, "buckets": [[3, 1]]} for name in HISTOGRAMS},
}  # fmt: skip


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("row", None, "an ok cell has row, hist and summary"),
        ("row", {}, "row: no 'pps'"),
        ("row.pps", "fast", "row.pps: is not a finite number from 0"),
        ("row.pps", 10**400, "row.pps: is not a finite number from 0"),
        ("row.pps", math.nan, "row.pps: is not a finite number from 0"),
        ("row.rtt_avg_ms", -1, "row.rtt_avg_ms: is not a finite number from 0"),
        ("row.n", True, "row.n: is not a finite number from 0"),
        ("hist", {}, "hist: no 'rtt_ns'"),
        ("hist.count", 5, "hist.count: "),
        ("hist.count.buckets", [[10**9, 1]], "hist.count.buckets.0.0: "),
        ("hist.count.buckets", [[1, -5]], "hist.count.buckets.0.1: "),
        ("status", "good", "status: "),
        ("index", -1, "index: "),
        ("cell", None, "cell: "),
    ],
)
def test_what_is_not_a_record_is_left_out_and_said(key, value, says):
    record = json.loads(json.dumps(OK))
    *parents, last = key.split(".")
    inner = record
    for parent in parents:
        inner = inner[parent]
    inner[last] = value
    good = json.dumps(OK | {"index": 7})
    found, notes = complete_records(f"{json.dumps(record)}\n{good}\n".encode())
    assert [r["index"] for r in found] == [7]
    assert len(notes) == 1
    assert notes[0].startswith("line 1 is not the record of a cell (" + says)


def test_lines_nested_too_deep_are_torn():
    assert complete_records(b'{"a":' * 100_000)[1] == ["line 1 is torn (500000 bytes) and left out"]
    found, notes = complete_records(b"[1]\n5\n")
    assert (found, len(notes)) == ([], 2)


@pytest.mark.parametrize(
    ("key", "value"), [("plan", 7), ("plan", [1]), ("resumed", 7), ("order", ["a"]), ("scenario", [])]
)
def test_a_damaged_manifest_is_one_line(tmp_path, key, value):
    manifest = {"kind": "emulator sweep", "schema": 1, "plan": [], key: value}
    (tmp_path / "sweep.json").write_text(json.dumps(manifest))
    with pytest.raises(UsageError, match=rf"sweep.json: is damaged \({key}"):
        read_sweep(tmp_path)
