/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verbs transport of a library that was built without libibverbs's header. It reports no device, so the core calls
 * no other function of the table.
 */
#include "base/string.h"
#include "transport/verbs/verbs_transport.h"

static unsigned verbs_query_devices(const struct cw_config *config, struct cw_device *devices, unsigned max)
{
    (void)config;
    (void)devices;
    (void)max;
    return 0;
}

static void verbs_explain(const struct cw_config *config, struct cw_text *text)
{
    (void)config;
    cw_text_add(text, "This library was built without the header of libibverbs (package libibverbs-dev).\n");
}

const struct cw_transport cw_verbs_transport = {
    .name = "verbs",
    .wire_id = CW_VERBS_WIRE_ID,
    .device_class = CW_DEVICE_NET,
    .query_devices = verbs_query_devices,
    .explain = verbs_explain,
};
