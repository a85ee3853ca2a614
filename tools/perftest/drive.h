/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The course of a latency or bandwidth test whose receiver counts arrivals: active messages and streams. A family
 * gives the operations; drive.c calls them in the order that the role asks for and keeps the clock.
 *
 * Callers: test_am.c, test_stream.c. Invariant: a slot is either in one of the two free lists or belongs to an
 * operation in flight; callbacks put it back.
 */
#ifndef CW_PERF_DRIVE_H
#define CW_PERF_DRIVE_H

#include "buffers.h"
#include "layout.h"
#include "tests.h"

/* Kinds of messages: also the identifiers of the active messages. */
enum cw_drive_kind { CW_KIND_PING, CW_KIND_PONG, CW_KIND_ACK, CW_KIND_COUNT };

struct cw_drive;

struct cw_drive_slot {
    struct cw_drive *drive;
    struct cw_drive_slot *next_free;
    char *buffer;
    ucp_dt_iov_t *iov; /* NULL: contiguous */
    uint64_t message;
    enum cw_drive_kind kind;
    size_t filled; /* bytes that have come, where a message comes in pieces */
};

struct cw_drive {
    struct cw_perf_run *run;
    struct cw_link *link;
    size_t size;
    unsigned window;
    unsigned sends_pending;
    unsigned expected_pending;          /* receives posted by expect() that have not ended */
    uint64_t arrived[CW_KIND_COUNT];
    struct cw_drive_slot *free_sends;
    struct cw_drive_slot *free_recvs;
    struct cw_drive_slot *slots; /* window sends, then window + 1 receives */
    struct cw_buffers buffers;
    ucp_dt_iov_t *iovs;
    /* Sends one message from a slot, NULL result: done. */
    ucs_status_ptr_t (*send)(struct cw_drive *drive, struct cw_drive_slot *slot, size_t size,
                             ucp_request_param_t *param);
    /* Gets ready for one message; NULL where nothing needs to be posted. 0 or -1. */
    int (*expect)(struct cw_drive *drive, enum cw_drive_kind kind, uint64_t message, size_t size);
    /* Takes what has come, where that is not done by callbacks; NULL otherwise. 0 or -1. */
    int (*poll)(struct cw_drive *drive);
};

/* Fills `drive` and cuts its slots. 0, or -1 after cw_link_fail(). */
int cw_drive_open(struct cw_drive *drive, struct cw_perf_run *run);
void cw_drive_close(struct cw_drive *drive);

/* A receive slot, or NULL after cw_link_fail(); and back. */
struct cw_drive_slot *cw_drive_take(struct cw_drive *drive);
static inline void cw_drive_give(struct cw_drive_slot *slot)
{
    slot->next_free = slot->drive->free_recvs;
    slot->drive->free_recvs = slot;
}

static inline size_t cw_drive_size(const struct cw_drive *drive, enum cw_drive_kind kind)
{
    return kind == CW_KIND_ACK ? 1 : drive->size;
}

/* What is wrong with a message's size or, with --verify, content. */
void cw_drive_check(struct cw_drive *drive, enum cw_drive_kind kind, uint64_t message, const char *data, size_t size);

/* Counts a message that is complete; with --verify checks `data` (NULL: not to be checked) first. */
static inline void cw_drive_arrived(struct cw_drive *drive, enum cw_drive_kind kind, uint64_t message, const char *data,
                                    size_t size)
{
    if (__builtin_expect(size != cw_drive_size(drive, kind) || drive->run->params.verify, 0)) {
        cw_drive_check(drive, kind, message, data, size);
    }
    drive->arrived[kind]++;
}

/*
 * Warm-up and measurement in the role of the run. After a failure operations may be in flight: then the drive must not
 * be closed, it lasts until the process ends.
 */
int cw_drive_run(struct cw_drive *drive);

#endif
