/* SPDX-License-Identifier: BSD-3-Clause */
/* Failing, waiting and counting for the conformance suite; see rig.h. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/clock.h"
#include "rig.h"

static char noted[512];
static int noting; /* inside cw_side_progress */
static int in_child;

static void raise_failure(const char *text)
{
    if (in_child) {
        fprintf(stderr, "second process: %s\n", text);
        _exit(1);
    }
    fail_msg("%s", text);
}

int cw_check(int condition, const char *format, ...)
{
    char text[sizeof(noted)];
    va_list args;

    if (condition) {
        return 1;
    }
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (!noting) {
        raise_failure(text);
    } else if (noted[0] == '\0') {
        memcpy(noted, text, sizeof(noted));
    }
    return 0;
}

void cw_check_note_begin(void)
{
    noting++;
}

void cw_check_note_end(void)
{
    char text[sizeof(noted)];

    if (--noting == 0 && noted[0] != '\0') {
        memcpy(text, noted, sizeof(text));
        noted[0] = '\0';
        raise_failure(text);
    }
}

void cw_check_in_child(void)
{
    in_child = 1;
}

uint64_t cw_deadline(void)
{
    const char *text = getenv("CW_TEST_WAIT_MS");
    uint64_t wait_ms = (text != NULL) ? strtoull(text, NULL, 10) : CW_WAIT_MS;

    return cw_clock_ns() + wait_ms * 1000000u;
}

void cw_deadline_check(uint64_t deadline, const char *what)
{
    if (cw_clock_ns() > deadline) {
        cw_check(0, "waited in vain for %s", what);
    }
}

int cw_count_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    int count = -3; /* ".", ".." and the directory itself */

    if (directory == NULL) {
        return 0;
    }
    while (readdir(directory) != NULL) {
        count++;
    }
    closedir(directory);
    return count;
}

int cw_count_mappings(void)
{
    FILE *file = fopen("/proc/self/maps", "re");
    int count = 0;
    int character;

    if (file == NULL) {
        return 0;
    }
    while ((character = fgetc(file)) != EOF) {
        count += character == '\n';
    }
    fclose(file);
    return count;
}

unsigned cw_scaled(unsigned count)
{
    const char *text = getenv("CW_TEST_SCALE");
    int divisor = (text != NULL) ? atoi(text) : 1;

    if (divisor <= 1) {
        return count;
    }
    return (count < (unsigned)divisor) ? 1 : count / (unsigned)divisor;
}
