"""`sweep:` from YAML to cells: form, combinations, what is left out, faults with their places."""

from collections.abc import Callable
from pathlib import Path

import pytest

from emulator.errors import ScenarioError
from emulator.scenario import load_scenario, to_yaml
from emulator.scenario.matrix import MAX_CELLS, Matrix, expand

Write = Callable[..., Path]
HEAD = "host: {stack_rx: 568ns, netfilter_rule: 7.7ns}\nping: {interval: 1ms}\n"
V7 = "device: {bql: {variant: v7}}\n"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_(text: str, name: str = "s.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write_


def cells(path: Path, *sets: str) -> Matrix:
    return expand(load_scenario(path, sets))


def names(matrix: Matrix) -> list[str]:
    return [cell.cell for cell in matrix.cells]


def faults(path: Path, *sets: str) -> list[str]:
    with pytest.raises(ScenarioError) as error:
        cells(path, *sets)
    return [line.replace(f"{path.parent}/", "") for line in error.value.problems]


def test_fields_are_crossed_in_their_order_the_last_one_fastest(write: Write) -> None:
    text = HEAD + V7 + "sweep: {fields: {netfilter.rules: [0, 10], device.bql.tx_usecs: [0us, 1500ns]}}\n"
    matrix = cells(write(text))
    assert names(matrix) == [
        "v7 nrules=0 tx_usecs=0 #0",
        "v7 nrules=0 tx_usecs=1.5 #0",
        "v7 nrules=10 tx_usecs=0 #0",
        "v7 nrules=10 tx_usecs=1.5 #0",
    ]
    last = matrix.cells[-1]
    assert (last.index, last.variant, last.nrules, last.tx_usecs) == (3, "v7", 10, 1.5)
    assert last.fields == {"netfilter.rules": 10, "device.bql.tx_usecs": "1500ns"}
    assert last.scenario["netfilter"]["rules"] == 10
    assert last.scenario["device"]["bql"]["tx_usecs"] == "1500ns"


def test_stock_and_v5_come_once_because_tx_usecs_means_nothing_to_them(write: Write) -> None:
    fields = "device.bql.variant: [v7, v5, off], device.bql.tx_usecs: [0us, 50us], netfilter.rules: [1, 2]"
    matrix = cells(write(f"{HEAD}sweep: {{fields: {{{fields}}}}}\n"))
    assert names(matrix) == [
        "v7 nrules=1 tx_usecs=0 #0",
        "v7 nrules=2 tx_usecs=0 #0",
        "v7 nrules=1 tx_usecs=50 #0",
        "v7 nrules=2 tx_usecs=50 #0",
        "v5 nrules=1 #0",
        "v5 nrules=2 #0",
        "stock nrules=1 #0",
        "stock nrules=2 #0",
    ]
    assert matrix.left_out == 4
    assert matrix.cells[-1].fields == {"device.bql.variant": "off", "netfilter.rules": 2}


def test_limits_mean_nothing_to_stock_either(write: Write) -> None:
    fields = "device.bql.variant: [v5, off], device.bql.limit_min: [0, 8p]"
    matrix = cells(write(f"{HEAD}sweep: {{fields: {{{fields}}}}}\n"))
    assert names(matrix) == [
        "v5 nrules=0 device.bql.limit_min=0p #0",
        "v5 nrules=0 device.bql.limit_min=8p #0",
        "stock nrules=0 #0",
    ]


def test_any_field_can_be_swept(write: Write) -> None:
    fields = "device.num_tx_queues: [1, 6], device.qdisc.kind: [fq_codel, sfq], napi.gro_normal_batch: [1, 8]"
    matrix = cells(write(f"{HEAD}sweep: {{fields: {{{fields}}}}}\n"))
    assert len(matrix.cells) == 8
    assert matrix.cells[-1].scenario["device"]["qdisc"]["kind"] == "sfq"
    assert matrix.cells[0].fields == {
        "device.num_tx_queues": 1,
        "device.qdisc.kind": "fq_codel",
        "napi.gro_normal_batch": "1p",
    }


def test_a_value_may_be_a_mapping_or_a_host_profile(write: Write) -> None:
    write("stack_rx: 1us\n", "slow.yaml")
    write("stack_rx: 9ns\n", "fast.yaml")
    fields = "device.qdisc: [{kind: sfq}, {kind: fq_codel, limit: 10p}], host: [slow.yaml, fast, none]"
    matrix = cells(write(f"sweep: {{fields: {{{fields}}}}}\n"))
    assert [cell.fields["host"] for cell in matrix.cells[:3]] == ["slow", "fast", "none"]
    assert matrix.cells[0].scenario["host"]["stack_rx"] == "1000ns"
    assert matrix.cells[3].fields["device.qdisc"] == {"kind": "fq_codel", "limit": "10p"}


def test_repetitions_run_with_seeds_that_follow_each_other(write: Write) -> None:
    text = HEAD + V7 + "seed: 7\nsweep: {fields: {netfilter.rules: [0, 1]}, repetitions: 3}\n"
    matrix = cells(write(text))
    assert [(c.rep, c.seed, c.scenario["seed"]) for c in matrix.cells[:4]] == [
        (0, 7, 7),
        (1, 8, 8),
        (2, 9, 9),
        (0, 7, 7),
    ]
    assert matrix.cells[2].cell == "v7 nrules=0 tx_usecs=100 #2"


@pytest.mark.parametrize(
    ("bql", "variants"), [("", {"v7", "stock"}), ("device: {bql: {variant: v6}}\n", {"v6", "stock"})]
)
def test_without_a_sweep_it_is_the_published_one(write: Write, bql: str, variants: set[str]) -> None:
    matrix = cells(write(HEAD + bql))
    assert len(matrix.cells) == 48
    assert {cell.variant for cell in matrix.cells} == variants
    assert list(dict.fromkeys(c.nrules for c in matrix.cells)) == [0, 1, 10, 100, 1000, 10000]
    assert list(dict.fromkeys(c.tx_usecs for c in matrix.cells)) == [0, 50, 100, 500, 1000, 5000, 10000, None]


def test_variants_of_compare_are_crossed_and_named_where_bql_does_not_tell_them_apart(write: Write) -> None:
    compare = "compare: [{name: stock}, {name: seven, device: {bql: {variant: v7, tx_usecs: 3us}}}]\n"
    matrix = cells(write(HEAD + compare))
    assert len(matrix.cells) == 48
    assert {cell.variant for cell in matrix.cells} == {"stock", "v7"}
    assert "compare" not in matrix.cells[0].fields
    compare = "compare: [{name: a}, {name: b, device: {ring_size: 64}}]\nsweep: {fields: {netfilter.rules: [0]}}\n"
    matrix = cells(write(HEAD + compare))
    assert names(matrix) == ["stock nrules=0 compare=a #0", "stock nrules=0 compare=b #0"]


def test_settings_replace_the_values_of_a_field_and_keep_the_others(write: Write) -> None:
    path = write(HEAD + V7 + "sweep: {fields: {netfilter.rules: [0, 1], device.bql.tx_usecs: [0us]}}\n")
    matrix = cells(path, "sweep.fields.netfilter.rules=[5]", "sweep.repetitions=2", "seed=3", "duration=2s")
    assert names(matrix) == ["v7 nrules=5 tx_usecs=0 #0", "v7 nrules=5 tx_usecs=0 #1"]
    assert (matrix.cells[1].seed, matrix.cells[1].scenario["duration"]) == (4, "2s")


def test_a_file_extends_a_sweep_field_by_field(write: Write) -> None:
    write(HEAD + V7 + "sweep: {fields: {netfilter.rules: [0, 1], device.bql.tx_usecs: [0us]}}\n", "below.yaml")
    matrix = cells(write("extends: below.yaml\nsweep: {fields: {device.bql.tx_usecs: [9us]}}\n"))
    assert names(matrix) == ["v7 nrules=0 tx_usecs=9 #0", "v7 nrules=1 tx_usecs=9 #0"]


def test_the_effective_form_reads_back_as_the_same_sweep(write: Write, tmp_path: Path) -> None:
    write("stack_rx: 1us\n", "slow.yaml")
    text = V7 + "sweep: {fields: {netfilter.rules: [0], device.bql.tx_usecs: [0us, 5us], host: [slow, none]}}\n"
    loaded = load_scenario(write(text + "compare: [{name: a}, {name: b, napi: {weight: 3p}}]\n"))
    again = tmp_path / "elsewhere" / "s.yaml"
    again.parent.mkdir()
    again.write_text(to_yaml(loaded.effective()))
    assert expand(load_scenario(again)).cells == expand(loaded).cells


def test_a_run_takes_no_notice_of_the_sweep(write: Write) -> None:
    loaded = load_scenario(write(HEAD + "sweep: {fields: {netfilter.rules: [0, 1]}}\n"))
    assert loaded.variants == (loaded.base,)


@pytest.mark.parametrize(
    ("sweep", "expected"),
    [
        ("[1]", "s.yaml:3:8: sweep: expected a mapping, got a list; allowed: fields, repetitions"),
        (
            "{feilds: {}}",
            "s.yaml:3:9: sweep.feilds: unknown key, did you mean 'fields'?; allowed: fields, repetitions",
        ),
        ("{repetitions: 0}", "s.yaml:3:22: sweep.repetitions: expected a whole number, got 0; allowed: 1..1000"),
        ("{repetitions: true}", "s.yaml:3:22: sweep.repetitions: expected a whole number, got true; allowed: 1..1000"),
        (
            "{fields: {}}",
            "s.yaml:3:17: sweep.fields: expected fields and their values, got none; "
            "write e.g. {netfilter.rules: [0, 1000]}",
        ),
        (
            "{fields: {netfilter.rules: 5}}",
            "s.yaml:3:35: sweep.fields.netfilter.rules: expected a list of values, got 5; write e.g. [5]",
        ),
        (
            "{fields: {netfilter.rules: []}}",
            "s.yaml:3:35: sweep.fields.netfilter.rules: expected a list of values, got an empty list; "
            "write e.g. [0, 1]",
        ),
        (
            "{fields: {netfilter: {rules: [0]}}}",
            "s.yaml:3:18: sweep.fields.netfilter: expected a list of values, got a mapping; "
            "write dotted paths, e.g. netfilter.rules: [0, 1]",
        ),
        (
            "{fields: {netfilter..rules: [0]}}",
            "s.yaml:3:18: sweep.fields.netfilter..rules: 'netfilter..rules' is not the path of a field; "
            "write e.g. netfilter.rules",
        ),
        (
            "{fields: {seed: [0]}}",
            "s.yaml:3:18: sweep.fields.seed: cannot be swept: write sweep.repetitions: repetition i runs with seed + i",
        ),
        ("{fields: {clock: [real]}}", "s.yaml:3:18: sweep.fields.clock: cannot be swept: a sweep has one clock"),
        (
            "{fields: {device.qdisc: [{kind: sfq}], device.qdisc.kind: [sfq]}}",
            "s.yaml:3:47: sweep.fields.device.qdisc.kind: 'device.qdisc' is swept too, and one contains the other; "
            "keep one",
        ),
        (
            "{fields: {netfilter.rulez: [0, 1]}}",
            "s.yaml:3:18: sweep.fields.netfilter.rulez: unknown key, did you mean 'rules'?; "
            "allowed: rules, mode, rule_cost",
        ),
        (
            "{fields: {netfilter.rules: [0, 100001]}}",
            "s.yaml:3:39: sweep.fields.netfilter.rules[1]: 100001 is out of range; allowed: 0..100000",
        ),
        (
            "{fields: {device.bql.tx_usecs: [0us, 50us, 0.05ms]}}",
            "s.yaml:3:51: sweep.fields.device.bql.tx_usecs[2]: is the same as '50us'; keep one of the two",
        ),
        (
            "{fields: {device.qdisc: [{kind: sfq, limt: 3}]}}",
            "s.yaml:3:45: sweep.fields.device.qdisc[0].limt: unknown key, did you mean 'limit'?",
        ),
        (
            "{fields: {device.bql.variant: [v7], device.bql.tx_usecs: [1us, 60s]}}",
            "s.yaml:3:71: sweep.fields.device.bql.tx_usecs[1]: 60s is not below the watchdog timeout of 16s",
        ),
    ],
)
def test_faults_stand_where_they_were_written(write: Write, sweep: str, expected: str) -> None:
    (line,) = faults(write(f"{HEAD}sweep: {sweep}\n"))
    assert line.startswith(expected)


def test_faults_of_all_cells_are_reported_together_each_once(write: Write) -> None:
    fields = "  fields:\n    netfilter.rules: [0, 1.5, x]\n    device.bql.variant: [v7, v8]\n    ping.interval: [1us]\n"
    assert [line.partition(": sweep")[0] for line in faults(write(f"{HEAD}sweep:\n{fields}"))] == [
        "s.yaml:5:26",
        "s.yaml:5:31",
        "s.yaml:6:30",
        "s.yaml:7:21",
    ]


def test_a_fault_outside_the_swept_values_says_in_which_cells_it_is(write: Write) -> None:
    text = "netfilter: {rules: 5, rule_cost: 1ns}\nsweep: {fields: {netfilter.rule_cost: [1ns, null], ping: [null]}}\n"
    assert faults(write(text)) == [
        "s.yaml:1:20: netfilter.rules: 5 rules cost nothing under 'host: none'; give a host profile, "
        "netfilter.rule_cost (e.g. 7.7ns), or netfilter.mode: walk "
        "(in 1 of 2 cells, the first is netfilter.rule_cost=null ping=null)"
    ]


def test_a_setting_of_a_swept_field_is_refused(write: Write) -> None:
    path = write(HEAD + V7 + "sweep: {fields: {netfilter.rules: [0, 1]}}\n")
    assert faults(path, "netfilter.rules=5") == [
        "--set netfilter.rules=5: netfilter.rules: is swept; write "
        "--set 'sweep.fields.netfilter.rules=[...]' to sweep others"
    ]


def test_two_variants_of_compare_that_come_to_the_same_are_refused(write: Write) -> None:
    compare = "compare: [{name: a}, {name: b, device: {bql: {variant: v7}}}]\n"
    (line,) = faults(write(f"{HEAD}{compare}sweep: {{fields: {{device.bql.variant: [v7]}}}}\n"))
    assert "two variants of compare: come to the same cell: compare=a" in line


def test_sizes_are_bounded(write: Write) -> None:
    rules = list(range(101))
    (line,) = faults(write(f"{HEAD}sweep: {{fields: {{netfilter.rules: {rules}}}, repetitions: 100}}\n"))
    assert line.endswith(f"10100 cells; allowed: at most {MAX_CELLS}")
    (line,) = faults(write(f"{HEAD}seed: {2**63 - 1}\nsweep: {{fields: {{netfilter.rules: [0]}}, repetitions: 2}}\n"))
    assert "the last repetition's seed is beyond" in line


def test_a_sweep_has_no_place_in_a_variant(write: Write) -> None:
    (line,) = faults(write(HEAD + "compare: [{name: a, sweep: {}}]\n"))
    assert line.endswith("compare[0].sweep: does not belong in a variant; write it at the top level")


def test_what_is_odd_in_a_cell_is_a_warning_once(write: Write) -> None:
    fields = "flood.packet: [64B, 9000B], device.num_tx_queues: [1, 2]"
    matrix = cells(write(f"{HEAD}sweep: {{fields: {{{fields}}}}}\n"))
    (warning,) = matrix.warnings
    assert "sweep.fields.flood.packet[1]: larger than mtu 1500" in warning
