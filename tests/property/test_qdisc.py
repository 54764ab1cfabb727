"""What must hold for every qdisc, whatever is sent through it; and what each discipline promises to a quiet flow."""

from hypothesis import given, settings
from hypothesis import strategies as st

MS = 1_000_000
SKBS = 65535  # the pool without slot 0
FRAME = 1514


class Driver:
    """Packets by number into one qdisc, and an account of what became of them."""

    def __init__(self, machine, kind, options, txqueuelen=100):
        self.m = machine
        self.q = machine.create_qdisc(kind, options, txqueuelen, 1500)
        self.record = machine.native(machine.raw["qdiscs"][0])
        self.queued = {}  # slot -> (flow, number)
        self.delivered = []
        self.seen = machine.cpu_view.trace_head
        self.count = 0
        machine.cpu_view.now_ns = 10**9

    def enqueue(self, flow, length=FRAME, priority=0, tos=0):
        m = self.m
        slot = m.skb.alloc_skb(m.net, m.cpu)
        packet = m.view.skbs[slot]
        packet.len, packet.truesize, packet.tos, packet.priority = length, length + 768, tos, priority
        packet.hash, packet.flow, packet.wmem = flow * 0x9E3779B1, flow, 0
        self.count += 1
        self.queued[slot] = (flow, self.count)
        result = m.ops.qdisc_enqueue(m.net, m.cpu, self.record, slot)
        self.forget_dropped()
        return result

    def dequeue(self):
        """``(flow, number)`` of what came out, or None."""
        m = self.m
        slot = m.ops.qdisc_dequeue(m.net, m.cpu, self.record)
        self.forget_dropped()
        if slot == 0:
            return None
        packet = self.queued.pop(slot)
        m.skb.consume_skb(m.net, m.cpu, slot)
        self.delivered.append(packet)
        return packet

    def wait(self, ns):
        self.m.cpu_view.now_ns += ns

    def forget_dropped(self):
        cpu = self.m.cpu_view
        for i in range(self.seen, cpu.trace_head):
            entry = cpu.trace[i & (self.m.clock.TRACE_SIZE - 1)]
            if entry & 0xFF != self.m.clock.ECN_MARK:
                del self.queued[entry >> 8]
        self.seen = cpu.trace_head

    def check(self):
        q, view = self.q, self.m.view
        assert q.qlen == len(self.queued)
        assert q.backlog == sum(view.skbs[slot].len for slot in self.queued)
        assert q.enqueued == self.count
        assert q.enqueued == q.bstats_packets - q.held - q.held_purged + q.drops + q.purged + q.qlen
        assert q.bstats_packets == len(self.delivered)
        free = view.pool.depot_count + sum(view.cpus[i].magazine_count for i in range(self.m.clock.CPUS_MAX))
        assert free + len(self.queued) == SKBS

    def reset(self):
        self.m.ops.qdisc_reset(self.m.net, self.m.cpu, self.record)
        self.forget_dropped()


KINDS = {
    "pfifo": {"limit": 20},
    "bfifo": {"limit": 20_000},
    "pfifo_head_drop": {"limit": 20},
    "pfifo_fast": {},
    "codel": {"limit": 30, "target": MS, "interval": 5 * MS},
    "fq_codel": {"limit": 40, "flows": 8, "target": MS, "interval": 5 * MS, "memory_limit": 80_000, "drop_batch": 4},
    "sfq": {"limit": 30, "depth": 12, "flows": 4, "divisor": 16, "quantum": 600},
}

steps = st.lists(
    st.one_of(
        st.tuples(st.just("enqueue"), st.integers(0, 5), st.sampled_from([64, 600, FRAME]), st.integers(0, 3)),
        st.tuples(st.just("burst"), st.integers(0, 5), st.integers(1, 60)),
        st.tuples(st.just("dequeue"), st.integers(1, 30)),
        st.tuples(st.just("wait"), st.integers(0, 20 * MS)),
    ),
    max_size=25,
)


