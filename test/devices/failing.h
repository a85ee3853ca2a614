/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which calls of a stand-in fail, as the variable CW_FAIL of the environment says; without it none does. For programs
 * of one thread.
 *
 *   STEP SKIP NUMBER      calls of that step fail with this errno value, after so many that work
 *   random SEED ONE_IN    each call fails with that chance, with EIO
 *
 * A call that is made to fail sets CW_FAILED to its step.
 */
#ifndef CW_TEST_DEVICES_FAILING_H
#define CW_TEST_DEVICES_FAILING_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 0, or the errno value that this call of the step fails with. */
static inline int failing(const char *step)
{
    static char known[64];
    static unsigned calls;
    static unsigned long long chance;
    const char *text = getenv("CW_FAIL");
    char name[32];
    unsigned first, second;
    int number = 0;

    if (text == NULL || sscanf(text, "%31s %u %u", name, &first, &second) != 3) {
        known[0] = '\0';
        return 0;
    }
    if (strcmp(text, known) != 0) {
        snprintf(known, sizeof(known), "%s", text);
        calls = 0;
        chance = first;
    }
    if (strcmp(name, "random") == 0) {
        chance = chance * 6364136223846793005u + 1442695040888963407u;
        second *= (strcmp(step, "poll_cq") == 0 || strcmp(step, "cq_read") == 0) ? 1000 : 1; /* asked all the time */
        number = ((chance >> 33) % second == 0) ? EIO : 0;
    } else if (strcmp(name, step) == 0 && calls++ >= first) {
        number = (int)second;
    }
    if (number != 0) {
        setenv("CW_FAILED", step, 1);
    }
    return number;
}

#endif
