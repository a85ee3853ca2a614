/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The protocols of each operation, in the order of preference.
 */
#include "proto/proto.h"

#include <stddef.h>

static const struct cw_protocol *const messages[] = {
    &cw_proto_short,
    &cw_proto_rendezvous,
    &cw_proto_eager_registered,
    &cw_proto_eager_zcopy,
    &cw_proto_eager_copy,
    &cw_proto_eager_pieces,
    NULL,
};

static const struct cw_protocol *const streams[] = {
    &cw_proto_stream_short, &cw_proto_stream_zcopy, &cw_proto_stream_copy, &cw_proto_stream_pieces, NULL,
};

static const struct cw_protocol *const put_table[] = {
    &cw_proto_put_mapped,
    &cw_proto_put_access,
    &cw_proto_put_cma,
    &cw_proto_put_rndv,
    &cw_proto_put_short,
    &cw_proto_put_zcopy,
    &cw_proto_put_copy,
    &cw_proto_put_pieces,
    NULL,
};

static const struct cw_protocol *const get_table[] = {
    &cw_proto_get_mapped, &cw_proto_get_access, &cw_proto_get_cma, &cw_proto_get_asked, NULL,
};

static const struct cw_protocol *const atomics[] = {
    &cw_proto_amo_mapped,
    &cw_proto_amo_access,
    &cw_proto_amo_packet,
    NULL,
};

static const struct cw_protocol *const announced[] = {
    &cw_proto_rndv_read,
    &cw_proto_rndv_write,
    &cw_proto_rndv_packets,
    NULL,
};

const struct cw_protocol *const *const cw_proto_tables[CW_PROTO_OPERATIONS] = {
    [CW_PROTO_TAG] = messages,      [CW_PROTO_AM] = messages,    [CW_PROTO_STREAM] = streams,
    [CW_PROTO_PUT] = put_table,     [CW_PROTO_GET] = get_table,  [CW_PROTO_AMO_POST] = atomics,
    [CW_PROTO_AMO_FETCH] = atomics, [CW_PROTO_RNDV] = announced,
};
