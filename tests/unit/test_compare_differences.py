"""Two results against each other: what is claimed, and what is not."""

import json
import re

import numpy as np
import pytest
from results import measured, write_run, write_sweep

from emulator.cli import main
from emulator.errors import UsageError
from emulator.report.compare.differences import compare_sides
from emulator.report.compare.differences_text import differences_document, differences_lines, summary_sentence
from emulator.report.compare.lines import plain
from emulator.report.compare.metrics import metrics_of
from emulator.report.compare.samples import read_side, rtt_blocks
from emulator.report.reference import Key

V7, STOCK = Key("v7", 0, 50.0), Key("stock", 0, None)
TEN = [1000.0 + 3 * i for i in range(10)]


def sweep(path, cells, **more):
    return write_sweep(path, {key: [{"pps": 1000 * v} for v in values] for key, values in cells.items()}, **more)


def compared(a, b, *columns, where=None):
    metrics = metrics_of(columns)
    return compare_sides(read_side(a, metrics, where or {}), read_side(b, metrics, where or {}), metrics)


def only(differences):
    (table,) = differences.tables
    (cell,) = table.cells
    return table, cell


def test_a_difference_with_its_interval_and_p(tmp_path):
    a, b = sweep(tmp_path / "a", {V7: TEN}), sweep(tmp_path / "b", {V7: [v + 40 for v in TEN]})
    table, cell = only(compared(a, b, "pps"))
    assert (cell.label, cell.verdict, cell.said) == ("v7 nrules=0 50us", "higher", "B higher")
    assert (cell.estimate, cell.a.center, cell.b.center, cell.a.n) == (40.0, 1013.5, 1053.5, 10)
    assert tuple(cell.interval) == (31.0, 49.0)
    assert cell.p == cell.p_holm == pytest.approx(2 / 184756)
    assert cell.relative_pct == pytest.approx(100 * 40 / 1013.5)
    assert summary_sentence(table) == "throughput: B is higher in the one cell (v7 nrules=0 50us: +3.9 %)"


def test_no_difference_is_said_when_that_is_what_the_data_says(tmp_path):
    a, b = sweep(tmp_path / "a", {V7: TEN}), sweep(tmp_path / "b", {V7: [v + 1 for v in TEN]})
    table, cell = only(compared(a, b, "pps"))
    assert (cell.verdict, cell.said) == ("no difference", "no difference")
    assert cell.interval.low < 0 < cell.interval.high
    assert summary_sentence(table) == "throughput: no difference"


@pytest.mark.parametrize(("n_a", "n_b", "verdict"), [(3, 3, "too few"), (1, 30, "too few"), (4, 4, "lower")])
def test_too_few_repetitions_claim_nothing(tmp_path, n_a, n_b, verdict):
    a = sweep(tmp_path / "a", {V7: [1000.0 + i for i in range(n_a)]}, clock="real")
    b = sweep(tmp_path / "b", {V7: [500.0 + i for i in range(n_b)]}, clock="real")
    table, cell = only(compared(a, b, "pps"))
    assert cell.verdict == verdict
    assert (cell.p is None) == (verdict == "too few")
    if verdict == "too few":
        assert (cell.interval, cell.said) == (None, "too few repetitions to tell")
        assert summary_sentence(table) == "throughput: too few repetitions to tell in the one cell"


@pytest.mark.parametrize(("step", "word"), [(0.0, "equal"), (5.0, "exact")])
def test_one_repetition_of_the_virtual_clock_is_exact_for_its_seed(tmp_path, step, word):
    a, b = sweep(tmp_path / "a", {V7: [1000.0]}, seed=7), sweep(tmp_path / "b", {V7: [1000.0 + step]}, seed=7)
    found = compared(a, b, "pps")
    _, cell = only(found)
    assert (cell.verdict, cell.said, cell.estimate) == ("exact", f"{word} for seed 7, spread not known", step)
    assert "virtual clock: a repetition has no noise" in "\n".join(map(plain, differences_lines(found, 200)))
    real = sweep(tmp_path / "c", {V7: [1000.0]}, clock="real", seed=7)
    assert only(compared(a, real, "pps"))[1].verdict == "too few"


