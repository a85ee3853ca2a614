/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Model of a ring of cells in shared memory (src/transport/fastpath.h) on processors of weak order, for SPIN.
 *
 * A producer sends MESSAGES packets through CELLS cells of PIECES packets each, the second of them in the open cell; a
 * consumer reads them and tells how far it is. Two places hold a cell's bytes, two words publish them.
 *
 * Memory is modelled as in ARMv8: there is one memory, which all see at once, but each side's loads and stores are
 * carried out in any order that its own barriers leave. A step of a message has a bit in `done` once it was carried out;
 * what it must wait for is its mask. A store waits for the loads that decide whether it is made at all, and loads and
 * stores of one address keep their order; loads wait for nothing else: the processor guesses what comes. A load that
 * went ahead of the one that decides about it and has seen too little is one that this model must refuse. Only a side's
 * steps of two rounds that follow each other go out of order: what is older is done, as in a processor's window.
 *
 *      producer, message n, in a cell c                consumer
 *      LIMIT   the consumer is far enough (acquire)    LOOK    control of c is of this lap (acquire)
 *      CLEAR   more of c = 0                           READ    bytes of the first piece are n
 *      FIRST   bytes of the first piece = n            LOOK2   more of c is not 0 (acquire)
 *      PUBLISH control of c = lap (release)            READ2   bytes of the second piece are n
 *      SECOND  bytes of the second piece = n           TELL    n + 1 were read (release)
 *      MORE    more of c = 1 (release)
 *
 * Variants, each of which must fail: -DRELAXED_PUBLISH, -DRELAXED_MORE, -DRELAXED_LOOK, -DRELAXED_LOOK2,
 * -DRELAXED_TELL, -DLATE_CLEAR (the words of slots are cleared behind the publication). LIMIT has none: stores are not
 * guessed, so that these processors need no more than the decision; the language does.
 */
#ifndef MESSAGES
#define MESSAGES 5
#endif
#ifndef CELLS
#define CELLS 2
#endif

/* Steps of a message, as bits. */
#define LIMIT   1
#define CLEAR   2
#define FIRST   4
#define PUBLISH 8
#define SECOND  16
#define MORE    32
#define SENT    63

#define LOOK    1
#define READ    2
#define LOOK2   4
#define READ2   8
#define TELL    16
#define TAKEN   31

/* What each waits for in its own message. */
#define FIRST_NEEDS   LIMIT
#define SECOND_NEEDS  LIMIT
#ifdef LATE_CLEAR
#define CLEAR_NEEDS   PUBLISH
#else
#define CLEAR_NEEDS   LIMIT
#endif
#ifdef RELAXED_PUBLISH
#define PUBLISH_NEEDS LIMIT
#elif defined(LATE_CLEAR)
#define PUBLISH_NEEDS (LIMIT | FIRST)
#else
#define PUBLISH_NEEDS (LIMIT | CLEAR | FIRST)
#endif
#ifdef RELAXED_MORE
#define MORE_NEEDS    (LIMIT | CLEAR)
#else
#define MORE_NEEDS    (LIMIT | CLEAR | FIRST | PUBLISH | SECOND)
#endif

#ifdef RELAXED_LOOK
#define READ_NEEDS    0
#define LOOK2_NEEDS   0
#else
#define READ_NEEDS    LOOK
#define LOOK2_NEEDS   LOOK
#endif
#ifdef RELAXED_LOOK2
#define READ2_NEEDS   READ_NEEDS
#else
#define READ2_NEEDS   (READ_NEEDS | LOOK2)
#endif
#ifdef RELAXED_TELL
#define TELL_NEEDS    (LOOK | LOOK2)
#else
#define TELL_NEEDS    (LOOK | READ | LOOK2 | READ2)
#endif

/* The memory; numbers of messages from 1 on, 0: never written. A lap's number stands for the control word's. */
byte control[CELLS];
byte more[CELLS];
byte first[CELLS];
byte second[CELLS];
byte told;

#define CELL(n) (((n) - 1) % CELLS)
#define LAP(n)  (((n) - 1) / CELLS + 1)

/* The window: steps of message `base` and of the one behind it. */
#define HAS(bits, needed) (((bits) & (needed)) == (needed))
#define IS_NEW(bits, step, needed) (!((bits) & (step)) && HAS(bits, needed))

