/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shares of a copy that two processes make together: who takes which, and how many are done. The words may lie in
 * memory that the peer can write, so nothing read from them is trusted further than as a number below a bound.
 *
 *   claim: generation of the transfer 32 bits, 0 for none | number of the next share 32 bits
 */
#ifndef CW_OP_BOARD_H
#define CW_OP_BOARD_H

#include <stdint.h>

#define CW_BOARD_MIN_SHARE      4096u
#define CW_BOARD_MAX_SHARE      (1u << 20) /* copied at one go: 128 KiB are asked for */
#define CW_BOARD_MAX_SHARES     UINT32_MAX
#define CW_BOARD_MAX_GENERATION 0xffffffu

static inline uint64_t cw_board_shares(uint64_t length, uint32_t share)
{
    return length / share + (length % share != 0);
}

static inline void cw_board_begin(uint64_t *claim, uint64_t *done, uint32_t generation)
{
    __atomic_store_n(done, 0, __ATOMIC_RELAXED);
    __atomic_store_n(claim, (uint64_t)generation << 32, __ATOMIC_RELEASE);
}

/* Nobody gets another share. Returns how many were taken in this generation. */
static inline uint64_t cw_board_end(uint64_t *claim, uint32_t generation)
{
    uint64_t word = __atomic_exchange_n(claim, 0, __ATOMIC_ACQ_REL);

    return ((word >> 32) == generation) ? (uint32_t)word : 0;
}

/* Takes the next share; 0 when none is left or the transfer is over. */
static inline int cw_board_claim(uint64_t *claim, uint32_t generation, uint64_t shares, uint32_t *share_p)
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

/* A share was copied; pairs with the acquire of cw_board_num_done. */
static inline void cw_board_done(uint64_t *done)
{
    __atomic_fetch_add(done, 1, __ATOMIC_RELEASE);
}

static inline uint64_t cw_board_num_done(const uint64_t *done)
{
    return __atomic_load_n(done, __ATOMIC_ACQUIRE);
}

struct ucp_ep;

/* The words of one transfer: a board that the peer sees, or words of our own. */
struct cw_shares {
    uint64_t *claim;
    uint64_t *done;
    uint64_t alone[2];
    uint32_t generation;
    uint8_t board;              /* CW_BOARDS: none */
};

/* Begins a transfer with a free board, if `shared` and there is one. The structure stays where it is until released. */
void cw_shares_begin(struct ucp_ep *ep, struct cw_shares *shares, int shared);
/* Gives the board back; nothing happens the second time. */
void cw_shares_release(struct ucp_ep *ep, struct cw_shares *shares);

#endif
