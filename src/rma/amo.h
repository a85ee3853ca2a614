/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared part of atomic operations and their protocols (src/proto).
 */
#ifndef CW_RMA_AMO_H
#define CW_RMA_AMO_H

#include "proto/protocol.h"
#include "rma/rma.h"

/* State of an operation that a device of the target carries out: a copy of the key's contents, because the program may
 * destroy the key, and the progress of the operation. Heap allocated. */
struct cw_amo_device {
    struct cw_access *access;       /* NULL: the access has not begun */
    uint64_t expected;              /* compare-and-swap loop: last value read from the word */
    struct cw_domain_range region;
    uint8_t part[CW_DOMAIN_PART_MAX];
    uint8_t part_length;
    uint8_t number;                 /* of the device's memory domain */
    uint8_t loops;                  /* the operation is a compare-and-swap loop */
};

/* The state of the request. */
struct cw_amo {
    struct cw_wire_amo packet;   /* in wire format */
    struct ucp_rkey *rkey;       /* referenced by the request */
    void *reply;                 /* NULL: the posting form */
    struct cw_amo_device *device; /* the device that carries it out; NULL: a CPU */
    uint32_t generation;
};

static inline uint64_t cw_amo_address(const struct cw_amo *amo)
{
    return le64toh(amo->packet.address);
}

_Static_assert(sizeof(struct cw_amo) <= CW_REQUEST_STATE_SIZE, "state fits the request");

/* Returns the word's address in this process; NULL: only the target can reach it. A key from a peer decides where the
 * mapping begins, so this also checks the alignment of the local address. */
static inline char *cw_amo_word(const struct ucp_rkey *rkey, uint64_t address, unsigned size)
{
    char *word = cw_rkey_direct(rkey, address, CW_KEY_READ | CW_KEY_WRITE);

    return cw_likely(((uintptr_t)word & (size - 1)) == 0) ? word : NULL;
}

/* Carries out the operation on this CPU, on a word in this process, and writes the reply. */
void cw_amo_carry_out(const struct cw_amo *amo, void *word);
/* Sends the operation to the target; if the packet's `reply_id` is 0, the target sends no answer. Both functions return
 * the status of the transport. */
ucs_status_t cw_amo_send(struct cw_conn *conn, const struct cw_amo *amo);
ucs_status_t cw_amo_send_posted(struct ucp_ep *ep, const struct cw_amo *amo);

#endif
