"""The compiled kernel and its plain-Python twin go through the same states, far from where the recorded traces are.

Random traces are recorded on the compiled kernel in this process and replayed on the twin by tools/conformance.py. Each
trace's seed is in its id.
"""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "conformance.py"
TRACES = 7
OPS = 260
UNKNOWN = "?"  # differs from whatever can be recorded
DQL_COUNTERS = ["num_queued", "num_completed", "prev_num_queued"]
DQL_LIMITS = ["limit", "adj_limit", "avail", "last_obj_cnt", "prev_ovlimit", "prev_last_obj_cnt", "lowest_slack"]
DQL_STALL = ["slack_start_time", "stall_thrs", "stall_max", "stall_cnt", "last_reap"]
DQL_FIELDS = DQL_COUNTERS + DQL_LIMITS + DQL_STALL
DQL_CALLS = ["queued", "completed", "jiffies", "set_min_limit", "set_max_limit", "set_stall_thrs", "set_limit", "reset"]
RING_FIELDS = ["producer", "consumer_head", "consumer_tail", "size", "batch", "occupied"]
CODEL_VARS = ["count", "lastcount", "dropping", "rec_inv_sqrt", "first_above_time", "drop_next", "ldelay"]
CODEL_STATS = ["maxpacket", "ecn_mark", "ce_mark", "drop_overlimit"]
QUEUE = ["qlen", "backlog", "drops"]


def dql(rng):
    now = rng.choice([10_000, 2**32 - 1500, 2**63 - 900, 2**64 - 900])
    start = rng.choice([0, 2**31 - 500, 2**32 - 500])
    limit = rng.choice([0, 1, 64, 100_000])
    values = dict.fromkeys(DQL_FIELDS, 0) | {"slack_start_time": now, "last_reap": now, "lowest_slack": 2**32 - 1}
    values |= dict.fromkeys(DQL_COUNTERS, start)
    values |= {"limit": limit, "adj_limit": (start + limit) % 2**32, "stall_thrs": rng.choice([0, 4, 20])}
    unit = rng.choice([1, 1514, 2**26])
    inflight = 0
    ops = []
    for _ in range(OPS):
        name = rng.choices(DQL_CALLS, [50, 25, 20, 1, 1, 1, 1, 0.3])[0]
        argument = rng.randint(1, 4 * unit)
        if name == "queued" and inflight + argument < 2**31:
            inflight += argument
        elif name == "completed":
            argument = rng.choice([inflight, rng.randint(0, inflight)])
            inflight -= argument
        elif name == "jiffies":
            argument = rng.choice([1, 3, 30, 300])
        elif name == "set_stall_thrs":
            argument = rng.choice([0, 1, 4, 16, 128])
        elif name == "reset":
            argument = inflight = 0
        elif name == "queued":
            continue
        ops.append([name, argument, [None] * len(DQL_FIELDS)])
    return {
        "hold_time": rng.choice([1, 50, 1000]),
        "jiffies0": now,
        "min_limit": 0,
        "max_limit": 2**31 - 2**28,
        "fields": DQL_FIELDS,
        "start": [values[name] for name in DQL_FIELDS],
        "ops": ops,
    }


def ptr_ring(rng):
    size = rng.choice([0, 1, 2, 31, 32, 64, 500])
    ops, entry, full_speed = [], 0, rng.choice([0.3, 0.5, 0.7])
    while len(ops) < OPS:
        draw = rng.random()
        if draw < 0.03:
            call = ("resize", size := rng.choice([0, 1, 5, 32, 64, 500]))
        elif draw < 0.06:
            call = ("unconsume", [entry := entry + 1 for _ in range(rng.randint(1, 20))])
        elif draw < 0.1:
            call = ("consume_batched", rng.randint(1, 70))
        elif draw < 0.15:
            call = (rng.choice(["peek", "empty", "slots"]), None)
        elif rng.random() < full_speed:
            call = ("produce", entry := entry + 1)
        else:
            call = ("consume", None)
        ops.append([*call, UNKNOWN, [None] * len(RING_FIELDS)])
    first = ops[0] if ops[0][0] == "resize" else None
    start_size = 64 if first else size
    batch = 16 if start_size >= 32 else 1
    return {"size": start_size, "fields": RING_FIELDS, "start": [0, 0, 0, start_size, batch, 0], "ops": ops}


