/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UCX_SINGLE_NET_DEVICE: which network devices of a context remain.
 */
#include "core/context.h"

static int leads_out(const struct cw_resource *resource)
{
    return resource->transport->device_class == CW_DEVICE_NET && !resource->device.is_local;
}

void cw_resources_keep_single(struct cw_resource *list, unsigned *count_p, uint64_t id)
{
    unsigned first, end, i, retained = 0, number, seen;

    for (first = 0; first < *count_p; first = end) {
        number = 0;
        for (end = first; end < *count_p && list[end].transport == list[first].transport; end++) {
            number += (unsigned)leads_out(&list[end]);
        }
        seen = 0;
        for (i = first; i < end; i++) {
            if (!leads_out(&list[i]) || seen++ == id % number) {
                list[retained++] = list[i];
            }
        }
    }
    *count_p = retained;
}
