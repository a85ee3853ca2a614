/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an endpoint with error handling reports of a peer that is gone: by the moment (before ucp_ep_create, before the
 * first operation, while connecting, with an operation under way, later), by the way (the worker destroyed, the process
 * killed, the peer's endpoint closed) and by operation. ERR, EP-17. The peer is a process of its own.
 */
#define _GNU_SOURCE
#include "gone.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    SMALL = 8,
    LARGE = 4 << 20,
    FEATURES = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_STREAM,
    DIALLING = 200, /* rounds of progress while the peer makes none */
    ADDRESS_BYTES = 4096
};

enum moment { BEFORE, UNUSED, DIALLED, UNDER_WAY, LATER };
enum ending { DESTROYED, KILLED, CLOSED, FORCED };
enum command { PROGRESS = 'p', STOP = 's', DESTROY = 'd', CLOSE = 'c', FORCE = 'f' };

/* What a process sends the other one of its worker. */
struct card {
    size_t address_length;
    size_t key_length;
    uint64_t memory;
    unsigned char address[ADDRESS_BYTES];
    unsigned char key[ADDRESS_BYTES];
};

static int wire, reported;
static pid_t peer;
static ucs_status_t reported_status;
static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h ep;
static ucp_mem_h region;
static char *memory;

static void failed(void *arg, ucp_ep_h of, ucs_status_t status)
{
    (void)arg;
    (void)of;
    reported++;
    reported_status = status;
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
                                   .length = LARGE};
    ucp_address_t *address;
    void *key = NULL;

    memory = calloc(1, LARGE);
    params.address = memory;
    context = twin_context(FEATURES);
    worker = twin_worker(context);
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
    const ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                                 UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                                 UCP_EP_PARAM_FIELD_ERR_HANDLER,
                                   .address = (const ucp_address_t *)other->address,
                                   .err_mode = UCP_ERR_HANDLING_MODE_PEER,
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
                                       .flags = mode ? 0 : UCP_EP_CLOSE_FLAG_FORCE};

    (void)ends(ucp_ep_close_nbx(ep, &param));
}

static void play_peer(bool connects)
{
    struct card mine = {0}, other;
    bool runs = false;
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

/* Once: later the process id may be somebody else's. */
static void kill_peer(void)
{
    if (peer > 0) {
        kill(peer, SIGKILL);
        waitpid(peer, NULL, 0);
        peer = 0;
    }
}

static void die(enum ending ending)
{
    static const char commands[] = {[DESTROYED] = DESTROY, [CLOSED] = CLOSE, [FORCED] = FORCE};

    if (ending == KILLED) {
        kill_peer();
    } else {
        order(commands[ending]);
    }
}

ucs_status_ptr_t gone_post(const char *what, ucp_ep_h of, const struct gone_area *area, size_t length,
                           const ucp_request_param_t *param)
{
    ucp_rkey_h key;

    if (strcmp(what, "tag") == 0) {
        return ucp_tag_send_nbx(of, area->memory, length, GONE_TAG, param);
    }
    if (strcmp(what, "sync") == 0) {
        return ucp_tag_send_sync_nbx(of, area->memory, length, GONE_TAG, param);
    }
    if (strcmp(what, "am") == 0) {
        return ucp_am_send_nbx(of, GONE_AM_ID, NULL, 0, area->memory, length, param);
    }
    if (strcmp(what, "stream") == 0) {
        return ucp_stream_send_nbx(of, area->memory, length, param);
    }
    if (strcmp(what, "flush") == 0) {
        return ucp_ep_flush_nbx(of, param);
    }
    /* the process ends with the key; destroying it under an operation is another matter */
    twin_need(ucp_ep_rkey_unpack(of, area->key, &key) == UCS_OK, "ucp_ep_rkey_unpack");
    return strcmp(what, "put") == 0 ? ucp_put_nbx(of, area->memory, length, area->remote, key, param)
                                    : ucp_get_nbx(of, area->memory, length, area->remote, key, param);
}

static ucs_status_ptr_t post(const char *what, const struct card *other, size_t length)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    const struct gone_area area = {.memory = memory, .key = other->key, .remote = other->memory};

    return gone_post(what, ep, &area, length, &param);
}

