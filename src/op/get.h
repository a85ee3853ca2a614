/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What gets share with their protocols (src/proto/rma): the state of a get, and short gets that are asked for first
 * although the system could copy, because a peer in progress answers in a fraction of the time
 * (docs/change/one-sided.md). A protocol that finds at its attempt that it cannot be answers UCS_ERR_UNSUPPORTED, after
 * it has noted in the get why it is not to be chosen again.
 */
#ifndef CW_OP_GET_H
#define CW_OP_GET_H

#include "op/op.h"
#include "op/rma.h"
#include "plan/protocol.h"

/* What the peer was asked for, contiguous; cw_op_state->gets names it. Packets of the answer may come in any order. */
struct cw_wanted {
    struct ucp_ep *ep;
    struct cw_request *request; /* NULL: the system copied it meanwhile, and what comes is dropped */
    uint64_t length;
    uint64_t received;
    uint64_t id; /* 0: not asked for in this way */
};

struct cw_get {
    struct cw_dt_cursor cursor;
    union {
        struct cw_wanted wanted;
        struct {
            size_t left;
            ucs_status_t status; /* of the first that failed */
        } parts;
    };
    struct cw_list quick; /* rma->quick, while it was asked for and could be copied */
    const struct ucp_rkey *rkey;
    uint64_t address;
    struct cw_cma *copy; /* NULL: none */
    struct cw_access *access; /* likewise: by the device */
    uint32_t generation;
    uint8_t asked;     /* GET was sent */
    uint8_t no_copies; /* they were tried */
    uint8_t forced;    /* FORCE_IMM_CMPL */
    uint8_t late;      /* counted so */
    uint8_t fetching;  /* likewise */
    uint8_t declined;  /* not asked for first at this attempt */
};

_Static_assert(sizeof(struct cw_get) <= CW_REQUEST_STATE_SIZE, "state fits the request");

/* Receive ids with this bit are found in cw_op_state->gets; others belong to op/rndv_recv.h. */
#define CW_GET_ID (UINT64_C(1) << 31)

/* One get with a request of its own; not counted. The result is as *_nbx calls define it. */
ucs_status_ptr_t cw_get_request(struct ucp_ep *ep, void *buffer, size_t count, uint64_t address,
                                const struct ucp_rkey *rkey, const ucp_request_param_t *param);

/* For queries: whether a get may ask the owner where the system could copy. What comes late is dropped, so it must not
 * be placed. */
static inline int cw_get_asks_first(const struct cw_protocol_ask *ask)
{
    return (ask->remote & CW_REMOTE_COPIES) && (ask->remote & CW_REMOTE_OWNER) && ask->data == CW_DATA_CONTIG &&
           ask->force != CW_FORCE_EAGER && ask->lanes->input.max_placed == 0;
}

/* The attempt of a short one that asks first. */
ucs_status_t cw_get_ask_quickly(struct cw_request *request);

/* Sends the GET of a request whose answer is named `id`. */
ucs_status_t cw_get_send(struct cw_request *request, uint64_t id, uint32_t piece);

/* Packets that name a receive id with CW_GET_ID. `offset` and `length` of RNDV_DATA are the peer's. */
ucs_status_t cw_get_on_data(struct ucp_ep *ep, uint64_t id, uint64_t offset, const void *payload, uint64_t length);
ucs_status_t cw_get_refused(struct ucp_ep *ep, uint64_t id, ucs_status_t status);

#endif
