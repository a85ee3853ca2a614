/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The buffers of a two-sided test, and the content of memory of any type.
 *
 * Callers: test_tag.c, drive.c, origin.c, test_rma.c.
 */
#include "buffers.h"

#include "device.h"

#include <stdlib.h>

static int map(struct cw_buffers *buffers, struct cw_buffers_area *area, const struct cw_perf_params *params,
               ucs_memory_type_t type)
{
    ucp_mem_map_params_t how = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
        .length = area->length,
        .flags = UCP_MEM_MAP_ALLOCATE | (params->nonblock ? UCP_MEM_MAP_NONBLOCK : 0),
    };
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};

    if (type != UCS_MEMORY_TYPE_HOST) {
        how.field_mask |= UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
        how.memory_type = type;
    }
    ucs_status_t status = ucp_mem_map(buffers->link->context, &how, &area->memh);
    if (status != UCS_OK) {
        area->memh = NULL;
        return cw_link_fail(buffers->link, "ucp_mem_map of %zu bytes failed: %s", area->length,
                            ucs_status_string(status));
    }
    buffers->link->memhs[area - buffers->areas] = area->memh;
    status = ucp_mem_query(area->memh, &attr);
    if (status != UCS_OK) {
        return cw_link_fail(buffers->link, "ucp_mem_query failed: %s", ucs_status_string(status));
    }
    area->base = attr.address;
    return 0;
}

static int area_open(struct cw_buffers *buffers, struct cw_buffers_area *area, const struct cw_perf_params *params,
                     ucs_memory_type_t type, size_t length)
{
    area->length = length;
    area->type = type;
    if (params->memory_handle || params->nonblock || type != UCS_MEMORY_TYPE_HOST) {
        if (map(buffers, area, params, type) != 0) {
            return -1;
        }
    } else {
        area->base = aligned_alloc(64, length);
        if (area->base == NULL) {
            return cw_link_fail(buffers->link, "out of memory for buffers of %zu bytes", length);
        }
    }
    if (type == UCS_MEMORY_TYPE_HOST) {
        memset(area->base, 0, length); /* the library clears memory of a GPU */
    }
    return 0;
}

int cw_buffers_open(struct cw_buffers *buffers, struct cw_perf_run *run, size_t sends, size_t receives, size_t room)
{
    const struct cw_perf_params *params = &run->params;

    *buffers = (struct cw_buffers){.link = run->link, .pass_handle = params->memory_handle};
    if (room > SIZE_MAX / 2 / (sends + receives)) {
        return cw_link_fail(run->link, "out of memory for %zu buffers of %zu bytes", sends + receives, room);
    }
    if (params->send_memory == UCS_MEMORY_TYPE_HOST && params->recv_memory == UCS_MEMORY_TYPE_HOST) {
        if (area_open(buffers, &buffers->areas[0], params, UCS_MEMORY_TYPE_HOST, (sends + receives) * room) != 0) {
            return -1;
        }
        buffers->receives = buffers->areas[0].base + sends * room;
    } else {
        buffers->scratch = malloc(room);
        if (buffers->scratch == NULL) {
            return cw_link_fail(run->link, "out of memory for %zu bytes", room);
        }
        if (area_open(buffers, &buffers->areas[0], params, params->send_memory, sends * room) != 0 ||
            area_open(buffers, &buffers->areas[1], params, params->recv_memory, receives * room) != 0) {
            return -1;
        }
        buffers->receives = buffers->areas[1].base;
    }
    buffers->base = buffers->areas[0].base;
    return 0;
}

void cw_buffers_close(struct cw_buffers *buffers)
{
    for (int i = 0; i < 2; i++) {
        struct cw_buffers_area *area = &buffers->areas[i];
        if (area->memh == NULL) {
            free(area->base);
        } else {
            ucp_mem_unmap(buffers->link->context, area->memh);
            buffers->link->memhs[i] = NULL;
        }
    }
    free(buffers->scratch);
    *buffers = (struct cw_buffers){0};
}

int cw_buffers_over(struct cw_buffers *buffers, struct cw_perf_run *run, char *targets, size_t targets_length,
                    char *local, size_t local_length, size_t room)
{
    const struct cw_perf_params *params = &run->params;

    *buffers = (struct cw_buffers){
        .link = run->link,
        .areas = {{.base = targets, .length = targets_length, .type = params->recv_memory},
                  {.base = local, .length = local_length, .type = params->send_memory}},
    };
    if (params->send_memory != UCS_MEMORY_TYPE_HOST || params->recv_memory != UCS_MEMORY_TYPE_HOST) {
        buffers->scratch = malloc(room);
        if (buffers->scratch == NULL) {
            return cw_link_fail(run->link, "out of memory for %zu bytes", room);
        }
    }
    return 0;
}

void cw_buffers_leave(struct cw_buffers *buffers)
{
    free(buffers->scratch);
    *buffers = (struct cw_buffers){0};
}

/* ---- content ---- */

/* The area that the address is in; NULL: none. */
static const struct cw_buffers_area *area_of(const struct cw_buffers *buffers, const char *buffer)
{
    for (int i = 0; i < 2; i++) {
        if (buffers->areas[i].base != NULL &&
            (uintptr_t)buffer - (uintptr_t)buffers->areas[i].base < buffers->areas[i].length) {
            return &buffers->areas[i];
        }
    }
    return NULL;
}

/* Between a buffer of an area and memory of the host. */
static void copy(struct cw_buffers *buffers, const char *buffer, void *to, const void *from, size_t size)
{
    const struct cw_buffers_area *area = area_of(buffers, buffer);

    if (cw_device_copy((area == NULL) ? UCS_MEMORY_TYPE_HOST : area->type, to, from, size) != 0) {
        cw_link_fail(buffers->link, "the driver of the GPU does not copy %zu bytes", size);
    }
}

void cw_buffers_fill(struct cw_buffers *buffers, char *buffer, size_t size, uint64_t key)
{
    if (buffers->scratch == NULL) {
        cw_pattern_fill(buffer, size, key);
        return;
    }
    cw_pattern_fill(buffers->scratch, size, key);
    copy(buffers, buffer, buffer, buffers->scratch, size);
}

/* A message that the library holds is in memory of the host. */
size_t cw_buffers_search(struct cw_buffers *buffers, const char *buffer, size_t size, uint64_t key)
{
    if (buffers->scratch == NULL || area_of(buffers, buffer) == NULL) {
        return cw_pattern_search(buffer, size, key);
    }
    copy(buffers, buffer, buffers->scratch, buffer, size);
    return cw_pattern_search(buffers->scratch, size, key);
}

void cw_buffers_clear(struct cw_buffers *buffers, char *buffer, size_t size)
{
    if (buffers->scratch == NULL) {
        memset(buffer, 0, size);
        return;
    }
    memset(buffers->scratch, 0, size);
    copy(buffers, buffer, buffer, buffers->scratch, size);
}
