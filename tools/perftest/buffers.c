/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The buffers of a two-sided test.
 *
 * Callers: test_tag.c, drive.c.
 */
#include "buffers.h"

#include <stdlib.h>
#include <string.h>

static int map(struct cw_buffers *buffers, const struct cw_perf_params *params, size_t length)
{
    ucp_mem_map_params_t how = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
        .length = length,
        .flags = UCP_MEM_MAP_ALLOCATE | (params->nonblock ? UCP_MEM_MAP_NONBLOCK : 0),
    };
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
    ucs_status_t status = ucp_mem_map(buffers->link->context, &how, &buffers->memh);

    if (status != UCS_OK) {
        buffers->memh = NULL;
        return cw_link_fail(buffers->link, "ucp_mem_map of %zu bytes failed: %s", length, ucs_status_string(status));
    }
    buffers->link->memh = buffers->memh;
    status = ucp_mem_query(buffers->memh, &attr);
    if (status != UCS_OK) {
        return cw_link_fail(buffers->link, "ucp_mem_query failed: %s", ucs_status_string(status));
    }
    buffers->base = attr.address;
    return 0;
}

int cw_buffers_open(struct cw_buffers *buffers, struct cw_perf_run *run, size_t count, size_t room)
{
    *buffers = (struct cw_buffers){.link = run->link, .tell = run->params.memory_handle};
    if (room > SIZE_MAX / 2 / count) {
        return cw_link_fail(run->link, "no memory for %zu buffers of %zu bytes", count, room);
    }
    if (run->params.memory_handle || run->params.nonblock) {
        if (map(buffers, &run->params, count * room) != 0) {
            return -1;
        }
    } else {
        buffers->base = aligned_alloc(64, count * room);
        if (buffers->base == NULL) {
            return cw_link_fail(run->link, "no memory for %zu buffers of %zu bytes", count, room);
        }
    }
    memset(buffers->base, 0, count * room);
    return 0;
}

void cw_buffers_close(struct cw_buffers *buffers)
{
    if (buffers->memh == NULL) {
        free(buffers->base);
    } else {
        ucp_mem_unmap(buffers->link->context, buffers->memh);
        buffers->link->memh = NULL;
    }
    *buffers = (struct cw_buffers){0};
}
