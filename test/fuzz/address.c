/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Worker addresses: decoded, walked, and asked for by every transport. The sum is made right unless the first byte is
 * odd, so that the fuzzer gets behind it.
 */
#include "fuzz.h"

#include "connect/connect.h"
#include "connect/path.h"

static void sum_up(uint8_t *bytes, size_t length)
{
    uint32_t hash = 2166136261u;
    size_t i;

    for (i = 0; i < length; i++) {
        hash = (hash ^ ((i >= 16 && i < CW_ADDRESS_HEADER) ? 0 : bytes[i])) * 16777619u;
    }
    for (i = 0; i < 4; i++) {
        bytes[16 + i] = (uint8_t)(hash >> (8 * i));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ucp_worker_h worker = fuzz_worker("self,shm,tcp");
    struct cw_address address;
    uint8_t *blob, *reported;
    struct cw_path path;
    size_t length;

    if (size < 1 + CW_ADDRESS_HEADER || size > CW_ADDRESS_MAX) {
        return 0;
    }
    length = size - 1;
    blob = malloc(length); /* exactly as long as it says, for the sanitizer */
    fuzz_check(blob != NULL);
    memcpy(blob, data + 1, length);
    reported = blob + CW_ADDRESS_AT_LENGTH;
    if (!(data[0] & 1)) {
        blob[0] = 0x20;
        blob[CW_ADDRESS_AT_UID + 8] = 0xff;
        memcpy(blob + CW_ADDRESS_AT_MAGIC, CW_ADDRESS_MAGIC, 3);
        reported[0] = (uint8_t)length;
        reported[1] = (uint8_t)(length >> 8);
        sum_up(blob, length);
    } else if ((reported[0] | ((size_t)reported[1] << 8)) > length) {
        reported[0] = reported[1] = 0; /* the caller promises that all of it can be read */
    }
    if (cw_address_decode(blob, &address) == UCS_OK) {
        fuzz_check(address.length <= length);
        (void)cw_wireup_check(worker, &address);
        path.number = 0;
        while (cw_path_next(worker, &address, path.number, NULL, &path)) {
            fuzz_check(path.length <= length);
        }
    }
    free(blob);
    return 0;
}
