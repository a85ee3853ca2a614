/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Model of going to sleep on a ring in shared memory (WAK-5), for SPIN.
 *
 * A producer fills a ring of CAPACITY places with MESSAGES packets, a consumer empties it. Each sleeps when it cannot
 * go on, on a descriptor of its own: the consumer while the ring is empty, the producer while it is full. The protocol
 * is the same both ways:
 *
 *      who changes the ring                    who wants to sleep
 *      1. change tail (or head)                1. progress until nothing is left
 *      2. full fence                           2. set the own flag
 *      3. read the other's flag                3. full fence
 *      4. if set: exchange it for 0,           4. read the ring again: changed? clear the flag, BUSY
 *         and if it was set: signal            5. otherwise sleep until the descriptor is readable
 *
 * The property: nobody sleeps for ever while there is something to do. A lost wake-up is a state without successor in
 * which some process has not reached its end; SPIN reports it as an invalid end state.
 *
 * Memory is modelled as total store order: each side's stores wait in a buffer of its own (first in, first out) until
 * the machine writes them at any later time; its own loads see them, the other's do not. A fence and an atomic exchange
 * wait until the own buffer is empty. With -DSC stores are written at once.
 *
 * Variants, each of which must fail: -DNO_CHANGER_FENCE, -DNO_SLEEPER_FENCE (under TSO only), -DNO_SECOND_CHECK.
 * Not modelled: weaker orders than TSO between data and position, which the release store and the acquire load of the
 * position take care of.
 */
#ifndef MESSAGES
#define MESSAGES 4
#endif
#ifndef CAPACITY
#define CAPACITY 2
#endif

#define PRODUCER 0
#define CONSUMER 1

/* Addresses in shared memory. */
#define TAIL          0     /* packets written; stored by the producer only */
#define HEAD          1     /* packets read; stored by the consumer only */
#define SLEEPS(side)  (2 + (side))
#define NUM_ADDRESSES 4

#define BUFFER_MAX 3

byte memory[NUM_ADDRESSES];
bool readable[2];               /* the descriptors; a second signal coalesces, or wakes for nothing */

#ifndef SC
/* The store buffers. */
chan buffer[2] = [BUFFER_MAX] of { byte, byte };
/* What a side's own loads see while a store of its own is under way: the newest value, and how many are buffered. */
byte newest[8];
byte pending[8];
#define SLOT(side, address) ((side) * 4 + (address))
#endif

inline store(side, address, value)
{
#ifdef SC
    memory[address] = value
#else
    atomic {
        nfull(buffer[side]) -> buffer[side]!address, value;
        newest[SLOT(side, address)] = value;
        pending[SLOT(side, address)]++
    }
#endif
}

inline load(side, address, result)
{
#ifdef SC
    result = memory[address]
#else
    d_step {
        if
        :: pending[SLOT(side, address)] > 0 -> result = newest[SLOT(side, address)]
        :: else -> result = memory[address]
        fi
    }
#endif
}

inline fence(side)
{
#ifdef SC
    skip
#else
    empty(buffer[side])
#endif
}

/* A locked instruction: drains the own buffer and reads and writes memory in one step. */
inline exchange(side, address, value, result)
{
#ifdef SC
    atomic { result = memory[address]; memory[address] = value }
#else
    atomic { empty(buffer[side]) -> result = memory[address]; memory[address] = value }
#endif
}

#ifndef SC
/* The machine writes buffered stores whenever it likes. */
proctype machine(byte side)
{
    byte address, value;

end:
    do
    :: atomic {
           buffer[side]?address, value ->
           memory[address] = value;
           pending[SLOT(side, address)]--;
           address = 0;
           value = 0
       }
    od
}
#endif

/* Steps 2 to 4 of the left column. */
inline ring_doorbell(side, other, flag)
{
#ifndef NO_CHANGER_FENCE
    fence(side);
#endif
    load(side, SLEEPS(other), flag);
    if
    :: flag != 0 ->
        exchange(side, SLEEPS(other), 0, flag);
        if
        :: flag != 0 -> readable[other] = true
        :: else -> skip
        fi
    :: else -> skip
    fi;
    flag = 0
}

active proctype producer()
{
    byte written, seen, flag;

    do
    :: written == MESSAGES -> break
    :: else ->
        load(PRODUCER, HEAD, seen);
        if
        :: written - seen < CAPACITY ->
            written++;
            store(PRODUCER, TAIL, written);
            ring_doorbell(PRODUCER, CONSUMER, flag)
        :: else -> /* full: arm */
            store(PRODUCER, SLEEPS(PRODUCER), 1);
#ifndef NO_SLEEPER_FENCE
            fence(PRODUCER);
#endif
#ifndef NO_SECOND_CHECK
            load(PRODUCER, HEAD, seen);
#endif
            if
            :: written - seen < CAPACITY -> /* BUSY */
                store(PRODUCER, SLEEPS(PRODUCER), 0)
            :: else -> /* OK: sleep; whoever wakes up disarms and goes on */
                atomic { readable[PRODUCER] -> readable[PRODUCER] = false };
                store(PRODUCER, SLEEPS(PRODUCER), 0)
            fi
        fi
    od
}

active proctype consumer()
{
    byte taken, seen, flag;

    do
    :: taken == MESSAGES -> break
    :: else ->
        load(CONSUMER, TAIL, seen);
        if
        :: seen != taken ->
            taken++;
            assert(taken <= seen);
            store(CONSUMER, HEAD, taken);
            ring_doorbell(CONSUMER, PRODUCER, flag)
        :: else -> /* empty: arm */
            store(CONSUMER, SLEEPS(CONSUMER), 1);
#ifndef NO_SLEEPER_FENCE
            fence(CONSUMER);
#endif
#ifndef NO_SECOND_CHECK
            load(CONSUMER, TAIL, seen);
#endif
            if
            :: seen != taken -> /* BUSY */
                store(CONSUMER, SLEEPS(CONSUMER), 0)
            :: else -> /* OK: sleep */
                atomic { readable[CONSUMER] -> readable[CONSUMER] = false };
                store(CONSUMER, SLEEPS(CONSUMER), 0)
            fi
        fi
    od
}

#ifndef SC
init
{
    atomic {
        run machine(PRODUCER);
        run machine(CONSUMER)
    }
}
#endif
