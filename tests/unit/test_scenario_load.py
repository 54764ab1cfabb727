"""From files to scenarios: defaults, merging, variants, settings, the effective form."""

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from emulator.errors import ScenarioError
from emulator.scenario import Scenario, check_cpus, load_scenario, to_yaml
from emulator.scenario.load import LoadedScenario

Write = Callable[..., Path]
PROFILE = "netfilter_rule: {0: 0ns, 100: 800ns}\nstack_rx: 568ns\n"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_(text: str, name: str = "s.yaml") -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    return write_


def faults(path: Path, *sets: str) -> list[str]:
    with pytest.raises(ScenarioError) as error:
        load_scenario(path, sets)
    return [line.replace(f"{path.parent}/", "") for line in error.value.problems]


def reload(loaded: LoadedScenario, folder: Path) -> LoadedScenario:
    path = folder / "again" / "other-name.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(to_yaml(loaded.effective()))
    return load_scenario(path)


def test_the_shortest_scenario_has_the_documented_defaults(write: Write) -> None:
    loaded = load_scenario(write("description: x\n", "my flood.yaml"))
    s = loaded.base
    assert loaded.variants == (s,)
    assert (s.name, s.variant_name) == ("my flood", "my flood")
    assert (s.clock, s.duration, s.warmup, s.seed) == ("real", 20_000_000_000, 1_000_000_000, 1)
    assert (s.host, s.run_dir, s.ping, s.events, s.expect) == (None, None, None, (), ())
    assert s.device.model_dump() == {
        "kind": "veth",
        "ring_size": 256,
        "num_tx_queues": 6,
        "real_num_tx_queues": 1,
        "txqueuelen": "1000p",
        "mtu": 1500,
        "bql": {
            "variant": "off",
            "tx_usecs": "100us",
            "limit_min": "0p",
            "limit_max": "1879048192p",
            "hold_time": "1s",
            "stall_thrs": 0,
        },
        "qdisc": {
            "kind": "fq_codel",
            "limit": "10240p",
            "flows": 1024,
            "quantum": "1514B",
            "target": "5ms",
            "interval": "100ms",
            "memory_limit": "32MiB",
            "drop_batch": "64p",
            "ecn": True,
            "ce_threshold": "off",
        },
        "peer_qdisc": {"kind": "noqueue"},
    }
    assert s.flood.model_dump() == {
        "mode": "queue_xmit",
        "packet": "64B",
        "rate": "max",
        "threads": 1,
        "flows": 1,
        "cpus": None,
    }
    assert (s.flood.rate, s.napi.weight, s.napi.gro_normal_batch, s.napi.idle) == (None, 64, 8, None)
    assert (s.netfilter.rules, s.netfilter.mode, s.watchdog.timeout, s.timing.require) == (
        0,
        "burn",
        16_000_000_000,
        "ignore",
    )


def test_values_are_plain_numbers(write: Write) -> None:
    s = load_scenario(
        write(
            "device: {bql: {variant: off, tx_usecs: 50us}, qdisc: {kind: sfq, limit: 100p, quantum: 3KiB}}\n"
            "flood: {rate: 1.5Mpps, packet: 1KB, threads: 2, cpus: [0, 1]}\n"
            "ping: {interval: 1ms, from: schedule, packet: 98B}\nnetfilter: {rules: 10, rule_cost: 7.7ns}\n"
        )
    ).base
    assert (s.device.bql.variant, s.device.bql.tx_usecs) == ("off", 50_000)
    assert s.device.qdisc.kind == "sfq"
    assert (s.device.qdisc.limit, s.device.qdisc.quantum) == (100, 3072)
    assert (s.flood.rate, s.flood.packet, s.flood.cpus) == (1_500_000, 1000, (0, 1))
    assert s.ping is not None
    assert (s.ping.interval, s.ping.from_) == (1_000_000, "schedule")
    assert s.netfilter_cost_ns == 77


def test_defaults_that_the_device_decides(write: Write) -> None:
    def qdisc(text: str):  # type: ignore[no-untyped-def]
        return load_scenario(write(f"device: {{mtu: 9000, txqueuelen: 7p, {text}}}")).base.device

    assert qdisc("qdisc: {kind: pfifo}").qdisc.limit == 7
    assert qdisc("peer_qdisc: {kind: pfifo_head_drop}").peer_qdisc.limit == 7
    assert qdisc("qdisc: {kind: bfifo}").qdisc.limit == 7 * 9014
    assert qdisc("qdisc: {kind: pfifo, limit: 0}").qdisc.limit == 0
    assert qdisc("qdisc: {kind: fq_codel}").qdisc.quantum == 9014
    assert qdisc("qdisc: {kind: sfq}").qdisc.quantum == 9014


