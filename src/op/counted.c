/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implementation of op/counted.h. Invariants: only the side that holds the claim changes `done`, and `done` never
 * falls; this side carries out packet n while `done` is n, so each packet is carried out exactly once; the log has the
 * packets from rma->carried to rma->counted, which the transport keeps in place until the owner has passed them. If the
 * peer writes false values to the claim pair, it can end a wait of this side too early, make this side skip the peer's
 * own packets, or make it wait as long as the peer lives.
 */
#include "core/lane_copies.h"
#include "op/counted.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/log.h"
#include "op/cma.h"
#include "os/lock.h"

#define REFUSED_ONE      (UINT64_C(1) << 32)
#define RESCUE_PACKETS   16u                   /* in one turn: the owner may be waiting for the claim */
#define SPINS            2000u
#define LONG_NS          UINT64_C(1000000000)  /* for an origin that holds the claim, which takes microseconds */

struct log_entry {
    const char *packet;         /* struct cw_wire_put, then the bytes */
    struct cw_wire_put header;  /* copy of the packet's header, equal to it while the packet is there */
    uint64_t validity;
    size_t length;
};

struct cw_counted {
    struct cw_claim_pair *pair;
    uint32_t refused;           /* the refused packets in `done`, as last seen */
    uint8_t away;               /* the origin carried packets out, and the owner has not looked since */
    struct log_entry log[CW_COUNTED_PACKETS];
};

/* ---- the origin ---- */

int cw_counted_is_open(struct ucp_ep *ep, const struct ucp_rkey *rkey)
{
    const struct cw_rma *rma = cw_op_ep(ep)->rma;

    if (!cw_cma_is_possible(ep, &rkey->key) || rma == NULL || rma->absent) {
        return 0;
    }
    if (cw_unlikely(rma->packets != NULL && rma->packets->away)) {
        rma->packets->away = __atomic_load_n(&rma->packets->pair->claim, __ATOMIC_RELAXED) == CW_COUNTED_AWAY;
        return !rma->packets->away && cw_counted_is_settled(rma);
    }
    return 1;
}

static struct cw_counted *counted_new(struct ucp_ep *ep)
{
    struct cw_counted *packets = malloc(sizeof(*packets));

    if (packets != NULL) {
        packets->pair              = cw_lane_claim_pair(ep->conn, 1, CW_COUNTED);
        packets->refused = 0;
        packets->away    = 0;
        __atomic_store_n(&packets->pair->done, (uint32_t)cw_op_ep(ep)->rma->carried, __ATOMIC_RELAXED);
        cw_op_ep(ep)->rma->packets = packets;
    }
    return packets;
}

struct packing {
    struct cw_wire_put header;
    const struct cw_parcel *parcel;
    struct cw_nt_choice *nt;
    const char *place;
};

static size_t pack(void *dest, size_t max CW_UNUSED, void *arg)
{
    struct packing *packing        = arg;
    const struct cw_parcel *parcel = packing->parcel;
    char *payload                  = (char *)dest + sizeof(packing->header);

    packing->place = dest;
    memcpy(dest, &packing->header, sizeof(packing->header));
    if (parcel->from == NULL) {
        (void)cw_dt_pack_nt(parcel->cursor, packing->nt, payload, parcel->length);
    } else if (parcel->length >= CW_NT_LEAST) {
        cw_nt_copy(packing->nt, payload, parcel->from, parcel->length);
    } else {
        cw_bytes_copy(payload, parcel->from, parcel->length);
    }
    return sizeof(packing->header) + parcel->length;
}

ucs_status_t cw_counted_send(struct ucp_ep *ep, const struct ucp_rkey *rkey, uint64_t address,
                            const struct cw_parcel *parcel)
{
    struct packing packing   = {.header = {.token = htole64(rkey->key.token), .address = htole64(address)},
                                .parcel = parcel,
                                .nt     = ep->conn->nt};
    struct cw_rma *rma       = cw_op_ep(ep)->rma;
    struct cw_counted *packets = cw_likely(rma->packets != NULL) ? rma->packets : counted_new(ep);
    ucs_status_t status;

    if (cw_unlikely(packets == NULL)) {
        return UCS_ERR_NO_MEMORY;
    }
    if (cw_unlikely(rma->counted - rma->carried >= CW_COUNTED_PACKETS)) {
        cw_counted_look(rma);
        if (rma->counted - rma->carried >= CW_COUNTED_PACKETS) {
            cw_fallback_begin(rma, 1);
            return CW_HOLD;
        }
    }
    status =
        cw_lane_send_bcopy(ep->conn, CW_PACKET_PUT_COUNTED, sizeof(packing.header) + parcel->length, pack, &packing);
    if (cw_unlikely(status != UCS_OK)) {
        cw_fallback_begin(rma, 1);
        return status;
    }
    packets->log[rma->counted++ % CW_COUNTED_PACKETS] = (struct log_entry){
        .packet = packing.place, .header = packing.header, .validity = rkey->key.validity, .length = parcel->length};
    cw_ep_owes_rma(ep);
    return UCS_OK;
}