def times(rng):
    """Nanoseconds that move on by nothing, a little or a lot; some traces start before the 32 bits of ticks wrap."""
    now = rng.choice([10**9, (2**32 << 10) - 10**8, (2**31 << 10) - 10**8])
    pace = rng.choice([10_000, 300_000, 3_000_000])
    while True:
        now += rng.choices([0, pace, rng.randint(0, 10 * pace), 200_000_000], [40, 40, 18, 1])[0]
        yield now


def codel_options(rng):
    options = {"target": rng.choice([1, 100, 1000, 5000]), "interval": rng.choice([2, 1000, 20_000, 100_000])}
    if rng.random() < 0.5:
        options["ecn"] = 1
    if rng.random() < 0.4:
        options["ce_threshold"] = rng.choice([0, 50, 2000])
    return options


def phases(rng):
    """True: enqueue. Long runs, so that queues grow beyond their limits and run empty."""
    while True:
        for _ in range(rng.randint(1, 60)):
            yield True
        for _ in range(rng.randint(1, 60)):
            yield False


def codel(rng):
    clock, phase = times(rng), phases(rng)
    fields = [*QUEUE, *CODEL_VARS, *CODEL_STATS]
    ops = []
    for number in range(1, OPS + 1):
        if next(phase):
            packet = [number, rng.choice([64, 600, 1514]), rng.randint(0, 255)]
            ops.append(["enq", next(clock), packet, UNKNOWN, [None] * len(fields)])
        else:
            ops.append(["deq", next(clock), None, UNKNOWN, [None] * len(fields)])
    options = codel_options(rng) | {"limit": rng.choice([1, 30, 1000])}
    return {"options_set": options, "params": {"target": None}, "device_mtu": 1500, "fields": fields, "ops": ops}


def fq_codel(rng):
    clock, phase = times(rng), phases(rng)
    queue = [*QUEUE, "memory_usage", "drop_overmemory", "new_flow_count", *CODEL_STATS]
    options = codel_options(rng) | {
        "flows": rng.choice([1, 3, 1024, 2000]),
        "limit": rng.choice([0, 5, 40, 10240]),
        "memory_limit": rng.choice([5000, 40_000, 1 << 25]),
        "drop_batch": rng.choice([0, 1, 7, 64]),
        "quantum": rng.choice([1, 300, 1514, 9000]),
    }
    if rng.random() < 0.5:
        options |= {"ce_threshold_selector": rng.randint(0, 3), "ce_threshold_mask": rng.choice([0, 3])}
    hashes = [rng.randrange(2**32) for _ in range(rng.choice([1, 4, 30]))]
    ops = []
    for number in range(1, OPS + 1):
        if number % 97 == 0:
            name, argument = "change", {"limit": rng.choice([0, 3, 20]), "target": 1000}
        elif next(phase):
            length = rng.choice([64, 600, 1514])
            name = "enq"
            argument = [number, rng.choice(hashes), length, rng.randint(0, 255), length + 768, rng.randint(0, 1)]
        else:
            name, argument = "deq", None
        ops.append([name, next(clock), argument, UNKNOWN, [None] * len(queue), UNKNOWN, UNKNOWN, UNKNOWN])
    return {
        "options_set": options,
        "params": {"target": None, "flows": None},
        "device_mtu": 1500,
        "queue_fields": queue,
        "flow_fields": ["deficit", "backlog", "qlen", *CODEL_VARS],
        "ops": ops,
    }


