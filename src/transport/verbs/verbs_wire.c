/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Encoding and decoding for verbs_wire.h.
 */
#include "transport/verbs/verbs_wire.h"

#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"

#define RETRY_MOST_NS UINT64_C(1000000000)
#define MTU_FIRST     1u /* 256 bytes */
#define MTU_LAST      5u /* 4096 */
#define PKEY_FULL     0x8000u
#define PARKS         2u /* flag in the first byte of an address: connections may be parked */

static void put(uint8_t *to, uint64_t number, unsigned bytes)
{
    while (bytes > 0) {
        to[--bytes] = (uint8_t)number;
        number >>= 8;
    }
}

static uint64_t get(const uint8_t *from, unsigned bytes)
{
    uint64_t number = 0;

    while (bytes-- > 0) {
        number = (number << 8) | *from++;
    }
    return number;
}

size_t cw_verbs_address_encode(const struct cw_verbs_address *address, uint8_t *to)
{
    to[0] = (uint8_t)(address->ethernet | PARKS);
    to[1] = (uint8_t)address->mtu;
    put(to + 2, address->ethernet ? address->watch_port : address->lid, 2);
    put(to + 4, address->pkey, 2);
    put(to + 6, address->qp, 3);
    to[9] = (uint8_t)address->num_gids;
    put(to + 10, address->key, 8);
    to[18] = (uint8_t)address->domain;
    cw_bytes_copy_any(to + CW_VERBS_ADDRESS_HEAD, address->gids, (size_t)16 * address->num_gids);
    return CW_VERBS_ADDRESS_HEAD + (size_t)16 * address->num_gids;
}

const char *cw_verbs_address_decode(const void *from, size_t length, struct cw_verbs_address *address)
{
    const uint8_t *bytes = from;

    memset(address, 0, sizeof(*address));
    if (length < CW_VERBS_ADDRESS_HEAD) {
        return "its RDMA address is too short";
    }
    address->ethernet = bytes[0] ^ PARKS;
    address->mtu = bytes[1];
    if (address->ethernet) {
        address->watch_port = (uint16_t)get(bytes + 2, 2);
    } else {
        address->lid = (uint16_t)get(bytes + 2, 2);
    }
    address->pkey = (uint16_t)get(bytes + 4, 2);
    address->qp = (uint32_t)get(bytes + 6, 3);
    address->num_gids = bytes[9];
    address->key = get(bytes + 10, 8);
    address->domain = bytes[18];
    if (address->num_gids > CW_VERBS_MAX_GIDS || length != CW_VERBS_ADDRESS_HEAD + (size_t)16 * address->num_gids) {
        return "its RDMA address has a wrong length";
    }
    if (address->ethernet > 1) {
        return "its RDMA address is of another version";
    }
    if (address->mtu < MTU_FIRST || address->mtu > MTU_LAST || address->qp < 2 ||
        address->num_gids == 0) {
        return "its RDMA address is malformed";
    }
    cw_bytes_copy_any(address->gids, bytes + CW_VERBS_ADDRESS_HEAD, (size_t)16 * address->num_gids);
    return NULL;
}

size_t cw_verbs_datagram_encode(const struct cw_verbs_datagram *datagram, uint8_t *to)
{
    size_t length = CW_VERBS_DATAGRAM_HEAD;

    to[0] = 'C';
    to[1] = 'W';
    to[2] = 2;
    to[3] = (uint8_t)datagram->kind;
    put(to + 4, datagram->key, 8);
    put(to + 12, datagram->to, 8);
    put(to + 20, datagram->from, 8);
    to[28] = (uint8_t)datagram->answer;
    to[29] = (uint8_t)datagram->mtu;
    to[30] = (uint8_t)datagram->reads;
    to[31] = (uint8_t)(datagram->gid_from | (datagram->gid_to << 4));
    put(to + 32, datagram->qp, 3);
    put(to + 35, datagram->psn, 3);
    put(to + 38, datagram->length, 2);
    put(to + 40, datagram->epoch, 4);
    put(to + 44, datagram->handled, 4);
    to[48] = (uint8_t)datagram->is_refused;
    if (datagram->kind == CW_VERBS_HELLO || datagram->kind == CW_VERBS_CLOSE) {
        to[length] = (uint8_t)cw_verbs_address_encode(&datagram->address, to + length + 1);
        length += 1u + to[length];
    }
    if (datagram->length > 0) {
        cw_bytes_copy_any(to + length, datagram->words, datagram->length);
    }
    return length + datagram->length;
}

/* Decodes the parts behind the head. */
static const char *decode_rest(const uint8_t *bytes, size_t length, struct cw_verbs_datagram *datagram)
{
    size_t at = CW_VERBS_DATAGRAM_HEAD;

    if (datagram->kind == CW_VERBS_HELLO || datagram->kind == CW_VERBS_CLOSE) {
        if (length < at + 1 || length - at - 1 < bytes[at]) {
            return "its address is truncated";
        }
        if (cw_verbs_address_decode(bytes + at + 1, bytes[at], &datagram->address) != NULL) {
            return "its address is malformed";
        }
        if (datagram->gid_from >= datagram->address.num_gids) {
            return "it names a GID that its sender does not have";
        }
        at += 1u + bytes[at];
    }
    if (length - at != datagram->length) {
        return "its length is wrong";
    }
    datagram->words = bytes + at;
    return NULL;
}

