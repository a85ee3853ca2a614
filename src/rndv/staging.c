/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bounce buffers of rndv/staging.h. The message is cut into chunks of equal length; a slot holds one of them. A
 * slot is FREE; or BUSY with a copy; or FULL: its chunk is complete and not packed yet, or is being filled; or SHOWN to
 * the peer, whose device copies. Invariants: two slots that are not FREE never hold the same chunk; of an inbound
 * message, at most one slot is FULL.
 */
#include "rndv/staging.h"

#include <assert.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/log.h"
#include "core/worker.h"
#include "mem/registry.h"
#include "os/clock.h"
#include "rndv/bounce_table.h"

#define OUT_CHUNKS  4u  /* chunks copied ahead of the packets, or of the peer's copies */
#define IN_CHUNKS   32u /* chunks that may wait for a device slower than the network */
#define LEAST_CHUNK ((size_t)32 << 10) /* drivers copy shorter ones to a device slowly (mem/cuda/cuda_short.c) */
#define MOST_CHUNK  ((size_t)4 << 20)
#define LEAST_OPEN  ((size_t)128 << 10) /* a chunk of open staging */
#define POLL_NS     UINT64_C(20000)     /* poll interval of the copies */

_Static_assert(OUT_CHUNKS <= CW_WIRE_CHUNKS_OUT, "the peer takes that");

enum state { FREE, BUSY, FULL, SHOWN };

struct slot {
    char *memory;           /* NULL: not allocated yet */
    struct cw_bounce *bounce; /* open staging: its memory */
    struct cw_md_copy copy; /* the copy of a BUSY slot */
    size_t number;          /* number of its chunk */
    enum state state;
};

struct cw_staging {
    struct cw_alarm alarm;
    struct ucp_worker *worker;
    struct ucp_ep *ep; /* open staging; else NULL */
    const struct cw_md *md;
    void (*wake)(void *arg);
    void *arg;
    char *device;
    size_t length; /* of the message */
    size_t chunk;  /* bytes of each chunk */
    size_t begun;  /* out: chunks whose copy has begun */
    size_t there;  /* out: all chunks before this one are FULL, or were */
    int waits;     /* open: a chunk becomes available later */
    ucs_status_t status;
    struct slot slots[IN_CHUNKS];
};

static size_t chunk_length(const struct cw_staging *staging, size_t i)
{
    return cw_smaller(staging->chunk, staging->length - i * staging->chunk);
}

static size_t num_chunks(const struct cw_staging *staging)
{
    return (staging->length + staging->chunk - 1) / staging->chunk;
}

/* Returns the slot of that chunk, or NULL. */
static struct slot *slot_of(struct cw_staging *staging, size_t number)
{
    struct slot *slot;

    for (slot = staging->slots; slot < staging->slots + IN_CHUNKS; slot++) {
        if (slot->state != FREE && slot->number == number) {
            return slot;
        }
    }
    return NULL;
}

static char *give_memory(struct cw_staging *staging, struct slot *slot)
{
    if (staging->ep == NULL) {
        return staging->md->staging(staging->md, staging->device, staging->chunk);
    }
    slot->bounce = cw_bounce_take(staging->ep, staging->md, staging->device, staging->chunk, &staging->waits);
    return (slot->bounce == NULL) ? NULL : slot->bounce->memory.ptr;
}

static void take_memory(const struct cw_staging *staging, struct slot *slot)
{
    if (slot->bounce != NULL) {
        slot->bounce->in_doubt |= slot->state == SHOWN;
        cw_bounce_return(slot->bounce);
    } else if (slot->memory != NULL) {
        staging->md->unstage(staging->md, slot->memory);
    }
    slot->bounce = NULL;
    slot->memory = NULL;
}

/* Takes a free slot with memory from the first `count` slots. NULL: none is available. */
static struct slot *take_slot(struct cw_staging *staging, unsigned count, size_t number)
{
    struct slot *slot;

