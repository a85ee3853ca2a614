/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tag messages over a simulated network, for many seeds. CW_SIM_SEED is the first seed, CW_SIM_SEEDS how many follow.
 */
#include "series.h"
#include "cluster.h"

/* Sends and receives in random order, receives before and behind their messages, progress in between. */
static void talk(struct cw_cluster *cluster, unsigned num_messages)
{
    unsigned sends = 0, recvs = 0, from, to;

    while (sends < num_messages || recvs < num_messages) {
        from = (unsigned)cw_cluster_random(cluster, cluster->num_workers);
        to = (unsigned)cw_cluster_random(cluster, cluster->num_workers);
        switch (cw_cluster_random(cluster, 3)) {
        case 0:
            if (sends < num_messages) {
                cw_cluster_send(cluster, from, to);
                sends++;
            }
            break;
        case 1:
            if (recvs < num_messages) {
                cw_cluster_recv(cluster, from, to);
                recvs++;
            }
            break;
        default:
            cw_cluster_step(cluster);
        }
    }
}

/* What one side did more of than the other is made up for, so that every message has its receive. */
static void make_even(struct cw_cluster *cluster)
{
    unsigned from, to;

    for (from = 0; from < cluster->num_workers; from++) {
        for (to = 0; to < cluster->num_workers; to++) {
            while (cluster->received[from][to] < cluster->sent[from][to]) {
                cw_cluster_recv(cluster, from, to);
            }
            while (cluster->sent[from][to] < cluster->received[from][to]) {
                cw_cluster_send(cluster, from, to);
            }
        }
    }
}

static void check_all(struct cw_cluster *cluster, int all_ok)
{
    unsigned i;

    for (i = 0; i < cluster->num_ops; i++) {
        if (all_ok && cluster->ops[i].status != UCS_OK) {
            cw_cluster_fail(cluster, "an operation ends with %s on a healthy network",
                            ucs_status_string(cluster->ops[i].status));
        }
        cw_op_check(cluster, &cluster->ops[i]);
    }
    cluster->num_ops = 0;
    cluster->num_done = 0;
}

static void close_eps(struct cw_cluster *cluster)
{
    unsigned from, to;

    for (from = 0; from < cluster->num_workers; from++) {
        for (to = 0; to < cluster->num_workers; to++) {
            if (!cluster->nodes[from].dead && cluster->nodes[from].eps[to] != NULL) {
                cw_cluster_close_ep(cluster, from, to, 0);
            }
        }
    }
}

static uint64_t run_healthy(uint64_t seed, uint64_t knobs_seed, int sleepers)
{
    struct cw_sim_knobs knobs;
    struct cw_cluster *cluster;

    cw_sim_knobs_random(&knobs, knobs_seed);
    cluster = cw_cluster_new(seed, &knobs, UCP_ERR_HANDLING_MODE_NONE, sleepers);
    talk(cluster, 100);
    make_even(cluster);
    cw_cluster_finish(cluster);
    check_all(cluster, 1);
    if (seed % 2 == 1) { /* once more, at addresses whose memory was given back */
        talk(cluster, 60);
        make_even(cluster);
        cw_cluster_finish(cluster);
        check_all(cluster, 1);
    }
    if (seed % 2 == 0) {
        close_eps(cluster);
        cw_cluster_finish(cluster);
        check_all(cluster, 1);
    }
    return cw_cluster_free(cluster);
}

/* So many seeds meet everything, or the network is not what it should be. */
static void check_totals(uint64_t count)
{
    struct cw_sim_stats totals;

    if (count >= 100) {
        cw_cluster_get_totals(&totals);
        assert_true(totals.packets > 100 * count);
        assert_true(totals.again > 0);
        assert_true(totals.pieces > 0);
        cw_cluster_check_rendezvous(count);
    }
}

/* WRK-23: a worker that progresses gets on. */
SERIES_TEST(test_healthy_network, 300, check_totals)
{
    run_healthy(seed, seed, 0);
}

/* The same with workers that sleep whenever they can (WAK-5). */
SERIES_TEST(test_sleepers, 200, NULL)
{
    run_healthy(seed, seed, 1);
}

SERIES_TEST(test_runs_replay, 10, NULL)
{
    const int sleepers = seed % 2 == 0;

    assert_int_equal(run_healthy(seed, seed, sleepers), run_healthy(seed, seed, sleepers));
    assert_int_not_equal(run_healthy(seed, seed, 0), run_healthy(seed + 1000, seed, 0));
}

