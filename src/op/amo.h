/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What atomic operations share with their protocols (src/proto/rma).
 */
#ifndef CW_OP_AMO_H
#define CW_OP_AMO_H

#include "op/rma.h"
#include "plan/protocol.h"

/* Of an operation that a device of the owner carries out: what the key says of it, for the program may destroy the key,
 * and how far it is. On the heap. */
struct cw_amo_device {
    struct cw_access *access;       /* NULL: not begun */
    uint64_t expected;              /* of a loop: what the word has, as far as is known */
    struct cw_domain_range region;
    uint8_t part[CW_DOMAIN_PART_MAX];
    uint8_t part_length;
    uint8_t number;                 /* of its domain */
    uint8_t loops;                  /* made of compare and swap */
};

/* The state of the request. Numbers in host order. */
struct cw_amo {
    struct cw_wire_amo packet;
    const struct ucp_rkey *rkey; /* NULL: by packets only */
    void *reply;                 /* NULL: the posting form */
    struct cw_amo_device *device; /* that carries it out; NULL: a processor does */
    uint32_t generation;
};

_Static_assert(sizeof(struct cw_amo) <= CW_REQUEST_STATE_SIZE, "state fits the request");

/* Where the word lies here; NULL: the owner is needed. Where a mapping begins follows from what a peer wrote into its
 * key, so the address here is looked at, too. */
static inline char *cw_amo_word(const struct ucp_rkey *rkey, uint64_t address, unsigned size)
{
    char *word = cw_rkey_direct(rkey, address, CW_KEY_READ | CW_KEY_WRITE);

    return cw_likely(((uintptr_t)word & (size - 1)) == 0) ? word : NULL;
}

/* By this processor, on a word that lies here; the reply is written. */
void cw_amo_carry_out(const struct cw_amo *amo, void *word);
/* Asks the owner; `reply_id` 0: for no answer. Both return what the transport answers. */
ucs_status_t cw_amo_send(struct cw_conn *conn, const struct cw_amo *amo, uint64_t reply_id);
ucs_status_t cw_amo_send_posted(struct ucp_ep *ep, const struct cw_amo *amo);

#endif
