"""One line for each fault: its place, its path, what is wrong, what is allowed."""

import re
from pathlib import Path

import pytest

from emulator.errors import ExitCode, ScenarioError
from emulator.scenario import load_scenario

LINE = re.compile(r".*s\.yaml:\d+:\d+: [^:]+: .*; .*")


def faults(folder: Path, text: str) -> list[str]:
    path = folder / "s.yaml"
    path.write_text(text)
    with pytest.raises(ScenarioError) as error:
        load_scenario(path)
    assert error.value.exit_code is ExitCode.USAGE
    assert error.value.lines() == list(error.value.problems)
    return [line.replace(f"{folder}/s.yaml:", "") for line in error.value.problems]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("duraton: 3s", "1:1: duraton: unknown key, did you mean 'duration'?; allowed: name, description, clock,"),
        ("tx_usecs: 1us", "1:1: tx_usecs: unknown key, it belongs to device.bql; allowed: name,"),
        ("device: {rings: 3}", "1:10: device.rings: unknown key, did you mean 'ring_size'?; allowed: kind, ring_size,"),
        ("device: {qdisc: {kind: sfq, target: 5ms}}", "1:29: device.qdisc.target: unknown key; allowed: kind, limit,"),
        ("device: {qdisc: {kind: noqueue, x: 1}}", "1:33: device.qdisc.x: unknown key; allowed: kind"),
        (
            "device: {qdisc: {kind: fq-codel}}",
            "1:24: device.qdisc.kind: text 'fq-codel' is not available, did you mean",
        ),
        ("device: {qdisc: {limit: 3}}", "1:17: device.qdisc.kind: is missing; allowed: noqueue, pfifo, bfifo,"),
        ("device: {qdisc: sfq}", "1:17: device.qdisc: expected a mapping, got text 'sfq'; write e.g. {kind: noqueue}"),
        ("device: {qdisc: {kind: 3}}", "1:24: device.qdisc.kind: 3 is not available; allowed: noqueue, pfifo,"),
        ("device: {qdisc: {kind: [a]}}", "1:24: device.qdisc.kind: a list is not available; allowed: noqueue, pfifo,"),
        ("device: {qdisc: {kind: null}}", "1:24: device.qdisc.kind: null is not available; allowed: noqueue, pfifo,"),
        ("device: {kind: tun}", "1:16: device.kind: text 'tun' is not available; allowed: veth"),
        (
            "clock: virtul",
            "1:8: clock: text 'virtul' is not available, did you mean 'virtual'?; allowed: real, virtual",
        ),
        (
            "clock: virtual",
            "1:8: clock: under 'clock: virtual' time passes only through what a host profile says; give",
        ),
        (
            "{clock: virtual, host: {stack_rx: 1us}}",
            "1:24: host: the host profile's skb_build and qdisc_enqueue come to less than 10 ns: a flood at",
        ),
        (
            "{clock: virtual, host: {skb_build: 1us}, netfilter: {rules: 1, mode: walk}}",
            "1:70: netfilter.mode: walking real rules takes no time of 'clock: virtual'; write burn,",
        ),
        ("device: {bql: {variant: V7}}", "1:25: device.bql.variant: text 'V7' is not available, did you mean 'v7'?;"),
        ("device: {bql: {variant: v1}}", "1:25: device.bql.variant: text 'v1' is not available"),
        (
            "device: {bql: {variant: false}}",
            "1:25: device.bql.variant: false is not available; allowed: off, v5, v6, v7",
        ),
        (
            "device: {bql: {stall_thrs: 3}}",
            "1:28: device.bql.stall_thrs: 3 jiffies are refused by the kernel (-EINVAL);",
        ),
        ("device: {bql: {tx_usecs: 100}}", "1:26: device.bql.tx_usecs: 100 has no unit; write 100us"),
        ("device:", "1:1: device: expected a mapping, got null; allowed: kind, ring_size,"),
        ("device: [a]", "1:9: device: expected a mapping, got a list; allowed: kind, ring_size,"),
        ("trace: 1025", "1:8: trace: 1025 is out of range; allowed: 0..1024"),
        ("trace: -1", "1:8: trace: -1 is out of range; allowed: 0..1024"),
        ("trace: all", "1:8: trace: expected a whole number, got text 'all'; allowed: 0..1024"),
        ("device: {ring_size: 0}", "1:21: device.ring_size: 0 is out of range; allowed: 1..4096"),
        ("device: {ring_size: 4097}", "1:21: device.ring_size: 4097 is out of range; allowed: 1..4096"),
        ("device: {ring_size: 1e2}", "1:21: device.ring_size: expected a whole number, got 100.0; allowed: 1..4096"),
        ("device: {ring_size: '3'}", "1:21: device.ring_size: expected a whole number, got text '3'; allowed: 1..4096"),
        ("device: {ring_size: true}", "1:21: device.ring_size: expected a whole number, got true; allowed: 1..4096"),
        ("device: {ring_size: .nan}", "1:21: device.ring_size: expected a whole number, got .nan; allowed: 1..4096"),
        ("device: {num_tx_queues: 9}", "1:25: device.num_tx_queues: 9 is out of range; allowed: 1..8"),
        (
            "device: {qdisc: {kind: fq_codel, ecn: 1}}",
            "1:39: device.qdisc.ecn: expected true or false, got 1; allowed:",
        ),
        (
            "device: {qdisc: {kind: sfq, limit: 1}}",
            "1:36: device.qdisc.limit: sfq with limit 1 is refused by the kernel",
        ),
        ("device: {qdisc: {kind: sfq, divisor: 100}}", "1:38: device.qdisc.divisor: 100 is not a power of two"),
        (
            "device: {qdisc: {kind: sfq, perturb: 10}}",
            "1:38: device.qdisc.perturb: no rehashing is available; allowed: 0",
        ),
        (
            "device: {qdisc: {kind: sfq, perturb: -1}}",
            "1:38: device.qdisc.perturb: no rehashing is available; allowed: 0",
        ),
        ("seed: -1", "1:7: seed: -1 is out of range; allowed: 0..9223372036854775807"),
        ("seed: 99999999999999999999", "1:7: seed: 99999999999999999999 is out of range; allowed:"),
        ("name: 3", "1:7: name: expected text, got 3; put it in quotes"),
        ("name: a/b", "1:7: name: text 'a/b' is not a name; allowed: 1..64 printable characters without '/'"),
        ('name: "a\\nb"', "1:7: name: text 'a\\nb' is not a name; allowed:"),
        ("duration: 20", "1:11: duration: 20 has no unit; write 20s"),
        ("duration: 0s", "1:11: duration: 0s is out of range; allowed: 1ms..86400s"),
        ("host: null", "1:7: host: expected a host profile, got null; write 'none' to burn nothing, or a path"),
        ("host: 3", "1:7: host: expected a mapping, got 3; allowed: name, description, hz,"),
        ("host: nowhere.yaml", "1:7: host: no host profile 'nowhere.yaml'; write 'none', or a path"),
        ("run_dir: here", "1:10: run_dir: text 'here' is not an absolute path; write e.g. /dev/shm"),
        ("flood: {rate: 100}", "1:15: flood.rate: 100 has no unit; write 100pps (units: pps kpps Mpps), or 'max'"),
        ("flood: {threads: 5}", "1:18: flood.threads: 5 is out of range; allowed: 0..4"),
        ("flood: {packet: 63B}", "1:17: flood.packet: 63B is out of range; allowed: 64B..65535B"),
        ("flood: {cpus: 0}", "1:15: flood.cpus: expected a list, got 0; write e.g. [0, 1]"),
        ("flood: {cpus: [a]}", "1:16: flood.cpus[0]: expected a whole number, got text 'a'; allowed: 0..4095"),
        ("napi: {threaded: false}", "1:18: napi.threaded: false is not available; allowed: true"),
        ("napi: {idle: sleep}", "1:14: napi.idle: text 'sleep' is not available; allowed: spin, yield, futex"),
        ("napi: {from_: 3}", "1:8: napi.from_: unknown key; allowed: threaded, cpu,"),
        ("ping: {from_: schedule}", "1:8: ping.from_: unknown key, did you mean 'from'?; allowed: interval, from,"),
        ("ping: {interval: 99us}", "1:18: ping.interval: 99us is out of range; allowed: 100us..3600s"),
        ("ping: 20ms", "1:7: ping: expected a mapping, got text '20ms'; allowed: interval, from, packet, cpu"),
        ("netfilter: {rules: 100001}", "1:20: netfilter.rules: 100001 is out of range; allowed: 0..100000"),
        ("netfilter: {rule_cost: 7.7}", "1:24: netfilter.rule_cost: 7.7 has no unit; write 7.7ns"),
        ("timing: {require: best}", "1:19: timing.require: text 'best' is not available; allowed: ignore, fair, good"),
        ("events: [{at: 1s}]", "1:9: events: no events are available in this version; allowed: []"),
        ("variant_name: x", "1:1: variant_name: unknown key"),
        ("expect: 3", "1:9: expect: expected a mapping, got 3; write e.g. {ping.loss: 0}"),
        ("expect: {ping.loss: [1]}", "1:21: expect.ping.loss: expected a value or '<op> value', got a list; write"),
        ("expect: {rtt.p99: 3}", "1:19: expect.rtt.p99: 3 has no unit; write e.g. '<= 3ms'"),
        ("expect: {rtt.p99: <= 3}", "1:19: expect.rtt.p99: 3 has no unit; write e.g. '<= 3ms'"),
        ("expect: {a: <= 3mss}", "1:13: expect.a: unknown unit 'mss', did you mean 'ms'?; allowed: ns, us,"),
        ("expect: {a: .nan}", "1:13: expect.a: .nan is not a value; write a finite number"),
        ("expect: {a: < good}", "1:13: expect.a: text '< good' compares a word; allowed: == !="),
        ("expect: {RTT: 3}", "1:15: expect.RTT: 'RTT' is not a path into the summary; write e.g. rtt.p99"),
    ],
)
def test_fields(tmp_path: Path, text: str, line: str) -> None:
    found = faults(tmp_path, text + "\n")
    assert len(found) == 1
    assert found[0].startswith(line)
    assert LINE.fullmatch(f"s.yaml:{found[0]}")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("device: {num_tx_queues: 2, real_num_tx_queues: 3}", "1:48: device.real_num_tx_queues: 3 queues in use, 2"),
        ("device: {bql: {variant: v7, tx_usecs: 16s}}", "1:39: device.bql.tx_usecs: 16s is not below the watchdog"),
        ("watchdog: {timeout: 1ms}\ndevice: {bql: {variant: v7, tx_usecs: 1ms}}", "2:39: device.bql.tx_usecs: 1ms is"),
        ("device: {txqueuelen: 0, qdisc: {kind: pfifo_fast}}", "1:22: device.txqueuelen: pfifo_fast with txqueuelen 0"),
        ("device: {txqueuelen: 0, peer_qdisc: {kind: pfifo_fast}}", "1:22: device.txqueuelen: pfifo_fast with"),
        (
            "netfilter: {rules: 1}",
            "1:20: netfilter.rules: 1 rules cost nothing under 'host: none'; give a host profile,",
        ),
        (
            "device: {qdisc: {kind: sfq, limit: 2p, flows: 1, depth: 1p}}",
            "1:36: device.qdisc.limit: sfq with 1 flows of 1 packets and 1024 buckets comes to a limit of 1, which",
        ),
        ("flood: {threads: 2, cpus: [0]}", "1:27: flood.cpus: 1 CPUs for 2 threads; write one a thread, or null"),
        (
            "ping: {interval: 100us}\nduration: 20s",
            "1:18: ping.interval: 210000 probes in warmup and duration; allowed:",
        ),
        ("flood: {threads: 0}", "1:18: flood.threads: nothing sends: no flood and no ping; give"),
        ("flood: {rate: 0pps}\nping: null", "1:15: flood.rate: nothing sends: no flood and no ping; give"),
    ],
)
def test_impossible_combinations(tmp_path: Path, text: str, line: str) -> None:
    (found,) = faults(tmp_path, text + "\n")
    assert found.startswith(line)


