/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests of active messages: ucp_am_lat and ucp_am_bw.
 *
 * Callers: run.c through the table.
 * A handler counts; data that comes eagerly is checked only with --verify and copied only with -y, data that comes
 * by rendezvous is fetched into a buffer. Messages of one kind are numbered as they come. The sender is done before the
 * receiver when bytes are still on their way into memory of a GPU, so more messages may come than there are buffers:
 * they wait for one, in their order.
 */
#include "drive.h"

#include <stdlib.h>

/* A message that waits for a buffer. */
struct waiting {
    enum cw_drive_kind kind;
    void *desc;
    size_t length;
};

struct am_test {
    struct cw_drive drive; /* first */
    struct waiting *waiting;
    size_t num_waiting, first_waiting, room_waiting;
    bool is_fetching;
    char *header;
    uint64_t begun[CW_KIND_COUNT];
    struct handler {
        struct am_test *test;
        enum cw_drive_kind kind;
    } handlers[CW_KIND_COUNT];
};

static void fetch_waiting(struct am_test *test);

static void finish_fetch(struct cw_drive_slot *slot, ucs_status_t status, size_t length)
{
    struct cw_drive *drive = slot->drive;

    if (status != UCS_OK) {
        cw_link_fail(drive->link, "a fetch failed: %s", ucs_status_string(status));
    } else {
        cw_drive_arrived(drive, slot->kind, slot->message, slot->buffer, length);
        if (drive->run->params.verify) {
            /* A message that never arrives must not be taken for the one before. */
            cw_buffers_clear(&drive->buffers, slot->buffer, length);
        }
    }
    cw_drive_give(slot);
    fetch_waiting((struct am_test *)drive);
}

static void on_fetched(void *request, ucs_status_t status, size_t length, void *user_data)
{
    ucp_request_free(request);
    finish_fetch(user_data, status, length);
}

static void begin_fetch(struct am_test *test, enum cw_drive_kind kind, void *desc, size_t length)
{
    struct cw_drive *drive = &test->drive;
    struct cw_drive_slot *slot = cw_drive_take(drive);
    ucp_request_param_t param;
    size_t count;

    slot->kind = kind;
    slot->message = test->begun[kind]++;
    cw_layout_begin(&param, slot);
    param.cb.recv_am = on_fetched;
    cw_buffers_apply(&drive->buffers, &param);
    void *buffer = (void *)(uintptr_t)cw_layout_apply(&param, kind == CW_KIND_ACK ? NULL : slot->iov,
                                                      drive->run->params.part_count, slot->buffer, length, &count);
    ucs_status_ptr_t request = ucp_am_recv_data_nbx(drive->link->worker, desc, buffer, count, &param);
    if (!UCS_PTR_IS_PTR(request)) {
        finish_fetch(slot, UCS_PTR_STATUS(request), length);
    }
}

static int put_off(struct am_test *test, enum cw_drive_kind kind, void *desc, size_t length)
{
    if (test->first_waiting + test->num_waiting == test->room_waiting) {
        size_t room = 2 * test->num_waiting + 16;
        struct waiting *waiting = malloc(room * sizeof(*waiting));
        if (waiting == NULL) {
            return cw_link_fail(test->drive.link, "out of memory for pending messages");
        }
        if (test->num_waiting > 0) {
            memcpy(waiting, test->waiting + test->first_waiting, test->num_waiting * sizeof(*waiting));
        }
        free(test->waiting);
        test->waiting = waiting;
        test->first_waiting = 0;
        test->room_waiting = room;
    }
    test->waiting[test->first_waiting + test->num_waiting++] = (struct waiting){kind, desc, length};
    return 0;
}

static void fetch_waiting(struct am_test *test)
{
    if (test->is_fetching) {
        return;
    }
    test->is_fetching = true;
    while (test->num_waiting > 0 && test->drive.free_recvs != NULL) {
        struct waiting next = test->waiting[test->first_waiting++];
        test->num_waiting--;
        begin_fetch(test, next.kind, next.desc, next.length);
    }
    test->is_fetching = false;
}

/* Apart, so that what comes eagerly keeps nothing on the stack for it. */
__attribute__((noinline)) static ucs_status_t fetch(struct am_test *test, enum cw_drive_kind kind, void *desc,
                                                    size_t length)
{
    if (test->num_waiting == 0 && test->drive.free_recvs != NULL) {
        begin_fetch(test, kind, desc, length);
        return UCS_OK;
    }
    return put_off(test, kind, desc, length) == 0 ? UCS_INPROGRESS : UCS_ERR_NO_RESOURCE;
}

