"""A profile from a stock column alone: it gives the column back, and predicts what the column does not show."""

from collections.abc import Callable
from pathlib import Path

import pytest

from emulator.cli import main
from emulator.report.summary import summarise
from emulator.runtime.profile_fit import WAITING, Fit, fit_profile, simulated_pps, work_costs
from emulator.runtime.profile_fit_text import fit_table, fit_text
from emulator.runtime.stock_column import StockRow
from emulator.runtime.virtual import run_virtual
from emulator.scenario import HostProfile, Scenario, load_profile
from emulator.scenario.shipped import profile_path
from emulator.scenario.units import format_cost

BASE = load_profile(profile_path("ryzen-5600x"))


def machine(speed: float, rules: dict[int, float]) -> HostProfile:
    """One that works ``speed`` times as long for everything, with rules of its own."""
    scaled = {name: getattr(BASE, name) * speed for name in work_costs()}
    return BASE.model_copy(update={**scaled, "netfilter_rule": tuple(rules.items())})


def column(profile: HostProfile, *numbers: int) -> list[StockRow]:
    expected = {n: 1e9 / (700 + profile.netfilter_cost_ns(n)) for n in numbers}
    return [StockRow(n, simulated_pps(profile, n, pps, all_out=True), 2) for n, pps in expected.items()]


def v7(host: HostProfile, nrules: int, tx_usecs: str, batch: int) -> dict[str, float]:
    scenario = Scenario.model_validate(
        {
            "clock": "virtual",
            "duration": "800ms",
            "warmup": "200ms",
            "host": host,
            "device": {"bql": {"variant": "v7", "tx_usecs": tx_usecs}},
            "flood": {"rate": "150kpps"},
            "napi": {"gro_normal_batch": batch},
            "netfilter": {"rules": nrules},
            "ping": {"interval": "3ms"},
        }
    )
    summary = summarise(run_virtual(scenario))
    bql = summary["bql"]
    return {
        "pps": summary["goodput_pps"],
        "rtt": summary["rtt_ms"]["avg"],
        "limit": bql["limit_p50"],
        "count": bql["count_p50"],
    }


@pytest.fixture(scope="module")
def known() -> HostProfile:
    return machine(1.37, {0: 0, 50: 900, 1000: 6100, 2500: 14_000, 20_000: 131_000})


@pytest.fixture(scope="module")
def fit(known: HostProfile) -> Fit:
    return fit_profile(column(known, 0, 50, 1000, 2500, 20_000), BASE, "theirs")


def test_the_stock_column_is_reproduced(fit: Fit) -> None:
    assert [abs(row.error) < 0.002 for row in fit.rows] == [True] * 5
    assert fit.speed == pytest.approx(1.37, rel=0.01)


@pytest.mark.parametrize(
    ("nrules", "tx_usecs", "batch"), [(2500, "100us", 8), (5000, "1ms", 1), (10_000, "20ms", 8), (20_000, "50us", 1)]
)
def test_the_bql_columns_of_that_machine_are_predicted(
    known: HostProfile, fit: Fit, nrules: int, tx_usecs: str, batch: int
) -> None:
    theirs, ours = v7(known, nrules, tx_usecs, batch), v7(fit.profile, nrules, tx_usecs, batch)
    assert ours["pps"] == pytest.approx(theirs["pps"], rel=0.01)
    assert ours["rtt"] == pytest.approx(theirs["rtt"], rel=0.04)
    assert ours["limit"] == pytest.approx(theirs["limit"], rel=0.04, abs=1)
    assert ours["count"] == pytest.approx(theirs["count"], rel=0.04, abs=1)


def test_waiting_and_what_no_row_tells_are_the_bases() -> None:
    known = machine(1.0, {0: 0, 2500: 19_000, 5000: 38_500})
    fit = fit_profile(column(known, 2500, 5000), BASE, "theirs")
    assert (fit.speed, fit.zero_given) == (1.0, False)
    for name in (*work_costs(), *WAITING):
        assert getattr(fit.profile, name) == getattr(BASE, name)
    zero, *points = fit.profile.netfilter_rule
    assert zero == (0, 0.0)  # the line through the two goes below
    assert [(n, pytest.approx(ns, rel=0.002)) for n, ns in points] == [(2500, 19_000), (5000, 38_500)]


def series(packet_ns: float) -> Callable[[HostProfile, int, float, bool], float]:
    """A receiver that takes ``packet_ns`` of base costs at speed 1: the arithmetic without the simulation."""

    def simulate(profile: HostProfile, nrules: int, _expected: float, _all_out: bool) -> float:
        speed = profile.stack_rx / BASE.stack_rx
        return 1e9 / (packet_ns * speed + profile.netfilter_cost_ns(nrules))

    return simulate


