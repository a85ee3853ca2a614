/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CLS-19, the pattern of MPI_Finalize: several processes, all connected to all, close everything in different orders,
 * each progressing its own worker only and none at all once its own closes are done; then a barrier out of band. The
 * test program is the coordinator: it ships addresses and is the barrier.
 */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MEMBERS = 6 };

struct member {
    struct cw_side side;
    ucp_ep_h eps[MEMBERS];
    int index;
    int fd;
    uint64_t random;
    bool half_leave;
};

/* Outside a test only fail_msg is heard. Of a member that may have left already any status is right (ERR-1). */
static void member_expect_ok(const struct member *member, int peer, ucs_status_t status, const char *what)
{
    if (status != UCS_OK && !(member->half_leave && peer % 2 == 1)) {
        fail_msg("Member %d: %s of member %d: %s", member->index, what, peer, ucs_status_string(status));
    }
}

static void member_connect(struct member *member)
{
    size_t length;
    void *blob = cw_test_worker_address(member->side.worker, &length);
    uint64_t wire = length;

    cw_fd_write(member->fd, &wire, sizeof(wire));
    cw_fd_write(member->fd, blob, length);
    free(blob);
    for (int i = 0; i < MEMBERS; i++) {
        ucp_ep_params_t params;

        cw_fd_read(member->fd, &wire, sizeof(wire), NULL);
        blob = malloc(wire);
        assert_non_null(blob);
        cw_fd_read(member->fd, blob, wire, NULL);
        memset(&params, 0xff, sizeof(params));
        params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        params.address = blob;
        if (i != member->index) {
            member_expect_ok(member, i, ucp_ep_create(member->side.worker, &params, &member->eps[i]), "creation");
        }
        free(blob);
    }
}

static void member_send_all(struct member *member, size_t length, ucp_tag_t kind)
{
    ucp_request_param_t param = cw_param_none();
    ucs_status_ptr_t sends[MEMBERS] = {0};
    char *out = malloc(length);

    assert_non_null(out);
    cw_pattern_fill(out, length, (uint64_t)member->index + kind);
    for (int i = 0; i < MEMBERS; i++) {
        if (i != member->index) {
            sends[i] = ucp_tag_send_nbx(member->eps[i], out, length, kind << 8 | (ucp_tag_t)member->index, &param);
        }
    }
    for (int i = 0; i < MEMBERS; i++) {
        member_expect_ok(member, i, cw_worker_wait_request(member->side.worker, sends[i], "send to a member"), "send");
    }
    free(out);
}

static void member_recv_all(struct member *member, size_t length, ucp_tag_t kind)
{
    ucp_request_param_t param = cw_param_none();
    char *in = malloc(length);

    assert_non_null(in);
    for (int i = 0; i < MEMBERS; i++) {
        ucs_status_ptr_t recv;

        if (i == member->index) {
            continue;
        }
        recv = ucp_tag_recv_nbx(member->side.worker, in, length, kind << 8 | (ucp_tag_t)i, CW_TAG_ALL, &param);
        if (cw_worker_wait_request(member->side.worker, recv, "receive from a member") != UCS_OK) {
            fail_msg("Member %d: a receive failed", member->index);
        }
        cw_pattern_check(in, length, (uint64_t)i + kind);
    }
    free(in);
}

static void member_close_all(struct member *member, bool free_at_once)
{
    ucp_request_param_t param = cw_param_none();
    int order[MEMBERS];

    for (int i = 0; i < MEMBERS; i++) {
        int other = (int)(cw_random_next(&member->random) % (uint64_t)(i + 1));

        order[i] = order[other];
        order[other] = i;
    }
    for (int i = 0; i < MEMBERS; i++) {
        ucs_status_ptr_t closing;

        if (order[i] == member->index) {
            continue;
        }
        closing = ucp_ep_close_nbx(member->eps[order[i]], &param);
        if (free_at_once && UCS_PTR_IS_PTR(closing)) {
            ucp_request_free(closing);
        } else {
            ucs_status_t status = cw_worker_wait_request(member->side.worker, closing, "one close after the other");

            member_expect_ok(member, order[i], status, "close");
        }
    }
}