/* Close behind the last send: everything that was sent still arrives (CLS-4, CLS-5). */
SERIES_TEST(test_close_loses_nothing, 100, NULL)
{
    struct cw_sim_knobs knobs;
    struct cw_cluster *cluster;
    unsigned from, to, i;

    cw_sim_knobs_random(&knobs, seed);
    cluster = cw_cluster_new(seed, &knobs, UCP_ERR_HANDLING_MODE_NONE, 0);
    for (i = 0; i < 40; i++) {
        from = (unsigned)cw_cluster_random(cluster, cluster->num_workers);
        to = (unsigned)cw_cluster_random(cluster, cluster->num_workers);
        cw_cluster_send(cluster, from, to);
        if (i % 4 == 0) {
            cw_cluster_step(cluster);
        }
    }
    close_eps(cluster);
    make_even(cluster);
    cw_cluster_finish(cluster);
    check_all(cluster, 1);
    cw_cluster_free(cluster);
}

/* Both sides close at the same time, and one of them makes no progress until the other one is through: both closes end
 * with OK (CLS-9). */
SERIES_TEST(test_both_close, 300, NULL)
{
    struct cw_sim_knobs knobs;
    struct cw_cluster *cluster;
    unsigned worker, rounds, turns = 0;

    cw_sim_knobs_random(&knobs, seed);
    knobs.chance[CW_SIM_AGAIN] = CW_SIM_ALWAYS / 2;
    knobs.chance[CW_SIM_SHORT] = CW_SIM_ALWAYS / 2;
    cluster =
        cw_cluster_new(seed, &knobs, (seed % 2 == 0) ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER, 0);
    talk(cluster, 30);
    make_even(cluster);
    cw_cluster_finish(cluster);
    check_all(cluster, 1);
    close_eps(cluster);
    while (cluster->num_done < cluster->num_ops) {
        if (++turns > CW_MAX_ROUNDS / 100) {
            cw_cluster_fail(cluster, "%u of %u closes do not end", cluster->num_ops - cluster->num_done,
                            cluster->num_ops);
        }
        worker = (unsigned)cw_cluster_random(cluster, cluster->num_workers);
        for (rounds = (unsigned)cw_cluster_random(cluster, 300); rounds > 0; rounds--) {
            cw_cluster_step_one(cluster, worker);
        }
    }
    check_all(cluster, 1);
    cw_cluster_free(cluster);
}

static void cancel_receives(struct cw_cluster *cluster)
{
    unsigned i;

    for (i = 0; i < cluster->num_ops; i++) {
        if (cluster->ops[i].is_recv && !cluster->ops[i].done) {
            ucp_request_cancel(cluster->nodes[cluster->ops[i].to].worker, cluster->ops[i].request);
        }
    }
}

/* Steps until all sends are done. A send to a worker that died without a word may hang: the endpoint is closed by force
 * first (CLS-3). */
static void finish_sends(struct cw_cluster *cluster)
{
    unsigned rounds, i = 0;

    for (rounds = 0; i < cluster->num_ops; rounds++) {
        while (i < cluster->num_ops && (cluster->ops[i].done || cluster->ops[i].is_recv)) {
            i++;
        }
        cw_cluster_step(cluster);
        if (rounds == CW_MAX_ROUNDS) {
            cw_cluster_fail(cluster, "the send of %zu bytes from %u to %u is not done after %u calls of progress",
                            cluster->ops[i].length, cluster->ops[i].from, cluster->ops[i].to, rounds);
        }
    }
}

/* Something goes wrong in the middle of traffic: every operation ends exactly once, what was received is right. */
static void run_fault(uint64_t seed, enum cw_sim_fault fault, uint32_t chance)
{
    struct cw_sim_knobs knobs;
    struct cw_cluster *cluster;
    unsigned from, to;

    cw_sim_knobs_random(&knobs, seed);
    cluster = cw_cluster_new(seed, &knobs, UCP_ERR_HANDLING_MODE_PEER, 0);
    cluster->gaps = 1;
    talk(cluster, 40);
    cw_sim_set_fault(cluster->network, fault, chance);
    talk(cluster, 60);
    if (seed % 3 == 0) {
        cw_sim_reset_all(cluster->network, (unsigned)cw_cluster_random(cluster, cluster->num_workers));
    }
    talk(cluster, 20);
    cw_sim_set_fault(cluster->network, fault, 0);
    /* a synchronous send waits for its receive: give it one, and what then is left is canceled */
    for (from = 0; from < cluster->num_workers; from++) {
        for (to = 0; to < cluster->num_workers; to++) {
            while (cluster->received[from][to] < cluster->sent[from][to]) {
                cw_cluster_recv(cluster, from, to);
            }
        }
    }
    finish_sends(cluster);
    close_eps(cluster);
    finish_sends(cluster);
    cancel_receives(cluster);
    cw_cluster_finish(cluster);
    check_all(cluster, 0);
    cw_cluster_free(cluster);
}

