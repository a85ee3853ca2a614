/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The peer's process is killed under operations of each kind, or while nothing is under way, or its cable is cut or
 * pulled: the endpoint fails once, and every request ends. The settings make the device and the checks of the library
 * far too patient for that (UCX_RC_TIMEOUT, UCX_KEEPALIVE_INTERVAL), so a program that is notified was notified by the
 * watch, or by the port (ERR-2).
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

#include "runner.h"

enum {
    LONG = 1 << 16,
    WINDOW = 8,
    WARM = 4,
    LAST = 50, /* messages of a peer that dies after them */
    HANG_S = 40,
    KILLED_S = 1, /* in which a death is reported */
    LOST_S = 2,   /* UCX_KEEPALIVE_INTERVAL of test_lost */
    FEATURES = UCP_FEATURE_TAG | UCP_FEATURE_RMA | UCP_FEATURE_AMO64 | UCP_FEATURE_STREAM
};

enum kind { IDLE, EAGER, RENDEZVOUS, STREAM, PUT, GET, FADD, FLUSH, KINDS };

struct side {
    ucp_context_h context;
    ucp_worker_h worker;
    char *memory;
    ucp_mem_h memh;
};

struct blob {
    size_t length;
    char bytes[2040];
};

struct peer {
    pid_t pid;
    int fd;
    struct blob address, key;
    uint64_t memory;
};

static struct side here;
static int failures;
static ucp_ep_h watched[KINDS];
static double reported[KINDS]; /* when the failure of watched[] was */
static char buffer[LONG];
static uint64_t result;

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- both processes ---- */

static void put(int fd, const void *data, size_t length)
{
    if (write(fd, data, length) != (ssize_t)length) {
        _exit(4);
    }
}

static int get(int fd, void *data, size_t length)
{
    return recv(fd, data, length, MSG_WAITALL) == (ssize_t)length;
}

static int side_open(struct side *side, const char *device, const char *interval)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = FEATURES};
    ucp_worker_params_t worker_params = {.field_mask = 0};
    ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                .length = LONG};
    ucp_config_t *config;
    int ok;

    map.address = side->memory = calloc(1, LONG);
    ok = side->memory != NULL && ucp_config_read(NULL, NULL, &config) == UCS_OK;
    ok = ok && ucp_config_modify(config, "NET_DEVICES", device) == UCS_OK &&
         (interval == NULL || ucp_config_modify(config, "KEEPALIVE_INTERVAL", interval) == UCS_OK);
    ok = ok && ucp_init(&params, config, &side->context) == UCS_OK;
    ok = ok && ucp_worker_create(side->context, &worker_params, &side->worker) == UCS_OK;
    return ok && ucp_mem_map(side->context, &map, &side->memh) == UCS_OK;
}

static void say_side(int fd, const struct side *side)
{
    const uint64_t memory = (uintptr_t)side->memory;
    struct blob blob;
    ucp_address_t *address;
    void *key;

    (void)ucp_worker_get_address(side->worker, &address, &blob.length);
    memcpy(blob.bytes, address, blob.length);
    put(fd, &blob, sizeof(blob));
    ucp_worker_release_address(side->worker, address);
    (void)ucp_rkey_pack(side->context, side->memh, &key, &blob.length);
    memcpy(blob.bytes, key, blob.length);
    put(fd, &blob, sizeof(blob));
    ucp_rkey_buffer_release(key);
    put(fd, &memory, sizeof(memory));
}

static void side_close(struct side *side)
{
    ucp_worker_destroy(side->worker);
    (void)ucp_mem_unmap(side->context, side->memh);
    ucp_cleanup(side->context);
    free(side->memory);
}

/* ---- the process that dies ---- */