def test_a_scenario_is_frozen_and_pickles(write: Write) -> None:
    s = load_scenario(write("compare: [{name: a}]\nexpect: {ping.loss: 0}\n")).variants[0]
    with pytest.raises(ValidationError):
        s.seed = 2  # type: ignore[misc]
    again = pickle.loads(pickle.dumps(s))
    assert again == s
    assert again.variant_name == "a"


def test_extends_merges_deeply_and_this_file_wins(write: Write) -> None:
    write("name: base\nduration: 5s\ndevice: {ring_size: 64, bql: {variant: v6}}\nping: {interval: 1ms}\n", "base.yaml")
    s = load_scenario(write("extends: base.yaml\ndevice: {bql: {tx_usecs: 7us}}\nping: null\n", "top.yaml")).base
    assert (s.name, s.duration, s.device.ring_size) == ("top", 5_000_000_000, 64)
    assert (s.device.bql.variant, s.device.bql.tx_usecs, s.ping) == ("v6", 7_000, None)


def test_another_kind_replaces_the_options_of_the_first(write: Write) -> None:
    write("device: {qdisc: {kind: fq_codel, flows: 8}}\n", "base.yaml")
    top = write("extends: base.yaml\ndevice: {qdisc: {kind: pfifo}}\n")
    assert load_scenario(top).base.device.qdisc.kind == "pfifo"
    same = write("extends: base.yaml\ndevice: {qdisc: {limit: 9p}}\n")
    assert load_scenario(same).base.device.qdisc.to_plain().items() >= {"flows": 8, "limit": "9p"}.items()


def test_faults_name_the_file_in_which_they_stand(write: Write) -> None:
    write("duration: 5s\nseed: x\n", "base.yaml")
    top = write("extends: base.yaml\nwarmup: 5\n")
    assert [line.split(": ")[0] for line in faults(top)] == ["base.yaml:2:7", "s.yaml:2:9"]


def test_extends_that_goes_in_a_circle(write: Write) -> None:
    write("extends: a.yaml\n", "b.yaml")
    assert faults(write("name: x\nextends: b.yaml\n", "a.yaml")) == [
        "b.yaml:1:10: extends: goes round in a circle: a.yaml -> b.yaml -> a.yaml; break it"
    ]
    assert "circle" in faults(write("extends: self.yaml\n", "self.yaml"))[0]


@pytest.mark.parametrize("value", ["nope.yaml", "/etc/passwd", "3", "null", "[]", '""', '"a\\0b"', "a" * 300])
def test_extends_that_is_no_file_points_at_itself(write: Write, value: str) -> None:
    (line,) = faults(write(f"name: x\nextends: {value}\n"))
    assert line.startswith("s.yaml:2:")
    assert "extends: " in line


def test_a_long_chain_of_extends_ends(write: Write) -> None:
    for i in range(40):
        write(f"extends: f{i + 1}.yaml\n", f"f{i}.yaml")
    (line,) = faults(write("extends: f0.yaml\n"))
    assert "more than 16 files" in line


def test_faults_here_and_in_named_files_are_reported_together(write: Write) -> None:
    lines = faults(write("extends: no.yaml\nhost: nowhere\nseed: -1\ncompare: [{name: a, host: gone}]\n"))
    assert [line.split(": ")[1] for line in lines] == ["host", "extends", "host", "seed"]


def test_variants_are_laid_over_the_base(write: Write) -> None:
    loaded = load_scenario(
        write(
            "name: n\ndevice: {bql: {variant: v7}}\nping: {}\n"
            "compare:\n- {name: a, device: {ring_size: 8}}\n- {name: b, ping: null, description: other}\n"
        )
    )
    a, b = loaded.variants
    assert [(v.name, v.variant_name) for v in loaded.variants] == [("n", "a"), ("n", "b")]
    assert (a.device.ring_size, a.device.bql.variant, a.ping is None) == (8, "v7", False)
    assert (b.device.ring_size, b.device.bql.variant, b.ping, b.description) == (256, "v7", None, "other")
    assert loaded.base.device.ring_size == 256


def test_a_fault_in_an_overlay_points_at_the_overlay(write: Write) -> None:
    lines = faults(write("name: n\ncompare:\n- name: a\n  device:\n    bql: {variant: v9, foo: 1}\n"))
    assert [line.split(": ")[:2] for line in lines] == [
        ["s.yaml:5:20", "compare[0].device.bql.variant"],
        ["s.yaml:5:24", "compare[0].device.bql.foo"],
    ]


def test_a_fault_of_the_base_is_reported_once(write: Write) -> None:
    assert len(faults(write("seed: -1\ncompare: [{name: a}, {name: b}]\n"))) == 1


