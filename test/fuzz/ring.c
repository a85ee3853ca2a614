/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer on the same machine, whose hands are in the memory of the rings while the library sends and receives. The
 * input is a row of kind, two numbers of a byte, and bytes: a well-formed packet of any id, in a slot of an open line,
 * a line of its own, or several; a word, or that of a slot, of any contents, where one is searched for next; bytes
 * anywhere in the memory (counters, claim pairs, rings); and what the library's own program does
 * meanwhile. Both ends are this process', so each of them is the victim of what lies in the other one's ring.
 */
#include "fuzz.h"

#include "transport/shm/shm.h"

enum { MAX_ROUNDS = 1000000, MOST = 40000, NUM_KINDS = 8, HEAD = 3 };
enum { SLOT, PACKET, LONGER, WORD, SLOT_WORD, POKE, SEND, PROGRESS };

static ucp_worker_h worker;
static ucp_ep_h ep;
static const ucp_request_param_t plain;
static const ucp_request_param_t quiet = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
static char buffer[MOST];

static ucs_status_t forget(void *arg, const void *header, size_t header_length, void *data, size_t length,
                           const ucp_am_recv_param_t *param)
{
    volatile char sum = 0;

    (void)arg;
    for (size_t i = 0; i < header_length; i++) {
        sum = (char)(sum + ((const char *)header)[i]);
    }
    for (size_t i = 0; i < length && !(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV); i++) {
        sum = (char)(sum + ((const char *)data)[i]);
    }
    return UCS_OK;
}

static void set_up(void)
{
    ucp_am_handler_param_t param = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB,
                                    .cb = forget};

    if (worker == NULL) {
        worker = fuzz_worker_with("posix", UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_STREAM | UCP_FEATURE_RMA |
                                               UCP_FEATURE_WAKEUP);
        fuzz_check(ucp_worker_set_am_recv_handler(worker, &param) == UCS_OK);
    }
    ep = fuzz_connected(worker, MAX_ROUNDS);
}

/* The end whose ring is written to: bit 7 of the kind. NULL: the connection is gone. */
static struct shm_conn *end_of(int other)
{
    struct cw_conn *conn = other ? ep->loop_conn : ep->conn;

    return (ep->state != CW_EP_OPEN || conn == NULL) ? NULL : shm_conn_of(conn);
}

static void put(struct shm_tx *tx, unsigned kind, uint8_t id, const uint8_t *data, size_t length)
{
    size_t long_length = (kind == LONGER) ? CW_LINE_DATA + 1 + length * 61 : length;

    if (kind == SLOT) {
        length = (length < CW_LINE_SLOT) ? length : CW_LINE_SLOT;
        if (cw_tx_can_send(&tx->fast, 0)) {
            memcpy(tx->fast.line->slots[tx->fast.slot], data, length);
            cw_tx_publish_slot(&tx->fast, tx->fast.line, tx->fast.slot, length, id);
        }
        return;
    }
    cw_shm_tx_poll(tx);
    if (shm_has_space_known(tx, long_length)) {
        char *to = shm_reserve(tx, long_length);

        memset(to, 0, long_length);
        memcpy(to, data, length);
        shm_publish(tx, long_length, id);
    }
}

static void do_own(unsigned what, size_t length)
{
    ucs_status_ptr_t request = NULL;

    switch (what % 4) {
    case 0:
        request = ucp_tag_send_nbx(ep, buffer, length, 1, &plain);
        break;
    case 1:
        request = ucp_am_send_nbx(ep, 0, NULL, 0, buffer, length, &plain);
        break;
    case 2:
        request = ucp_stream_send_nbx(ep, buffer, length, &plain);
        break;
    default:
        request = ucp_tag_recv_nbx(worker, buffer, length, 0, 0, &plain);
        if (UCS_PTR_IS_PTR(request)) {
            (void)ucp_worker_progress(worker);
            ucp_request_cancel(worker, request);
        }
        break;
    }
    if (UCS_PTR_IS_PTR(request)) {
        ucp_request_free(request);
    }
}

static void one(unsigned kind, unsigned first, unsigned second, const uint8_t *data, size_t length)
{
    struct shm_conn *end = end_of(kind & 0x80);
    struct shm_rx *rx;
    uint64_t word = 0;
    uint64_t at;

    if (end == NULL) {
        return;
    }
    rx = &end->rx;
    kind = kind % NUM_KINDS;
    memcpy(&word, data, (length < sizeof(word)) ? length : sizeof(word));
    switch (kind) {
    case SLOT:
    case PACKET:
    case LONGER: /* as the other end sends */
        put(&shm_conn_of((&end->super == ep->conn) ? ep->loop_conn : ep->conn)->tx, kind, (uint8_t)first, data,
            (length < CW_LINE_DATA) ? length : CW_LINE_DATA);
        break;
    case WORD: /* the lap is right if the input has 0 there */
        __atomic_store_n(&rx->fast.line->word, word ^ rx->fast.stamp, __ATOMIC_RELEASE);
        break;
    case SLOT_WORD:
        __atomic_store_n(&rx->fast.line->more[first % (CW_LINE_SLOTS - 1)], (uint32_t)word, __ATOMIC_RELEASE);
        break;
    case POKE:
        at = (first * UINT64_C(256) + second) * ((first & 1) ? 8 : end->memory_size / 65536);
        length = (length < end->memory_size - at) ? length : end->memory_size - at;
        memcpy((char *)end->memory + at, data, length);
        break;
    case SEND:
        do_own(first, (second * second < MOST) ? second * second : MOST);
        break;
    default:
        if (first % 16 == 0 && ucp_worker_arm(worker) == UCS_OK) {
            (void)ucp_worker_signal(worker);
        }
        for (unsigned i = 0; i <= first % 8; i++) {
            (void)ucp_worker_progress(worker);
        }
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ucp_tag_message_h message;
    ucp_tag_recv_info_t info;
    size_t length;

    set_up();
    while (size > HEAD) {
        length = (data[0] >> 3) & 0x0f;
        length = (4 * length < size - HEAD) ? 4 * length : size - HEAD;
        one(data[0] & 0x87, data[1], data[2], data + HEAD, length);
        data += HEAD + length;
        size -= HEAD + length;
    }
    for (int i = 0; i < 20; i++) {
        (void)ucp_worker_progress(worker);
    }
    fuzz_wait(worker, ucp_ep_close_nbx(ep, &quiet), MAX_ROUNDS);
    for (int i = 0; i < 20; i++) {
        (void)ucp_worker_progress(worker);
    }
    while ((message = ucp_tag_probe_nb(worker, 0, 0, 1, &info)) != NULL) {
        fuzz_wait(worker, ucp_tag_msg_recv_nbx(worker, NULL, 0, message, &plain), MAX_ROUNDS);
    }
    return 0;
}
