"""The NAPI thread: one step of polling, in the order in which a kernel thread would do it.

A poll is a state machine of short steps (veth.py), because a step is what both clocks schedule. The order here:

1. a qdisc run that this CPU began (an echo reply through a qdisc, or NET_TX) goes on until it ends;
2. the packets of a GRO flush are delivered, one a step, each after its netfilter cost was paid in the step before;
3. the poll goes on: one ring entry, or its end;
4. between polls, where the kernel thread enables bottom halves, the NET_TX softirq runs: the queues that this poll
   woke;
5. if SCHED_THREADED is set, the next poll begins.

Upstream: napi_threaded_poll_loop (net/core/dev.c).
"""

from emulator.kernel.jit import kernel
from emulator.kernel.memory import READ_ONCE
from emulator.kernel.napi import SCHED_THREADED
from emulator.kernel.receive import gro_deliver_step
from emulator.kernel.sched import net_tx_action_step, qdisc_run_step, softirq_pending
from emulator.kernel.veth import POLL_IDLE, veth_poll_begin, veth_poll_step


@kernel
def napi_threaded_step(net, cpu, dev, rq):
    """One step; False when there was nothing to do."""
    if cpu.run_q != 0:
        qdisc_run_step(net, cpu)
        return True
    if rq.gro.flushing.head != 0:
        gro_deliver_step(net, cpu, dev, rq.gro)
        return True
    if rq.phase != POLL_IDLE:
        veth_poll_step(net, cpu, dev, rq)
        return True
    if softirq_pending(cpu):
        net_tx_action_step(net, cpu)
        return True
    if READ_ONCE(rq.napi, "state") & SCHED_THREADED != 0:
        veth_poll_begin(net, cpu, dev, rq)
        return True
    return False


@kernel
def napi_threaded_at_rest(cpu, rq):
    """Whether the thread is between polls with nothing in its hands."""
    return rq.phase == POLL_IDLE and rq.gro.flushing.head == 0 and not softirq_pending(cpu)
