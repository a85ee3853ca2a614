/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A test with several threads.
 *
 * Callers: run.c.
 * The threads start their clocks together, after the last one's warm-up. The first thread to fail keeps its sentence
 * and stops all others: those that wait at the gate, those that call the library (link.h), and those that wait for the
 * peer (fan.h). This thread carries their words to the peer meanwhile.
 */
#include "threads.h"

#include "fan.h"
#include "say.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct team {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned count;
    unsigned ready;  /* at the gate */
    atomic_bool stop;
    char sentence[CW_SENTENCE]; /* of the first to fail */
    struct cw_link_config config;
    struct cw_fan fan;
    struct member *members;
};

struct member {
    struct team *team;
    pthread_t thread;
    struct cw_perf_run run;
    struct cw_meter meter;
    struct cw_oob *oob;
    int result;
};

static void stop(struct team *team, const char *sentence)
{
    pthread_mutex_lock(&team->lock);
    if (!atomic_exchange(&team->stop, true)) {
        snprintf(team->sentence, sizeof(team->sentence), "%s", sentence);
    }
    pthread_cond_broadcast(&team->changed);
    pthread_mutex_unlock(&team->lock);
}

/* The warm-up of each thread ends by itself or by its time limit: nobody waits for ever. */
static void wait_at_gate(void *arg)
{
    struct team *team = arg;

    pthread_mutex_lock(&team->lock);
    team->ready++;
    pthread_cond_broadcast(&team->changed);
    while (team->ready < team->count && !atomic_load(&team->stop)) {
        pthread_cond_wait(&team->changed, &team->lock);
    }
    pthread_mutex_unlock(&team->lock);
}

static void *be_member(void *arg)
{
    struct member *member = arg;
    char sentence[CW_SENTENCE] = "";

    member->result = cw_run_worker(&member->run, &member->team->config, member->oob, sentence);
    if (member->result != 0) {
        stop(member->team, sentence);
    }
    if (member->oob != NULL) {
        cw_oob_close(member->oob);
    }
    return NULL;
}

static int open_team(struct team *team, const struct cw_perf_run *run, struct cw_oob *oob)
{
    struct cw_link link = {0};

    team->members = calloc(team->count, sizeof(*team->members));
    if (team->members == NULL) {
        stop(team, "out of memory for the threads");
        return -1;
    }
    for (unsigned i = 0; i < team->count; i++) {
        struct member *member = &team->members[i];
        member->team = team;
        member->run = *run;
        member->run.thread = i;
        if (!cw_run_meter(&member->run, &member->meter)) {
            stop(team, "out of memory for the histograms");
            return -1;
        }
        member->meter.ready = wait_at_gate;
        member->meter.ready_arg = team;
    }
    if (oob != NULL && cw_fan_open(&team->fan, oob, team->count, &team->stop) != 0) {
        stop(team, cw_oob_error());
        return -1;
    }
    team->config = cw_run_config(run);
    team->config.stop = &team->stop;
    if (team->count * (oob != NULL && cw_oob_is_local(oob) ? 2 : 1) > cw_cpu_count()) {
        team->config.share_cpu = true;
    }
    team->config.context = cw_link_new_context(&link, &team->config, true);
    if (team->config.context == NULL) {
        stop(team, link.error);
        return -1;
    }
    return 0;
}

static void run_team(struct team *team, struct cw_oob *oob)
{
    unsigned started = 0;

    for (; started < team->count; started++) {
        struct member *member = &team->members[started];
        member->oob = oob != NULL ? &team->fan.ends[started].oob : NULL;
        int error = pthread_create(&member->thread, NULL, be_member, member);
        if (error != 0) {
            char sentence[CW_SENTENCE];
            snprintf(sentence, sizeof(sentence), "thread %u cannot be started: %s", started, strerror(error));
            stop(team, sentence);
            break;
        }
    }
    if (oob != NULL && cw_fan_carry(&team->fan) != 0) {
        /* What the peer reported, or that it is gone, says more than the ends of the threads' connections. */
        stop(team, cw_oob_error());
    }
    for (unsigned i = 0; i < started; i++) {
        pthread_join(team->members[i].thread, NULL);
    }
}

/*
 * PRF-26. Times are the mean of the threads. Rate and bandwidth are those of all messages from the first start to the
 * last end: the sum of the threads' own rates would count processors several times where threads take turns on them.
 */
static void sum_up(const struct team *team, struct cw_perf_result *result)
{
    uint64_t last = 0, first = UINT64_MAX, messages = 0;
    double usec = 0;

    result->path = team->members[0].run.path;
    result->meter = team->members[0].meter;
    result->row = cw_meter_row(&result->meter);
    for (unsigned i = 0; i < team->count; i++) {
        struct member *member = &team->members[i];
        usec += cw_meter_row(&member->meter).overall_usec;
        first = member->meter.start < first ? member->meter.start : first;
        last = member->meter.previous > last ? member->meter.previous : last;
        messages += member->meter.iterations * member->meter.parts;
        result->verified += member->run.verified;
        if (i > 0) {
            cw_hist_merge(&result->meter.hist, &member->meter.hist);
            cw_hist_fini(&member->meter.hist);
        }
    }
    double seconds = (double)(last - first) * result->meter.tick_ns / 1e9;
    double rate = seconds > 0 ? (double)messages / seconds : 0;
    result->row.overall_usec = result->row.average_usec = usec / team->count;
    result->row.overall_rate = result->row.average_rate = rate;
    result->row.overall_mbps = result->row.average_mbps = rate * (double)result->meter.size / 1048576;
    result->row.percentile_usec = cw_meter_percentile(&result->meter, result->meter.rank);
}

int cw_threads_run(const struct cw_perf_run *run, struct cw_oob *oob, struct cw_perf_result *result,
                   char sentence[CW_SENTENCE])
{
    struct team team = {
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .changed = PTHREAD_COND_INITIALIZER,
        .count = run->params.threads,
    };

    if (open_team(&team, run, oob) == 0) {
        run_team(&team, oob);
    }
    bool failed = atomic_load(&team.stop);
    if (!failed) {
        sum_up(&team, result);
    } else {
        snprintf(sentence, CW_SENTENCE, "%s", team.sentence);
        if (oob != NULL) {
            cw_oob_give_up(oob, sentence);
        }
        for (unsigned i = 0; team.members != NULL && i < team.count; i++) {
            cw_hist_fini(&team.members[i].meter.hist);
        }
    }
    if (oob != NULL) {
        cw_fan_close(&team.fan);
    }
    if (team.config.context != NULL) {
        ucp_cleanup(team.config.context);
    }
    free(team.members);
    return failed ? -1 : 0;
}
