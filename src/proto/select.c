/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cache of a worker's protocol selections (proto/select.h). A selection depends on its key and on nothing else. If
 * another key has taken its slot, the worker selects again.
 */
#include "proto/select.h"

#include <stdlib.h>

#include "mem/device.h"
#include "msg/msg.h"

#define SLOTS 4u /* one for each combination of used_in_place and counted, or registered */

struct key {
    const struct cw_iface *iface;
    const struct cw_send_kind *kind; /* NULL: stream data */
    size_t max_piece;                /* tuning of the connection, like the next two */
    size_t max_whole;
    uint32_t extra;
    uint32_t bits; /* data, force, and the bits of proto/select.h */
};

/* The rows of a table, reduced to what a selection needs. */
struct rows {
    size_t last[CW_PROTOCOL_MAX_ROWS];
    const struct cw_protocol *protocols[CW_PROTOCOL_MAX_ROWS];
};

struct choice {
    struct key key;
    struct rows rows;
};

/* The selection for a one-sided operation. */
struct choice_rma {
    const struct cw_iface *iface;
    size_t max_piece;
    uint32_t bits;
    struct rows rows;
};

struct cw_choices {
    struct choice slots[SLOTS];
};

struct cw_choices_rma {
    struct choice_rma slots[CW_CHOICE_TABLES];
};

/* Returns the kind of the data. A list that is shorter than the least length of zero copy is copied, so the number of
 * its entries does not matter. */
static enum cw_protocol_data data_of(const struct cw_iface *iface, const struct cw_dt_cursor *cursor)
{
    if (cw_likely(cursor->class_id == UCP_DATATYPE_CONTIG)) {
        return CW_DATA_CONTIG;
    }
    if (!cw_dt_is_memory(cursor)) {
        return CW_DATA_PACKED;
    }
    return (cursor->length < iface->plan->zcopy_min || cw_dt_fits_iov(cursor, iface->limits.max_iov))
               ? CW_DATA_LIST
               : CW_DATA_SCATTERED;
}

/* Returns data and force of a message, and whether it lies in device memory. */
static inline uint32_t bits_of(const struct ucp_ep *ep, const struct cw_send *send, const struct cw_dt_cursor *cursor,
                               unsigned force)
{
    if (cw_likely(cursor->class_id == UCP_DATATYPE_CONTIG)) {
        return CW_DATA_CONTIG | force << 2;
    }
    return (uint32_t)data_of(ep->conn->iface, cursor) | force << 2 |
           ((send != NULL && cw_dt_is_flat_device(cursor)) ? CW_CHOICE_ON_DEVICE : 0);
}

static size_t header_of(const struct cw_send *send)
{
    return (send == NULL) ? sizeof(struct cw_wire_stream_data) : send->kind->header(send, CW_SEND_WHOLE, NULL);
}

static void fill(const struct ucp_ep *ep, unsigned operation, const struct cw_protocol_ask *ask, struct rows *rows)
{
    struct cw_protocol_row all[CW_PROTOCOL_MAX_ROWS];
    unsigned count, i;

    count = cw_protocol_rows(ep->worker->handlers->protocols[operation], ask, all);
    for (i = 0; i < count; i++) {
        rows->last[i] = all[i].last;
        rows->protocols[i] = all[i].protocol;
    }
}

static void make(const struct ucp_ep *ep, const struct cw_send *send, struct choice *choice)
{
    const unsigned operation = (send != NULL) ? send->kind->operation : CW_PROTO_STREAM;
    const struct cw_protocol_lane lane = cw_worker_protocol_lane(ep->worker, choice->key.iface, ep->conn);
    const struct cw_protocol_ask ask = {.lanes = &lane,
                                .num_lanes = 1,
                                .header = header_of(send),
                                .extra = choice->key.extra,
                                .data = choice->key.bits & 3,
                                .force = choice->key.bits >> 2 & 3,
                                .fast = choice->key.bits >> 4 & 1,
                                .registered = choice->key.bits >> 5 & 1,
                                .on_device = choice->key.bits >> 6 & 1,
                                .used_in_place = operation == CW_PROTO_AM};

    fill(ep, operation, &ask, &choice->rows);
}

static inline const struct cw_protocol *find(const struct rows *rows, size_t length)
{
    unsigned i = 0;

    while (length > rows->last[i]) {
        i++;
    }
    return rows->protocols[i];
}

static inline bool is_of(const struct key *a, const struct key *b)
{
    return a->iface == b->iface && a->kind == b->kind && a->max_piece == b->max_piece && a->max_whole == b->max_whole &&
           a->extra == b->extra && a->bits == b->bits;
}

/* `slot` is NULL if the selection cannot be cached for lack of memory. */
static CW_COLD const struct cw_protocol *choose(const struct ucp_ep *ep, const struct cw_send *send,
                                                const struct key *key, struct choice *slot, size_t length)
{
    struct choice here = {.key = *key};
    struct choice *choice = (slot == NULL) ? &here : slot;

    choice->key = *key;
    make(ep, send, choice);
    return find(&choice->rows, length);
}

