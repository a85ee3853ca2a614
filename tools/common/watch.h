/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the workers on this machine and reads what they publish about themselves (docs/reference/observing.md).
 *
 * Callers: tools/top, tools/trace.
 * Whatever a process shows may be garbage or a trap: nothing of it is mapped, only read, and checked before it is used;
 * texts come without anything that a terminal could take for a command.
 */
#ifndef CW_TOOLS_WATCH_H
#define CW_TOOLS_WATCH_H

#include "core/counters.h"
#include "core/queues.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CW_WATCH_MAX_WORKERS 4096u

struct cw_watch_transport {
    char name[16];
    uint64_t open;
    uint64_t opened;
};

struct cw_watch_worker {
    unsigned pid;
    unsigned fd;                        /* of that process */
    const char *file;                   /* what it left behind; NULL: it is to be found there */
    char command[64];
    char name[32];
    uint64_t uid;
    uint64_t started_ns;
    uint64_t read_ns;                   /* when it was read; both of the monotonic clock */
    unsigned num_transports;
    struct cw_watch_transport transports[CW_COUNTERS_TRANSPORTS];
    uint64_t values[CW_COUNT_LAST];     /* 0: the worker is older than that counter */
    uint64_t trace_offset;              /* 0: it keeps no events */
    uint64_t trace_length;
};

struct cw_watch_list {
    struct cw_watch_worker *workers;    /* by process and descriptor */
    size_t count;
    size_t size;
};

/* What such memory says. NULL, or what is wrong with it; "" when it is only not finished yet. */
const char *cw_watch_decode(const void *bytes, size_t length, struct cw_watch_worker *worker);

/*
 * The workers of all processes that we may read, or of one (pid not 0), which then has to be there. Memory that
 * cannot be a worker's is passed over with one sentence on stderr. false: a sentence was said. The list is reused.
 */
bool cw_watch_find(unsigned pid, struct cw_watch_list *list);
/* The worker that wrote this file when it was destroyed. `path` is kept. */
bool cw_watch_read_file(const char *path, struct cw_watch_list *list);
void cw_watch_free(struct cw_watch_list *list);

/* Opens the memory of a worker for reading: a descriptor, or -1 when it is gone. */
int cw_watch_open(const struct cw_watch_worker *worker);

/* The receives and messages of a worker that was asked for them (core/queues.h). */
struct cw_watch_queues {
    uint64_t uid;                       /* of the worker */
    uint64_t pid;                       /* as the process knows itself */
    uint64_t written_ns;
    uint64_t num_posted;                /* in all */
    uint64_t num_unexpected;
    size_t listed_posted;
    size_t listed_unexpected;
    struct cw_queues_item items[2 * CW_QUEUES_MOST]; /* receives, then messages */
};

/* As cw_watch_decode. */
const char *cw_watch_decode_queues(const void *bytes, size_t length, struct cw_watch_queues *queues);

/* Asks a worker by a lock on its memory: a descriptor, whose closing ends the question, or -1. */
int cw_watch_ask(const struct cw_watch_worker *worker);

/* Reads the answer that a worker shows now. false: it shows none. */
bool cw_watch_read_queues(const struct cw_watch_worker *worker, struct cw_watch_queues *queues);

/* The index-th counter's name, description, and whether it may sink. */
struct cw_watch_counter {
    const char *name;
    const char *text;
    bool is_gauge;
};
extern const struct cw_watch_counter cw_watch_counters[CW_COUNT_LAST];

#endif
