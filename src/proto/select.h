/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Protocol selection for a send. The table of the operation (src/proto) is evaluated once for similar messages and
 * connections in the same state; the worker caches the result.
 */
#ifndef CW_PROTO_SELECT_H
#define CW_PROTO_SELECT_H

#include <stdbool.h>

#include "msg/send.h"

struct cw_choices;
struct cw_choices_rma;

/* Returns the protocol of a send. The endpoint must be connected; `force` is of enum cw_protocol_force. */
const struct cw_protocol *cw_choice(const struct ucp_ep *ep, const struct cw_send *send, unsigned force);
/* Returns the protocol of stream data. The endpoint must be connected. */
const struct cw_protocol *cw_choice_stream(const struct ucp_ep *ep, const struct cw_dt_cursor *cursor);

/* Protocols of one-sided operations and of the transfer of announced messages. One table for each operation and each
 * value of enum cw_protocol_remote. `bits` is 0 for an atomic operation, which has no datatype. */
#define CW_CHOICE_TABLES ((CW_PROTO_OPERATIONS - CW_PROTO_PUT) * CW_REMOTE_ALL)

static inline unsigned cw_choice_table(enum cw_proto_operation operation, unsigned remote)
{
    return (unsigned)(operation - CW_PROTO_PUT) * CW_REMOTE_ALL + remote;
}

/* Bits of `bits`. REGISTERED, for an announced message: the device knows the receiver's memory. */
#define CW_CHOICE_FAST       (1u << 4)
#define CW_CHOICE_REGISTERED (1u << 5)
#define CW_CHOICE_ON_DEVICE  (1u << 6)

/* Whether the data is contiguous memory that the device of the lane may access itself. */
bool cw_choice_is_flat(const struct cw_conn *lane, const struct cw_dt_cursor *cursor);

const struct cw_protocol *cw_choice_rma(const struct ucp_ep *ep, unsigned table, uint32_t bits, size_t length);
const struct cw_protocol *cw_choice_of_data(const struct ucp_ep *ep, unsigned table, const struct cw_dt_cursor *cursor,
                                            unsigned force, uint32_t bits);

#endif
