/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prints the protocols of an endpoint: one table for each operation, kind of data and, for one-sided operations, kind
 * of access to the memory; one row for each range of lengths.
 */
#include "core/lane_copies.h"
#include "proto/info.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "core/lane_access.h"
#include "mem/device.h"
#include "wire/packet.h"

#define TITLE_SIZE 160
#define LINE_SIZE  512

static bool is_wanted(const char *setting, const char *title)
{
    if (strcasecmp(setting, "n") == 0 || strcasecmp(setting, "no") == 0 || strcmp(setting, "0") == 0) {
        return false;
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
    [CW_PROTO_TAG] = {"tag send", UCP_FEATURE_TAG, sizeof(struct cw_wire_tag)},
    [CW_PROTO_AM] = {"active message", UCP_FEATURE_AM, sizeof(struct cw_wire_am)},
    [CW_PROTO_STREAM] = {"stream send", UCP_FEATURE_STREAM, sizeof(struct cw_wire_stream_data)},
    [CW_PROTO_PUT] = {.name = "put", .features = UCP_FEATURE_RMA},
    [CW_PROTO_GET] = {.name = "get", .features = UCP_FEATURE_RMA},
    [CW_PROTO_AMO_POST] = {.name = "atomic post", .features = UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64},
    [CW_PROTO_AMO_FETCH] = {.name = "atomic fetch", .features = UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64},
    [CW_PROTO_RNDV] = {.name = "announced message", .features = UCP_FEATURE_TAG | UCP_FEATURE_AM},
};

/* Kinds of data for which tables are printed; one packet names all entries of the list. Memory of a GPU is contiguous;
 * a list of it is packed like a generic datatype. One-sided operations take no generic datatype. */
static const struct {
    enum cw_protocol_data data;
    int on_device;
    const char *name;
} kinds[] = {{CW_DATA_CONTIG, 0, ""},
             {CW_DATA_LIST, 0, " of a list"},
             {CW_DATA_PACKED, 0, " of a generic datatype"},
             {CW_DATA_PACKED, 1, " of device memory"}};

/* Further dimensions of the tables: the memory handle of a message; the access of a one-sided operation to the remote
 * memory; the registrations of both sides for an announced message. */
struct variant {
    const char *name;
    unsigned remote;
    int registered;
    int on_device; /* the peer's memory is GPU memory */
};

#define NUM_VARIANTS 5u

static const struct variant variants_of_messages[NUM_VARIANTS] = {{.name = ""},
                                                                  {.name = " (with a memory handle)", .registered = 1}};

static const struct variant variants_of_accesses[NUM_VARIANTS] = {
    {.name = " (mapped here)", .remote = CW_REMOTE_MAPPED},
    {.name = " (copied by the system)", .remote = CW_REMOTE_COPIES},
    {.name = " (by the device)", .remote = CW_REMOTE_ACCESS},
    {.name = " (packets)", .remote = 0},
    {.name = " (packets to device memory)", .remote = 0, .on_device = 1}};

static const struct variant variants_of_announced[NUM_VARIANTS] = {
    {.name = " (named, by the device)", .remote = CW_REMOTE_ACCESS},
    {.name = " (named, by the device, registered here)", .remote = CW_REMOTE_ACCESS, .registered = 1},
    {.name = " (not named, by the device)", .remote = 0},
    {.name = " (not named, by the device, registered here)", .remote = 0, .registered = 1}};

#define NUM_KINDS  (sizeof(kinds) / sizeof(kinds[0]))
#define NUM_TABLES (CW_PROTO_OPERATIONS * 2u * NUM_KINDS * NUM_VARIANTS)

const char *cw_proto_name(enum cw_proto_operation operation)
{
    return operations[operation].name;
}

unsigned cw_proto_rows(const struct ucp_worker *worker, const struct cw_iface *iface, const struct cw_conn *conn,
                       const struct cw_proto_table *table, struct cw_protocol_row rows[CW_PROTOCOL_MAX_ROWS])
{
    const struct cw_protocol_lane lane = cw_worker_protocol_lane(worker, iface, conn);
    const struct cw_protocol_ask ask = {.lanes = &lane,
                                .num_lanes = 1,
                                .header = operations[table->operation].header,
                                .data = (uint8_t)table->data,
                                .fast = (uint8_t)table->fast,
                                .used_in_place = table->operation == CW_PROTO_AM,
                                .in_call = 1,
                                .registered = (uint8_t)table->registered,
                                .on_device = (uint8_t)table->on_device,
                                .remote = (uint8_t)table->remote};

    return cw_protocol_rows(worker->handlers->protocols[table->operation], &ask, rows);
}

/* Whether the device of the interface reaches the peer's memory. */
static bool has_access(const struct cw_iface *iface, struct cw_conn *conn)
{
    return (conn != NULL) ? cw_lane_peer_domain(conn) != 0 : iface->domain != NULL;
}

/* Whether that access to memory may occur on this interface or connection. */
static bool is_reached(const struct ucp_worker *worker, const struct cw_iface *iface, struct cw_conn *conn,
                       const struct cw_proto_table *table)
{
    if (table->remote & CW_REMOTE_ACCESS) {
        return has_access(iface, conn) && (table->operation != CW_PROTO_PUT || iface->limits.access.max_put_bcopy > 0);
    }
    if (table->remote & CW_REMOTE_COPIES) {
        return (conn != NULL) ? cw_lane_can_copy(conn) : cw_iface_copies(iface);
    }
    return table->remote == 0 ||
           (iface->transport->device_class != CW_DEVICE_NET &&
            (cw_context_allows(worker->context, "posix") || cw_context_allows(worker->context, "self")));
}

/* Sets data and variant for GPU memory, which the device of the interface may access like host memory. */
static void set_device_data(const struct ucp_worker *worker, const struct cw_iface *iface, struct cw_proto_table *table)
{
    int type, is_taken = 0;

    for (type = UCS_MEMORY_TYPE_HOST + 1; type < UCS_MEMORY_TYPE_LAST && iface->domain != NULL; type++) {
        is_taken |= cw_context_knows(worker->context, (ucs_memory_type_t)type) &&
                    cw_device_regs_suit(iface->domain, (ucs_memory_type_t)type);
    }
    if (is_taken && (table->operation == CW_PROTO_RNDV ? table->registered : (table->remote & CW_REMOTE_ACCESS) != 0) &&
        table->operation != CW_PROTO_AMO_POST && table->operation != CW_PROTO_AMO_FETCH) {
        table->data = CW_DATA_CONTIG;
    }
    table->on_device = table->operation < CW_PROTO_PUT && table->operation != CW_PROTO_STREAM;
}

/* Whether messages are printed for fast completion as well: where that makes a difference, and for tag messages. */
static bool is_fast_outlined(const struct cw_iface *iface, enum cw_proto_operation operation)
{
    return operation == CW_PROTO_TAG || ((operation == CW_PROTO_AM || operation == CW_PROTO_PUT) &&
                                         iface->plan->rndv_fast_min != iface->plan->rndv_min);
}

static bool has_message_table(const struct cw_iface *iface, const struct cw_proto_table *table)
{
    return !table->registered || (table->data == CW_DATA_CONTIG && !table->fast &&
                                  table->operation != CW_PROTO_STREAM && iface->limits.max_registered > 0);
}

static bool has_access_table(const struct ucp_worker *worker, const struct cw_iface *iface, struct cw_conn *conn,
                             const struct cw_proto_table *table)
{
    if ((table->operation >= CW_PROTO_AMO_POST && table->data != CW_DATA_CONTIG) ||
        (table->operation != CW_PROTO_PUT && table->on_device) || (table->on_device && worker->checked_attr == 0)) {
        return false;
    }
    if (table->operation == CW_PROTO_RNDV) {
        return has_access(iface, conn);
    }
    return !(table->remote & CW_REMOTE_COPIES && (table->data == CW_DATA_PACKED || table->operation > CW_PROTO_GET)) &&
           is_reached(worker, iface, conn, table);
}

static const struct variant *variants_of(enum cw_proto_operation operation)
{
    if (operation == CW_PROTO_RNDV) {
        return variants_of_announced;
    }
    return (operation < CW_PROTO_PUT) ? variants_of_messages : variants_of_accesses;
}

/* The n-th table and its title; 0: there is none. */
static int table_at(const struct ucp_worker *worker, const struct cw_iface *iface, struct cw_conn *conn, unsigned n,
                    struct cw_proto_table *table, char title[TITLE_SIZE])
{
    const unsigned kind = n / NUM_VARIANTS % NUM_KINDS, fast = n / NUM_VARIANTS / NUM_KINDS % 2;
    const enum cw_proto_operation operation = (enum cw_proto_operation)(n / NUM_VARIANTS / NUM_KINDS / 2);
    const struct variant *variant = &variants_of(operation)[n % NUM_VARIANTS];

    *table = (struct cw_proto_table){.operation = operation,
                                    .data = kinds[kind].data,
                                    .fast = (int)fast,
                                    .remote = variant->remote,
                                    .registered = variant->registered,
                                    .on_device = variant->on_device};
    if (variant->name == NULL || !cw_worker_has(worker, operations[operation].features) ||
        (fast && !is_fast_outlined(iface, operation)) || (kinds[kind].on_device && worker->checked_attr == 0) ||
        (kinds[kind].data == CW_DATA_PACKED && !kinds[kind].on_device && operation >= CW_PROTO_PUT)) {
        return 0;
    }
    if (kinds[kind].on_device && !variant->on_device) {
        set_device_data(worker, iface, table);
    }
    if (operation < CW_PROTO_PUT ? !has_message_table(iface, table) : !has_access_table(worker, iface, conn, table)) {
        return 0;
    }
    snprintf(title, TITLE_SIZE, "%s%s%s%s over %s/%s", cw_proto_name(operation), fast ? " with fast completion" : "",
             kinds[kind].name, variant->name, cw_iface_name(iface), cw_iface_device(iface));
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
        snprintf(line, sizeof(line), "| %22s | %-56s | %s/%s | %s", range, rows[i].name, cw_iface_name(iface),
                 cw_iface_device(iface), rows[i].why);
        cw_log_asked(__FILE__, __LINE__, line);
    }
}

void cw_proto_info_print(const struct ucp_ep *ep)
{
    struct cw_proto_table table;
    char title[TITLE_SIZE];
    unsigned n;

    if (ep->conn->iface->logged) {
        return;
    }
    ep->conn->iface->logged = 1;
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
            fprintf(stream, "# | %20s | %-56s | %-45s |\n", range, rows[i].name, rows[i].why);
        }
        fprintf(stream, "%s#\n", rule);
    }
}