def test_many_cells_are_taken_together(tmp_path):
    """One cell of twelve has p = 0.029 alone: chance alone gives that often enough."""
    keys = [Key("v7", n, 50.0) for n in range(12)]
    alike = {key: [1000.0, 1002.0, 1001.0, 1003.0] for key in keys}
    a = sweep(tmp_path / "a", alike)
    b = sweep(tmp_path / "b", alike | {keys[0]: [1010.0, 1011.0, 1012.0, 1013.0]})
    (table,) = compared(a, b, "pps").tables
    assert [cell.verdict for cell in table.cells] == ["unclear"] + ["no difference"] * 11
    assert table.cells[0].p == pytest.approx(2 / 70)
    assert table.cells[0].p_holm == pytest.approx(12 * 2 / 70)
    assert table.cells[0].said == "unclear: p = 0.029 alone, 6 repetitions could tell"
    assert (
        "no difference in 11 of 12 cells; unclear in 1 of 12 cells (chance gives about 0.60 such)"
        in summary_sentence(table)
    )


def test_cells_of_one_result_alone_and_failed_ones(tmp_path):
    a = sweep(tmp_path / "a", {V7: TEN, STOCK: TEN, Key("v7", 5, 50.0): TEN})
    b = sweep(tmp_path / "b", {V7: TEN, STOCK: TEN, Key("v7", 6, 50.0): TEN}, failed=[(STOCK, i) for i in range(10)])
    found = compared(a, b, "pps")
    assert (found.only_a, found.only_b) == (("v7 nrules=5 50us",), ("v7 nrules=6 50us",))
    (table,) = found.tables
    assert [(c.verdict, c.said) for c in table.cells] == [
        ("no difference", "no difference"),
        ("not compared", "B failed"),
    ]
    assert found.notes == [f"{b}: stock nrules=0 tx_usecs=None failed: killed by SIGKILL (9)"]


def test_the_bql_variants_of_two_sweeps_and_a_field_of_one_value_need_not_be_equal(tmp_path):
    a = sweep(tmp_path / "a", {Key("v6", 0, 50.0): TEN, STOCK: TEN}, others={"device.num_tx_queues": 1})
    b = sweep(tmp_path / "b", {V7: TEN, STOCK: TEN}, others={"device.num_tx_queues": 6})
    (table,) = compared(a, b, "pps").tables
    assert [cell.label for cell in table.cells] == [
        "v6/v7 nrules=0 50us device.num_tx_queues=1/6",
        "stock nrules=0 device.num_tx_queues=1/6",
    ]


def test_what_has_nothing_in_common_is_refused(tmp_path):
    a, b = sweep(tmp_path / "a", {V7: TEN}), sweep(tmp_path / "b", {Key("v7", 1, 50.0): TEN})
    with pytest.raises(UsageError, match="have no cell in common: v7 nrules=0 50us against v7 nrules=1 50us"):
        compared(a, b, "pps")
    with pytest.raises(UsageError, match="did not both measure rtt_avg_ms in any cell"):
        compared(a, a, "rtt_avg_ms")
    run = write_run(tmp_path / "r", measured("v7", [1000] * 50))
    with pytest.raises(UsageError, match=r"holds a sweep and .* a run; give two of one kind"):
        compared(a, run, "pps")
    with pytest.raises(UsageError, match="is not the directory of a run's or a sweep's results"):
        compared(tmp_path, a, "pps")
    with pytest.raises(UsageError, match="holds a run; --where wants a sweep's directory"):
        compared(run, run, where={"nrules": ("0",)})


def rtts(scale, seed, n=400):
    return (scale * np.random.default_rng(seed).gamma(30, 1 / 30, n)).astype(int).tolist()


