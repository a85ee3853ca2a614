/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This process survives, its peers are killed at random moments, with every kind of operation under way in both
 * directions. Held to: the error handler runs once, from progress, with the status of ERR; every operation
 * ends once, soon; later ones are refused with that status (ERR-11, TAG-25); closing ends; another peer on the same
 * worker is not disturbed; descriptors, mappings and memory are constant; and the next peer is served (ERR-14). UCX_TLS
 * chooses the transport.
 */
#define _GNU_SOURCE
#include "actor.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WARM_UP = 3, EXIT_CODE = 7, MEMORY_SLACK = 512, MOST_TIMES = 1 << 16 };

enum ending {
    KILLED,  /* by the survivor */
    STOPPED, /* first, then killed */
    EXITS,   /* by itself, at some step, without a word; _exit */
    LEAVES,  /* the same by exit */
    CLOSED,  /* the survivor closes in flush mode, and then kills */
    FORCED,  /* the same by force */
    QUIET,   /* killed; neither side has sent anything, and the survivor only waits */
    GONE,    /* likewise, and before there is an endpoint to it */
    ENDINGS
};

static const char *const ending_names[ENDINGS] = {"killed",
                                                  "stopped and killed",
                                                  "_exit",
                                                  "exit",
                                                  "closed, then killed",
                                                  "closed by force, then killed",
                                                  "killed, with nothing sent",
                                                  "killed before the endpoint was made"};

enum manner { LIVELY, LAZY, STALLED, MANNERS };

struct script {
    uint64_t seed;
    unsigned id;
    unsigned kinds;
    int sleeps;
    int manner;
    int early;     /* nothing was said before the end may come */
    int last_step; /* of a victim that ends by itself, else -1 */
    int leaves;
};

struct victim {
    struct cw_process child;
    struct script script;
    enum ending ending;
    double dead_at;
    bool dead;
    int code;
    ucs_status_ptr_t closing;
};

/* Times in milliseconds. */
struct times {
    float *values;
    size_t count;
};

static struct times to_handler, to_end, while_connecting;
static unsigned long endings[ENDINGS], num_early;
static unsigned next_id;

static void times_add(struct times *times, double ms)
{
    if (times->values == NULL) {
        times->values = malloc(MOST_TIMES * sizeof(*times->values));
        cw_check(times->values != NULL);
    }
    if (times->count < MOST_TIMES) {
        times->values[times->count++] = (float)ms;
    }
}

static int by_value(const void *a, const void *b)
{
    float one = *(const float *)a, other = *(const float *)b;

    return (one > other) - (one < other);
}

static void times_print(struct times *times, const char *what)
{
    size_t n = times->count;

    if (n == 0) {
        printf("%-40s none\n", what);
        return;
    }
    qsort(times->values, n, sizeof(*times->values), by_value);
    printf("%-40s %6zu times: median %.2f, 99%% %.2f, worst %.2f ms\n", what, n, (double)times->values[n / 2],
           (double)times->values[n * 99 / 100], (double)times->values[n - 1]);
}

/* ---- the victim ---- */

static void live(struct actor *actor, const struct script *script)
{
    struct actor_peer *peer = &actor->peers[0];

    for (int step = 0; step != script->last_step; step++) {
        actor_act(actor);
        if (script->manner == LAZY && !cw_one_in(&actor->random, 4)) {
            usleep((useconds_t)cw_random_below(&actor->random, 500));
        } else if (script->manner == STALLED) {
            usleep(1000);
        } else {
            actor_step(actor, 1);
        }
        actor_collect(actor);
        if (peer->failures > 0 && peer->ep != NULL) {
            (void)actor_close_ep(actor, peer, true, NULL);
        }
    }
}

static int victim_run(int fd, const char *argument)
{
    static struct actor actor;
    struct script script;
    unsigned long long seed;

    cw_check(sscanf(argument, "%llu %u %u %d %d %d %d %d", &seed, &script.id, &script.kinds, &script.sleeps,
                       &script.manner, &script.early, &script.last_step, &script.leaves) == 8);
    cw_run.name = "victim";
    cw_run.seed = seed;
    actor_open(&actor, seed, script.sleeps);
    if (actor_connect(&actor, &actor.peers[0], script.id, fd, 0)) {
        if (!script.early) {
            actor_handshake(&actor, &actor.peers[0], false);
        }
        actor.kinds = script.kinds;
        live(&actor, &script);
    }
    if (script.leaves) {
        exit(EXIT_CODE);
    }
    _exit(EXIT_CODE);
}

/* ---- the survivor ---- */

static bool is_quiet(const struct victim *victim)
{
    return victim->ending == QUIET || victim->ending == GONE;
}

