/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The list of transports.
 */
#include "transport/registry.h"

#include "transport/ofi/ofi_transport.h"
#include "transport/self/self_transport.h"
#include "transport/shm/shm_transport.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/verbs/verbs_transport.h"

const struct cw_transport *const cw_transports[] = {
    &cw_self_transport,
    &cw_shm_transport,
    &cw_verbs_transport,
    &cw_tcp_transport,
    &cw_ofi_transport,
};

const unsigned cw_num_transports = sizeof(cw_transports) / sizeof(cw_transports[0]);