/* Takes over the count of packets that were carried out, of which `done` has the low bits. If the peer writes a count
 * that is too large, all packets count as carried out. */
static void take_count(struct cw_rma *rma, uint64_t done)
{
    const uint32_t ahead = (uint32_t)done - (uint32_t)rma->carried;

    rma->carried += (ahead <= rma->counted - rma->carried) ? ahead : rma->counted - rma->carried;
    if (cw_unlikely((uint32_t)(done >> 32) != rma->packets->refused)) {
        rma->packets->refused = (uint32_t)(done >> 32);
        rma->must_ask        = 1;
        rma->sent_mark++;
    }
}

void cw_counted_look(struct cw_rma *rma)
{
    if (!cw_counted_is_settled(rma)) {
        /* pairs with the release in carry */
        take_count(rma, __atomic_load_n(&rma->packets->pair->done, __ATOMIC_ACQUIRE));
    }
}

void cw_counted_confirmed(struct cw_rma *rma, uint64_t number)
{
    if (number >= rma->carried && number <= rma->counted) {
        rma->carried = number;
    }
}

/* Lets the system write the bytes of one packet. An owner that has given the endpoint up may free a packet without
 * carrying it out; its place then holds other bytes. */
static ucs_status_t write_packet(struct ucp_ep *ep, const struct log_entry *entry)
{
    const struct cw_validity validity = {.address = entry->validity, .value = le64toh(entry->header.token)};
    const size_t header_length    = sizeof(entry->header);
    const struct iovec iov        = {.iov_base = (void *)(uintptr_t)(entry->packet + header_length),
                                     .iov_len  = entry->length};

    if (memcmp(entry->packet, &entry->header, header_length) != 0) {
        return UCS_ERR_UNSUPPORTED;
    }
    return cw_lane_copy_to(ep->conn, &iov, 1, le64toh(entry->header.address), &validity);
}