static void victim_start(struct actor *actor, struct victim *victim, bool alone)
{
    struct script *script = &victim->script;
    char argument[128];

    *victim = (struct victim){.ending = (enum ending)cw_random_below(&actor->random, ENDINGS)};
    *script = (struct script){.seed = cw_random(&actor->random),
                         .id = 1 + next_id++ % 65535,
                         .kinds = UINT32_MAX,
                         .sleeps = cw_one_in(&actor->random, 3),
                         .last_step = -1,
                         .manner = (int)cw_random_below(&actor->random, MANNERS),
                         .early = cw_one_in(&actor->random, 8),
                         .leaves = victim->ending == LEAVES};
    if (victim->ending == EXITS || victim->ending == LEAVES) {
        script->last_step = (int)cw_random_below(&actor->random, 200);
    }
    if (cw_one_in(&actor->random, 2)) { /* a few kinds only, so that many of these are under way */
        script->kinds = (unsigned)(cw_random(&actor->random) & cw_random(&actor->random));
    }
    if (victim->ending == GONE && !alone) {
        victim->ending = QUIET; /* the other one may not be harmed before its time */
    }
    if (is_quiet(victim)) {
        script->kinds = 0;
        script->early = 1;
    }
    snprintf(argument, sizeof(argument), "%llu %u %u %d %d %d %d %d", (unsigned long long)script->seed, script->id,
             script->kinds, script->sleeps, script->manner, script->early, script->last_step, script->leaves);
    cw_process_start(&victim->child, "victim", argument);
    endings[victim->ending]++;
    num_early += (unsigned long)script->early;
}

static void check_whether_dead(struct victim *victim)
{
    int status;

    if (!victim->dead && waitpid(victim->child.pid, &status, WNOHANG) == victim->child.pid) {
        victim->dead = true;
        victim->dead_at = cw_now_s();
        victim->code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        close(victim->child.fd);
    }
}

static void run_steps(struct actor *actor, size_t steps)
{
    double end = cw_now_s() + 0.04;

    for (size_t i = 0; i < steps && cw_now_s() < end; i++) {
        actor_act(actor);
        actor_step(actor, 1);
        actor_collect(actor);
    }
}

/* A device of RDMA notices a death by silence (ERR-3), where the system reports it for sockets and shared memory. */
static bool is_detected_by_silence(void)
{
    const char *tls = getenv("UCX_TLS");

    return tls != NULL && strstr(tls, "rc") != NULL;
}

/* ERR-18; a connection that was open is reset and nothing else. */
static void check_failure(const struct actor_peer *peer, const struct victim *victim)
{
    bool good = peer->failure == UCS_ERR_CONNECTION_RESET;

    if (is_detected_by_silence()) {
        good = good || peer->failure == UCS_ERR_ENDPOINT_TIMEOUT;
    }
    if (victim->script.early) {
        good = good || peer->failure == UCS_ERR_NOT_CONNECTED || peer->failure == UCS_ERR_UNREACHABLE ||
               peer->failure == UCS_ERR_REJECTED || peer->failure == UCS_ERR_ENDPOINT_TIMEOUT;
    }
    if (!good) {
        cw_fail("peer %s%s: the error handler got: %s", ending_names[victim->ending],
                   victim->script.early ? " while connecting" : "", ucs_status_string(peer->failure));
    }
}

/* ERR-11, ERR-19 */
static void check_refused(struct actor *actor, struct actor_peer *peer)
{
    static const enum actor_kind kinds[] = {ACTOR_TAG_SEND,    ACTOR_TAG_SYNC,    ACTOR_AM_SEND, ACTOR_AM_REPLY,
                                            ACTOR_STREAM_SEND, ACTOR_STREAM_RECV, ACTOR_PUT,     ACTOR_GET,
                                            ACTOR_FETCH,       ACTOR_POST,        ACTOR_FLUSH};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        ucs_status_t status = peer->keys[1] == NULL ? peer->failure : actor_start(actor, peer, kinds[i]);

        if (status == UCS_OK) { /* of no bytes */
            status = actor_start(actor, peer, kinds[i]);
        }
        if (status != peer->failure && status != UCS_OK) {
            cw_fail("%s on a failed endpoint: %s", actor_names[kinds[i]], ucs_status_string(status));
        }
    }
}

static void still_waits(const struct actor_peer *peer, const struct victim *victim, const char *what)
{
    actor_print_pending(peer);
    cw_fail("peer %s%s (%s, %s): %s after %.1f s; handler calls: %d", ending_names[victim->ending],
            victim->script.early ? " while connecting" : "",
            victim->script.manner == STALLED ? "stalled" : "not stalled",
            victim->script.sleeps ? "sleeping" : "spinning", what, cw_now_s() - victim->dead_at, peer->failures);
}

