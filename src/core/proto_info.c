/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prints which way messages of an endpoint take: one table per operation, one row per range of lengths.
 */
#include "core/proto_info.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "wire/packet.h"

#define TITLE_SIZE 160
#define LINE_SIZE  512

static int is_wanted(const char *setting, const char *title)
{
    if (strcasecmp(setting, "n") == 0 || strcasecmp(setting, "no") == 0 || strcmp(setting, "0") == 0) {
        return 0;
    }
    return strcasecmp(setting, "y") == 0 || strcasecmp(setting, "yes") == 0 || strcmp(setting, "1") == 0 ||
           fnmatch(setting, title, 0) == 0;
}

static void print_range(char *text, size_t size, const struct cw_protocol_row *row)
{
    if (row->last == CW_PLAN_NEVER) {
        snprintf(text, size, "%zu..inf", row->first);
    } else {
        snprintf(text, size, "%zu..%zu", row->first, row->last);
    }
}

static const struct {
    const char *name;
    uint64_t feature;
    size_t header;              /* of a single packet */
} operations[CW_PROTO_OPERATIONS] = {
    [CW_PROTO_TAG]      = {"tag send", UCP_FEATURE_TAG, sizeof(struct cw_wire_tag)},
    [CW_PROTO_TAG_FAST] = {"tag send with fast completion", UCP_FEATURE_TAG, sizeof(struct cw_wire_tag)},
    [CW_PROTO_AM]       = {"active message", UCP_FEATURE_AM, sizeof(struct cw_wire_am)},
    [CW_PROTO_STREAM]   = {"stream send", UCP_FEATURE_STREAM, sizeof(struct cw_wire_stream_data)},
};

/* Data of which tables are printed; one packet names all entries of the list. */
static const struct {
    enum cw_protocol_data data;
    const char *name;
} kinds[] = {{CW_DATA_CONTIG, ""}, {CW_DATA_LIST, " of a list"}, {CW_DATA_PACKED, " of a generic datatype"}};

#define NUM_KINDS (sizeof(kinds) / sizeof(kinds[0]))

const char *cw_proto_name(enum cw_proto_operation operation)
{
    return operations[operation].name;
}

unsigned cw_proto_rows(const struct ucp_worker *worker, const struct cw_iface *iface, const struct cw_conn *conn,
                       enum cw_proto_operation operation, enum cw_protocol_data data,
                       struct cw_protocol_row rows[CW_PROTOCOL_MAX_ROWS])
{
    const struct cw_protocol_input input = cw_worker_protocol_input(worker, iface);
    const struct cw_protocol_ask ask     = {.input         = &input,
                                            .plan          = iface->plan,
                                            .header        = operations[operation].header,
                                            .max_piece     = (conn != NULL) ? cw_conn_max_piece(conn) : input.max_bcopy,
                                            .max_whole     = (conn != NULL) ? conn->max_whole : 0,
                                            .eager_end     = (conn != NULL) ? conn->eager_end : 0,
                                            .data          = (uint8_t)data,
                                            .fast          = operation == CW_PROTO_TAG_FAST,
                                            .used_in_place = operation == CW_PROTO_AM,
                                            .in_call       = 1};

    return cw_protocol_rows(worker->handlers->protocols[operation], &ask, rows);
}

static void print_table(const struct ucp_ep *ep, enum cw_proto_operation operation, unsigned kind)
{
    const struct cw_iface *iface = ep->conn->iface;
    const char *device           = cw_iface_device(iface);
    struct cw_protocol_row rows[CW_PROTOCOL_MAX_ROWS];
    char line[LINE_SIZE], title[TITLE_SIZE], range[64];
    unsigned count, i;

    snprintf(title, sizeof(title), "%s%s over %s/%s", cw_proto_name(operation), kinds[kind].name, cw_iface_name(iface),
             device);
    if (!is_wanted(ep->worker->context->config->proto_info, title)) {
        return;
    }
    count = cw_proto_rows(ep->worker, iface, ep->conn, operation, kinds[kind].data, rows);
    snprintf(line, sizeof(line), "worker %s to worker %016llx: %s", ep->worker->name,
             (unsigned long long)cw_ep_peer_uid(ep), title);
    cw_log_asked(__FILE__, __LINE__, line);
    for (i = 0; i < count; i++) {
        print_range(range, sizeof(range), &rows[i]);
        snprintf(line, sizeof(line), "| %22s | %-56s | %s/%s | %s", range, rows[i].way, cw_iface_name(iface), device,
                 rows[i].why);
        cw_log_asked(__FILE__, __LINE__, line);
    }
}

void cw_proto_info_print(const struct ucp_ep *ep)
{
    unsigned i, kind;

    if (ep->conn->iface->told) {
        return;
    }
    ep->conn->iface->told = 1;
    for (i = 0; i < CW_PROTO_OPERATIONS; i++) {
        for (kind = 0; kind < NUM_KINDS && cw_worker_has(ep->worker, operations[i].feature); kind++) {
            print_table(ep, (enum cw_proto_operation)i, kind);
        }
    }
}

static void write_table(const struct ucp_worker *worker, const struct cw_iface *iface, const struct cw_conn *conn,
                        enum cw_proto_operation operation, unsigned kind, FILE *stream)
{
    static const char rule[] = "# +----------------------+----------------------------------------------------------+"
                               "-----------------------------------------------+\n";
    struct cw_protocol_row rows[CW_PROTOCOL_MAX_ROWS];
    char title[TITLE_SIZE], range[64];
    unsigned count, i;

    snprintf(title, sizeof(title), "%s%s over %s/%s", cw_proto_name(operation), kinds[kind].name, cw_iface_name(iface),
             cw_iface_device(iface));
    count = cw_proto_rows(worker, iface, conn, operation, kinds[kind].data, rows);
    fprintf(stream, "%s# | %-127s |\n%s", rule, title, rule);
    for (i = 0; i < count; i++) {
        print_range(range, sizeof(range), &rows[i]);
        fprintf(stream, "# | %20s | %-56s | %-45s |\n", range, rows[i].way, rows[i].why);
    }
    fprintf(stream, "%s#\n", rule);
}

void cw_proto_info_write(const struct ucp_worker *worker, const struct cw_iface *iface, const struct cw_conn *conn,
                         FILE *stream)
{
    unsigned i, kind;

    for (i = 0; i < CW_PROTO_OPERATIONS; i++) {
        for (kind = 0; kind < NUM_KINDS && cw_worker_has(worker, operations[i].feature); kind++) {
            write_table(worker, iface, conn, (enum cw_proto_operation)i, kind, stream);
        }
    }
}
