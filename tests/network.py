"""A whole emulated network in this process: compiled code, virtual clocks, no agents' processes.

Two ways to run it, both deterministic. :meth:`Network.run` always steps the agent whose clock is behind.
:meth:`Network.shuffle` picks agents and moments by a seed. Or by hand: :meth:`Network.step`, :meth:`Network.send`,
:meth:`Network.receive`.
"""

from emulator.agents.prober import probe_due_ns
from emulator.agents.words import ROLE_FLOOD, ROLE_PING
from emulator.kernel.jit import kernel
from emulator.runtime import measure, walk
from emulator.runtime.build import RECEIVER, SENDER, build
from emulator.runtime.clocksource import ClockParams
from emulator.runtime.placement import place
from emulator.runtime.segment import Segment
from emulator.runtime.virtual_steps import agent_step
from emulator.scenario.model import Scenario

START_NS = 1_000_000_000_000
US, MS, S = 1_000, 1_000_000, 1_000_000_000
_FOR_EVER = 1 << 62


@kernel
def steps_of(nets, agents, index, count):
    """Up to ``count`` steps of one agent; how many did something."""
    for done in range(count):
        if not agent_step(nets[0], nets[0].cpus[agents[index].cpu], agents[index]):
            return done
    return count


@kernel
def run_until(nets, agents, count, until_ns, step_ns, idle_ns):
    """Step whoever is behind until all clocks are there. A step takes ``step_ns`` besides what it is charged."""
    net = nets[0]
    steps = 0
    while True:
        who = -1
        for i in range(count):
            if agents[i].stop == 0 and (who < 0 or net.cpus[i].now_ns < net.cpus[who].now_ns):
                who = i
        if who < 0 or net.cpus[who].now_ns >= until_ns:
            return steps
        cpu = net.cpus[who]
        if agent_step(net, cpu, agents[who]):
            cpu.now_ns += step_ns
            steps += 1
        else:
            cpu.now_ns += max(1, min(idle_ns, _due_ns(agents[who]) - cpu.now_ns))


@kernel
def _due_ns(words):
    if words.role == ROLE_PING:
        return probe_due_ns(words)
    if words.role == ROLE_FLOOD:
        return words.next_ns
    return _FOR_EVER


@kernel
def run_shuffled(nets, agents, count, steps, seed, burst, pace_ns):
    """Bursts of steps of agents picked by ``seed``, time moving on unevenly for each; the seed to go on with."""
    net = nets[0]
    now = 0
    for i in range(count):
        now = max(now, net.cpus[i].now_ns)
    x = seed & 0x7FFFFFFF
    while steps > 0:
        x = (x * 1103515245 + 12345) & 0x7FFFFFFF
        who = (x >> 12) % count
        x = (x * 1103515245 + 12345) & 0x7FFFFFFF
        length = 1 + (x >> 12) % burst
        x = (x * 1103515245 + 12345) & 0x7FFFFFFF
        if pace_ns > 0:
            now += (x >> 8) % pace_ns
        steps -= length
        if agents[who].stop != 0:
            continue
        cpu = net.cpus[who]
        cpu.now_ns = max(cpu.now_ns, now)
        for _ in range(length):
            if not agent_step(net, cpu, agents[who]):
                break
    return x


