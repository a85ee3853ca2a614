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

/* On a connected endpoint. `force`: enum cw_protocol_force. */
const struct cw_protocol *cw_choice(const struct ucp_ep *ep, const struct cw_send *send, unsigned force);
/* As above, for stream data. */
const struct cw_protocol *cw_choice_stream(const struct ucp_ep *ep, const struct cw_dt_cursor *cursor);

/* One-sided operations, and how announced messages come: the table is that of the operation for memory that is
 * reached in that way. `bits` 0: an atomic operation, which has no datatype. */
#define CW_CHOICE_TABLES ((CW_PROTO_OPERATIONS - CW_PROTO_PUT) * CW_REMOTE_ALL)

static inline unsigned cw_choice_table(enum cw_proto_operation operation, unsigned remote)
{
    return (unsigned)(operation - CW_PROTO_PUT) * CW_REMOTE_ALL + remote;
}

/* An announced message, as `bits`: the device knows our memory. */
#define CW_CHOICE_REGISTERED (1u << 5)

const struct cw_protocol *cw_choice_rma(const struct ucp_ep *ep, unsigned table, uint32_t bits, size_t length);
const struct cw_protocol *cw_choice_of_data(const struct ucp_ep *ep, unsigned table, const struct cw_dt_cursor *cursor,
                                            unsigned force, unsigned fast);

#endif
