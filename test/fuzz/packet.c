/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets handed to the endpoint of an open connection as a transport would: the input is a row of id, length, bytes.
 * The first byte says which receives wait, and whether a synchronous send does, for forged answers.
 */
#include "fuzz.h"

#include "api/dispatch.h"
#include "core/ep.h"
#include "core/worker.h"
#include "msg/op_ep.h"

enum { MAX_ROUNDS = 100000 };

static ucp_worker_h worker;

static void feed(ucp_ep_h ep, const uint8_t *data, size_t size)
{
    uint8_t *packet;
    size_t length;

    while (size >= 2 && ep->conn != NULL) {
        length = (data[1] < size - 2) ? data[1] : size - 2;
        packet = malloc(length);
        fuzz_check(packet != NULL || length == 0);
        if (length > 0) {
            memcpy(packet, data + 2, length);
        }
        cw_op_packet(ep->conn, data[0], packet, length);
        free(packet);
        data += 2 + length;
        size -= 2 + length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ucp_request_param_t plain = {.op_attr_mask = 0};
    ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
    ucs_status_ptr_t receives[4] = {NULL}, sync = NULL;
    ucp_tag_recv_info_t info;
    ucp_tag_message_h message;
    char in[4][8];
    ucp_ep_h ep;
    int i;

    if (size < 1) {
        return 0;
    }
    worker = fuzz_worker("self");
    ep = fuzz_connected(worker, MAX_ROUNDS);
    fuzz_copy_nothing(ep);
    for (i = 0; i < (data[0] & 3); i++) {
        receives[i] = ucp_tag_recv_nbx(worker, in[i], sizeof(in[i]), (ucp_tag_t)i, 3, &plain);
    }
    if (data[0] & 4) {
        sync = ucp_tag_send_sync_nbx(ep, "y", 1, UINT64_MAX, &plain);
    }
    feed(ep, data + 1, size - 1);
    if (data[0] & 8) {
        (void)ucp_worker_progress(worker);
    }
    fuzz_wait(worker, ucp_ep_close_nbx(ep, &force), MAX_ROUNDS);
    fuzz_wait(worker, sync, MAX_ROUNDS);
    for (i = 0; i < 4; i++) {
        if (UCS_PTR_IS_PTR(receives[i])) {
            ucp_request_cancel(worker, receives[i]);
            fuzz_wait(worker, receives[i], MAX_ROUNDS);
        }
    }
    for (i = 0; i < 100; i++) {
        (void)ucp_worker_progress(worker);
    }
    while ((message = ucp_tag_probe_nb(worker, 0, 0, 1, &info)) != NULL) {
        fuzz_wait(worker, ucp_tag_msg_recv_nbx(worker, in[0], sizeof(in[0]), message, &plain), MAX_ROUNDS);
    }
    return 0;
}
