/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an endpoint with error handling reports when both ends are in one process: to the own worker, where operations
 * are under way while the endpoint is closed or the worker destroyed; and to a second worker, which goes away. ERR,
 * EP-17.
 */
#define _GNU_SOURCE
#include "gone.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SMALL = 8,
    LARGE = 4 << 20,
    FEATURES = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_STREAM,
    ROUNDS = 200 /* of progress until nothing more happens */
};

enum ending { FORCED, CLOSED, DESTROYED };
enum moment { BEFORE, UNDER_WAY, LATER };

/* A worker with an endpoint; the first one's memory is that of both. */
struct side {
    ucp_worker_h worker;
    ucp_ep_h ep;
};

static ucp_context_h context;
static struct side sides[2];
static struct gone_area area;
static int reported, calls;
static ucs_status_t reported_status, called_status;

static void failed(void *arg, ucp_ep_h of, ucs_status_t status)
{
    (void)arg;
    (void)of;
    reported++;
    reported_status = status;
}

static void called(ucs_status_t status)
{
    calls++;
    called_status = status;
}

static void sent(void *request, ucs_status_t status, void *user_data)
{
    (void)request;
    (void)user_data;
    called(status);
}

static void received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    (void)request;
    (void)info;
    (void)user_data;
    called(status);
}

static void streamed(void *request, ucs_status_t status, size_t length, void *user_data)
{
    (void)request;
    (void)length;
    (void)user_data;
    called(status);
}

/* Keeps the data for later. */
static ucs_status_t arrived(void *arg, const void *header, size_t header_length, void *data, size_t length,
                            const ucp_am_recv_param_t *param)
{
    (void)arg;
    (void)header;
    (void)header_length;
    (void)data;
    (void)length;
    return (param->recv_attr & (UCP_AM_RECV_ATTR_FLAG_DATA | UCP_AM_RECV_ATTR_FLAG_RNDV)) ? UCS_INPROGRESS : UCS_OK;
}

static void open_side(struct side *side)
{
    const ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                          UCP_AM_HANDLER_PARAM_FIELD_CB,
                                            .id = GONE_AM_ID,
                                            .cb = arrived};

    side->worker = twin_worker(context);
    twin_need(ucp_worker_set_am_recv_handler(side->worker, &handler) == UCS_OK, "a handler");
}

static void open_area(void)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .length = LARGE};
    ucp_mem_h region;
    size_t length;
    void *key = NULL;

    area.memory = calloc(2, LARGE);
    params.address = (char *)area.memory + LARGE;
    twin_need(area.memory != NULL && ucp_mem_map(context, &params, &region) == UCS_OK &&
                  ucp_rkey_pack(context, region, &key, &length) == UCS_OK,
              "a key");
    area.key = key;
    area.remote = (uintptr_t)params.address;
}

static ucs_status_t connect_to(struct side *side, const ucp_address_t *address)
{
    const ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                                 UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                                 UCP_EP_PARAM_FIELD_ERR_HANDLER,
                                   .address = address,
                                   .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                                   .err_handler = {.cb = failed}};

    return ucp_ep_create(side->worker, &params, &side->ep);
}

static ucp_address_t *address_of(const struct side *side)
{
    ucp_address_t *address;
    size_t length;

    twin_need(ucp_worker_get_address(side->worker, &address, &length) == UCS_OK, "ucp_worker_get_address");
    return address;
}

static ucs_status_t ends(ucs_status_ptr_t request, const struct side *also)
{
    struct twin_pair pair = {.worker = {sides[0].worker, also->worker}};

    return twin_wait(&pair, request);
}

static void prepare(ucs_status_ptr_t request, const struct side *also)
{
    struct twin_pair pair = {.worker = {sides[0].worker, also->worker}};

    twin_need(twin_prepare(&pair, request) == UCS_OK, "connecting");
}

static ucs_status_t close_ep(const struct side *side, bool forced)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = forced ? UCP_EP_CLOSE_FLAG_FORCE : 0};

    return ends(ucp_ep_close_nbx(side->ep, &param), side);
}

static ucs_status_ptr_t post(const char *what, size_t length)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK, .cb = {.send = sent}};

    if (strcmp(what, "receive") == 0) {
        param.cb.recv = received;
        return ucp_tag_recv_nbx(sides[0].worker, area.memory, length, GONE_TAG, UINT64_MAX, &param);
    }
    if (strcmp(what, "stream receive") == 0) {
        param.cb.recv_stream = streamed;
        return ucp_stream_recv_nbx(sides[0].ep, area.memory, length, &length, &param);
    }
    return gone_post(what, sides[0].ep, &area, length, &param);
}

static void progress_first(void)
{
    int i;

    for (i = 0; i < ROUNDS; i++) {
        ucp_worker_progress(sides[0].worker);
    }
}

