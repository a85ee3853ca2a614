/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implementation of rndv/recv_device.h.
 */
#include "rndv/recv_device.h"

#include "access/stripes.h"
#include "base/bytes.h"
#include "core/ep.h"
#include "core/lanes.h"
#include "mem/md.h"
#include "proto/select.h"

const struct cw_remote_key *cw_offer_key(const struct cw_offer_keys *keys, unsigned count, unsigned domain)
{
    unsigned i;

    for (i = 0; i < count; i++) {
        if (keys->domain[i] == domain) {
            return &keys->key[i];
        }
    }
    return NULL;
}

/* Decodes the key for the device of this lane, unless already present. Ignores a part for no lane. */
static ucs_status_t take_key(const struct cw_conn *lane, const struct cw_key_memory *memory, struct cw_offer_keys *keys,
                             uint8_t *count_p)
{
    const unsigned number = cw_lane_peer_domain(lane);
    const struct cw_domain_range range = {.address = memory->address, .length = memory->length};
    const struct cw_domain *domain = lane->iface->domain;
    size_t length = 0;
    const uint8_t *part = (number == 0) ? NULL : cw_key_find_part(&memory->parts, number, &length);

    if (part == NULL || *count_p == CW_KEY_MEMORY_PARTS || cw_offer_key(keys, *count_p, number) != NULL) {
        return UCS_OK;
    }
    if (domain->kind->read_part(domain, part, length, &range, &keys->key[*count_p]) != UCS_OK) {
        return UCS_ERR_IO_ERROR;
    }
    keys->domain[(*count_p)++] = (uint8_t)number;
    return UCS_OK;
}

ucs_status_t cw_offer_take_keys(const struct ucp_ep *ep, const struct cw_key_memory *memory, struct cw_offer_keys *keys,
                                uint8_t *count_p)
{
    ucs_status_t status;
    unsigned i;

    *count_p = 0;
    status = take_key(ep->conn, memory, keys, count_p);
    for (i = 0; status == UCS_OK && *count_p > 0 && ep->lanes != NULL && i < ep->lanes->max; i++) {
        if (ep->lanes->further[i].state == CW_FURTHER_OPEN) {
            status = take_key(ep->lanes->further[i].conn, memory, keys, count_p);
        }
    }
    return status;
}

ucs_status_t cw_offer_take_memory(const struct ucp_ep *ep, struct cw_offer *offer, const void *bytes, size_t length)
{
    struct cw_key_memory memory;

    if (length == 0) {
        return UCS_OK;
    }
    if (cw_lane_peer_domain(ep->conn) == 0 || cw_key_memory_decode(bytes, length, &memory) != UCS_OK ||
        offer->length > memory.length || offer->address - memory.address > memory.length - offer->length ||
        offer->address < memory.address) {
        return UCS_ERR_IO_ERROR;
    }
    return cw_offer_take_keys(ep, &memory, &offer->keys, &offer->num_keys);
}

const struct cw_protocol *cw_rndv_recv_device_choose(struct ucp_ep *ep, const struct cw_offer *offer,
                                                     const struct cw_dt_cursor *cursor)
{
    struct cw_domain *domain = ep->conn->iface->domain;
    const unsigned table = cw_choice_table(CW_PROTO_RNDV, (offer->num_keys > 0) ? CW_REMOTE_ACCESS : 0);
    const struct cw_protocol *protocol;
    struct cw_mem_part part;
    uint32_t bits = CW_DATA_CONTIG;

    if (cw_lane_peer_domain(ep->conn) == 0 || !cw_choice_is_flat(ep->conn, cursor) ||
        !(domain->attr.memory_types & CW_MEMORY_BIT(cw_dt_memory_type(cursor)))) {
        return NULL;
    }
    part = (struct cw_mem_part){cursor->contig, offer->length, cw_dt_memory_type(cursor)};
    if (cw_mem_use_is_cheap(ep->worker->context, domain, &part)) {
        bits |= CW_CHOICE_REGISTERED;
    }
    protocol = cw_choice_rma(ep, table, bits, offer->length);
    return (protocol->start != NULL) ? protocol : NULL;
}

static void release(struct cw_request *request)
{
    const struct cw_rndv_recv_device *receive = cw_request_state(request);

    cw_access_free(receive->access);
}

/* Callback of the transfer's request: the registration has ended. */
static void over(void *handle, ucs_status_t status, void *user_data CW_UNUSED)
{
    struct cw_request *request = cw_request_of(handle);
    const struct cw_rndv_recv_device *receive = cw_request_state(request);

    if (request->ep->state == CW_EP_OPEN) { /* otherwise the receive ends with the endpoint */
        receive->ended(receive->receive, status);
    }
}

