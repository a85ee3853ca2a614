/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tool as a job of several processes.
 *
 * Callers: main.c.
 * Each process listens and leaves a card (meet.h). In a round the clients connect to their servers as those of a pair
 * that was started by hand do; everything but the card goes over that connection. All start together, behind a fence,
 * and what the clients have measured is read by the first process behind another one.
 * A process that fails ends without a word to the others: the starter ends them.
 */
#define _GNU_SOURCE
#include "group.h"

#include "group_report.h"
#include "meet.h"
#include "plan.h"
#include "pmix_job.h"
#include "run.h"
#include "say.h"
#include "session.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CARD "causeway.card"

struct group {
    struct cw_perf_options *options;
    struct cw_pmix pmix;
    struct cw_meet meet;
    unsigned fences; /* gives results their names */
    struct cw_group_report report;
};

bool cw_group_wanted(const struct cw_perf_options *options)
{
    if (options->job != CW_JOB_AS_STARTED) {
        return options->job == CW_JOB_YES;
    }
    bool something = options->params.test[0] != '\0' || options->batches > 0 || options->pattern_given;

    /* PRF-6: who starts it from a terminal starts one side. */
    return something && options->host == NULL && !options->loopback && !options->port_given &&
           cw_pmix_present() && !isatty(STDIN_FILENO);
}

static int fail_pmix(const struct group *group)
{
    cw_say_error("process %u: %s", group->pmix.rank, group->pmix.error);
    return -1;
}

static int fail_meet(const struct group *group)
{
    cw_say_error("process %u: %s", group->pmix.rank, cw_oob_error());
    return -1;
}

/* What all processes find out alike is said by one, before the first of them ends and the starter ends the others. */
static int refuse(struct group *group, const char *sentence)
{
    if (group->pmix.rank == 0) {
        cw_say_error("%s", sentence);
    }
    cw_pmix_fence(&group->pmix);
    return -1;
}

static int meet_timeout_ms(const struct group *group)
{
    return (int)group->options->timeout_s * 1000;
}

static int connect_to(struct group *group, uint32_t server, struct cw_oob *oob)
{
    char card[CW_MEET_CARD];

    if (cw_pmix_get(&group->pmix, server, CARD, card, sizeof(card)) != 0) {
        return fail_pmix(group);
    }
    if (cw_meet_connect(card, oob, cw_session_hello_ms(group->options)) != 0) {
        return fail_meet(group);
    }
    oob->timeout_ms = meet_timeout_ms(group);
    return 0;
}

static int accept_one(struct group *group, struct cw_oob *oob)
{
    return cw_meet_accept(&group->meet, oob, meet_timeout_ms(group)) == 0 ? 0 : fail_meet(group);
}

/* ---- two processes ---- */

/* The client prints everything, so that the output of the two is in order. */
static int run_two(struct group *group)
{
    struct cw_session session = {
        .options = group->options,
        .report = {.options = group->options, .silent = group->pmix.rank == 0},
        .box = true,
    };

    if (group->pmix.rank != 0) {
        return connect_to(group, 0, &session.oob) == 0 ? cw_session_tests(&session) : -1;
    }
    int result = accept_one(group, &session.oob);
    if (result == 0) {
        result = cw_session_answer(&session);
        cw_oob_close(&session.oob);
    }
    return result;
}

/* ---- servers ---- */

struct service {
    pthread_t thread;
    struct cw_session session;
    int result;
};

static void *serve(void *arg)
{
    struct service *service = arg;

    service->result = cw_session_answer(&service->session);
    cw_oob_close(&service->session.oob);
    return NULL;
}

static struct service *accept_all(struct group *group, unsigned clients)
{
    struct service *services = calloc(clients, sizeof(*services));

    if (services == NULL) {
        cw_say_error("out of memory for %u clients", clients);
        return NULL;
    }
    for (unsigned i = 0; i < clients; i++) {
        services[i].session = (struct cw_session){
            .options = group->options,
            .report = {.options = group->options, .silent = true},
        };
        if (accept_one(group, &services[i].session.oob) != 0) {
            free(services);
            return NULL;
        }
    }
    return services;
}

/* Serves all clients at the same time, the first one in this thread. */
static int serve_all(struct service *services, unsigned clients)
{
    int result = 0;

    for (unsigned i = 1; i < clients; i++) {
        int error = pthread_create(&services[i].thread, NULL, serve, &services[i]);
        if (error != 0) {
            cw_say_error("no thread for client %u: %s", i, strerror(error));
            return -1;
        }
    }
    serve(&services[0]);
    for (unsigned i = 1; i < clients; i++) {
        pthread_join(services[i].thread, NULL);
    }
    for (unsigned i = 0; i < clients; i++) {
        result = services[i].result != 0 ? -1 : result;
    }
    return result;
}

/* ---- rounds ---- */

static int measure(struct group *group, const struct cw_perf_params *params, struct cw_session *session)
{
    struct cw_perf_result result;
    char name[32], text[CW_GROUP_RESULT];

    if (cw_session_ask(session, params) != 0 ||
        cw_run_test(CW_ROLE_CLIENT, &session->oob, params, &session->report, &result) != 0) {
        return -1;
    }
    cw_oob_send(&session->oob, CW_OOB_END, NULL, 0);
    cw_oob_close(&session->oob);
    cw_group_report_pack(&result, text);
    cw_result_free(&result);
    snprintf(name, sizeof(name), "causeway.%u", group->fences);
    return cw_pmix_put(&group->pmix, name, text) == 0 ? 0 : fail_pmix(group);
}

