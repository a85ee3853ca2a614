/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cost of one match in the tag matcher, against the number of receives or messages that are queued beside it. No
 * transport, no worker: the data structure alone. Prints a table of nanoseconds; how to read it: tag_match.md.
 *
 * One operation is a receive posted and a message that arrives for it, in either order. "hot": the same tag again and
 * again beside a backlog that never matches. "spread": the backlog itself is matched, in random order, and renewed, so
 * that each operation also fetches a request that is not in the cache.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tag/match.h"

#define MAX_DEPTH   100000
#define NUM_BATCHES 301
#define BATCH       1000

#define EXACT      UINT64_MAX
#define ANY_SOURCE 0xffffffff00000000u /* the low half of a tag is the sender */
#define HOT_TAG    (((uint64_t)7 << 56) | 5)

/* As large as the objects in which they are embedded, so that the caches see what they would see. */
struct request {
    struct cw_tag_recv recv;
    char               rest[256 - sizeof(struct cw_tag_recv)];
};

struct descriptor {
    struct cw_tag_message message;
    char                  rest[128 - sizeof(struct cw_tag_message)];
};

struct bench {
    struct cw_tag_matcher matcher;
    struct request       *requests;    /* the last one is the hot one */
    struct descriptor    *descriptors; /* as above */
    uint64_t              random;
    uint64_t              mask;
    size_t                depth;
};

struct row {
    const char *name;
    uint64_t    mask;
    void (*fill)(struct bench *bench);
    void (*operate)(struct bench *bench);
    size_t min_depth;
    size_t max_depth;
};

static uint64_t now_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void must(int condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "tag_match: %s\n", what);
        exit(1);
    }
}

static size_t random_index(struct bench *bench)
{
    bench->random ^= bench->random << 13;
    bench->random ^= bench->random >> 7;
    bench->random ^= bench->random << 17;
    return bench->random % bench->depth;
}

/* Tags of a backlog as an MPI program has them: a communicator, the user's tag, the sender. */
static uint64_t backlog_tag(size_t i)
{
    return ((uint64_t)3 << 56) | ((uint64_t)i << 32) | (i % 64);
}

static struct cw_tag_message *post(struct cw_tag_matcher *matcher, struct cw_tag_recv *recv, uint64_t tag,
                                   uint64_t mask)
{
    struct cw_tag_message *message = cw_tag_matcher_probe(matcher, tag, mask, true);

    if (message == NULL) {
        cw_tag_matcher_queue(matcher, recv, tag, mask);
    }
    return message;
}

static void fill_posted(struct bench *bench)
{
    size_t i;

    for (i = 0; i < bench->depth; i++) {
        must(post(&bench->matcher, &bench->requests[i].recv, backlog_tag(i), bench->mask) == NULL,
             "a receive matched while the backlog was posted");
    }
}

/* The hostile case: more masks than classes. */
static void fill_many_masks(struct bench *bench)
{
    size_t i;

    for (i = 0; i < bench->depth; i++) {
        must(post(&bench->matcher, &bench->requests[i].recv, backlog_tag(i),
                                 ((uint64_t)0xff << 56) | i) == NULL,
             "a receive matched while the backlog was posted");
    }
}

static void fill_unexpected(struct bench *bench)
{
    size_t i;

    for (i = 0; i < bench->depth; i++) {
        cw_tag_matcher_add_unexpected(&bench->matcher, &bench->descriptors[i].message, backlog_tag(i));
    }
}

/* The receive is there first. */
static void expected_hot(struct bench *bench)
{
    struct cw_tag_recv *recv = &bench->requests[MAX_DEPTH].recv;

    must(post(&bench->matcher, recv, HOT_TAG, bench->mask) == NULL, "a post matched");
    must(cw_tag_matcher_arrive(&bench->matcher, HOT_TAG) == recv, "a message did not match its receive");
}

/* The message is there first. */
static void unexpected_hot(struct bench *bench)
{
    struct cw_tag_message *message = &bench->descriptors[MAX_DEPTH].message;

    must(cw_tag_matcher_arrive(&bench->matcher, HOT_TAG) == NULL, "a message matched");
    cw_tag_matcher_add_unexpected(&bench->matcher, message, HOT_TAG);
    must(post(&bench->matcher, &bench->requests[MAX_DEPTH].recv, HOT_TAG, bench->mask) == message,
         "a receive did not match its message");
}

static void expected_spread(struct bench *bench)
{
    size_t              i = random_index(bench);
    struct cw_tag_recv *recv = cw_tag_matcher_arrive(&bench->matcher, backlog_tag(i));

    must(recv != NULL, "a message did not match");
    must(post(&bench->matcher, recv, backlog_tag(i), bench->mask) == NULL, "a post matched");
}

static void unexpected_spread(struct bench *bench)
{
    size_t                 i = random_index(bench);
    struct cw_tag_message *message;

    message = post(&bench->matcher, &bench->requests[MAX_DEPTH].recv, backlog_tag(i), bench->mask);
    must(message != NULL, "a receive did not match");
    must(cw_tag_matcher_arrive(&bench->matcher, message->tag) == NULL, "a message matched");
    cw_tag_matcher_add_unexpected(&bench->matcher, message, message->tag);
}

static int compare_ns(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;

    return (a > b) - (a < b);
}