def test_an_impossible_variant_is_named(write: Write) -> None:
    lines = faults(
        write(
            "watchdog: {timeout: 1ms}\ndevice: {bql: {tx_usecs: 5ms}}\n"
            "compare:\n- {name: old, device: {bql: {variant: v6}}}\n- {name: new, device: {bql: {variant: v7}}}\n"
        )
    )
    assert len(lines) == 1
    assert lines[0].startswith("s.yaml:5:39: compare[1].device.bql.variant: 5ms is not below the watchdog timeout")


def test_what_is_impossible_only_in_the_base_does_not_matter(write: Write) -> None:
    loaded = load_scenario(write("netfilter: {rules: 5}\ncompare: [{name: a, netfilter: {rule_cost: 1ns}}]\n"))
    assert loaded.variants[0].netfilter_cost_ns == 5
    assert "rules cost nothing" in faults(write("netfilter: {rules: 5}\n"))[0]


@pytest.mark.parametrize(
    ("compare", "says"),
    [
        ("3", "compare: expected a list, got 3"),
        ("{name: a}", "compare: expected a list, got a mapping"),
        ("[3]", "compare[0]: expected a mapping, got 3"),
        ("[{}]", "compare[0].name: is missing"),
        ("[{name: 3}]", "compare[0].name: expected text, got 3"),
        ("[{name: a/b}]", "compare[0].name: text 'a/b' is not a name"),
        ("[{name: a}, {name: a}]", "compare[1].name: text 'a' names two variants"),
        ("[{name: a, extends: x.yaml}]", "compare[0].extends: does not belong in a variant"),
        ("[{name: a, compare: []}]", "compare[0].compare: does not belong in a variant"),
        (str([{"name": f"v{i}"} for i in range(65)]), "compare: 65 variants; allowed: at most 64"),
    ],
)
def test_what_is_not_a_list_of_variants(write: Write, compare: str, says: str) -> None:
    (line,) = faults(write(f"compare: {compare}\n"))
    assert says in line
    assert line.startswith("s.yaml:1:")


def test_set_wins_over_everything(write: Write) -> None:
    path = write("seed: 1\ncompare: [{name: a, seed: 2, device: {bql: {variant: v7}}}, {name: b}]\n")
    loaded = load_scenario(path, ["seed=3", "device.bql.tx_usecs=50us", "expect.rtt.p99=>= 3ms", "seed=4"])
    assert [v.seed for v in (loaded.base, *loaded.variants)] == [4, 4, 4]
    assert [v.device.bql.tx_usecs for v in loaded.variants] == [50_000, 50_000]
    assert loaded.variants[0].device.bql.variant == "v7"
    assert [str(e) for e in loaded.base.expect] == ["rtt.p99 >= 3ms"]


def test_set_can_switch_on_off_and_drop_the_variants(write: Write) -> None:
    path = write("ping: null\ncompare: [{name: a, seed: 2}]\n")
    loaded = load_scenario(path, ["compare=[]", "ping.interval=1ms", "flood={threads: 0}", "flood.flows=2"])
    assert loaded.variants == (loaded.base,)
    assert loaded.base.seed == 1
    assert loaded.base.ping is not None
    assert (loaded.base.flood.threads, loaded.base.flood.flows) == (0, 2)
    assert load_scenario(path, ["compare=[{name: x}, {name: y}]"]).variants[1].variant_name == "y"


def test_set_of_another_kind_in_either_order(write: Write) -> None:
    path = write("device: {qdisc: {kind: fq_codel, flows: 4}}\n")
    for sets in (
        ["device.qdisc.kind=sfq", "device.qdisc.limit=5p"],
        ["device.qdisc.limit=5p", "device.qdisc.kind=sfq"],
    ):
        qdisc = load_scenario(path, sets).base.device.qdisc
        assert (qdisc.kind, qdisc.limit) == ("sfq", 5)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("setting", "line"),
    [
        ("duration", "--set duration: not a setting; write path=value, e.g. device.bql.tx_usecs=50us"),
        ("=3", "--set =3: not a setting; write path=value, e.g. device.bql.tx_usecs=50us"),
        ("a..b=3", "--set a..b=3: not a setting; write path=value, e.g. device.bql.tx_usecs=50us"),
        ("seed=", "--set seed=: seed: no value; write null to switch something off"),
        ("duration=20", "--set duration=20: duration: 20 has no unit; write 20s (units: ns us ms s min)"),
        ("extends=x.yaml", "--set extends=x.yaml: extends: belongs in a file; name that file instead"),
        ("seed.x=3", "--set seed.x=3: seed: expected a whole number, got a mapping; allowed: 0..9223372036854775807"),
        ("host=nope", "--set host=nope: host: no host profile 'nope'; write 'none', or a path relative to this file"),
    ],
)
def test_faults_of_a_setting_point_at_it(write: Write, setting: str, line: str) -> None:
    assert faults(write("name: x\n"), setting) == [line]


