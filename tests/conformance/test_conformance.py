"""The emulated kernel behaves as recorded from Linux, and the replay that says so can fail."""

import copy
import importlib
import json
import lzma
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
VECTORS = Path(__file__).parent / "vectors"
EVERY_FAMILY = (
    "dql/errors",
    "dql/netdev_wrappers",
    "dql/reset",
    "dql/stall_detect",
    "dql/u32_corners",
    "dql/wraparound",
    "ptr_ring/resize",
    "ptr_ring/unconsume",
    "codel/codel_edges",
    "codel/codel_stale",
    "codel/codel_catchup",
    "fq_codel/change",
    "fq_codel/edges",
    "fq_codel/overlimit",
    "sfq/options",
    "fifo/fifo",
    "fifo/pfifo_fast",
)


def replay(*arguments):
    """Exit code, lines of stdout and lines of stderr."""
    tool = ROOT / "tools" / "conformance.py"
    done = subprocess.run(
        [sys.executable, tool, *map(str, arguments)], capture_output=True, text=True, check=False, cwd=ROOT
    )
    return done.returncode, done.stdout.splitlines(), done.stderr.splitlines()


def vector(name):
    return VECTORS / f"{name}.jsonl.xz"


def traces(name):
    return [json.loads(line) for line in lzma.open(vector(name), "rt")]


def write(path, *lines):
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


def test_compiled_kernel_behaves_as_recorded():
    code, out, err = replay(*sorted(VECTORS.rglob("*.xz")))
    assert (code, out, err) == (0, ["139 traces, 85739 operations, 0 mismatches"], [])


def test_plain_twin_behaves_as_recorded():
    code, out, err = replay("--python", *map(vector, EVERY_FAMILY))
    assert (code, out, err) == (0, ["52 traces, 19146 operations, 0 mismatches"], [])


def change_dql(trace):
    trace["ops"][100][2][trace["fields"].index("limit")] += 1


def change_ring(trace):
    trace["ops"][100][3][trace["fields"].index("consumer_tail")] += 1


def change_codel(trace):
    trace["ops"][60][4][trace["fields"].index("ldelay")] += 1


def change_fq_codel(trace):
    op = next(op for op in trace["ops"][50:] if op[7])
    flow = next(iter(op[7].values()))
    flow[trace["flow_fields"].index("deficit")] -= 1


def change_sfq(trace):
    op = next(op for op in trace["ops"][50:] if op[4])
    op[4][0][trace["slot_fields"].index("allot")] += 1


def change_fifo(trace):
    trace["ops"][-1][3][trace["queue_fields"].index("drops")] += 1


def change_params(trace):
    trace["params"]["target"] += 1


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("dql/stall_detect", change_dql),
        ("ptr_ring/resize", change_ring),
        ("codel/codel_stale", change_codel),
        ("fq_codel/edges", change_fq_codel),
        ("sfq/options", change_sfq),
        ("fifo/fifo", change_fifo),
        ("codel/codel_edges", change_params),
    ],
)
def test_one_changed_value_is_one_mismatch(tmp_path, name, change):
    trace = traces(name)[0]
    wrong = copy.deepcopy(trace)
    change(wrong)
    path = write(tmp_path / "renamed.txt", wrong)  # the family is in the content, not in the name
    code, out, err = replay("--python", path)
    assert code == 1
    assert out[-1] == f"1 traces, {trace['n_ops']} operations, 1 mismatches"
    assert out[0].startswith(f"{path}:1: {trace['id']}: op ")
    assert not err


def test_a_change_of_the_marks_is_seen(tmp_path):
    trace = traces("codel/codel_edges")[1]
    marking = next(op for op in trace["ops"] if op[0] == "deq" and op[3][2])
    marking[3][2].append(marking[3][2][0])
    code, out, _ = replay("--python", write(tmp_path / "marks", trace))
    assert (code, out[-1]) == (1, f"1 traces, {trace['n_ops']} operations, 1 mismatches")


def without(trace, *keys):
    return {key: value for key, value in trace.items() if key not in keys}


def ring_of(size, *ops):
    fields = ["producer", "consumer_head", "consumer_tail", "size", "batch", "occupied"]
    return {"id": "ring", "size": size, "fields": fields, "start": [0, 0, 0, size, 1, 0], "n_ops": len(ops), "ops": ops}


