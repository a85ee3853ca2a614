/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What client and server say when they meet: what is accepted is encoded to the same bytes again, and the address that
 * the server sends can be walked.
 */
#include "fuzz.h"

#include "wire/cm.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t again[CW_CM_REQUEST_LENGTH], reply[CW_CM_REPLY_HEADER + CW_ADDRESS_MAX];
    enum cw_cm_verdict answer;
    struct cw_address address;
    const uint8_t *entry;
    struct cw_cm_request asked;
    unsigned wire_id;
    size_t length;

    if (cw_cm_request_decode(data, size, &asked) == UCS_OK) {
        cw_cm_request_encode(&asked, again);
        fuzz_check(memcmp(again, data, size) == 0);
    }
    if (cw_cm_reply_decode(data, size, &answer, &address) == UCS_OK) {
        fuzz_check(answer < CW_CM_VERDICTS && address.length == size - CW_CM_REPLY_HEADER);
        length = cw_cm_reply_encode(answer, address.bytes, address.length, reply, sizeof(reply));
        fuzz_check(length == size && memcmp(reply, data, size) == 0);
        for (wire_id = 0; address.length > 0 && wire_id < 256; wire_id++) {
            entry = cw_address_find(&address, (uint8_t)wire_id, &length);
            fuzz_check(entry == NULL || (entry >= data && entry + length <= data + size));
        }
    }
    return 0;
}