    for (slot = staging->slots; slot < staging->slots + count; slot++) {
        if (slot->state == FREE) {
            if (slot->memory == NULL) {
                slot->memory = give_memory(staging, slot);
            }
            slot->state = (slot->memory == NULL) ? FREE : FULL;
            slot->number = number;
            return (slot->memory == NULL) ? NULL : slot;
        }
    }
    return NULL;
}

/* ---- life ---- */

static unsigned fire(struct cw_alarm *alarm)
{
    struct cw_staging *staging = cw_container_of(alarm, struct cw_staging, alarm);

    staging->wake(staging->arg);
    return 1;
}

static void give_back(struct cw_staging *staging)
{
    struct slot *slot;

    for (slot = staging->slots; slot < staging->slots + IN_CHUNKS; slot++) {
        take_memory(staging, slot);
    }
    free(staging);
}

static size_t chunk_size(size_t wanted, size_t least, size_t most, size_t length)
{
    size_t chunk = (wanted < least) ? least : cw_smaller(wanted, most);

    while (chunk > least && chunk * OUT_CHUNKS > length) { /* so that copies and packets can overlap */
        chunk /= 2;
    }
    return chunk;
}

static void staging_pack(struct cw_staging *staging, struct cw_nt_choice *nt, size_t offset, char *dest, size_t length);
static ucs_status_t staging_unpack(struct cw_staging *staging, size_t offset, const char *src, size_t length);
static void staging_end(struct cw_staging *staging);

static const struct cw_dt_staging by_staging = {.pack = staging_pack, .unpack = staging_unpack, .end = staging_end};

/* Returns whether staging has begun. `ep`: for open staging, else NULL. */
static int begin(struct cw_dt_cursor *cursor, struct ucp_worker *worker, struct ucp_ep *ep, size_t chunk, size_t length)
{
    const struct cw_md *md = cw_md_of_type((ucs_memory_type_t)cursor->memory_type);
    struct cw_staging *staging = (md == NULL || md->staging == NULL) ? NULL : calloc(1, sizeof(*staging));

    if (staging == NULL) {
        return 0;
    }
    *staging = (struct cw_staging){.alarm = {.fire = fire},
                              .worker = worker,
                              .ep = ep,
                              .md = md,
                              .device = cursor->contig,
                              .length = length,
                              .chunk = chunk,
                              .status = UCS_OK};
    /* The first slot has memory from the beginning, so that there is always a copy to wait for. */
    staging->slots[0].memory = give_memory(staging, &staging->slots[0]);
    if (staging->slots[0].memory == NULL && !staging->waits) {
        free(staging);
        return 0;
    }
    cursor->staging = staging;
    cursor->by_staging = &by_staging;
    cursor->class_id = CW_DT_STAGED;
    return 1;
}

void cw_staging_begin(struct cw_dt_cursor *cursor, struct ucp_worker *worker, size_t length)
{
    const size_t wanted = worker->context->config->rndv_frag_size.sizes[UCS_MEMORY_TYPE_HOST];

    (void)begin(cursor, worker, NULL, chunk_size(wanted, LEAST_CHUNK, MOST_CHUNK, length), length);
}

int cw_staging_open(struct cw_dt_cursor *cursor, struct ucp_ep *ep, size_t length)
{
    const size_t *sizes = ep->worker->context->config->rndv_frag_size.sizes;
    const size_t wanted = sizes[cursor->memory_type] ? sizes[cursor->memory_type] : sizes[UCS_MEMORY_TYPE_CUDA];

    return begin(cursor, ep->worker, ep, chunk_size(wanted, LEAST_OPEN, CW_WIRE_CHUNK_MOST, length), length);
}

static uint64_t poll_ns(const struct cw_staging *staging)
{
    return (staging->ep == NULL) ? POLL_NS : cw_bounce_poll_ns(staging->worker);
}

void cw_staging_await(struct cw_staging *staging, void (*wake)(void *arg), void *arg)
{
    staging->wake = wake;
    staging->arg = arg;
    cw_poller_alarm_set(staging->worker->poller, &staging->alarm, cw_clock_ns() + poll_ns(staging));
}

/* ---- copies ---- */