/* Connections break. */
SERIES_TEST(test_broken_connections, 300, NULL)
{
    run_fault(seed, cw_cluster_breaking(seed), 3000);
}

/* Dials fail, also while both sides dial each other. */
SERIES_TEST(test_failed_dials, 300, NULL)
{
    static const enum cw_sim_fault faults[] = {CW_SIM_DIAL_REFUSED, CW_SIM_DIAL_LOST, CW_SIM_NO_MEMORY};

    run_fault(seed, faults[seed % 3], CW_SIM_ALWAYS / 3);
}

/* One worker dies in the middle: silently, or so that its connections are reset. The others finish, or are notified. */
static void run_death(uint64_t seed)
{
    enum cw_sim_death death = (seed % 2 == 0) ? CW_SIM_KILLED : CW_SIM_SILENT;
    struct cw_sim_knobs knobs;
    struct cw_cluster *cluster;
    unsigned from, to;

    cw_sim_knobs_random(&knobs, seed);
    cluster = cw_cluster_new(seed, &knobs, UCP_ERR_HANDLING_MODE_PEER, 0);
    cluster->gaps = 1;
    talk(cluster, 60);
    cw_sim_kill(cluster->network, 0, death);
    cluster->nodes[0].dead = 1;
    talk(cluster, 40);
    for (from = 0; from < cluster->num_workers; from++) {
        if (death == CW_SIM_SILENT || from == 0) {
            /* nobody will ever report it: the program gives up */
            cw_cluster_close_ep(cluster, from, 0, UCP_EP_CLOSE_FLAG_FORCE);
        }
        for (to = 1; to < cluster->num_workers; to++) {
            if (from == 0) {
                cw_cluster_close_ep(cluster, from, to, UCP_EP_CLOSE_FLAG_FORCE);
            }
            while (from > 0 && cluster->received[from][to] < cluster->sent[from][to]) {
                cw_cluster_recv(cluster, from, to);
            }
        }
    }
    cluster->nodes[0].dead = 0; /* its own callbacks still need somebody to call them */
    finish_sends(cluster);
    close_eps(cluster);
    finish_sends(cluster);
    cancel_receives(cluster);
    cw_cluster_finish(cluster);
    check_all(cluster, 0);
    cw_cluster_free(cluster);
}

SERIES_TEST(test_death, 200, NULL)
{
    run_death(seed);
}

/* Mode FAILOVER: the cable of either of two devices is cut under way, with or without a word, and is whole again before
 * the other one is cut. Each message arrives once and in order, and no endpoint fails (N22-70, N22-71, N22-82). */
SERIES_TEST(test_cables, 4, NULL)
{
    const unsigned cuts = cw_cluster_fails_over() ? 250 : 0;
    struct cw_sim_knobs knobs;
    struct cw_cluster *cluster;
    unsigned from, to, i;

    cw_sim_knobs_random(&knobs, seed);
    cluster = cw_cluster_new(seed, &knobs, UCP_ERR_HANDLING_MODE_PEER, 0);
    cluster->cut_by_test = 1;
    for (from = 0; from < cluster->num_workers; from++) {
        for (to = 0; to < cluster->num_workers; to++) {
            cw_cluster_send(cluster, from, to);
        }
    }
    make_even(cluster);
    cw_cluster_finish(cluster);
    check_all(cluster, 1);
    for (i = 0; i < cuts; i++) {
        cw_cluster_await_lanes(cluster);
        talk(cluster, 10);
        cluster->num_cuts += cw_sim_cut_device(cluster->network, cw_cluster_device(i % 2), (int)(i / 2 + seed) % 2);
        talk(cluster, 10);
        make_even(cluster);
        cw_cluster_finish(cluster);
        check_all(cluster, 1);
        (void)cw_sim_cut_device(cluster->network, cw_cluster_device(i % 2), 0); /* idle connections learn of it */
    }
    cw_cluster_free(cluster);
}
