/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tag messages over a simulated network, for many seeds. CW_SIM_SEED is the first seed, CW_SIM_SEEDS how many follow.
 */
#include "series.h"
#include "town.h"

/* Sends and receives in random order, receives before and behind their messages, progress in between. */
static void talk(struct cw_town *town, unsigned num_messages)
{
    unsigned sends = 0, recvs = 0, from, to;

    while (sends < num_messages || recvs < num_messages) {
        from = (unsigned)cw_town_random(town, town->num_workers);
        to = (unsigned)cw_town_random(town, town->num_workers);
        switch (cw_town_random(town, 3)) {
        case 0:
            if (sends < num_messages) {
                cw_town_send(town, from, to);
                sends++;
            }
            break;
        case 1:
            if (recvs < num_messages) {
                cw_town_recv(town, from, to);
                recvs++;
            }
            break;
        default:
            cw_town_step(town);
        }
    }
}

/* What one side did more of than the other is made up for, so that every message has its receive. */
static void make_even(struct cw_town *town)
{
    unsigned from, to;

    for (from = 0; from < town->num_workers; from++) {
        for (to = 0; to < town->num_workers; to++) {
            while (town->received[from][to] < town->sent[from][to]) {
                cw_town_recv(town, from, to);
            }
            while (town->sent[from][to] < town->received[from][to]) {
                cw_town_send(town, from, to);
            }
        }
    }
}

static void check_all(struct cw_town *town, int all_ok)
{
    unsigned i;

    for (i = 0; i < town->num_ops; i++) {
        if (all_ok && town->ops[i].status != UCS_OK) {
            cw_town_fail(town, "an operation ends with %s on a healthy network",
                         ucs_status_string(town->ops[i].status));
        }
        cw_op_check(town, &town->ops[i]);
    }
    town->num_ops = 0;
    town->num_done = 0;
}

static void close_eps(struct cw_town *town)
{
    unsigned from, to;

    for (from = 0; from < town->num_workers; from++) {
        for (to = 0; to < town->num_workers; to++) {
            if (!town->people[from].dead && town->people[from].eps[to] != NULL) {
                cw_town_close_ep(town, from, to, 0);
            }
        }
    }
}

static uint64_t run_healthy(uint64_t seed, uint64_t knobs_seed, int sleepers)
{
    struct cw_sim_knobs knobs;
    struct cw_town *town;

    cw_sim_knobs_random(&knobs, knobs_seed);
    town = cw_town_new(seed, &knobs, UCP_ERR_HANDLING_MODE_NONE, sleepers);
    talk(town, 100);
    make_even(town);
    cw_town_finish(town);
    check_all(town, 1);
    if (seed % 2 == 1) { /* once more, at addresses whose memory was given back */
        talk(town, 60);
        make_even(town);
        cw_town_finish(town);
        check_all(town, 1);
    }
    if (seed % 2 == 0) {
        close_eps(town);
        cw_town_finish(town);
        check_all(town, 1);
    }
    return cw_town_free(town);
}

/* So many seeds meet everything, or the network is not what it should be. */
static void check_totals(uint64_t count)
{
    struct cw_sim_stats totals;

    if (count >= 100) {
        cw_town_get_totals(&totals);
        assert_true(totals.packets > 100 * count);
        assert_true(totals.again > 0);
        assert_true(totals.pieces > 0);
        cw_town_check_rendezvous(count);
    }
}

/* WRK-23: a worker that progresses gets on. */
static void test_healthy_network(uint64_t seed)
{
    run_healthy(seed, seed, 0);
}

/* The same with workers that sleep whenever they can (WAK-5). */
static void test_sleepers(uint64_t seed)
{
    run_healthy(seed, seed, 1);
}

static void test_runs_replay(uint64_t seed)
{
    const int sleepers = seed % 2 == 0;

    assert_int_equal(run_healthy(seed, seed, sleepers), run_healthy(seed, seed, sleepers));
    assert_int_not_equal(run_healthy(seed, seed, 0), run_healthy(seed + 1000, seed, 0));
}

/* Close behind the last send: everything that was sent still arrives (CLS-4, CLS-5). */
static void test_close_loses_nothing(uint64_t seed)
{
    struct cw_sim_knobs knobs;
    struct cw_town *town;
    unsigned from, to, i;

    cw_sim_knobs_random(&knobs, seed);
    town = cw_town_new(seed, &knobs, UCP_ERR_HANDLING_MODE_NONE, 0);
    for (i = 0; i < 40; i++) {
        from = (unsigned)cw_town_random(town, town->num_workers);
        to = (unsigned)cw_town_random(town, town->num_workers);
        cw_town_send(town, from, to);
        if (i % 4 == 0) {
            cw_town_step(town);
        }
    }
    close_eps(town);
    make_even(town);
    cw_town_finish(town);
    check_all(town, 1);
    cw_town_free(town);
}

/* Both sides close at the same time, and one of them makes no progress until the other one is through: both closes end
 * with OK (CLS-9). */
