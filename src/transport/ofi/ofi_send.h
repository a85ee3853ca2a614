/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending of packets by the transport ofi (transport/ofi/ofi_send.c).
 */
#ifndef CW_TRANSPORT_OFI_OFI_SEND_H
#define CW_TRANSPORT_OFI_OFI_SEND_H

#include "transport/ofi/ofi.h"

/* Records that all packets of the connection have a completion, or one with a completion behind them. */
static inline void cw_ofi_marked(struct ofi_iface *iface, struct ofi_conn *conn)
{
    iface->unmarked -= conn->unmarked;
    conn->unmarked = 0;
}

ucs_status_t cw_ofi_send_short(struct cw_conn *super, uint8_t id, uint64_t header, const void *payload, size_t length);
ucs_status_t cw_ofi_send_bcopy(struct cw_conn *super, uint8_t id, size_t max, cw_pack_fn pack, void *arg);
ucs_status_t cw_ofi_flush(struct cw_conn *super, struct cw_completion *completion);
int cw_ofi_has_unsent(const struct cw_iface *super);
struct cw_ofi_notice {
    enum cw_ofi_kind kind;
    uint64_t to;
    uint32_t token;
    uint32_t number; /* sequence number of an ordered packet */
    int with_entry;
    int with_reach;
    const void *bytes;
    size_t length;
};
/* Writes or sends a control packet to the connection of `to` and `token`. `conn`: this side's connection that the
 * packet names; NULL: none. Uses `slot`, or a new one if that is NULL. Returns NULL if out of memory. */
struct ofi_slot *cw_ofi_write_notify(struct ofi_iface *iface, struct ofi_conn *conn, const struct cw_ofi_notice *notice,
                                     struct ofi_slot *slot); /* does not send it */
struct ofi_slot *cw_ofi_notify(struct ofi_iface *iface, struct ofi_peer *peer, struct ofi_conn *conn,
                               const struct cw_ofi_notice *notice, struct ofi_slot *slot);
/* Sends the packet or posts the access of a slot, in order within `conn`. NULL: it belongs to no connection. */
void cw_ofi_submit(struct ofi_iface *iface, struct ofi_conn *conn, struct ofi_peer *peer, struct ofi_slot *slot);
/* Whether there is tx space for the packet or access that the connection requested last. */
int cw_ofi_has_space(const struct ofi_conn *conn);
/* Marks the connection as waiting for tx space; returns CW_AGAIN. */
ucs_status_t cw_ofi_again(struct ofi_iface *iface, struct ofi_conn *conn);
/* Handles the completion of a sent packet, or its failure with that text. Returns its connection, if that still
 * exists. */
struct ofi_conn *cw_ofi_sent(struct ofi_iface *iface, struct ofi_slot *slot, int error, const char *text);
/* Retries waiting packets; returns how many the provider accepted. */
unsigned cw_ofi_send_waiting(struct ofi_iface *iface);
unsigned cw_ofi_give_space(struct ofi_iface *iface);
/* Handles the peer's acknowledgement: the packet that it expects next. Returns 0 for an impossible number. */
int cw_ofi_peer_handled(struct ofi_conn *conn, uint32_t handled);
/* Sends an acknowledgement of the handled packets. */
void cw_ofi_notify_handled(struct ofi_conn *conn);
/* Completes the flushes that wait for no further packet; only in progress. */
void cw_ofi_end_flushes(struct ofi_conn *conn);
void cw_ofi_cancel_flushes(struct ofi_conn *conn);

#endif
