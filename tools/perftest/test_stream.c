/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests of streams: stream_lat and stream_bw. With -r recv each message is a receive that waits for all of its bytes;
 * with -r recv_data the library's own data is taken as it comes and cut into messages here.
 *
 * Callers: run.c through the table.
 */
#include "drive.h"


struct stream_test {
    struct cw_drive drive; /* first */
    /* Messages that are awaited, oldest first (recv_data). */
    struct cw_drive_slot *first;
    struct cw_drive_slot **last;
    /* The library's data that has not been cut up to its end. */
    void *data;
    const char *at;
    size_t rest;
};

static size_t wanted_of(const struct cw_drive_slot *slot)
{
    return slot->kind == CW_KIND_ACK ? 1 : slot->drive->size;
}

static void finish_recv(struct cw_drive_slot *slot, ucs_status_t status, size_t length)
{
    struct cw_drive *drive = slot->drive;

    drive->expected_pending--;
    if (status != UCS_OK) {
        cw_link_fail(drive->link, "a receive failed: %s", ucs_status_string(status));
    } else {
        cw_drive_arrived(drive, slot->kind, slot->message, slot->buffer, length);
        if (drive->run->params.verify) {
            cw_buffers_clear(&drive->buffers, slot->buffer, length);
        }
    }
    cw_drive_give(slot);
}

static void on_received(void *request, ucs_status_t status, size_t length, void *user_data)
{
    ucp_request_free(request);
    finish_recv(user_data, status, length);
}

static int expect_recv(struct cw_drive *drive, enum cw_drive_kind kind, uint64_t message, size_t size)
{
    struct cw_drive_slot *slot = cw_drive_take(drive);
    ucp_request_param_t param;
    size_t count, length = 0;

    if (slot == NULL) {
        return -1;
    }
    slot->kind = kind;
    slot->message = message;
    cw_layout_begin(&param, slot);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_STREAM_RECV_FLAG_WAITALL;
    param.cb.recv_stream = on_received;
    cw_buffers_apply(&drive->buffers, &param);
    drive->expected_pending++;
    void *buffer = (void *)(uintptr_t)cw_layout_apply(&param, kind == CW_KIND_ACK ? NULL : slot->iov,
                                                      drive->run->params.part_count, slot->buffer, size, &count);
    ucs_status_ptr_t request = ucp_stream_recv_nbx(drive->link->ep, buffer, count, &length, &param);
    if (!UCS_PTR_IS_PTR(request)) {
        finish_recv(slot, UCS_PTR_STATUS(request), length);
    }
    return drive->link->failed ? -1 : 0;
}

static int expect_data(struct cw_drive *drive, enum cw_drive_kind kind, uint64_t message, size_t size)
{
    struct stream_test *test = (struct stream_test *)drive;
    struct cw_drive_slot *slot = cw_drive_take(drive);

    (void)size;
    if (slot == NULL) {
        return -1;
    }
    slot->kind = kind;
    slot->message = message;
    slot->next_free = NULL;
    *test->last = slot;
    test->last = &slot->next_free;
    drive->expected_pending++;
    return 0;
}

/* Gives what is held of the library's data to the awaited messages. */
static void cut(struct stream_test *test)
{
    while (test->rest > 0 && test->first != NULL) {
        struct cw_drive_slot *slot = test->first;
        size_t missing = wanted_of(slot) - slot->filled;
        size_t part = test->rest < missing ? test->rest : missing;

        if (test->drive.run->params.verify) {
            memcpy(slot->buffer + slot->filled, test->at, part);
        }
        slot->filled += part;
        test->at += part;
        test->rest -= part;
        if (part == missing) {
            test->first = slot->next_free;
            if (test->first == NULL) {
                test->last = &test->first;
            }
            finish_recv(slot, UCS_OK, wanted_of(slot));
        }
    }
}

static int poll_data(struct cw_drive *drive)
{
    struct stream_test *test = (struct stream_test *)drive;
    ucp_ep_h ep = drive->link->ep;

    while (test->first != NULL) {
        if (test->data == NULL) {
            ucs_status_ptr_t data = ucp_stream_recv_data_nb(ep, &test->rest);
            if (data == NULL) {
                return 0;
            }
            if (UCS_PTR_IS_ERR(data)) {
                return cw_link_fail(drive->link, "ucp_stream_recv_data_nb failed: %s",
                                    ucs_status_string(UCS_PTR_STATUS(data)));
            }
            test->data = data;
            test->at = data;
        }
        cut(test);
        if (test->rest == 0) {
            ucp_stream_data_release(ep, test->data);
            test->data = NULL;
        }
    }
    return 0;
}

static ucs_status_ptr_t send_bytes(struct cw_drive *drive, struct cw_drive_slot *slot, size_t size,
                                   ucp_request_param_t *param)
{
    size_t count;
    const void *buffer = cw_layout_apply(param, slot->kind == CW_KIND_ACK ? NULL : slot->iov,
                                         drive->run->params.part_count, slot->buffer, size, &count);

    return ucp_stream_send_nbx(drive->link->ep, buffer, count, param);
}

/* After a failure operations may be in flight: the test then lasts until the process ends. */
static int run(struct cw_perf_run *run)
{
    struct stream_test *test;
    bool recv_data = run->params.recv_data;

    if (run->params.size == 0) {
        return cw_link_fail(run->link, "streams have no empty messages: use a size (-s) of at least 1");
    }
    test = cw_test_new(sizeof(*test));
    if (test == NULL) {
        return cw_link_fail(run->link, "out of memory");
    }
    if (cw_drive_open(&test->drive, run) != 0) {
        return -1;
    }
    test->last = &test->first;
    test->drive.send = send_bytes;
    test->drive.expect = recv_data ? expect_data : expect_recv;
    test->drive.poll = recv_data ? poll_data : NULL;
    if (cw_drive_run(&test->drive) != 0) {
        return -1;
    }
    cw_drive_close(&test->drive);
    cw_test_free(test);
    return 0;
}

const struct cw_perf_test cw_stream_tests[] = {
    {"stream_lat", "stream latency", "UCP stream latency", UCP_FEATURE_STREAM, true, 2, 1, run},
    {"stream_bw", "stream bandwidth", "UCP stream bandwidth", UCP_FEATURE_STREAM, false, 1, 32, run},
};

const unsigned cw_stream_test_count = sizeof(cw_stream_tests) / sizeof(cw_stream_tests[0]);
