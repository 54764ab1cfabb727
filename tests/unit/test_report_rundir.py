"""Results on disk: whole files, partial runs, full disks, other people's directories."""

import csv
import errno
import json
import os
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from emulator.errors import CannotRun, ExitCode
from emulator.report import rundir
from emulator.report.blank import blank_measurement, blank_txq, one_value
from emulator.report.document import document_json, run_document
from emulator.report.measurement import Trace, TraceEvent, VariantMeasurement
from emulator.report.rundir import ResultsDirectory, reserve_directory, safe_name, write_results, write_text
from emulator.report.summary import summarise

MANIFEST = {"command_line": ["emulator", "run", "x.yaml"], "seed": 7, "scenario": {"name": "x"}, "host": {"cpus": 2}}


def write(path, *names):
    measurements = [blank_measurement(name) for name in names]
    document = run_document(
        [summarise(m) for m in measurements], scenario={"name": "x"}, host={}, command_line=["emulator"]
    )
    write_results(path, manifest=MANIFEST, measurements=measurements, document=document, events=[{"t_ns": 1}])
    return document


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def files(path):
    return sorted(str(p.relative_to(path)) for p in path.rglob("*") if p.is_file())


def test_what_is_kept(tmp_path):
    document = write(tmp_path / "r", "stock", "v7")
    per_variant = ["counters.json", "histograms.json", "probes.csv", "series.csv", "summary.json"]
    assert files(tmp_path / "r") == sorted(
        ["events.jsonl", "run.json", "summary.json"]
        + [f"variants/{v}/{name}" for v in ("stock", "v7") for name in per_variant]
    )
    assert read(tmp_path / "r/summary.json") == json.loads(document_json(document))
    assert read(tmp_path / "r/variants/v7/summary.json") == document["variants"][1]
    assert (tmp_path / "r/events.jsonl").read_text() == '{"t_ns":1}\n'
    manifest = read(tmp_path / "r/run.json")
    assert (manifest["seed"], manifest["complete"], manifest["exit_code"]) == (7, True, 0)
    assert [v["folder"] for v in manifest["variants"]] == ["variants/stock", "variants/v7"]
    assert set(manifest["versions"]) == {"emulator", "python", "numba", "llvmlite", "numpy", "kernel"}


def test_missing_samples_are_empty_cells(tmp_path):
    m = replace(blank_measurement("a"), series={"t_s": np.array([0.0, 0.5]), "limit": np.array([np.nan, 16.0])})
    results = ResultsDirectory(tmp_path / "r", MANIFEST)
    folder = results.write_variant(replace(m, probes=None), summarise(m))
    assert list(csv.reader((folder / "series.csv").open())) == [["t_s", "limit"], ["0", ""], ["0.5", "16"]]
    assert not (folder / "probes.csv").exists()


def test_a_trace_is_an_object_a_line_and_counted_in_the_summary(tmp_path):
    events = [
        TraceEvent(100_001, "flood0", "net_dev_xmit", {"flow": "flood 0.0", "seq": 1}),
        TraceEvent(2_000_000, "napi/veth1-0", "bql_complete", {"count": 1, "limit": 2}),
    ]
    m = replace(blank_measurement("a"), trace=Trace(events, lost=7))
    folder = ResultsDirectory(tmp_path / "r", MANIFEST).write_variant(m, summarise(m))
    assert (folder / "trace.jsonl").read_text() == (
        '{"t_us":100.001,"agent":"flood0","event":"net_dev_xmit","flow":"flood 0.0","seq":1}\n'
        '{"t_us":2000.0,"agent":"napi/veth1-0","event":"bql_complete","count":1,"limit":2}\n'
    )
    assert read(folder / "summary.json")["trace"] == {"events": 2, "lost": 7}
    assert "trace" not in read(folder / "counters.json")
    assert VariantMeasurement.from_dict(m.to_dict()).trace == m.trace
    ResultsDirectory(tmp_path / "r", MANIFEST)
    assert not (folder / "trace.jsonl").exists()


def test_without_a_trace_there_is_neither_file_nor_count(tmp_path):
    m = blank_measurement("a")
    folder = ResultsDirectory(tmp_path / "r", MANIFEST).write_variant(m, summarise(m))
    assert not (folder / "trace.jsonl").exists()
    assert "trace" not in read(folder / "summary.json")


def test_histograms_give_their_buckets(tmp_path):
    m = replace(blank_measurement("a"), txqs=[replace(blank_txq("v7"), limit_hist=one_value(16, 5))])
    folder = ResultsDirectory(tmp_path / "r", MANIFEST).write_variant(m, summarise(m))
    limit = read(folder / "histograms.json")["txqs"]["veth0/tx-0"]["limit"]
    assert limit == {"n": 5, "sum": 80, "min": 16, "max": 16, "buckets": [[16, 16, 5]]}


def test_a_run_that_dies_keeps_the_variants_before(tmp_path):
    results = ResultsDirectory(tmp_path / "r", MANIFEST)
    dead = replace(blank_measurement("stock"), complete=False, verdict="agent flood killed", exit_code=3)
    results.write_variant(dead, summarise(dead))
    manifest = read(tmp_path / "r/run.json")
    assert manifest["complete"] is False
    assert manifest["variants"][0]["verdict"] == "agent flood killed"
    assert read(tmp_path / "r/variants/stock/summary.json")["exit_code"] == ExitCode.AGENT_FAILED


