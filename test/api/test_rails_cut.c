/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The further sockets of a TCP connection (UCX_MAX_RNDV_RAILS) are cut, one after the other, while long messages, gets
 * and puts are under way in both directions: no operation fails, and all bytes are right (ERR-2).
 */
#define _GNU_SOURCE
#include "test_rma_common.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { MESSAGES = 6, LENGTH = 2 << 20, ROUNDS = 6, MAX_FD = 256 };

struct flight {
    struct cw_op sends[2 * MESSAGES], recvs[2 * MESSAGES], gets[MESSAGES], puts[MESSAGES];
    char *out, *in[2 * MESSAGES], *got[MESSAGES];
};

static bool is_connected(int fd)
{
    struct sockaddr_storage name = {0};
    socklen_t length = sizeof(name);

    return getpeername(fd, (struct sockaddr *)&name, &length) == 0 &&
           (name.ss_family == AF_INET || name.ss_family == AF_INET6);
}

/* The connected sockets of this process. */
static int note_sockets(bool *there)
{
    int count = 0;

    for (int fd = 0; fd < MAX_FD; fd++) {
        there[fd] = is_connected(fd);
        count += there[fd];
    }
    return count;
}

/* One that was not there before; both ends of each are in this process. */
static bool cut_one(const bool *before, uint64_t *random)
{
    int fds[MAX_FD], count = 0;

    for (int fd = 0; fd < MAX_FD; fd++) {
        if (!before[fd] && is_connected(fd)) {
            fds[count++] = fd;
        }
    }
    return count > 0 && shutdown(fds[cw_random_next(random) % (unsigned)count], SHUT_RDWR) == 0;
}

static void start(struct cw_pair *pair, struct cw_target *target, struct flight *flight)
{
    memset(flight, 0, offsetof(struct flight, out));
    for (int i = 0; i < 2 * MESSAGES; i++) {
        struct cw_side *to = (i & 1) ? pair->rx : pair->tx, *from = (i & 1) ? pair->tx : pair->rx;

        cw_op_recv(&flight->recvs[i], to->worker, flight->in[i], LENGTH, (ucp_tag_t)i, UINT64_MAX);
        cw_op_send(&flight->sends[i], from->ep, flight->out, LENGTH, (ucp_tag_t)i);
    }
    for (int i = 0; i < MESSAGES; i++) {
        ucp_request_param_t param = cw_param_send(&flight->gets[i]);

        cw_op_started(&flight->gets[i],
                      ucp_get_nbx(target->ep, flight->got[i], LENGTH, target->address, target->key, &param));
        param = cw_param_send(&flight->puts[i]);
        cw_op_started(&flight->puts[i], ucp_put_nbx(target->ep, flight->out, LENGTH,
                                                    target->address + LENGTH * (uint64_t)(1 + i), target->key, &param));
    }
}

static void finish(struct cw_pair *pair, struct cw_target *target, struct flight *flight)
{
    for (int i = 0; i < 2 * MESSAGES; i++) {
        assert_int_equal(cw_op_wait(pair, &flight->sends[i], "send"), UCS_OK);
        assert_int_equal(cw_op_wait(pair, &flight->recvs[i], "receive"), UCS_OK);
        cw_pattern_check(flight->in[i], LENGTH, 1);
    }
    for (int i = 0; i < MESSAGES; i++) {
        assert_int_equal(cw_op_wait(pair, &flight->gets[i], "get"), UCS_OK);
        assert_int_equal(cw_op_wait(pair, &flight->puts[i], "put"), UCS_OK);
        cw_pattern_check(flight->got[i], LENGTH, 2);
    }
    assert_int_equal(cw_target_flush(target), UCS_OK);
    for (int i = 0; i < MESSAGES; i++) {
        cw_target_check(target, LENGTH * (size_t)(1 + i), LENGTH, 1);
    }
}

