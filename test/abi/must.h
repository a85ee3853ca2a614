/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What programs of test/abi, which have nothing but the public headers, hold: a condition, or they end with status 1.
 */
#ifndef CW_TEST_ABI_MUST_H
#define CW_TEST_ABI_MUST_H

#include <stdio.h>
#include <stdlib.h>

#define must(condition)                                                     \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

#endif
