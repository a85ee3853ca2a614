/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is used of the binary interface of libpmix.so.2. See pmix_job.c.
 *
 * Callers: pmix_job.c, and the test that compares it with the installed header.
 */
#ifndef CW_TOOLS_PMIX_TYPES_H
#define CW_TOOLS_PMIX_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#define PMIX_TYPE_BOOL     1
#define PMIX_TYPE_STRING   3
#define PMIX_TYPE_UINT32   14
#define PMIX_SCOPE_GLOBAL  3
#define PMIX_RANK_ALL      (UINT32_MAX - 1)
#define PMIX_DONE_AT_ONCE  (-157)

struct pmix_proc {
    char nspace[256];
    uint32_t rank;
};

struct pmix_value {
    uint16_t type;
    union {
        bool flag;
        uint32_t number;
        char *text;
        char room[64];
    } data;
};

struct pmix_info {
    char key[512];
    uint32_t flags;
    struct pmix_value value;
};

#endif
