/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which path a tag message, an active message or stream data of some length takes, by the plan of the interface.
 *
 * Callers: why.c.
 */
#include "why.h"

#include <stdio.h>

#include "core/lane_copies.h"
#include "proto/info.h"

static enum cw_proto_operation operation_of(enum cw_info_op op)
{
    if (op == CW_INFO_TAG) {
        return CW_PROTO_TAG;
    }
    return (op == CW_INFO_AM) ? CW_PROTO_AM : CW_PROTO_STREAM;
}

static void print_rows(const struct cw_protocol_row *rows, unsigned count, unsigned chosen)
{
    char range[64];
    unsigned i;

    for (i = 0; i < count; i++) {
        if (rows[i].last == CW_PLAN_NEVER) {
            snprintf(range, sizeof(range), "%zu..inf", rows[i].first);
        } else {
            snprintf(range, sizeof(range), "%zu..%zu", rows[i].first, rows[i].last);
        }
        printf("#   %s %20s  %s: %s\n", (i == chosen) ? "->" : "  ", range, rows[i].name, rows[i].why);
    }
}

/* The plan says what the transport can do; whether the system lets it is another matter. */
static void print_copies(const struct cw_why *why)
{
    const struct cw_transport *transport = why->chosen->transport;
    char setting[CW_WHY_SETTING_MAX];

    if (!cw_iface_copies(why->chosen)) {
        return;
    }
    if (why->ep != NULL && cw_lane_can_copy(why->ep->conn)) {
        printf("#   Copies from memory to memory were tried on the connection: they work.\n");
    } else if (transport->device_class != CW_DEVICE_SELF && !cw_context_allows(why->side.context, "cma")) {
        printf("#   Only memory that ucp_mem_map has allocated is copied from memory to memory; other memory goes in\n"
               "#   pieces, because %s does not allow cma.\n",
               cw_why_setting(why, CW_SETTING_tls, setting));
    } else if (why->ep != NULL) {
        printf("#   Only memory that ucp_mem_map has allocated is copied from memory to memory; other memory goes in\n"
               "#   pieces, because the system has refused copies between these processes.\n");
    } else {
        printf("#   Whether the system allows copies between these processes shows when they are connected.\n");
    }
}

void cw_why_message(const struct cw_why *why)
{
    const enum cw_proto_operation operation = operation_of(why->options->op);
    const size_t size = why->options->size;
    struct cw_protocol_row rows[CW_PROTOCOL_MAX_ROWS];
    char thresh[CW_WHY_SETTING_MAX], zcopy[CW_WHY_SETTING_MAX];
    const struct cw_proto_table table = {.operation = operation, .data = CW_DATA_CONTIG};
    const unsigned count = cw_proto_rows(why->side.worker, why->chosen, NULL, &table, rows);
    unsigned i = 0;

    while (i + 1 < count && rows[i].last < size) {
        i++;
    }
    printf("# The message: %s of %zu bytes uses %s\n#   %s: %s\n#\n", cw_proto_name(operation), size,
           why->chosen->transport->name, rows[i].name, rows[i].why);
    if (operation != CW_PROTO_STREAM && i + 1 == count && size >= why->chosen->plan->rndv_min) {
        print_copies(why);
    }
    printf("#   Estimated time: %.3f usec\n#\n", 1e6 * cw_protocol_estimate(rows, count, size));
    printf("# All lengths, with %s and %s\n", cw_why_setting(why, CW_SETTING_rndv_thresh, thresh),
           cw_why_setting(why, CW_SETTING_zcopy_thresh, zcopy));
    print_rows(rows, count, i);
    printf("#\n");
}
