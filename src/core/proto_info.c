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
} operations[CW_PROTO_OPERATIONS] = {
    [CW_PROTO_TAG]      = {"tag send", UCP_FEATURE_TAG},
    [CW_PROTO_TAG_FAST] = {"tag send with fast completion", UCP_FEATURE_TAG},
    [CW_PROTO_AM]       = {"active message", UCP_FEATURE_AM},
    [CW_PROTO_STREAM]   = {"stream send", UCP_FEATURE_STREAM},
};

const char *cw_proto_name(enum cw_proto_operation operation)
{
    return operations[operation].name;
}

unsigned cw_proto_rows(const struct ucp_worker *worker, const struct cw_iface *iface, enum cw_proto_operation operation,
                       struct cw_protocol_row rows[CW_PROTOCOL_MAX_ROWS])
{
    struct cw_protocol_input input = cw_worker_protocol_input(worker, iface);
    struct cw_protocol_plan plan;

    if (operation == CW_PROTO_TAG_FAST && input.rndv_thresh == CW_PLAN_AUTO) {
        input.rndv_thresh  = input.rndv_fast_thresh;
        input.rndv_setting = "RNDV_SEND_NBR_THRESH";
    } else if (operation == CW_PROTO_STREAM) {
        input.rndv_thresh = CW_PLAN_NEVER;
    }
    input.used_in_place = operation == CW_PROTO_AM;
    cw_protocol_choose(&input, &plan);
    return cw_protocol_rows(&input, &plan, rows);
}

static void print_table(const struct ucp_ep *ep, enum cw_proto_operation operation)
{
    const struct cw_iface *iface = ep->conn->iface;
    const char *device           = cw_worker_device_name(ep->worker, iface);
    struct cw_protocol_row rows[CW_PROTOCOL_MAX_ROWS];
    char line[LINE_SIZE], title[TITLE_SIZE], range[64];
    unsigned count, i;

    snprintf(title, sizeof(title), "%s over %s/%s", cw_proto_name(operation), iface->transport->name, device);
    if (!is_wanted(ep->worker->context->config->proto_info, title)) {
        return;
    }
    count = cw_proto_rows(ep->worker, iface, operation, rows);
    snprintf(line, sizeof(line), "worker %s to worker %016llx: %s", ep->worker->name,
             (unsigned long long)cw_ep_peer_uid(ep), title);
    cw_log_asked(__FILE__, __LINE__, line);
    for (i = 0; i < count; i++) {
        print_range(range, sizeof(range), &rows[i]);
        snprintf(line, sizeof(line), "| %22s | %-56s | %s/%s | %s", range, rows[i].way, iface->transport->name, device,
                 rows[i].why);
        cw_log_asked(__FILE__, __LINE__, line);
    }
}

void cw_proto_info_print(const struct ucp_ep *ep)
{
    struct ucp_worker *worker = ep->worker;
    unsigned index = 0, i;

    while (index < worker->num_ifaces && worker->ifaces[index] != ep->conn->iface) {
        index++;
    }
    if (worker->plans_told & (1u << index)) {
        return;
    }
    worker->plans_told |= 1u << index;
    for (i = 0; i < CW_PROTO_OPERATIONS; i++) {
        if (cw_worker_has(worker, operations[i].feature)) {
            print_table(ep, (enum cw_proto_operation)i);
        }
    }
}

static void write_table(const struct ucp_worker *worker, const struct cw_iface *iface,
                        enum cw_proto_operation operation, FILE *stream)
{
    static const char rule[] = "# +----------------------+----------------------------------------------------------+"
                               "-----------------------------------------------+\n";
    struct cw_protocol_row rows[CW_PROTOCOL_MAX_ROWS];
    char title[TITLE_SIZE], range[64];
    unsigned count, i;

    snprintf(title, sizeof(title), "%s over %s/%s", cw_proto_name(operation), iface->transport->name,
             cw_worker_device_name(worker, iface));
    count = cw_proto_rows(worker, iface, operation, rows);
    fprintf(stream, "%s# | %-127s |\n%s", rule, title, rule);
    for (i = 0; i < count; i++) {
        print_range(range, sizeof(range), &rows[i]);
        fprintf(stream, "# | %20s | %-56s | %-45s |\n", range, rows[i].way, rows[i].why);
    }
    fprintf(stream, "%s#\n", rule);
}

void cw_proto_info_write(const struct ucp_worker *worker, const struct cw_iface *iface, FILE *stream)
{
    unsigned i;

    for (i = 0; i < CW_PROTO_OPERATIONS; i++) {
        if (cw_worker_has(worker, operations[i].feature)) {
            write_table(worker, iface, (enum cw_proto_operation)i, stream);
        }
    }
}