/* Receives whatever comes, for ever. */
static void serve(struct side *side)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    ucs_status_ptr_t receives[2 * WINDOW] = {NULL};
    size_t i;

    for (;;) {
        for (i = 0; i < 2 * WINDOW; i++) {
            if (receives[i] != NULL && ucp_request_check_status(receives[i]) != UCS_INPROGRESS) {
                ucp_request_free(receives[i]);
                receives[i] = NULL;
            }
            if (receives[i] == NULL) {
                receives[i] = ucp_tag_recv_nbx(side->worker, buffer, LONG, 1, UINT64_MAX, &param);
            }
        }
        ucp_worker_progress(side->worker);
    }
}

/* Sends its last messages, and dies when the device has them. */
static void last_words(struct side *side, int fd)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucs_status_ptr_t flush;
    struct blob address;
    static int words[LAST];
    ucp_ep_h ep;
    int i;

    if (!get(fd, &address, sizeof(address))) {
        _exit(3);
    }
    params.address = (const ucp_address_t *)address.bytes;
    (void)ucp_ep_create(side->worker, &params, &ep);
    for (i = 0; i < LAST; i++) {
        words[i] = i;
        (void)ucp_tag_send_nbx(ep, &words[i], sizeof(words[i]), 2, &param);
    }
    flush = ucp_ep_flush_nbx(ep, &param);
    while (UCS_PTR_IS_PTR(flush) && ucp_request_check_status(flush) == UCS_INPROGRESS) {
        ucp_worker_progress(side->worker);
    }
    put(fd, "", 1);
    while (!get(fd, &i, 1)) {
    }
    raise(SIGKILL);
}

static void peer_begin(struct peer *peer, int speaks)
{
    struct side side;
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    peer->pid = fork();
    assert_true(peer->pid >= 0);
    if (peer->pid == 0) {
        close(fds[0]);
        if (!side_open(&side, "rxe1:1", NULL)) {
            _exit(3);
        }
        say_side(fds[1], &side);
        if (speaks) {
            last_words(&side, fds[1]);
        }
        serve(&side);
    }
    close(fds[1]);
    peer->fd = fds[0];
    assert_true(get(peer->fd, &peer->address, sizeof(peer->address)));
    assert_true(get(peer->fd, &peer->key, sizeof(peer->key)));
    assert_true(get(peer->fd, &peer->memory, sizeof(peer->memory)));
}

static void peer_kill(struct peer *peer)
{
    int status;

    (void)kill(peer->pid, SIGKILL);
    assert_int_equal(waitpid(peer->pid, &status, 0), peer->pid);
    close(peer->fd);
}

/* ---- the process that is notified ---- */

static void failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)arg;
    assert_true(status == UCS_ERR_CONNECTION_RESET || status == UCS_ERR_ENDPOINT_TIMEOUT);
    failures++;
    for (int kind = IDLE; kind < KINDS; kind++) {
        reported[kind] = (watched[kind] == ep) ? seconds() : reported[kind];
    }
}

static ucp_ep_h connect_to(const struct peer *peer)
{
    const ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLER |
                                                  UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                                    .address = (const ucp_address_t *)peer->address.bytes,
                                    .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                                    .err_handler = {.cb = failed}};
    ucp_ep_h ep;

    failures = 0;
    assert_int_equal(ucp_ep_create(here.worker, &params, &ep), UCS_OK);
    return ep;
}

/* Progresses until the request ends, which it may only do with UCS_OK unless it `may_fail`. */
static void end_request(ucs_status_ptr_t request, int may_fail)
{
    const double end = seconds() + HANG_S;
    ucs_status_t status;

    if (!UCS_PTR_IS_PTR(request)) {
        assert_true(may_fail || UCS_PTR_STATUS(request) == UCS_OK);
        return;
    }
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
        ucp_worker_progress(here.worker);
        assert_true(seconds() < end);
    }
    assert_true(may_fail || status == UCS_OK);
    ucp_request_free(request);
}