static void test_both_close(uint64_t seed)
{
    struct cw_sim_knobs knobs;
    struct cw_town *town;
    unsigned worker, rounds, turns = 0;

    cw_sim_knobs_random(&knobs, seed);
    knobs.chance[CW_SIM_AGAIN] = CW_SIM_ALWAYS / 2;
    knobs.chance[CW_SIM_SHORT] = CW_SIM_ALWAYS / 2;
    town = cw_town_new(seed, &knobs, (seed % 2 == 0) ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER, 0);
    talk(town, 30);
    make_even(town);
    cw_town_finish(town);
    check_all(town, 1);
    close_eps(town);
    while (town->num_done < town->num_ops) {
        if (++turns > CW_MAX_ROUNDS / 100) {
            cw_town_fail(town, "%u of %u closes do not end", town->num_ops - town->num_done, town->num_ops);
        }
        worker = (unsigned)cw_town_random(town, town->num_workers);
        for (rounds = (unsigned)cw_town_random(town, 300); rounds > 0; rounds--) {
            cw_town_step_one(town, worker);
        }
    }
    check_all(town, 1);
    cw_town_free(town);
}

static void cancel_receives(struct cw_town *town)
{
    unsigned i;

    for (i = 0; i < town->num_ops; i++) {
        if (town->ops[i].is_recv && !town->ops[i].done) {
            ucp_request_cancel(town->people[town->ops[i].to].worker, town->ops[i].request);
        }
    }
}

/* Steps until all sends are done. A send to a worker that died without a word may hang: the endpoint is closed by force
 * first (CLS-3). */
static void finish_sends(struct cw_town *town)
{
    unsigned rounds, i = 0;

    for (rounds = 0; i < town->num_ops; rounds++) {
        while (i < town->num_ops && (town->ops[i].done || town->ops[i].is_recv)) {
            i++;
        }
        cw_town_step(town);
        if (rounds == CW_MAX_ROUNDS) {
            cw_town_fail(town, "the send of %zu bytes from %u to %u is not done after %u calls of progress",
                         town->ops[i].length, town->ops[i].from, town->ops[i].to, rounds);
        }
    }
}

/* Something goes wrong in the middle of traffic: every operation ends exactly once, what was received is right. */
static void run_fault(uint64_t seed, enum cw_sim_fault fault, uint32_t chance)
{
    struct cw_sim_knobs knobs;
    struct cw_town *town;
    unsigned from, to;

    cw_sim_knobs_random(&knobs, seed);
    town = cw_town_new(seed, &knobs, UCP_ERR_HANDLING_MODE_PEER, 0);
    town->gaps = 1;
    talk(town, 40);
    cw_sim_set_fault(town->world, fault, chance);
    talk(town, 60);
    if (seed % 3 == 0) {
        cw_sim_reset_all(town->world, (unsigned)cw_town_random(town, town->num_workers));
    }
    talk(town, 20);
    cw_sim_set_fault(town->world, fault, 0);
    /* a synchronous send waits for its receive: give it one, and what then is left is canceled */
    for (from = 0; from < town->num_workers; from++) {
        for (to = 0; to < town->num_workers; to++) {
            while (town->received[from][to] < town->sent[from][to]) {
                cw_town_recv(town, from, to);
            }
        }
    }
    finish_sends(town);
    close_eps(town);
    finish_sends(town);
    cancel_receives(town);
    cw_town_finish(town);
    check_all(town, 0);
    cw_town_free(town);
}

/* Connections break. */
static void test_broken_connections(uint64_t seed)
{
    run_fault(seed, cw_town_breaking(seed), 3000);
}

/* Dials fail, also while both sides dial each other. */
static void test_failed_dials(uint64_t seed)
{
    static const enum cw_sim_fault faults[] = {CW_SIM_DIAL_REFUSED, CW_SIM_DIAL_LOST, CW_SIM_NO_MEMORY};

    run_fault(seed, faults[seed % 3], CW_SIM_ALWAYS / 3);
}

/* One worker dies in the middle: silently, or so that its connections are reset. The others finish, or are told. */
static void run_death(uint64_t seed)
{
    enum cw_sim_death death = (seed % 2 == 0) ? CW_SIM_KILLED : CW_SIM_SILENT;
    struct cw_sim_knobs knobs;
    struct cw_town *town;
    unsigned from, to;

    cw_sim_knobs_random(&knobs, seed);
    town = cw_town_new(seed, &knobs, UCP_ERR_HANDLING_MODE_PEER, 0);
    town->gaps = 1;
    talk(town, 60);
    cw_sim_kill(town->world, 0, death);
    town->people[0].dead = 1;
    talk(town, 40);
    for (from = 0; from < town->num_workers; from++) {
        if (death == CW_SIM_SILENT || from == 0) {
            /* nobody will ever tell: the program gives up */
            cw_town_close_ep(town, from, 0, UCP_EP_CLOSE_FLAG_FORCE);
        }
        for (to = 1; to < town->num_workers; to++) {
            if (from == 0) {
                cw_town_close_ep(town, from, to, UCP_EP_CLOSE_FLAG_FORCE);
            }
            while (from > 0 && town->received[from][to] < town->sent[from][to]) {
                cw_town_recv(town, from, to);
            }
        }
    }
    town->people[0].dead = 0; /* its own callbacks still need somebody to call them */
    finish_sends(town);
    close_eps(town);
    finish_sends(town);
    cancel_receives(town);
    cw_town_finish(town);
    check_all(town, 0);
    cw_town_free(town);
}

static void test_death(uint64_t seed)
{
    run_death(seed);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cw_series(test_healthy_network, 300, check_totals),
        cw_series(test_runs_replay, 10, NULL),
        cw_series(test_sleepers, 200, NULL),
        cw_series(test_close_loses_nothing, 100, NULL),
        cw_series(test_both_close, 300, NULL),
        cw_series(test_broken_connections, 300, NULL),
        cw_series(test_failed_dials, 300, NULL),
        cw_series(test_death, 200, NULL),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
