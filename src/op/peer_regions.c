/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * op/peer_regions.h. A mapping is believed as long as its beacon says that the region is registered: the peer may have
 * given the memory back and use the addresses for something else. Mappings beyond a number are not made; those messages
 * go by system copies.
 */
#include "op/peer_regions.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/log.h"
#include "core/rkey.h"
#include "op/op_ep.h"
#include "wire/packet.h"

#define MAX_MAPPINGS 32u
#define MAX_TOLD     32u /* further regions are told again and again: harmless, and rare */

struct cw_peer_regions {
    unsigned num_told;
    unsigned num_keys;
    uint64_t told[MAX_TOLD];            /* tokens of our regions */
    struct ucp_rkey *keys[MAX_MAPPINGS]; /* of the peer's, all mapped here */
};

static struct cw_peer_regions *regions_get(struct ucp_ep *ep)
{
    if (cw_op_ep(ep)->peer_regions == NULL) {
        cw_op_ep(ep)->peer_regions = calloc(1, sizeof(*cw_op_ep(ep)->peer_regions));
    }
    return cw_op_ep(ep)->peer_regions;
}

static int was_told(struct cw_peer_regions *regions, uint64_t token)
{
    unsigned i;

    for (i = 0; i < regions->num_told && i < MAX_TOLD; i++) {
        if (regions->told[i] == token) {
            return 1;
        }
    }
    regions->told[regions->num_told++ % MAX_TOLD] = token;
    return 0;
}

void cw_peer_regions_tell(struct ucp_ep *ep, const void *ptr, size_t length)
{
    uint8_t packet[CW_KEY_MAX];
    struct cw_peer_regions *regions;
    struct cw_key key;

    if (!cw_lane_has_copies(ep->conn) || !cw_mem_find_shared(ep->worker->context, ptr, length, &key)) {
        return;
    }
    regions = regions_get(ep);
    if (regions != NULL && !was_told(regions, key.token)) {
        cw_ep_send_control(ep, CW_PACKET_REGION, packet, cw_key_encode(&key, NULL, packet));
    }
}

static void forget(struct cw_peer_regions *regions, unsigned index)
{
    cw_rkey_destroy(regions->keys[index]);
    regions->keys[index] = regions->keys[--regions->num_keys];
}

/* Where it lies here, or NULL. */
static char *find(struct ucp_ep *ep, uint64_t address, uint64_t length, unsigned rights)
{
    struct cw_peer_regions *regions = cw_op_ep(ep)->peer_regions;
    unsigned i;
    char *ptr;

    if (cw_likely(regions == NULL)) {
        return NULL;
    }
    for (i = 0; i < regions->num_keys; i++) {
        if (!cw_rkey_holds(regions->keys[i], address, length) || (regions->keys[i]->key.rights & rights) != rights) {
            continue;
        }
        ptr = cw_rkey_direct(regions->keys[i], address, 0);
        if (ptr != NULL) {
            return ptr;
        }
        forget(regions, i--);
    }
    return NULL;
}

int cw_peer_regions_is_possible(struct ucp_ep *ep, uint64_t address, uint64_t length, unsigned right)
{
    return find(ep, address, length, right) != NULL || cw_lane_can_copy(ep->conn);
}

static uint64_t bytes_of(const struct iovec *iov, unsigned count)
{
    uint64_t length = 0;
    unsigned i;

    for (i = 0; i < count; i++) {
        length += iov[i].iov_len;
    }
    return length;
}

ucs_status_t cw_peer_regions_read(struct ucp_ep *ep, const struct iovec *to, unsigned count, uint64_t from)
{
    const char *source = find(ep, from, bytes_of(to, count), CW_KEY_READ);
    unsigned i;

    if (source == NULL) {
        return cw_lane_copy_from(ep->conn, to, count, from, NULL);
    }
    for (i = 0; i < count; i++) {
        cw_bytes_copy_any(to[i].iov_base, source, to[i].iov_len);
        source += to[i].iov_len;
    }
    return UCS_OK;
}

ucs_status_t cw_peer_regions_write(struct ucp_ep *ep, const struct iovec *from, unsigned count, uint64_t to)
{
    char *dest = find(ep, to, bytes_of(from, count), CW_KEY_WRITE);
    unsigned i;

    if (dest == NULL) {
        return cw_lane_copy_to(ep->conn, from, count, to, NULL);
    }
    for (i = 0; i < count; i++) {
        cw_bytes_copy_any(dest, from[i].iov_base, from[i].iov_len);
        dest += from[i].iov_len;
    }
    return UCS_OK;
}

/* Nobody can tell us to write to somebody else's memory, least of all to ours: the system says which process the peer
 * is. Our own regions are reached in this way where the peer lives in this process. */
static int is_its_own(const struct ucp_ep *ep, const struct cw_key *key)
{
    return (key->flags & CW_KEY_SHARED) && key->pid != 0 && ep->conn != NULL &&
           key->pid == cw_lane_peer_process(ep->conn);
}

ucs_status_t cw_peer_regions_on_region(struct ucp_ep *ep, const void *data, size_t length)
{
    struct ucp_rkey *rkey;
    struct cw_peer_regions *regions;
    struct cw_key key;

    if (length < CW_KEY_LEAST || length != cw_key_length(data) || cw_key_decode(data, &key, NULL) != UCS_OK ||
        key.length == 0) {
        return UCS_ERR_IO_ERROR;
    }
    if (!is_its_own(ep, &key)) {
        cw_debug("memory of process %u is not what endpoint %p's peer may tell of", key.pid, (void *)ep);
        return UCS_OK;
    }
    regions = regions_get(ep);
    if (regions == NULL || regions->num_keys == MAX_MAPPINGS || find(ep, key.address, key.length, 0) != NULL ||
        cw_rkey_unpack(ep->worker->context, data, &rkey) != UCS_OK) {
        return UCS_OK; /* by system copies, then */
    }
    if (rkey->local == NULL || (rkey->mapping != NULL && cw_mem_may_vanish(rkey->mapping))) {
        cw_rkey_destroy(rkey);
        return UCS_OK;
    }
    cw_debug("%llu bytes that endpoint %p's peer allocated are mapped here", (unsigned long long)key.length,
             (void *)ep);
    regions->keys[regions->num_keys++] = rkey;
    return UCS_OK;
}

void cw_peer_regions_ep_lost(struct ucp_ep *ep)
{
    if (cw_op_ep(ep)->peer_regions != NULL) {
        while (cw_op_ep(ep)->peer_regions->num_keys > 0) {
            forget(cw_op_ep(ep)->peer_regions, cw_op_ep(ep)->peer_regions->num_keys - 1);
        }
        free(cw_op_ep(ep)->peer_regions);
        cw_op_ep(ep)->peer_regions = NULL;
    }
}
