/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers: each member of their structures, the address, and sleeping. WRK-*, ADR-*, WAK-*. */
#define _GNU_SOURCE
#include "twin.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

static const struct twin_field attr_fields[] = {
    TWIN_FIELD(ucp_worker_attr_t, thread_mode),     TWIN_FIELD(ucp_worker_attr_t, address_flags),
    TWIN_FIELD(ucp_worker_attr_t, address),         TWIN_FIELD(ucp_worker_attr_t, address_length),
    TWIN_FIELD(ucp_worker_attr_t, max_am_header),   TWIN_FIELD(ucp_worker_attr_t, name),
    TWIN_FIELD(ucp_worker_attr_t, max_debug_string)};

static void fill(ucp_worker_params_t *params, uint64_t mask, int epoll)
{
    memset(params, TWIN_FILL, sizeof(*params));
    params->field_mask = mask;
    params->thread_mode =
        (mask & UCP_WORKER_PARAM_FIELD_THREAD_MODE) ? UCS_THREAD_MODE_SERIALIZED : params->thread_mode;
    params->events = (mask & UCP_WORKER_PARAM_FIELD_EVENTS) ? UCP_WAKEUP_RX : params->events;
    params->event_fd = (mask & UCP_WORKER_PARAM_FIELD_EVENT_FD) ? epoll : params->event_fd;
    params->flags = (mask & UCP_WORKER_PARAM_FIELD_FLAGS) ? UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK : params->flags;
    params->name = (mask & UCP_WORKER_PARAM_FIELD_NAME) ? "a worker's name, longer than the 31 that fit" : params->name;
    params->am_alignment = (mask & UCP_WORKER_PARAM_FIELD_AM_ALIGNMENT) ? 64 : params->am_alignment;
    params->client_id = (mask & UCP_WORKER_PARAM_FIELD_CLIENT_ID) ? 7 : params->client_id;
    if (mask & UCP_WORKER_PARAM_FIELD_CPU_MASK) {
        UCS_CPU_ZERO(&params->cpu_mask);
    }
}

static void print_sleeping(const char *what, ucp_worker_h worker, int epoll)
{
    struct epoll_event event = {0};
    ucs_status_t status, armed;
    int fd = -1, count;

    status = ucp_worker_get_efd(worker, &fd);
    twin_print("%s: descriptor %s, there %d", what, twin_status(status), status == UCS_OK && fd >= 0);
    armed = ucp_worker_arm(worker);
    armed = armed == UCS_ERR_BUSY ? (ucp_worker_progress(worker), ucp_worker_arm(worker)) : armed;
    status = ucp_worker_signal(worker);
    twin_print("%s: armed %s, signalled %s", what, twin_status(armed), twin_status(status));
    if (fd >= 0) {
        struct pollfd item = {.fd = fd, .events = POLLIN};

        count = poll(&item, 1, 100);
        armed = ucp_worker_arm(worker);
        status = ucp_worker_arm(worker);
        twin_print("%s: readable %d, armed %s, then %s", what, count, twin_status(armed), twin_status(status));
        twin_print("%s: then readable %d", what, poll(&item, 1, 0));
        status = ucp_worker_signal(worker);
        armed = ucp_worker_wait(worker);
        twin_print("%s: signalled %s, waited %s", what, twin_status(status), twin_status(armed));
    } else {
        count = epoll_wait(epoll, &event, 1, 100);
        twin_print("%s: events %d, of the worker %d", what, count, event.data.ptr == (void *)0x1234);
    }
}

static void one(ucp_context_h context, uint64_t mask, bool sleeping)
{
    int epoll = epoll_create1(0);
    ucp_worker_params_t params;
    ucp_worker_attr_t attr;
    ucp_worker_h worker;
    ucs_status_t status;
    char what[40];

    fill(&params, mask, epoll);
    params.user_data = (mask & UCP_WORKER_PARAM_FIELD_USER_DATA) ? (void *)0x1234 : params.user_data;
    snprintf(what, sizeof(what), "mask %#llx%s", (unsigned long long)mask, sleeping ? ", sleeping" : "");
    status = ucp_worker_create(context, &params, &worker);
    twin_print("%s: %s", what, twin_status(status));
    if (status == UCS_OK) {
        attr.field_mask = UCP_WORKER_ATTR_FIELD_THREAD_MODE | UCP_WORKER_ATTR_FIELD_NAME;
        status = ucp_worker_query(worker, &attr);
        twin_print("%s: query %s, thread mode %d, name %s", what, twin_status(status), attr.thread_mode,
                  (mask & UCP_WORKER_PARAM_FIELD_NAME) ? attr.name : "of its own");
        if (sleeping) {
            print_sleeping(what, worker, epoll);
        }
        ucp_worker_destroy(worker);
    }
    close(epoll);
}

