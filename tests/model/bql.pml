/* BQL's stop and wake: netdev_tx_sent_queue against netdev_tx_completed_queue (emulator/kernel/netdev.py), the limit being 1.
 *
 * Wanted: the producer gets all its packets through. A queue stopped for good shows as an invalid end state.
 *
 * veth publishes an entry after it has charged it and stopped the queue, so whoever completes that entry sees the stop: in this
 * order nothing is lost, whatever the barriers. They are for the order of STOP_LAST, which sent_queue's contract allows: charge,
 * publish, stop.
 *
 * NO_B1, NO_B2     a barrier left out
 * SET_BIT_IS_RMW   setting STACK_XOFF is a full barrier by itself, as on x86; else an ordinary store, as weaker machines may
 * TEST_THEN_CLEAR  the wake looks at the bit with a plain load first; else test_and_clear_bit, a full barrier by itself
 */
#define WORDS 4
#define QUEUED 0
#define ADJ_LIMIT 1
#define XOFF 2
#define RING 3
#include "cpus.pml"
#define PACKETS 4
#define LIMIT 1

active proctype producer() {
    byte queued = 0, adj_limit;
    mem[ADJ_LIMIT] = LIMIT;
    do
    :: queued < PACKETS ->
        READ(PRODUCER, XOFF) == 0;                      /* the qdisc runs when the queue is not stopped */
        queued++;
        STORE(PRODUCER, buffer0, QUEUED, queued);       /* dql_queued */
#ifdef STOP_LAST
        STORE(PRODUCER, buffer0, RING, queued);         /* ptr_ring_produce */
#endif
        adj_limit = READ(PRODUCER, ADJ_LIMIT);          /* dql_avail */
        if
        :: adj_limit < queued ->
#ifdef SET_BIT_IS_RMW
            atomic { MB(buffer0) -> mem[XOFF] = 1 }
#else
            STORE(PRODUCER, buffer0, XOFF, 1);
#endif
#ifndef NO_B1
            MB(buffer0);
#endif
            adj_limit = READ(PRODUCER, ADJ_LIMIT);
            if
            :: adj_limit >= queued -> atomic { MB(buffer0) -> mem[XOFF] = 0 }
            :: else
            fi
        :: else
        fi;
#ifndef STOP_LAST
        STORE(PRODUCER, buffer0, RING, queued)          /* ptr_ring_produce */
#endif
    :: else -> break
    od
}

active proctype consumer() {
    byte completed = 0, queued, xoff;
end: do
    :: READ(CONSUMER, RING) > completed ->
        completed++;
        STORE(CONSUMER, buffer1, ADJ_LIMIT, completed + LIMIT);     /* dql_completed */
#ifndef NO_B2
        MB(buffer1);
#endif
        queued = READ(CONSUMER, QUEUED);                            /* dql_avail */
        if
        :: completed + LIMIT >= queued ->
#ifdef TEST_THEN_CLEAR
            xoff = READ(CONSUMER, XOFF);
            if
            :: xoff -> atomic { MB(buffer1) -> mem[XOFF] = 0 }
            :: else
            fi
#else
            atomic { MB(buffer1) -> mem[XOFF] = 0 }
#endif
        :: else
        fi
    od
}