class Network:
    """A scenario's segment in private memory. ``view``: plain ints; ``raw``: what compiled code takes."""

    def __init__(self, **scenario):
        scenario.setdefault("flood", {})
        self.scenario = Scenario.model_validate(scenario)
        self.seats = place(self.scenario, [0, 1, 2, 3])
        self.segment = Segment.private()
        build(self.segment, self.scenario, self.seats, ClockParams(0, START_NS, 0))
        self.nets, self.agents = self.segment.nets, self.segment.agents
        self.raw = self.nets[0]
        self.view = self.segment.view.net
        self.words = self.segment.view.agents
        self.names = {seat.name: index for index, seat in enumerate(self.seats)}
        for index in range(len(self.seats)):
            cpu = self.view.cpus[index]
            cpu.virtual = 1
            cpu.now_ns = START_NS
            words = self.words[index]
            words.start_ns = words.next_ns = START_NS
            words.end_ns = _FOR_EVER
        self.sender, self.receiver = self.view.devs[SENDER], self.view.devs[RECEIVER]
        self.qdisc, self.txq, self.rq = self.view.qdiscs[SENDER], self.sender.txq[0], self.receiver.rq[0]

    def cpu(self, name):
        """The CPU context of an agent: ``flood0``, ``napi/veth1-0``, ``ping``, ``watchdog``."""
        return self.view.cpus[self.names[name]]

    def raw_cpu(self, name):
        """The same for compiled code."""
        return self.raw["cpus"][self.names[name]]

    def costs(self, name, **costs):
        """What operations cost on an agent's CPU, in ns."""
        for operation, cost_ns in costs.items():
            setattr(self.cpu(name).costs, operation, cost_ns)

    def stop(self, *names):
        """Let agents rest."""
        for name in names:
            self.words[self.names[name]].stop = 1

    def go(self, *names):
        """Let agents run again, from the present on."""
        now = max(self.view.cpus[i].now_ns for i in range(len(self.seats)))
        for name in names:
            self.words[self.names[name]].stop = 0
            self.cpu(name).now_ns = max(now, self.cpu(name).now_ns)
            self.words[self.names[name]].next_ns = now

    def run(self, duration_ns, step_ns=10, idle_ns=500):
        """Let everybody run for a while of virtual time; how many steps did something."""
        running = [i for i in range(len(self.seats)) if self.words[i].stop == 0]
        until = min(self.view.cpus[i].now_ns for i in running) + duration_ns
        return run_until(self.nets, self.agents, len(self.seats), until, step_ns, idle_ns)

    def shuffle(self, steps, seed, burst=1, pace_ns=0):
        """Take steps in an order and at moments that follow from the seed."""
        return run_shuffled(self.nets, self.agents, len(self.seats), steps, seed, burst, pace_ns)

    def step(self, name, count=1):
        """Steps of one agent; how many did something."""
        return steps_of(self.nets, self.agents, self.names[name], count)

    def send(self, count=1, name="flood0"):
        """Have a flood send ``count`` packets and finish the qdisc runs that this begins."""
        for _ in range(count):
            assert self.step(name) == 1
            self.finish(name)

    def finish(self, name="flood0"):
        """Finish an agent's qdisc run and softirqs."""
        cpu = self.cpu(name)
        for _ in range(10_000):
            if not (cpu.run_q or cpu.net_tx_list or cpu.output_queue):
                return
            self.step(name)
        raise AssertionError(f"{name} is busy for ever")

    def receive(self, name="napi/veth1-0"):
        """Let a NAPI thread work until it idles."""
        done = self.step(name, 1_000_000)
        assert done < 1_000_000
        return done

    def settle(self):
        """Step everybody in turn but the sources, until nobody has anything to do."""
        for _ in range(20_000):
            work = 0
            for index, seat in enumerate(self.seats):
                cpu = self.view.cpus[index]
                if seat.role in ("napi", "watchdog") or cpu.run_q or cpu.net_tx_list or cpu.output_queue:
                    if seat.role in ("flood", "ping"):
                        self.finish(seat.name)
                        work += 1
                    else:
                        work += steps_of(self.nets, self.agents, index, 100_000)
            if work == 0:
                return
        raise AssertionError("somebody is busy for ever")

    def inflight(self, txq=None):
        """Charged and not completed."""
        dql = (txq or self.txq).dql
        return (dql.num_queued - dql.num_completed) & 0xFFFFFFFF

    def ring(self, rq=None):
        """Packets in a ring, in order."""
        return [entry >> 2 for entry in walk.ring_entries(self.view, (rq or self.rq).ring)]

    def seqs(self, skbs):
        """The numbers of packets within their flow."""
        return [self.view.skbs[skb].seq for skb in skbs]

    def drops(self, reason):
        """Packets dropped for a reason, all CPUs and flows."""
        from emulator.kernel.skb import drops_by_reason

        return sum(sum(drops_by_reason(self.view.cpus[i]).get(reason, {}).values()) for i in range(len(self.seats)))

    def check(self):
        """Every identity of a run's end holds here too; says which does not."""
        net = self.view
        where = walk.in_flight(net, 2, 2, len(self.seats))
        flows = measure._flows(net, self.scenario, self.seats, _NoSampler(), where)
        checks = measure._identities(net, flows, where, len(self.seats))
        broken = [f"{c.name}: {c.left} != {c.right}, {c.detail}" for c in checks if not c.ok]
        if net.fault.code:
            broken.append(f"fault: {measure.fault_text(net, self.seats)}")
        skbs = [skb for place in where.values() for skb in place]
        if len(skbs) != len(set(skbs)):
            broken.append(f"packets are in two places: {where}")
        if broken:
            raise AssertionError("\n".join(broken))
        return where


class _NoSampler:
    def received_between(self, number):
        return 0, 0.0


__all__ = ["MS", "START_NS", "US", "Network", "S"]
