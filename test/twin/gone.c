/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an endpoint with error handling tells of a peer that is gone: by the moment (before ucp_ep_create, before the
 * first operation, while connecting, with an operation under way, later), by the way (the worker destroyed, the process
 * killed, the peer's endpoint closed) and by operation. ERR, EP-17. The peer is a process of its own.
 */
#define _GNU_SOURCE
#include "twin.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    SMALL         = 8,
    LARGE         = 4 << 20,
    FEATURES      = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_STREAM,
    DIALLING      = 200, /* rounds of progress while the peer makes none */
    ADDRESS_BYTES = 4096,
    AM_ID         = 3,
    TAG           = 7
};

enum moment { BEFORE, UNUSED, DIALLED, UNDER_WAY, LATER };
enum way { DESTROYED, KILLED, CLOSED, FORCED };
enum command { PROGRESS = 'p', STOP = 's', DESTROY = 'd', CLOSE = 'c', FORCE = 'f' };

/* What a process tells the other one of its worker. */
struct card {
    size_t address_length;
    size_t key_length;
    uint64_t memory;
    unsigned char address[ADDRESS_BYTES];
    unsigned char key[ADDRESS_BYTES];
};

static int wire, told;
static pid_t peer;
static ucs_status_t told_status;
static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h ep;
static ucp_mem_h region;
static char *memory;

static void failed(void *arg, ucp_ep_h of, ucs_status_t status)
{
    (void)arg;
    (void)of;
    told++;
    told_status = status;
}

static void move(bool in, void *bytes, size_t length)
{
    char *next = bytes;
    ssize_t done;

    while (length > 0) {
        done = in ? read(wire, next, length) : write(wire, next, length);
        if (done <= 0) {
            _exit(0);
        }
        next += done;
        length -= (size_t)done;
    }
}

static void open_worker(struct card *mine)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .length     = LARGE};
    ucp_address_t *address;
    void *key;

    memory         = calloc(1, LARGE);
    params.address = memory;
    context        = twin_context(FEATURES);
    worker         = twin_worker(context);
    twin_need(ucp_worker_get_address(worker, &address, &mine->address_length) == UCS_OK &&
                  mine->address_length <= ADDRESS_BYTES,
              "ucp_worker_get_address");
    memcpy(mine->address, address, mine->address_length);
    ucp_worker_release_address(worker, address);
    twin_need(ucp_mem_map(context, &params, &region) == UCS_OK &&
                  ucp_rkey_pack(context, region, &key, &mine->key_length) == UCS_OK &&
                  mine->key_length <= ADDRESS_BYTES,
              "a key");
    memcpy(mine->key, key, mine->key_length);
    ucp_rkey_buffer_release(key);
    mine->memory = (uintptr_t)memory;
}

static ucs_status_t connect_to(const struct card *other)
{
    const ucp_ep_params_t params = {.field_mask  = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                                  UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                                  UCP_EP_PARAM_FIELD_ERR_HANDLER,
                                    .address     = (const ucp_address_t *)other->address,
                                    .err_mode    = UCP_ERR_HANDLING_MODE_PEER,
                                    .err_handler = {.cb = failed}};

    return ucp_ep_create(worker, &params, &ep);
}

/* Progress until the request is over; INPROGRESS if it is not within TWIN_SECONDS. */
static ucs_status_t ends(ucs_status_ptr_t request)
{
    struct twin_pair alone = {.worker = {worker, worker}};

    return twin_wait(&alone, request);
}

static void close_ep(unsigned mode)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags        = mode ? 0 : UCP_EP_CLOSE_FLAG_FORCE};

    (void)ends(ucp_ep_close_nbx(ep, &param));
}

static void play_peer(bool connects)
{
    struct card mine = {0}, other;
    bool runs        = false;
    char command;
    ssize_t got;

    open_worker(&mine);
    move(false, &mine, sizeof(mine));
    move(true, &other, sizeof(other));
    if (connects) {
        twin_need(connect_to(&other) == UCS_OK, "the peer's endpoint");
    }
    for (;;) {
        if (runs) {
            ucp_worker_progress(worker);
        }
        got = recv(wire, &command, 1, runs ? MSG_DONTWAIT : 0);
        if (got == 0) {
            _exit(0);
        }
        if (got < 0) {
            usleep(100);
            continue;
        }
        if (command == CLOSE || command == FORCE) {
            close_ep(command == CLOSE);
        } else if (command == DESTROY) {
            (void)ucp_mem_unmap(context, region);
            ucp_worker_destroy(worker);
            ucp_cleanup(context);
        }
        runs = (command == PROGRESS || command == CLOSE || command == FORCE);
        move(false, &command, 1);
    }
}

static void order(char command)
{
    move(false, &command, 1);
    move(true, &command, 1);
}

static void die(enum way way)
{
    static const char commands[] = {[DESTROYED] = DESTROY, [CLOSED] = CLOSE, [FORCED] = FORCE};

    if (way == KILLED) {
        kill(peer, SIGKILL);
        waitpid(peer, NULL, 0);
    } else {
        order(commands[way]);
    }
}

