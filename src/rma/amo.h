/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared part of atomic operations and their protocols (src/proto).
 */
#ifndef CW_RMA_AMO_H
#define CW_RMA_AMO_H

#include "proto/protocol.h"
#include "rma/rma.h"

/* State of an operation that a device of the owner carries out: a copy of what the key says, because the program may
 * destroy the key, and how far the operation is. The structure is on the heap. */
struct cw_amo_device {
    struct cw_access *access;       /* NULL: the access has not begun */
    uint64_t expected;              /* of a loop: the value that the word had when it was last read */
    struct cw_domain_range region;
    uint8_t part[CW_DOMAIN_PART_MAX];
    uint8_t part_length;
    uint8_t number;                 /* of the device's memory domain */
    uint8_t loops;                  /* the operation is a loop of compare and swap */
};

/* The state of the request. */
struct cw_amo {
    struct cw_wire_amo packet;   /* as it goes over the wire */
    struct ucp_rkey *rkey;       /* a request holds it */
    void *reply;                 /* NULL: the posting form */
    struct cw_amo_device *device; /* the device that carries it out; NULL: a processor */
    uint32_t generation;
};

static inline uint64_t cw_amo_address(const struct cw_amo *amo)
{
    return le64toh(amo->packet.address);
}

_Static_assert(sizeof(struct cw_amo) <= CW_REQUEST_STATE_SIZE, "state fits the request");

/* Returns where the word lies in this process; NULL: only the owner can reach it. A key from a peer decides where the
 * mapping begins, so this function checks the alignment of the local address, too. */
static inline char *cw_amo_word(const struct ucp_rkey *rkey, uint64_t address, unsigned size)
{
    char *word = cw_rkey_direct(rkey, address, CW_KEY_READ | CW_KEY_WRITE);

    return cw_likely(((uintptr_t)word & (size - 1)) == 0) ? word : NULL;
}

/* Carries out the operation by this CPU, on a word in this process, and writes the reply. */
void cw_amo_carry_out(const struct cw_amo *amo, void *word);
/* Sends the operation to the owner; if the packet's `reply_id` is 0, the owner sends no answer. Both functions return
 * the status of the transport. */
ucs_status_t cw_amo_send(struct cw_conn *conn, const struct cw_amo *amo);
ucs_status_t cw_amo_send_posted(struct ucp_ep *ep, const struct cw_amo *amo);

#endif
