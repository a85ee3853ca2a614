/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared part of gets and their protocols (src/proto/rma): the state of a get, and short gets for which the owner is
 * asked first although the system could copy, because an owner in progress answers in a fraction of the copy's time
 * (docs/change/one-sided.md). A protocol that finds at its attempt that it is impossible returns UCS_ERR_UNSUPPORTED,
 * after it has noted in the get why it must not be chosen again.
 */
#ifndef CW_OP_GET_H
#define CW_OP_GET_H

#include "op/op.h"
#include "op/rma.h"
#include "plan/protocol.h"

/* The contiguous data for which the peer was asked; cw_op_state->gets finds it by its id. Packets of the answer may
 * come in any order. */
struct cw_wanted {
    struct ucp_ep *ep;
    struct cw_request *request; /* NULL: the system has copied the data, and the answer is dropped */
    uint64_t length;
    uint64_t received;
    uint64_t id; /* 0: the peer was not asked in this way */
};

struct cw_get {
    struct cw_dt_cursor cursor;
    union {
        struct cw_wanted wanted;
        struct {
            size_t left;
            ucs_status_t status; /* of the first part that failed */
        } parts;
    };
    struct cw_list quick; /* on rma->quick while the owner is asked and the system could copy */
    struct ucp_rkey *rkey; /* the request holds it */
    uint64_t address;
    struct cw_cma *copy;      /* NULL: none */
    struct cw_access *access; /* access by the device; NULL: none */
    uint32_t generation;
    uint8_t asked;     /* GET was sent */
    uint8_t no_copies; /* copies by the system are impossible or failed */
    uint8_t forced;    /* FORCE_IMM_CMPL */
    uint8_t late;      /* counted in rma->num_late */
    uint8_t fetching;  /* counted in rma->num_fetching */
    uint8_t declined;  /* the owner is not asked first at this attempt */
    uint8_t takes;     /* CW_WIRE_GET_NAME, CW_WIRE_GET_CHUNKS: what the owner may answer */
};

_Static_assert(sizeof(struct cw_get) <= CW_REQUEST_STATE_SIZE, "state fits the request");

/* Receive ids with this bit are found in cw_op_state->gets; others belong to op/rndv_recv.h. */
#define CW_GET_ID (UINT64_C(1) << 31)

/* A get of plain bytes by the device of the message lane (get_short.c). NULL: not possible now; nothing was begun. */
ucs_status_ptr_t cw_get_short(struct ucp_ep *ep, void *buffer, size_t length, uint64_t address,
                              const struct ucp_rkey *rkey, const ucp_request_param_t *param);
/* Begins a get with a request of its own, and does not count the message. The result is as the *_nbx calls define
 * it. */
ucs_status_ptr_t cw_get_request(struct ucp_ep *ep, void *buffer, size_t count, uint64_t address,
                                struct ucp_rkey *rkey, const ucp_request_param_t *param);

/* For queries of protocols: whether a get may ask the owner although the system could copy. An answer that comes late
 * is dropped, so the transport must not place it in the user's memory. */
static inline int cw_get_asks_first(const struct cw_protocol_ask *ask)
{
    return (ask->remote & CW_REMOTE_COPIES) && (ask->remote & CW_REMOTE_OWNER) && ask->data == CW_DATA_CONTIG &&
           ask->force != CW_FORCE_EAGER && ask->lanes->input.max_placed == 0;
}

/* The attempt of a short get that asks the owner first. */
ucs_status_t cw_get_ask_quickly(struct cw_request *request);

/* Sends the GET packet of a request; `id` names its answer. */
ucs_status_t cw_get_send(struct cw_request *request, uint64_t id, uint32_t piece);

/* Handle packets whose receive id has CW_GET_ID. `offset` and `length` of RNDV_DATA come from the peer and are not
 * checked yet. */
ucs_status_t cw_get_on_data(struct ucp_ep *ep, uint64_t id, uint64_t offset, const void *payload, uint64_t length);
ucs_status_t cw_get_refused(struct ucp_ep *ep, uint64_t id, ucs_status_t status);

#endif
