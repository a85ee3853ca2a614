/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bare limits of bench_sgl: the pieces that it puts, moved between its two processes by copies and system calls alone,
 * so that the library is compared with what the machine can do in the same minute. A call that fails ends the program.
 */
#ifndef CW_BENCH_SGL_BARE_H
#define CW_BENCH_SGL_BARE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum cw_bare_method {
    CW_BARE_RING,   /* a ring of packets with one piece each: a copy past the caches, and one out */
    CW_BARE_JOINED, /* the same bytes of ring in packets of up to four pieces */
    CW_BARE_SYSTEM, /* process_vm_writev() of 64 pieces */
    CW_BARE_MAPPED, /* one memcpy() of all bytes to memory that both processes map */
    CW_BARE_TCP,    /* sendmsg() and recvmsg() of 16 pieces over the loopback interface */
    CW_BARE_COUNT
};

extern const char *const cw_bare_names[CW_BARE_COUNT];

/* Before the processes part. Piece i belongs to place (i * step) % pieces of the owner's memory. */
void cw_bare_open(size_t pieces, size_t bytes, size_t step);
/* In each process; the memory holds the pieces, or the owner's places. */
void cw_bare_join(bool is_origin, char *memory);
/* The owner calls it again and again; returns at once if nothing is to be received. */
void cw_bare_serve(void);
/* Returns when all pieces are in the owner's memory, which begins there at `there`. */
void cw_bare_put(enum cw_bare_method method, pid_t owner, char *there);

#endif
