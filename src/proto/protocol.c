/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implementation of proto/protocol.h. docs/why/rendezvous.md and docs/why/shared-memory.md explain the constants.
 */
#include "proto/protocol.h"

#include "base/bytes.h"

/* A rendezvous costs a round trip and some bookkeeping, and saves a copy on each side. */
#define RNDV_AUTO_LATE    (320u << 10) /* for lists, which only the sender copies */
#define RNDV_AUTO_PACKETS (256u << 10)

/* A round trip and two copies of fewer bytes cost less than a system call that copies them between processes. */
#define RNDV_COPY_LEAST (8u << 10)

void cw_protocol_choose(const struct cw_protocol_input *input, struct cw_protocol_plan *plan)
{
    const size_t auto_min = input->memory ? input->copies_break_even : RNDV_AUTO_PACKETS;

    plan->rndv_forced = input->rndv_thresh != CW_PLAN_AUTO;
    plan->rndv_min = plan->rndv_forced ? input->rndv_thresh : auto_min;
    plan->rndv_min = (plan->rndv_min == 0) ? 1 : plan->rndv_min; /* an empty message has no bytes to fetch */
    plan->rndv_fast_min =
     plan->rndv_forced || input->rndv_fast_thresh == CW_PLAN_AUTO ? plan->rndv_min : input->rndv_fast_thresh;
    plan->rndv_late_min = (plan->rndv_forced || !input->memory) ? 0 : RNDV_AUTO_LATE;
    plan->rndv_copy_min = (input->memory && !input->in_process) ? RNDV_COPY_LEAST : 0;
    plan->zcopy_min = (input->zcopy_thresh == CW_PLAN_AUTO)
                          ? cw_smaller(input->zcopy_break_even, input->max_bcopy - CW_PLAN_HEADER + 1)
                          : input->zcopy_thresh; /* a second packet costs more than the registration */
    if (input->max_zcopy <= CW_PLAN_HEADER) {
        plan->zcopy_min = CW_PLAN_NEVER;
    }
    plan->short_end = cw_smaller(input->max_short + !input->lacks_short, cw_smaller(plan->rndv_min, plan->zcopy_min));
}

/* The cost of `row` minus that of `other`, for that length. */
static double excess(const struct cw_protocol_row *row, const struct cw_protocol_row *other, size_t length)
{
    return row->cost.fixed_ns - other->cost.fixed_ns + (row->cost.byte_ns - other->cost.byte_ns) * (double)length;
}

/* The last length for which `row` does not cost more than `other`. It does not for `at`. */
static size_t cheap_end(const struct cw_protocol_row *row, const struct cw_protocol_row *other, size_t at)
{
    const double gain = row->cost.byte_ns - other->cost.byte_ns, end = -excess(row, other, at) / gain;

    return (gain > 0 && end < (double)(CW_PLAN_NEVER / 4)) ? at + (size_t)end : CW_PLAN_NEVER;
}

/* Chooses the row that begins with `at`. */
static void choose_at(const struct cw_protocol *const *table, const struct cw_protocol_ask *ask, size_t at,
                      struct cw_protocol_row *best)
{
    struct cw_protocol_row row;
    size_t last = CW_PLAN_NEVER;

    *best = (struct cw_protocol_row){.protocol = NULL};
    for (; *table != NULL && (best->protocol == NULL || !best->fixed); table++) {
        row = (struct cw_protocol_row){.last = CW_PLAN_NEVER, .cost = cw_protocol_cost(ask->lanes, 1)};
        if (!(*table)->query(ask, &row) || row.last < at) {
            continue;
        }
        row.protocol = *table;
        if (row.first > at) {
            last = cw_smaller(last, row.first - 1); /* selection is repeated from there on */
        } else if (best->protocol == NULL) {
            *best = row;
        } else if (excess(best, &row, at) > 0) {
            last = cw_smaller(last, cheap_end(&row, best, at));
            *best = row;
        } else {
            last = cw_smaller(last, cheap_end(best, &row, at));
        }
    }
    best->first = at;
    best->last = cw_smaller(best->last, last);
}

unsigned cw_protocol_rows(const struct cw_protocol *const *table, const struct cw_protocol_ask *ask,
                          struct cw_protocol_row rows[CW_PROTOCOL_MAX_ROWS])
{
    struct cw_protocol_row row;
    unsigned count = 0;
    size_t at = 0;

    do {
        choose_at(table, ask, at, &row);
        if (count > 0 && rows[count - 1].protocol == row.protocol) {
            rows[count - 1].last = row.last;
        } else if (count < CW_PROTOCOL_MAX_ROWS) {
            rows[count++] = row;
        } else {
            break;
        }
        at = row.last + 1;
    } while (at != 0);
    rows[count - 1].last = CW_PLAN_NEVER;
    return count;
}

double cw_protocol_estimate(const struct cw_protocol_row *rows, unsigned count, size_t length)
{
    double most_ns = 0, now_ns;
    unsigned i;

    for (i = 0; i < count && rows[i].first <= length; i++) {
        now_ns = rows[i].cost.fixed_ns + rows[i].cost.byte_ns * (double)cw_smaller(rows[i].last, length);
        most_ns = (now_ns > most_ns) ? now_ns : most_ns;
    }
    return most_ns * 1e-9;
}