def test_an_impossible_setting_is_blamed_rather_than_the_file(write: Write) -> None:
    (line,) = faults(write("device: {num_tx_queues: 4, real_num_tx_queues: 2}\n"), "device.num_tx_queues=1")
    assert line.startswith("--set device.num_tx_queues=1: device.num_tx_queues: 2 queues in use, 1 allocated")


def test_host_is_found_beside_the_file_and_in_profiles(write: Write, tmp_path: Path) -> None:
    write(PROFILE, "profiles/box.yaml")
    for host in ("profiles/box.yaml", "box.yaml", "box", str(tmp_path / "profiles" / "box.yaml")):
        s = load_scenario(write(f"host: {host}\nnetfilter: {{rules: 50}}\n")).base
        assert s.host is not None
        assert (s.host.name, s.netfilter_cost_ns, s.stack_rx_ns) == ("box", 400, 568)
    assert load_scenario(write("name: x\n"), ["host=box"]).base.stack_rx_ns == 568
    assert load_scenario(write("host: box\n"), ["host=none"]).base.host is None


def test_a_value_of_the_profile_can_be_set_and_another_profile_replaces_it(write: Write) -> None:
    write(PROFILE, "box.yaml")
    write("completion: 3ns\n", "other.yaml")
    write("host: box\n", "base.yaml")
    host = load_scenario(write("extends: base.yaml\nhost: other\n")).base.host
    assert host is not None
    assert (host.completion, host.stack_rx) == (3.0, 0.0)
    tuned = load_scenario(write("host: box\n"), ["host.completion=9ns"]).base.host
    assert tuned is not None
    assert (tuned.completion, tuned.stack_rx) == (9.0, 568.0)


def test_faults_of_a_profile_point_into_it(write: Write) -> None:
    write("name: b\nstack_rx: 5\nfoo: 1\n", "box.yaml")
    lines = faults(write("host: box\n"))
    assert [line.split(": ")[:2] for line in lines] == [["box.yaml:2:11", "stack_rx"], ["box.yaml:3:1", "foo"]]


def test_walked_rules_burn_nothing(write: Write) -> None:
    assert load_scenario(write("netfilter: {rules: 5, mode: walk, rule_cost: 9ns}\n")).base.netfilter_cost_ns == 0


def test_the_effective_form_loads_to_the_same(write: Write, tmp_path: Path) -> None:
    write(PROFILE, "box.yaml")
    write("netfilter_rule: {0: 0ns, 50: 1.25us}\n", "other.yaml")
    loaded = load_scenario(
        write(
            "name: '10:30'\ndescription: \"two\\nlines: 'x' \\u00e9 \\U0001F600\"\nhost: box\nping: {interval: 1ms}\n"
            "flood: {rate: 10kpps, cpus: [0]}\n"
            "expect: {rtt.p99: <= 3ms, ping.loss: 0, timing.verdict: good, i.ok: true}\n"
            "compare:\n- {name: '1', host: other, device: {qdisc: {kind: codel, ce_threshold: 1ms}}}\n"
            "- {name: 'null', host: none, ping: null, flood: {rate: max, cpus: null}, expect: {ping.loss: '> 1%'}}\n"
            "- {name: same}\n"
        )
    )
    again = reload(loaded, tmp_path)
    assert again.base == loaded.base
    assert again.variants == loaded.variants
    assert [v.variant_name for v in again.variants] == ["1", "null", "same"]
    assert again.effective() == loaded.effective()


def test_check_cpus_points_at_the_cpu_and_names_the_allowed(write: Write) -> None:
    path = write(
        "flood: {threads: 2, cpus: [0, 7]}\nnapi: {cpu: 1, peer_cpu: 9}\ncompare: [{name: a, ping: {cpu: 8}}]\n"
    )
    loaded = load_scenario(path)
    check_cpus(loaded, {0, 1, 7, 8, 9})
    with pytest.raises(ScenarioError) as error:
        check_cpus(loaded, {0, 1, 2, 5})
    assert [line.replace(f"{path.parent}/", "") for line in error.value.problems] == [
        "s.yaml:1:31: flood.cpus[1]: CPU 7 is not there, or not ours to use; allowed: 0-2,5",
        "s.yaml:2:26: napi.peer_cpu: CPU 9 is not there, or not ours to use; allowed: 0-2,5",
        "s.yaml:3:33: compare[0].ping.cpu: CPU 8 is not there, or not ours to use; allowed: 0-2,5",
    ]


def test_check_cpus_asks_for_this_process_by_default(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: {3})
    loaded = load_scenario(write("napi: {cpu: 2}\n"))
    with pytest.raises(ScenarioError, match=r"CPU 2 is not there.*allowed: 3"):
        check_cpus(loaded)


def test_a_scenario_equals_itself_only_as_the_same_variant() -> None:
    s = Scenario.model_validate({"name": "x"})
    assert s.named("a") != s.named("b")
    assert s.variant_name == "x"
