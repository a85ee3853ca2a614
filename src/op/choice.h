/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which protocol carries a send: the table of its operation (src/proto), asked once for messages that are alike and
 * connections in one state, and looked up for the others.
 */
#ifndef CW_OP_CHOICE_H
#define CW_OP_CHOICE_H

#include "op/send.h"

struct cw_choices;
struct cw_choices_rma;

/* A one-sided operation, as far as it says which protocol carries it. */
struct cw_choice_rma {
    uint8_t operation; /* enum cw_proto_operation */
    uint8_t remote;    /* enum cw_protocol_remote */
    uint8_t force;     /* enum cw_protocol_force */
    uint8_t fast;      /* FAST_CMPL */
    uint8_t in_call;   /* nothing is queued before it */
    uint8_t data;      /* that of the cursor */
};

/* On a connected endpoint. `force`: enum cw_protocol_force. */
const struct cw_protocol *cw_choice(const struct ucp_ep *ep, const struct cw_send *send, unsigned force);
/* As above, for stream data. */
const struct cw_protocol *cw_choice_stream(const struct ucp_ep *ep, const struct cw_dt_cursor *cursor);
/* As above, for a one-sided operation. */
const struct cw_protocol *cw_choice_rma(const struct ucp_ep *ep, struct cw_choice_rma what,
                                        const struct cw_dt_cursor *cursor);

#endif
