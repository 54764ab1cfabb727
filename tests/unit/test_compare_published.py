"""A result against published figures: errors, counts, gates, and how they are shown."""

import json
import re
import sys
from pathlib import Path

import pytest
from results import write_sweep

from emulator.cli import main
from emulator.errors import UsageError
from emulator.report.compare.lines import plain
from emulator.report.compare.published import CellError, compare_published, read_requirement
from emulator.report.compare.published_text import published_document, published_lines
from emulator.report.compare.results import read_measured
from emulator.report.reference import Key, read_cells_csv

REFERENCE = """variant,nrules,tx_usecs,pps,rtt_avg_ms,rtt_p99_ms
v7,0,50,1000000,0.100,
v7,0,100,1000000,0.200,
off,0,,1250000,0.300,
v7,10,50,13000,1.00,
v7,10,100,13000,2.00,
stock,10,,13000,4.00,
"""
RESULT = """variant,nrules,tx_usecs,pps,rtt_avg_ms,rtt_p50_ms,rtt_p99_ms,n,limit_p50
v7,0,50,1050000,0.1,0.1,0.2,10,8
v7,0,100,900000,0.25,0.2,0.3,10,8
stock,0,,1500000,,,,0,
v7,10,50,13400,1.004,1,2,10,9
stock,10,,6500,3.00,4,5,10,
v7,500,50,7000,3,4,5,10,7
v7,500,100,7000,3,4,5,10,7
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "reference.csv").write_text(REFERENCE)
    (tmp_path / "sweep.csv").write_text(RESULT)
    return tmp_path / "sweep.csv", tmp_path / "reference.csv"


def compared(files, columns=(), requirements=()):
    result, reference = files
    return compare_published(
        read_measured(result, {}), read_cells_csv(reference), columns, [read_requirement(r) for r in requirements]
    )


def test_errors_are_relative_to_the_published_figure_and_signed(files):
    pps, rtt = compared(files).tables
    assert [c.error_pct for c in pps.cells] == [5.0, -10.0, 20.0, pytest.approx(100 * 400 / 13000), None, -50.0]
    assert [c.error_pct for c in rtt.cells] == [0.0, pytest.approx(25.0), None, pytest.approx(0.4), None, -25.0]


def test_counts_median_worst_and_missing(files):
    pps, rtt = compared(files).tables
    assert [pps.within(pct) for pct in (5, 10, 20)] == [2, 3, 4]
    assert (len(pps.cells), pps.missing, len(pps.not_published)) == (6, [Key("v7", 10, 100.0)], 2)
    assert (pps.median_pct, pps.worst.error_pct, pps.worst.key) == (10.0, -50.0, Key("stock", 10, None))
    assert rtt.missing == [Key("stock", 0, None), Key("v7", 10, 100.0)]


def test_exactly_ten_percent_is_within_ten_percent():
    assert CellError(Key("v7", 0, 0.0), 1.0, 0.05, 1.1).within(10)
    assert not CellError(Key("v7", 0, 0.0), 1.0, 0.05, 1.1001).within(10)


def test_an_error_within_the_rounding_of_the_publication(files):
    pps, rtt = compared(files).tables
    assert [c.in_rounding for c in pps.cells] == [False, False, False, True, False, False]
    assert [c.in_rounding for c in rtt.cells] == [True, False, False, True, False, False]


def test_nothing_published_against_something_found():
    assert CellError(Key("v7", 0, 0.0), 0.0, 0.5, 0.0).error_pct == 0.0
    found = CellError(Key("v7", 0, 0.0), 0.0, 0.5, 3.0)
    assert (found.error_pct, found.within(1e9)) == (None, False)


def test_requirements():
    assert str(read_requirement("pps:10%:46")) == "pps within 10 % in at least 46 cells"
    assert read_requirement("pps:12.5:46") == read_requirement("pps:12.5%:46")
    assert str(read_requirement("rtt_avg_ms:35%:all")) == "rtt_avg_ms within 35 % in all cells"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pps:10", "--require 'pps:10': expected COLUMN:PERCENT:CELLS, e.g. pps:10%:46"),
        ("pps:ten:46", "--require 'pps:ten:46': expected COLUMN"),
        ("pps:10%:-1", "--require 'pps:10%:-1': expected COLUMN"),
        ("pp:10%:1", "no metric is called 'pp', did you mean 'pps'?; allowed: pps, rtt_avg_ms,"),
    ],
)
def test_requirements_that_make_no_sense(text, said):
    with pytest.raises(UsageError) as refused:
        read_requirement(text)
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize(
    ("columns", "requirements", "said"),
    [
        (["limit_p50"], [], "do not both have limit_p50; allowed: pps, rtt_avg_ms"),
        ([], ["rtt_p99_ms:10%:1"], "do not both have rtt_p99_ms; allowed: pps, rtt_avg_ms"),
        ([], ["pps:10%:7"], "--require: pps within 10 % in at least 7 cells, but only 6 are published"),
    ],
)
def test_what_cannot_be_compared_is_refused(files, columns, requirements, said):
    with pytest.raises(UsageError, match=".*".join(said.split(" (")[:1])):
        compared(files, columns, requirements)


def test_the_table_in_the_shape_of_the_list(files):
    text = [plain(line) for line in published_lines(compared(files, ["pps"]), 100)]
    assert text[2:] == [
        "",
        "throughput, kpps",
        "nrules             50us    100us  ||   stock",
        "0      published  1000     1000   ||   1250",
        "       result     1050      900   ||   1500",
        "       error, %   +5.0    -10.0   ||  +20.0",
        "10     published    13       13   ||     13",
        "       result     13.4        -   ||   6.50",
        "       error, %   +3.1~  missing  ||  -50.0",
        "",
        "throughput: within 5 % 2/6, 10 % 3/6, 20 % 4/6; median 10 %, worst 50.0 % at stock nrules=10",
        "  1 cell missing: v7 nrules=10 100us",
        "  2 cells of the result not published",
    ]


def test_a_narrow_table_is_cut_into_blocks_that_fit(files):
    text = [plain(line) for line in published_lines(compared(files), 36)]
    tables = text[
        text.index("throughput, kpps") : text.index(
            "throughput: within 5 % 2/6, 10 % 3/6, 20 % 4/6; median 10 %, worst 50.0 % at stock nrules=10"
        )
    ]
    assert max(map(len, tables)) <= 36
    assert sum(line.startswith("nrules") for line in tables) == 4


def test_two_bql_variants_in_one_file(tmp_path):
    (tmp_path / "r.csv").write_text("variant,nrules,tx_usecs,pps\nv6,0,50,100\nv7,0,50,100\nv5,0,,100\noff,0,,100\n")
    found = compared((tmp_path / "r.csv", tmp_path / "r.csv"))
    header = next(line for line in map(plain, published_lines(found, 100)) if line.startswith("nrules"))
    assert header.split() == ["nrules", "v5", "v6", "50us", "v7", "50us", "||", "stock"]


def test_the_document(files):
    document = published_document(compared(files, (), ["pps:10%:3", "pps:10%:all"]), 1)
    assert set(document) == {
        "schema",
        "kind",
        "result",
        "reference",
        "settings",
        "tables",
        "requirements",
        "notes",
        "exit_code",
    }
    pps = document["tables"][0]
    assert {
        key: pps[key] for key in ("metric", "n", "within", "median_pct", "worst_pct", "missing", "not_published")
    } == {
        "metric": "pps",
        "n": 6,
        "within": {"5": 2, "10": 3, "20": 4},
        "median_pct": 10.0,
        "worst_pct": -50.0,
        "missing": 1,
        "not_published": 2,
    }
    assert pps["worst_cell"] == {"variant": "stock", "nrules": 10, "tx_usecs": None}
    assert pps["cells"][4] == {
        "variant": "v7",
        "nrules": 10,
        "tx_usecs": 100.0,
        "published": 13000.0,
        "half_width": 500.0,
        "result": None,
        "error_pct": None,
        "in_rounding": False,
        "missing": True,
    }
    assert [r["ok"] for r in document["requirements"]] == [True, False]


def cells(pps):
    return {Key("v7", 0, 50.0): [{"pps": p, "rtt_avg_ms": 0.1} for p in pps]}


def test_a_sweeps_directory_gives_the_median_of_its_repetitions(tmp_path):
    path = write_sweep(tmp_path / "s", cells([900_000, 1_050_000, 2_000_000]))
    assert read_measured(path, {}).cells == {Key("v7", 0, 50.0): {"pps": 1_050_000.0, "rtt_avg_ms": 0.1}}


def test_failed_cells_are_missing_and_said(tmp_path):
    key = Key("v7", 0, 50.0)
    path = write_sweep(tmp_path / "s", cells([1, 2]), failed=[(key, 0), (key, 1)])
    found = read_measured(path, {})
    assert found.cells == {key: {}}
    assert found.notes == (f"{path}: v7 nrules=0 tx_usecs=50.0 failed: killed by SIGKILL (9)",)


def two_values_of_a_field(tmp_path):
    one = write_sweep(tmp_path / "s", cells([1_000_000]), others={"device.num_tx_queues": 1})
    other = write_sweep(tmp_path / "t", cells([2_000_000]), others={"device.num_tx_queues": 6})
    record = json.loads((other / "cells.jsonl").read_text()) | {"index": 1}
    with (one / "cells.jsonl").open("a") as file:
        file.write(json.dumps(record) + "\n")
    (one / "sweep.json").write_text(json.dumps(json.loads((one / "sweep.json").read_text()) | {"plan": [{}, {}]}))
    return one


def test_cells_that_would_stand_in_one_place_must_be_chosen(tmp_path):
    path = two_values_of_a_field(tmp_path)
    with pytest.raises(UsageError) as refused:
        read_measured(path, {})
    said = "is there for device.num_tx_queues 1 and 6; choose, e.g. --where device.num_tx_queues=1"
    assert str(refused.value) == f"{path}: v7 nrules=0 50us {said}"
    chosen = read_measured(path, {"device.num_tx_queues": ("6",)})
    assert chosen.cells[Key("v7", 0, 50.0)]["pps"] == 2_000_000


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("nrules", "--where 'nrules': expected NAME=VALUE, e.g. nrules=1000"),
        (
            "device.num_tx_queue=1",
            "has no 'device.num_tx_queue', did you mean 'device.num_tx_queues'?; allowed: variant,",
        ),
        ("nrules=7", "--where nrules='7': {path} has none; allowed: 0"),
    ],
)
def test_where_that_fits_nothing_is_refused(tmp_path, capsys, files, where, said):
    path = two_values_of_a_field(tmp_path)
    assert main(["compare", str(path), "--reference", str(files[1]), "--where", where]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert said.format(path=path) in err


def test_the_command_prints_tables_and_returns_what_is_required(files, capsys):
    result, reference = map(str, files)
    assert main(["compare", result, "--reference", reference, "--require", "pps:10%:3"]) == 0
    out, err = capsys.readouterr()
    assert "required: pps within 10 % in at least 3 cells: 3 of 6, met" in out
    assert "\x1b" not in out
    assert err == ""
    assert main(["compare", result, "--reference", reference, "--require", "pps:10%:4"]) == 1
    assert "required: pps within 10 % in at least 4 cells: 3 of 6, FAILED" in capsys.readouterr().out


def test_json_is_all_there_is_on_stdout(files, capsys):
    result, reference = files
    reference.write_text(REFERENCE.replace("rtt_p99_ms", "loss_pct"))
    assert main(["compare", str(result), "--reference", str(reference), "--json", "--require", "pps:5%:all"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["exit_code"] == 1
    assert err == f"{reference}:1: column 'loss_pct' is left out: no result has it (warning)\n"


def test_colours_are_for_terminals_that_want_them(files, capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    command = ["compare", *map(str, files[:1]), "--reference", str(files[1])]
    assert main(command) == 0
    assert "\x1b[" in (coloured := capsys.readouterr().out)
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(command) == 0
    assert "\x1b[" not in (plain_text := capsys.readouterr().out)

    def words(text):
        return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()]

    assert words(coloured) == words(plain_text)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["{s}", "{s}", "--reference", "{r}"], "--reference goes with one result; 2 were given"),
        (["{s}"], "give two results, A and B, or one with --reference CSV; see emulator compare --help"),
        (["{d}", "--reference", "{r}"], "sweep.json: cannot read: No such file or directory; give the directory of a"),
        (
            ["{s}", "--reference", "{r}", "--where", "rules=0"],
            "{s} has no 'rules', did you mean 'nrules'?; allowed: var",
        ),
        (["{s}", "--reference", "{r}", "--where", "nrules=7"], "--where nrules='7': {s} has none; allowed: 0, 10, 500"),
        (["{s}", "{s}", "--require", "pps:1:1"], "--require goes with --reference CSV"),
        (["{s}", "--reference", "{r}", "--metric", "rtt"], "no metric is called 'rtt'"),
    ],
)
def test_usage(files, tmp_path, capsys, argv, said):
    (tmp_path / "d").mkdir()
    names = {"s": files[0], "r": files[1], "d": tmp_path / "d"}
    assert main(["compare", *(a.format(**names) for a in argv)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert said.format(**names) in err


def test_where_narrows_both_sides(files, capsys):
    command = ["compare", str(files[0]), "--reference", str(files[1]), "--metric", "pps"]
    assert main([*command, "--where", "nrules=10", "--where", "tx_usecs=50us"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[5:8]] == [
        ["10", "published", "13", "||", "13"], ["result", "13.4", "||", "6.50"], ["error,", "%", "+3.1~", "||", "-50.0"]
    ]  # fmt: skip
    assert lines[-1] == "throughput: within 5 % 1/2, 10 % 1/2, 20 % 1/2; median 27 %, worst 50.0 % at stock nrules=10"


def test_a_column_that_only_the_published_table_has_chooses_among_its_rows(tmp_path, files, capsys):
    both = tmp_path / "both.csv"
    both.write_text("case,variant,nrules,tx_usecs,pps\nx,v7,0,50,1000000\ny,v7,0,50,2000000\nz,v9,,,\n")
    command = ["compare", str(files[0]), "--reference", str(both)]
    assert main(command) == 2
    said = "3: v7 nrules=0 50us is there already, in line 2; they differ in case; choose, e.g. --where case=x"
    assert capsys.readouterr().err == f"emulator: error: {both}:{said}\n"
    assert main([*command, "--where", "case=y", "--json"]) == 0
    out, err = capsys.readouterr()
    (cell,) = json.loads(out)["tables"][0]["cells"]
    assert (cell["published"], err) == (2000000, "")
    assert main([*command, "--where", "case=w"]) == 2
    assert f"--where case='w': {both} has none; allowed: x, y, z" in capsys.readouterr().err


def test_a_table_of_a_sweep_with_further_fields_is_narrowed_by_them(tmp_path, files, capsys):
    mine = tmp_path / "mine.csv"
    mine.write_text("variant,nrules,tx_usecs,pps,device.mtu\nv7,0,50,1,1500\nv7,0,50,2,9000\nstock,0,,3,\n")
    command = ["compare", str(mine), "--reference", str(files[1]), "--json"]
    assert main(command) == 2
    assert "they differ in device.mtu; choose, e.g. --where device.mtu=1500" in capsys.readouterr().err
    assert main([*command, "--where", "device.mtu=9000"]) == 0
    assert [c["result"] for c in json.loads(capsys.readouterr().out)["tables"][0]["cells"]] == [
        2,
        None,
        3,
        None,
        None,
        None,
    ]


def test_the_sweep_csv_of_a_sweep_is_read_as_its_sweep(tmp_path):
    path = write_sweep(tmp_path / "s", cells([1_000_000]), scenario={"name": "x", "device": {"mtu": 1500}})
    (path / "sweep.csv").write_text("variant,nrules,tx_usecs,pps\nv7,0,50,1000000\n")
    found = read_measured(path / "sweep.csv", {"device.mtu": ("1500",)})
    assert (found.cells, found.settings.line) == (read_measured(path, {}).cells, "x, virtual clock, 1 repetition")


def test_how_the_result_was_made_stands_above_the_tables(tmp_path, files):
    scenario = {"name": "x", "duration": "2s", "host": {"name": "box"}}
    path = write_sweep(tmp_path / "s", cells([1_000_000] * 3), scenario=scenario, clock="real", timing="fair")
    found = compared((path, files[1]))
    assert plain(published_lines(found, 100)[1]) == "x, real clock, host box, 2s x 3 repetitions; timing fair in 3 of 3"
    assert published_document(found, 0)["settings"] == {
        "said": "x, real clock, host box, 2s x 3 repetitions", "timing": {"fair": 3}
    }  # fmt: skip


def test_rows_and_columns_that_are_missing_throughout_are_one_line(tmp_path, files):
    result = tmp_path / "few.csv"
    result.write_text("variant,nrules,tx_usecs,pps\nv7,0,50,1050000\nstock,0,,1500000\n")
    text = [plain(line) for line in published_lines(compared((result, files[1])), 100)]
    assert text[4:9] == [
        "nrules             50us  ||   stock",
        "0      published  1000   ||   1250",
        "       result     1050   ||   1500",
        "       error, %   +5.0   ||  +20.0",
        "not in the result, and not shown: nrules 10; 100us",
    ]
    assert "  4 cells missing: v7 nrules=0 100us, v7 nrules=10 50us, v7 nrules=10 100us and 1 more" in text


def test_a_stock_column_alone_is_a_reference(tmp_path, files):
    reference = tmp_path / "stock.csv"
    reference.write_text("nrules,pps\n0,1250000\n10,13000\n")
    (table,) = compared((files[0], reference)).tables
    assert [(str(c.key), c.error_pct) for c in table.cells] == [("stock nrules=0", 20.0), ("stock nrules=10", -50.0)]


def test_every_published_table_compares_with_itself():
    path = Path(__file__).parents[1] / "reference" / "veth-bql-v7-sweep.csv"
    found = compare_published(read_measured(path, {}), read_cells_csv(path), (), [read_requirement("pps:0%:all")])
    assert [(table.within(5), table.worst.error_pct) for table in found.tables] == [(48, 0.0)] * 3
    assert found.met[0].ok
