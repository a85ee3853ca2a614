/* SPDX-License-Identifier: BSD-3-Clause */
/* In place of src/proto/table.c: the protocol of the exercise is asked before those for longer messages. */
#include <stddef.h>

#include "halves.h"
#include "proto/proto.h"

static const struct cw_protocol *const messages[] = {
    &cw_proto_short, &cw_exercise_halves, &cw_proto_rendezvous, &cw_proto_eager_copy, &cw_proto_eager_pieces, NULL,
};

const struct cw_protocol *const *const cw_proto_tables[CW_PROTO_OPERATIONS] = {
    [CW_PROTO_TAG] = messages,
    [CW_PROTO_AM] = messages,
};
