/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UCX_TUNING: which rules of docs/reference/tuning.md are followed, by each form of the list, and which name is none.
 */
#include "runner.h"
#include "config/config.h"

static char copies[] = "nt_copy", other[] = "stalls";

static const struct {
    enum cw_list_mode mode;
    char *names[2];
    unsigned count;
    int follows[CW_TUNING_COUNT];
    const char *unknown;
} cases[] = {
    {CW_LIST_ALL, {NULL}, 0, {1}, NULL},
    {CW_LIST_ALLOW, {NULL}, 0, {0}, NULL},
    {CW_LIST_ALLOW, {copies}, 1, {1}, NULL},
    {CW_LIST_EXCEPT, {copies}, 1, {0}, NULL},
    {CW_LIST_EXCEPT, {other}, 1, {1}, other},
    {CW_LIST_EXCEPT, {copies, other}, 2, {0}, other},
};

TEST(the_list_says_which_rules_are_followed)
{
    size_t i;
    int rule;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *names[2] = {cases[i].names[0], cases[i].names[1]};
        const struct cw_allow_list tuning = {.mode = cases[i].mode,
                                             .list = {.names = names, .count = cases[i].count}};

        for (rule = 0; rule < CW_TUNING_COUNT; rule++) {
            assert_int_equal(cw_tuning_follows(&tuning, (enum cw_tuning)rule), cases[i].follows[rule]);
        }
        assert_ptr_equal(cw_tuning_unknown(&tuning), cases[i].unknown);
    }
}
