/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prints the ways that the operations of an endpoint take: one table for each operation, kind of data and, for
 * one-sided operations, way to reach the memory; one row for each range of lengths.
 */
#include "core/proto_info.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/lane_access.h"
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
    uint64_t features; /* the tables are printed if the context has one of these */
    size_t header;     /* of a single packet */
} operations[CW_PROTO_OPERATIONS] = {
    [CW_PROTO_TAG]       = {"tag send", UCP_FEATURE_TAG, sizeof(struct cw_wire_tag)},
    [CW_PROTO_TAG_FAST]  = {"tag send with fast completion", UCP_FEATURE_TAG, sizeof(struct cw_wire_tag)},
    [CW_PROTO_AM]        = {"active message", UCP_FEATURE_AM, sizeof(struct cw_wire_am)},
    [CW_PROTO_STREAM]    = {"stream send", UCP_FEATURE_STREAM, sizeof(struct cw_wire_stream_data)},
    [CW_PROTO_PUT]       = {.name = "put", .features = UCP_FEATURE_RMA},
    [CW_PROTO_GET]       = {.name = "get", .features = UCP_FEATURE_RMA},
    [CW_PROTO_AMO_POST]  = {.name = "atomic post", .features = UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64},
    [CW_PROTO_AMO_FETCH] = {.name = "atomic fetch", .features = UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64},
    [CW_PROTO_RNDV]      = {.name = "announced message", .features = UCP_FEATURE_TAG | UCP_FEATURE_AM},
};

/* Kinds of data for which tables are printed; one packet names all entries of the list. */
static const struct {
    enum cw_protocol_data data;
    const char *name;
} kinds[] = {{CW_DATA_CONTIG, ""}, {CW_DATA_LIST, " of a list"}, {CW_DATA_PACKED, " of a generic datatype"}};

/* Ways to memory for which tables of one-sided operations are printed. */
static const struct {
    unsigned remote;
    const char *name;
} remotes[] = {{CW_REMOTE_MAPPED, " (mapped here)"},
               {CW_REMOTE_COPIES | CW_REMOTE_OWNER, " (copied by the system)"},
               {CW_REMOTE_COPIES, " (copied by the system, owner away)"},
               {CW_REMOTE_ACCESS, " (by the device)"},
               {0, " (packets)"}};

/* Messages have no way to memory; their second table is that for memory whose handle the program gives. */
#define WITH_HANDLE 1u
#define NUM_KINDS   (sizeof(kinds) / sizeof(kinds[0]))
#define NUM_REMOTES (sizeof(remotes) / sizeof(remotes[0]))
#define NUM_TABLES  (CW_PROTO_OPERATIONS * NUM_KINDS * NUM_REMOTES)

const char *cw_proto_name(enum cw_proto_operation operation)
{
    return operations[operation].name;
}

unsigned cw_proto_rows(const struct ucp_worker *worker, const struct cw_iface *iface, const struct cw_conn *conn,
                       const struct cw_proto_table *table, struct cw_protocol_row rows[CW_PROTOCOL_MAX_ROWS])
{
    const struct cw_protocol_lane lane = cw_worker_protocol_lane(worker, iface, conn);
    const struct cw_protocol_ask ask   = {.lanes         = &lane,
                                          .num_lanes     = 1,
                                          .header        = operations[table->operation].header,
                                          .data          = (uint8_t)table->data,
                                          .fast          = table->operation == CW_PROTO_TAG_FAST,
                                          .used_in_place = table->operation == CW_PROTO_AM,
                                          .in_call       = 1,
                                          .registered    = (uint8_t)table->registered,
                                          .remote        = (uint8_t)table->remote};

    return cw_protocol_rows(worker->handlers->protocols[table->operation], &ask, rows);
}

/* Whether that way to memory may occur on this interface or connection. */
static int is_reached(const struct ucp_worker *worker, const struct cw_iface *iface, struct cw_conn *conn,
                      unsigned remote)
{
    if (remote & CW_REMOTE_ACCESS) {
        return (conn != NULL) ? cw_lane_peer_domain(conn) != 0 : iface->domain != NULL;
    }
    if (remote & CW_REMOTE_COPIES) {
        return (conn != NULL) ? cw_lane_can_copy(conn) : cw_iface_copies(iface);
    }
    return remote == 0 || (iface->transport->device_class != CW_DEVICE_NET &&
                           (cw_context_allows(worker->context, "posix") || cw_context_allows(worker->context, "self")));
}

