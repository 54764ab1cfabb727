"""Scenarios of every shape: each runs to its end, loses nothing unaccounted for, and can be read."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(170)

BASE = """
name: shapes
host: none
duration: 200ms
warmup: 50ms
netfilter: {rules: 2600, mode: burn, rule_cost: 7.7ns}
device: {bql: {variant: v7, tx_usecs: 100us}}
flood: {packet: 64B, rate: max}
ping: {interval: 5ms}
compare:
"""
QDISCS = [f"{{device: {{qdisc: {{kind: {kind}}}}}}}" for kind in ("sfq", "codel", "pfifo_fast", "noqueue")]
FIFOS = [f"{{device: {{qdisc: {{kind: {kind}}}}}}}" for kind in ("pfifo", "bfifo", "pfifo_head_drop")]
DEVICES = [
    "{device: {peer_qdisc: {kind: fq_codel}}}",
    "{device: {num_tx_queues: 2, real_num_tx_queues: 2}, flood: {threads: 2, flows: 4}}",
    "{device: {real_num_tx_queues: 4}, flood: {flows: 4}}",
    "{device: {num_tx_queues: 1}}",
    "{device: {ring_size: 1}}",
    "{device: {ring_size: 30}}",
    "{device: {ring_size: 4096}}",
    "{device: {bql: {variant: v5}}}",
    "{device: {bql: {variant: v6}}}",
]
AGENTS = [
    "{flood: {rate: 10kpps}}",
    "{napi: {idle: yield}}",
    "{napi: {idle: spin}}",
    "{napi: {idle: futex}, flood: {rate: 10kpps}}",
    "{napi: {gro_normal_batch: 1}}",
    "{napi: {weight: 1}}",
    "{netfilter: {rules: 13000, mode: walk}}",
    "{flood: {threads: 0}}",
    "{ping: null}",
    "{flood: {packet: 1514B}}",
]


def run_all(launch, shapes):
    variants = "".join(f"  - {{name: v{number}, {shape[1:]}\n" for number, shape in enumerate(shapes))
    run = launch(BASE + variants)
    assert run.wait(150) == 0, run.out() + run.err()
    found = run.document()["variants"]
    assert len(found) == len(shapes)
    for variant, shape in zip(found, shapes, strict=True):
        broken = [check for check in variant["identities"]["checks"] if not check["ok"]]
        assert variant["identities"]["ok"], (shape, broken)
        assert variant["complete"], shape
        assert variant["warnings"] == [], shape
        assert variant["fault"] is None, shape
    text = run.out()
    assert all(len(line) <= 80 for line in text.splitlines() if not line.startswith("results in "))
    assert "None" not in text
    assert "nan" not in text
    assert run.left() == {}
    return found


def test_qdiscs(launch):
    found = run_all(launch, QDISCS)
    assert [variant["qdisc"]["kind"] for variant in found] == ["sfq", "codel", "pfifo_fast", "noqueue"]
    assert found[0]["ping_loss_pct"] == 0


def test_fifos(launch):
    found = run_all(launch, FIFOS)
    assert [variant["qdisc"]["kind"] for variant in found] == ["pfifo", "bfifo", "pfifo_head_drop"]


def test_devices(launch):
    found = run_all(launch, DEVICES)
    losses = [variant["ping_loss_pct"] for variant in found]
    del losses[DEVICES.index("{device: {ring_size: 1}}")]  # replies have no qdisc, and may find their ring of 1 full
    assert losses == [0] * len(losses)


def test_agents(launch):
    found = run_all(launch, AGENTS)
    without_flood, without_ping = found[7], found[8]
    assert without_flood["goodput_pps"] is None
    assert without_flood["rtt_ms"]["n"] > 0
    assert without_ping["rtt_ms"] is None
    assert without_ping["goodput_pps"] > 0


@pytest.mark.parametrize("name", ["quickstart", "dark-buffer", "dark-buffer-sfq", "light-consumer", "per-packet"])
def test_shipped(launch, name):
    scenario = Path(__file__).resolve().parents[2] / "scenarios" / f"{name}.yaml"
    run = launch(scenario, "--duration", "300ms", "--set", "warmup=200ms")
    assert run.wait() in (0, 1)  # a fraction of a second is too short for its expectations
    assert all(variant["identities"]["ok"] for variant in run.document()["variants"])
    assert all(variant["complete"] for variant in run.document()["variants"])
