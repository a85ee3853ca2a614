/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parameters of one test as bytes.
 *
 * Callers: session.c. Nothing that the peer sends is believed before numbers_sound() has checked it.
 */
#include "options.h"

#include <string.h>

/*
 * OFFSET  SIZE  MEANING (numbers little-endian)
 *      0    32  name of the test, filled up with zero bytes
 *     32     8  number of parts of the message
 *     40     8  iterations
 *     48     8  warm-up iterations
 *     56     8  bound on unfinished sends, 0: the test's own
 *     64     8  thread mode: 0 single, 1 serialized, 2 multi
 *     72     8  bits: 1 wild-card tag, 2 probe first, 4 sleep, 8 verify, 16 and 32 lists at sender and receiver,
 *               64 take stream data, 128 copy, 256 the tool's own memory, 512 mapped non-blocking, 1024 memory
 *               handle with each operation, 2048 no progress at the server
 *     80     8  distance between entries
 *     88     8  header of an active message
 *     96     8  number of threads
 *    104     8  type of the memory that is sent from, and 16 times that of the memory that is received into
 *    112  32*8  the parts, zero behind the last
 */
void cw_params_encode(const struct cw_perf_params *params, uint8_t bytes[CW_PERF_WIRE_BYTES])
{
    uint64_t bits = (params->wildcard_tag ? 1 : 0) | (params->probe_first ? 2 : 0) | (params->sleep ? 4 : 0) |
                    (params->verify ? 8 : 0) | (params->send_iov ? 16 : 0) | (params->recv_iov ? 32 : 0) |
                    (params->recv_data ? 64 : 0) | (params->copy ? 128 : 0) | (params->user_memory ? 256 : 0) |
                    (params->nonblock ? 512 : 0) | (params->memory_handle ? 1024 : 0) |
                    (params->idle_target ? 2048 : 0);
    uint64_t numbers[CW_PERF_NUMBERS] = {params->part_count,  params->iterations, params->warmup, params->window,
                                         params->thread_mode, bits,               params->stride, params->am_header,
                                         params->threads,     params->send_memory | params->recv_memory << 4};

    memcpy(numbers + 10, params->parts, params->part_count * sizeof(params->parts[0]));
    memset(bytes, 0, CW_PERF_WIRE_BYTES);
    memcpy(bytes, params->test, strnlen(params->test, CW_PERF_TEST_NAME));
    for (int i = 0; i < 8 * CW_PERF_NUMBERS; i++) {
        bytes[CW_PERF_TEST_NAME + i] = (uint8_t)(numbers[i / 8] >> (8 * (i % 8)));
    }
}

#define ALL_BITS 4096u

static bool numbers_sound(const uint64_t *numbers)
{
    uint64_t sum = 0;

    if (numbers[0] == 0 || numbers[0] > CW_PERF_MAX_PARTS || numbers[1] == 0 || numbers[1] > UINT64_C(1) << 48 ||
        numbers[2] > UINT64_C(1) << 48 || numbers[3] > 1u << 20 || numbers[4] > UCS_THREAD_MODE_MULTI ||
        numbers[5] >= ALL_BITS || numbers[6] > UINT64_C(1) << 40 || numbers[7] > 1u << 20 || numbers[8] == 0 ||
        numbers[8] > CW_PERF_MAX_THREADS || numbers[9] % 16 > UCS_MEMORY_TYPE_ROCM_MANAGED ||
        numbers[9] / 16 > UCS_MEMORY_TYPE_ROCM_MANAGED) {
        return false;
    }
    for (uint64_t i = 0; i < numbers[0]; i++) {
        if (numbers[10 + i] > CW_PERF_MAX_SIZE) {
            return false;
        }
        sum += numbers[10 + i];
    }
    return sum <= CW_PERF_MAX_SIZE;
}

bool cw_params_decode(struct cw_perf_params *params, const uint8_t *bytes, size_t length)
{
    uint64_t numbers[CW_PERF_NUMBERS] = {0};

    if (length != CW_PERF_WIRE_BYTES || bytes[CW_PERF_TEST_NAME - 1] != 0) {
        return false;
    }
    for (int i = 0; i < 8 * CW_PERF_NUMBERS; i++) {
        numbers[i / 8] |= (uint64_t)bytes[CW_PERF_TEST_NAME + i] << (8 * (i % 8));
    }
    if (!numbers_sound(numbers)) {
        return false;
    }
    *params = (struct cw_perf_params){
        .part_count = (unsigned)numbers[0],
        .iterations = numbers[1],
        .warmup = numbers[2],
        .window = numbers[3],
        .thread_mode = (ucs_thread_mode_t)numbers[4],
        .wildcard_tag = (numbers[5] & 1) != 0,
        .probe_first = (numbers[5] & 2) != 0,
        .sleep = (numbers[5] & 4) != 0,
        .verify = (numbers[5] & 8) != 0,
        .send_iov = (numbers[5] & 16) != 0,
        .recv_iov = (numbers[5] & 32) != 0,
        .recv_data = (numbers[5] & 64) != 0,
        .copy = (numbers[5] & 128) != 0,
        .user_memory = (numbers[5] & 256) != 0,
        .nonblock = (numbers[5] & 512) != 0,
        .memory_handle = (numbers[5] & 1024) != 0,
        .idle_target = (numbers[5] & 2048) != 0,
        .stride = numbers[6],
        .am_header = numbers[7],
        .threads = (unsigned)numbers[8],
        .send_memory = (ucs_memory_type_t)(numbers[9] % 16),
        .recv_memory = (ucs_memory_type_t)(numbers[9] / 16),
    };
    for (unsigned i = 0; i < params->part_count; i++) {
        params->parts[i] = numbers[10 + i];
        params->size += numbers[10 + i];
    }
    memcpy(params->test, bytes, CW_PERF_TEST_NAME);
    return true;
}
