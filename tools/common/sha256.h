/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SHA-256 (FIPS 180-4), so that the demonstration can prove what arrived by a number that any person can
 * recompute with sha256sum, without a library. For checking transfers, not for secrets.
 *
 * Callers: the demonstration.
 */
#ifndef CW_TOOLS_SHA256_H
#define CW_TOOLS_SHA256_H

#include <stddef.h>
#include <stdint.h>

struct cw_sha256 {
    uint32_t state[8];
    uint64_t length;
    uint8_t block[64];
};

void cw_sha256_start(struct cw_sha256 *sha);
void cw_sha256_add(struct cw_sha256 *sha, const void *data, size_t length);

/* Ends the sum and writes it as 64 hexadecimal digits and a zero byte. */
void cw_sha256_finish(struct cw_sha256 *sha, char hex[65]);

#endif
