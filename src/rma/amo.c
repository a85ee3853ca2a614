/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomic operations (rma/rma.h, docs/change/one-sided.md). If the memory is mapped here, the initiator's CPU carries
 * out the operation in the call; else the initiator sends a packet, and the target's CPU uses the same instructions. A
 * posting atomic ends when the transport accepts its packet; a fetching one waits on ep->inflight for AMO_REPLY. The
 * call copies the operands. A posting atomic that has to wait continues in an internal request, which references the
 * key: the call has reported completion, so the program may destroy the key.
 */
#include "rma/amo.h"

#include <stdlib.h>

#include "access/access.h"
#include "base/bytes.h"
#include "base/log.h"
#include "proto/select.h"
#include "rma/amo_word.h"

_Static_assert(UCP_ATOMIC_OP_ADD == (int)CW_WIRE_AMO_ADD && UCP_ATOMIC_OP_SWAP == (int)CW_WIRE_AMO_SWAP &&
                   UCP_ATOMIC_OP_CSWAP == (int)CW_WIRE_AMO_CSWAP && UCP_ATOMIC_OP_AND == (int)CW_WIRE_AMO_AND &&
                   UCP_ATOMIC_OP_OR == (int)CW_WIRE_AMO_OR && UCP_ATOMIC_OP_XOR == (int)CW_WIRE_AMO_XOR &&
                   UCP_ATOMIC_OP_LAST == (int)CW_WIRE_AMO_OPS,
               "the API and the wire use the same values");

/* ---- by CPU, at the initiator and at the target ---- */

/* Returns the value that the word had before. */
static inline uint64_t apply(void *word, enum cw_wire_amo_op op, unsigned size, uint64_t operand, uint64_t swap)
{
    if (size == sizeof(uint32_t)) {
        return cw_amo_apply32(word, op, (uint32_t)operand, (uint32_t)swap);
    }
    return cw_amo_apply64(word, op, operand, swap);
}

static bool is_aligned(const void *word, unsigned size)
{
    return ((uintptr_t)word & (size - 1)) == 0;
}

static uint64_t load(const void *value, unsigned size)
{
    uint64_t wide;
    uint32_t narrow;

    if (size == sizeof(narrow)) {
        memcpy(&narrow, value, sizeof(narrow));
        return narrow;
    }
    memcpy(&wide, value, sizeof(wide));
    return wide;
}

static void store(void *dest, unsigned size, uint64_t value)
{
    uint32_t narrow = (uint32_t)value;

    if (size == sizeof(narrow)) {
        memcpy(dest, &narrow, sizeof(narrow));
    } else {
        memcpy(dest, &value, sizeof(value));
    }
}

/* ---- initiator ---- */

ucs_status_t cw_amo_send(struct cw_conn *conn, const struct cw_amo *amo)
{
    return cw_lane_send_packet(conn, CW_PACKET_AMO, &amo->packet, sizeof(amo->packet));
}

ucs_status_t cw_amo_send_posted(struct ucp_ep *ep, const struct cw_amo *amo)
{
    ucs_status_t status = cw_amo_send(ep->conn, amo);

    if (status == UCS_OK) {
        cw_op_ep(ep)->rma->sent_mark++;
        cw_ep_add_flush_rma(ep); /* a flush has to wait for the target */
    }
    return status;
}

void cw_amo_carry_out(const struct cw_amo *amo, void *word)
{
    const uint64_t before = apply(word, (enum cw_wire_amo_op)amo->packet.op, amo->packet.size,
                                  le64toh(amo->packet.operand), le64toh(amo->packet.swap));

    if (amo->reply != NULL) {
        store(amo->reply, amo->packet.size, before);
    }
}

static CW_INLINE const struct cw_protocol *choose(const struct ucp_ep *ep, const struct cw_amo *amo)
{
    const enum cw_proto_operation operation = (amo->reply == NULL) ? CW_PROTO_AMO_POST : CW_PROTO_AMO_FETCH;
    const unsigned size = amo->packet.size;
    unsigned remote = 0;

    if (cw_amo_word(amo->rkey, cw_amo_address(amo), size) != NULL) {
        remote = CW_REMOTE_MAPPED;
    }
    if (cw_unlikely(amo->device != NULL)) {
        remote = (cw_lane_peer_domain(ep->conn) == amo->device->number) ? CW_REMOTE_ACCESS : 0;
    }
    return cw_choice_rma(ep, cw_choice_table(operation, remote), 0, size);
}

