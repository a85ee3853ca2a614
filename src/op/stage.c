/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The chunks of op/stage.h. A slot is FREE; or BUSY with a copy; or FULL: its chunk is complete and not packed yet, or
 * is being filled. Invariants: two slots that are not FREE never have the same chunk; of a message that comes in, at
 * most one slot is FULL.
 */
#include "op/stage.h"

#include <assert.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/log.h"
#include "core/worker.h"
#include "mem/registry.h"
#include "os/clock.h"

#define OUT_CHUNKS  4u  /* chunks copied ahead of the packets */
#define IN_CHUNKS   32u /* chunks that may wait for a device slower than the network */
#define LEAST_CHUNK ((size_t)16 << 10)
#define MOST_CHUNK  ((size_t)4 << 20)
#define LOOK_NS     UINT64_C(20000) /* time between two checks of the copies */

enum state { FREE, BUSY, FULL };

struct slot {
    char *memory;           /* NULL: not allocated yet */
    struct cw_md_copy copy; /* the copy of a BUSY slot */
    size_t number;          /* number of its chunk */
    enum state state;
};

struct cw_stage {
    struct cw_alarm alarm;
    struct ucp_worker *worker;
    const struct cw_md *md;
    void (*wake)(void *arg);
    void *arg;
    char *device;
    size_t length; /* of the message */
    size_t chunk;  /* bytes of each chunk */
    size_t begun;  /* out: chunks whose copy has begun */
    size_t there;  /* out: all chunks before this one are FULL or packed */
    ucs_status_t status;
    struct slot slots[IN_CHUNKS];
};

static size_t smaller(size_t a, size_t b)
{
    return (a < b) ? a : b;
}

static size_t chunk_length(const struct cw_stage *stage, size_t i)
{
    return smaller(stage->chunk, stage->length - i * stage->chunk);
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

/* Takes a free slot of the first `count` slots for a chunk, with memory. NULL: there is none. */
static struct slot *take_slot(struct cw_stage *stage, unsigned count, size_t number)
{
    struct slot *slot;

    for (slot = stage->slots; slot < stage->slots + count; slot++) {
        if (slot->state == FREE) {
            if (slot->memory == NULL) {
                slot->memory = stage->md->stage(stage->device, stage->chunk);
            }
            slot->state  = (slot->memory == NULL) ? FREE : FULL;
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
        if (slot->memory != NULL) {
            stage->md->unstage(slot->memory);
        }
    }
    free(stage);
}

static size_t chunk_size(const struct ucp_worker *worker, size_t length)
{
    size_t chunk = worker->context->config->rndv_frag_size.sizes[UCS_MEMORY_TYPE_HOST];

    chunk = (chunk < LEAST_CHUNK) ? LEAST_CHUNK : smaller(chunk, MOST_CHUNK);
    while (chunk > LEAST_CHUNK && chunk * OUT_CHUNKS > length) { /* so that copies and packets can overlap */
        chunk /= 2;
    }
    return chunk;
}

void cw_stage_begin(struct cw_dt_cursor *cursor, struct ucp_worker *worker, size_t length)
{
    const struct cw_md *md = cw_md_of_type((ucs_memory_type_t)cursor->memory_type);
    struct cw_stage *stage = (md == NULL || md->stage == NULL) ? NULL : calloc(1, sizeof(*stage));

    if (stage == NULL) {
        return;
    }
    *stage = (struct cw_stage){.alarm  = {.fire = fire},
                               .worker = worker,
                               .md     = md,
                               .device = cursor->contig,
                               .length = length,
                               .chunk  = chunk_size(worker, length),
                               .status = UCS_OK};
    /* The first slot has memory from the beginning, so that there is always a copy to wait for. */
    stage->slots[0].memory = md->stage(stage->device, stage->chunk);
    if (stage->slots[0].memory == NULL) {
        free(stage);
        return;
    }
    cursor->stage    = stage;
    cursor->class_id = CW_DT_STAGED;
}

void cw_stage_await(struct cw_stage *stage, void (*wake)(void *arg), void *arg)
{
    stage->wake = wake;
    stage->arg  = arg;
    cw_poller_alarm_set(stage->worker->poller, &stage->alarm, cw_clock_ns() + LOOK_NS);
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
    ucs_status_t status = stage->md->start(to, from, chunk_length(stage, slot->number), &slot->copy);

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
            status = stage->md->poll(&slot->copy);
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
            ended(stage, slot, FREE, stage->md->wait(&slot->copy));
        }
    }
    return stage->status;
}

void cw_stage_end(struct cw_stage *stage)
{
    cw_poller_alarm_cancel(stage->worker->poller, &stage->alarm);
    (void)cw_stage_wait(stage);
    give_back(stage);
}

/* ---- out ---- */

size_t cw_stage_complete(const struct cw_stage *stage)
{
    return smaller(stage->there * stage->chunk, stage->length);
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
    (void)look(stage, FULL);
    while (stage->there < stage->begun && (slot = slot_of(stage, stage->there)) != NULL && slot->state == FULL) {
        stage->there++;
    }
    *status_p = stage->status;
    return cw_stage_complete(stage);
}

void cw_stage_pack(struct cw_stage *stage, struct cw_nt_choice *nt, size_t offset, char *dest, size_t length)
{
    struct slot *slot;
    size_t within, part;

    for (; length > 0; offset += part, dest += part, length -= part) {
        slot   = slot_of(stage, offset / stage->chunk);
        within = offset % stage->chunk;
        part   = smaller(length, chunk_length(stage, slot->number) - within);
        cw_nt_copy(nt, dest, slot->memory + within, part);
        if (within + part == chunk_length(stage, slot->number)) {
            slot->state = FREE;
        }
    }
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
    ended(stage, oldest, FREE, stage->md->wait(&oldest->copy));
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

ucs_status_t cw_stage_unpack(struct cw_stage *stage, size_t offset, const char *src, size_t length)
{
    struct slot *slot;
    size_t within, part;

    for (; length > 0; offset += part, src += part, length -= part) {
        within = offset % stage->chunk;
        slot   = (within == 0) ? next_slot(stage, offset / stage->chunk) : slot_of(stage, offset / stage->chunk);
        part   = smaller(length, chunk_length(stage, slot->number) - within);
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