static ucs_status_ptr_t begin(enum kind kind, ucp_ep_h ep, const struct peer *peer, ucp_rkey_h key)
{
    static const uint64_t one = 1;
    ucp_request_param_t param = {.op_attr_mask = 0};

    switch (kind) {
    case EAGER:
        return ucp_tag_send_nbx(ep, buffer, 8, 1, &param);
    case RENDEZVOUS:
        return ucp_tag_send_nbx(ep, buffer, LONG, 1, &param);
    case STREAM:
        return ucp_stream_send_nbx(ep, buffer, 8, &param);
    case PUT:
        return ucp_put_nbx(ep, buffer, LONG, peer->memory, key, &param);
    case GET:
        return ucp_get_nbx(ep, buffer, LONG, peer->memory, key, &param);
    case FADD:
        param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
        param.datatype = ucp_dt_make_contig(sizeof(one));
        param.reply_buffer = &result;
        return ucp_atomic_op_nbx(ep, UCP_ATOMIC_OP_ADD, &one, 1, peer->memory, key, &param);
    default:
        return ucp_ep_flush_nbx(ep, &param);
    }
}

static void await_failure(double within_s)
{
    const double end = seconds() + within_s;

    while (failures == 0) {
        ucp_worker_progress(here.worker);
        assert_true(seconds() < end);
    }
}

static void close_ep(ucp_ep_h ep)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};

    end_request(ucp_ep_close_nbx(ep, &param), 1);
    assert_int_equal(failures, 1);
}

TEST(test_killed)
{
    ucs_status_ptr_t requests[WINDOW + 1];
    struct peer peer;
    ucp_rkey_h key;
    ucp_ep_h ep;
    int kind, i;

    assert_true(side_open(&here, "rxe0:1", NULL));
    for (kind = IDLE; kind < KINDS; kind++) {
        peer_begin(&peer, 0);
        ep = connect_to(&peer);
        assert_int_equal(ucp_ep_rkey_unpack(ep, peer.key.bytes, &key), UCS_OK);
        for (i = 0; i < WARM; i++) {
            end_request(begin(EAGER, ep, &peer, key), 0);
            end_request(begin((enum kind)kind, ep, &peer, key), 0);
        }
        end_request(begin(FLUSH, ep, &peer, key), 0);
        (void)kill(peer.pid, SIGSTOP); /* requests that need the process are under way when it ends */
        for (i = 0; kind != IDLE && i < WINDOW; i++) {
            requests[i] = begin((enum kind)kind, ep, &peer, key);
        }
        peer_kill(&peer);
        if (kind != IDLE) { /* and these are sent to nobody */
            requests[WINDOW] = begin((enum kind)kind, ep, &peer, key);
        }
        await_failure(KILLED_S);
        for (i = 0; kind != IDLE && i <= WINDOW; i++) {
            end_request(requests[i], 1);
        }
        ucp_rkey_destroy(key);
        close_ep(ep);
    }
    side_close(&here);
}

/* What arrived before the end is handed up before it, though the end was there first to be seen. */
TEST(test_last_words)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    struct blob address = {0};
    struct peer peer;
    ucp_address_t *bytes;
    double end;
    ucp_ep_h ep;
    char byte;
    int i, value;

    assert_true(side_open(&here, "rxe0:1", NULL));
    peer_begin(&peer, 1);
    assert_int_equal(ucp_worker_get_address(here.worker, &bytes, &address.length), UCS_OK);
    memcpy(address.bytes, bytes, address.length);
    ucp_worker_release_address(here.worker, bytes);
    ep = connect_to(&peer); /* the peer's dial and this one make one connection */
    put(peer.fd, &address, sizeof(address));
    end = seconds() + HANG_S;
    while (recv(peer.fd, &byte, 1, MSG_DONTWAIT) != 1) {
        ucp_worker_progress(here.worker);
        assert_true(seconds() < end);
    }
    put(peer.fd, "", 1);
    peer_kill(&peer);
    await_failure(KILLED_S);
    for (i = 0; i < LAST; i++) {
        value = -1;
        end_request(ucp_tag_recv_nbx(here.worker, &value, sizeof(value), 2, UINT64_MAX, &param), 0);
        assert_int_equal(value, i);
    }
    close_ep(ep);
    side_close(&here);
}

