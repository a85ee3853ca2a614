/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tests of rendezvous share: each runs with all schemes, set before its workers are opened.
 */
#ifndef CW_API_TEST_RNDV_COMMON_H
#define CW_API_TEST_RNDV_COMMON_H

#include "harness.h"

#include <stdlib.h>

enum { PAGE = 4096, MIB = 1 << 20 };
static const char *const schemes[] = {"auto", "get_zcopy", "put_zcopy", "am"};
enum { SCHEMES = sizeof(schemes) / sizeof(schemes[0]) };

static inline void use_rndv(const char *threshold, const char *scheme)
{
    setenv("UCX_RNDV_THRESH", threshold, 1);
    setenv("UCX_RNDV_SCHEME", scheme, 1);
}

static inline int rndv_teardown(void **state)
{
    unsetenv("UCX_RNDV_THRESH");
    unsetenv("UCX_RNDV_SCHEME");
    return cw_test_teardown(state);
}

#endif