static void masks(void)
{
    static const uint64_t features[] = {UCP_FEATURE_TAG, UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP};
    const uint64_t known = 0x1ff;
    ucp_context_h context;
    size_t i;
    int bit;

    for (i = 0; i < TWIN_COUNT(features); i++) {
        context = twin_context(features[i]);
        one(context, 0, i == 1);
        for (bit = 0; bit < 9; bit++) {
            one(context, UINT64_C(1) << bit, i == 1);
        }
        one(context, UCP_WORKER_PARAM_FIELD_EVENT_FD | UCP_WORKER_PARAM_FIELD_USER_DATA, i == 1);
        one(context, known, i == 1);
        one(context, known & ~(uint64_t)UCP_WORKER_PARAM_FIELD_EVENT_FD, i == 1);
        one(context, TWIN_UNKNOWN, i == 1);
        ucp_cleanup(context);
    }
}

static void values(void)
{
    static const uint64_t numbers[] = {0, 1, 2, 99, UINT64_C(0x7fffffff), UINT64_C(0xffffffff)};
    static const struct twin_mask members[] = {{"thread_mode", UCP_WORKER_PARAM_FIELD_THREAD_MODE},
                                               {"events", UCP_WORKER_PARAM_FIELD_EVENTS},
                                               {"flags", UCP_WORKER_PARAM_FIELD_FLAGS},
                                               {"client_id", UCP_WORKER_PARAM_FIELD_CLIENT_ID}};
    ucp_context_h context = twin_context(TWIN_ALL_FEATURES);
    ucp_worker_params_t params;
    ucp_worker_attr_t attr;
    ucp_worker_h worker;
    ucs_status_t status;
    size_t i, k;

    for (i = 0; i < TWIN_COUNT(members); i++) {
        for (k = 0; k < TWIN_COUNT(numbers); k++) {
            if (members[i].bits == UCP_WORKER_PARAM_FIELD_THREAD_MODE && numbers[k] > 2) {
                continue; /* UCX 1.13 frees what it has not made yet */
            }
            memset(&params, TWIN_FILL, sizeof(params));
            params.field_mask = members[i].bits;
            params.thread_mode = (ucs_thread_mode_t)numbers[k];
            params.events = (unsigned)numbers[k];
            params.flags = numbers[k];
            params.client_id = numbers[k];
            status = ucp_worker_create(context, &params, &worker);
            attr.thread_mode = (ucs_thread_mode_t)-1;
            attr.field_mask = UCP_WORKER_ATTR_FIELD_THREAD_MODE;
            if (status == UCS_OK) {
                (void)ucp_worker_query(worker, &attr);
                ucp_worker_destroy(worker);
            }
            twin_print("%s = %llu: %s, thread mode %d", members[i].name, (unsigned long long)numbers[k],
                      twin_status(status), (int)attr.thread_mode);
        }
    }
    ucp_cleanup(context);
}

static void query_with(ucp_context_h context, const char *name)
{
    ucp_worker_h worker = twin_worker(context);
    ucp_worker_attr_t attr;
    ucs_status_t status;
    uint64_t mask;
    char what[64];
    int i;

    for (i = 0; i < 66; i++) {
        if (i < 64) {
            mask = (uint64_t)i;
        } else {
            mask = i == 64 ? TWIN_UNKNOWN : TWIN_UNKNOWN | 0x3f;
        }
        memset(&attr, TWIN_FILL, sizeof(attr));
        attr.field_mask = mask;
        attr.address_flags =
            (mask & UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS) ? UCP_WORKER_ADDRESS_FLAG_NET_ONLY : attr.address_flags;
        status = ucp_worker_query(worker, &attr);
        snprintf(what, sizeof(what), "%s, mask %#llx", name, (unsigned long long)mask);
        twin_print_filled(what, status, &attr, attr_fields, TWIN_COUNT(attr_fields));
        twin_print("%s: mask kept %d, header of none %d", what, attr.field_mask == mask,
                  (mask & UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER) ? attr.max_am_header == 0 : -1);
        if (status == UCS_OK && (mask & UCP_WORKER_ATTR_FIELD_ADDRESS)) {
            ucp_worker_release_address(worker, attr.address);
        }
    }
    ucp_worker_destroy(worker);
}

