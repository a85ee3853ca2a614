/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The chunks of rndv/stage.h. A slot is FREE; or BUSY with a copy; or FULL: its chunk is complete and not packed yet,
 * or is being filled; or SHOWN to the peer, whose device copies. Invariants: two slots that are not FREE never have the
 * same chunk; of a message that comes in, at most one slot is FULL.
 */
#include "rndv/stage.h"

#include <assert.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/log.h"
#include "core/worker.h"
#include "mem/registry.h"
#include "os/clock.h"
#include "rndv/chunk_table.h"

#define OUT_CHUNKS  4u  /* chunks copied ahead of the packets, or of the peer's copies */
#define IN_CHUNKS   32u /* chunks that may wait for a device slower than the network */
#define LEAST_CHUNK ((size_t)32 << 10) /* drivers copy shorter ones to a device in a slow way (mem/cuda/cuda_short.c) */
#define MOST_CHUNK  ((size_t)4 << 20)
#define LEAST_OPEN  ((size_t)128 << 10) /* a chunk of an open stage */
#define LOOK_NS     UINT64_C(20000)     /* time between two checks of the copies */

_Static_assert(OUT_CHUNKS <= CW_WIRE_CHUNKS_OUT, "the peer takes that");

enum state { FREE, BUSY, FULL, SHOWN };

struct slot {
    char *memory;           /* NULL: not allocated yet */
    struct cw_chunk *chunk; /* of an open stage: its memory */
    struct cw_md_copy copy; /* the copy of a BUSY slot */
    size_t number;          /* number of its chunk */
    enum state state;
};

struct cw_stage {
    struct cw_alarm alarm;
    struct ucp_worker *worker;
    struct ucp_ep *ep; /* of an open stage; else NULL */
    const struct cw_md *md;
    void (*wake)(void *arg);
    void *arg;
    char *device;
    size_t length; /* of the message */
    size_t chunk;  /* bytes of each chunk */
    size_t begun;  /* out: chunks whose copy has begun */
    size_t there;  /* out: all chunks before this one are FULL, or were */
    int waits;     /* open: there will be a chunk later */
    ucs_status_t status;
    struct slot slots[IN_CHUNKS];
};

static size_t chunk_length(const struct cw_stage *stage, size_t i)
{
    return cw_smaller(stage->chunk, stage->length - i * stage->chunk);
}

static size_t num_chunks(const struct cw_stage *stage)
{
    return (stage->length + stage->chunk - 1) / stage->chunk;
}

/* Returns the slot of that chunk, or NULL. */
static struct slot *slot_of(struct cw_stage *stage, size_t number)
{
    struct slot *slot;

    for (slot = stage->slots; slot < stage->slots + IN_CHUNKS; slot++) {
        if (slot->state != FREE && slot->number == number) {
            return slot;
        }
    }
    return NULL;
}

static char *give_memory(struct cw_stage *stage, struct slot *slot)
{
    if (stage->ep == NULL) {
        return stage->md->stage(stage->md, stage->device, stage->chunk);
    }
    slot->chunk = cw_chunk_take(stage->ep, stage->md, stage->device, stage->chunk, &stage->waits);
    return (slot->chunk == NULL) ? NULL : slot->chunk->memory.ptr;
}

static void take_memory(const struct cw_stage *stage, struct slot *slot)
{
    if (slot->chunk != NULL) {
        slot->chunk->is_lost |= slot->state == SHOWN;
        cw_chunk_rest(slot->chunk);
    } else if (slot->memory != NULL) {
        stage->md->unstage(stage->md, slot->memory);
    }
    slot->chunk = NULL;
    slot->memory = NULL;
}

/* Takes a free slot of the first `count` slots for a chunk, with memory. NULL: there is none. */
static struct slot *take_slot(struct cw_stage *stage, unsigned count, size_t number)
{
    struct slot *slot;