static void failed(struct cw_staging *staging, ucs_status_t status)
{
    static struct cw_log_limit limit;

    if (staging->status == UCS_OK) {
        cw_log_ratelimited(&limit, CW_LOG_ERROR, "a copy of %zu bytes between %s memory and pinned memory failed: %s",
                           staging->chunk, staging->md->name, ucs_status_string(status));
        staging->status = status;
    }
}

static void ended(struct cw_staging *staging, struct slot *slot, enum state state, ucs_status_t status)
{
    slot->state = state;
    if (status != UCS_OK) {
        failed(staging, status);
    }
}

/* Starts the copy of a slot's chunk; `then`: state of the slot once the copy has ended. */
static void start(struct cw_staging *staging, struct slot *slot, enum state then, void *to, const void *from)
{
    ucs_status_t status = staging->md->start(staging->md, to, from, chunk_length(staging, slot->number), &slot->copy);

    slot->state = BUSY;
    if (status != UCS_INPROGRESS) {
        ended(staging, slot, then, status);
    }
}

/* Returns how many copies are still in flight. */
static unsigned poll_chunks(struct cw_staging *staging, enum state then)
{
    struct slot *slot;
    ucs_status_t status;
    unsigned busy = 0;

    for (slot = staging->slots; slot < staging->slots + IN_CHUNKS; slot++) {
        if (slot->state == BUSY) {
            status = staging->md->poll(staging->md, &slot->copy);
            if (status == UCS_INPROGRESS) {
                busy++;
            } else {
                ended(staging, slot, then, status);
            }
        }
    }
    return busy;
}

ucs_status_t cw_staging_wait(struct cw_staging *staging)
{
    struct slot *slot;

    for (slot = staging->slots; slot < staging->slots + IN_CHUNKS; slot++) {
        if (slot->state == BUSY) {
            ended(staging, slot, FREE, staging->md->wait(staging->md, &slot->copy));
        }
    }
    return staging->status;
}

static void staging_end(struct cw_staging *staging)
{
    cw_poller_alarm_cancel(staging->worker->poller, &staging->alarm);
    (void)cw_staging_wait(staging);
    give_back(staging);
}

/* ---- out ---- */

size_t cw_staging_complete(const struct cw_staging *staging)
{
    return cw_smaller(staging->there * staging->chunk, staging->length);
}

/* Open staging: the peer dropped all chunks, and no other is available. */
static bool has_nothing(const struct cw_staging *staging)
{
    const struct slot *slot;

    for (slot = staging->slots; slot < staging->slots + OUT_CHUNKS; slot++) {
        if (slot->state != FREE) {
            return false;
        }
    }
    return !staging->waits;
}

/* All copies run on one stream, so they end in order. */
static void scan_in_order(struct cw_staging *staging)
{
    struct slot *slot;
    ucs_status_t status;

    for (; staging->there < staging->begun && (slot = slot_of(staging, staging->there)) != NULL; staging->there++) {
        if (slot->state == BUSY) {
            status = staging->md->poll(staging->md, &slot->copy);
            if (status == UCS_INPROGRESS) {
                return;
            }
            ended(staging, slot, FULL, status);
        }
    }
}

size_t cw_staging_ready(struct cw_staging *staging, ucs_status_t *status_p)
{
    struct slot *slot;

    while (staging->begun < num_chunks(staging)) {
        slot = take_slot(staging, OUT_CHUNKS, staging->begun);
        if (slot == NULL) {
            break;
        }
        start(staging, slot, FULL, slot->memory, staging->device + staging->begun++ * staging->chunk);
    }
    scan_in_order(staging);
    if (staging->ep != NULL && staging->begun > 0 && staging->begun < num_chunks(staging) && has_nothing(staging)) {
        failed(staging, UCS_ERR_NO_MEMORY);
    }
    *status_p = staging->status;
    return cw_staging_complete(staging);
}

