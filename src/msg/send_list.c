/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short messages that are a list of buffers: they are copied directly into the transport's memory, without a request
 * (docs/why/short-messages.md). Callers have seen that the endpoint is open.
 */
#include "msg/send.h"

#include "base/bytes.h"

struct list {
    uint64_t header;
    const ucp_dt_iov_t *iov;
    const ucp_dt_iov_t *behind;
};

size_t cw_send_list_length(const struct ucp_ep *ep, const ucp_dt_iov_t *iov, size_t count)
{
    const size_t end = ep->conn->iface->plan->short_end;
    size_t length = 0, i;

    if (ep->tx == &cw_no_tx) {
        return SIZE_MAX;
    }
    for (i = 0; i < count; i++) {
        if (iov[i].length >= end - length) {
            return SIZE_MAX;
        }
        length += iov[i].length;
    }
    return length;
}

static size_t pack(void *dest, size_t max, void *arg)
{
    const struct list *list = arg;
    const ucp_dt_iov_t *iov = list->iov;
    char *next              = (char *)dest + sizeof(list->header);

    memcpy(dest, &list->header, sizeof(list->header));
    for (; iov != list->behind; next += iov->length, iov++) {
        cw_bytes_copy_short(next, iov->buffer, iov->length);
    }
    return max;
}

int cw_send_list(struct ucp_ep *ep, uint8_t id, uint64_t header, const ucp_dt_iov_t *iov, size_t count, size_t length)
{
    struct list list = {.header = header, .iov = iov, .behind = iov + count};

    return cw_lane_send_bcopy(ep->conn, id, sizeof(header) + length, pack, &list) == UCS_OK;
}
