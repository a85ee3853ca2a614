/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of an actor: opening, meeting peers, progress, the end. Its operations are in actor_ops.c.
 */
#define _GNU_SOURCE
#include "actor.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void open_regions(struct actor *actor)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                                 UCP_MEM_MAP_PARAM_FIELD_FLAGS,
                                   .length = ACTOR_REGION, .flags = UCP_MEM_MAP_ALLOCATE};
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};

    cw_check(ucp_mem_map(actor->context, &params, &actor->regions[0]) == UCS_OK);
    cw_check(ucp_mem_query(actor->regions[0], &attr) == UCS_OK);
    actor->region_addresses[0] = (uintptr_t)attr.address;
    actor->heap = calloc(1, ACTOR_REGION);
    cw_check(actor->heap != NULL);
    params.address = actor->heap;
    params.flags = 0;
    cw_check(ucp_mem_map(actor->context, &params, &actor->regions[1]) == UCS_OK);
    actor->region_addresses[1] = (uintptr_t)actor->heap;
}

void actor_open(struct actor *actor, uint64_t seed, bool sleeps)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                           .features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_STREAM | UCP_FEATURE_RMA |
                                       UCP_FEATURE_AMO64 | (sleeps ? UCP_FEATURE_WAKEUP : 0)};
    ucp_worker_params_t worker_params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                         .thread_mode = UCS_THREAD_MODE_SINGLE};

    memset(actor, 0, sizeof(*actor));
    actor->random = seed;
    actor->sleeps = sleeps;
    actor->kinds = UINT_MAX;
    cw_check(ucp_init(&params, NULL, &actor->context) == UCS_OK);
    cw_check(ucp_worker_create(actor->context, &worker_params, &actor->worker) == UCS_OK);
    if (sleeps) {
        cw_check(ucp_worker_get_efd(actor->worker, &actor->efd) == UCS_OK);
    }
    open_regions(actor);
    actor_ops_open(actor);
    for (int i = 0; i < ACTOR_PEERS; i++) {
        actor->peers[i].actor = actor;
    }
}

void actor_close(struct actor *actor)
{
    actor->closing = true;
    ucp_worker_destroy(actor->worker);
    actor_collect(actor);
    for (int i = 0; i < 2; i++) {
        cw_check(ucp_mem_unmap(actor->context, actor->regions[i]) == UCS_OK);
    }
    free(actor->heap);
    ucp_cleanup(actor->context);
}

struct handshake {
    uint64_t address_length;
    uint64_t key_lengths[2];
    uint64_t addresses[2];
};

static bool send_handshake(struct actor *actor, int fd)
{
    struct handshake handshake = {.addresses = {actor->region_addresses[0], actor->region_addresses[1]}};
    ucp_address_t *address;
    void *keys[2];
    size_t length;
    bool good;

    cw_check(ucp_worker_get_address(actor->worker, &address, &length) == UCS_OK);
    handshake.address_length = length;
    for (int i = 0; i < 2; i++) {
        cw_check(ucp_rkey_pack(actor->context, actor->regions[i], &keys[i], &length) == UCS_OK);
        handshake.key_lengths[i] = length;
    }
    good = cw_fd_write(fd, &handshake, sizeof(handshake)) && cw_fd_write(fd, address, handshake.address_length) &&
           cw_fd_write(fd, keys[0], handshake.key_lengths[0]) && cw_fd_write(fd, keys[1], handshake.key_lengths[1]);
    ucp_worker_release_address(actor->worker, address);
    ucp_rkey_buffer_release(keys[0]);
    ucp_rkey_buffer_release(keys[1]);
    return good;
}

static void failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct actor_peer *peer = arg;

    cw_check(!peer->actor->closing);
    cw_check(ep == peer->ep && peer->live); /* ERR-4: not after close */
    cw_check(status != UCS_OK && status != UCS_INPROGRESS);
    if (++peer->failures > 1) {
        cw_fail("the error handler was called again: %s", ucs_status_string(status));
    }
    peer->failure = status;
    peer->failed_at = cw_now_s();
}

