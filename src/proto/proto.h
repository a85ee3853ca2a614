/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The protocols, in files by operation. To add one: its functions, a line here, and an entry in the tables of table.c,
 * which are searched in order (docs/ARCHITECTURE.md, "Protocols").
 */
#ifndef CW_PROTO_PROTO_H
#define CW_PROTO_PROTO_H

#include "proto/protocol.h"

/* By enum cw_proto_operation; each table ends with NULL. */
extern const struct cw_protocol *const *const cw_proto_tables[CW_PROTO_OPERATIONS];

/* The row of single packets with a header of that length whose data are not copied; eager.c. */
int cw_proto_zcopy_row(const struct cw_protocol_ask *ask, size_t header, struct cw_protocol_row *row);
/* The query of a put or get that the kernel copies; put.c. */
int cw_proto_copies_query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row);

extern const struct cw_protocol cw_proto_short;
extern const struct cw_protocol cw_proto_rendezvous;
extern const struct cw_protocol cw_proto_eager_registered;
extern const struct cw_protocol cw_proto_eager_zcopy;
extern const struct cw_protocol cw_proto_eager_copy;
extern const struct cw_protocol cw_proto_eager_pieces;

extern const struct cw_protocol cw_proto_stream_short;
extern const struct cw_protocol cw_proto_stream_zcopy;
extern const struct cw_protocol cw_proto_stream_copy;
extern const struct cw_protocol cw_proto_stream_pieces;

extern const struct cw_protocol cw_proto_put_mapped;
extern const struct cw_protocol cw_proto_put_access;
extern const struct cw_protocol cw_proto_put_cma;
extern const struct cw_protocol cw_proto_put_rndv;
extern const struct cw_protocol cw_proto_put_short;
extern const struct cw_protocol cw_proto_put_zcopy;
extern const struct cw_protocol cw_proto_put_copy;
extern const struct cw_protocol cw_proto_put_pieces;

extern const struct cw_protocol cw_proto_get_mapped;
extern const struct cw_protocol cw_proto_get_access;
extern const struct cw_protocol cw_proto_get_cma;
extern const struct cw_protocol cw_proto_get_asked;

extern const struct cw_protocol cw_proto_amo_mapped;
extern const struct cw_protocol cw_proto_amo_access;
extern const struct cw_protocol cw_proto_amo_packet;

extern const struct cw_protocol cw_proto_rndv_read;
extern const struct cw_protocol cw_proto_rndv_write;
extern const struct cw_protocol cw_proto_rndv_packets;

#endif
