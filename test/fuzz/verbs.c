/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses and datagrams of the verbs transport: what is accepted is encoded to the same bytes again, and a path to
 * any address is searched for within its GIDs.
 */
#include "fuzz.h"

#include "transport/verbs/verbs_wire.h"

static void try_pair(const struct cw_verbs_address *theirs, const struct cw_verbs_address *ours)
{
    unsigned our_gid, their_gid;

    if (cw_verbs_pair(ours, theirs, &our_gid, &their_gid) == NULL) {
        fuzz_check(our_gid < ours->num_gids && their_gid < theirs->num_gids);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct cw_verbs_address last = {.num_gids = 1};
    uint8_t again[CW_VERBS_DATAGRAM_MAX];
    struct cw_verbs_datagram datagram;
    struct cw_verbs_address address;
    uint8_t *copy = malloc(size + 1); /* at its end, for the sanitizer */

    fuzz_check(copy != NULL);
    memcpy(copy + 1, data, size);
    if (cw_verbs_address_decode(copy + 1, size, &address) == NULL) {
        fuzz_check(cw_verbs_address_encode(&address, again) == size && memcmp(again, data, size) == 0);
        try_pair(&address, &last);
        last = address;
    }
    if (cw_verbs_datagram_decode(copy + 1, size, &datagram) == NULL) {
        fuzz_check(cw_verbs_datagram_encode(&datagram, again) == size && memcmp(again, data, size) == 0);
        if (datagram.kind == CW_VERBS_HELLO) {
            fuzz_check(datagram.gid_from < datagram.address.num_gids);
            try_pair(&datagram.address, &last);
        }
    }
    free(copy);
    return 0;
}
