/* NAPI: veth_kick against the end of veth_poll and the NAPI thread (emulator/kernel/veth.py, napi.py, threaded.py).
 *
 * Wanted: whenever nobody can move any more, everything that was produced has been consumed.
 *
 * NO_K1, NO_K2     a barrier left out
 * SCHED_STARTS     the thread begins to poll on SCHED, before the kicker has set rx_notify_masked
 */
#define WORDS 3
#define RING 0
#define MASKED 1
#define STATE 2
#include "cpus.pml"
#define PACKETS 4
#define SCHED 1
#define MISSED 2
#define THREADED 4
#ifdef SCHED_STARTS
#define MAY_POLL SCHED
#else
#define MAY_POLL THREADED
#endif

byte consumed = 0;

/* napi_schedule_prep, then rx_notify_masked = 1 and napi_schedule for whoever won */
#define SCHEDULE(cpu, buffer, won) \
    atomic { \
        MB(buffer); \
        won = !(mem[STATE] & SCHED); \
        mem[STATE] = mem[STATE] | (mem[STATE] & SCHED -> MISSED : SCHED) \
    }; \
    if \
    :: won -> \
        STORE(cpu, buffer, MASKED, 1); \
        atomic { MB(buffer) -> mem[STATE] = mem[STATE] | THREADED } \
    :: else \
    fi

active proctype producer() {
    byte produced = 0;
    bit masked, won;
end: do
    :: produced < PACKETS ->
        produced++;
        STORE(PRODUCER, buffer0, RING, produced);
#ifndef NO_K1
        MB(buffer0);
#endif
        masked = READ(PRODUCER, MASKED);
        if
        :: !masked -> SCHEDULE(PRODUCER, buffer0, won)
        :: else
        fi
    :: else -> break
    od
}

active proctype consumer() {
    bit missed, left, won;
end: do
    :: mem[STATE] & MAY_POLL ->
        do
        :: READ(CONSUMER, RING) > consumed -> consumed++
        :: else -> break
        od;
        atomic {                                    /* napi_complete_done */
            MB(buffer1);
            missed = (mem[STATE] & MISSED -> 1 : 0);
            mem[STATE] = (missed -> SCHED | THREADED : 0)
        };
        if
        :: !missed ->
            STORE(CONSUMER, buffer1, MASKED, 0);
#ifndef NO_K2
            MB(buffer1);
#endif
            left = READ(CONSUMER, RING) > consumed;
            if
            :: left -> SCHEDULE(CONSUMER, buffer1, won)
            :: else
            fi
        :: else
        fi
    od
}

active proctype observer() {
    timeout -> assert(consumed == PACKETS)
}
