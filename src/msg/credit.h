/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Credits limit how many bytes of eager tag messages a peer may send before the program has received the earlier ones
 * (docs/change/long-messages.md). Both sides charge each message the same amount, and the counters that they exchange
 * are monotonic.
 */
#ifndef CW_MSG_CREDIT_H
#define CW_MSG_CREDIT_H

#include "msg/op_ep.h"

#define CW_CREDIT_WINDOW  (UINT64_C(16) << 20)
#define CW_CREDIT_MESSAGE 128u /* charge of a message in addition to its bytes */

/* Sender: whether there is credit to send a message of this length eagerly. */
static inline int cw_credit_has(const struct ucp_ep *ep, size_t length)
{
    return length <= CW_CREDIT_WINDOW && cw_op_ep(ep)->credit.flying + length + CW_CREDIT_MESSAGE <= CW_CREDIT_WINDOW;
}

static inline void cw_credit_sent(struct ucp_ep *ep, size_t length)
{
    cw_op_ep(ep)->credit.flying += length + CW_CREDIT_MESSAGE;
}

/* Receiver: charges a message that arrived. Returns 0 if the peer exceeds its window. */
static inline int cw_credit_arrived(struct ucp_ep *ep, uint64_t length)
{
    const uint64_t unread = cw_op_ep(ep)->credit.unread + length + CW_CREDIT_MESSAGE;

    if (cw_unlikely(length > CW_CREDIT_WINDOW || unread > CW_CREDIT_WINDOW)) {
        return 0;
    }
    cw_op_ep(ep)->credit.unread = unread;
    return 1;
}

void cw_credit_send(struct ucp_ep *ep);

/* Receiver: counts a message that is released on arrival. It is never stored, so it cannot exceed the peer's window.
 * Returns 0, and counts nothing, if a CREDIT packet is due. */
static inline int cw_credit_passes(struct ucp_ep *ep, uint64_t length)
{
    const uint64_t unreported = cw_op_ep(ep)->credit.unreported + length + CW_CREDIT_MESSAGE;

    if (cw_unlikely(unreported >= CW_CREDIT_WINDOW / 4)) {
        return 0;
    }
    cw_op_ep(ep)->credit.unreported = unreported;
    return 1;
}

/* Receiver: as cw_credit_passes, and sends a CREDIT packet if one is due. */
static inline void cw_credit_passed(struct ucp_ep *ep, uint64_t length)
{
    if (cw_unlikely(!cw_credit_passes(ep, length))) {
        cw_op_ep(ep)->credit.unreported += length + CW_CREDIT_MESSAGE;
        cw_credit_send(ep);
    }
}

/* Receiver: counts the release of a message that cw_credit_arrived has charged. */
static inline void cw_credit_consumed(struct ucp_ep *ep, uint64_t length)
{
    cw_op_ep(ep)->credit.unread -= length + CW_CREDIT_MESSAGE;
    cw_credit_passed(ep, length);
}

ucs_status_t cw_credit_on_packet(struct ucp_ep *ep, const void *data, size_t length);

#endif