static void own(const struct twin_scenario *scenario)
{
    ucp_address_t *address;
    ucs_status_ptr_t posted;
    ucs_status_t status, closed = UCS_OK;
    const char *now, *result;

    context = twin_context(FEATURES);
    open_side(&sides[0]);
    open_area();
    address = address_of(&sides[0]);
    status = connect_to(&sides[0], address);
    if (status != UCS_OK) {
        twin_print("%s: create %s", scenario->name, twin_status(status));
        return;
    }
    prepare(post("flush", 0), &sides[0]);
    calls = 0;
    posted = post(scenario->what, LARGE);
    progress_first();
    now = calls > 0 || !UCS_PTR_IS_PTR(posted) ? "over" : "under way";
    if (scenario->ending == DESTROYED) {
        ucp_worker_release_address(sides[0].worker, address);
        ucp_worker_destroy(sides[0].worker);
    } else {
        closed = close_ep(&sides[0], scenario->ending == FORCED);
        progress_first();
    }
    if (UCS_PTR_IS_PTR(posted) && calls == 0) {
        result = "no callback";
    } else {
        result = twin_status(calls > 0 ? called_status : UCS_PTR_STATUS(posted));
    }
    twin_print("%s: %s, %s%s, reported %s, close %s", scenario->name, now, result, calls > 1 ? " twice" : "",
              reported > 0 ? twin_status(reported_status) : "nothing", twin_status(closed));
}

static void die(const struct twin_scenario *scenario)
{
    if (scenario->ending == DESTROYED) {
        ucp_worker_destroy(sides[1].worker);
    } else {
        (void)close_ep(&sides[1], scenario->ending == FORCED);
    }
}

static void second(const struct twin_scenario *scenario)
{
    struct twin_pair alone;
    ucp_address_t *addresses[2];
    ucs_status_ptr_t posted;
    ucs_status_t status, later, closed;
    size_t i;

    if (scenario->moment == BEFORE) { /* nobody answers */
        setenv("UCX_CONNECT_TIMEOUT", "2s", 1);
    }
    context = twin_context(FEATURES);
    for (i = 0; i < TWIN_COUNT(sides); i++) {
        open_side(&sides[i]);
        addresses[i] = address_of(&sides[i]);
    }
    open_area();
    alone = (struct twin_pair){.worker = {sides[0].worker, sides[0].worker}};
    if (scenario->moment == BEFORE) {
        die(scenario);
    }
    status = connect_to(&sides[0], addresses[1]);
    if (status != UCS_OK) {
        twin_print("%s: create %s", scenario->name, twin_status(status));
        return;
    }
    if (scenario->moment != BEFORE) {
        twin_need(connect_to(&sides[1], addresses[0]) == UCS_OK, "the other endpoint");
        prepare(post("flush", 0), &sides[1]);
        prepare(post("get", SMALL), &sides[1]);
    }
    if (scenario->moment == LATER) {
        die(scenario);
        (void)twin_late(&reported, &alone);
    }
    posted = post(scenario->what, scenario->moment == UNDER_WAY ? LARGE : SMALL);
    if (scenario->moment == UNDER_WAY) {
        progress_first();
        die(scenario);
    }
    status = twin_wait(&alone, posted);
    (void)twin_late(&reported, &alone);
    later = twin_wait(&alone, post("tag", SMALL));
    closed = close_ep(&sides[0], false);
    twin_print("%s: %s, reported %s%s, then %s, close %s", scenario->name, twin_status(status),
              reported > 0 ? twin_status(reported_status) : "nothing", reported > 1 ? " twice" : "", twin_status(later),
              twin_status(closed));
}

static void add(struct twin_scenario *list, size_t *count, const struct twin_scenario *scenario)
{
    static const char *const moments[] = {"before", "under way", "later"},
                             *const endings[] = {"forced", "closed", "destroyed"};
    struct twin_scenario *next = &list[(*count)++];

    *next = *scenario;
    snprintf(next->name, sizeof(next->name), "%s, %s %s", next->what, endings[next->ending], moments[next->moment]);
}

static void own_worker(void)
{
    static const char *const operations[] = {"tag", "sync", "am", "stream", "put", "get", "receive", "stream receive"};
    struct twin_scenario list[3 * TWIN_COUNT(operations)];
    size_t count = 0, i;
    int ending;

    for (i = 0; i < TWIN_COUNT(operations); i++) {
        for (ending = FORCED; ending <= DESTROYED; ending++) {
            add(list, &count,
                &(struct twin_scenario){.run = own, .what = operations[i], .moment = UNDER_WAY, .ending = ending});
        }
    }
    twin_each(list, count);
}

static void second_worker(void)
{
    static const char *const operations[] = {"tag", "sync", "am", "stream", "put", "get", "flush"};
    struct twin_scenario list[3 * TWIN_COUNT(operations) + 4];
    size_t count = 0, i;
    int moment;

    for (moment = BEFORE; moment <= LATER; moment++) {
        for (i = 0; i < TWIN_COUNT(operations); i++) {
            add(list, &count,
                &(struct twin_scenario){.run = second, .what = operations[i], .moment = moment, .ending = DESTROYED});
        }
        if (moment != BEFORE) {
            add(list, &count,
                &(struct twin_scenario){.run = second, .what = "tag", .moment = moment, .ending = CLOSED});
            add(list, &count,
                &(struct twin_scenario){.run = second, .what = "tag", .moment = moment, .ending = FORCED});
        }
    }
    twin_each(list, count);
}

const struct twin_case twin_gone_here_cases[] = {
    {"gone.own", own_worker}, {"gone.second", second_worker}, {NULL, NULL}};
