/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short messages that are a list of buffers: they are copied directly into a cell or the byte area, without a request,
 * where a transport has cells (docs/why/short-messages.md). Callers have seen that the endpoint is open with an empty
 * queue.
 */
#include "op/send.h"

#include "base/bytes.h"

size_t cw_send_list_length(const struct ucp_ep *ep, const ucp_dt_iov_t *iov, size_t count)
{
    const size_t end = ep->conn->iface->plan->short_end;
    size_t length = 0, i;

    if (!cw_cell_is_next(ep->cells)) {
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

int cw_send_list(struct ucp_ep *ep, uint8_t id, uint64_t header, const ucp_dt_iov_t *iov, size_t count, size_t length)
{
    const int fits_cell        = length <= CW_CELL_SHORT;
    struct cw_producer *cells  = ep->cells;
    char *place                = fits_cell ? cells->cell->data : cw_byte_ring_take(cells, sizeof(header) + length);
    const ucp_dt_iov_t *behind = iov + count;
    char *next;

    if (cw_unlikely(place == NULL)) {
        return 0;
    }
    memcpy(place, &header, sizeof(header));
    for (next = place + sizeof(header); iov != behind; next += iov->length, iov++) {
        cw_bytes_copy_short(next, iov->buffer, iov->length);
    }
    if (fits_cell) {
        cw_cell_send(cells, id, sizeof(header) + length);
    } else {
        cw_byte_ring_send(cells, id, sizeof(header) + length);
    }
    return 1;
}
