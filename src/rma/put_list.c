/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Target side of rma/put_list.h. Invariant: while `count` is not 0, that many elements of a list wait for their bytes.
 * While `placing` is set, the transport writes either to the pinned memory or to `scratch`, which receives the bytes of
 * a refused list and those that are to be copied to a device.
 */
#include <stdlib.h>

#include "mem/copy.h"
#include "rma/put_list.h"

struct cw_put_places {
    uint64_t token;
    uint64_t first_byte, span; /* the range that holds all pieces */
    size_t length;             /* bytes of all pieces together */
    unsigned count;
    int placing;
    int refused;
    struct cw_mem_pin pin;
    char *memory;                                                   /* address of first_byte in this process */
    char *scratch;                                                  /* NULL: bytes are written to their destinations */
    struct cw_wire_put_list_element elements[CW_WIRE_PUT_LIST_MAX]; /* in host order */
};

static struct cw_put_places *places_of(struct ucp_ep *ep)
{
    struct cw_rma *rma = cw_rma_get(ep);

    if (rma != NULL && rma->serving.places == NULL) {
        rma->serving.places = calloc(1, sizeof(*rma->serving.places));
    }
    return (rma != NULL) ? rma->serving.places : NULL;
}

/* Returns 0 on a protocol violation. */
static int read_elements(struct cw_put_places *places, const char *data, unsigned count)
{
    uint64_t first = UINT64_MAX, last = 0, end;

    places->length = 0;
    for (unsigned i = 0; i < count; i++) {
        struct cw_wire_put_list_element *element = &places->elements[i];

        memcpy(element, data + i * sizeof(*element), sizeof(*element));
        element->address = le64toh(element->address);
        element->length = le64toh(element->length);
        if (element->length == 0 || element->length > CW_WIRE_PUT_LIST_TOTAL - places->length ||
            __builtin_add_overflow(element->address, element->length - 1, &end)) {
            return 0;
        }
        places->length += element->length;
        first = (element->address < first) ? element->address : first;
        last = (end > last) ? end : last;
    }
    places->first_byte = first;
    return !__builtin_add_overflow(last - first, 1, &places->span);
}

ucs_status_t cw_put_list_on_packet(struct ucp_ep *ep, const void *data, size_t length)
{
    struct cw_put_places *places = places_of(ep);
    struct cw_wire_put_list header;
    unsigned count;

    if (places == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    if (places->count > 0) {
        return UCS_ERR_IO_ERROR;
    }
    memcpy(&header, data, sizeof(header));
    count = le32toh(header.count);
    if (count == 0 || count > CW_WIRE_PUT_LIST_MAX || length != CW_WIRE_PUT_LIST_BYTES(count) ||
        !read_elements(places, (const char *)data + sizeof(header), count)) {
        return UCS_ERR_IO_ERROR;
    }
    places->token = le64toh(header.token);
    places->count = count;
    return UCS_OK;
}

unsigned cw_put_list_place(struct ucp_ep *ep, const void *header, size_t length, struct iovec *iov)
{
    struct cw_put_places *places = (cw_op_ep(ep)->rma != NULL) ? cw_op_ep(ep)->rma->serving.places : NULL;
    struct cw_wire_put_list_data data;
    ucs_status_t status;
    void *memory = NULL;

    _Static_assert(sizeof(data) == CW_PLACE_HEADER, "the header of packets that are placed");
    memcpy(&data, header, sizeof(data));
    if (places == NULL || places->count == 0 || places->placing || length != places->length ||
        le64toh(data.token) != places->token) {
        return 0;
    }
    status = cw_mem_pin(ep->worker->context, places->token, places->first_byte, places->span,
                        cw_rma_rights(ep, places->token, CW_KEY_WRITE), ep, &places->pin, &memory);
    places->refused = status != UCS_OK;
    places->memory = memory;
    if (status != UCS_OK) {
        cw_rma_refuse(ep, places->first_byte, places->span, status);
    }
    if (status != UCS_OK || places->pin.memory_type != UCS_MEMORY_TYPE_HOST) {
        places->scratch = malloc(length);
        if (places->scratch == NULL) {
            cw_mem_unpin(ep->worker->context, &places->pin);
            return 0;
        }
        places->placing = 1;
        *iov = (struct iovec){places->scratch, length};
        return 1;
    }
    places->placing = 1;
    for (unsigned i = 0; i < places->count; i++) {
        iov[i] = (struct iovec){places->memory + (places->elements[i].address - places->first_byte),
                                places->elements[i].length};
    }
    return places->count;
}

/* Copies the pieces from `scratch` to device memory, which the CPU may not access. */
static ucs_status_t pass_on(const struct cw_put_places *places)
{
    const char *from = places->scratch;
    ucs_status_t status = UCS_OK;

    for (unsigned i = 0; i < places->count && status == UCS_OK; i++) {
        status = cw_mem_copy(places->memory + (places->elements[i].address - places->first_byte),
                             places->pin.memory_type, from, UCS_MEMORY_TYPE_HOST, places->elements[i].length);
        from += places->elements[i].length;
    }
    return status;
}

static void let_go(struct ucp_context *context, struct cw_put_places *places)
{
    cw_mem_unpin(context, &places->pin);
    free(places->scratch);
    places->scratch = NULL;
    places->placing = 0;
    places->count = 0;
}

void cw_put_list_placed(struct ucp_ep *ep, const void *header CW_UNUSED, size_t length)
{
    struct cw_put_places *places = (cw_op_ep(ep)->rma != NULL) ? cw_op_ep(ep)->rma->serving.places : NULL;
    ucs_status_t status = UCS_OK;

    if (places == NULL || !places->placing) {
        return; /* the endpoint failed meanwhile */
    }
    if (places->scratch != NULL && !places->refused) {
        status = pass_on(places);
        if (status != UCS_OK) {
            cw_rma_refuse(ep, places->first_byte, places->span, status);
        }
    }
    if (status == UCS_OK && !places->refused) {
        cw_count_message(ep->worker, CW_COUNT_PUT_RECEIVED, length);
    }
    let_go(ep->worker->context, places);
}

void cw_put_list_free(struct ucp_context *context, struct cw_put_places *places)
{
    if (places != NULL) {
        let_go(context, places);
        free(places);
    }
}