const char *cw_verbs_datagram_decode(const void *from, size_t length, struct cw_verbs_datagram *datagram)
{
    const uint8_t *bytes = from;

    memset(datagram, 0, sizeof(*datagram));
    if (length < CW_VERBS_DATAGRAM_HEAD || memcmp(bytes, "CW\2", 3) != 0) {
        return "not a datagram of this library";
    }
    if (bytes[3] < CW_VERBS_HELLO || bytes[3] > CW_VERBS_CLOSE || bytes[28] > CW_VERBS_FAILED) {
        return "its kind is unknown";
    }
    datagram->kind = (enum cw_verbs_kind)bytes[3];
    datagram->key = get(bytes + 4, 8);
    datagram->to = get(bytes + 12, 8);
    datagram->from = get(bytes + 20, 8);
    datagram->answer = (enum cw_verbs_answer)bytes[28];
    datagram->mtu = bytes[29];
    datagram->reads = bytes[30];
    datagram->gid_from = bytes[31] & 15u;
    datagram->gid_to = bytes[31] >> 4;
    datagram->qp = (uint32_t)get(bytes + 32, 3);
    datagram->psn = (uint32_t)get(bytes + 35, 3);
    datagram->length = (size_t)get(bytes + 38, 2);
    datagram->epoch = (uint32_t)get(bytes + 40, 4);
    datagram->handled = (uint32_t)get(bytes + 44, 4);
    datagram->is_refused = bytes[48];
    if (datagram->is_refused > 1 || datagram->length > CW_VERBS_WORDS_MAX || datagram->mtu < MTU_FIRST ||
        datagram->mtu > MTU_LAST) {
        return "its values are out of range";
    }
    return decode_rest(bytes, length, datagram);
}

int cw_verbs_gid_is_ipv4(const uint8_t gid[16])
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

    return memcmp(gid, mapped, sizeof(mapped)) == 0;
}

int cw_verbs_gid_is_local(const uint8_t gid[16])
{
    return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

static const char *pair_infiniband(const struct cw_verbs_address *ours, const struct cw_verbs_address *theirs)
{
    if (memcmp(ours->gids[0], theirs->gids[0], 8) != 0) {
        return "it is in another InfiniBand subnet";
    }
    if (theirs->lid == 0 || theirs->lid >= 0xc000) {
        return "its LID is invalid";
    }
    if ((ours->pkey & ~PKEY_FULL) != (theirs->pkey & ~PKEY_FULL)) {
        return "it is in another partition of the fabric (P_Key)";
    }
    return ((ours->pkey | theirs->pkey) & PKEY_FULL) ? NULL : "both are limited members of the partition (P_Key)";
}

static bool are_alike(const uint8_t *left, const uint8_t *right)
{
    return cw_verbs_gid_is_ipv4(left) == cw_verbs_gid_is_ipv4(right) &&
           cw_verbs_gid_is_local(left) == cw_verbs_gid_is_local(right);
}

int cw_verbs_pair_on(const struct cw_verbs_address *ours, const uint32_t our_devices[CW_VERBS_MAX_GIDS],
                     const struct cw_verbs_address *theirs, const uint32_t their_devices[CW_VERBS_MAX_GIDS],
                     unsigned *our_gid, unsigned *their_gid)
{
    unsigned i, j;

    for (i = 0; i < ours->num_gids; i++) {
        for (j = 0; j < theirs->num_gids; j++) {
            if (our_devices[i] != 0 && our_devices[i] == their_devices[j] &&
                are_alike(ours->gids[i], theirs->gids[j])) {
                *our_gid = i;
                *their_gid = j;
                return 1;
            }
        }
    }
    return 0;
}

const char *cw_verbs_pair(const struct cw_verbs_address *ours, const struct cw_verbs_address *theirs, unsigned *our_gid,
                          unsigned *their_gid)
{
    unsigned i, j;

    *our_gid = *their_gid = 0;
    if (ours->ethernet != theirs->ethernet) {
        return "one side is on InfiniBand, the other one on Ethernet";
    }
    if (!ours->ethernet) {
        return pair_infiniband(ours, theirs);
    }
    for (i = 0; i < ours->num_gids; i++) {
        for (j = 0; j < theirs->num_gids; j++) {
            if (are_alike(ours->gids[i], theirs->gids[j])) {
                *our_gid = i;
                *their_gid = j;
                return NULL;
            }
        }
    }
    return "the two have no address of one family (GID)";
}

void cw_verbs_retry_begin(struct cw_verbs_retry *retry, uint64_t now_ns, uint64_t first_ns, uint64_t timeout_ns)
{
    retry->interval_ns = first_ns;
    retry->end_ns = (timeout_ns < UINT64_MAX - now_ns) ? now_ns + timeout_ns : UINT64_MAX;
    retry->next_ns = (now_ns + first_ns < retry->end_ns) ? now_ns + first_ns : retry->end_ns;
}

int cw_verbs_retry_step(struct cw_verbs_retry *retry, uint64_t now_ns)
{
    if (now_ns >= retry->end_ns) {
        return 0;
    }
    retry->interval_ns = (retry->interval_ns >= RETRY_MOST_NS / 2) ? RETRY_MOST_NS : 2 * retry->interval_ns;
    retry->next_ns = (now_ns + retry->interval_ns < retry->end_ns) ? now_ns + retry->interval_ns : retry->end_ns;
    return 1;
}