static int collect(struct group *group, unsigned round)
{
    enum cw_perf_pattern pattern = group->options->pattern;
    uint32_t size = group->pmix.size;
    char name[32], text[CW_GROUP_RESULT];

    snprintf(name, sizeof(name), "causeway.%u", group->fences);
    for (uint32_t client = 0; client < size; client++) {
        uint32_t server = cw_plan_server(pattern, size, round, client);
        if (server == CW_NOBODY) {
            continue;
        }
        if (cw_pmix_get(&group->pmix, client, name, text, sizeof(text)) != 0) {
            return fail_pmix(group);
        }
        cw_group_report_pair(&group->report, client, server, text);
    }
    return 0;
}

static int run_round(struct group *group, const struct cw_perf_params *params, unsigned round)
{
    enum cw_perf_pattern pattern = group->options->pattern;
    uint32_t rank = group->pmix.rank, size = group->pmix.size;
    uint32_t server = cw_plan_server(pattern, size, round, rank);
    unsigned clients = cw_plan_clients(pattern, size, round, rank);
    struct cw_session session = {
        .options = group->options,
        .report = {.options = group->options, .silent = true},
    };
    struct service *services = NULL;
    int result = 0;

    if (server != CW_NOBODY) {
        result = connect_to(group, server, &session.oob);
    } else if (clients > 0) {
        services = accept_all(group, clients);
        result = services == NULL ? -1 : 0;
    }
    if (result == 0 && cw_pmix_fence(&group->pmix) != 0) {
        result = fail_pmix(group);
    }
    if (result == 0 && server != CW_NOBODY) {
        result = measure(group, params, &session);
    } else if (result == 0 && clients > 0) {
        result = serve_all(services, clients);
    }
    if (result == 0 && cw_pmix_fence(&group->pmix) != 0) {
        result = fail_pmix(group);
    }
    if (result == 0 && rank == 0) {
        result = collect(group, round);
    }
    group->fences++;
    free(services);
    return result;
}

static int run_rounds(struct cw_session *session, const struct cw_perf_params *params)
{
    struct group *group = session->arg;
    unsigned rounds = cw_plan_rounds(group->options->pattern, group->pmix.size);
    bool speaks = group->pmix.rank == 0;
    int result = 0;

    if (speaks) {
        cw_group_report_begin(&group->report, &session->report, params, group->pmix.size);
    }
    for (unsigned round = 0; round < rounds && result == 0; round++) {
        result = run_round(group, params, round);
    }
    if (speaks && result == 0) {
        cw_group_report_end(&group->report);
    }
    return result;
}

/* ---- the job ---- */

static int open_group(struct group *group)
{
    struct cw_perf_options *options = group->options;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);

    if (cw_pmix_open(&group->pmix) != 0) {
        return fail_pmix(group);
    }
    if (group->pmix.size < 2) {
        return refuse(group, "a job of one process has no peer: start at least two, or use -l");
    }
    if (options->pattern == CW_PATTERN_PAIRS && group->pmix.size % 2 != 0) {
        return refuse(group, "an odd number of processes cannot form pairs: start one more, or use --pattern all or "
                             "many");
    }
    if (cw_meet_open(&group->meet) != 0) {
        return fail_meet(group);
    }
    /* Spinning processes that outnumber the processors would wait for each other's time slices. */
    if ((processors > 0 && group->pmix.local_size > (unsigned long)processors) ||
        (options->pattern == CW_PATTERN_MANY && group->pmix.rank == 0 && group->pmix.size - 1 > cw_cpu_count())) {
        options->share_cpu = true;
    }
    if (cw_pmix_put(&group->pmix, CARD, group->meet.card) != 0 || cw_pmix_fence(&group->pmix) != 0) {
        return fail_pmix(group);
    }
    return 0;
}

static int read_hosts(struct group *group)
{
    char card[CW_MEET_CARD];

    group->report.hosts = calloc(group->pmix.size, sizeof(*group->report.hosts));
    for (uint32_t rank = 0; group->report.hosts != NULL && rank < group->pmix.size; rank++) {
        if (cw_pmix_get(&group->pmix, rank, CARD, card, sizeof(card)) != 0) {
            return fail_pmix(group);
        }
        cw_meet_host(card, group->report.hosts[rank], sizeof(group->report.hosts[rank]));
    }
    return group->report.hosts != NULL ? 0 : -1;
}

int cw_group_run(struct cw_perf_options *options)
{
    struct group group = {.options = options, .meet = {.listener = -1}};
    int result = open_group(&group);

    if (result == 0 && group.pmix.size == 2 && !options->pattern_given) {
        result = run_two(&group);
    } else if (result == 0) {
        struct cw_session session = {
            .options = options,
            .report = {.options = options},
            .run = run_rounds,
            .arg = &group,
        };
        result = group.pmix.rank == 0 ? read_hosts(&group) : 0;
        result = result == 0 ? cw_session_each(&session) : -1;
    }
    cw_meet_close(&group.meet);
    free(group.report.hosts);
    cw_pmix_close(&group.pmix, result == 0);
    return result;
}