/* The n-th table and its title; 0: there is none. */
static int table_at(const struct ucp_worker *worker, const struct cw_iface *iface, struct cw_conn *conn, unsigned n,
                    struct cw_proto_table *table, char title[TITLE_SIZE])
{
    const unsigned kind = n / NUM_REMOTES % NUM_KINDS, remote = n % NUM_REMOTES;
    const char *data = kinds[kind].name, *place = "";

    *table = (struct cw_proto_table){.operation = (enum cw_proto_operation)(n / NUM_REMOTES / NUM_KINDS),
                                     .data      = kinds[kind].data};
    if (!cw_worker_has(worker, operations[table->operation].features)) {
        return 0;
    }
    if (table->operation < CW_PROTO_PUT) {
        if (remote == WITH_HANDLE && kind == 0 && table->operation != CW_PROTO_STREAM &&
            table->operation != CW_PROTO_TAG_FAST && iface->limits.max_registered > 0) {
            table->registered = 1;
            place             = " (with a memory handle)";
        } else if (remote > 0) {
            return 0;
        }
    } else {
        table->remote = remotes[remote].remote;
        place         = remotes[remote].name;
        if (table->data == CW_DATA_PACKED) {
            data = " of device memory";
        }
        if ((table->data == CW_DATA_PACKED && (worker->looks == 0 || (table->remote & CW_REMOTE_COPIES))) ||
            (table->operation == CW_PROTO_RNDV && table->remote != CW_REMOTE_ACCESS) ||
            (table->operation >= CW_PROTO_AMO_POST && (kind > 0 || (table->remote & CW_REMOTE_COPIES))) ||
            !is_reached(worker, iface, conn, table->remote)) {
            return 0;
        }
    }
    snprintf(title, TITLE_SIZE, "%s%s%s over %s/%s", cw_proto_name(table->operation), data, place, cw_iface_name(iface),
             cw_iface_device(iface));
    return 1;
}

static void print_table(const struct ucp_ep *ep, const struct cw_proto_table *table, const char *title)
{
    const struct cw_iface *iface = ep->conn->iface;
    struct cw_protocol_row rows[CW_PROTOCOL_MAX_ROWS];
    char line[LINE_SIZE], range[64];
    unsigned count, i;

    if (!is_wanted(ep->worker->context->config->proto_info, title)) {
        return;
    }
    count = cw_proto_rows(ep->worker, iface, ep->conn, table, rows);
    snprintf(line, sizeof(line), "worker %s to worker %016llx: %s", ep->worker->name,
             (unsigned long long)cw_ep_peer_uid(ep), title);
    cw_log_asked(__FILE__, __LINE__, line);
    for (i = 0; i < count; i++) {
        print_range(range, sizeof(range), &rows[i]);
        snprintf(line, sizeof(line), "| %22s | %-56s | %s/%s | %s", range, rows[i].way, cw_iface_name(iface),
                 cw_iface_device(iface), rows[i].why);
        cw_log_asked(__FILE__, __LINE__, line);
    }
}

void cw_proto_info_print(const struct ucp_ep *ep)
{
    struct cw_proto_table table;
    char title[TITLE_SIZE];
    unsigned n;

    if (ep->conn->iface->told) {
        return;
    }
    ep->conn->iface->told = 1;
    for (n = 0; n < NUM_TABLES; n++) {
        if (table_at(ep->worker, ep->conn->iface, ep->conn, n, &table, title)) {
            print_table(ep, &table, title);
        }
    }
}

void cw_proto_info_write(const struct ucp_worker *worker, const struct cw_iface *iface, struct cw_conn *conn,
                         FILE *stream)
{
    static const char rule[] = "# +----------------------+----------------------------------------------------------+"
                               "-----------------------------------------------+\n";
    struct cw_protocol_row rows[CW_PROTOCOL_MAX_ROWS];
    char title[TITLE_SIZE], range[64];
    struct cw_proto_table table;
    unsigned count, i, n;

    for (n = 0; n < NUM_TABLES; n++) {
        if (!table_at(worker, iface, conn, n, &table, title)) {
            continue;
        }
        count = cw_proto_rows(worker, iface, conn, &table, rows);
        fprintf(stream, "%s# | %-127s |\n%s", rule, title, rule);
        for (i = 0; i < count; i++) {
            print_range(range, sizeof(range), &rows[i]);
            fprintf(stream, "# | %20s | %-56s | %-45s |\n", range, rows[i].way, rows[i].why);
        }
        fprintf(stream, "%s#\n", rule);
    }
}
