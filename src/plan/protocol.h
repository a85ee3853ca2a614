/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which way a message takes, by its length: a pure function of the interface's numbers and the settings. Computed once
 * per interface of a worker; docs/RENDEZVOUS.md explains the ways.
 */
#ifndef CW_PLAN_PROTOCOL_H
#define CW_PLAN_PROTOCOL_H

#include <stddef.h>
#include <stdint.h>

#define CW_PLAN_AUTO  (SIZE_MAX - 1) /* as CW_MEMUNITS_AUTO */
#define CW_PLAN_NEVER SIZE_MAX

/* What the protocols add before a message: the longest header of theirs, without a program's own. */
#define CW_PLAN_HEADER 32u

struct cw_protocol_input {
    size_t max_short;
    size_t max_bcopy;
    size_t max_zcopy;           /* 0: cannot */
    size_t max_placed;          /* likewise */
    int memory;                 /* the peer's memory can be reached, if the system allows it */
    int grows;                  /* a connection that moves a good deal has less of rendezvous */
    size_t rndv_thresh;         /* settings; CW_PLAN_AUTO, CW_PLAN_NEVER */
    const char *rndv_setting;   /* where that comes from, for texts */
    size_t rndv_fast_thresh;    /* RNDV_SEND_NBR_THRESH */
    size_t zcopy_thresh;
    int used_in_place;          /* the plan is one of active messages: for cw_protocol_rows */
};

/* Lengths in bytes; each `min` is the first length of its way. */
struct cw_protocol_plan {
    size_t short_end;           /* below: short */
    size_t zcopy_min;           /* eager without a copy from here */
    size_t rndv_min;
    size_t rndv_fast_min;       /* of sends with FAST_CMPL */
    size_t rndv_late_min;       /* at least, of lists of memory, and of active messages, used where they lie */
    uint8_t rndv_forced;        /* the user set the threshold */
};

void cw_protocol_choose(const struct cw_protocol_input *input, struct cw_protocol_plan *plan);

/* Whether a put by packets of that length is announced and received in place; otherwise it is sent in pieces of at most
 * max_bcopy bytes, of which `header` are not payload. */
static inline int cw_protocol_announces_put(const struct cw_protocol_plan *plan, size_t max_bcopy, size_t header,
                                            size_t max_placed, size_t length, int fast)
{
    return length > max_bcopy - header && max_placed > 0 && length >= (fast ? plan->rndv_fast_min : plan->rndv_min);
}

/* One line of the table that UCX_PROTO_INFO prints. */
struct cw_protocol_row {
    size_t first;
    size_t last;                /* CW_PLAN_NEVER: no end */
    const char *way;
    const char *why;
};

#define CW_PROTOCOL_MAX_ROWS 6u

/* The same plan as rows; returns how many. */
unsigned cw_protocol_rows(const struct cw_protocol_input *input, const struct cw_protocol_plan *plan,
                          struct cw_protocol_row rows[CW_PROTOCOL_MAX_ROWS]);

#endif