static void wire(const char *words)
{
    char command[512];

    snprintf(command, sizeof(command), "sh '%s' %s", getenv("CW_WIRE"), words);
    assert_int_equal(system(command), 0);
}

static int good_wire(void **state)
{
    (void)state;
    if (getenv("CW_WIRE") != NULL) {
        wire("up");
        wire("good");
    }
    return 0;
}

/* Both ends lose their carrier, with a request of each kind in flight whose answer will not come. */
static void lose_carrier(const char *before, const char *words)
{
    static const char *const names[KINDS] = {"idle", "tag", "rendezvous", "stream", "put", "get", "fadd", "flush"};
    ucs_status_ptr_t requests[KINDS] = {NULL};
    ucp_rkey_h keys[KINDS];
    struct peer peer;
    double begun, end;
    int kind;

    if (getenv("CW_WIRE") == NULL) {
        skip();
    }
    assert_true(side_open(&here, "rxe0:1", "2s"));
    peer_begin(&peer, 0);
    for (kind = IDLE; kind < KINDS; kind++) {
        watched[kind] = connect_to(&peer);
        reported[kind] = 0;
        assert_int_equal(ucp_ep_rkey_unpack(watched[kind], peer.key.bytes, &keys[kind]), UCS_OK);
        end_request(begin(EAGER, watched[kind], &peer, keys[kind]), 0);
        end_request(begin(FLUSH, watched[kind], &peer, keys[kind]), 0);
    }
    wire(before);
    for (kind = IDLE + 1; kind < KINDS; kind++) {
        requests[kind] = begin((enum kind)kind, watched[kind], &peer, keys[kind]);
    }
    wire(words);
    begun = seconds();
    for (end = begun + HANG_S; failures < KINDS && seconds() < end;) {
        ucp_worker_progress(here.worker);
    }
    for (kind = IDLE; kind < KINDS; kind++) {
        print_message("%s, %s: reported after %.2f s\n", words, names[kind], reported[kind] - begun);
    }
    for (kind = IDLE; kind < KINDS; kind++) {
        assert_true(reported[kind] > 0 && reported[kind] < begun + LOST_S);
        end_request(requests[kind], 1);
        ucp_rkey_destroy(keys[kind]);
    }
    good_wire(NULL);
    failures = 1;
    for (kind = IDLE; kind < KINDS; kind++) {
        close_ep(watched[kind]);
        watched[kind] = NULL;
    }
    peer_kill(&peer);
    side_close(&here);
}

TEST_WITH(test_no_carrier, NULL, good_wire)
{
    lose_carrier("cut", "down");
}

/* The watch does not notice, but the port does. */
TEST_WITH(test_no_carrier_beside_tcp, NULL, good_wire)
{
    lose_carrier("mute", "aside");
}

/* The machine of the peer falls silent under requests. */
TEST(test_lost)
{
    ucs_status_ptr_t request;
    struct peer peer;
    ucp_rkey_h key;
    ucp_ep_h ep;

    if (getenv("CW_WIRE") == NULL) {
        skip();
    }
    assert_true(side_open(&here, "rxe0:1", "2s"));
    peer_begin(&peer, 0);
    ep = connect_to(&peer);
    assert_int_equal(ucp_ep_rkey_unpack(ep, peer.key.bytes, &key), UCS_OK);
    end_request(begin(EAGER, ep, &peer, key), 0);
    end_request(begin(FLUSH, ep, &peer, key), 0);
    wire("cut");
    request = begin(PUT, ep, &peer, key);
    await_failure(LOST_S);
    end_request(request, 1);
    wire("good");
    ucp_rkey_destroy(key);
    close_ep(ep);
    peer_kill(&peer);
    side_close(&here);
}
