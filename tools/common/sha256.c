/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SHA-256 as FIPS 180-4 defines it. The round constants and the initial state are computed as the standard
 * defines them: fraction bits of the cube and square roots of the first primes.
 *
 * Callers: the demonstration.
 */
#include "sha256.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static uint32_t round_constants[64];
static uint32_t initial_state[8];

/* floor(prime^(1/degree) * 2^32) mod 2^32 by bisection in integers: no rounding, hence the exact bits. */
static uint32_t root_fraction(unsigned prime, int degree)
{
    uint64_t low = 0, high = UINT64_C(1) << 38;

    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        unsigned __int128 power = (unsigned __int128)middle * middle;
        bool above;
        if (degree == 2) {
            above = power > ((unsigned __int128)prime << 64);
        } else {
            /* middle^3 <= prime * 2^96 compared as middle^2 <= floor(prime * 2^96 / middle). */
            above = power > ((unsigned __int128)prime << 96) / middle;
        }
        if (above) {
            high = middle;
        } else {
            low = middle;
        }
    }
    return (uint32_t)low;
}

static void compute_constants(void)
{
    int found = 0;

    for (unsigned candidate = 2; found < 64; candidate++) {
        bool prime = true;
        for (unsigned divisor = 2; divisor * divisor <= candidate; divisor++) {
            prime = prime && candidate % divisor != 0;
        }
        if (!prime) {
            continue;
        }
        if (found < 8) {
            initial_state[found] = root_fraction(candidate, 2);
        }
        round_constants[found++] = root_fraction(candidate, 3);
    }
}

static uint32_t rotate_right(uint32_t word, int bits)
{
    return (word >> bits) | (word << (32 - bits));
}

static void add_block(uint32_t state[8], const uint8_t *block)
{
    uint32_t w[64];

    for (int i = 0; i < 16; i++) {
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    }
    for (int i = 16; i < 64; i++) {
        uint32_t s0 = rotate_right(w[i - 15], 7) ^ rotate_right(w[i - 15], 18) ^ (w[i - 15] >> 3);
        uint32_t s1 = rotate_right(w[i - 2], 17) ^ rotate_right(w[i - 2], 19) ^ (w[i - 2] >> 10);
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }

    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int i = 0; i < 64; i++) {
        uint32_t s1 = rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25);
        uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + round_constants[i] + w[i];
        uint32_t s0 = rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22);
        uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

void cw_sha256_start(struct cw_sha256 *sha)
{
    if (round_constants[0] == 0) {
        compute_constants();
    }
    memcpy(sha->state, initial_state, sizeof(sha->state));
    sha->length = 0;
}

void cw_sha256_add(struct cw_sha256 *sha, const void *data, size_t length)
{
    const uint8_t *bytes = data;
    size_t held = sha->length % sizeof(sha->block);

    sha->length += length;
    while (length > 0) {
        if (held == 0 && length >= sizeof(sha->block)) {
            add_block(sha->state, bytes);
            bytes += sizeof(sha->block);
            length -= sizeof(sha->block);
            continue;
        }
        size_t part = sizeof(sha->block) - held;
        part = part < length ? part : length;
        memcpy(sha->block + held, bytes, part);
        bytes += part;
        length -= part;
        held += part;
        if (held == sizeof(sha->block)) {
            add_block(sha->state, sha->block);
            held = 0;
        }
    }
}

void cw_sha256_finish(struct cw_sha256 *sha, char hex[65])
{
    uint64_t bits = sha->length * 8;
    size_t held = sha->length % sizeof(sha->block);
    uint8_t tail[72] = {0x80};
    size_t padding = (held < 56 ? 56 : 120) - held;

    for (int i = 0; i < 8; i++) {
        tail[padding + (size_t)i] = (uint8_t)(bits >> (56 - 8 * i));
    }
    cw_sha256_add(sha, tail, padding + 8);
    for (int i = 0; i < 8; i++) {
        snprintf(hex + 8 * i, 9, "%08x", sha->state[i]);
    }
}