/* Median over the batches, of the mean of one batch. */
static double measure(const struct row *row, struct bench *bench, size_t depth)
{
    static double samples[NUM_BATCHES];
    size_t        batch;
    size_t        i;

    cw_tag_matcher_init(&bench->matcher, 0x5eed);
    bench->random = 88172645463325252u;
    bench->mask = row->mask;
    bench->depth = depth;
    row->fill(bench);
    for (i = 0; i < 2 * depth + BATCH; i++) {
        row->operate(bench);
    }
    for (batch = 0; batch < NUM_BATCHES; batch++) {
        uint64_t start_ns = now_ns();

        for (i = 0; i < BATCH; i++) {
            row->operate(bench);
        }
        samples[batch] = (double)(now_ns() - start_ns) / BATCH;
    }
    cw_tag_matcher_cleanup(&bench->matcher);
    memset(bench->requests, 0, (MAX_DEPTH + 1) * sizeof(*bench->requests));
    qsort(samples, NUM_BATCHES, sizeof(samples[0]), compare_ns);
    return samples[NUM_BATCHES / 2];
}

static const struct row rows[] = {
    {"posted backlog, expected, exact, hot", EXACT, fill_posted, expected_hot, 0, MAX_DEPTH},
    {"posted backlog, expected, any source, hot", ANY_SOURCE, fill_posted, expected_hot, 0, MAX_DEPTH},
    {"posted backlog, unexpected, exact, hot", EXACT, fill_posted, unexpected_hot, 0, MAX_DEPTH},
    {"unexpected backlog, expected, exact, hot", EXACT, fill_unexpected, expected_hot, 0, MAX_DEPTH},
    {"unexpected backlog, expected, any source, hot", ANY_SOURCE, fill_unexpected, expected_hot, 0, MAX_DEPTH},
    {"unexpected backlog, unexpected, exact, hot", EXACT, fill_unexpected, unexpected_hot, 0, MAX_DEPTH},
    {"unexpected backlog, unexpected, any source, hot", ANY_SOURCE, fill_unexpected, unexpected_hot, 0, MAX_DEPTH},
    {"posted backlog, exact, spread", EXACT, fill_posted, expected_spread, 1, MAX_DEPTH},
    {"posted backlog, any source, spread", ANY_SOURCE, fill_posted, expected_spread, 1, MAX_DEPTH},
    {"posted backlog, mask 0, oldest first", 0, fill_posted, expected_spread, 1, MAX_DEPTH},
    {"unexpected backlog, exact, spread", EXACT, fill_unexpected, unexpected_spread, 1, MAX_DEPTH},
    {"unexpected backlog, any source, spread", ANY_SOURCE, fill_unexpected, unexpected_spread, 1, MAX_DEPTH},
    {"unexpected backlog, mask 0, oldest first", 0, fill_unexpected, unexpected_spread, 1, MAX_DEPTH},
    {"posted backlog, each with a mask of its own, hot", EXACT, fill_many_masks, expected_hot, 0, 1000},
};

static const size_t depths[] = {0, 1, 10, 100, 1000, 10000, 100000};

static void print_table(struct bench *bench)
{
    size_t row;
    size_t i;

    printf("%-50s", "ns per operation, median; backlog:");
    for (i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
        printf(" %7zu", depths[i]);
    }
    for (row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
        printf("\n%-50s", rows[row].name);
        for (i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
            if ((depths[i] < rows[row].min_depth) || (depths[i] > rows[row].max_depth)) {
                printf(" %7s", "-");
            } else {
                printf(" %7.1f", measure(&rows[row], bench, depths[i]));
            }
            fflush(stdout);
        }
    }
    printf("\n");
}

/* The price of tables that grow by copying and of an index that is built late: the longest single call. */
static void print_slowest(struct bench *bench)
{
    uint64_t post_ns = 0;
    uint64_t probe_ns = 0;
    size_t   i;

    cw_tag_matcher_init(&bench->matcher, 0x5eed);
    for (i = 0; i < MAX_DEPTH; i++) {
        uint64_t start_ns = now_ns();

        must(post(&bench->matcher, &bench->requests[i].recv, backlog_tag(i), EXACT) == NULL,
             "a post matched");
        start_ns = now_ns() - start_ns;
        post_ns = (start_ns > post_ns) ? start_ns : post_ns;
    }
    cw_tag_matcher_cleanup(&bench->matcher);
    cw_tag_matcher_init(&bench->matcher, 0x5eed);
    bench->depth = MAX_DEPTH;
    fill_unexpected(bench);
    for (i = 0; i < 10; i++) {
        uint64_t start_ns = now_ns();

        must(cw_tag_matcher_probe(&bench->matcher, HOT_TAG, EXACT, false) == NULL, "a probe matched");
        start_ns = now_ns() - start_ns;
        probe_ns = (start_ns > probe_ns) ? start_ns : probe_ns;
    }
    cw_tag_matcher_cleanup(&bench->matcher);
    printf("longest single call: post among 100000 %.0f us, probe of 100000 messages (builds the index) %.0f us\n",
           (double)post_ns / 1000, (double)probe_ns / 1000);
}

/* Without arguments the table; with a row and a depth that many operations only, to be run under a profiler. */
int main(int argc, char **argv)
{
    static struct bench bench;
    size_t              row;
    size_t              i;

    bench.requests = calloc(MAX_DEPTH + 1, sizeof(*bench.requests));
    bench.descriptors = calloc(MAX_DEPTH + 1, sizeof(*bench.descriptors));
    must((bench.requests != NULL) && (bench.descriptors != NULL), "out of memory");
    if (argc == 3) {
        row = strtoul(argv[1], NULL, 0);
        must(row < sizeof(rows) / sizeof(rows[0]), "there is no such row");
        i = strtoul(argv[2], NULL, 0);
        must((i >= rows[row].min_depth) && (i <= rows[row].max_depth), "this row cannot have that backlog");
        printf("%s: %.1f ns\n", rows[row].name, measure(&rows[row], &bench, i));
    } else {
        print_table(&bench);
        print_slowest(&bench);
    }
    free(bench.descriptors);
    free(bench.requests);
    return 0;
}