    for (slot = stage->slots; slot < stage->slots + count; slot++) {
        if (slot->state == FREE) {
            if (slot->memory == NULL) {
                slot->memory = give_memory(stage, slot);
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
    struct cw_stage *stage = cw_container_of(alarm, struct cw_stage, alarm);

    stage->wake(stage->arg);
    return 1;
}

static void give_back(struct cw_stage *stage)
{
    struct slot *slot;

    for (slot = stage->slots; slot < stage->slots + IN_CHUNKS; slot++) {
        take_memory(stage, slot);
    }
    free(stage);
}

static size_t chunk_size(size_t wish, size_t least, size_t most, size_t length)
{
    size_t chunk = (wish < least) ? least : cw_smaller(wish, most);

    while (chunk > least && chunk * OUT_CHUNKS > length) { /* so that copies and packets can overlap */
        chunk /= 2;
    }
    return chunk;
}

static void stage_pack(struct cw_stage *stage, struct cw_nt_choice *nt, size_t offset, char *dest, size_t length);
static ucs_status_t stage_unpack(struct cw_stage *stage, size_t offset, const char *src, size_t length);
static void stage_end(struct cw_stage *stage);

static const struct cw_dt_stage by_stage = {.pack = stage_pack, .unpack = stage_unpack, .end = stage_end};

/* Returns whether the stage has begun. `ep`: of an open one. */
static int begin(struct cw_dt_cursor *cursor, struct ucp_worker *worker, struct ucp_ep *ep, size_t chunk, size_t length)
{
    const struct cw_md *md = cw_md_of_type((ucs_memory_type_t)cursor->memory_type);
    struct cw_stage *stage = (md == NULL || md->stage == NULL) ? NULL : calloc(1, sizeof(*stage));

    if (stage == NULL) {
        return 0;
    }
    *stage = (struct cw_stage){.alarm = {.fire = fire},
                              .worker = worker,
                              .ep = ep,
                              .md = md,
                              .device = cursor->contig,
                              .length = length,
                              .chunk = chunk,
                              .status = UCS_OK};
    /* The first slot has memory from the beginning, so that there is always a copy to wait for. */
    stage->slots[0].memory = give_memory(stage, &stage->slots[0]);
    if (stage->slots[0].memory == NULL && !stage->waits) {
        free(stage);
        return 0;
    }
    cursor->stage = stage;
    cursor->by_stage = &by_stage;
    cursor->class_id = CW_DT_STAGED;
    return 1;
}

void cw_stage_begin(struct cw_dt_cursor *cursor, struct ucp_worker *worker, size_t length)
{
    const size_t wish = worker->context->config->rndv_frag_size.sizes[UCS_MEMORY_TYPE_HOST];

    (void)begin(cursor, worker, NULL, chunk_size(wish, LEAST_CHUNK, MOST_CHUNK, length), length);
}

int cw_stage_open(struct cw_dt_cursor *cursor, struct ucp_ep *ep, size_t length)
{
    const size_t *sizes = ep->worker->context->config->rndv_frag_size.sizes;
    const size_t wish = sizes[cursor->memory_type] ? sizes[cursor->memory_type] : sizes[UCS_MEMORY_TYPE_CUDA];

    return begin(cursor, ep->worker, ep, chunk_size(wish, LEAST_OPEN, CW_WIRE_CHUNK_MOST, length), length);
}

static uint64_t look_ns(const struct cw_stage *stage)
{
    return (stage->ep == NULL) ? LOOK_NS : cw_chunk_look_ns(stage->worker);
}

void cw_stage_await(struct cw_stage *stage, void (*wake)(void *arg), void *arg)
{
    stage->wake = wake;
    stage->arg = arg;
    cw_poller_alarm_set(stage->worker->poller, &stage->alarm, cw_clock_ns() + look_ns(stage));
}

/* ---- copies ---- */

static void failed(struct cw_stage *stage, ucs_status_t status)
{
    static struct cw_log_limit limit;

    if (stage->status == UCS_OK) {
        cw_log_ratelimited(&limit, CW_LOG_ERROR, "a copy of %zu bytes between %s memory and pinned memory failed: %s",
                           stage->chunk, stage->md->name, ucs_status_string(status));
        stage->status = status;
    }
}

static void ended(struct cw_stage *stage, struct slot *slot, enum state state, ucs_status_t status)
{
    slot->state = state;
    if (status != UCS_OK) {
        failed(stage, status);
    }
}

/* Starts the copy of a slot's chunk; `then`: state of the slot once the copy has ended. */
static void start(struct cw_stage *stage, struct slot *slot, enum state then, void *to, const void *from)
{
    ucs_status_t status = stage->md->start(stage->md, to, from, chunk_length(stage, slot->number), &slot->copy);

    slot->state = BUSY;
    if (status != UCS_INPROGRESS) {
        ended(stage, slot, then, status);
    }
}

/* Returns how many copies are still under way. */
static unsigned look(struct cw_stage *stage, enum state then)
{
    struct slot *slot;
    ucs_status_t status;
    unsigned busy = 0;

    for (slot = stage->slots; slot < stage->slots + IN_CHUNKS; slot++) {
        if (slot->state == BUSY) {
            status = stage->md->poll(stage->md, &slot->copy);
            if (status == UCS_INPROGRESS) {
                busy++;
            } else {
                ended(stage, slot, then, status);
            }
        }
    }
    return busy;
}

ucs_status_t cw_stage_wait(struct cw_stage *stage)
{
    struct slot *slot;

    for (slot = stage->slots; slot < stage->slots + IN_CHUNKS; slot++) {
        if (slot->state == BUSY) {
            ended(stage, slot, FREE, stage->md->wait(stage->md, &slot->copy));
        }
    }
    return stage->status;
}

static void stage_end(struct cw_stage *stage)
{
    cw_poller_alarm_cancel(stage->worker->poller, &stage->alarm);
    (void)cw_stage_wait(stage);
    give_back(stage);
}

/* ---- out ---- */

size_t cw_stage_complete(const struct cw_stage *stage)
{
    return cw_smaller(stage->there * stage->chunk, stage->length);
}

/* An open stage: the peer gave up all chunks, and there are no others. */
static int has_nothing(const struct cw_stage *stage)
{
    const struct slot *slot;

    for (slot = stage->slots; slot < stage->slots + OUT_CHUNKS; slot++) {
        if (slot->state != FREE) {
            return 0;
        }
    }
    return !stage->waits;
}

/* The copies are on one stream, so none ends before an earlier one. */
static void look_in_order(struct cw_stage *stage)
{
    struct slot *slot;
    ucs_status_t status;

    for (; stage->there < stage->begun && (slot = slot_of(stage, stage->there)) != NULL; stage->there++) {
        if (slot->state == BUSY) {
            status = stage->md->poll(stage->md, &slot->copy);
            if (status == UCS_INPROGRESS) {
                return;
            }
            ended(stage, slot, FULL, status);
        }
    }
}

size_t cw_stage_ready(struct cw_stage *stage, ucs_status_t *status_p)
{
    struct slot *slot;

    while (stage->begun < num_chunks(stage)) {
        slot = take_slot(stage, OUT_CHUNKS, stage->begun);
        if (slot == NULL) {
            break;
        }
        start(stage, slot, FULL, slot->memory, stage->device + stage->begun++ * stage->chunk);
    }
    look_in_order(stage);
    if (stage->ep != NULL && stage->begun > 0 && stage->begun < num_chunks(stage) && has_nothing(stage)) {
        failed(stage, UCS_ERR_NO_MEMORY);
    }
    *status_p = stage->status;
    return cw_stage_complete(stage);
}

static void stage_pack(struct cw_stage *stage, struct cw_nt_choice *nt, size_t offset, char *dest, size_t length)
{
    struct slot *slot;
    size_t within, part;

    for (; length > 0; offset += part, dest += part, length -= part) {
        slot = slot_of(stage, offset / stage->chunk);
        within = offset % stage->chunk;
        part = cw_smaller(length, chunk_length(stage, slot->number) - within);
        cw_nt_copy(nt, dest, slot->memory + within, part);
        if (within + part == chunk_length(stage, slot->number)) {
            slot->state = FREE;
        }
    }
}

/* ---- an open stage ---- */

int cw_stage_is_barren(const struct cw_stage *stage)
{
    return stage->begun == 0 && !stage->waits;
}

struct cw_chunk *cw_stage_chunk(struct cw_stage *stage, size_t offset, size_t *length_p)
{
    *length_p = chunk_length(stage, offset / stage->chunk);
    return slot_of(stage, offset / stage->chunk)->chunk;
}

void cw_stage_shown(struct cw_stage *stage, size_t offset)
{
    struct slot *slot = slot_of(stage, offset / stage->chunk);

    slot->state = SHOWN;
    slot->chunk->passed = 0;
}

int cw_stage_taken(struct cw_stage *stage, size_t offset, int keeps)
{
    struct slot *slot = slot_of(stage, offset / stage->chunk);

    if (offset % stage->chunk != 0 || slot == NULL || slot->state != SHOWN) {
        return 0;
    }
    if (!keeps) {
        take_memory(stage, slot); /* as it is SHOWN, no message gets it again */
    }
    slot->state = FREE;
    return 1;
}

int cw_stage_waits_for_peer(const struct cw_stage *stage)
{
    const struct slot *slot;
    int shown = 0;

    for (slot = stage->slots; slot < stage->slots + OUT_CHUNKS; slot++) {
        if (slot->state == BUSY) {
            return 0;
        }
        shown |= slot->state == SHOWN;
    }
    return shown;
}

int cw_stage_is_quiet(struct cw_stage *stage)
{
    return look(stage, FULL) == 0;
}

void cw_stage_undo(struct cw_dt_cursor *cursor)
{
    struct cw_stage *stage = cursor->stage;

    cursor->contig = stage->device;
    cursor->class_id = CW_DT_DEVICE;
    cursor->offset = 0;
    cw_poller_alarm_cancel(stage->worker->poller, &stage->alarm);
    give_back(stage);
}

/* ---- in ---- */

/* All slots wait for the device: waits until the oldest chunk is copied. */
static void wait_for_one(struct cw_stage *stage)
{
    struct slot *slot, *oldest = NULL;

    for (slot = stage->slots; slot < stage->slots + IN_CHUNKS; slot++) {
        if (slot->state == BUSY && (oldest == NULL || slot->number < oldest->number)) {
            oldest = slot;
        }
    }
    assert(oldest != NULL);
    ended(stage, oldest, FREE, stage->md->wait(stage->md, &oldest->copy));
}

static struct slot *next_slot(struct cw_stage *stage, size_t number)
{
    struct slot *slot;

    (void)look(stage, FREE);
    slot = take_slot(stage, IN_CHUNKS, number);
    if (slot == NULL) {
        wait_for_one(stage);
        slot = take_slot(stage, IN_CHUNKS, number);
    }
    return slot;
}

static ucs_status_t stage_unpack(struct cw_stage *stage, size_t offset, const char *src, size_t length)
{
    struct slot *slot;
    size_t within, part;

    for (; length > 0; offset += part, src += part, length -= part) {
        within = offset % stage->chunk;
        slot = (within == 0) ? next_slot(stage, offset / stage->chunk) : slot_of(stage, offset / stage->chunk);
        part = cw_smaller(length, chunk_length(stage, slot->number) - within);
        cw_bytes_copy_any(slot->memory + within, src, part);
        if (within + part == chunk_length(stage, slot->number)) {
            start(stage, slot, FREE, stage->device + slot->number * stage->chunk, slot->memory);
        }
    }
    return stage->status;
}

unsigned cw_stage_left(struct cw_stage *stage, ucs_status_t *status_p)
{
    const unsigned busy = look(stage, FREE);

    *status_p = stage->status;
    return busy;
}
