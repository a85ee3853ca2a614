/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Active messages and streams of a peer that follows no rules, beside a program that uses them in any order: the input
 * is a row of steps, packets (made up of plausible parts, or of any bytes) and calls. Handlers and receives check
 * every byte that they are given, which is the one that was sent.
 */
#include "fuzz.h"

#include "am/desc.h"
#include "api/dispatch.h"
#include "core/worker.h"
#include "msg/op_ep.h"
#include "stream/stream.h"
#include "wire/packet.h"

enum { MAX_ROUNDS = 100000, MAX_RETAINED = 8, MAX_FETCHES = 8, MAX_STEPS = 400, ROOM = 70000 };

static ucp_worker_h worker;
static ucp_ep_h ep;
static void *retained[MAX_RETAINED];
static ucs_status_ptr_t requests[MAX_FETCHES];
static char fetched[MAX_FETCHES][300];
static unsigned num_retained, num_requests;
static uint8_t choice;          /* what handlers do next */

struct input {
    const uint8_t *data;
    size_t size;
};

static unsigned take(struct input *input)
{
    if (input->size == 0) {
        return 0;
    }
    input->size--;
    return *input->data++;
}

static void check(const void *data, size_t length, int own)
{
    const volatile uint8_t *bytes = data;

    for (size_t i = 0; i < length; i++) {
        fuzz_check(bytes[i] == 0x5a || !own);
    }
}

static int raw;                 /* any bytes came: nobody knows what they are */

static void start_fetch(void *data)
{
    ucp_request_param_t plain = {.op_attr_mask = 0};
    ucs_status_ptr_t result;

    if (num_requests < MAX_FETCHES) {
        result = ucp_am_recv_data_nbx(worker, data, fetched[num_requests], choice & 0x80 ? 7 : sizeof(fetched[0]),
                                      &plain);
        if (UCS_PTR_IS_PTR(result)) {
            requests[num_requests++] = result;
        }
    } else {
        ucp_am_data_release(worker, data);
    }
}

static ucs_status_t decide(void *data, int may_keep)
{
    switch (choice & 3) {
    case 0:
        if (may_keep && num_retained < MAX_RETAINED) {
            retained[num_retained++] = data;
            return UCS_INPROGRESS;
        }
        return UCS_OK;
    case 1:
        start_fetch(data);
        return choice & 4 ? UCS_INPROGRESS : UCS_OK;
    case 2:
        return UCS_ERR_NO_RESOURCE;
    default:
        if (may_keep && (choice & 4)) {
            ucp_am_data_release(worker, data);
        }
        return UCS_OK;
    }
}

static ucs_status_t handler(void *arg, const void *header, size_t header_length, void *data, size_t length,
                            const ucp_am_recv_param_t *param)
{
    const int rndv = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;

    (void)arg;
    check(header, header_length, !raw);
    if (!rndv) {
        check(data, length, !raw);
    }
    fuzz_check((param->reply_ep != NULL) == ((param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0));
    return decide(data, rndv || (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA) != 0);
}

static ucs_status_t old_handler(void *arg, void *data, size_t length, ucp_ep_h reply_ep, unsigned flags)
{
    (void)arg;
    (void)reply_ep;
    check(data, length, !raw);
    return decide(data, (flags & UCP_CB_PARAM_FLAG_DATA) != 0);
}

static const uint16_t ids[] = {3, 4, 5, 40000, 6};

static void set_handlers(void)
{
    ucp_am_handler_param_t param = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                  UCP_AM_HANDLER_PARAM_FIELD_FLAGS,
                                    .cb = handler};

    for (unsigned i = 0; i < 4; i++) {
        param.id = ids[i];
        param.flags = (i == 1) ? UCP_AM_FLAG_PERSISTENT_DATA : 0;
        fuzz_check(((i == 2) ? ucp_worker_set_am_handler(worker, ids[i], old_handler, NULL, 0) :
                               ucp_worker_set_am_recv_handler(worker, &param)) == UCS_OK);
    }
}

static void hand_up(uint8_t id, const void *fixed, size_t fixed_length, size_t length)
{
    uint8_t *packet = malloc(fixed_length + length);

    fuzz_check(packet != NULL);
    memcpy(packet, fixed, fixed_length);
    memset(packet + fixed_length, 0x5a, length);
    cw_op_packet(ep->conn, id, packet, fixed_length + length);
    free(packet);
}

static struct cw_wire_am am_of(struct input *input, unsigned *header_length)
{
    const unsigned id = take(input), header = take(input);

    *header_length = (header & 0x80) ? 0 : header;
    return (struct cw_wire_am){.handler = htole16(ids[id % 5]),
                         .flags = (id & 0x80) ? CW_WIRE_AM_REPLY : 0,
                         .header_length = htole32(*header_length + ((id & 0x78) == 0x78))};
}

static uint64_t any_length(struct input *input)
{
    const unsigned byte = take(input);

    return (byte < 200) ? byte : (uint64_t)1 << (byte - 200); /* up to 2^55 */
}

static void send_first(struct input *input)
{
    unsigned header_length;
    struct cw_wire_am_first first = {.am = am_of(input, &header_length)};

    first.total = htole64(any_length(input));
    first.message = htole32(take(input) % 70);
    hand_up(CW_PACKET_AM_FIRST, &first, sizeof(first), header_length + take(input));
}

static void send_rts(struct input *input)
{
    unsigned header_length;
    struct cw_wire_am_rts rts = {.am = am_of(input, &header_length)};

    rts.rts = (struct cw_wire_rts){.length = htole64(any_length(input)),
                                  .send_id = htole64((uint64_t)take(input) << 32),
                                  .address = htole64(any_length(input))};
    hand_up(CW_PACKET_AM_RTS, &rts, sizeof(rts), header_length);
}