/* EP-32, N22-117: all lanes are reported, into arrays that are longer than any endpoint has lanes, or shorter. */
API_TEST(test_ep32_n22_117_lanes)
{
    struct cw_pair_config config = {.features = CW_RMA_FEATURES, .peer_mode = true};
    ucp_transport_entry_t entries[64 + 1];
    ucp_ep_attr_t attr = {.field_mask = UCP_EP_ATTR_FIELD_TRANSPORTS};
    char *out = calloc(1, LENGTH), *in = calloc(1, LENGTH);
    unsigned lanes = 0;

    cw_pair_open(pair, &config);
    for (int i = 0; i < 100 && lanes < 2; i++) { /* long messages open further lanes */
        struct cw_op send = {0}, receive = {0};

        cw_op_recv(&receive, pair->rx->worker, in, LENGTH, 1, UINT64_MAX);
        cw_op_send(&send, pair->tx->ep, out, LENGTH, 1);
        assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
        assert_int_equal(cw_op_wait(pair, &receive, "receive"), UCS_OK);
        attr.transports = (ucp_transports_t){.entries = entries, .num_entries = 64, .entry_size = sizeof(entries[0])};
        assert_int_equal(ucp_ep_query(pair->tx->ep, &attr), UCS_OK);
        lanes = attr.transports.num_entries;
    }
    assert_in_range(lanes, 2, 64);
    for (unsigned i = 0; i < lanes; i++) {
        assert_string_equal(entries[i].transport_name, "tcp");
        assert_true(strlen(entries[i].device_name) > 0);
    }
    memset(entries, 0x5c, sizeof(entries));
    attr.transports.num_entries = lanes - 1;
    assert_int_equal(ucp_ep_query(pair->tx->ep, &attr), UCS_OK);
    assert_int_equal(attr.transports.num_entries, lanes - 1);
    assert_memory_equal(&entries[lanes - 1], &entries[64], sizeof(entries[0]));
    cw_pair_close(pair);
    free(out);
    free(in);
}

API_TEST(test_err2_further_sockets_cut)
{
    struct cw_pair_config config = {.features = CW_RMA_FEATURES, .peer_mode = true};
    struct flight *flight = calloc(1, sizeof(*flight));
    uint64_t random = 5;
    int cuts = 0;

    flight->out = malloc(LENGTH);
    cw_pattern_fill(flight->out, LENGTH, 1);
    for (int i = 0; i < 2 * MESSAGES; i++) {
        flight->in[i] = malloc(LENGTH);
        flight->got[i / 2] = (i & 1) ? flight->got[i / 2] : malloc(LENGTH);
    }
    for (int round = 0; round < ROUNDS; round++) {
        bool before[MAX_FD];
        struct cw_target target;

        cw_pair_open(pair, &config);
        cw_target_open(&target, pair, NULL, CW_MEMORY_HEAP, (size_t)LENGTH * (1 + MESSAGES));
        cw_target_fill(&target, 0, LENGTH, 2);
        cw_target_try(&target, LENGTH); /* connected */
        assert_true(note_sockets(before) > 0);
        start(pair, &target, flight);
        for (int i = 0; i < 400; i++) {
            cw_pair_progress(pair);
            if (cw_random_next(&random) % 40 == 0) {
                cuts += cut_one(before, &random);
            }
        }
        finish(pair, &target, flight);
        cw_target_close(&target);
        cw_pair_close(pair);
    }
    printf("%d sockets were cut\n", cuts);
    assert_true(cuts > 0);
    for (int i = 0; i < 2 * MESSAGES; i++) {
        free(flight->in[i]);
        free((i & 1) ? NULL : flight->got[i / 2]);
    }
    free(flight->out);
    free(flight);
}

int main(int argc, char **argv)
{
    static const struct cw_role roles[] = {CW_SERVANT_ROLE};

    return cw_test_main(argc, argv, roles, 1);
}