/* Each attempt chooses the protocol, because a queued operation may get its connection later. */
static ucs_status_t attempt(struct cw_request *request)
{
    ucs_status_t status = CW_AGAIN;

    if (cw_likely(request->ep->state == CW_EP_OPEN)) {
        status = choose(request->ep, cw_request_state(request))->start(request);
    }
    return cw_likely(status != UCS_ERR_UNSUPPORTED) ? status : attempt(request);
}

static CW_COLD void release_device(struct ucp_ep *ep, struct cw_amo_device *device)
{
    if (device->access != NULL && cw_op_ep(ep)->rma != NULL) {
        cw_op_ep(ep)->rma->async_puts--;
    }
    cw_access_free(device->access);
    free(device);
}

static void amo_release(struct cw_request *request)
{
    struct cw_amo *amo = cw_request_state(request);

    if (amo->packet.reply_id != 0) {
        cw_idmap_remove(&request->worker->ids, le64toh(amo->packet.reply_id));
        if (cw_op_ep(request->ep)->rma != NULL) {
            cw_op_ep(request->ep)->rma->replies--;
        }
    }
    if (amo->device != NULL) {
        release_device(request->ep, amo->device);
    }
    cw_rkey_release(amo->rkey);
    cw_rma_end(request->ep, amo->generation); /* also runs the queue */
}

/* Sends a posting atomic without a request. CW_AGAIN or CW_BLOCKED: it cannot be sent now. */
static ucs_status_t post_now(struct ucp_ep *ep, const struct cw_amo *amo)
{
    struct cw_rma *rma = cw_op_ep(ep)->rma;
    ucs_status_t status;

    if (!cw_ep_ready(ep) || !cw_list_empty(&rma->queue) || rma->running || amo->device != NULL) {
        return CW_AGAIN;
    }
    status = cw_rma_admit_packets(rma, cw_amo_address(amo), amo->packet.size);
    status = (status == UCS_OK) ? cw_amo_send_posted(ep, amo) : status;
    if (status == UCS_OK) {
        cw_count_message(ep->worker, CW_COUNT_AMO_SENT, amo->packet.size);
    }
    return status;
}

/* `param` is NULL if the program must not see the request. */
static ucs_status_ptr_t post_request(struct ucp_ep *ep, const struct cw_amo *amo, const ucp_request_param_t *param)
{
    struct cw_request *request = cw_request_get(ep->worker, param, CW_REQUEST_SEND);
    struct cw_amo *state;

    if (request == NULL) {
        free(amo->device);
        return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
    }
    state = cw_request_state(request);
    *state = *amo;
    state->generation = cw_rma_begin(cw_op_ep(ep)->rma);
    cw_rkey_hold(state->rkey);
    cw_count_message(ep->worker, CW_COUNT_AMO_SENT, amo->packet.size);
    request->ep = ep;
    request->send = attempt;
    request->release = amo_release;
    cw_trace_note(request, CW_TRACE_BEGIN, CW_COUNT_AMO_SENT, 0, amo->packet.size);
    return (param == NULL) ? cw_rma_post(request, 0, CW_RMA_AT_ONCE, NULL)
                           : cw_rma_post(request, param->op_attr_mask, CW_RMA_COLLECTED, NULL);
}

