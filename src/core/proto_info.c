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

static void print_table(const struct ucp_ep *ep, const char *operation, const struct cw_protocol_input *input)
{
    const struct cw_iface *iface = ep->conn->iface;
    const char *device           = cw_worker_device_name(ep->worker, iface);
    struct cw_protocol_row rows[CW_PROTOCOL_MAX_ROWS];
    char line[LINE_SIZE], title[TITLE_SIZE], range[64];
    struct cw_protocol_plan plan;
    unsigned count, i;

    snprintf(title, sizeof(title), "%s over %s/%s", operation, iface->transport->name, device);
    if (!is_wanted(ep->worker->context->config->proto_info, title)) {
        return;
    }
    cw_protocol_choose(input, &plan);
    count = cw_protocol_rows(input, &plan, rows);
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
    struct cw_protocol_input input, fast;
    unsigned index = 0;

    while (index < worker->num_ifaces && worker->ifaces[index] != ep->conn->iface) {
        index++;
    }
    if (worker->plans_told & (1u << index)) {
        return;
    }
    worker->plans_told |= 1u << index;
    input               = cw_worker_protocol_input(worker, ep->conn->iface);
    fast                = input;
    if (input.rndv_thresh == CW_PLAN_AUTO) {
        fast.rndv_thresh  = input.rndv_fast_thresh;
        fast.rndv_setting = "RNDV_SEND_NBR_THRESH";
    }
    if (cw_worker_has(worker, UCP_FEATURE_TAG)) {
        print_table(ep, "tag send", &input);
        print_table(ep, "tag send with fast completion", &fast);
    }
    if (cw_worker_has(worker, UCP_FEATURE_AM)) {
        print_table(ep, "active message", &input);
    }
    if (cw_worker_has(worker, UCP_FEATURE_STREAM)) {
        input.rndv_thresh = CW_PLAN_NEVER;
        print_table(ep, "stream send", &input);
    }
}