def test_the_point_for_no_rules_is_on_the_line_of_the_two_lowest_rows() -> None:
    rows = [StockRow(1000, 1e9 / 5600, 2), StockRow(2000, 1e9 / 10_600, 3), StockRow(4000, 1e9 / 12_600, 4)]
    fit = fit_profile(rows, BASE, "x", simulate=series(500))
    assert fit.profile.netfilter_rule == ((0, 100.0), (1000, 5100.0), (2000, 10_100.0), (4000, 12_100.0))
    assert fit.profile.netfilter_cost_ns(6000) == 14_100


def test_a_single_row_with_rules_takes_the_point_for_none_from_the_base() -> None:
    fit = fit_profile([StockRow(1000, 1e9 / 5600, 2)], BASE, "x", simulate=series(500))
    assert fit.profile.netfilter_rule == ((0, 0.0), (1000, 5100.0))


def test_a_single_row_without_rules_scales_the_bases_rules_with_everything_else() -> None:
    fit = fit_profile([StockRow(0, 1e9 / 1000, 2)], BASE, "x", simulate=series(500))
    assert fit.speed == pytest.approx(2)
    assert fit.profile.netfilter_cost_ns(10_000) == pytest.approx(2 * BASE.netfilter_cost_ns(10_000), rel=0.001)
    assert fit.profile.napi_wakeup == BASE.napi_wakeup


def test_a_row_that_is_faster_than_the_base_without_rules_tells_the_speed() -> None:
    rows = [StockRow(10, 1e9 / 250, 2), StockRow(1000, 1e9 / 4250, 3)]
    fit = fit_profile(rows, BASE, "x", simulate=series(500))
    assert fit.speed == pytest.approx(0.5)
    assert fit.profile.netfilter_rule == ((0, 0.0), (10, 0.0), (1000, 4000.0))
    assert all(row.ok for row in fit.rows)


def test_rows_that_are_as_fast_with_more_rules_come_out_equal_and_are_said_to_be_off() -> None:
    rows = [StockRow(0, 1_730_000, 2), StockRow(1, 1_740_000, 3), StockRow(100, 700_000, 4)]
    fit = fit_profile(rows, BASE, "x", simulate=series(500))
    assert [cost for _, cost in fit.profile.netfilter_rule[:2]] == [0.0, 0.0]
    assert [row.ok for row in fit.rows] == [True, False, True]
    assert "-0.5" in fit_table(fit)[2]


def test_the_file_says_how_it_was_made_and_is_the_profile(fit: Fit, tmp_path: Path) -> None:
    path = tmp_path / "theirs.yaml"
    path.write_text(fit_text(fit, BASE, "column.csv"))
    assert load_profile(path) == fit.profile
    text = path.read_text()
    assert "from column.csv" in text
    assert all(f"# {line}".rstrip() in text or f"#   {line}" in text for line in fit_table(fit))
    assert f"{BASE.name}: {format_cost(BASE.stack_rx)}, times {fit.speed:.3f}" in text


def test_the_command_writes_a_profile_that_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, out = tmp_path / "box.csv", tmp_path / "box.yaml"
    table.write_text("variant,nrules,tx_usecs,pps\nv7,2500,100,41000\nstock,2500,,41200\nstock,5000,,20800\n")
    assert main(["profile", "fit", str(table), "--out", str(out)]) == 0
    assert f"wrote {out}" in capsys.readouterr().err
    profile = load_profile(out)
    assert profile.name == "box"
    assert simulated_pps(profile, 5000, 20_800, False) == pytest.approx(20_800, rel=0.001)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["profile"], 2, "required: ACTION; see emulator profile --help"),
        (["profile", "fitt"], 2, "unknown 'fitt', did you mean 'fit'?"),
        (["profile", "fit"], 2, "required: STOCK.csv"),
        (["profile", "fit", "t.csv", "--bass", "x"], 2, "unknown argument '--bass'"),
        (["profile", "fit", "t.csv"], 2, "t.csv: No such file or directory"),
        (["profile", "fit", "good.csv", "--base", "rizen"], 2, "no profile 'rizen'; give the path"),
        (["profile", "fit", "good.csv", "--name", "a\nb"], 2, "--name: a name has 1..64 printable characters"),
        (["profile", "fit", "good.csv", "--out", "no/where.yaml"], 4, "no/where.yaml: cannot be written"),
        (["profile", "fit", "good.csv", "--out", "good.csv"], 2, "--out good.csv: is there already"),
    ],
)
def test_the_command_refuses_in_one_line(
    arguments: list[str],
    code: int,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("good.csv").write_text("nrules,pps\n1000,100000\n")
    assert main(arguments) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line