static void await_end(struct actor *actor, struct actor_peer *peer, struct victim *victim)
{
    bool handler = peer->ep != NULL;
    ucs_status_t status;

    while ((handler && peer->failures == 0) || actor_pending(actor, peer) > 0 || victim->closing != NULL) {
        if (actor_step(actor, 5000)) {
            still_waits(peer, victim, "asleep, and nothing wakes it");
        }
        actor_collect(actor);
        if (victim->closing != NULL && ucp_request_check_status(victim->closing) != UCS_INPROGRESS) {
            status = ucp_request_check_status(victim->closing);
            cw_check(status == UCS_OK || status == UCS_ERR_CONNECTION_RESET || status == UCS_ERR_CANCELED ||
                        victim->script.early || (is_detected_by_silence() && status == UCS_ERR_ENDPOINT_TIMEOUT));
            ucp_request_free(victim->closing);
            victim->closing = NULL;
        }
        if (cw_now_s() > victim->dead_at + CW_BOUND_S) {
            still_waits(peer, victim, "something has not ended");
        }
    }
    if (handler) {
        double ms = (peer->failed_at - victim->dead_at) * 1e3;

        times_add(victim->script.early ? &while_connecting : &to_handler, ms > 0 ? ms : 0);
        check_failure(peer, victim);
    }
    if (!victim->script.early) {
        times_add(&to_end, (cw_now_s() - victim->dead_at) * 1e3);
    }
}

static void end_victim(struct actor *actor, struct actor_peer *peer, struct victim *victim)
{
    bool by_itself = victim->ending == EXITS || victim->ending == LEAVES;
    double end = cw_now_s() + CW_BOUND_S;

    if (victim->ending == STOPPED) {
        kill(victim->child.pid, SIGSTOP);
        run_steps(actor, cw_random_below(&actor->random, 60));
    } else if ((victim->ending == CLOSED || victim->ending == FORCED) && peer->failures == 0 && peer->ep != NULL) {
        (void)actor_close_ep(actor, peer, victim->ending == FORCED, &victim->closing);
        run_steps(actor, cw_random_below(&actor->random, 4));
    }
    if (!by_itself) {
        victim->dead_at = cw_now_s();
        kill(victim->child.pid, SIGKILL);
    }
    while (by_itself && !victim->dead) {
        check_whether_dead(victim);
        run_steps(actor, 1);
        cw_check(cw_now_s() < end);
    }
    await_end(actor, peer, victim);
    while (!victim->dead) {
        double dead_at = victim->dead_at;

        check_whether_dead(victim);
        victim->dead_at = dead_at;
        cw_check(cw_now_s() < end + CW_BOUND_S);
    }
    cw_check(victim->code == (by_itself ? EXIT_CODE : 128 + SIGKILL));
}

static void bury(struct actor *actor, struct actor_peer *peer)
{
    bool force = cw_one_in(&actor->random, 2);
    double end = cw_now_s() + CW_BOUND_S;
    ucs_status_t status;

    if (peer->ep != NULL) {
        check_refused(actor, peer);
        status = actor_close_ep(actor, peer, force, NULL);
        cw_check(status == (force ? UCS_OK : peer->failure)); /* ERR-12 */
    }
    if (actor_receives(actor, peer, true) > 0) {
        while (actor_receives(actor, peer, false) > 0) { /* a matched one when the end of the peer is known */
            actor_step(actor, 1000);
            if (cw_now_s() > end) {
                actor_print_pending(peer);
                cw_fail("receives that were canceled have not ended");
            }
        }
    }
    actor_collect(actor);
    actor_forget(actor, peer);
}

/* The other peer is served while and after the first one dies (ERR-16). */
static void check_unharmed(struct actor *actor, struct actor_peer *peer, const struct victim *victim)
{
    double end = cw_now_s() + CW_BOUND_S;
    ucs_status_t status;
    char bytes[4];

    if (victim->ending == EXITS || victim->ending == LEAVES) {
        return;
    }
    cw_check(peer->failures == 0);
    if (victim->script.manner != STALLED) {
        ucp_request_param_t param = {.op_attr_mask = 0};
        ucs_status_ptr_t request = ucp_get_nbx(peer->ep, bytes, 4, peer->addresses[1], peer->keys[1], &param);

        while (UCS_PTR_IS_PTR(request) && ucp_request_check_status(request) == UCS_INPROGRESS) {
            actor_step(actor, 100);
            if (cw_now_s() > end) {
                still_waits(peer, victim, "a get from the other peer, which lives, has not ended");
            }
        }
        status = UCS_PTR_IS_PTR(request) ? ucp_request_check_status(request) : UCS_PTR_RAW_STATUS(request);
        cw_check(status == UCS_OK);
        if (UCS_PTR_IS_PTR(request)) {
            ucp_request_free(request);
        }
        cw_check(peer->failures == 0);
    }
}

