/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What libfabric and its providers do to the process beside what was asked for: the dispositions of all signals, the
 * signals that are held back, and the environment are after each step as they were before it. Without a setting
 * libfabric is not even loaded.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"

extern char **environ;

/* A flag that the C library adds to each action that it sets. */
#define RESTORER 0x04000000

struct process {
    struct sigaction actions[NSIG];
    sigset_t blocked;
    char **environment;
    char *first;
    size_t variables;
};

static void on_signal(int number)
{
    (void)number;
}

static void note(struct process *process)
{
    int number;

    memset(process, 0, sizeof(*process));
    for (number = 1; number < NSIG; number++) {
        (void)sigaction(number, NULL, &process->actions[number]);
    }
    pthread_sigmask(SIG_SETMASK, NULL, &process->blocked);
    process->environment = environ;
    process->first = environ[0];
    while (environ[process->variables] != NULL) {
        process->variables++;
    }
}

static void compare(const struct process *before, const char *step)
{
    struct process after;
    int number;

    note(&after);
    for (number = 1; number < NSIG; number++) {
        if (before->actions[number].sa_sigaction != after.actions[number].sa_sigaction ||
            ((before->actions[number].sa_flags ^ after.actions[number].sa_flags) & ~RESTORER) != 0) {
            fail_msg("%s: the disposition of signal %d (%s) changed", step, number, strsignal(number));
        }
        assert_int_equal(sigismember(&before->blocked, number), sigismember(&after.blocked, number));
    }
    assert_ptr_equal(before->environment, after.environment);
    assert_ptr_equal(before->first, after.first);
    assert_int_equal(before->variables, after.variables);
}

static int has_fabric(void)
{
    return access("/sys/class/cxi", F_OK) == 0 || access("/sys/bus/pci/drivers/efa", F_OK) == 0 ||
           access("/sys/class/hfi1", F_OK) == 0;
}

API_TEST(test_not_loaded_by_default)
{
    const char *tls = getenv("UCX_TLS");
    char *retained = strdup(tls);
    struct cw_side side;

    if (has_fabric()) {
        free(retained);
        skip();
    }
    unsetenv("UCX_TLS");
    memset(&side, 0, sizeof(side));
    cw_side_open(&side, &(struct cw_pair_config){.no_endpoints = true});
    assert_null(dlopen("libfabric.so.1", RTLD_NOW | RTLD_NOLOAD));
    cw_side_destroy(&side);
    setenv("UCX_TLS", retained, 1);
    free(retained);
}

API_TEST(test_process_stays_as_it_was)
{
    struct sigaction mine = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct process before;

    sigemptyset(&mine.sa_mask);
    assert_int_equal(sigaction(SIGTERM, &mine, NULL), 0);
    assert_int_equal(sigaction(SIGUSR1, &mine, NULL), 0);
    note(&before);
    cw_pair_open(pair, NULL);
    assert_non_null(dlopen("libfabric.so.1", RTLD_NOW | RTLD_NOLOAD));
    compare(&before, "opening workers");
    cw_pair_ping(pair, 1);
    compare(&before, "a message");
    cw_pair_close(pair);
    compare(&before, "closing workers");
}
