/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Common frame of the bare-limit programs.
 *
 * Callers: bare_*.c.
 * The measuring process is bound to the second processor of the list and the answering one to the first, as the
 * benchmark binds client and server of the performance tool.
 */
#define _GNU_SOURCE
#include "bare.h"

#include "hist.h"
#include "say.h"
#include "ticks.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONGEST_SECONDS 120

struct settings {
    uint64_t trips;
    uint64_t warmup;
    const char *cpus[2];
    bool sleeps;
};

void cw_bare_die(const char *what)
{
    cw_say_error("%s failed: %s", what, strerror(errno));
    _exit(1);
}

static void on_child_end(int signal_number)
{
    int status;

    (void)signal_number;
    /* The other side ends by itself only after the last trip; earlier, this side would wait for ever. */
    if (waitpid(-1, &status, WNOHANG) > 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 0)) {
        _exit(1);
    }
}

static int usage(const struct cw_bare *bare)
{
    fprintf(stderr, "Usage: %s [-n trips] [-w warm-up] [-c cpu,cpu]%s%s%s%s%s\n", bare->name,
            bare->can_sleep ? " [-S]" : "", bare->set_size != NULL ? " [-s bytes]" : "",
            bare->set_kind != NULL ? " [-k kind]" : "", bare->set_work != NULL ? " [-i number,number]" : "",
            bare->set_devices != NULL ? " [-d device,device]" : "");
    return 2;
}

static bool parse(struct settings *settings, const struct cw_bare *bare, int argc, char **argv)
{
    unsigned sender, receiver;
    int letter, end;
    char *comma;

    while ((letter = getopt(argc, argv, "n:w:c:Ss:k:i:d:")) != -1) {
        switch (letter) {
        case 'n':
            settings->trips = strtoull(optarg, NULL, 10);
            break;
        case 'w':
            settings->warmup = strtoull(optarg, NULL, 10);
            break;
        case 'c':
            comma = strchr(optarg, ',');
            if (comma == NULL) {
                return false;
            }
            *comma = '\0';
            settings->cpus[0] = optarg;
            settings->cpus[1] = comma + 1;
            break;
        case 'S':
            if (!bare->can_sleep) {
                return false;
            }
            settings->sleeps = true;
            break;
        case 'k':
            if (bare->set_kind == NULL || !bare->set_kind(optarg)) {
                return false;
            }
            break;
        case 's':
            if (bare->set_size == NULL || strtoull(optarg, NULL, 10) == 0) {
                return false;
            }
            bare->set_size(strtoull(optarg, NULL, 10));
            break;
        case 'i':
            end = 0;
            if (bare->set_work == NULL || sscanf(optarg, "%u,%u%n", &sender, &receiver, &end) != 2 ||
                optarg[end] != '\0') {
                return false;
            }
            bare->set_work(sender, receiver);
            break;
        case 'd':
            comma = strchr(optarg, ',');
            if (bare->set_devices == NULL || comma == NULL) {
                return false;
            }
            *comma = '\0';
            bare->set_devices(optarg, comma + 1);
            break;
        default:
            return false;
        }
    }
    return optind == argc && settings->trips > 0;
}

static void bind_side(const struct settings *settings, bool is_ping)
{
    const char *list = settings->cpus[is_ping ? 1 : 0];
    const char *problem = NULL;

    if (list != NULL) {
        problem = cw_cpu_bind(list);
    } else if (!cw_cpu_bind_nth(is_ping ? 1 : 0)) {
        problem = "there are not two processors";
    }
    if (problem != NULL) {
        cw_say_error("binding to a processor: %s", problem);
        _exit(77);
    }
}

static void answer(const struct cw_bare *bare, const struct settings *settings)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bind_side(settings, false);
    alarm(LONGEST_SECONDS);
    bare->start(false);
    while (bare->pong == NULL) {
        pause();
    }
    for (uint64_t trip = 1; trip <= settings->warmup + settings->trips; trip++) {
        bare->pong(trip);
    }
    _exit(0);
}

static void measure(const struct cw_bare *bare, const struct settings *settings)
{
    struct cw_hist hist;

    if (!cw_hist_init(&hist)) {
        cw_bare_die("memory for the histogram");
    }
    for (uint64_t trip = 1; trip <= settings->warmup; trip++) {
        bare->ping(trip);
    }
    uint64_t start = cw_ticks_now(), previous = start;
    for (uint64_t trip = 1; trip <= settings->trips; trip++) {
        bare->ping(settings->warmup + trip);
        uint64_t now = cw_ticks_now();
        cw_hist_add(&hist, now - previous);
        previous = now;
    }
    /* Without an answer a trip is one way. */
    const char *what = bare->pong == NULL ? "trip" : "oneway";
    double part = cw_ticks_ns() / (bare->pong == NULL ? 1 : 2);
    printf("trips %llu\n", (unsigned long long)settings->trips);
    printf("%s_ns_p50 %.1f\n", what, (double)cw_hist_percentile(&hist, 50) * part);
    printf("%s_ns_p99 %.1f\n", what, (double)cw_hist_percentile(&hist, 99) * part);
    printf("%s_ns_mean %.1f\n", what, (double)(previous - start) * part / (double)settings->trips);
    if (bare->show != NULL) {
        bare->show();
    }
    cw_hist_fini(&hist);
}

int cw_bare_main(const struct cw_bare *bare, int argc, char **argv)
{
    struct settings settings = {.trips = 1000000, .warmup = 1000};
    struct sigaction action = {.sa_handler = on_child_end, .sa_flags = SA_RESTART | SA_NOCLDSTOP};

    cw_say_setup(bare->name, false);
    if (!parse(&settings, bare, argc, argv)) {
        return usage(bare);
    }
    if (settings.cpus[0] == NULL && cw_cpu_count() < 2) {
        cw_say_error("this needs two processors");
        return 77;
    }
    cw_ticks_start();
    bare->open(settings.sleeps);
    sigaction(SIGCHLD, &action, NULL);
    pid_t child = fork();
    if (child < 0) {
        cw_bare_die("fork");
    }
    if (child == 0) {
        answer(bare, &settings);
    }
    bind_side(&settings, true);
    alarm(LONGEST_SECONDS);
    bare->start(true);
    measure(bare, &settings);
    return 0;
}