/*
 * kind 'i': each close is waited for; 'f': requests are freed at once; 'l': messages are sent just before the closes
 * and received only after the barrier, when all senders have closed (and 'x': their processes may be gone).
 */
static int role_member(int fd, const char *argument)
{
    struct member member = {.fd = fd};
    char kind = 'i';
    unsigned seed = 0;

    if (sscanf(argument, "%d %u %c", &member.index, &seed, &kind) != 3) {
        return 2;
    }
    member.half_leave = kind == 'x';
    member.random = seed * 1000u + (unsigned)member.index;
    cw_side_open(&member.side, NULL);
    member_connect(&member);
    member_send_all(&member, 8, 1);
    member_recv_all(&member, 8, 1);
    if (member.index % 2 == 0) { /* left unmatched in the queues of half of them */
        member_send_all(&member, 64, 2);
    }
    for (int i = 0; i < 50; i++) {
        ucp_worker_progress(member.side.worker);
    }
    cw_fd_barrier(fd, member.side.worker); /* everybody is connected with everybody */
    if (kind == 'l' || kind == 'x') {
        member_send_all(&member, 64, 3);
    }
    member_close_all(&member, kind == 'f');
    if (kind == 'x' && member.index % 2 == 1) {
        cw_side_destroy(&member.side);
        cw_fd_barrier(fd, NULL);
        return 0;
    }
    cw_fd_barrier(fd, NULL); /* no progress while waiting: the process is elsewhere */
    if (kind == 'l' || kind == 'x') {
        member_recv_all(&member, 64, 3);
    }
    cw_side_destroy(&member.side);
    return 0;
}

static void barrier_for(struct cw_remote *remotes)
{
    char byte;

    for (int i = 0; i < MEMBERS; i++) {
        cw_fd_read(remotes[i].fd, &byte, 1, NULL);
    }
    for (int i = 0; i < MEMBERS; i++) {
        cw_fd_write(remotes[i].fd, &byte, 1);
    }
}

static void one_round(unsigned seed, char kind)
{
    struct cw_remote remotes[MEMBERS];
    uint64_t lengths[MEMBERS];
    char *blobs[MEMBERS], text[32];

    for (int i = 0; i < MEMBERS; i++) {
        snprintf(text, sizeof(text), "%d %u %c", i, seed, kind);
        cw_remote_start(&remotes[i], "member", text);
    }
    for (int i = 0; i < MEMBERS; i++) {
        cw_fd_read(remotes[i].fd, &lengths[i], sizeof(lengths[i]), NULL);
        assert_true(lengths[i] <= 4096); /* ADR-5 */
        blobs[i] = malloc(lengths[i]);
        assert_non_null(blobs[i]);
        cw_fd_read(remotes[i].fd, blobs[i], lengths[i], NULL);
    }
    for (int to = 0; to < MEMBERS; to++) {
        for (int i = 0; i < MEMBERS; i++) {
            cw_fd_write(remotes[to].fd, &lengths[i], sizeof(lengths[i]));
            cw_fd_write(remotes[to].fd, blobs[i], lengths[i]);
        }
    }
    barrier_for(remotes);
    barrier_for(remotes);
    for (int i = 0; i < MEMBERS; i++) {
        cw_remote_join(&remotes[i]);
        free(blobs[i]);
    }
}

static void rounds(char kind)
{
    cw_test_need_two_processes();
    if (cw_test_tls_has("tcp")) {
        cw_test_skip_reference("its close over tcp waits for the peer's progress");
    }
    for (unsigned seed = 0; seed < 5; seed++) {
        one_round(seed, kind);
    }
}

API_TEST(test_cls19_closes_waited_for)
{
    rounds('i');
}

API_TEST(test_cls19_close_requests_freed)
{
    rounds('f');
}

API_TEST(test_cls5_cls19_received_after_all_closed)
{
    rounds('l');
}

API_TEST(test_cls5_cls19_received_after_half_are_gone)
{
    rounds('x');
}

int main(int argc, char **argv)
{
    const struct cw_role roles[] = {{"member", role_member}};

    return cw_test_main(argc, argv, roles, 1);
}
