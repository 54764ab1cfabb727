"""Whatever stands in a scenario file, it loads or is refused by lines that say where."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.errors import ScenarioError
from emulator.scenario import LoadedScenario, check_cpus, load_scenario, to_yaml
from emulator.scenario.model import Scenario
from emulator.scenario.problems import _homes
from emulator.scenario.units import Cost, duration, format_cost, format_duration, parse_duration_ns

REPEATABLE = settings(derandomize=True, deadline=None)  # the machine is noisy, the cases are not
LINE = re.compile(r".+\.yaml:\d+:\d+: .+")
SET_LINE = re.compile(r"(--set .*|.+\.yaml:\d+:\d+): .+")
KEYS = [*sorted(_homes(Scenario)), "kind", "compare", "extends", "host", "name", "rtt.p99", "<<", "0"]
WORDS = [
    *["20s", "100us", "64B", "256p", "max", "off", "v6", "v7", "1kpps", "none", "<= 3ms", "real", "veth", "fq_codel"],
    *[
        "sfq",
        "pfifo",
        "pfifo_fast",
        "noqueue",
        "codel",
        "bfifo",
        "burn",
        "walk",
        "spin",
        "schedule",
        "s.yaml",
        "\0",
        "",
    ],
]
YAMLISH = st.text(
    alphabet=st.sampled_from([*"abcn: -\n\t{}[]\"'#&*!|>%@`?,0193.~\\<=", "\ufeff", "\x85", "é", "\u2028"])
)


@pytest.fixture(scope="module")
def file() -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        yield Path(folder) / "s.yaml"


def load(path: Path, sets: tuple[str, ...] = (), line: re.Pattern[str] = LINE) -> LoadedScenario | None:
    try:
        loaded = load_scenario(path, sets)
        check_cpus(loaded, {0, 1})
        return loaded
    except ScenarioError as error:
        problems = error.problems
    assert problems
    for problem in problems:
        assert problem.isprintable()
        assert line.fullmatch(problem)
    return None


def scalars() -> st.SearchStrategy[Any]:
    return st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 5000),
        st.integers(),
        st.floats(),
        st.sampled_from(WORDS),
        st.text(max_size=8),
    )


def trees() -> st.SearchStrategy[Any]:
    keys = st.one_of(st.sampled_from(KEYS), st.text(max_size=5))
    return st.recursive(
        scalars(),
        lambda below: st.one_of(st.lists(below, max_size=4), st.dictionaries(keys, below, max_size=5)),
        max_leaves=25,
    )


@settings(REPEATABLE)
@given(text=st.one_of(YAMLISH, st.text(max_size=200)))
def test_any_text_loads_or_is_refused(file: Path, text: str) -> None:
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    load(file)


@settings(REPEATABLE)
@given(data=st.binary(max_size=100))
def test_any_bytes_load_or_are_refused(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    load(file)


@settings(REPEATABLE, max_examples=300)
@given(tree=st.dictionaries(st.sampled_from(KEYS), trees(), max_size=6))
def test_any_tree_loads_or_is_refused(file: Path, tree: dict[str, Any]) -> None:
    file.write_bytes(to_yaml(tree).encode("utf-8", "surrogatepass"))
    load(file)


@settings(REPEATABLE)
@given(path=st.lists(st.sampled_from(KEYS), min_size=1, max_size=4), value=scalars())
def test_any_setting_is_taken_or_refused(file: Path, path: list[str], value: object) -> None:
    file.write_text("ping: {}\nhost: {stack_rx: 1ns}\ncompare: [{name: a}, {name: b}]\n")
    load(file, (f"{'.'.join(path)}={value}",), SET_LINE)


@settings(REPEATABLE)
@given(text=st.text(max_size=60))
def test_any_setting_text_is_taken_or_refused(file: Path, text: str) -> None:
    file.write_text("name: x\n")
    load(file, (text,), SET_LINE)


@settings(REPEATABLE)
@given(tree=st.dictionaries(st.text(max_size=8), trees(), min_size=1, max_size=5))
def test_what_is_written_reads_back(file: Path, tree: dict[str, Any]) -> None:
    from emulator.scenario.yamltree import read_file

    clean = _finite(tree)
    try:
        text = to_yaml(clean).encode()
    except UnicodeEncodeError:
        return
    file.write_bytes(text)
    try:
        back = read_file(file).plain()
    except ScenarioError as error:
        back = str(error)
    assert back == clean or re.search("digits|nested too deeply|a character", str(back))  # what YAML does not take


def _finite(tree: Any) -> Any:
    """NaN differs from itself; drop it."""
    if isinstance(tree, dict):
        return {key: _finite(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_finite(value) for value in tree]
    return 0 if isinstance(tree, float) and tree != tree else tree


def small(low: int, high: int, unit: str) -> st.SearchStrategy[str]:
    return st.integers(low, high).map(lambda n: f"{n}{unit}")


def valid() -> st.SearchStrategy[dict[str, Any]]:
    qdiscs = st.one_of(
        st.fixed_dictionaries({"kind": st.sampled_from(["noqueue", "pfifo", "bfifo", "pfifo_fast", "codel"])}),
        st.fixed_dictionaries({"kind": st.just("sfq"), "limit": small(2, 200, "p"), "headdrop": st.booleans()}),
        st.fixed_dictionaries(
            {"kind": st.just("fq_codel"), "target": small(0, 50, "ms"), "flows": st.integers(1, 65536)}
        ),
    )
    bql = {"variant": st.sampled_from(["off", "v5", "v6", "v7"]), "tx_usecs": small(0, 1000, "us")}
    device = {"qdisc": qdiscs, "peer_qdisc": qdiscs, "bql": st.fixed_dictionaries({}, optional=bql)}
    return st.fixed_dictionaries(
        {},
        optional={
            "device": st.fixed_dictionaries({}, optional=device),
            "ping": st.one_of(st.none(), st.fixed_dictionaries({"interval": small(1, 99, "ms")})),
            "flood": st.fixed_dictionaries({}, optional={"rate": small(1, 99, "kpps"), "flows": st.integers(1, 8)}),
            "netfilter": st.fixed_dictionaries({"rules": st.integers(0, 9), "rule_cost": small(0, 99, "ns")}),
            "host": st.fixed_dictionaries(
                {}, optional={"stack_rx": small(0, 9, "us"), "completion": small(0, 9, "ns")}
            ),
            "expect": st.dictionaries(st.sampled_from(["rtt.p99", "rtt.avg"]), st.sampled_from(["<= 3ms", "> 1us"])),
        },
    )


@settings(REPEATABLE)
@given(base=valid(), overlays=st.lists(valid(), max_size=3))
def test_the_effective_form_of_any_valid_scenario_loads_to_the_same(
    file: Path, base: dict[str, Any], overlays: list[dict[str, Any]]
) -> None:
    tree = {**base, "compare": [{"name": f"v{i}", **overlay} for i, overlay in enumerate(overlays)]}
    file.write_text(to_yaml(tree))
    loaded = load(file)
    assert loaded is not None
    assert len(loaded.variants) == max(1, len(overlays))
    again = file.with_name("again.yaml")
    again.write_text(to_yaml(loaded.effective()))
    back = load(again)
    assert back is not None
    assert (back.base, back.variants) == (loaded.base, loaded.variants)


@settings(REPEATABLE)
@given(ns=st.integers(0, 10**17))
def test_durations_round_trip(ns: int) -> None:
    assert parse_duration_ns(format_duration(ns)) == ns


@settings(REPEATABLE)
@given(ns=st.floats(0, 1e9).map(lambda x: round(x, 6)))
def test_costs_round_trip(ns: float) -> None:
    assert Cost().parse(format_cost(ns)) == ns


@pytest.mark.parametrize("parse", [duration().parse, Cost().parse])
@settings(REPEATABLE)
@given(value=scalars())
def test_quantities_raise_nothing_else(parse: Callable[[object], object], value: object) -> None:
    from pydantic_core import PydanticCustomError

    says = ""
    try:
        parse(value)
    except PydanticCustomError as error:
        says = str(error)
    assert says.isprintable()