static CW_COLD struct choice *make_slots(struct cw_msg_state *state)
{
    state->choices = calloc(1, sizeof(*state->choices));
    return (state->choices != NULL) ? state->choices->slots : NULL;
}

static inline struct choice *slots_of(struct cw_msg_state *state)
{
    return cw_likely(state->choices != NULL) ? state->choices->slots : make_slots(state);
}

/* `send` is NULL for stream data. */
static inline const struct cw_protocol *look_up(const struct ucp_ep *ep, const struct cw_send *send,
                                                const struct cw_dt_cursor *cursor, unsigned force)
{
    const struct cw_conn *conn = ep->conn;
    const struct cw_iface *iface = conn->iface;
    const uint32_t fast = (send != NULL) ? send->fast : 0;
    const uint32_t registered = send != NULL && cw_unlikely(send->has_mem) && cw_send_memh(send, iface) != NULL;
    const struct key key = {.iface = iface,
                        .kind = (send != NULL) ? send->kind : NULL,
                        .max_piece = conn->max_piece,
                        .max_whole = conn->max_whole,
                        .extra = (send != NULL) ? send->extra : 0,
                        .bits = bits_of(ep, send, cursor, force) | fast << 4 | registered << 5};
    const unsigned in_place = (send != NULL) ? send->kind->used_in_place : 1;
    const unsigned at = in_place | ((iface->counted ^ registered) & 1) << 1;
    struct choice *slots = slots_of(ep->worker->msg);

    if (cw_likely(slots != NULL && is_of(&slots[at].key, &key))) {
        return find(&slots[at].rows, cursor->length);
    }
    return choose(ep, send, &key, (slots != NULL) ? &slots[at] : NULL, cursor->length);
}

const struct cw_protocol *cw_choice(const struct ucp_ep *ep, const struct cw_send *send, unsigned force)
{
    assert(send != NULL);
    return look_up(ep, send, &send->cursor, force);
}

const struct cw_protocol *cw_choice_stream(const struct ucp_ep *ep, const struct cw_dt_cursor *cursor)
{
    return look_up(ep, NULL, cursor, CW_FORCE_NONE);
}

/* ---- one-sided operations ---- */

bool cw_choice_is_flat(const struct cw_conn *lane, const struct cw_dt_cursor *cursor)
{
    const struct cw_domain *domain = lane->iface->domain;

    return cw_likely(cursor->class_id == UCP_DATATYPE_CONTIG) ||
           (cw_dt_is_flat_device(cursor) && domain != NULL &&
            cw_device_regs_accept(domain, (ucs_memory_type_t)cursor->memory_type));
}

static CW_NOINLINE const struct cw_protocol *choose_rma(const struct ucp_ep *ep, unsigned table, uint32_t bits,
                                                        size_t length)
{
    struct cw_msg_state *state = ep->worker->msg;
    const struct cw_protocol_lane lane = cw_worker_protocol_lane(ep->worker, ep->conn->iface, ep->conn);
    const struct cw_protocol_ask ask = {.lanes = &lane,
                                   .num_lanes = 1,
                                   .data = bits & 3,
                                   .force = bits >> 2 & 3,
                                   .fast = bits >> 4 & 1,
                                   .registered = bits >> 5 & 1,
                                   .on_device = bits >> 6 & 1,
                                   .remote = table % CW_REMOTE_ALL};
    struct choice_rma made = {.iface = ep->conn->iface, .max_piece = ep->conn->max_piece, .bits = bits};

    fill(ep, CW_PROTO_PUT + table / CW_REMOTE_ALL, &ask, &made.rows);
    if (state->choices_rma == NULL) {
        state->choices_rma = calloc(1, sizeof(*state->choices_rma));
    }
    if (state->choices_rma != NULL) {
        state->choices_rma->slots[table] = made;
    }
    return find(&made.rows, length);
}

const struct cw_protocol *cw_choice_rma(const struct ucp_ep *ep, unsigned table, uint32_t bits, size_t length)
{
    const struct cw_choices_rma *choices = ep->worker->msg->choices_rma;
    const struct choice_rma *slot = (choices != NULL) ? &choices->slots[table] : NULL;

    if (cw_likely(slot != NULL && slot->iface == ep->conn->iface && slot->max_piece == ep->conn->max_piece &&
                  slot->bits == bits)) {
        return find(&slot->rows, length);
    }
    return choose_rma(ep, table, bits, length);
}

const struct cw_protocol *cw_choice_of_data(const struct ucp_ep *ep, unsigned table, const struct cw_dt_cursor *cursor,
                                            unsigned force, uint32_t bits)
{
    enum cw_protocol_data data = data_of(ep->conn->iface, cursor);

    if (cw_unlikely(data == CW_DATA_PACKED && (table % CW_REMOTE_ALL & CW_REMOTE_ACCESS) != 0 &&
                    cw_choice_is_flat(ep->conn, cursor))) {
        data = CW_DATA_CONTIG; /* the device of the lane accesses GPU memory like host memory */
    }
    return cw_choice_rma(ep, table, (uint32_t)data | force << 2 | bits, cursor->length);
}