def test_runs_are_compared_by_their_parts_and_blocks(tmp_path):
    steady = [9700.0 + i for i in range(10)]
    a = write_run(tmp_path / "a", measured("v7", rtts(2.0e6, 1), rates=steady))
    b = write_run(tmp_path / "b", measured("v7", rtts(2.4e6, 2), rates=[rate + 0.5 for rate in steady]))
    found = compared(a, b)
    by_metric = {table.metric.column: table.cells[0] for table in found.tables}
    assert {column: (cell.a.kind, cell.a.n) for column, cell in by_metric.items()} == {
        "pps": ("parts", 10),
        "rtt_avg_ms": ("blocks", 20),
        "rtt_p99_ms": ("blocks", 20),
    }
    assert by_metric["pps"].verdict == "no difference"
    assert by_metric["pps"].estimate == pytest.approx(0.0005)
    rtt = by_metric["rtt_avg_ms"]
    assert rtt.verdict == "higher"
    assert rtt.a.center == pytest.approx(np.mean(rtts(2.0e6, 1)) / 1e6)
    assert rtt.interval.low < rtt.estimate < rtt.interval.high
    assert rtt.estimate == pytest.approx(0.4, abs=0.06)
    said = "\n".join(map(plain, differences_lines(found, 200)))
    assert "bootstrap over blocks of consecutive pings" in said
    assert "how much runs differ from each other is not known" in said


def test_dependent_neighbours_are_not_taken_for_many_samples(tmp_path):
    """Two runs with the same slow swings, at different moments: single pings would have shown a difference."""
    swing = np.repeat(np.array([1.0, 1.6, 1.1, 1.8, 1.2, 0.9, 1.5, 1.3, 1.0, 1.7]) * 2e6, 100)
    a = write_run(tmp_path / "a", measured("v7", swing.astype(int).tolist()))
    b = write_run(tmp_path / "b", measured("v7", (swing * 1.05).astype(int).tolist()))
    (table,) = compared(a, b, "rtt_avg_ms").tables
    assert table.cells[0].verdict == "no difference"


def test_variants_of_runs_are_matched_by_name_unless_each_has_one(tmp_path):
    a = write_run(tmp_path / "a", measured("stock", rtts(2e6, 1), bql="off"))
    b = write_run(tmp_path / "b", measured("v7", rtts(2e6, 2)))
    both = write_run(tmp_path / "c", measured("v7", rtts(2e6, 2)), measured("stock", rtts(2e6, 1), bql="off"))
    assert [cell.label for cell in compared(a, b, "pps").tables[0].cells] == ["stock/v7"]
    found = compared(both, b, "pps")
    assert [cell.label for cell in found.tables[0].cells] == ["v7"]
    assert found.only_a == ("stock",)


def test_what_did_not_run_to_its_end_is_not_compared(tmp_path):
    a = write_run(tmp_path / "a", measured("v7", rtts(2e6, 1)))
    b = write_run(tmp_path / "b", measured("v7", rtts(2e6, 2), complete=False, verdict="agent napi died"))
    (cell,) = compared(a, b, "pps").tables[0].cells
    assert (cell.verdict, cell.said) == ("not compared", "B incomplete: agent napi died")


@pytest.mark.parametrize(("pings", "blocks"), [(3, 1), (19, 3), (100, 20), (1000, 20)])
def test_blocks_have_at_least_five_pings(pings, blocks):
    found = rtt_blocks(np.arange(pings, dtype=float))
    assert len(found) == blocks
    assert np.concatenate(found).tolist() == list(range(pings))


def test_few_pings_claim_nothing(tmp_path):
    a = write_run(tmp_path / "a", measured("v7", rtts(2e6, 1, 15)))
    b = write_run(tmp_path / "b", measured("v7", rtts(9e6, 2, 15)))
    (table,) = compared(a, b, "rtt_avg_ms").tables
    assert (table.cells[0].verdict, table.cells[0].said) == ("too few", "too few blocks to tell")


