/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accesses to the memory of peers by the transport ofi (transport/ofi/ofi_access.c).
 */
#ifndef CW_TRANSPORT_OFI_OFI_ACCESS_H
#define CW_TRANSPORT_OFI_OFI_ACCESS_H

#include "transport/ofi/ofi.h"

extern const struct cw_transport_access cw_ofi_access;

void cw_ofi_access_limits(struct ofi_iface *iface);
/* Writes struct cw_ofi_reach and the address behind it. Returns their length; 0: memory of this side is out of
 * reach. */
size_t cw_ofi_reach_write(const struct ofi_iface *iface, char *to);
/* Reads the bytes that the peer wrote so, which may be any: its memory is out of reach after wrong ones. */
void cw_ofi_reach_read(struct ofi_conn *conn, const char *bytes, size_t length);
/* Hands an access to the provider. Returns 0 when the provider did not take it. */
int cw_ofi_access_post(struct ofi_iface *iface, struct ofi_slot *slot);
/* An access that waits cannot be carried out any more; progress ends it. */
void cw_ofi_access_refuse(struct ofi_iface *iface, struct ofi_slot *slot, int error);
/* A call of the provider for that slot is complete, or failed with that text. */
void cw_ofi_accessed(struct ofi_iface *iface, struct ofi_slot *slot, int error, const char *text);
/* Ends the accesses in `over`. Returns how many. */
unsigned cw_ofi_access_settle(struct ofi_iface *iface);
/* Ends all accesses of a connection that is not open any more; calls their completions. */
void cw_ofi_accesses_end(struct ofi_conn *conn, ucs_status_t status);
/* From now on nothing is written to memory of the program, and no further access goes out. */
void cw_ofi_accesses_abandon(struct ofi_conn *conn);
/* Sends a BYE as soon as no access of the connection is under way, because peers give memory back after it. */
void cw_ofi_access_bye(struct ofi_conn *conn, struct ofi_slot *bye);

#endif
