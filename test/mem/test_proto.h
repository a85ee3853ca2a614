/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rows of printed tables of protocols, and the paths that a worker's trace records, for test_proto.c.
 */
#ifndef CW_TEST_PROTO_H
#define CW_TEST_PROTO_H

#include "harness.h"

#include "core/trace.h"
#include "proto/protocol.h"
#include "sim.h"

#define CW_PROTO_NO_REQUEST (1u << 31)

/* Writes what the row for this length says into `path`, in the first table whose title begins so; 0: no such table. */
int cw_proto_row(const char *text, const char *title, size_t length, char *path, size_t size);
/* The beginning of the n-th row, counted anew behind the last one; 0: no such table. */
size_t cw_proto_border(const char *text, const char *title, unsigned n);
/* The paths of the trace that the words of a row stand for, a bit for each. */
unsigned cw_proto_paths(const char *words, enum cw_proto_operation operation);

/* The traces of the workers of this process. */
struct cw_proto_rings {
    const struct cw_trace_ring *rings[2];
    uint64_t seen[2];
    unsigned count;
    unsigned paths; /* all that was used */
};

/* The workers have UCX_TRACE. */
void cw_proto_rings_open(struct cw_proto_rings *rings, const struct cw_pair *pair);
/* What happened until now is not checked. */
void cw_proto_rings_skip(struct cw_proto_rings *rings);
/* The bit of the path of the one operation that was begun since: NO_REQUEST if it had no request, or recorded no path.
 * */
unsigned cw_proto_rings_used(struct cw_proto_rings *rings, enum cw_proto_operation operation, size_t length);

/* A datatype whose bytes lie as they are. */
ucp_datatype_t cw_proto_generic(void);

#endif
