"""The files in scenarios/: valid, free of warnings, and saying what their comments say."""

from pathlib import Path

import pytest

from emulator.scenario import LoadedScenario, load_scenario, to_yaml
from emulator.scenario.units import NS_PER_S

FOLDER = Path(__file__).parents[2] / "scenarios"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


def shipped(name: str) -> LoadedScenario:
    return load_scenario(FOLDER / f"{name}.yaml")


def test_the_expected_files_are_there() -> None:
    assert {"quickstart", "dark-buffer", "dark-buffer-sfq", "light-consumer", "per-packet", "trains"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_each_is_valid_and_round_trips(name: str, tmp_path: Path) -> None:
    loaded = shipped(name)
    assert loaded.warnings == ()
    assert loaded.base.name == name
    (tmp_path / "again.yaml").write_text(to_yaml(loaded.effective()))
    again = load_scenario(tmp_path / "again.yaml")
    assert (again.base, again.variants) == (loaded.base, loaded.variants)


@pytest.mark.parametrize("name", NAMES)
def test_none_is_pinned_so_that_each_runs_anywhere(name: str) -> None:
    for s in shipped(name).variants:
        assert (s.flood.cpus, s.napi.cpu, s.napi.peer_cpu, s.watchdog.cpu) == (None, None, None, None)


def test_quickstart_is_over_in_three_seconds() -> None:
    assert sum(s.duration + s.warmup for s in shipped("quickstart").variants) <= 3 * NS_PER_S


@pytest.mark.parametrize(("name", "qdisc"), [("dark-buffer", "fq_codel"), ("dark-buffer-sfq", "sfq")])
def test_the_dark_buffer_costs_100_us_a_packet(name: str, qdisc: str) -> None:
    stock, v7 = shipped(name).variants
    assert (stock.device.bql.variant, v7.device.bql.variant, v7.device.bql.tx_usecs) == ("off", "v7", 100_000)
    for s in (stock, v7):
        assert (s.device.qdisc.kind, s.netfilter.rules) == (qdisc, 13000)
        assert s.netfilter_cost_ns + s.stack_rx_ns == pytest.approx(100_000, rel=0.01)


def test_the_light_consumer_burns_nothing() -> None:
    for s in shipped("light-consumer").variants:
        assert (s.netfilter_cost_ns, s.stack_rx_ns) == (0, 0)


def test_per_packet_and_trains_differ_in_one_thing_only() -> None:
    assert [s.device.bql.tx_usecs for s in shipped("per-packet").variants] == [0, 100_000]
    assert [s.device.num_tx_queues for s in shipped("trains").variants] == [1, 6]
    assert all(len(overlay) == 2 for overlay in shipped("trains").effective()["compare"][:1])