static void query(void)
{
    ucp_context_h context = twin_context(UCP_FEATURE_TAG);

    query_with(context, "tag");
    ucp_cleanup(context);
    context = twin_context(UCP_FEATURE_AM);
    query_with(context, "am");
    ucp_cleanup(context);
}

static void address(void)
{
    static const uint64_t masks[] = {0, UCP_WORKER_ADDRESS_ATTR_FIELD_UID, ~UINT64_C(1), ~UINT64_C(0)};
    static const struct twin_field fields[] = {TWIN_FIELD(ucp_worker_address_attr_t, worker_uid)};
    ucp_context_h context = twin_context(UCP_FEATURE_TAG);
    ucp_worker_h worker = twin_worker(context), other = twin_worker(context);
    ucp_address_t *first, *second, *third;
    ucp_worker_address_attr_t attr, again;
    size_t length[3], i;
    ucs_status_t status;
    char what[32];

    twin_print("addresses %s", twin_status(ucp_worker_get_address(worker, &first, &length[0])));
    (void)ucp_worker_get_address(worker, &second, &length[1]);
    (void)ucp_worker_get_address(other, &third, &length[2]);
    twin_print("same again %d, own copy %d, other's differs %d",
              length[0] == length[1] && memcmp(first, second, length[0]) == 0, first != second,
              length[0] != length[2] || memcmp(first, third, length[0]) != 0);
    for (i = 0; i < TWIN_COUNT(masks); i++) {
        memset(&attr, TWIN_FILL, sizeof(attr));
        attr.field_mask = masks[i];
        status = ucp_worker_address_query(first, &attr);
        snprintf(what, sizeof(what), "mask %#llx", (unsigned long long)masks[i]);
        twin_print_filled(what, status, &attr, fields, 1);
    }
    again.field_mask = attr.field_mask = UCP_WORKER_ADDRESS_ATTR_FIELD_UID;
    (void)ucp_worker_address_query(first, &attr);
    (void)ucp_worker_address_query(second, &again);
    twin_print("same number %d", attr.worker_uid == again.worker_uid);
    (void)ucp_worker_address_query(third, &again);
    twin_print("other's number differs %d", attr.worker_uid != again.worker_uid);
    ucp_worker_release_address(worker, first);
    ucp_worker_release_address(worker, second);
    ucp_worker_release_address(other, third);
    ucp_worker_destroy(worker);
    ucp_worker_destroy(other);
    ucp_cleanup(context);
}

static void missing_features(void)
{
    ucp_context_h context = twin_context(UCP_FEATURE_RMA);
    ucp_worker_h worker = twin_worker(context);
    ucp_ep_h ep = twin_connect(worker, worker, UCP_ERR_HANDLING_MODE_NONE);
    const ucp_datatype_t byte = ucp_dt_make_contig(1);
    ucp_am_handler_param_t handler = {.field_mask = 0};
    ucp_stream_poll_ep_t ready[1];
    ucp_request_param_t none = {.op_attr_mask = 0};
    ucp_tag_recv_info_t info;
    uint64_t word = 0;
    size_t length;
    int fd;

    twin_print("descriptor %s", twin_status(ucp_worker_get_efd(worker, &fd)));
    twin_print("arm %s", twin_status(ucp_worker_arm(worker)));
    twin_print("wait %s", twin_status(ucp_worker_wait(worker)));
    twin_print("signal %s", twin_status(ucp_worker_signal(worker)));
    twin_print("poll %s", twin_status((ucs_status_t)ucp_stream_worker_poll(worker, ready, 1, 0)));
    twin_print("stream send %s", twin_pointer_status(ucp_stream_send_nbx(ep, &word, 8, &none)));
    twin_print("stream recv %s", twin_pointer_status(ucp_stream_recv_nbx(ep, &word, 8, &length, &none)));
    twin_print("stream data %s", twin_pointer_status(ucp_stream_recv_data_nb(ep, &length)));
    twin_print("tag send %s", twin_pointer_status(ucp_tag_send_nbx(ep, &word, 8, 1, &none)));
    twin_print("tag sync %s", twin_pointer_status(ucp_tag_send_sync_nbx(ep, &word, 8, 1, &none)));
    twin_print("tag send nbr %s", twin_status(ucp_tag_send_nbr(ep, &word, 8, byte, 1, &word)));
    twin_print("tag recv %s", twin_pointer_status(ucp_tag_recv_nbx(worker, &word, 8, 1, 1, &none)));
    twin_print("tag recv nb %s", twin_pointer_status(ucp_tag_recv_nb(worker, &word, 8, byte, 1, 1, twin_got)));
    twin_print("tag recv nbr %s", twin_status(ucp_tag_recv_nbr(worker, &word, 8, byte, 1, 1, &word)));
    twin_print("probe %d", ucp_tag_probe_nb(worker, 0, 0, 0, &info) != NULL);
    twin_print("am send %s", twin_pointer_status(ucp_am_send_nbx(ep, 1, NULL, 0, &word, 8, &none)));
    twin_print("am send nb %s", twin_pointer_status(ucp_am_send_nb(ep, 1, &word, 8, byte, twin_done, 0)));
    twin_print("am handler %s", twin_status(ucp_worker_set_am_recv_handler(worker, &handler)));
    twin_print("old am handler %s", twin_status(ucp_worker_set_am_handler(worker, 1, NULL, NULL, 0)));
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
}