static ucs_status_ptr_t post(const char *what, const struct card *other, size_t length)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    ucp_rkey_h key;
    ucs_status_ptr_t result;

    if (strcmp(what, "tag") == 0) {
        return ucp_tag_send_nbx(ep, memory, length, TAG, &param);
    }
    if (strcmp(what, "sync") == 0) {
        return ucp_tag_send_sync_nbx(ep, memory, length, TAG, &param);
    }
    if (strcmp(what, "am") == 0) {
        return ucp_am_send_nbx(ep, AM_ID, NULL, 0, memory, length, &param);
    }
    if (strcmp(what, "stream") == 0) {
        return ucp_stream_send_nbx(ep, memory, length, &param);
    }
    if (strcmp(what, "flush") == 0) {
        return ucp_ep_flush_nbx(ep, &param);
    }
    twin_need(ucp_ep_rkey_unpack(ep, other->key, &key) == UCS_OK, "ucp_ep_rkey_unpack");
    result = strcmp(what, "put") == 0 ? ucp_put_nbx(ep, memory, length, other->memory, key, &param)
                                      : ucp_get_nbx(ep, memory, length, other->memory, key, &param);
    /* the process ends with the key; destroying it under an operation is another matter */
    return result;
}

/* Until the handler ran. An orderly close is told to nobody. */
static void notice(struct twin_pair *alone, enum way way)
{
    if (way == CLOSED) {
        twin_settle(alone);
    } else {
        (void)twin_late(&told, alone);
    }
}

static void one(const char *what, enum moment moment, enum way way)
{
    static const char *const moments[] = {"before", "unused", "dialled", "under way", "later"},
                             *const ways[] = {"destroyed", "killed", "closed", "forced"};
    struct twin_pair alone;
    struct card mine = {0}, other = {0};
    ucs_status_ptr_t posted;
    ucs_status_t status;
    int i;

    open_worker(&mine);
    alone = (struct twin_pair){.worker = {worker, worker}};
    move(true, &other, sizeof(other));
    move(false, &mine, sizeof(mine));
    if (moment == BEFORE) {
        die(way);
    }
    status = connect_to(&other);
    if (status != UCS_OK) {
        twin_tell("%s, %s %s: create %s", what, ways[way], moments[moment], twin_status(status));
        return;
    }
    if (moment == UNUSED) {
        die(way);
    } else if (moment >= UNDER_WAY) {
        order(PROGRESS);
        twin_need(ends(post("get", &other, SMALL)) == UCS_OK, "connecting");
        order(STOP);
    }
    if (moment == LATER) {
        die(way);
        notice(&alone, way);
    }
    posted = post(what, &other, moment == UNDER_WAY ? LARGE : SMALL);
    if (moment == DIALLED || moment == UNDER_WAY) {
        for (i = 0; i < DIALLING; i++) {
            ucp_worker_progress(worker);
        }
        die(way);
    }
    status = ends(posted);
    notice(&alone, way);
    twin_tell("%s, %s %s: %s, told %s%s, then %s, close %s", what, ways[way], moments[moment], twin_status(status),
              told > 0 ? twin_status(told_status) : "nothing", told > 1 ? " twice" : "",
              twin_status(ends(post("tag", &other, SMALL))), twin_status(ends(ucp_ep_close_nb(ep, 1))));
}

/* Each in two new processes, which know nothing of those before. */
static void each(const char *what, enum moment moment, enum way way)
{
    int ends_of[2], status;
    pid_t origin = fork();

    if (origin != 0) {
        waitpid(origin, &status, 0);
        if (WIFSIGNALED(status)) {
            twin_tell("%s, moment %d, way %d: died of signal %d", what, moment, way, WTERMSIG(status));
        }
        return;
    }
    alarm(60);
    twin_need(socketpair(AF_UNIX, SOCK_STREAM, 0, ends_of) == 0, "a socket");
    peer = fork();
    wire = ends_of[peer == 0];
    close(ends_of[peer != 0]);
    if (peer == 0) {
        play_peer(moment >= UNDER_WAY);
    }
    one(what, moment, way);
    kill(peer, SIGKILL);
    _exit(0);
}

static void all(enum moment moment)
{
    static const char *const operations[] = {"tag", "sync", "am", "stream", "put", "get", "flush"};
    size_t i;

    for (i = 0; i < TWIN_COUNT(operations); i++) {
        each(operations[i], moment, DESTROYED);
        each(operations[i], moment, KILLED);
    }
    if (moment >= UNDER_WAY) {
        each("tag", moment, CLOSED);
        each("get", moment, CLOSED);
        each("tag", moment, FORCED);
    }
}

static void before(void)
{
    all(BEFORE);
}

static void unused(void)
{
    all(UNUSED);
}

static void dialled(void)
{
    all(DIALLED);
}

static void under_way(void)
{
    all(UNDER_WAY);
}

static void later(void)
{
    all(LATER);
}

const struct twin_case twin_gone_cases[] = {{"gone.before", before},   {"gone.unused", unused},
                                            {"gone.dialled", dialled}, {"gone.under_way", under_way},
                                            {"gone.later", later},     {NULL, NULL}};