static ucs_status_ptr_t start(struct ucp_ep *ep, struct cw_amo *amo, const ucp_request_param_t *param)
{
    const uint32_t attr_mask = param->op_attr_mask;
    const int forced = (attr_mask & UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL) != 0;
    ucs_status_ptr_t result;
    ucs_status_t status;

    if (cw_rma_get(ep) == NULL) {
        free(amo->device);
        return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
    }
    if (amo->reply != NULL || ((attr_mask & UCP_OP_ATTR_FLAG_NO_IMM_CMPL) && !forced)) {
        return forced ? UCS_STATUS_PTR(UCS_ERR_NO_RESOURCE) : post_request(ep, amo, param);
    }
    status = post_now(ep, amo);
    if (status != CW_AGAIN && status != CW_BLOCKED) {
        return UCS_STATUS_PTR(status); /* NULL for UCS_OK */
    }
    if (forced) {
        return UCS_STATUS_PTR(UCS_ERR_NO_RESOURCE);
    }
    result = post_request(ep, amo, NULL);
    if (!UCS_PTR_IS_PTR(result)) {
        return result;
    }
    cw_request_release(cw_request_of(result), 0);
    return NULL;
}

/* Copies from the key what the target's device needs to carry out the operation. Returns UCS_OK or UCS_ERR_NO_MEMORY.
 * */