static void await_flushes(struct actor *actor)
{
    double end = cw_now_s() + CW_BOUND_S;

    for (size_t i = 0; i < sizeof(actor->flushes) / sizeof(actor->flushes[0]); i++) {
        while (actor->flushes[i].state == ACTOR_PENDING) {
            cw_check(!actor_step(actor, 5000));
            if (cw_now_s() > end) {
                cw_fail("a flush of the worker has not ended, and all peers are gone");
            }
        }
    }
    actor_collect(actor);
}

static void await_fds(struct actor *actor, int fds)
{
    double end = cw_now_s() + 5;
    int now;

    while ((now = cw_holds().fds) != fds) {
        (void)ucp_worker_progress(actor->worker);
        if (cw_now_s() > end) {
            cw_fail("%d descriptors before, %d now", fds, now);
        }
    }
}

static void one_round(struct actor *actor)
{
    struct victim victims[ACTOR_PEERS];
    int count = cw_one_in(&actor->random, 4) ? 2 : 1, fds = cw_holds().fds;

    for (int i = 0; i < count; i++) {
        victim_start(actor, &victims[i], count == 1);
    }
    for (int i = 0; i < count; i++) {
        pid_t first = (victims[i].ending == GONE) ? victims[i].child.pid : 0;

        cw_check(actor_connect(actor, &actor->peers[i], victims[i].script.id, victims[i].child.fd, first));
    }
    for (int i = 0; i < count; i++) {
        if (!victims[i].script.early) {
            actor_handshake(actor, &actor->peers[i], true);
        }
        if (!is_quiet(&victims[i])) { /* else the endpoint has to see to it by itself */
            (void)actor_start(actor, &actor->peers[i], ACTOR_TAG_SEND);
        }
    }
    actor->kinds = victims[0].script.kinds;
    run_steps(actor, cw_random_below(&actor->random, victims[0].script.early ? 4 : 300));
    for (int i = 0; i < count; i++) {
        end_victim(actor, &actor->peers[i], &victims[i]);
        if (i + 1 < count) {
            check_unharmed(actor, &actor->peers[1], &victims[1]);
        }
        bury(actor, &actor->peers[i]);
    }
    await_flushes(actor);
    for (int i = 0; i < 20; i++) {
        (void)ucp_worker_progress(actor->worker);
    }
    await_fds(actor, fds);
}

static void report(double seconds)
{
    printf("%ld rounds in %.1f s (", cw_run.round, seconds);
    for (int i = 0; i < ENDINGS; i++) {
        printf("%s %lu, ", ending_names[i], endings[i]);
    }
    printf("%lu while connecting)\n", num_early);
    times_print(&to_handler, "from the end to the error handler");
    times_print(&to_end, "from the end to the last operation's end");
    times_print(&while_connecting, "while connecting: to the error handler");
}

int main(int argc, char **argv)
{
    static const struct cw_role roles[] = {{"victim", victim_run}};
    struct cw_options options = {.seed = 1, .rounds = 1000000, .rounds_per_worker = 20, .seconds = 8};
    struct cw_holds first = {0}, now = {0};
    static struct actor actor;
    double start;
    int code;

    if (cw_process_role(argc, argv, roles, 1, &code)) {
        return code;
    }
    cw_exact_memory(argv);
    cw_run.name = "chaos.kill";
    cw_options(argc, argv, &options);
    times_add(&to_handler, 0);
    times_add(&to_end, 0);
    times_add(&while_connecting, 0);
    to_handler.count = to_end.count = while_connecting.count = 0;
    start = cw_now_s();
    for (long worker = 0; cw_run.round < options.rounds && cw_now_s() < start + options.seconds; worker++) {
        actor_open(&actor, options.seed * 1000003 + (uint64_t)worker, worker % 2 == 1);
        for (long i = 0; i < options.rounds_per_worker; i++) {
            if (worker >= WARM_UP && cw_now_s() >= start + options.seconds) {
                break;
            }
            cw_run.round++;
            one_round(&actor);
            if (options.verbose) {
                now = cw_holds();
                printf("round %ld: %d descriptors, %d mappings, %zu bytes\n", cw_run.round, now.fds, now.maps,
                       now.allocated);
            }
        }
        actor_close(&actor);
        now = cw_holds();
        if (worker + 1 == WARM_UP) {
            first = now;
        } else if (worker >= WARM_UP) {
            cw_check_holds(&first, &now, 0, MEMORY_SLACK);
        }
    }
    report(cw_now_s() - start);
    printf("descriptors %d, mappings %d, allocated %zu; after the first %d workers %d, %d, %zu\n", now.fds, now.maps,
           now.allocated, WARM_UP, first.fds, first.maps, first.allocated);
    return 0;
}
