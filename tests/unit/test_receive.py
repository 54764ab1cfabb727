"""The verifier at the end of the path tells duplicates, reordering and damage apart, and only those."""

import random

import pytest
from network import Network

from emulator.kernel.receive import netif_receive_skb, payload_check
from emulator.kernel.skb import alloc_skb

NAPI = "napi/veth1-0"


@pytest.fixture
def deliver():
    net = Network()

    def deliver(*seqs, check=None):
        cpu = net.raw_cpu(NAPI)
        for seq in seqs:
            skb = alloc_skb(net.raw, cpu)
            packet = net.view.skbs[skb]
            packet.flow = packet.kind = 0
            packet.seq, packet.len = seq, 64
            packet.check = payload_check(seq, 0) if check is None else check
            netif_receive_skb(net.raw, cpu, net.raw["devs"][1], skb)
        flow = net.view.flows[0]
        return flow.received, flow.duplicates, flow.reordered, flow.corrupt

    return deliver


@pytest.mark.parametrize(
    ("seqs", "duplicates", "reordered"),
    [
        ([1, 2, 3], 0, 0),
        ([1, 5, 6, 100, 1000], 0, 0),  # losses
        ([1, 2, 2], 1, 0),
        ([1, 2, 3, 1], 1, 0),
        ([1, 3, 2], 0, 1),
        ([1, 3, 2, 2], 1, 1),
        ([2, 1], 0, 1),
        ([*range(1, 65), 1], 1, 0),  # the window's edge
        ([*range(1, 66), 1], 0, 1),  # beyond it a duplicate looks like a reordered packet
        ([1, 64, 1], 1, 0),
        ([1, 65, 1], 0, 1),
    ],
)
def test_order(deliver, seqs, duplicates, reordered):
    assert deliver(*seqs) == (len(seqs), duplicates, reordered, 0)


def test_stale_payload(deliver):
    assert deliver(1, check=payload_check(2, 0)) == (1, 0, 0, 1)


def test_random_losses_are_no_disorder(deliver):
    rng = random.Random(1)
    seqs = sorted(rng.sample(range(1, 5000), 1500))
    assert deliver(*seqs) == (1500, 0, 0, 0)