active proctype producer()
{
    byte base = 1;              /* all messages before are sent */
    byte now, next;             /* steps of message base, and of the one behind */

    do
    :: base > MESSAGES -> break
    :: else ->
        if
        /* LIMIT is a load; the message's stores wait for it */
        :: atomic { IS_NEW(now, LIMIT, 0) && told + CELLS >= base -> now = now | LIMIT }
        :: atomic { IS_NEW(now, CLEAR, CLEAR_NEEDS) -> more[CELL(base)] = 0; now = now | CLEAR }
        :: atomic { IS_NEW(now, FIRST, FIRST_NEEDS) -> first[CELL(base)] = base; now = now | FIRST }
        :: atomic { IS_NEW(now, PUBLISH, PUBLISH_NEEDS) -> control[CELL(base)] = LAP(base); now = now | PUBLISH }
        :: atomic { IS_NEW(now, SECOND, SECOND_NEEDS) -> second[CELL(base)] = base; now = now | SECOND }
        :: atomic { IS_NEW(now, MORE, MORE_NEEDS) -> more[CELL(base)] = 1; now = now | MORE }
        /* the next message: in another cell, so nothing of it waits for this one but what is released, and what
         * another decision, that of LIMIT, stands before */
        :: atomic { base < MESSAGES && IS_NEW(next, LIMIT, 0) && HAS(now, LIMIT) && told + CELLS >= base + 1 ->
                    next = next | LIMIT }
        :: atomic { base < MESSAGES && IS_NEW(next, CLEAR, CLEAR_NEEDS) ->
                    more[CELL(base + 1)] = 0; next = next | CLEAR }
        :: atomic { base < MESSAGES && IS_NEW(next, FIRST, FIRST_NEEDS) ->
                    first[CELL(base + 1)] = base + 1; next = next | FIRST }
        :: atomic { base < MESSAGES && IS_NEW(next, SECOND, SECOND_NEEDS) ->
                    second[CELL(base + 1)] = base + 1; next = next | SECOND }
#ifdef RELAXED_PUBLISH
        :: atomic { base < MESSAGES && IS_NEW(next, PUBLISH, PUBLISH_NEEDS) ->
                    control[CELL(base + 1)] = LAP(base + 1); next = next | PUBLISH }
#endif
        :: atomic { now == SENT -> base++; now = next; next = 0 }
        fi
    od
}

active proctype consumer()
{
    byte base = 1;              /* all messages before were read */
    byte now, next;
    byte got, got2;             /* what READ and READ2 of `base` have seen, and of the one behind */
    byte next_got, next_got2;

    do
    :: base > MESSAGES -> break
    :: else ->
        if
        :: atomic { IS_NEW(now, LOOK, 0) && control[CELL(base)] == LAP(base) -> now = now | LOOK }
        :: atomic { IS_NEW(now, READ, READ_NEEDS) -> got = first[CELL(base)]; now = now | READ }
        /* a load that finds nothing is made again; one that went ahead of LOOK may see the last lap's word */
        :: atomic { IS_NEW(now, LOOK2, LOOK2_NEEDS) && more[CELL(base)] == 1 -> now = now | LOOK2 }
        :: atomic { IS_NEW(now, READ2, READ2_NEEDS) -> got2 = second[CELL(base)]; now = now | READ2 }
        :: atomic { IS_NEW(now, TELL, TELL_NEEDS) -> told = base; now = now | TELL }
        /* loads of the next message go ahead of those of this one that do not acquire */
        :: atomic { base < MESSAGES && IS_NEW(next, LOOK, 0) && HAS(now, LOOK | LOOK2) &&
                    control[CELL(base + 1)] == LAP(base + 1) -> next = next | LOOK }
        :: atomic { base < MESSAGES && IS_NEW(next, READ, READ_NEEDS) ->
                    next_got = first[CELL(base + 1)]; next = next | READ }
        :: atomic { base < MESSAGES && IS_NEW(next, LOOK2, LOOK2_NEEDS) && more[CELL(base + 1)] == 1 ->
                    next = next | LOOK2 }
        :: atomic { base < MESSAGES && IS_NEW(next, READ2, READ2_NEEDS) ->
                    next_got2 = second[CELL(base + 1)]; next = next | READ2 }
        :: atomic {
               now == TAKEN ->
               assert(got == base && got2 == base);
               base++;
               now       = next;
               got       = next_got;
               got2      = next_got2;
               next      = 0;
               next_got  = 0;
               next_got2 = 0
           }
        fi
    od
}
