/* SPDX-License-Identifier: BSD-3-Clause */
/* libfabric under test: UCX_NET_DEVICES names the provider and its domain, and the test is skipped where it is not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "rig.h"
#include "transport/ofi/ofi_transport.h"

static void setup(void)
{
    struct cw_device device = {.name = ""};
    struct cw_config *config;

    if (cw_config_read(NULL, NULL, &config) != UCS_OK) {
        abort();
    }
    if (cw_ofi_transport.query_devices(config, &device, 1) == 0 || config->net_devices.count != 1 ||
        strcmp(device.name, config->net_devices.names[0]) != 0) {
        printf("SKIPPED: libfabric has no device %s here\n", getenv("UCX_NET_DEVICES"));
        exit(77);
    }
    cw_config_free(config);
}

const struct cw_subject cw_subject = {
    .transport = &cw_ofi_transport, .traits = CW_SUBJECT_PROCESSES | CW_SUBJECT_DIALS_OUT, .setup = setup};