def perform(driver, step):
    name, *arguments = step
    if name == "enqueue":
        flow, length, tos = arguments
        driver.enqueue(flow, length, priority=flow, tos=tos)
    elif name == "burst":
        flow, count = arguments
        for _ in range(count):
            driver.enqueue(flow, priority=flow)
    elif name == "dequeue":
        for _ in range(arguments[0]):
            driver.dequeue()
            driver.wait(MS // 10)
    else:
        driver.wait(arguments[0])


@given(kind=st.sampled_from(sorted(KINDS)), steps=steps, ecn=st.booleans())
@settings(max_examples=140)
def test_nothing_is_lost_duplicated_or_reordered(machine, kind, steps, ecn):
    options = KINDS[kind] | ({"ecn": ecn} if "codel" in kind else {})
    driver = Driver(machine, kind, options, txqueuelen=20)
    for step in steps:
        perform(driver, step)
        driver.check()
    for flow in range(6):
        numbers = [number for packet_flow, number in driver.delivered if packet_flow == flow]
        assert numbers == sorted(set(numbers))
    left, drops = len(driver.queued), driver.q.drops
    driver.reset()
    driver.check()
    assert (driver.q.qlen, driver.q.backlog, driver.q.purged, driver.q.drops) == (0, 0, left, drops)
    driver.enqueue(1)  # still usable
    assert driver.dequeue() == (1, driver.count)
    assert driver.dequeue() is None
    driver.reset()


@given(before=st.integers(30, 300), flood_len=st.sampled_from([64, 600, FRAME]))
@settings(max_examples=12)
def test_fq_codel_serves_a_sparse_flow_first(machine, before, flood_len):
    driver = Driver(machine, "fq_codel", {"flows": 1024})
    for _ in range(before + 100):
        driver.enqueue(1, flood_len)
    for _ in range(before):
        driver.dequeue()
        driver.wait(1000)
    # The flood has used up its first quantum by now: before that it counts as new itself.
    for _ in range(10):
        driver.enqueue(2, 98)
        assert driver.dequeue() == (2, driver.count)
        for _ in range(30):
            flow, _ = driver.dequeue()
            assert flow == 1
            driver.enqueue(1, flood_len)
    driver.reset()


@given(flood_len=st.sampled_from([600, 1000, FRAME]), gap=st.integers(1, 40))
@settings(max_examples=12)
def test_sfq_never_drops_a_lone_packet_and_lets_it_wait_one_turn(machine, flood_len, gap):
    driver = Driver(machine, "sfq", {})
    for _ in range(300):
        driver.enqueue(1, flood_len)
    for _ in range(10):
        driver.enqueue(2, 98)
        ping = (2, driver.count)
        waited = 0
        while driver.dequeue() != ping:
            waited += 1
            for _ in range(3):
                driver.enqueue(1, flood_len)
        assert waited * flood_len <= 2 * FRAME + flood_len
        for _ in range(gap):
            driver.dequeue()
            driver.enqueue(1, flood_len)
    driver.reset()


@given(bursts=st.lists(st.tuples(st.integers(0, 15), st.integers(1, 12)), max_size=12))
@settings(max_examples=30)
def test_pfifo_fast_serves_the_lowest_band_first(machine, bursts):
    driver = Driver(machine, "pfifo_fast", {}, txqueuelen=200)
    band = dict(enumerate((1, 2, 2, 2, 1, 2, 0, 0) + (1,) * 8))
    expected = {0: [], 1: [], 2: []}
    for priority, count in bursts:
        for _ in range(count):
            assert driver.enqueue(priority, priority=priority) == 0
            expected[band[priority]].append((priority, driver.count))
    for packet in expected[0] + expected[1] + expected[2]:
        assert driver.dequeue() == packet
    assert driver.dequeue() is None
