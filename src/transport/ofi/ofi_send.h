/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets that leave by the transport ofi (transport/ofi/ofi_send.c).
 */
#ifndef CW_TRANSPORT_OFI_OFI_SEND_H
#define CW_TRANSPORT_OFI_OFI_SEND_H

#include "transport/ofi/ofi.h"

/* All packets of the connection have a completion, or one with a completion behind them. */
static inline void cw_ofi_marked(struct ofi_iface *iface, struct ofi_conn *conn)
{
    iface->unmarked -= conn->unmarked;
    conn->unmarked = 0;
}

ucs_status_t cw_ofi_send_short(struct cw_conn *super, uint8_t id, uint64_t header, const void *payload, size_t length);
ucs_status_t cw_ofi_send_bcopy(struct cw_conn *super, uint8_t id, size_t max, cw_pack_fn pack, void *arg);
ucs_status_t cw_ofi_flush(struct cw_conn *super, struct cw_completion *completion);
int cw_ofi_owes(const struct cw_iface *super);
struct cw_ofi_told {
    enum cw_ofi_kind kind;
    uint64_t to;
    uint32_t token;
    uint32_t number; /* number of a packet in order */
    int with_entry;
    int with_reach;
    const void *bytes;
    size_t length;
};
/* Sends a control packet to the connection of `to` and `token`. `conn`: this side's connection that the packet names;
 * NULL: none. Uses `slot`, or one of its own if that is NULL. NULL: no memory. */
struct ofi_slot *cw_ofi_write_told(struct ofi_iface *iface, struct ofi_conn *conn, const struct cw_ofi_told *told,
                                   struct ofi_slot *slot); /* without sending it */
struct ofi_slot *cw_ofi_tell(struct ofi_iface *iface, struct ofi_peer *peer, struct ofi_conn *conn,
                             const struct cw_ofi_told *told, struct ofi_slot *slot);
/* Sends the packet, or begins the access, of a slot in its turn: of a connection or (`conn` NULL) of none. */
void cw_ofi_submit(struct ofi_iface *iface, struct ofi_conn *conn, struct ofi_peer *peer, struct ofi_slot *slot);
/* Whether there is room for the packet or access that the connection asked for last. */
int cw_ofi_has_space(const struct ofi_conn *conn);
/* Notes that the connection waits for room; returns CW_AGAIN. */
ucs_status_t cw_ofi_again(struct ofi_iface *iface, struct ofi_conn *conn);
/* A packet of this side is complete, or failed with that text. Returns its connection, if that still exists. */
struct ofi_conn *cw_ofi_sent(struct ofi_iface *iface, struct ofi_slot *slot, int error, const char *text);
/* Offers waiting packets to the provider again; returns how many it took. */
unsigned cw_ofi_send_waiting(struct ofi_iface *iface);
unsigned cw_ofi_give_space(struct ofi_iface *iface);
/* The peer told which packet it expects next. Returns 0 for a number that cannot be. */
int cw_ofi_peer_handled(struct ofi_conn *conn, uint32_t handled);
/* Tells the peer which packets were handled. */
void cw_ofi_tell_handled(struct ofi_conn *conn);
/* Completes the flushes that wait for no packet any more; inside progress. */
void cw_ofi_end_flushes(struct ofi_conn *conn);
void cw_ofi_cancel_flushes(struct ofi_conn *conn);

#endif