FIFO = {
    "id": "fifo",
    "params": {"kind": "pfifo", "limit": 4, "tx_queue_len": 1000},
    "device_mtu": 1500,
    "queue_fields": ["qlen", "backlog", "drops"],
    "ops": [],
}


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("{", "not JSON"),
        ("[1, 2]", "a trace is a JSON object"),
        ({"id": "x", "ops": []}, "unknown family of traces"),
        ({"id": "x", "size": 4}, "'ops' is not a list of operations"),
        (ring_of(4) | {"n_ops": 3}, "n_ops is 3, but there are 0 operations"),
        (ring_of(4) | {"variants": "7.2.13"}, "'variants' is not a list of names"),
        (ring_of(4, ["explode", None, 0, [0, 0, 0, 4, 1, 0]]), "op 0: unknown operation 'explode'"),
        (ring_of(4, ["produce", 0, 0, [0, 0, 0, 4, 1, 0]]), "op 0: 0 is not a whole number from 1"),
        (ring_of(4, ["produce", "1", 0, [0, 0, 0, 4, 1, 0]]), "op 0: '1' is not a whole number"),
        (ring_of(4, ["produce", 1, 0, [0, 0, 0, 4]]), "op 0: a state of 4 values for 6 fields"),
        (ring_of(4, ["produce", 1]), "op 0: ValueError"),
        (ring_of(10**9), "start: a ring of 1000000000: at most"),
        (without(ring_of(4), "start"), "start: KeyError: 'start'"),
        (FIFO | {"ops": [["enq", [1, 64, 0, 9], [0, []], [1, 64, 0]]]}, "op 0: ValueError"),
        (FIFO | {"params": {"kind": "pfifo_fast", "limit": None, "tx_queue_len": 0}}, "start: no such qdisc"),
    ],
)
def test_what_cannot_be_replayed_is_one_line(tmp_path, line, what):
    good = ring_of(4, ["empty", None, True, [0, 0, 0, 4, 1, 0]])
    path = write(tmp_path / "bad.jsonl", good, line, good)
    code, out, err = replay("--python", path)
    assert code == 2
    assert len(err) == 1
    assert err[0].startswith(f"{path}:2: {what}")
    assert out[-1].endswith("2 operations, 0 mismatches")


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "torn.xz").write_bytes(vector("dql/reset").read_bytes()[:500])
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(bytes(range(128, 256)))
    names = ["missing", "torn.xz", "empty", "binary", "."]
    code, out, err = replay("--python", *(tmp_path / name for name in names))
    assert (code, out) == (2, ["0 traces, 0 operations, 0 mismatches"])
    assert [line.partition(":1: ")[0] for line in err] == [str(tmp_path / name) for name in names]


def test_more_packets_than_the_pool_holds_is_an_error_and_no_mismatch(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(ROOT / "tools")
    conformance = importlib.import_module("conformance")
    ops = [["enq", [i, 1, 0], [0, []], [i, i, 0]] for i in range(1, 5)]
    path = write(tmp_path / "many", FIFO | {"ops": ops})
    run = conformance.Run(verbose=False)
    run.machine.view.pool.depot_count = 3
    run.file(path)
    assert (run.operations, run.mismatches, run.errors) == (3, 0, 1)
    assert capsys.readouterr().err == f"{path}:1: op 3: 3 packets are queued at once: the pool is empty\n"


def test_lines_of_other_kernels_are_skipped(tmp_path):
    good = ring_of(4, ["empty", None, True, [0, 0, 0, 4, 1, 0]])
    bad = ring_of(4, ["empty", None, False, [0, 0, 0, 4, 1, 0]])
    path = write(
        tmp_path / "mixed",
        good | {"variants": ["7.2.13", "6.12.107"]},
        bad | {"variants": ["7.2.13-nofix", "7.2.9"]},
        bad | {"variants": ["6.12.107", "6.12.107+fix"]},
        good | {"variants": ["7.2.13", "7.2.13-nofix"]},
    )
    assert replay("--python", path) == (0, ["2 traces, 2 operations, 0 mismatches"], [])
    code, _, err = replay("--python", "-v", path)
    assert (code, err) == (0, [f"{path}: 2 of 4 traces are of other kernels: skipped"])
    old = write(tmp_path / "old", bad | {"variants": ["6.12.107"]})
    code, out, err = replay("--python", old)
    assert (code, out) == (0, ["0 traces, 0 operations, 0 mismatches"])
    assert err == [f"{old}: 1 of 1 traces are of other kernels: skipped"]
