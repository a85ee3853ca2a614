/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The first words of a connection: what is accepted is encoded to the same bytes again.
 */
#include "fuzz.h"

#include "transport/tcp/tcp_wire.h"
#include "wire/hello.h"
#include "wire/lane.h"

static void try_tcp(const uint8_t *data, size_t size)
{
    uint8_t again[CW_TCP_HANDSHAKE_SIZE], bytes[CW_TCP_ADDRESS_MAX];
    struct cw_tcp_handshake_header handshake;
    struct cw_tcp_frame_header frame;
    struct cw_tcp_address address;

    if (cw_tcp_address_decode(data, size, &address) == NULL) {
        fuzz_check(cw_tcp_address_encode(&address, bytes) == size);
        fuzz_check(memcmp(bytes, data, size) == 0);
    }
    if (size >= CW_TCP_FRAME_HEADER && cw_tcp_frame_decode(data, &frame)) {
        fuzz_check(frame.length <= ((frame.kind == CW_TCP_PACKET) ? CW_TCP_PACKET_MAX
                                                                  : CW_PLACE_HEADER + CW_TCP_PLACED_MAX));
    }
    if (size >= CW_TCP_HANDSHAKE_SIZE && cw_tcp_handshake_decode(data, 256, &handshake) == NULL) {
        cw_tcp_handshake_encode(again, handshake.kind, handshake.length, handshake.key);
        fuzz_check(memcmp(again, data, sizeof(again)) == 0 && cw_tcp_handshake_plausible(data, size));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t again[CW_HELLO_LENGTH];
    enum cw_hello_answer answer;
    struct cw_hello hello;
    struct cw_lane_hello lane;
    uint8_t bytes[CW_LANE_HELLO_LENGTH];

    if (cw_lane_hello_decode(data, size, &lane) == UCS_OK) {
        cw_lane_hello_encode(&lane, bytes);
        fuzz_check(memcmp(bytes, data, size) == 0 && lane.lane > 0 && lane.lane <= CW_MAX_LANES);
    }
    if (cw_hello_decode(data, size, &hello) == UCS_OK) {
        cw_hello_encode(&hello, again);
        fuzz_check(memcmp(again, data, size) == 0);
    }
    if (cw_hello_reply_decode(data, size, &answer) == UCS_OK) {
        fuzz_check(answer < CW_HELLO_ANSWERS);
    }
    try_tcp(data, size);
    return 0;
}
