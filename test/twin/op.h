/* SPDX-License-Identifier: BSD-3-Clause */
/* One operation with any combination of attributes, and what is reported of how it ended. */
#ifndef CW_TWIN_OP_H
#define CW_TWIN_OP_H

#include "twin.h"

enum { OP_BYTES = 300000, OP_AREA = 4096, OP_FLAGS = 0xf0000 };

struct op {
    ucp_request_param_t param;
    ucs_status_ptr_t result;
    bool inside; /* the call has not returned yet */
    int calls, calls_inside;
    ucs_status_t status;
    void *request, *user_data;
    size_t length;
    ucp_tag_recv_info_t info, stored;
    size_t stored_length;
    uint64_t reply;
    unsigned char area[OP_AREA]; /* a request of the program's own ends in here */
};

/* The masks of attributes to go through, as bits of op_attr_mask. */
extern const uint32_t op_masks[];
extern const size_t op_masks_count;

/* Fills the parameters: members without their bit are garbage. The callback is for `kind`. */
enum op_kind { OP_SEND, OP_RECV, OP_STREAM, OP_AM };
void op_set(struct op *op, const struct twin_pair *pair, uint32_t mask, enum op_kind kind, ucp_mem_h memh);
/* Begin and end of the call that posts it. */
const ucp_request_param_t *op_begin(struct op *op);
void op_posted(struct op *op, ucs_status_ptr_t result);
/* Waits, frees and prints; INPROGRESS: it did not end. */
ucs_status_t op_end(struct op *op, struct twin_pair *pair);
/* Appends what is strange about it to `text`: callbacks, requests, arguments. */
void op_odd(const struct op *op, char *text, size_t size);
/* The length and tag that the program was reported, whichever call; false if there was none. */
bool op_reported(const struct op *op, size_t *length, ucp_tag_t *tag);

/* Two workers, and registered memory of OP_BYTES: to be sent, full, and to be received into. */
void op_open(struct twin_pair *pair, uint64_t features, unsigned char **out, unsigned char **in, ucp_mem_h *memh);
void op_close(struct twin_pair *pair, unsigned char *out, unsigned char *in, ucp_mem_h *memh);

#endif
