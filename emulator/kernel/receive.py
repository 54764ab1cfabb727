"""The end of a packet's path: netfilter, then the socket that counts and verifies it, the echo reply, or the prober.

::

    FLOW   sender line      sent, bytes, failed         the agent that sends the flow
           receiver line    received, seq checks        the NAPI thread that delivers it
    PROBE  intended, sent   the prober
           received         the NAPI thread that delivers the reply

The verifier. A flow's packets carry 1, 2, 3 ... and take one path, so they arrive in order, some missing. ``last_seq``
and a window of the 64 numbers before it tell a duplicate from a reordered packet. Each payload carries a check byte
that is written before the packet is published; a stale one is counted as corrupt.

Identity per flow: sent == received + drops with a reason + still on the way; duplicates == reordered == corrupt == 0.

Goodput is what is counted here, not what the flood offered.

Upstream: ip_rcv to udp_rcv/icmp_echo (net/ipv4); the flows and their checks are the emulator's own.
"""

import numpy as np

from emulator.kernel.clock import charge, charge_about, local_clock, wakeup_ns
from emulator.kernel.gro import gro_next
from emulator.kernel.jit import kernel
from emulator.kernel.memory import READ_ONCE, WRITE_ONCE
from emulator.kernel.netfilter import nf_hook
from emulator.kernel.sched import dev_queue_xmit
from emulator.kernel.skb import KIND_ECHO_REPLY, KIND_ECHO_REQUEST, consume_skb
from emulator.kernel.trace import NETIF_RECEIVE_SKB, trace_packet

PROBES_MAX = 131072

FLOW = np.dtype(
    [
        ("sent", "i8"),  # packets handed to dev_queue_xmit
        ("sent_bytes", "i8"),
        ("nomem", "i8"),  # packets that could not be built
        ("hash", "i4"),  # flow hash; written once, before the run
        ("kind", "i4"),  # KIND_*: what the packets of this flow are
        ("used", "i8"),
        ("_sender_line", "i8", 3),
        ("received", "i8"),
        ("received_bytes", "i8"),
        ("last_seq", "i8"),
        ("window", "i8"),  # bit i: last_seq - i was received
        ("duplicates", "i8"),
        ("reordered", "i8"),
        ("corrupt", "i8"),
        ("_receiver_line", "i8", 1),
    ],
    align=True,
)

PROBE = np.dtype(
    [
        ("intended_ns", "i8"),  # when the schedule wanted it sent
        ("sent_ns", "i8"),  # when it was sent; 0 = not sent
        ("received_ns", "i8"),  # when its reply was delivered; 0 = none
        ("_pad", "i8"),
    ],
    align=True,
)


@kernel
def payload_check(seq, flow):
    """The check byte of a packet."""
    return ((seq * 31) ^ flow) & 0x7F


@kernel
def gro_deliver_step(net, cpu, dev, gro):
    """One step of a flush: deliver the packet that has been paid for, and pay for the next.

    A step ends where time passes, so that what a packet sets off (a reply, a probe's arrival) happens after the time
    that it took.
    """
    if gro.paid != 0:
        gro.paid = 0
        netif_receive_skb(net, cpu, dev, gro_next(net, gro))
        if gro.flushing.head == 0 or cpu.run_q != 0:  # a reply that became a qdisc run goes first
            return
    gro.paid = 1
    charge_about(cpu, cpu.costs.stack_rx + nf_hook(net, dev, gro.flushing.head))


@kernel
def netif_receive_skb(net, cpu, dev, skb):
    """Deliver one packet that has been paid for on ``dev``: verify it, consume or answer it."""
    packet = net.skbs[skb]
    trace_packet(net, cpu, NETIF_RECEIVE_SKB, skb)
    stats = cpu.dev[dev.ifindex]
    stats.rx_packets += 1
    stats.rx_bytes += packet.len
    _verify(net.flows[packet.flow], packet.seq, packet.len, packet.check == payload_check(packet.seq, packet.flow))
    if packet.kind == KIND_ECHO_REQUEST:
        _icmp_echo(net, cpu, dev, skb)
        return
    if packet.kind == KIND_ECHO_REPLY:
        WRITE_ONCE(net.probes[packet.seq - 1], "received_ns", local_clock(cpu) + wakeup_ns(cpu, cpu.costs.return_path))
    consume_skb(net, cpu, skb)


@kernel
def _verify(flow, seq, length, intact):
    ahead = seq - flow.last_seq
    if ahead == 1:
        flow.window = (flow.window << 1) | 1
        flow.last_seq = seq
    elif ahead > 0:
        flow.window = (flow.window << ahead) | 1 if ahead < 64 else 1
        flow.last_seq = seq
    elif ahead > -64 and (flow.window >> -ahead) & 1 != 0:
        flow.duplicates += 1
    else:
        flow.reordered += 1
        if ahead > -64:
            flow.window |= 1 << -ahead
    if not intact:
        flow.corrupt += 1
    flow.received_bytes += length
    WRITE_ONCE(flow, "received", flow.received + 1)


@kernel
def _icmp_echo(net, cpu, dev, skb):
    """Turn a request into its reply and send it back; the reply is the next flow after the request's."""
    charge(cpu, cpu.costs.echo_reply)
    packet = net.skbs[skb]
    packet.kind = KIND_ECHO_REPLY
    packet.flow += 1
    packet.check = payload_check(packet.seq, packet.flow)
    flow = net.flows[packet.flow]
    packet.hash = flow.hash
    flow.sent_bytes += packet.len
    WRITE_ONCE(flow, "sent", flow.sent + 1)
    dev_queue_xmit(net, cpu, dev, skb)


@kernel
def probes_answered(net, count):
    """How many of the first ``count`` probes have their reply."""
    answered = 0
    for i in range(count):
        if READ_ONCE(net.probes[i], "received_ns") != 0:
            answered += 1
    return answered
