/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What puts share with their protocols (src/proto/rma). A protocol that finds at its first attempt that it cannot be
 * answers UCS_ERR_UNSUPPORTED, after it has noted in the send why it is not to be chosen again.
 */
#ifndef CW_OP_PUT_H
#define CW_OP_PUT_H

#include "core/ep_round.h"
#include "op/rma.h"
#include "op/send.h"

#define CW_PUT_SHORT 256u /* bytes that are put together with the header on the stack */

extern const struct cw_send_kind cw_put_kind;
extern const struct cw_send_kind cw_put_announced_kind;
extern const struct cw_send_kind cw_put_access_kind;

/* request->send until a protocol has begun: chooses one and begins. */
ucs_status_t cw_put_attempt(struct cw_request *request);

/* The header of the next piece. */
static inline struct cw_wire_put cw_put_header(const struct cw_send *send)
{
    return (struct cw_wire_put){.token   = htole64(send->put.rkey->key.token),
                                .address = htole64(send->put.address + send->cursor.offset)};
}

/* A packet with as much as it takes; `arg`: the send (cw_pack_fn). */
size_t cw_put_pack(void *dest, size_t max, void *arg);

/* Whether packets may go; UCS_OK, or what the attempt answers. */
static inline ucs_status_t cw_put_admit(const struct cw_request *request)
{
    const struct cw_send *send = cw_request_state((struct cw_request *)(uintptr_t)request);

    return cw_rma_admit_packets(cw_op_ep(request->ep)->rma, send->put.address, send->cursor.length);
}

#endif
