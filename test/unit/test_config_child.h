/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For the tests of configuration and log: what they test happens once per process, so each case runs in a child with a
 * clean environment, an empty directory as HOME and working directory, and its standard output kept.
 */
#ifndef TEST_CONFIG_CHILD_H
#define TEST_CONFIG_CHILD_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw; hence to be included first */
#endif
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner.h"

#define CHILD_OUTPUT_MAX (256 * 1024)
#define CHILD_FAILED     99

/* For the body of a child: prints where and ends it. */
#define child_check(condition)                                                          \
    do {                                                                                \
        if (!(condition)) {                                                             \
            (void)fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            _exit(CHILD_FAILED);                                                        \
        }                                                                               \
    } while (0)

static char child_output[CHILD_OUTPUT_MAX]; /* of the last child */

static inline void child_write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    child_check(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

static inline int child_remove_entry(const char *path, const struct stat *info, int flag, struct FTW *walk)
{
    (void)info;
    (void)flag;
    (void)walk;
    return remove(path);
}

static inline void child_clean_environment(void)
{
    extern char **environ;
    char name[256];
    char **entry = environ;

    while (*entry != NULL) {
        size_t length = strcspn(*entry, "=");

        if (strstr(*entry, "UCX_") != NULL && length < sizeof(name)) {
            memcpy(name, *entry, length);
            name[length] = '\0';
            (void)unsetenv(name);
            entry = environ;
        } else {
            ++entry;
        }
    }
}

/* Runs `body` and requires that it came to its end. Ends by exit so that a sanitizer looks for leaks. */
static inline void child_run(void (*body)(void))
{
    char directory[] = "/tmp/test_config_XXXXXX";
    FILE *output = tmpfile();
    size_t length;
    int status;
    pid_t pid;

    assert_non_null(output);
    assert_non_null(mkdtemp(directory));
    (void)fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        child_check(chdir(directory) == 0 && setenv("HOME", directory, 1) == 0);
        child_check(dup2(fileno(output), STDOUT_FILENO) == STDOUT_FILENO);
        child_clean_environment();
        body();
        exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    (void)nftw(directory, child_remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    rewind(output);
    length = fread(child_output, 1, sizeof(child_output) - 1, output);
    child_output[length] = '\0';
    (void)fclose(output);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fail_msg("the child ended with status 0x%x; its output:\n%s", (unsigned)status, child_output);
    }
}

/* How often a text occurs in the output of the last child. */
static inline unsigned child_count(const char *text)
{
    const char *position = child_output;
    unsigned count = 0;

    while ((position = strstr(position, text)) != NULL) {
        position += strlen(text);
        ++count;
    }
    return count;
}

#endif
