/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Model of a ring of records in shared memory (src/transport/shm/shm_ring.h) on processors of weak order, for SPIN.
 *
 * A producer writes records of one or two lines into a ring of LINES lines, ends laps where it likes, and uses one part
 * of an old lap for other records than before. A consumer polls its own position only, for a word of its lap, reads
 * what is behind it, and publishes its position. The first word of a line is a word of a record, or payload that a hostile
 * program has chosen: the number of the next lap. Laps have numbers from 1 on; 0 is a line that was cleared.
 *
 * Memory is modelled as in ARMv8: one memory, which all see at once, but each side's loads and stores are carried out
 * in any order that its own barriers leave. A step of a record has a bit in `done` once it was carried out; what it must
 * wait for is its mask. A store waits for the loads that decide whether it is made at all; stores to one address keep
 * their order. The consumer's loads wait for nothing but acquires: the processor guesses what comes. A side's steps of
 * two records that follow each other may go out of order; what is older is done, as in a processor's window.
 *
 *      producer, a record at line p                    consumer, at line p
 *      FIRST   payload in p = n                        CHECK   word of p is of this lap (acquire)
 *      SECOND  first word of p + 1 = next lap          READ    payload in p is n
 *              (a record of two lines)                 READ2   first word of p + 1 is next lap (two lines)
 *      CLEAR   first word behind the record = 0,       POST    position (release)
 *              if it is of this lap
 *      PUBLISH word of p = lap (release)
 *
 * With -DHEAD=n the first lap has n lines in another place. It may end at any time, and the second lap has all lines of
 * the ring while the first one is unread.
 *
 * Variants, each of which must fail: -DNO_CLEAR, -DLATE_CLEAR, -DRELAXED_PUBLISH, -DRELAXED_READ, -DRELAXED_POSITION;
 * with a head, -DSTILL_APART: later laps ignore what is unread of the lap before, too.
 */
#ifndef LINES
#define LINES 5
#endif
#ifndef RECORDS
#define RECORDS 7
#endif

#ifndef HEAD
#define HEAD 0
#endif

#define WRAP 3                  /* what a word says beside its lap: lines of the record, or that the lap ends */

/* Memory: of each line, the lap and kind of its first word, and the payload. First the ring, then the head. */
byte lap[LINES + HEAD];
byte kind[LINES + HEAD];
byte data[LINES + HEAD];
/* The consumer's position. */
byte published_lap = 1;
byte published_line;

#ifdef RELAXED_PUBLISH
#define PUBLISH_FIRST 1
#else
#define PUBLISH_FIRST 0
#endif

#define FIRST   1
#define SECOND  2
#define CLEAR   4
#define PUBLISH 8
#define SENT    15

#define IS_NEW(bits, step) (!((bits) & (step)))
#define HAS(bits, steps)   (((bits) & (steps)) == (steps))

#define IN_HEAD(now) (HEAD > 0 && (now) == 1)
/* Where a line of lap `now` lies. */
#define AT(now, line) ((line) + (IN_HEAD(now) -> LINES : 0))
#ifdef STILL_APART
#define APART(now) 1
#else
#define APART(now) IN_HEAD(now - 1)
#endif
/* Whether a record of `lines` lines has room at `line` of lap `now`, as far as told, with one line behind it. */
#define ROOM(now, line, lines) \
    ((published_lap == now && line + lines + 1 <= (IN_HEAD(now) -> HEAD : LINES)) || \
     (published_lap + 1 == now && line + lines + 1 <= (APART(now) -> LINES : published_line)))

byte sizes[RECORDS + 1];        /* lines of each record, as the producer chose: the consumer checks them */

active proctype producer()
{
    byte n = 1, now = 1, line, size, bits;

    do
    :: n > RECORDS -> break
    :: else ->
        if
        :: size = 1
        :: size = 2
        fi;
        sizes[n] = size;
        /* room at the line, or behind the end of the lap. The decisions are loads that stores wait for. */
        do
        :: atomic { ROOM(now, line, size) -> break }
        :: atomic { IN_HEAD(now) || (line > 0 && published_lap == now && size + 1 <= published_line) ->
               kind[AT(now, line)] = WRAP; lap[AT(now, line)] = now; now++; line = 0 }
        od;
        bits = (size == 1 -> SECOND : 0);
#ifdef NO_CLEAR
        bits = bits | CLEAR;
#endif
        do
        :: atomic { IS_NEW(bits, FIRST) -> data[AT(now, line)] = n; bits = bits | FIRST }
        :: atomic { IS_NEW(bits, SECOND) -> data[AT(now, line + 1)] = n; lap[AT(now, line + 1)] = now + 1;
               kind[AT(now, line + 1)] = 1;
               bits = bits | SECOND }
#ifdef LATE_CLEAR
        :: atomic { IS_NEW(bits, CLEAR) && HAS(bits, PUBLISH) ->
#else
        :: atomic { IS_NEW(bits, CLEAR) ->
#endif
               if
               :: lap[AT(now, line + size)] == now -> lap[AT(now, line + size)] = 0; kind[AT(now, line + size)] = 0
               :: else -> skip
               fi;
               bits = bits | CLEAR }
#if defined(RELAXED_PUBLISH)
        :: atomic { IS_NEW(bits, PUBLISH) ->
#elif defined(LATE_CLEAR)
        :: atomic { IS_NEW(bits, PUBLISH) && HAS(bits, FIRST | SECOND) ->
#else
        :: atomic { IS_NEW(bits, PUBLISH) && HAS(bits, FIRST | SECOND | CLEAR) ->
#endif
               kind[AT(now, line)] = size; lap[AT(now, line)] = now; bits = bits | PUBLISH }
        :: atomic { bits == SENT -> break }
        od;
        line = line + size;
        n++
    od
}

active proctype consumer()
{
    byte n = 1, now = 1, line, size, got, got2;

    do
    :: n > RECORDS -> break
    :: else ->
#ifdef RELAXED_READ
        /* the loads of what is behind the word went ahead of it */
        atomic { got = data[AT(now, line)]; got2 = (AT(now, line) + 1 < LINES + HEAD -> data[AT(now, line + 1)] : 0) };
#endif
        atomic { lap[AT(now, line)] == now -> size = kind[AT(now, line)] };
        if
        :: size == WRAP ->
            now++;
            line = 0;
            atomic { published_lap = now; published_line = 0 }
        :: else ->
            assert(size == sizes[n]);
#ifdef RELAXED_POSITION
            atomic { published_lap = now; published_line = line + size };
#endif
#ifndef RELAXED_READ
            got = data[AT(now, line)];
            got2 = (size == 2 -> data[AT(now, line + 1)] : 0);
#endif
            assert(got == n && (size == 1 || got2 == n));
            line = line + size;
            n++;
#ifndef RELAXED_POSITION
            atomic { published_lap = now; published_line = line }
#endif
        fi
    od
}