def test_names_become_safe_and_different_folders(tmp_path):
    names = ["v7 at 100 us", "V7 at 100 us", "..", "tx\u00b5s=5", "v7-at-100-us-2"]
    write(tmp_path / "r", *names)
    folders = [v["folder"] for v in read(tmp_path / "r/run.json")["variants"]]
    assert len({f.lower() for f in folders}) == len(names)
    assert all((tmp_path / "r" / f / "summary.json").is_file() for f in folders)
    assert safe_name("..") == "unnamed"


def test_earlier_results_are_replaced_and_nothing_else(tmp_path):
    write(tmp_path / "r", "stock", "v7")
    (tmp_path / "r/notes.txt").write_text("mine")
    write(tmp_path / "r", "v6")
    assert (tmp_path / "r/notes.txt").read_text() == "mine"
    assert not (tmp_path / "r/variants/stock/summary.json").exists()
    assert [v["name"] for v in read(tmp_path / "r/run.json")["variants"]] == ["v6"]


@pytest.mark.parametrize("content", [None, "not json", "[]", '{"kind": "something else"}'])
def test_a_directory_of_somebody_else_is_left_alone(tmp_path, content):
    (tmp_path / "summary.json").write_text("precious")
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    before = files(tmp_path)
    with pytest.raises(CannotRun, match="--out"):
        write(tmp_path, "stock")
    assert files(tmp_path) == before
    assert (tmp_path / "summary.json").read_text() == "precious"


def test_links_out_of_a_results_directory_are_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "summary.json").write_text("precious")
    write(tmp_path / "r", "stock")
    (tmp_path / "r/variants/link").symlink_to(outside)
    write(tmp_path / "r", "stock")
    assert (outside / "summary.json").read_text() == "precious"


def test_a_full_disk_is_one_line_and_leaves_the_old_file(tmp_path, monkeypatch):
    results = ResultsDirectory(tmp_path / "r", MANIFEST)
    first = blank_measurement("stock")
    results.write_variant(first, summarise(first))
    kept = files(tmp_path / "r")

    def full(_fd):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(rundir.os, "fsync", full)
    second = blank_measurement("v7")
    with pytest.raises(CannotRun) as caught:
        results.write_variant(second, summarise(second))
    said = str(caught.value)
    assert "No space left on device" in said
    assert str(tmp_path / "r/variants/v7") in said
    assert "--out" in said
    assert "\n" not in said
    assert caught.value.exit_code == ExitCode.CANNOT_RUN
    assert files(tmp_path / "r") == kept
    assert read(tmp_path / "r/variants/stock/summary.json")["name"] == "stock"


def test_a_device_that_is_really_full_is_told(monkeypatch, tmp_path):
    opened = Path.open

    def to_full(self, *args, **kwargs):
        return opened(Path("/dev/full"), *args, **kwargs)

    monkeypatch.setattr(Path, "open", to_full)
    with pytest.raises(OSError, match="No space left"):
        write_text(tmp_path / "x", "text")


@pytest.mark.parametrize("where", ["/dev/null/r", "/proc/r"])
def test_a_place_that_cannot_be_written_is_one_line(where):
    with pytest.raises(CannotRun, match="cannot write results to"):
        ResultsDirectory(Path(where), MANIFEST)


def test_an_interrupted_write_leaves_the_old_file_and_no_trace(tmp_path, monkeypatch):
    write_text(tmp_path / "x", "old")

    def interrupted(_fd):
        raise KeyboardInterrupt

    monkeypatch.setattr(rundir.os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_text(tmp_path / "x", "new")
    assert files(tmp_path) == ["x"]
    assert (tmp_path / "x").read_text() == "old"


def test_two_runs_of_one_second_have_two_directories(tmp_path):
    now = datetime(2025, 1, 2, 3, 4, 5)
    made = [reserve_directory("dark buffer", now, tmp_path / "runs") for _ in range(3)]
    assert [p.name for p in made] == [f"dark-buffer-20250102-030405{end}" for end in ("", "-2", "-3")]
    assert all(p.is_dir() for p in made)
    write(made[1], "stock")


def test_a_directory_is_written_by_one_run_at_a_time(tmp_path):
    first = ResultsDirectory(tmp_path / "o", MANIFEST)
    with pytest.raises(CannotRun, match="another run is writing its results"):
        ResultsDirectory(tmp_path / "o", MANIFEST)
    first.finish(run_document([], scenario={}, host={}, command_line=[], exit_code=0))
    ResultsDirectory(tmp_path / "o", MANIFEST)


def test_a_manifest_that_is_no_file_or_nests_too_deeply_is_not_ours(tmp_path):
    for name, make in (("fifo", os.mkfifo), ("deep", lambda path: path.write_text("[" * 100_000))):
        (tmp_path / name).mkdir()
        make(tmp_path / name / "run.json")
        with pytest.raises(CannotRun, match="holds no results of ours"):
            ResultsDirectory(tmp_path / name, MANIFEST)
