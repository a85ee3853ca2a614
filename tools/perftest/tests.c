/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of tests, family by family, and where their state is kept.
 *
 * Callers: options.c, run.c, session.c, the families.
 */
#include "tests.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct kept {
    struct kept *next;
    max_align_t state[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kept *all;

void *cw_test_new(size_t size)
{
    struct kept *kept = calloc(1, sizeof(*kept) + size);

    if (kept == NULL) {
        return NULL;
    }
    pthread_mutex_lock(&lock);
    kept->next = all;
    all = kept;
    pthread_mutex_unlock(&lock);
    return kept->state;
}

void cw_test_free(void *state)
{
    struct kept *kept = (struct kept *)((char *)state - offsetof(struct kept, state));
    struct kept **at = &all;

    pthread_mutex_lock(&lock);
    while (*at != kept) {
        at = &(*at)->next;
    }
    *at = kept->next;
    pthread_mutex_unlock(&lock);
    free(kept);
}

const struct cw_perf_test *cw_test_at(unsigned index)
{
    const struct {
        const struct cw_perf_test *tests;
        unsigned count;
    } families[] = {
        {cw_tag_tests, cw_tag_test_count},
        {cw_am_tests, cw_am_test_count},
        {cw_stream_tests, cw_stream_test_count},
        {cw_rma_tests, cw_rma_test_count},
        {cw_amo_tests, cw_amo_test_count},
    };

    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        if (index < families[i].count) {
            return &families[i].tests[index];
        }
        index -= families[i].count;
    }
    return NULL;
}

const struct cw_perf_test *cw_test_find(const char *name)
{
    const struct cw_perf_test *test;

    for (unsigned index = 0; (test = cw_test_at(index)) != NULL; index++) {
        if (strcmp(test->name, name) == 0) {
            return test;
        }
    }
    return NULL;
}