static CW_COLD ucs_status_t name_device(struct cw_amo *amo, const struct ucp_rkey *rkey)
{
    size_t length = 0;
    const uint8_t *part = cw_key_find_part(&rkey->parts, rkey->key.executor, &length);

    assert(part != NULL && length <= sizeof(amo->device->part)); /* cw_key_decode has checked this */
    amo->device = malloc(sizeof(*amo->device));
    if (amo->device == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    *amo->device = (struct cw_amo_device){.region = {.address = rkey->key.address, .length = rkey->key.length},
                                     .part_length = (uint8_t)length,
                                     .number = rkey->key.executor};
    cw_bytes_copy_any(amo->device->part, part, length);
    return UCS_OK;
}

static CW_COLD ucs_status_ptr_t start_device(struct ucp_ep *ep, struct cw_amo *amo, const ucp_request_param_t *param)
{
    const int forced = (param->op_attr_mask & UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL) != 0;
    ucs_status_t status = forced ? UCS_ERR_NO_RESOURCE : name_device(amo, amo->rkey);

    return (status == UCS_OK) ? start(ep, amo, param) : UCS_STATUS_PTR(status);
}

/* Starts an operation that this CPU cannot carry out in the call. noinline: keeps the code of the fast path short. */
static CW_NOINLINE ucs_status_ptr_t amo_start(struct ucp_ep *ep, enum cw_wire_amo_op op, uint64_t value, uint64_t swap,
                                              void *reply, unsigned size, uint64_t address, struct ucp_rkey *rkey,
                                              const ucp_request_param_t *param)
{
    struct cw_amo amo = {.packet = {.token = htole64(rkey->key.token),
                                  .address = htole64(address),
                                  .operand = htole64(value),
                                  .swap = htole64(swap),
                                  .op = (uint8_t)op,
                                  .size = (uint8_t)size},
                       .rkey = rkey,
                       .reply = reply};

    return cw_unlikely(rkey->key.executor != 0 && size == sizeof(uint64_t)) ? start_device(ep, &amo, param)
                                                                            : start(ep, &amo, param);
}

ucs_status_ptr_t cw_amo(struct ucp_ep *ep, enum cw_wire_amo_op op, const void *operand, void *reply, unsigned size,
                        uint64_t address, struct ucp_rkey *rkey, const ucp_request_param_t *param)
{
    char *word = cw_amo_word(rkey, address, size);
    const uint64_t value = load(operand, size);
    const uint64_t swap = (op == CW_WIRE_AMO_CSWAP) ? load(reply, size) : 0;
    struct cw_request *request = NULL;
    uint64_t before;

    if (cw_unlikely(word == NULL || !cw_rma_is_clear(ep, address, size, 1))) {
        return amo_start(ep, op, value, swap, reply, size, address, rkey, param);
    }
    if (param->op_attr_mask & UCP_OP_ATTR_FLAG_NO_IMM_CMPL) {
        request = cw_request_get(ep->worker, param, CW_REQUEST_SEND);
        if (request == NULL) {
            return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
        }
    }
    before = apply(word, op, size, value, swap);
    cw_count_message(ep->worker, CW_COUNT_AMO_SENT, size);
    if (reply != NULL) {
        store(reply, size, before);
    }
    if (request == NULL) {
        return NULL;
    }
    cw_rma_note_mapped(request, CW_COUNT_AMO_SENT, size);
    cw_request_complete(request, UCS_OK);
    return cw_request_handle(request);
}

ucs_status_t cw_amo_on_reply(struct ucp_ep *ep, const void *data, size_t length CW_UNUSED)
{
    static struct cw_log_limit limit;
    struct cw_wire_amo_reply packet;
    struct cw_request *request;
    ucs_status_t status;
    struct cw_amo *amo;
    int32_t wire_status; /* ucs_status_t has only one byte */

    memcpy(&packet, data, sizeof(packet));
    wire_status = (int32_t)le32toh((uint32_t)packet.status);
    request = cw_idmap_get(&ep->worker->ids, le64toh(packet.reply_id));
    if (request == NULL || request->ep != ep || request->send != attempt || wire_status > 0 ||
        wire_status <= UCS_ERR_LAST) {
        return UCS_ERR_IO_ERROR;
    }
    status = (ucs_status_t)wire_status;
    amo = cw_request_state(request);
    if (status == UCS_OK) {
        store(amo->reply, amo->packet.size, le64toh(packet.value));
    } else {
        cw_log_ratelimited(&limit, CW_LOG_ERROR,
                           "worker %016llx refused an atomic of endpoint %p at 0x%llx: %s; %s",
                           (unsigned long long)cw_ep_peer_uid(ep), (void *)ep, (unsigned long long)cw_amo_address(amo),
                           ucs_status_string(status),
                           cw_rma_why_refused(status));
    }
    cw_list_remove(&request->link);
    cw_request_complete(request, status);
    return UCS_OK;
}

/* ---- target ---- */

static ucs_status_t carry_out(const struct ucp_ep *ep, const struct cw_wire_amo *packet, uint64_t *before_p)
{
    struct ucp_context *context = ep->worker->context;
    const unsigned words = (packet->size == sizeof(uint64_t)) ? CW_MEM_WORDS : 0;
    ucs_status_t status;
    void *word;

    status = cw_mem_enter(context, packet->token, packet->address, packet->size,
                          cw_rma_rights(ep, packet->token, CW_KEY_READ | CW_KEY_WRITE | words), &word);
    if (status != UCS_OK) {
        return status;
    }
    if (is_aligned(word, packet->size)) {
        *before_p = apply(word, (enum cw_wire_amo_op)packet->op, packet->size, packet->operand, packet->swap);
    } else {
        status = UCS_ERR_INVALID_PARAM;
    }
    cw_mem_leave(context);
    return status;
}

ucs_status_t cw_amo_on_request(struct ucp_ep *ep, const void *data, size_t length CW_UNUSED)
{
    struct cw_wire_amo_reply reply = {.value = 0};
    struct cw_wire_amo packet;
    uint64_t before = 0;
    ucs_status_t status;

    memcpy(&packet, data, sizeof(packet));
    if (packet.op >= CW_WIRE_AMO_OPS || (packet.size != sizeof(uint32_t) && packet.size != sizeof(uint64_t))) {
        return UCS_ERR_IO_ERROR;
    }
    packet.token = le64toh(packet.token);
    packet.address = le64toh(packet.address);
    packet.operand = le64toh(packet.operand);
    packet.swap = le64toh(packet.swap);
    status = carry_out(ep, &packet, &before);
    if (status == UCS_OK) {
        cw_count_message(ep->worker, CW_COUNT_AMO_RECEIVED, packet.size);
    }
    if (packet.reply_id == 0 || status == UCS_ERR_CONNECTION_RESET) {
        if (status != UCS_OK) {
            cw_rma_refuse(ep, packet.address, packet.size, status);
        }
        return UCS_OK;
    }
    reply.reply_id = packet.reply_id;
    reply.value = htole64(before);
    reply.status = (int32_t)htole32((uint32_t)status);
    return cw_rma_answer(ep, CW_PACKET_AMO_REPLY, &reply, sizeof(reply));
}