static void accesses_ended(struct cw_request *request, ucs_status_t status)
{
    cw_list_remove(&request->link);
    cw_request_complete(request, status);
}

struct cw_request *cw_rndv_recv_device_begin(struct ucp_ep *ep, const struct cw_protocol *protocol,
                                             const struct cw_rndv_recv_device *what)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK, .cb.send = over};
    struct cw_request *request = cw_request_get(ep->worker, &param, CW_REQUEST_SEND);
    struct cw_rndv_recv_device *receive;

    if (request == NULL) {
        return NULL;
    }
    receive = cw_request_state(request);
    *receive = *what;
    request->ep = ep;
    receive->access = cw_access_new(request, accesses_ended);
    if (receive->access == NULL) {
        cw_request_put(request);
        return NULL;
    }
    receive->access->memory_type = receive->type;
    if (receive->num_keys > 0) {
        receive->access->key = receive->keys->key[0];
    }
    request->release = release;
    request->send = protocol->start;
    cw_request_release(request, 1);
    cw_ep_queue(ep, request);
    cw_ep_reap_later(ep); /* which sends from the queue, outside of upcalls */
    return request;
}

ucs_status_t cw_rndv_recv_device_register(struct cw_request *request, unsigned rights)
{
    struct cw_rndv_recv_device *receive = cw_request_state(request);
    struct cw_domain *domain = request->ep->conn->iface->domain;
    struct ucp_context *context = request->ep->worker->context;
    const struct cw_mem_part part = cw_rndv_recv_device_part(receive);

    return cw_mem_use_begin(context, domain, &part, rights, &receive->access->use);
}

struct counted_keys {
    const struct cw_offer_keys *keys;
    unsigned count;
};

static int find_key(const void *arg, const struct cw_conn *lane, struct cw_remote_key *key)
{
    const struct counted_keys *all = arg;
    const struct cw_remote_key *found = cw_offer_key(all->keys, all->count, cw_lane_peer_domain(lane));

    *key = (found == NULL) ? *key : *found;
    return found != NULL;
}

void cw_offer_share(struct cw_access *access, const struct cw_mem_part *part, unsigned rights,
                    const struct cw_offer_keys *keys, unsigned count)
{
    const struct counted_keys all = {keys, count};

    if (count > 1) {
        cw_stripes_begin(access, part, rights, cw_lanes_for_rndv(access->request->worker));
        cw_stripes_keys(access, find_key, &all);
    }
}

ucs_status_t cw_rndv_recv_device_offer(struct cw_request *request)
{
    const struct cw_rndv_recv_device *receive = cw_request_state(request);
    struct cw_access *access = receive->access;
    const struct cw_access_limits *limits = &request->ep->conn->iface->limits.access;
    const struct cw_mem_part part = cw_rndv_recv_device_part(receive);
    const unsigned rails = cw_lanes_for_rndv(request->worker);
    uint8_t packet[CW_CONTROL_MAX], parts[CW_KEY_PARTS_MAX];
    const struct cw_wire_rndv_ready ready = {.send_id = htole64(receive->send_id),
                                          .receive_id = htole64(receive->receive_id),
                                          .address = htole64((uint64_t)(uintptr_t)receive->memory),
                                          .mode = htole32(CW_WIRE_RNDV_WRITE),
                                          .piece = htole32(CW_WIRE_LEAST_PIECE)};
    size_t length;

    _Static_assert(sizeof(ready) + 1 + CW_DOMAIN_PART_MAX <= sizeof(packet), "one part has space");
    if (rails > 1) {
        cw_lanes_expect(request->ep, receive->length, limits->max_put_zcopy);
        cw_stripes_begin(access, &part, CW_RIGHT_LOCAL_WRITE | CW_RIGHT_REMOTE_WRITE, rails);
    }
    length = cw_stripes_parts(access, parts);
    if (length > sizeof(packet) - sizeof(ready)) {
        cw_stripes_free(access->stripes);
        access->stripes = NULL;
        length = cw_stripes_parts(access, parts);
    }
    memcpy(packet, &ready, sizeof(ready));
    cw_bytes_copy_any(packet + sizeof(ready), parts, length);
    cw_ep_send_control(request->ep, CW_PACKET_RNDV_READY, packet, sizeof(ready) + length);
    return UCS_INPROGRESS;
}

ucs_status_t cw_rndv_recv_device_written(struct cw_request *request, ucs_status_t status)
{
    const struct cw_rndv_recv_device *receive = cw_request_state(request);

    if (!receive->is_written) {
        return UCS_ERR_IO_ERROR;
    }
    accesses_ended(request, status);
    return UCS_OK;
}