bool actor_connect(struct actor *actor, struct actor_peer *peer, uint32_t id, int fd, pid_t doomed)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLER |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER, .err_handler = {failed, peer}};
    struct handshake handshake;
    char bytes[4096], keys[2][256];

    peer->id = id;
    if (!send_handshake(actor, fd) || !cw_fd_read(fd, &handshake, sizeof(handshake), actor->worker)) {
        return false;
    }
    cw_check(handshake.address_length <= sizeof(bytes));
    if (!cw_fd_read(fd, bytes, handshake.address_length, actor->worker)) {
        return false;
    }
    for (int i = 0; i < 2; i++) {
        cw_check(handshake.key_lengths[i] <= sizeof(keys[i]));
        if (!cw_fd_read(fd, keys[i], handshake.key_lengths[i], actor->worker)) {
            return false;
        }
        peer->addresses[i] = handshake.addresses[i];
    }
    if (doomed != 0) {
        kill(doomed, SIGKILL);
    }
    params.address = (const ucp_address_t *)bytes;
    cw_check(ucp_ep_create(actor->worker, &params, &peer->ep) == UCS_OK);
    peer->live = true;
    for (int i = 0; i < 2; i++) {
        cw_check(ucp_ep_rkey_unpack(peer->ep, keys[i], &peer->keys[i]) == UCS_OK);
    }
    return true;
}

bool actor_step(struct actor *actor, int sleep_ms)
{
    ucs_status_t status;

    if (ucp_worker_progress(actor->worker) > 0 || !actor->sleeps || sleep_ms == 0) {
        return false;
    }
    status = ucp_worker_arm(actor->worker);
    cw_check(status == UCS_OK || status == UCS_ERR_BUSY);
    return status == UCS_OK && poll(&(struct pollfd){.fd = actor->efd, .events = POLLIN}, 1, sleep_ms) == 0;
}

static void handshake_wait(struct actor *actor, ucs_status_ptr_t request)
{
    double end = cw_now_s() + CW_BOUND_S;
    ucs_status_t status = UCS_PTR_RAW_STATUS(request);

    if (UCS_PTR_IS_PTR(request)) {
        while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
            cw_check(cw_now_s() < end);
            actor_step(actor, 1000);
        }
        ucp_request_free(request);
    }
    if (status != UCS_OK) {
        cw_fail("a message of the handshake: %s", ucs_status_string(status));
    }
}

void actor_handshake(struct actor *actor, struct actor_peer *peer, bool first)
{
    static const size_t lengths[] = {8, 3000, 200000};
    ucp_request_param_t param = {.op_attr_mask = 0};
    uint64_t tag = (uint64_t)peer->id << 48 | UINT64_C(0xff) << 40;
    const char *pattern = actor_pattern();
    char *in = malloc(lengths[2]);

    cw_check(in != NULL);
    for (int i = 0; i < 3; i++) {
        for (int turn = 0; turn < 2; turn++) {
            if ((turn == 0) == first) {
                handshake_wait(actor, ucp_tag_send_nbx(peer->ep, pattern + i, lengths[i], tag, &param));
            } else {
                memset(in, 0, lengths[i]);
                handshake_wait(actor, ucp_tag_recv_nbx(actor->worker, in, lengths[i], tag, UINT64_MAX, &param));
                cw_check(memcmp(in, pattern + i, lengths[i]) == 0);
            }
        }
    }
    free(in);
}

void actor_act(struct actor *actor)
{
    size_t count = cw_random_below(&actor->random, 4);

    for (size_t i = 0; i < count; i++) {
        struct actor_peer *peer = &actor->peers[cw_random_below(&actor->random, ACTOR_PEERS)];
        enum actor_kind kind = (enum actor_kind)cw_random_below(&actor->random, ACTOR_KINDS);

        if (peer->ep != NULL && (actor->kinds & 1u << kind)) {
            (void)actor_start(actor, peer, kind);
        }
    }
}

ucs_status_t actor_close_ep(struct actor *actor, struct actor_peer *peer, bool force, ucs_status_ptr_t *closing)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags = force ? UCP_EP_CLOSE_FLAG_FORCE : 0};
    ucp_ep_h ep = peer->ep;
    ucs_status_ptr_t request;

    (void)actor;
    peer->ep = peer->reply_ep = NULL; /* no more failure is expected */
    request = ucp_ep_close_nbx(ep, &param);
    if (closing != NULL) {
        *closing = UCS_PTR_IS_PTR(request) ? request : NULL;
    } else if (UCS_PTR_IS_PTR(request)) {
        ucp_request_free(request);
    }
    return UCS_PTR_RAW_STATUS(request);
}

void actor_forget(struct actor *actor, struct actor_peer *peer)
{
    cw_check(peer->ep == NULL);
    actor_drain(actor, peer);
    for (int i = 0; i < 2; i++) {
        if (peer->keys[i] != NULL) {
            ucp_rkey_destroy(peer->keys[i]);
        }
    }
    for (int i = 0; i < ACTOR_OPS; i++) {
        cw_check(peer->ops[i].state == ACTOR_FREE);
        peer->ops[i].length = 0;
    }
    peer->keys[0] = peer->keys[1] = NULL;
    peer->failures = 0;
    peer->failure = UCS_OK;
    peer->sent = peer->got = 0;
    peer->live = false;
    peer->id = 0;
}
