/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The owner's part of op/cma.h: the owner copies shares of a peer's copy, to or from registered memory of this process.
 * Each claim pair of the peer has at most one helper, so a peer cannot make the owner keep more; a newer HELP for a
 * claim pair replaces the older one. The owner checks each share against the table of regions. Only the system uses the
 * peer's addresses, and only in the peer's process.
 */
#include <stdlib.h>

#include "core/ep_round.h"
#include "core/lane_copies.h"
#include "op/shares.h"
#include "op/cma.h"
#include "op/incoming.h"

struct helper {
    struct cw_incoming in;
    struct cw_job job;
    struct cw_wire_help help; /* in host order */
};

static void say(struct ucp_ep *ep, uint64_t id, ucs_status_t status)
{
    const struct cw_wire_helped packet = {.help_id = htole64(id), .status = (int32_t)htole32((uint32_t)status)};

    cw_ep_send_control(ep, CW_PACKET_HELPED, &packet, sizeof(packet));
}

static void helper_free(struct helper *helper)
{
    cw_list_remove(&helper->job.link);
    cw_incoming_detach(&helper->in);
    free(helper);
}

static void lost(struct cw_incoming *incoming, struct ucp_ep *ep CW_UNUSED, ucs_status_t status CW_UNUSED)
{
    helper_free(cw_container_of(incoming, struct helper, in));
}

static const struct cw_incoming_kind help_kind = {.lost = lost};

static ucs_status_t copy_share(struct ucp_ep *ep, const struct cw_wire_help *help, uint64_t offset, uint64_t length)
{
    struct iovec iov = {.iov_len = length};
    const int reads  = (help->way == CW_WIRE_HELP_PUT);
    ucs_status_t status;

    status = cw_mem_enter(ep->worker->context, help->token, help->address + offset, length,
                          reads ? CW_KEY_WRITE : CW_KEY_READ, &iov.iov_base);
    if (status != UCS_OK) {
        return status;
    }
    status = reads ? cw_lane_copy_from(ep->conn, &iov, 1, help->origin_address + offset, NULL)
                   : cw_lane_copy_to(ep->conn, &iov, 1, help->origin_address + offset, NULL);
    cw_mem_leave(ep->worker->context);
    return status;
}

/* Takes one share and copies it. */
static bool run(struct cw_job *job)
{
    struct helper *helper           = cw_container_of(job, struct helper, job);
    const struct cw_wire_help *help = &helper->help;
    struct ucp_ep *ep               = helper->in.ep;
    ucs_status_t status             = UCS_ERR_UNSUPPORTED;
    uint64_t offset, left;
    struct cw_claim_pair *pair;
    uint32_t share;

    if (ep->state != CW_EP_OPEN) {
        return true; /* the endpoint is about to end the helper */
    }
    if (cw_ep_is_spent(ep)) {
        cw_worker_add_job(ep->worker, job);
        return true;
    }
    if (cw_lane_can_copy(ep->conn)) {
        pair = cw_lane_claim_pair(ep->conn, 0, help->pair);
        if (cw_claim_next(&pair->claim, help->generation, cw_claim_shares(help->length, help->share), &share)) {
            offset = (uint64_t)share * help->share;
            left   = help->length - offset;
            status = copy_share(ep, help, offset, (left < help->share) ? left : help->share);
            if (status == UCS_OK) {
                cw_claim_done(&pair->done);
                cw_ep_spend(ep, help->share);
                cw_worker_add_job(ep->worker, job);
                return true;
            }
        } else {
            status = UCS_OK;
        }
    }
    say(ep, help->help_id, status);
    helper_free(helper);
    return true;
}

static struct helper *find(struct ucp_ep *ep, uint32_t pair)
{
    struct cw_incoming *incoming;
    struct helper *helper;

    cw_list_for_each(incoming, &cw_op_ep(ep)->incoming.partial, struct cw_incoming, link)
    {
        helper = cw_container_of(incoming, struct helper, in);
        if (incoming->kind == &help_kind && helper->help.pair == pair) {
            return helper;
        }
    }
    return NULL;
}

static int decode(const void *data, struct cw_wire_help *help)
{
    struct cw_wire_help packet;

    memcpy(&packet, data, sizeof(packet));
    *help = (struct cw_wire_help){.token          = le64toh(packet.token),
                                  .address        = le64toh(packet.address),
                                  .length         = le64toh(packet.length),
                                  .origin_address = le64toh(packet.origin_address),
                                  .help_id        = le64toh(packet.help_id),
                                  .share          = le32toh(packet.share),
                                  .pair           = le32toh(packet.pair),
                                  .generation     = le32toh(packet.generation),
                                  .way            = le32toh(packet.way)};
    return help->length > 0 && help->length <= UINT64_MAX - help->address && help->share >= CW_CLAIM_MIN_SHARE &&
           help->share <= CW_CLAIM_MAX_SHARE && help->pair < CW_CLAIM_PAIRS && help->generation > 0 &&
           help->generation <= CW_CLAIM_MAX_GENERATION &&
           (help->way == CW_WIRE_HELP_PUT || help->way == CW_WIRE_HELP_GET) &&
           cw_claim_shares(help->length, help->share) <= CW_CLAIM_MAX_SHARES;
}

ucs_status_t cw_cma_on_help(struct ucp_ep *ep, const void *data, size_t length CW_UNUSED)
{
    struct cw_wire_help help;
    struct helper *helper;

    if (!decode(data, &help) || ep->conn == NULL || !cw_lane_has_copies(ep->conn)) {
        return UCS_ERR_IO_ERROR;
    }
    helper = find(ep, help.pair);
    if (helper != NULL) {
        helper->help = help; /* the copy that asked before is over; the job goes on with this one */
        return UCS_OK;
    }
    helper = malloc(sizeof(*helper));
    if (helper == NULL) {
        say(ep, help.help_id, UCS_ERR_UNSUPPORTED);
        return UCS_OK;
    }
    *helper = (struct helper){.in = {.kind = &help_kind}, .job = {.run = run}, .help = help};
    cw_list_init(&helper->job.link);
    cw_incoming_add_partial(&helper->in, ep);
    cw_worker_add_job(ep->worker, &helper->job);
    return UCS_OK;
}
