"""The stock column of a table: what is taken, and what is refused with its line."""

from pathlib import Path

import pytest

from emulator.errors import ScenarioError
from emulator.runtime.stock_column import read_stock_column


def column(tmp_path: Path, text: str) -> list[tuple[int, float]]:
    path = tmp_path / "t.csv"
    path.write_text(text)
    return [(row.nrules, row.pps) for row in read_stock_column(path)]


def test_two_columns_sorted_by_rules(tmp_path: Path) -> None:
    assert column(tmp_path, "nrules,pps\n1000,126000\n0,1.76e6\n") == [(0, 1_760_000), (1000, 126_000)]


def test_of_a_whole_table_the_stock_rows_are_taken(tmp_path: Path) -> None:
    table = "variant,nrules,tx_usecs,pps,rtt_avg_ms\nv7,0,0,1620000,0.016\nstock,0,,1760000,0.132\noff,10,,1450000,\n"
    assert column(tmp_path, table) == [(0, 1_760_000), (10, 1_450_000)]


def test_comments_blank_lines_spaces_and_a_byte_order_mark_do_no_harm(tmp_path: Path) -> None:
    text = '\ufeff# my machine\n\n nrules , pps ,note\n# later\n 10 , 5000 ,"a, b"\n\n'
    assert column(tmp_path, text) == [(10, 5000)]


def test_more_rules_may_seem_a_little_faster_as_in_published_tables(tmp_path: Path) -> None:
    assert len(column(tmp_path, "nrules,pps\n0,1730000\n1,1740000\n")) == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", ":1: nothing in it; write a line 'nrules,pps'"),
        ("nrules,pps\n", ":1: no stock row; write rows of nrules,pps"),
        ("rules,pps\n1,2\n", ":1: no column 'nrules'; columns here: rules, pps; wanted: nrules,pps"),
        ("nrules;pps\n1;2\n", ":1: no column 'nrules'; columns here: nrules;pps"),
        ("nrules,pps,pps\n1,2,3\n", ":1: two columns 'pps'"),
        ("variant,nrules,pps\nv7,0,5000\n", ":1: no stock row; variants: v7; write rows"),
        ("nrules,pps\n0,5000\n10,0\n", ":3: pps: text '0' is not a rate in packets a second; allowed: 500..20000000"),
        ("nrules,pps\n0,-5\n", ":2: pps: text '-5' is not a rate"),
        ("nrules,pps\n0,nan\n", ":2: pps: text 'nan' is not a rate"),
        ("nrules,pps\n0,inf\n", ":2: pps: text 'inf' is not a rate"),
        ("nrules,pps\n0,\n", ":2: pps: text '' is not a rate"),
        ("nrules,pps\n0\n", ":2: pps: text '' is not a rate"),
        ("nrules,pps\n0,1_000\n", ":2: pps: text '1_000' is not a rate"),
        ("nrules,pps\n0,12kpps\n", ":2: pps: text '12kpps' is not a rate"),
        ("nrules,pps\n-1,5000\n", ":2: nrules: text '-1' is not a number of rules; allowed: 0..100000"),
        ("nrules,pps\n1.5,5000\n", ":2: nrules: text '1.5' is not a number of rules"),
        ("nrules,pps\n100001,5000\n", ":2: nrules: text '100001' is not a number of rules"),
        ("nrules,pps\n10,500\n0,900\n10,500\n", ":4: nrules 10 stands in line 2 too; keep one of the two"),
        (
            "nrules,pps\n10,900\n0,700\n",
            ":2: 900 pps with 10 rules is more than 700 with 0 (line 3); leave",
        ),
        ('nrules,pps\n0,"5000\n', ":2: not CSV: "),
    ],
)
def test_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ScenarioError) as error:
        column(tmp_path, text)
    (line,) = error.value.problems
    assert line.startswith(f"{tmp_path / 't.csv'}{says}")


def test_every_fault_is_said(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError) as error:
        column(tmp_path, "nrules,pps\nx,1\n0,y\n5,1000\n")
    assert [line.split(":")[1] for line in error.value.problems] == ["2", "3"]


def test_a_file_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_bytes(b"nrules,pps\n0,\xff\xfe\n")
    for name, says in (("a.csv", "No such file or directory"), ("b.csv", "not text"), (".", "Is a directory")):
        with pytest.raises(ScenarioError, match=says) as error:
            read_stock_column(tmp_path / name)
        assert len(error.value.problems) == 1
