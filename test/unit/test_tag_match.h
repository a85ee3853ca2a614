/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The situation of the tests of the matcher (tag/match.h): one matcher, receives and messages by number.
 */
#ifndef CW_TEST_UNIT_TEST_TAG_MATCH_H
#define CW_TEST_UNIT_TEST_TAG_MATCH_H

#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "tag/match.h"
#include "test_tag_check.h"
#include "test_tag_memory.h"

#define EXACT UINT64_MAX
#define MANY  3000

static struct cw_tag_matcher matcher;
static struct cw_tag_recv    recvs[MANY];
static struct cw_tag_message messages[MANY];

static inline int set_up(void **state)
{
    (void)state;
    memset(&memory, 0, sizeof(memory));
    memset(recvs, 0, sizeof(recvs));
    memset(messages, 0xa5, sizeof(messages));
    cw_tag_matcher_init(&matcher, 42);
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    memory.refuses = NULL;
    cw_tag_matcher_cleanup(&matcher);
    return (memory.live == 0) ? 0 : -1;
}

static inline void check(void)
{
    const char *wrong = cw_tag_matcher_check(&matcher);

    if (wrong != NULL) {
        fail_msg("%s", wrong);
    }
}

/* The receive stays posted. */
static inline void post(unsigned i, uint64_t tag, uint64_t mask)
{
    assert_null(cw_tag_matcher_post(&matcher, &recvs[i], tag, mask));
    assert_true(cw_tag_matcher_is_posted(&matcher, &recvs[i]));
}

/* The message stays unexpected. */
static inline void arrive(unsigned i, uint64_t tag)
{
    assert_null(cw_tag_matcher_arrive(&matcher, tag));
    cw_tag_matcher_add_unexpected(&matcher, &messages[i], tag);
}

static inline void assert_arrive_takes(uint64_t tag, unsigned i)
{
    assert_ptr_equal(cw_tag_matcher_arrive(&matcher, tag), &recvs[i]);
    assert_false(cw_tag_matcher_is_posted(&matcher, &recvs[i]));
}

#endif