static void staging_pack(struct cw_staging *staging, struct cw_nt_choice *nt, size_t offset, char *dest, size_t length)
{
    struct slot *slot;
    size_t within, part;

    for (; length > 0; offset += part, dest += part, length -= part) {
        slot = slot_of(staging, offset / staging->chunk);
        within = offset % staging->chunk;
        part = cw_smaller(length, chunk_length(staging, slot->number) - within);
        cw_nt_copy(nt, dest, slot->memory + within, part);
        if (within + part == chunk_length(staging, slot->number)) {
            slot->state = FREE;
        }
    }
}

/* ---- open staging ---- */

bool cw_staging_is_barren(const struct cw_staging *staging)
{
    return staging->begun == 0 && !staging->waits;
}

struct cw_bounce *cw_staging_bounce(struct cw_staging *staging, size_t offset, size_t *length_p)
{
    *length_p = chunk_length(staging, offset / staging->chunk);
    return slot_of(staging, offset / staging->chunk)->bounce;
}

void cw_staging_shown(struct cw_staging *staging, size_t offset)
{
    struct slot *slot = slot_of(staging, offset / staging->chunk);

    slot->state = SHOWN;
    slot->bounce->passed = 0;
}

int cw_staging_taken(struct cw_staging *staging, size_t offset, int keeps)
{
    struct slot *slot = slot_of(staging, offset / staging->chunk);

    if (offset % staging->chunk != 0 || slot == NULL || slot->state != SHOWN) {
        return 0;
    }
    if (!keeps) {
        take_memory(staging, slot); /* it is still SHOWN, so no other message may reuse it */
    }
    slot->state = FREE;
    return 1;
}

int cw_staging_waits_for_peer(const struct cw_staging *staging)
{
    const struct slot *slot;
    int shown = 0;

    for (slot = staging->slots; slot < staging->slots + OUT_CHUNKS; slot++) {
        if (slot->state == BUSY) {
            return 0;
        }
        shown |= slot->state == SHOWN;
    }
    return shown;
}

bool cw_staging_is_quiet(struct cw_staging *staging)
{
    return poll_chunks(staging, FULL) == 0;
}

void cw_staging_undo(struct cw_dt_cursor *cursor)
{
    struct cw_staging *staging = cursor->staging;

    cursor->contig = staging->device;
    cursor->class_id = CW_DT_DEVICE;
    cursor->offset = 0;
    cw_poller_alarm_cancel(staging->worker->poller, &staging->alarm);
    give_back(staging);
}

/* ---- in ---- */

/* All slots wait for the device: waits until the oldest chunk is copied. */
static void wait_for_one(struct cw_staging *staging)
{
    struct slot *slot, *oldest = NULL;

    for (slot = staging->slots; slot < staging->slots + IN_CHUNKS; slot++) {
        if (slot->state == BUSY && (oldest == NULL || slot->number < oldest->number)) {
            oldest = slot;
        }
    }
    assert(oldest != NULL);
    ended(staging, oldest, FREE, staging->md->wait(staging->md, &oldest->copy));
}

static struct slot *next_slot(struct cw_staging *staging, size_t number)
{
    struct slot *slot;

    (void)poll_chunks(staging, FREE);
    slot = take_slot(staging, IN_CHUNKS, number);
    if (slot == NULL) {
        wait_for_one(staging);
        slot = take_slot(staging, IN_CHUNKS, number);
    }
    return slot;
}

static ucs_status_t staging_unpack(struct cw_staging *staging, size_t offset, const char *src, size_t length)
{
    struct slot *slot;
    size_t within, part;

    for (; length > 0; offset += part, src += part, length -= part) {
        within = offset % staging->chunk;
        slot = (within == 0) ? next_slot(staging, offset / staging->chunk) : slot_of(staging, offset / staging->chunk);
        part = cw_smaller(length, chunk_length(staging, slot->number) - within);
        cw_bytes_copy_any(slot->memory + within, src, part);
        if (within + part == chunk_length(staging, slot->number)) {
            start(staging, slot, FREE, staging->device + slot->number * staging->chunk, slot->memory);
        }
    }
    return staging->status;
}

unsigned cw_staging_left(struct cw_staging *staging, ucs_status_t *status_p)
{
    const unsigned busy = poll_chunks(staging, FREE);

    *status_p = staging->status;
    return busy;
}
