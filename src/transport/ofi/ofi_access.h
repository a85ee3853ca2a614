/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Remote memory access of the transport ofi (transport/ofi/ofi_access.c).
 */
#ifndef CW_TRANSPORT_OFI_OFI_ACCESS_H
#define CW_TRANSPORT_OFI_OFI_ACCESS_H

#include "transport/ofi/ofi.h"

extern const struct cw_transport_access cw_ofi_access;

void cw_ofi_access_limits(struct ofi_iface *iface);
/* Writes struct cw_ofi_reach and the address behind it. Returns their length; 0: memory of this side is not remotely
 * accessible. */
size_t cw_ofi_reach_write(const struct ofi_iface *iface, char *to);
/* Decodes what the peer's cw_ofi_reach_write wrote; untrusted: after invalid bytes its memory is inaccessible. */
void cw_ofi_reach_read(struct ofi_conn *conn, const char *bytes, size_t length);
/* Posts an access. Returns 0 if the provider did not accept it. */
int cw_ofi_access_post(struct ofi_iface *iface, struct ofi_slot *slot);
/* Fails a waiting access; progress ends it. */
void cw_ofi_access_refuse(struct ofi_iface *iface, struct ofi_slot *slot, int error);
/* Handles the completion of a provider operation for that slot, or its failure with that text. */
void cw_ofi_accessed(struct ofi_iface *iface, struct ofi_slot *slot, int error, const char *text);
/* Ends the accesses in iface->over. Returns how many. */
unsigned cw_ofi_access_settle(struct ofi_iface *iface);
/* Ends all accesses of a connection that is no longer open; calls their completions. */
void cw_ofi_accesses_end(struct ofi_conn *conn, ucs_status_t status);
/* Afterwards nothing is written to memory of the program, and no further access is posted. */
void cw_ofi_accesses_abandon(struct ofi_conn *conn);
/* Sends a BYE once no access of the connection is in flight, because peers release memory after it. */
void cw_ofi_access_bye(struct ofi_conn *conn, struct ofi_slot *bye);

#endif
