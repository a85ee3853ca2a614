/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of UCX's transport layer that plugins were linked with (Open MPI's btl/uct, NCCL's uct plugins): these load,
 * find no device of their kind, and give up.
 *
 * Invariants: no argument is read or written, so the prototypes are not those of UCX. None of these is declared in a
 * public header.
 */
#include <ucs/type/status.h>

#pragma GCC visibility push(default)

#define ABSENT(name)           \
    ucs_status_t name(void);   \
    ucs_status_t name(void)    \
    {                          \
        return UCS_ERR_UNSUPPORTED; \
    }

#define NOTHING(name) \
    void name(void);  \
    void name(void)   \
    {                 \
    }

ABSENT(uct_config_modify)
ABSENT(uct_ep_connect_to_ep)
ABSENT(uct_ep_create)
ABSENT(uct_ep_get_address)
ABSENT(uct_iface_get_address)
ABSENT(uct_iface_get_device_address)
ABSENT(uct_iface_open)
ABSENT(uct_iface_query)
ABSENT(uct_iface_set_am_handler)
ABSENT(uct_md_iface_config_read)
ABSENT(uct_md_mem_dereg)
ABSENT(uct_md_mem_reg)
ABSENT(uct_md_mkey_pack)
ABSENT(uct_rkey_release)
ABSENT(uct_rkey_unpack)
ABSENT(uct_worker_create)

NOTHING(uct_ep_destroy)
NOTHING(uct_iface_close)
NOTHING(uct_worker_destroy)

#pragma GCC visibility pop