/* Until the handler ran. An orderly close is reported to nobody. */
static void notice(struct twin_pair *alone, enum ending ending)
{
    if (ending == CLOSED) {
        twin_settle(alone);
    } else {
        (void)twin_late(&reported, alone);
    }
}

static void one(const struct twin_scenario *scenario)
{
    const enum moment moment = scenario->moment;
    const enum ending ending = scenario->ending;
    struct twin_pair alone;
    struct card mine = {0}, other = {0};
    ucs_status_ptr_t posted;
    ucs_status_t status, later, closed;
    int i;

    open_worker(&mine);
    alone = (struct twin_pair){.worker = {worker, worker}};
    move(true, &other, sizeof(other));
    move(false, &mine, sizeof(mine));
    if (moment == BEFORE) {
        die(ending);
    }
    status = connect_to(&other);
    if (status != UCS_OK) {
        twin_print("%s: create %s", scenario->name, twin_status(status));
        return;
    }
    if (moment == UNUSED) {
        die(ending);
    } else if (moment >= UNDER_WAY) {
        order(PROGRESS);
        status = twin_prepare(&alone, post("get", &other, SMALL));
        if (status != UCS_OK) {
            twin_print("%s: connecting %s", scenario->name, twin_status(status));
            return;
        }
        order(STOP);
    }
    if (moment == LATER) {
        die(ending);
        notice(&alone, ending);
    }
    posted = post(scenario->what, &other, moment == UNDER_WAY ? LARGE : SMALL);
    if (moment == DIALLED || moment == UNDER_WAY) {
        for (i = 0; i < DIALLING; i++) {
            ucp_worker_progress(worker);
        }
        die(ending);
    }
    status = ends(posted);
    notice(&alone, ending);
    later = ends(post("tag", &other, SMALL));
    closed = ends(ucp_ep_close_nb(ep, UCP_EP_CLOSE_MODE_FLUSH));
    twin_print("%s: %s, reported %s%s, then %s, close %s", scenario->name, twin_status(status),
              reported > 0 ? twin_status(reported_status) : "nothing", reported > 1 ? " twice" : "", twin_status(later),
              twin_status(closed));
}

/* In two new processes, which know nothing of those before. */
static void between_two(const struct twin_scenario *scenario)
{
    int ends_of[2];

    if (scenario->moment < UNDER_WAY) { /* nobody answers; a connection may take its time */
        setenv("UCX_CONNECT_TIMEOUT", "2s", 1);
    }
    twin_need(socketpair(AF_UNIX, SOCK_STREAM, 0, ends_of) == 0, "a socket");
    peer = fork();
    twin_need(peer >= 0, "a process");
    wire = ends_of[peer == 0];
    close(ends_of[peer != 0]);
    if (peer == 0) {
        alarm(TWIN_SCENARIO_SECONDS);
        play_peer(scenario->moment >= UNDER_WAY);
    }
    one(scenario);
    kill_peer();
}

static void add(struct twin_scenario *list, size_t *count, const char *what, enum moment moment, enum ending ending)
{
    static const char *const moments[] = {"before", "unused", "dialled", "under way", "later"},
                             *const endings[] = {"destroyed", "killed", "closed", "forced"};
    struct twin_scenario *scenario = &list[(*count)++];

    *scenario = (struct twin_scenario){.run = between_two, .what = what, .moment = (int)moment, .ending = (int)ending};
    snprintf(scenario->name, sizeof(scenario->name), "%s, %s %s", what, endings[ending], moments[moment]);
}

static void all(enum moment moment)
{
    static const char *const operations[] = {"tag", "sync", "am", "stream", "put", "get", "flush"};
    struct twin_scenario list[2 * TWIN_COUNT(operations) + 3];
    size_t count = 0, i;

    for (i = 0; i < TWIN_COUNT(operations); i++) {
        add(list, &count, operations[i], moment, DESTROYED);
        add(list, &count, operations[i], moment, KILLED);
    }
    if (moment >= UNDER_WAY) {
        add(list, &count, "tag", moment, CLOSED);
        add(list, &count, "get", moment, CLOSED);
        add(list, &count, "tag", moment, FORCED);
    }
    twin_each(list, count);
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