@pytest.mark.parametrize(
    "text",
    [
        "device: {bql: {variant: v6, tx_usecs: 16s}}",
        "device: {bql: {variant: v7, tx_usecs: 15999ms}}",
        "device: {bql: {variant: v7}, qdisc: {kind: noqueue}}",
        "device: {bql: {limit_min: 9, limit_max: 3}}",
        "device: {bql: {stall_thrs: 4}, num_tx_queues: 1}",
        "device: {txqueuelen: 0, qdisc: {kind: pfifo}}",
        "netfilter: {rules: 1, mode: walk}",
        "netfilter: {rules: 1, rule_cost: 0ns}",
        "flood: {threads: 0}\nping: {}",
        "flood: {threads: 0, cpus: []}\nping: {}",
        "ping: {interval: 1ms}\nduration: 120s",
        "device: {qdisc: {kind: sfq, limit: 2, divisor: 1, perturb: 0}}",
    ],
)
def test_odd_but_possible(tmp_path: Path, text: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(text + "\n")
    load_scenario(path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("device: {bql: {limit_min: 9, limit_max: 3}}", "1:27: device.bql.limit_min: limit_min above limit_max"),
        ("device: {bql: {variant: v7}, qdisc: {kind: noqueue}}", "1:25: device.bql.variant: noqueue has no queue"),
        ("device: {bql: {variant: v6, tx_usecs: 16s}}", "1:39: device.bql.tx_usecs: not below the watchdog timeout"),
        ("duration: 1s\nwarmup: 2s", "2:9: warmup: longer than what is measured, 1s"),
        ("flood: {packet: 1515B}", "1:17: flood.packet: larger than mtu 1500"),
        ("device: {qdisc: {kind: sfq, limit: 3000, flows: 2}}", "1:36: device.qdisc.limit: more than depth x flows"),
        ("flood: {cpus: [1]}\nnapi: {cpu: 1}", "2:13: napi.cpu: CPU 1 is the flood's too"),
        ("flood: {threads: 2, cpus: [1, 1]}", "1:27: flood.cpus: two threads on one CPU"),
    ],
)
def test_warnings(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(text + "\ncompare: [{name: a}, {name: b}]\n")
    (warning,) = load_scenario(path).warnings  # once, although both variants have it
    assert says in warning


def test_a_good_scenario_has_no_warnings(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("name: x\n")
    assert load_scenario(path).warnings == ()


def test_all_faults_are_reported_from_top_to_bottom(tmp_path: Path) -> None:
    found = faults(tmp_path, "flood: {threads: 9}\nseed: x\nfoo: 1\nping: {bar: 2}\nduration: 3\n")
    assert [line.split(": ")[:2] for line in found] == [
        ["1:18", "flood.threads"],
        ["2:7", "seed"],
        ["3:1", "foo"],
        ["4:8", "ping.bar"],
        ["5:11", "duration"],
    ]


def test_odd_text_stays_on_one_line(tmp_path: Path) -> None:
    for line in faults(tmp_path, '"a\\nb\\u202e": 1\nseed: "x\\r\\n\\e[31m"\n'):
        assert line.isprintable()
