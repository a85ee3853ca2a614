/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The posted receives and unexpected messages of a process, and what keeps them apart.
 */
#define _GNU_SOURCE
#include "say.h"
#include "top.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS 5000
#define POLL_MS     20

/* A worker that was asked. */
struct asked {
    int fd;                             /* -1: it has answered */
    uint64_t before_ns;                 /* of an answer that was there already, for another process that asks */
};

static void print_age(uint64_t age_ns)
{
    printf(" %10.3f", (double)age_ns * 1e-9);
}

static void print_length(uint64_t length)
{
    if (length == UINT64_MAX) {
        printf(" %12s", "any");
    } else {
        printf(" %12" PRIu64, length);
    }
}

/* The receive that lacks the fewest bits to match, the oldest of these. Without receives 0 and no bits. */
static size_t nearest(const struct cw_watch_queues *queues, uint64_t tag, uint64_t *bits)
{
    size_t best = 0;

    *bits = 0;
    for (size_t i = 0; i < queues->listed_posted; i++) {
        uint64_t differ = (queues->items[i].tag ^ tag) & queues->items[i].mask;
        if (i == 0 || __builtin_popcountll(differ) < __builtin_popcountll(*bits)) {
            best = i;
            *bits = differ;
        }
    }
    return best;
}

static void print_source(const struct cw_queues_item *item, const struct cw_watch_list *all)
{
    for (size_t i = 0; i < all->count; i++) {
        if (all->workers[i].uid == item->peer && item->peer != 0) {
            printf("  %s of process %u (%s), endpoint %" PRIu32, all->workers[i].name, all->workers[i].pid,
                   all->workers[i].command, item->endpoint);
            return;
        }
    }
    if (item->peer == 0) {
        printf("  a worker that is gone");
    } else {
        printf("  worker %016" PRIx64 ", endpoint %" PRIu32, item->peer, item->endpoint);
    }
}

static const char *state_of(uint32_t flags)
{
    if (flags & CW_QUEUES_ANNOUNCED) {
        return "announced";
    }
    if (flags & CW_QUEUES_PARTIAL) {
        return "partial";
    }
    return (flags & CW_QUEUES_SYNC) ? "sync" : "arrived";
}

static void print_rest(uint64_t in_all, size_t listed)
{
    if (in_all > listed) {
        printf("    ... and %" PRIu64 " later ones\n", in_all - listed);
    }
}

static void print_receives(const struct cw_watch_queues *queues)
{
    printf("  posted receives: %" PRIu64 "\n", queues->num_posted);
    if (queues->listed_posted > 0) {
        printf("    %5s %-18s %-18s %12s %10s\n", "#", "TAG", "MASK", "ROOM", "AGE/s");
    }
    for (size_t i = 0; i < queues->listed_posted; i++) {
        const struct cw_queues_item *item = &queues->items[i];
        printf("    %5zu 0x%016" PRIx64 " 0x%016" PRIx64, i + 1, item->tag, item->mask);
        print_length(item->length);
        print_age(item->age_ns);
        printf("\n");
    }
    print_rest(queues->num_posted, queues->listed_posted);
}

static void print_messages(const struct cw_watch_queues *queues, const struct cw_watch_list *all)
{
    uint64_t bits;

    printf("  unexpected messages: %" PRIu64 "\n", queues->num_unexpected);
    if (queues->listed_unexpected > 0) {
        printf("    %5s %-18s %12s %10s %-9s  %-32s  %s\n", "#", "TAG", "BYTES", "AGE/s", "STATE",
               "NEAREST RECEIVE: BITS THAT DIFFER", "SOURCE");
    }
    for (size_t i = 0; i < queues->listed_unexpected; i++) {
        const struct cw_queues_item *item = &queues->items[queues->listed_posted + i];
        printf("    %5zu 0x%016" PRIx64, i + 1, item->tag);
        print_length(item->length);
        print_age(item->age_ns);
        printf(" %-9s", state_of(item->flags));
        if (queues->listed_posted == 0) {
            printf("  %-33s", "-");
        } else {
            size_t receive = nearest(queues, item->tag, &bits);
            printf("  %12zu: 0x%016" PRIx64 " ", receive + 1, bits);
        }
        print_source(item, all);
        printf("\n");
    }
    print_rest(queues->num_unexpected, queues->listed_unexpected);
}

static void print_answer(const struct cw_watch_worker *worker, const struct cw_watch_queues *queues,
                         const struct cw_watch_list *all)
{
    printf("worker %s of process %u (%s)\n", worker->name, worker->pid, worker->command);
    print_receives(queues);
    print_messages(queues, all);
    fflush(stdout);
}

/* Prints the answers that have come; the number of workers that have not answered yet. */
static size_t take_answers(const struct cw_watch_list *list, struct asked *asked, const struct cw_watch_list *all)
{
    static struct cw_watch_queues queues;
    size_t left = 0;

    for (size_t i = 0; i < list->count; i++) {
        if (asked[i].fd < 0) {
            continue;
        }
        if (cw_watch_read_queues(&list->workers[i], &queues) && queues.written_ns != asked[i].before_ns) {
            print_answer(&list->workers[i], &queues, all);
            close(asked[i].fd);
            asked[i].fd = -1;
        } else {
            left++;
        }
    }
    return left;
}

static void ask(const struct cw_watch_list *list, struct asked *asked)
{
    static struct cw_watch_queues queues;

    for (size_t i = 0; i < list->count; i++) {
        const struct cw_watch_worker *worker = &list->workers[i];
        asked[i].before_ns = cw_watch_read_queues(worker, &queues) ? queues.written_ns : 0;
        asked[i].fd = cw_watch_ask(worker);
        if (asked[i].fd < 0) {
            cw_say_error("cannot query worker %s of process %u: it has ended, or its memory cannot be locked",
                         worker->name, worker->pid);
        }
    }
}

bool cw_top_queues(const struct cw_watch_list *list)
{
    const struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};
    struct cw_watch_list all = {.workers = NULL};
    struct asked *asked = calloc(list->count, sizeof(*asked));
    bool done = asked != NULL;

    if (asked == NULL) {
        cw_say_error("out of memory for queries of %zu workers", list->count);
        return false;
    }
    (void)cw_watch_find(0, &all); /* those that may have sent the messages */
    ask(list, asked);
    for (size_t i = 0; i < list->count; i++) {
        done = done && asked[i].fd >= 0;
    }
    for (unsigned waited = 0; take_answers(list, asked, &all) > 0 && waited < PATIENCE_MS; waited += POLL_MS) {
        nanosleep(&pause, NULL);
    }
    for (size_t i = 0; i < list->count; i++) {
        if (asked[i].fd >= 0) {
            cw_say_error("worker %s of process %u has not answered within %d seconds: its program does not call "
                         "ucp_worker_progress, or sleeps; a debugger shows where it is", list->workers[i].name,
                         list->workers[i].pid, PATIENCE_MS / 1000);
            close(asked[i].fd);
            done = false;
        }
    }
    cw_watch_free(&all);
    free(asked);
    return done;
}