static int claim(struct cw_claim_pair *pair, enum cw_counted_state who)
{
    uint64_t state = CW_COUNTED_FREE;

    if (cw_likely(
            __atomic_compare_exchange_n(&pair->claim, &state, (uint64_t)who, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))) {
        return 1;
    }
    return state == CW_COUNTED_AWAY &&
           __atomic_compare_exchange_n(&pair->claim, &state, (uint64_t)who, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* Returns whether the origin may carry out its puts: no operation may be under way that these puts must not overtake.
 * Gets may be under way, because no put was sent that writes the bytes of such a get. */
static int may_rescue(const struct cw_rma *rma)
{
    return rma->ep->state == CW_EP_OPEN && rma->sent_mark == rma->acked_mark &&
           rma->replies == rma->num_quick + rma->num_orphans && cw_lane_can_copy(rma->ep->conn);
}

ucs_status_t cw_counted_rescue(struct cw_rma *rma)
{
    struct cw_counted *packets = rma->packets;
    ucs_status_t status      = UCS_OK;
    uint64_t done;
    unsigned i;

    if (!may_rescue(rma)) {
        return UCS_ERR_UNSUPPORTED;
    }
    if (!claim(packets->pair, CW_COUNTED_ORIGIN)) {
        return (__atomic_load_n(&packets->pair->claim, __ATOMIC_RELAXED) == CW_COUNTED_SHUT) ? UCS_ERR_UNSUPPORTED
                                                                                             : CW_AGAIN;
    }
    done = __atomic_load_n(&packets->pair->done, __ATOMIC_RELAXED);
    take_count(rma, done);
    for (i = 0; i < RESCUE_PACKETS && !cw_counted_is_settled(rma) && status == UCS_OK; i++) {
        status = write_packet(rma->ep, &packets->log[rma->carried % CW_COUNTED_PACKETS]);
        if (status == UCS_OK) {
            rma->carried++;
            packets->away = 1;
        }
    }
    done = (done & ~(uint64_t)UINT32_MAX) | (uint32_t)rma->carried;
    __atomic_store_n(&packets->pair->done, done, __ATOMIC_RELEASE);
    __atomic_store_n(&packets->pair->claim, packets->away ? CW_COUNTED_AWAY : CW_COUNTED_FREE, __ATOMIC_RELEASE);
    return (status == UCS_OK) ? UCS_OK : UCS_ERR_UNSUPPORTED;
}

void cw_counted_free(struct cw_rma *rma)
{
    free(rma->packets);
    rma->packets = NULL;
}

/* ---- the owner ---- */

static int origin_is_gone(const struct ucp_ep *ep)
{
    return cw_lane_peer_gone(ep->conn);
}

static void tell_that_it_waits(const struct ucp_ep *ep)
{
    static struct cw_log_limit limit;

    cw_log_ratelimited(&limit, CW_LOG_WARN, "worker %016llx stands still in the middle of a put to memory of this "
                       "process, which waits for it: it was stopped, or the machine is overloaded",
                       (unsigned long long)cw_ep_peer_uid(ep));
}

/* Whether the word is one that an origin writes. */
static bool is_of_origin(const struct cw_claim_pair *pair)
{
    const uint64_t state = __atomic_load_n(&pair->claim, __ATOMIC_RELAXED);

    return state == CW_COUNTED_ORIGIN || state == CW_COUNTED_AWAY || state == CW_COUNTED_FREE;
}

/* Waits while the origin holds the claim and lets the system write, as long as the origin lives. The owner must not
 * handle later packets before the origin has finished. */
static CW_COLD ucs_status_t wait_for_claim(struct ucp_ep *ep, struct cw_claim_pair *pair)
{
    const uint64_t begin_ns = cw_clock_ns();
    bool told               = false;
    unsigned spins;

    for (spins = 0; !claim(pair, CW_COUNTED_OWNER); spins++) {
        if (!is_of_origin(pair)) {
            return UCS_ERR_IO_ERROR;
        }
        if (spins < SPINS) {
            cw_cpu_relax();
            continue;
        }
        if (origin_is_gone(ep)) {
            return UCS_ERR_CONNECTION_RESET; /* the origin died while it held the claim (ERR-1) */
        }
        if (!told && cw_clock_ns() - begin_ns > LONG_NS) {
            tell_that_it_waits(ep);
            told = true;
        }
        cw_lock_yield();
    }
    return UCS_OK;
}

/* Carries out packet `number`, unless the origin has done so. The caller holds the claim. */
static CW_INLINE void carry(struct ucp_ep *ep, struct cw_claim_pair *pair, uint32_t number, const void *data,
                            size_t length)
{
    uint64_t done = __atomic_load_n(&pair->done, __ATOMIC_RELAXED);

    if (cw_likely((uint32_t)done == number)) {
        if (cw_unlikely(cw_rma_target_put(ep, data, length) != UCS_OK)) {
            done += REFUSED_ONE;
        }
        done = (done & ~(uint64_t)UINT32_MAX) | (uint32_t)(number + 1);
        __atomic_store_n(&pair->done, done, __ATOMIC_RELEASE); /* pairs with cw_counted_look's acquire */
    }
}

static ucs_status_t carry_out(struct ucp_ep *ep, struct cw_claim_pair *pair, const void *data, size_t length)
{
    ucs_status_t status;

    if (cw_unlikely(!claim(pair, CW_COUNTED_OWNER))) {
        status = wait_for_claim(ep, pair);
        if (status != UCS_OK) {
            return status;
        }
    }
    carry(ep, pair, cw_op_ep(ep)->rma->counted_here++, data, length);
    __atomic_store_n(&pair->claim, CW_COUNTED_FREE, __ATOMIC_RELEASE);
    return UCS_OK;
}

/* Returns the claim pair of the peer. An endpoint to its own worker is both ends, and its packets arrive on its loop
 * connection. */
static struct cw_claim_pair *peer_pair(const struct ucp_ep *ep)
{
    struct cw_conn *conn = (cw_ep_peer_uid(ep) == ep->worker->uid && ep->loop_conn != NULL) ? ep->loop_conn : ep->conn;

    return cw_lane_claim_pair(conn, 0, CW_COUNTED);
}

ucs_status_t cw_counted_on_put(struct ucp_ep *ep, const void *data, size_t length)
{
    struct cw_rma *rma = cw_rma_get(ep);

    if (cw_unlikely(rma == NULL)) {
        return UCS_ERR_NO_MEMORY;
    }
    if (cw_unlikely(!cw_lane_has_copies(ep->conn))) {
        return UCS_ERR_IO_ERROR;
    }
    if (cw_unlikely(rma->owner_pair == NULL)) {
        rma->owner_pair = peer_pair(ep);
    }
    return carry_out(ep, rma->owner_pair, data, length);
}
