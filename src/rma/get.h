/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared part of gets and their protocols (src/proto). A protocol whose attempt finds that it cannot carry out the get
 * returns UCS_ERR_UNSUPPORTED, after recording in the get why it must not be chosen again.
 */
#ifndef CW_RMA_GET_H
#define CW_RMA_GET_H

#include "proto/protocol.h"
#include "rma/rma.h"

struct cw_get {
    struct cw_dt_cursor cursor;
    struct ucp_rkey *rkey; /* referenced by the request */
    uint64_t address;
    struct cw_access *access; /* access by the device; NULL: none */
    uint32_t generation;
    uint8_t asked;     /* GET was sent */
    uint8_t no_copies; /* copies between processes do not work */
    uint8_t forced;    /* FORCE_IMM_CMPL */
    uint8_t late;      /* counted in rma->late.count */
    uint8_t fetching;  /* counted in rma->late.fetching */
    uint8_t accepts;   /* CW_WIRE_GET_NAME, CW_WIRE_GET_CHUNKS: what the target may answer */
};

_Static_assert(sizeof(struct cw_get) <= CW_REQUEST_STATE_SIZE, "state fits the request");

/* A get of contiguous bytes by the device of the message lane (get_short.c). NULL: not possible now; nothing was begun.
 * */
ucs_status_ptr_t cw_get_short(struct ucp_ep *ep, void *buffer, size_t length, uint64_t address,
                              const struct ucp_rkey *rkey, const ucp_request_param_t *param);
/* Sends the GET packet of a request; `id` names its answer. */
ucs_status_t cw_get_send(struct cw_request *request, uint64_t id, uint32_t piece);

#endif
