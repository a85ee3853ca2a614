/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sizes of types (INF-4), by library; of the library's own those whose number grows with what a program does.
 *
 * Callers: main.c.
 */
#include <stdio.h>
#include <string.h>

#include "core/ep.h"
#include "core/mem.h"
#include "core/request.h"
#include "core/rkey.h"
#include "msg/send.h"
#include "rma/rma.h"
#include "show.h"
#include "ucp/api/ucp.h"
#include "wire/rma.h"

#define NAME_WIDTH 30

static void print_size(const char *name, size_t size)
{
    static const char dots[] = "........................................";
    const size_t length = strlen(name), width = (length + 1 < NAME_WIDTH) ? NAME_WIDTH - length : 1;

    printf("    sizeof(%s) = %.*s %-6zu\n", name, (int)width, dots, size);
}

#define PRINT(type) print_size(#type, sizeof(type))

void cw_show_types(void)
{
    printf("UCS:\n");
    PRINT(ucs_status_t);
    PRINT(ucs_sock_addr_t);
    PRINT(ucs_memory_type_t);
    PRINT(ucs_thread_mode_t);
    printf("\nUCP:\n");
    PRINT(ucp_params_t);
    PRINT(ucp_context_attr_t);
    PRINT(ucp_worker_params_t);
    PRINT(ucp_worker_attr_t);
    PRINT(ucp_ep_params_t);
    PRINT(ucp_ep_attr_t);
    PRINT(ucp_listener_params_t);
    PRINT(ucp_request_param_t);
    PRINT(ucp_tag_recv_info_t);
    PRINT(ucp_am_recv_param_t);
    PRINT(ucp_mem_map_params_t);
    PRINT(ucp_dt_iov_t);
    PRINT(ucp_generic_dt_ops_t);
    printf("\nCauseway:\n");
    PRINT(struct ucp_context);
    PRINT(struct cw_config);
    PRINT(struct ucp_worker);
    PRINT(struct ucp_ep);
    PRINT(struct cw_peer);
    PRINT(struct cw_request);
    PRINT(struct cw_send);
    PRINT(struct cw_rma);
    PRINT(struct ucp_rkey);
    PRINT(struct cw_key);
    PRINT(struct cw_iface);
    PRINT(struct cw_conn);
    PRINT(struct cw_limits);
    PRINT(struct cw_protocol_plan);
}