static ucs_status_t on_message(void *arg, const void *header, size_t header_length, void *data, size_t length,
                               const ucp_am_recv_param_t *param)
{
    const struct handler *handler = arg;
    struct am_test *test = handler->test;
    struct cw_drive *drive = &test->drive;
    size_t wanted = handler->kind == CW_KIND_ACK ? 0 : drive->run->params.am_header;

    if (__builtin_expect(header_length != wanted || length > drive->size + 1, 0)) {
        cw_link_fail(drive->link, "received a message of %zu bytes with a header of %zu instead of %zu", length,
                     header_length, wanted);
        return UCS_OK;
    }
    if (drive->run->params.verify && wanted > 0 && memcmp(header, test->header, wanted) != 0) {
        cw_link_fail(drive->link, "the header of message %llu is wrong",
                     (unsigned long long)test->begun[handler->kind]);
    }
    if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0 && length > 0) {
        return fetch(test, handler->kind, data, length);
    }
    if (drive->run->params.copy && drive->free_recvs != NULL) {
        memcpy(drive->free_recvs->buffer, data, length);
        data = drive->free_recvs->buffer;
    }
    cw_drive_arrived(drive, handler->kind, test->begun[handler->kind]++, data, length);
    return UCS_OK;
}

static ucs_status_ptr_t send_message(struct cw_drive *drive, struct cw_drive_slot *slot, size_t size,
                                     ucp_request_param_t *param)
{
    const struct am_test *test = (const struct am_test *)drive;
    const struct cw_perf_params *params = &drive->run->params;
    size_t count;
    bool ack = slot->kind == CW_KIND_ACK;
    const void *buffer = cw_layout_apply(param, ack ? NULL : slot->iov, params->part_count, slot->buffer, size, &count);

    return ucp_am_send_nbx(drive->link->ep, (unsigned)slot->kind, test->header, ack ? 0 : params->am_header, buffer,
                           count, param);
}

static int set_handlers(struct am_test *test, bool on)
{
    for (int i = 0; i < CW_KIND_COUNT; i++) {
        test->handlers[i] = (struct handler){test, (enum cw_drive_kind)i};
        ucp_am_handler_param_t param = {
            .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                          UCP_AM_HANDLER_PARAM_FIELD_ARG,
            .id = (unsigned)i,
            .cb = on ? on_message : NULL,
            .arg = &test->handlers[i],
        };
        ucs_status_t status = ucp_worker_set_am_recv_handler(test->drive.link->worker, &param);
        if (status != UCS_OK) {
            return cw_link_fail(test->drive.link, "ucp_worker_set_am_recv_handler failed: %s",
                                ucs_status_string(status));
        }
    }
    return 0;
}

static int check_header(struct am_test *test)
{
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER};
    uint64_t wanted = test->drive.run->params.am_header;
    ucs_status_t status = ucp_worker_query(test->drive.link->worker, &attr);

    if (status != UCS_OK) {
        return cw_link_fail(test->drive.link, "ucp_worker_query failed: %s", ucs_status_string(status));
    }
    if (wanted > attr.max_am_header) {
        return cw_link_fail(test->drive.link, "a header (-H) of %llu bytes is more than this library's limit of %zu",
                            (unsigned long long)wanted, attr.max_am_header);
    }
    test->header = malloc(wanted + 1);
    if (test->header == NULL) {
        return cw_link_fail(test->drive.link, "out of memory");
    }
    cw_pattern_fill(test->header, wanted, 1);
    return 0;
}

/*
 * The handlers must be there before the peer sends, so both sides meet once more. After a failure operations may be in
 * flight: the test then lasts until the process ends.
 */
static int run(struct cw_perf_run *run)
{
    struct am_test *test = cw_test_new(sizeof(*test));

    if (test == NULL) {
        return cw_link_fail(run->link, "out of memory");
    }
    if (cw_drive_open(&test->drive, run) != 0 || check_header(test) != 0 || set_handlers(test, true) != 0) {
        return -1;
    }
    test->drive.send = send_message;
    if (cw_link_barrier(run->link) != 0 || cw_drive_run(&test->drive) != 0) {
        return -1;
    }
    if (cw_link_barrier(run->link) != 0 || set_handlers(test, false) != 0) {
        return -1;
    }
    cw_drive_close(&test->drive);
    free(test->header);
    free(test->waiting);
    cw_test_free(test);
    return 0;
}

const struct cw_perf_test cw_am_tests[] = {
    {"ucp_am_lat", "am latency", "UCP active message latency", UCP_FEATURE_AM, true, 2, 1, run},
    {"ucp_am_bw", "am bandwidth / message rate", "UCP active message bandwidth, rate", UCP_FEATURE_AM, false, 1, 32,
     run},
};

const unsigned cw_am_test_count = sizeof(cw_am_tests) / sizeof(cw_am_tests[0]);
