/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomic operations on one word by this CPU: at the initiator if the memory is mapped there, else at the target. Both
 * sides use the same instructions, which makes their operations atomic with each other. Each function returns the value
 * that the word had before.
 */
#ifndef CW_RMA_AMO_WORD_H
#define CW_RMA_AMO_WORD_H

#include <stdint.h>

#include "wire/rma.h"

static inline uint32_t cw_amo_apply32(uint32_t *word, enum cw_wire_amo_op op, uint32_t operand, uint32_t swap)
{
    switch (op) {
    case CW_WIRE_AMO_ADD:
        return __atomic_fetch_add(word, operand, __ATOMIC_SEQ_CST);
    case CW_WIRE_AMO_SWAP:
        return __atomic_exchange_n(word, operand, __ATOMIC_SEQ_CST);
    case CW_WIRE_AMO_CSWAP:
        (void)__atomic_compare_exchange_n(word, &operand, swap, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        return operand;
    case CW_WIRE_AMO_AND:
        return __atomic_fetch_and(word, operand, __ATOMIC_SEQ_CST);
    case CW_WIRE_AMO_OR:
        return __atomic_fetch_or(word, operand, __ATOMIC_SEQ_CST);
    default:
        return __atomic_fetch_xor(word, operand, __ATOMIC_SEQ_CST);
    }
}

static inline uint64_t cw_amo_apply64(uint64_t *word, enum cw_wire_amo_op op, uint64_t operand, uint64_t swap)
{
    switch (op) {
    case CW_WIRE_AMO_ADD:
        return __atomic_fetch_add(word, operand, __ATOMIC_SEQ_CST);
    case CW_WIRE_AMO_SWAP:
        return __atomic_exchange_n(word, operand, __ATOMIC_SEQ_CST);
    case CW_WIRE_AMO_CSWAP:
        (void)__atomic_compare_exchange_n(word, &operand, swap, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        return operand;
    case CW_WIRE_AMO_AND:
        return __atomic_fetch_and(word, operand, __ATOMIC_SEQ_CST);
    case CW_WIRE_AMO_OR:
        return __atomic_fetch_or(word, operand, __ATOMIC_SEQ_CST);
    default:
        return __atomic_fetch_xor(word, operand, __ATOMIC_SEQ_CST);
    }
}

#endif
