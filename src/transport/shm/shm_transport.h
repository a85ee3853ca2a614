/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport between processes of one host, and workers of one process: rings in shared memory. Its name in UCX_TLS
 * is posix, with the aliases shm, sm, mm.
 */
#ifndef CW_TRANSPORT_SHM_TRANSPORT_H
#define CW_TRANSPORT_SHM_TRANSPORT_H

#include "transport/transport.h"

extern const struct cw_transport cw_shm_transport;

#endif