def test_the_document(tmp_path, capsys):
    a, b = sweep(tmp_path / "a", {V7: TEN}), sweep(tmp_path / "b", {V7: [v + 40 for v in TEN]})
    document = differences_document(compared(a, b, "pps"), 0)
    assert set(document) == {
        "schema", "kind", "a", "b", "settings", "tables", "only_a", "only_b", "method", "notes", "exit_code"
    }  # fmt: skip
    (table,) = document["tables"]
    assert set(table) == {"metric", "name", "unit", "tests", "seen", "cells"}
    (cell,) = table["cells"]
    assert set(cell) == {
        "cell", "a", "b", "difference", "difference_pct", "low", "high", "p", "p_holm", "verdict", "said"
    }  # fmt: skip
    assert cell["a"] == {"n": 10, "of": "repetitions", "value": 1013.5, "min": 1000.0, "max": 1027.0}
    assert main(["compare", str(a), str(b), "--json", "--metric", "pps"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == json.loads(json.dumps(document))
    assert err == ""


def test_the_command_prints_a_line_a_cell(tmp_path, capsys):
    a, b = sweep(tmp_path / "a", {V7: TEN, STOCK: TEN}), sweep(tmp_path / "b", {V7: TEN, STOCK: [900.0] * 10})
    assert main(["compare", str(a), str(b)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:4] == ["A and B: virtual clock, 10 repetitions", "", "throughput, kpps"]
    assert [re.split(" {2,}", line.strip()) for line in lines[4:7]] == [
        ["A", "B", "B - A", "95 % interval", "B - A, %", "p", "n"],
        ["v7 nrules=0 50us", *["1014 (1000..1027)"] * 2, "0", "-9..+9", "0.0", "1.000", "10/10", "no difference"],
        [
            "stock nrules=0",
            "1014 (1000..1027)",
            "900 (900..900)",
            "-114",
            "-121..-106",
            "-11.2",
            "<0.001",
            "10/10",
            "B lower",
        ],
    ]
    assert {line.index("10/10") for line in lines[5:7]} == {lines[5].index("10/10")}
    assert "throughput: B is lower in 1 of 2 cells (stock nrules=0: -11.2 %); no difference in 1 of 2 cells" in lines


SCENARIO = {
    "name": "published-sweep",
    "clock": "virtual",
    "duration": "10s",
    "warmup": "2s",
    "host": {"name": "box", "description": "", "stack_rx": "430ns"},
    "device": {"mtu": 1500, "num_tx_queues": 6, "bql": {"variant": "v7", "tx_usecs": "100us"}},
    "netfilter": {"rules": 0},
    "sweep": {"fields": {"netfilter.rules": [0]}, "repetitions": 10},
}


def shown(a, b, width=200):
    return [plain(line) for line in differences_lines(compared(a, b, "pps"), width)]


def test_what_is_compared_stands_above_the_tables_with_the_settings_that_differ(tmp_path):
    a = sweep(tmp_path / "a", {V7: TEN}, scenario=SCENARIO)
    assert shown(a, a)[1:3] == [
        "A and B: published-sweep, virtual clock, host box, 10s x 10 repetitions",
        "settings that differ: none but what the cells are called",
    ]
    other = {**SCENARIO, "name": "mine", "duration": "5s", "device": {**SCENARIO["device"], "mtu": 9000}}
    b = sweep(tmp_path / "b", {V7: TEN}, scenario=other)
    assert shown(a, b)[1:4] == [
        "A: published-sweep, virtual clock, host box, 10s x 10 repetitions",
        "B: mine, virtual clock, host box, 5s x 10 repetitions",
        "settings that differ: duration 10s/5s, device.mtu 1500/9000",
    ]
    document = differences_document(compared(a, b, "pps"), 0)["settings"]
    assert document["differ"] == {"duration": [["10s", "5s"]], "device.mtu": [["1500", "9000"]]}
    assert document["a"] == {
        "said": "published-sweep, virtual clock, host box, 10s x 10 repetitions", "timing": {}
    }  # fmt: skip


def test_of_another_host_its_name_is_enough_and_of_the_same_its_costs_are_listed(tmp_path):
    a = sweep(tmp_path / "a", {V7: TEN}, scenario=SCENARIO)
    slow = {"name": "slow", "stack_rx": "900ns"}
    for name, host, said in (
        ("b", slow, "host box/slow"),
        ("c", slow | {"name": "box"}, "host.stack_rx 430ns/900ns"),
        ("d", None, "host box/none"),
    ):
        b = sweep(tmp_path / name, {V7: TEN}, scenario={**SCENARIO, "host": host})
        assert f"settings that differ: {said}" in shown(a, b)


def test_what_both_swept_is_in_the_names_and_what_one_swept_is_a_setting(tmp_path):
    queues = "device.num_tx_queues"
    swept = {**SCENARIO, "sweep": {"fields": {queues: [1]}}}
    a = sweep(tmp_path / "a", {V7: TEN}, scenario=SCENARIO)
    b = sweep(tmp_path / "b", {V7: TEN}, scenario=swept, others={queues: 1})
    c = sweep(tmp_path / "c", {V7: TEN}, scenario=swept, others={queues: 2})
    assert f"settings that differ: {queues} 6/1" in shown(a, b)
    assert "settings that differ: none but what the cells are called" in shown(b, c)


def test_runs_differ_in_rules_and_in_what_their_variants_set(tmp_path):
    def one(name, **changed):
        return write_run(
            tmp_path / name,
            measured("stock", rtts(2e6, 1), bql="off"),
            measured("v7", rtts(2e6, 2)),
            scenario={**SCENARIO, "clock": "real", **changed},
        )

    over = [{"name": "stock", "device": {"bql": {"variant": "off"}}}, {"name": "v7"}]
    a = one("a", compare=over)
    b = one("b", netfilter={"rules": 13000}, compare=[over[0], {"name": "v7", "device": {"bql": {"tx_usecs": "50us"}}}])
    text = shown(a, b)
    assert text[1] == "A and B: published-sweep, real clock, host box, 10s"
    assert text[2] == "settings that differ: netfilter.rules 0/13000, device.bql.tx_usecs 100us/50us"


def test_poor_and_fair_timing_is_said(tmp_path):
    a = sweep(tmp_path / "a", {V7: TEN}, scenario=SCENARIO, clock="real", timing="poor")
    b = sweep(tmp_path / "b", {V7: TEN}, scenario=SCENARIO, clock="real", timing="good")
    assert shown(a, b)[1:3] == [
        "A: published-sweep, real clock, host box, 10s x 10 repetitions; timing poor in 10 of 10",
        "B: published-sweep, real clock, host box, 10s x 10 repetitions",
    ]


def test_many_settings_are_cut_short(tmp_path):
    a = sweep(tmp_path / "a", {V7: TEN}, scenario={"watchdog": {f"k{i}": 0 for i in range(9)}})
    b = sweep(tmp_path / "b", {V7: TEN}, scenario={"watchdog": {f"k{i}": 1 for i in range(9)}})
    said = ", ".join(f"watchdog.k{i} 0/1" for i in range(6))
    assert f"settings that differ: {said} and 3 more" in shown(a, b)


def test_a_field_that_was_not_swept_has_its_value_in_all_cells(tmp_path):
    a = sweep(tmp_path / "a", {V7: TEN}, scenario=SCENARIO)
    assert compared(a, a, "pps", where={"device.num_tx_queues": ("6",)}).tables
    with pytest.raises(UsageError, match=r"--where device.num_tx_queues='1': .* has 6 in all cells"):
        compared(a, a, "pps", where={"device.num_tx_queues": ("1",)})


def test_figures_of_a_row_are_stated_in_the_same_digits(tmp_path):
    def figures(name, values):
        line = next(line for line in shown(a, sweep(tmp_path / name, {V7: values})) if line.startswith("v7 "))
        return re.split(" {2,}", line)[1:5]

    a = sweep(tmp_path / "a", {V7: [1666.0]})
    assert figures("b", [1666.081]) == ["1666.0", "1666.1", "+0.1", "-"]
    assert figures("c", [1666.0 + 1e-9]) == ["1666.0", "1666.0", "0.0", "-"]
    assert figures("d", [1700.0]) == ["1666.0", "1700.0", "+34.0", "-"]
    assert figures("e", [3000.0]) == ["1666", "3000", "+1334", "-"]
    a = sweep(tmp_path / "f", {V7: [5.0] * 10})
    assert figures("g", [5.0 + 1e-12] * 10) == ["5.0000 (5.0000..5.0000)"] * 2 + ["0.0000", "0.0000..0.0000"]
    assert figures("h", [5.5] * 10) == ["5.000 (5.000..5.000)", "5.500 (5.500..5.500)", "+0.500", "+0.500..+0.500"]
