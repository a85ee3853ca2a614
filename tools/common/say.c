/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of a tool for its user, processor binding, and the watchdog.
 *
 * Callers: all tools.
 * The watchdog's handler uses only async-signal-safe calls.
 */
#define _GNU_SOURCE
#include "say.h"

#include "progress.h"

#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *program_name = "tool";
static const char *place = "";
static bool quiet_errors;

void cw_say_setup(const char *program, bool quiet)
{
    program_name = program;
    quiet_errors = quiet;
}

void cw_say_place(const char *text)
{
    place = (text == NULL) ? "" : text;
}

static void say(const char *kind, const char *format, va_list arguments)
{
    cw_progress_clear();
    fflush(stdout);
    fprintf(stderr, "%s: %s%s", program_name, kind, place);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
}

void cw_say_error(const char *format, ...)
{
    va_list arguments;

    if (quiet_errors) {
        return;
    }
    va_start(arguments, format);
    say("ERROR ", format, arguments);
    va_end(arguments);
}

void cw_say_option(int letter, char *const *argv)
{
    if (letter == ':') {
        cw_say_error("option '%s' needs a value", argv[optind - 1]);
    } else if (optopt > 0 && optopt < 256) {
        cw_say_error("option '-%c' is not known; %s -h lists the options", optopt, program_name);
    } else {
        cw_say_error("option '%.80s' is not known; %s -h lists the options", argv[optind - 1], program_name);
    }
}

void cw_say_note(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    say("", format, arguments);
    va_end(arguments);
}

const char *cw_cpu_bind(const char *list)
{
    cpu_set_t set;
    const char *at = list;

    CPU_ZERO(&set);
    for (;;) {
        char *end;
        errno = 0;
        unsigned long first = strtoul(at, &end, 10);
        if (end == at || *at == '-' || *at == '+' || errno != 0) {
            return "not a list of CPU numbers such as 0,2-3";
        }
        unsigned long last = first;
        if (*end == '-') {
            at = end + 1;
            last = strtoul(at, &end, 10);
            if (end == at || *at == '-' || *at == '+' || last < first) {
                return "not a list of CPU numbers such as 0,2-3";
            }
        }
        if (last >= CPU_SETSIZE) {
            return "a CPU number is too large";
        }
        for (unsigned long cpu = first; cpu <= last; cpu++) {
            CPU_SET(cpu, &set);
        }
        if (*end == '\0') {
            break;
        }
        if (*end != ',') {
            return "not a list of CPU numbers such as 0,2-3";
        }
        at = end + 1;
    }
    return sched_setaffinity(0, sizeof(set), &set) == 0 ? NULL : strerror(errno);
}

unsigned cw_cpu_count(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof(set), &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

bool cw_cpu_bind_nth(unsigned index)
{
    cpu_set_t set, one;

    if (sched_getaffinity(0, sizeof(set), &set) != 0) {
        return false;
    }
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &set) && index-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            return sched_setaffinity(0, sizeof(one), &one) == 0;
        }
    }
    return false;
}

static atomic_uint beats;
static unsigned beats_seen;
static unsigned watchdog_seconds;
static int watchdog_status;

static void watchdog_bark(int signal_number)
{
    static const char text[] = "ERROR a call into the library did not return in time: exiting\n";
    unsigned seen = atomic_load_explicit(&beats, memory_order_relaxed);

    (void)signal_number;
    if (seen != beats_seen) {
        beats_seen = seen;
        alarm(watchdog_seconds);
        return;
    }
    if (!quiet_errors) {
        ssize_t written = write(STDERR_FILENO, text, sizeof(text) - 1);
        (void)written;
    }
    _exit(watchdog_status);
}

void cw_watchdog_start(unsigned seconds, int exit_status)
{
    struct sigaction action = {.sa_handler = watchdog_bark, .sa_flags = SA_RESTART};

    watchdog_seconds = seconds;
    watchdog_status = exit_status;
    cw_watchdog_beat();
    if (seconds != 0) {
        sigaction(SIGALRM, &action, NULL);
    }
    alarm(seconds);
}

void cw_watchdog_beat(void)
{
    atomic_fetch_add_explicit(&beats, 1, memory_order_relaxed);
}
