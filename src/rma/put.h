/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Declarations that puts share with their protocols (src/proto). A protocol whose first attempt finds that it cannot
 * carry out the put returns UCS_ERR_UNSUPPORTED, after recording in the send why it must not be chosen again.
 */
#ifndef CW_RMA_PUT_H
#define CW_RMA_PUT_H

#include "core/ep_round.h"
#include "msg/send.h"
#include "rma/rma.h"

#define CW_PUT_SHORT 256u /* bytes that are assembled with the header on the stack */

extern const struct cw_send_kind cw_put_kind;
extern const struct cw_send_kind cw_put_announced_kind;
extern const struct cw_send_kind cw_put_access_kind;

/* The attempt of a put (request->send) until a protocol has begun: chooses a protocol and begins it. */
ucs_status_t cw_put_attempt(struct cw_request *request);

/* The header of the packet that carries the next piece. */
static inline struct cw_wire_put cw_put_header(const struct cw_send *send)
{
    return (struct cw_wire_put){.token = htole64(send->put.rkey->key.token),
                              .address = htole64(send->put.address + send->cursor.offset)};
}

/* Packs the header and as many bytes as fit; `arg` is the send (cw_pack_fn). */
size_t cw_put_pack(void *dest, size_t max, void *arg);

/* UCS_OK if packets of this put may be sent now; otherwise the result of the attempt. */
static inline ucs_status_t cw_put_admit(const struct cw_request *request)
{
    const struct cw_send *send = cw_request_state((struct cw_request *)(uintptr_t)request);

    return cw_rma_admit_packets(cw_op_ep(request->ep)->rma, send->put.address, send->cursor.length);
}

#endif