def sfq(rng):
    phase = phases(rng)
    options = {
        "divisor": rng.choice([1, 4, 1024, 65536]),
        "flows": rng.choice([1, 5, 128, 65408]),
        "limit": rng.choice([2, 10, 60, 1000]),
        "depth": rng.choice([1, 3, 127]),
        "quantum": rng.choice([1, 300, 5000]),
        "headdrop": rng.randint(0, 1),
    }
    if options["divisor"] * options["depth"] < 2 or options["flows"] * options["depth"] < 2:
        options["depth"] = 2
    hashes = [rng.randrange(2**32) for _ in range(rng.choice([1, 4, 30, 300]))]
    ops = []
    for number in range(1, OPS + 1):
        packet = [number, rng.choice(hashes), rng.choice([64, 600, 1514])] if next(phase) else None
        ops.append(["enq" if packet else "deq", packet, UNKNOWN, [None] * 4, UNKNOWN])
    return {
        "options_set": options,
        "params": {"divisor": None},
        "device_mtu": 1500,
        "queue_fields": [*QUEUE, "cur_depth"],
        "slot_fields": ["slot", "bucket", "qlen", "allot", "backlog"],
        "ops": ops,
    }


def fifo(rng):
    phase = phases(rng)
    kind = rng.choice(["pfifo", "bfifo", "pfifo_head_drop", "pfifo_fast"])
    limit = None if kind == "pfifo_fast" else rng.choice([0, 1, 20, 3000])
    ops = []
    for number in range(1, OPS + 1):
        name = "enq" if next(phase) else rng.choice(["deq", "deq", "peek"])
        packet = [number, rng.choice([64, 1514]), rng.randint(0, 40)] if name == "enq" else None
        op = [name, packet, UNKNOWN, [None] * 3]
        ops.append([*op, UNKNOWN] if kind == "pfifo_fast" else op)
    params = {"kind": kind, "limit": limit, "tx_queue_len": rng.choice([1, 30, 40])}
    return {"params": params, "device_mtu": 1500, "queue_fields": QUEUE, "ops": ops}


def fill_in(trace, op, differences):
    """Write what the compiled kernel did into an operation that had nothing recorded."""
    got = {name: value for name, _, value in differences}

    def fill(position, fields):
        op[position] = [got[name] for name in fields]

    if "hold_time" in trace:
        fill(2, trace["fields"])
        if "extra" in got:
            op.append(got["extra"])
        return
    timed = "target" in trace.get("params", {})
    result = 3 if timed else 2
    op[result] = got["result"]
    fill(result + 1, trace.get("queue_fields") or trace["fields"])
    for position, name in enumerate(("new", "old", "flows") if len(op) == 8 else ("ring", "bands"), start=result + 2):
        if name in got:
            op[position if len(op) == 8 else result + 2] = got[name]


@pytest.mark.parametrize("family", [dql, ptr_ring, codel, fq_codel, sfq, fifo], ids=lambda family: family.__name__)
def test_twin_goes_through_the_same_states(machine, tmp_path, family):
    import conformance  # beside the replay package that the machine came from

    path = tmp_path / "recorded"
    operations = 0
    with path.open("w") as file:
        for seed in range(TRACES):
            trace = {"id": f"{family.__name__}-{seed}"} | family(random.Random(f"{family.__name__} {seed}"))
            replay = conformance._REPLAYS[conformance.family_of(trace)](machine, trace)
            if "params" in trace:
                trace["params"] |= {name: got for name, _, got in replay.params()}
            for op in trace["ops"]:
                fill_in(trace, op, replay.step(op))
            assert replay.close() == []
            operations += len(trace["ops"])
            file.write(json.dumps(trace) + "\n")
    done = subprocess.run([sys.executable, TOOL, "--python", path], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.splitlines()[-5:] == [f"{TRACES} traces, {operations} operations, 0 mismatches"]
    assert done.returncode == 0
