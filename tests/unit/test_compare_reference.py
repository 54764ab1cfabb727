"""Published tables: what is read, what is refused and in which line."""

from pathlib import Path

import pytest

from emulator.errors import UsageError
from emulator.report.reference import LARGEST_FILE, Key, read_cells_csv

HEADER = "variant,nrules,tx_usecs,pps,rtt_avg_ms\n"
REFERENCE = Path(__file__).parents[1] / "reference"


def table(tmp_path, text, **more):
    path = tmp_path / "x.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_cells_csv(path, **more)


@pytest.mark.parametrize(("name", "cells"), [("v7", 48), ("v6", 20)])
def test_the_published_sweeps(name, cells):
    found = read_cells_csv(REFERENCE / f"veth-bql-{name}-sweep.csv")
    assert len(found.cells) == cells
    assert found.columns == ("pps", "rtt_avg_ms", "rtt_p99_ms")
    assert found.cells[Key("stock", 10000, None)]["rtt_avg_ms"].value == 17.2
    assert ("rtt_p99_ms" in found.cells[Key(name, 0, 0.0)]) == (name == "v7")


@pytest.mark.parametrize(
    "text",
    [
        HEADER + "off,0,,1760000,0.132\nv7,0,50,1890000,\n",
        "\ufeff" + (HEADER + "stock,0,0,1760000,0.132\nv7,0,50.0,1.89e6,\n").replace("\n", "\r\n"),
        "pps , rtt_avg_ms,nrules,tx_usecs,variant\n\n1760000,0.132,0,,stock\n,,,,\n1890000,,0, 50 ,v7",
        HEADER.replace("pps", '"pps"') + 'stock,0,,"1760000",0.132\nv7,0,50,1890000,\n',
    ],
)
def test_one_table_written_in_several_ways(tmp_path, text):
    found = table(tmp_path, text)
    values = {key: {column: figure.value for column, figure in row.items()} for key, row in found.cells.items()}
    assert values == {
        Key("stock", 0, None): {"pps": 1760000, "rtt_avg_ms": 0.132},
        Key("v7", 0, 50.0): {"pps": 1890000},
    }


def test_the_step_in_which_a_figure_is_stated(tmp_path):
    rows = ["1620000,0.31", "1600000,0.315", "13000,16.0", "13,17.25", "20,2", "500000,0.02"]
    cells = table(tmp_path, HEADER + "".join(f"v7,{n},0,{row}\n" for n, row in enumerate(rows))).cells
    halves = {
        column: [cells[Key("v7", n, 0.0)][column].half_width for n in range(6)] for column in ("pps", "rtt_avg_ms")
    }
    assert halves["pps"] == [5000, 5000, 500, 0.5, 0.5, 5000]  # 1.60M, 13K, 20, and 500K has two digits
    assert halves["rtt_avg_ms"] == pytest.approx([0.0005, 0.0005, 0.005, 0.005, 0.5, 0.005])


def test_an_unknown_column_is_left_out_and_said(tmp_path):
    found = table(tmp_path, "variant,nrules,tx_usecs,pps,rtt_p99,n\nv7,0,0,1,2,100\n")
    assert found.columns == ("pps",)
    assert found.notes == (
        f"{tmp_path / 'x.csv'}:1: column 'rtt_p99' is left out: no result has it, did you mean 'rtt_p99_ms'?",
    )


def test_variants_that_do_not_wait_have_no_tx_usecs(tmp_path):
    assert set(table(tmp_path, HEADER + "v5,0,100,1,\noff,0,100,1,\n").cells) == {
        Key("v5", 0, None),
        Key("stock", 0, None),
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "x.csv:1: the header has no variant, nrules, tx_usecs; allowed: variant,nrules,tx_usecs and any of pps,"),
        ("variant,nrules,pps\n", "x.csv:1: the header has no tx_usecs; allowed: "),
        ("variant,nrules,tx_usecs,n\nv7,0,0,1\n", "x.csv:1: the header has no figure; allowed: "),
        ("variant,nrules,tx_usecs,pps,pps\n", "x.csv:1: the header has 'pps' more than once; allowed: "),
        (HEADER, "x.csv: no cells; allowed: a header and a line for each cell"),
        (HEADER + "v7,0,0,1,1\nv7,0,0.0,1,1\n", "x.csv:3: v7 nrules=0 0us is there already, in line 2; allowed: each"),
        (HEADER + "off,0,,1,1\n\nstock,0,,1,1\n", "x.csv:4: stock nrules=0 is there already, in line 2; allowed: each"),
        (HEADER + "v7,0,0,1\n", "x.csv:2: 4 fields; the header has 5"),
        (HEADER + "v8,0,0,1,1\n", "x.csv:2: variant 'v8' is not known; allowed: off, stock, v5, v6, v7"),
        (HEADER + "v7,0.5,0,1,1\n", "x.csv:2: nrules '0.5' is not whole; allowed: 0, 1, 2 ..."),
        (HEADER + "v7,,0,1,1\n", "x.csv:2: nrules is empty; allowed: a number from 0 up"),
        (HEADER + "v7,0,,1,1\n", "x.csv:2: tx_usecs is empty; allowed: a number from 0 up"),
        (HEADER + "v7,0,0,0,1\n", "x.csv:2: pps is 0; allowed: numbers above 0, or empty for what was not published"),
        (HEADER + "v7,0,0,1,\x1b[31m\n", r"x.csv:2: rtt_avg_ms '\x1b[31m' is refused; allowed: a number from 0 up"),
        (HEADER + 'v7,0,0,"1,620,000",1\n', "x.csv:2: pps '1,620,000' is refused; allowed: a number from 0 up"),
        (HEADER + 'v7,0,0,"1\n', "x.csv:2: is not CSV: unexpected end of data"),
        (HEADER.encode() + b"v7,0,0,1,\xff\n", "x.csv:2: is not UTF-8 text; allowed: a table of cells as CSV"),
        (HEADER.encode("utf-16"), "x.csv:1: is not UTF-8 text; allowed: a table of cells as CSV"),
        *(
            (
                HEADER + f"v7,0,0,1,1\nv7,1,0,1,{bad}\n",
                f"x.csv:3: rtt_avg_ms '{bad}' is refused; allowed: a number from 0",
            )
            for bad in ("nan", "inf", "-1", "-Infinity", "1e999", "12ms", "0x10", "1_0", "\u0661")
        ),
    ],
)
def test_what_is_no_table_is_refused_in_one_line(tmp_path, text, said):
    with pytest.raises(UsageError) as refused:
        table(tmp_path, text)
    message = str(refused.value)
    assert message.startswith(f"{tmp_path}/{said}")
    assert message.isprintable()


def test_a_result_may_have_measured_nothing_where_a_publication_may_not(tmp_path):
    assert table(tmp_path, HEADER + "v7,0,0,0,1\n", zeros=True).cells[Key("v7", 0, 0.0)]["pps"].value == 0


def test_files_that_are_not_there_or_too_large(tmp_path):
    with pytest.raises(UsageError, match=r"no\.csv: cannot read: No such file"):
        read_cells_csv(tmp_path / "no.csv")
    with pytest.raises(UsageError, match="cannot read: Is a directory"):
        read_cells_csv(tmp_path)
    with pytest.raises(UsageError, match="larger than 16 MiB"):
        table(tmp_path, b"x" * (LARGEST_FILE + 1))
