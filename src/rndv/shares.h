/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shares of a copy that two processes make together: which shares are taken, and how many are done. The words may lie
 * in memory that the peer can write, so their values are untrusted: check each against a bound.
 *
 *   claim: upper 32 bits: generation of the transfer, 0 for none; lower 32 bits: number of the next share
 */
#ifndef CW_RNDV_SHARES_H
#define CW_RNDV_SHARES_H

#include <stdint.h>

#define CW_CLAIM_MIN_SHARE      4096u
#define CW_CLAIM_MAX_SHARE      (1u << 20) /* copied in one call; this library asks for at most 192 KiB */
#define CW_CLAIM_MAX_SHARES     UINT32_MAX
#define CW_CLAIM_MAX_GENERATION 0xffffffu

static inline uint64_t cw_claim_shares(uint64_t length, uint32_t share)
{
    return length / share + (length % share != 0);
}

static inline void cw_claim_begin(uint64_t *claim, uint64_t *done, uint32_t generation)
{
    __atomic_store_n(done, 0, __ATOMIC_RELAXED);
    __atomic_store_n(claim, (uint64_t)generation << 32, __ATOMIC_RELEASE);
}

/* After this no process can take another share. Returns how many shares of this generation were taken. */
static inline uint64_t cw_claim_end(uint64_t *claim, uint32_t generation)
{
    uint64_t word = __atomic_exchange_n(claim, 0, __ATOMIC_ACQ_REL);

    return ((word >> 32) == generation) ? (uint32_t)word : 0;
}

/* Takes the next share. Returns 0 if no share is left or the transfer is over. */
static inline int cw_claim_next(uint64_t *claim, uint32_t generation, uint64_t shares, uint32_t *share_p)
{
    uint64_t word = __atomic_load_n(claim, __ATOMIC_ACQUIRE);

    while ((word >> 32) == generation && (uint32_t)word < shares) {
        if (__atomic_compare_exchange_n(claim, &word, word + 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            *share_p = (uint32_t)word;
            return 1;
        }
    }
    return 0;
}

/* A share was copied; pairs with the acquire of cw_claim_num_done. */
static inline void cw_claim_done(uint64_t *done)
{
    __atomic_fetch_add(done, 1, __ATOMIC_RELEASE);
}

static inline uint64_t cw_claim_num_done(const uint64_t *done)
{
    return __atomic_load_n(done, __ATOMIC_ACQUIRE);
}

struct ucp_ep;

/* The words of one transfer: those of a claim pair that the peer sees, or those in this structure. */
struct cw_shares {
    uint64_t *claim;
    uint64_t *done;
    uint64_t alone[2];
    uint32_t generation;
    uint32_t bytes; /* of each share but the last */
    uint8_t pair; /* CW_CLAIM_PAIRS: none */
};

/* Begins a transfer, with a claim pair if `shared` is set and a claim pair is free. The structure must not move until
 * it is released. */
void cw_shares_begin(struct ucp_ep *ep, struct cw_shares *shares, int shared);
/* Releases the claim pair; a second call does nothing. */
void cw_shares_release(struct ucp_ep *ep, struct cw_shares *shares);

#endif
