/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What get.c, get_quick.c and get_parts.c share: the state of a get, short gets that are asked for first although the
 * system could copy, because a peer that is in progress answers in a fraction of the time, and long ones that are cut
 * into short ones (docs/RMA.md).
 */
#ifndef CW_OP_GET_H
#define CW_OP_GET_H

#include "op/op.h"
#include "op/rma.h"

/* What the peer was asked for, contiguous; cw_op_state->gets names it. Packets of the answer may come in any order. */
struct cw_wanted {
    struct ucp_ep *ep;
    struct cw_request *request;     /* NULL: the system copied it meanwhile, and what comes is dropped */
    uint64_t length;
    uint64_t received;
    uint64_t id;                    /* 0: not asked for in this way */
};

struct cw_get {
    struct cw_dt_cursor cursor;
    struct cw_wanted wanted;
    struct cw_list quick;           /* rma->quick, while it was asked for and could be copied */
    const struct ucp_rkey *rkey;
    uint64_t address;
    struct cw_copy *copy;           /* NULL: none */
    uint32_t generation;
    uint8_t asked;                  /* GET was sent */
    uint8_t no_copies;              /* they were tried */
    uint8_t forced;                 /* FORCE_IMM_CMPL */
    uint8_t late;                   /* counted so */
};

_Static_assert(sizeof(struct cw_get) <= CW_REQUEST_STATE_SIZE, "state fits the request");

/* Receive ids with this bit are found in cw_op_state->gets; others belong to op/fetch.h. */
#define CW_GET_ID (UINT64_C(1) << 31)

/* One get with a request of its own; not counted. The result is as *_nbx calls define it. */
ucs_status_ptr_t cw_get_request(struct ucp_ep *ep, void *buffer, size_t count, uint64_t address, struct ucp_rkey *rkey,
                                const ucp_request_param_t *param);

/* Whether it is to be asked for in parts; and that, with the result as above. */
int cw_get_has_parts(struct ucp_ep *ep, uint64_t length, uint64_t address, const struct ucp_rkey *rkey,
                     const ucp_request_param_t *param);
ucs_status_ptr_t cw_get_in_parts(struct ucp_ep *ep, void *buffer, uint64_t length, uint64_t address,
                                 struct ucp_rkey *rkey, const ucp_request_param_t *param);

/* Whether a request is to be asked for first; and the attempt: UCS_INPROGRESS, or CW_HOLD, CW_AGAIN. */
int cw_get_is_quick(struct cw_request *request);
ucs_status_t cw_get_ask_quickly(struct cw_request *request);

/* Sends the GET of a request whose answer is named `id`. */
ucs_status_t cw_get_send(struct cw_request *request, uint64_t id, uint32_t piece);

/* Packets that name a receive id with CW_GET_ID. `offset` and `length` of RNDV_DATA are the peer's. */
ucs_status_t cw_get_on_data(struct ucp_ep *ep, uint64_t id, uint64_t offset, const void *payload, uint64_t length);
ucs_status_t cw_get_refused(struct ucp_ep *ep, uint64_t id, ucs_status_t status);

#endif