static void missing_memory_features(void)
{
    struct twin_pair pair;
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE, .datatype = ucp_dt_make_contig(8)};
    ucp_request_param_t none = {.op_attr_mask = 0};
    ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH};
    static uint64_t memory[8], word;
    ucp_rkey_h rkey;
    ucp_mem_h memh;
    void *buffer;
    size_t size;

    twin_pair_open(&pair, UCP_FEATURE_TAG, UCP_ERR_HANDLING_MODE_NONE);
    map.address = memory;
    map.length = sizeof(memory);
    twin_print("map %s", twin_status(ucp_mem_map(pair.context, &map, &memh)));
    twin_print("pack %s", twin_status(ucp_rkey_pack(pair.context, memh, &buffer, &size)));
    twin_print("unpack %s", twin_status(ucp_ep_rkey_unpack(pair.ep[0], buffer, &rkey)));
    twin_print("put %s", twin_pointer_status(ucp_put_nbx(pair.ep[0], &word, 8, (uintptr_t)memory, rkey, &none)));
    twin_print("put nbi %s", twin_status(ucp_put_nbi(pair.ep[0], &word, 8, (uintptr_t)memory, rkey)));
    twin_print("get %s", twin_pointer_status(ucp_get_nbx(pair.ep[0], &word, 8, (uintptr_t)memory, rkey, &none)));
    twin_print("get nbi %s", twin_status(ucp_get_nbi(pair.ep[0], &word, 8, (uintptr_t)memory, rkey)));
    twin_print("atomic %s", twin_pointer_status(ucp_atomic_op_nbx(pair.ep[0], UCP_ATOMIC_OP_ADD, &word, 1,
                                                                 (uintptr_t)memory, rkey, &param)));
    twin_print("atomic post %s",
              twin_status(ucp_atomic_post(pair.ep[0], UCP_ATOMIC_POST_OP_ADD, 1, 8, (uintptr_t)memory, rkey)));
    ucp_rkey_buffer_release(buffer);
}

static void print_info(void)
{
    ucp_context_h context = twin_context(TWIN_ALL_FEATURES);
    ucp_worker_h worker = twin_worker(context);
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    ucp_worker_print_info(worker, stream);
    fclose(stream);
    twin_print("heading %d, address %d, atomics %d", twin_has_word(text, "UCP worker"),
               twin_has_word(text, "address: "), twin_has_word(text, "atomics: "));
    free(text);
    twin_print("idle progress %u", ucp_worker_progress(worker));
    ucp_worker_wait_mem(worker, &size);
    ucp_worker_release_address(worker, NULL);
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
}

const struct twin_case twin_worker_cases[] = {{"worker.masks", masks},
                                              {"worker.values", values},
                                              {"worker.query", query},
                                              {"worker.address", address},
                                              {"worker.no_features", missing_features},
                                              {"worker.no_memory_features", missing_memory_features},
                                              {"worker.print_info", print_info},
                                              {NULL, NULL}};
