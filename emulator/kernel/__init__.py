"""The mechanisms: what the kernel does to a packet, and nothing else.

Every function here is compiled by numba (or run as plain Python, see :mod:`emulator.kernel.jit`) over records of one
shared segment. Nothing here knows of processes, files, sockets or scenarios; the only imports are numpy and numba.

Where a packet is, in order of its life::

    skb.py        the pool it comes from and returns to
    sched.py      dev_queue_xmit: the qdisc's lock, the runner, requeues, net_tx_action
    qdisc/        one file each: fq_codel, sfq, the FIFOs ...
    netdev.py     the transmit queue's stop bits, wake rules and BQL glue (dql.py holds the limit)
    veth.py       veth_xmit into the ring, veth_poll out of it
    ptr_ring.py   the ring between them
    napi.py       who polls, when, and how it is scheduled
    gro.py        the list that a poll collects and flushes in bursts
    netfilter.py  what a rule costs
    receive.py    the end of the path: the socket, the verifier, the echo reply
    watchdog.py   dev_watchdog
"""