/* Mostly the bytes that are expected next. */
static void send_next(struct input *input, int placed)
{
    const unsigned message = take(input), wrong = take(input);
    const size_t length = (wrong & 0x40) ? 60000 : take(input);
    struct cw_wire_next next = {.message = htole32(message % 70)};
    const struct cw_reassembly *reassembly;
    struct iovec iov;

    cw_list_for_each(reassembly, &cw_op_ep(ep)->reassembly.partial, struct cw_reassembly, link) {
        if (reassembly->in_pieces && reassembly->number == message % 70) {
            next.offset = htole64(reassembly->received + (wrong == 0xff));
        }
    }
    if (!placed) {
        hand_up(CW_PACKET_NEXT, &next, sizeof(next), length);
    } else if (cw_op_place(ep->conn, CW_PACKET_NEXT, &next, length, &iov) == 1) {
        fuzz_check(iov.iov_len == length);
        memset(iov.iov_base, 0x5a, length);
        cw_op_placed(ep->conn, CW_PACKET_NEXT, &next, length);
    }
}

static void send_stream(struct input *input)
{
    const struct cw_stream *stream = cw_op_ep(ep)->stream;
    const unsigned wrong = take(input);
    const size_t length = (wrong & 0x40) ? ROOM : take(input);
    struct cw_wire_stream_data header = {.offset = htole64((stream == NULL ? 0 : stream->arrived) +
                                                           (wrong == 0xff))};

    hand_up(CW_PACKET_STREAM_DATA, &header, sizeof(header), length);
}

static void use_stream(struct input *input)
{
    static char in[MAX_FETCHES][ROOM];
    const unsigned how = take(input);
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_DATATYPE,
                                 .flags = (how & 1) ? UCP_STREAM_RECV_FLAG_WAITALL : 0,
                                 .datatype = ucp_dt_make_contig(1 + how % 9)};
    ucp_stream_poll_ep_t polled[2];
    ucs_status_ptr_t result;
    size_t length = 0;

    if (cw_op_ep(ep)->stream != NULL) { /* it gets the credit of what it did not send itself */
        cw_op_ep(ep)->stream->sent = cw_op_ep(ep)->stream->arrived;
    }
    if (how & 0x80) {
        (void)ucp_stream_worker_poll(worker, polled, 2, 0);
    } else if (how & 0x40) {
        result = ucp_stream_recv_data_nb(ep, &length);
        if (UCS_PTR_IS_PTR(result)) {
            fuzz_check(length > 0);
            check(result, length, !raw);
            ucp_stream_data_release(ep, result);
        }
    } else if (num_requests < MAX_FETCHES) {
        result = ucp_stream_recv_nbx(ep, in[num_requests], take(input) * (how & 0x20 ? 20 : 1), &length, &param);
        if (UCS_PTR_IS_PTR(result)) {
            requests[num_requests++] = result;
        } else if (result == NULL) {
            fuzz_check(length % (1 + how % 9) == 0);
            check(in[num_requests], length, !raw);
        }
    }
}

static void any_packet(struct input *input)
{
    const unsigned id = take(input);
    size_t length = take(input);
    uint8_t *packet;

    raw = 1;
    length = (length < input->size) ? length : input->size;
    packet = malloc(length + (length == 0));
    fuzz_check(packet != NULL);
    memcpy(packet, input->data, length);
    cw_op_packet(ep->conn, (uint8_t)id, packet, length);
    free(packet);
    input->data += length;
    input->size -= length;
}

static void use_retained(struct input *input)
{
    unsigned i = take(input);
    void *data;

    if (num_retained == 0) {
        return;
    }
    i = i % num_retained;
    data = retained[i];
    retained[i] = retained[--num_retained];
    if (choice & 0x40) {
        start_fetch(data);
    } else {
        ucp_am_data_release(worker, data);
    }
}

static void step(struct input *input)
{
    const unsigned what = take(input);
    unsigned header_length;
    struct cw_wire_am am;

    choice = (uint8_t)(what >> 4) | (what & 0xc0);
    switch (what % 11) {
    case 0:
        am = am_of(input, &header_length);
        hand_up(CW_PACKET_AM_EAGER, &am, sizeof(am), header_length + take(input));
        break;
    case 1:
        send_first(input);
        break;
    case 2:
    case 3:
        send_next(input, what % 11 == 3);
        break;
    case 4:
        send_rts(input);
        break;
    case 5:
    case 6:
        send_stream(input);
        break;
    case 7:
        use_stream(input);
        break;
    case 8:
        use_retained(input);
        break;
    case 9:
        any_packet(input);
        break;
    default:
        (void)ucp_worker_progress(worker);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
    struct input input = {data, size};
    unsigned i;

    worker = fuzz_worker_with("self", UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_STREAM);
    ep = fuzz_connected(worker, MAX_ROUNDS);
    fuzz_copy_nothing(ep);
    set_handlers();
    raw = 0;
    for (i = 0; i < MAX_STEPS && input.size > 0 && ep->conn != NULL && ep->state == CW_EP_OPEN; i++) {
        step(&input);
    }
    choice = (size > 0 && data[0] & 1) ? 0x40 : 0;
    fuzz_wait(worker, ucp_ep_close_nbx(ep, &force), MAX_ROUNDS);
    for (i = 0; i < 100; i++) {
        (void)ucp_worker_progress(worker);
    }
    while (num_retained > 0) {
        use_retained(&(struct input){data, size});
    }
    for (i = 0; i < num_requests; i++) {
        fuzz_wait(worker, requests[i], MAX_ROUNDS);
    }
    num_requests = 0;
    return 0;
}
