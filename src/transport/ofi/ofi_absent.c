/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport over libfabric of a library that was built without libfabric's headers. It reports no device, so the
 * core calls no other function of the table.
 */
#include "base/string.h"
#include "transport/ofi/ofi_transport.h"

static unsigned ofi_query_devices(const struct cw_config *config, struct cw_device *devices, unsigned max)
{
    (void)config;
    (void)devices;
    (void)max;
    return 0;
}

static void ofi_explain(const struct cw_config *config, struct cw_text *text)
{
    (void)config;
    cw_text_add(text, "This library was built without the headers of libfabric (package libfabric-dev).\n");
}

const struct cw_transport cw_ofi_transport = {
    .name = "ofi",
    .wire_id = CW_OFI_WIRE_ID,
    .device_class = CW_DEVICE_NET,
    .query_devices = ofi_query_devices,
    .explain = ofi_explain,
};
