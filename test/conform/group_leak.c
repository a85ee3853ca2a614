/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing again and again leaves neither descriptors nor mappings nor memory behind. */
#include <stdlib.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "rig.h"
#include "stream.h"

enum { WINDOW = 40, MIN_WINDOWS = 2, MAX_WINDOWS = 10 }; /* rounds between two looks; looks */

static struct cw_stream streams[4];

static size_t heap_in_use(void)
{
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    return mallinfo2().uordblks;
#else
    return 0; /* the leak check of the sanitizer sees more */
#endif
}

static void one_round(struct cw_rig *rig, unsigned number)
{
    struct cw_bytes hello = cw_bytes_unique(16);
    struct cw_end *one, *other, *refused;
    int i;

    cw_side_open(rig->a);
    if (rig->b != rig->a) {
        cw_side_open(rig->b);
    }
    rig->b->accept_status = UCS_ERR_REJECTED;
    refused = cw_end_dial(rig->a, rig->b, &hello);
    cw_rig_wait(rig, &refused->opened, 1, "a refusal");
    rig->b->accept_status = UCS_OK;
    cw_rig_connect(rig, rig->a, rig->b, &one, &other);
    for (i = 0; i < 4; i++) {
        cw_stream_init(&streams[i], 5 + (uint64_t)(i / 2), (i < 2) ? rig->a : rig->b, 100);
    }
    one->sending = &streams[0];
    other->receiving = &streams[1];
    other->sending = &streams[2];
    one->receiving = &streams[3];
    cw_stream_run(rig, one, other);
    cw_end_dial(rig->a, rig->b, &hello);
    if (number % 2 == 0) { /* with everything on its way */
        streams[0].count = streams[1].count = 1000;
        streams[0].done = streams[1].done = 0;
        cw_stream_push(one, 100);
    }
    cw_side_close((number % 4 < 2) ? rig->a : rig->b);
    cw_rig_progress(rig);
    cw_side_close(rig->a);
    cw_side_close(rig->b);
}

/* The allocator keeps freed pieces for later, which looks like growth for a while; a leak grows for ever: in each of
 * many windows. */
RIG_TEST(test_no_leak)
{
    int descriptors, mappings;
    unsigned window = 0, i = 0;
    size_t before, after;

    cw_side_close(rig->a);
    cw_side_close(rig->b);
    while (i < WINDOW) {
        one_round(rig, i++);
    }
    descriptors = cw_count_descriptors();
    mappings = cw_count_mappings();
    after = heap_in_use();
    do {
        before = after;
        do {
            one_round(rig, i++);
        } while (i % WINDOW != 0);
        after = heap_in_use();
    } while (++window < MAX_WINDOWS && (window < MIN_WINDOWS || after >= before + WINDOW * 16u));
    cw_check(cw_count_descriptors() == descriptors, "%d descriptors more after %u rounds",
             cw_count_descriptors() - descriptors, i - WINDOW);
    cw_check(cw_count_mappings() < mappings + WINDOW, "%d mappings more after %u rounds",
             cw_count_mappings() - mappings, i - WINDOW);
    cw_check(after < before + WINDOW * 16u, "memory grows all the time: %zu bytes more after the last %d of %u rounds",
             after - before, WINDOW, i);
}
