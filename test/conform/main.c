/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conform_<transport> [--broken] [group ...]: runs the named groups, or all. With --broken the transport is known to
 * break the contract: the program then succeeds if, and only if, some test fails. CW_LEAVE_OUT names a test (with `*`
 * and `?`) that what is below the transport cannot pass; the output says so.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "rig.h"

static const char *const groups[] = {"address", "connect", "data",   "close", "wakeup", "process",
                                     "leak",    "peer",    "placed", "batch", "access", "retained"};

static int wanted(const char *name, char **names, int count)
{
    int i;

    for (i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            return 1;
        }
    }
    return count == 0;
}

static bool is_group(const char *name)
{
    size_t i;

    for (i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        if (strcmp(groups[i], name) == 0) {
            return true;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    int broken = argc > 1 && strcmp(argv[1], "--broken") == 0;
    int failed = 0;
    const char *left_out = getenv("CW_LEAVE_OUT");
    char file[64];
    size_t i;

    if (left_out != NULL && *left_out != '\0') {
        printf("LEFT OUT: %s\n", left_out);
        cmocka_set_skip_filter(left_out);
    }
    if (getenv("UCX_LOG_LEVEL") == NULL) {
        cw_log_set_level(CW_LOG_FATAL); /* most errors here are asked for */
    }
    alarm(600); /* a call that does not return ends the program */
    argc -= 1 + broken;
    argv += 1 + broken;
    for (i = 0; i < (size_t)argc; i++) {
        if (!is_group(argv[i])) {
            fprintf(stderr, "there is no group '%s'\n", argv[i]);
            return 2;
        }
    }
    for (i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        if (wanted(groups[i], argv, argc)) {
            (void)snprintf(file, sizeof(file), "group_%s.c", groups[i]);
            failed += cw_tests_run_file(file);
        }
    }
    if (broken) {
        printf("%s\n", (failed > 0) ? "The flaw was found." : "The flaw was NOT found.");
        return failed == 0;
    }
    return failed != 0;
}
