/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which protocol carries a send: the table of its operation (src/proto), asked once for messages that are alike and
 * connections in one state, and looked up for the others.
 */
#ifndef CW_OP_CHOICE_H
#define CW_OP_CHOICE_H

#include "op/send.h"

struct cw_choices;

/* On a connected endpoint. `force`: enum cw_protocol_force. */
const struct cw_protocol *cw_choice(const struct ucp_ep *ep, const struct cw_send *send, unsigned force);
/* As above, for stream data. */
const struct cw_protocol *cw_choice_stream(const struct ucp_ep *ep, const struct cw_dt_cursor *cursor);

#endif
