"""What no single field can know: combinations that cannot run, combinations that are odd, CPUs that are not there.

A check yields the paths that take part, the likeliest culprit first, and the text. The caller places it at the first
of them that the user wrote: in `--set`, else in the variant's overlay, else in the file.
"""

from collections.abc import Collection, Iterator

from emulator.scenario.model import Device, Scenario
from emulator.scenario.problems import Path
from emulator.scenario.qdiscs import ETH_HLEN, PfifoFast, Sfq
from emulator.scenario.units import format_duration

MAX_PROBES = 131_072
SHORTEST_PACKET_NS = 10

Finding = tuple[tuple[Path, ...], str]


def impossible(s: Scenario) -> Iterator[Finding]:
    """What cannot run: errors."""
    yield from _impossible_device(s.device)
    if s.clock == "virtual":
        yield from _timeless(s)
    bql, rules = s.device.bql, s.netfilter
    if bql.variant == "v7" and bql.tx_usecs >= s.watchdog.timeout:
        yield (
            (("device", "bql", "tx_usecs"), ("watchdog", "timeout"), ("device", "bql", "variant")),
            f"{format_duration(bql.tx_usecs)} is not below the watchdog timeout of "
            f"{format_duration(s.watchdog.timeout)}: v7 refuses it (-EINVAL); write a shorter tx_usecs",
        )
    if rules.mode == "burn" and rules.rules > 0 and s.host is None and rules.rule_cost is None:
        yield (
            (("netfilter", "rules"), ("host",), ("netfilter", "mode")),
            f"{rules.rules} rules cost nothing under 'host: none'; give a host profile, "
            "netfilter.rule_cost (e.g. 7.7ns), or netfilter.mode: walk",
        )
    if s.flood.cpus is not None and len(s.flood.cpus) != s.flood.threads:
        yield (
            (("flood", "cpus"), ("flood", "threads")),
            f"{len(s.flood.cpus)} CPUs for {s.flood.threads} threads; write one a thread, or null",
        )
    if s.ping is not None and (s.duration + s.warmup) // s.ping.interval > MAX_PROBES:
        probes = (s.duration + s.warmup) // s.ping.interval
        shortest = -(-(s.duration + s.warmup) // MAX_PROBES // 1000) * 1000
        yield (
            (("ping", "interval"), ("duration",), ("ping",)),
            f"{probes} probes in warmup and duration; allowed: at most {MAX_PROBES}, "
            f"an interval of {format_duration(shortest)} or a shorter duration",
        )
    if not s.flooding and s.ping is None:
        yield (
            (("flood", "threads"), ("flood", "rate"), ("ping",)),
            "nothing sends: no flood and no ping; give flood.threads and flood.rate, or a ping",
        )


def _timeless(s: Scenario) -> Iterator[Finding]:
    """What would take no virtual time, where nothing else makes time pass."""
    if s.host is None:
        text = "under 'clock: virtual' time passes only through what a host profile says; give one"
        yield (("host",), ("clock",)), text
    elif s.flooding and s.flood.rate is None and s.host.skb_build + s.host.qdisc_enqueue < SHORTEST_PACKET_NS:
        text = (
            f"the host profile's skb_build and qdisc_enqueue come to less than {SHORTEST_PACKET_NS} ns: a flood at "
            "'rate: max' would send for ever at one moment of 'clock: virtual'; give them, or a rate"
        )
        yield (("host",), ("clock",), ("flood", "rate")), text
    if s.netfilter.mode == "walk" and s.netfilter.rules > 0:
        text = "walking real rules takes no time of 'clock: virtual'; write burn, which takes the host profile's"
        yield (("netfilter", "mode"), ("clock",)), text


def _impossible_device(device: Device) -> Iterator[Finding]:
    if device.real_num_tx_queues > device.num_tx_queues:
        yield (
            (("device", "real_num_tx_queues"), ("device", "num_tx_queues")),
            f"{device.real_num_tx_queues} queues in use, {device.num_tx_queues} allocated; "
            f"allowed: 1..{device.num_tx_queues}, or more num_tx_queues",
        )
    for key, qdisc in (("qdisc", device.qdisc), ("peer_qdisc", device.peer_qdisc)):
        if isinstance(qdisc, Sfq) and "limit" in qdisc.model_fields_set and _sfq_limit(qdisc) == 1:
            yield (
                (("device", key, "limit"), ("device", key, "flows"), ("device", key, "depth")),
                f"sfq with {qdisc.flows} flows of {qdisc.depth} packets and {qdisc.divisor} buckets comes to a limit "
                "of 1, which the kernel refuses (-EINVAL); write more flows or a greater depth",
            )
        if isinstance(qdisc, PfifoFast) and device.txqueuelen == 0:
            yield (
                (("device", "txqueuelen"), ("device", key, "kind")),
                "pfifo_fast with txqueuelen 0 is refused by the kernel (-EINVAL); write a txqueuelen of 1p or more",
            )


def _sfq_limit(qdisc: Sfq) -> int:
    """The limit that sfq_change() comes to."""
    return min(qdisc.limit, qdisc.depth * min(qdisc.flows, qdisc.divisor))


def odd(s: Scenario) -> Iterator[Finding]:
    """What runs, but hardly as meant: warnings."""
    device, bql = s.device, s.device.bql
    if bql.limit_min > bql.limit_max:
        yield (("device", "bql", "limit_min"),), "limit_min above limit_max: as in the kernel, the limit alternates"
    if bql.variant != "off" and device.qdisc.kind == "noqueue":
        yield (("device", "bql", "variant"),), "noqueue has no queue to stop: no BQL happens"
    if bql.variant == "v6" and bql.tx_usecs >= s.watchdog.timeout:
        yield (("device", "bql", "tx_usecs"),), "not below the watchdog timeout: v6 permits it, the watchdog will bark"
    if s.warmup > s.duration:
        yield (("warmup",),), f"longer than what is measured, {format_duration(s.duration)}"
    if s.flooding and s.flood.packet > device.mtu + ETH_HLEN:
        yield (("flood", "packet"),), f"larger than mtu {device.mtu} and {ETH_HLEN}B of header: a real veth drops it"
    for key, qdisc in (("qdisc", device.qdisc), ("peer_qdisc", device.peer_qdisc)):
        if isinstance(qdisc, Sfq) and qdisc.limit > qdisc.depth * qdisc.flows:
            capped = qdisc.depth * qdisc.flows
            yield (("device", key, "limit"),), f"more than depth x flows: the kernel takes {capped}p"
    yield from _shared_cpus(s)


def _shared_cpus(s: Scenario) -> Iterator[Finding]:
    if s.clock == "virtual":
        yield from _unpinned(s)
        return
    flood_cpus = s.flood.cpus or ()
    if s.flooding and s.napi.cpu is not None and s.napi.cpu in flood_cpus:
        yield (("napi", "cpu"),), f"CPU {s.napi.cpu} is the flood's too: they take turns rather than run at once"
    if len(set(flood_cpus)) != len(flood_cpus):
        yield (("flood", "cpus"),), "two threads on one CPU: they take turns rather than run at once"


def _unpinned(s: Scenario) -> Iterator[Finding]:
    pinned: list[tuple[Path, object]] = [(("flood", "cpus"), s.flood.cpus), (("watchdog", "cpu"), s.watchdog.cpu)]
    pinned += [(("napi", "cpu"), s.napi.cpu), (("napi", "peer_cpu"), s.napi.peer_cpu)]
    pinned += [(("ping", "cpu"), s.ping.cpu if s.ping else None)]
    for path, cpu in pinned:
        if cpu is not None:
            yield (path,), "no CPU of this machine is used under 'clock: virtual': every agent has one of its own"


def absent_cpus(s: Scenario, allowed: Collection[int]) -> Iterator[Finding]:
    """Pinned CPUs that this process may not run on. Under the virtual clock nothing runs on them."""
    if s.clock == "virtual":
        return
    pinned: list[tuple[Path, int | None]] = [(("flood", "cpus", i), cpu) for i, cpu in enumerate(s.flood.cpus or ())]
    pinned += [(("napi", "cpu"), s.napi.cpu), (("napi", "peer_cpu"), s.napi.peer_cpu)]
    pinned += [(("watchdog", "cpu"), s.watchdog.cpu), (("ping", "cpu"), s.ping.cpu if s.ping else None)]
    for path, cpu in pinned:
        if cpu is not None and cpu not in allowed:
            yield (path,), f"CPU {cpu} is not there, or not ours to use; allowed: {cpu_ranges(allowed)}"


def cpu_ranges(cpus: Collection[int]) -> str:
    """`0-3,8` as in /sys/devices/system/cpu/online."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
