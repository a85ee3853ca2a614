/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice of plan/protocol.h. The constants were measured (docs/decisions/rendezvous.md,
 * shared-memory.md).
 */
#include "plan/protocol.h"

/* A rendezvous costs a round trip and some bookkeeping, and saves a copy on each side. */
#define RNDV_AUTO_MEMORY (64u << 10)
#define RNDV_AUTO_LATE   (320u << 10) /* of lists, copied by the sender alone; of what is used in the packet */
#define RNDV_AUTO_OTHER  (256u << 10)
#define ZCOPY_AUTO       (16u << 10) /* or what does not fit one packet: another one costs more than bookkeeping */

static size_t smaller(size_t a, size_t b)
{
    return (a < b) ? a : b;
}

static size_t rndv_auto(const struct cw_protocol_input *input)
{
    return input->memory ? RNDV_AUTO_MEMORY : RNDV_AUTO_OTHER;
}

void cw_protocol_choose(const struct cw_protocol_input *input, struct cw_protocol_plan *plan)
{
    plan->rndv_forced   = input->rndv_thresh != CW_PLAN_AUTO;
    plan->rndv_min      = plan->rndv_forced ? input->rndv_thresh : rndv_auto(input);
    plan->rndv_min      = (plan->rndv_min == 0) ? 1 : plan->rndv_min; /* an empty message has nothing to be fetched */
    plan->rndv_fast_min = plan->rndv_forced || input->rndv_fast_thresh == CW_PLAN_AUTO ?
                          plan->rndv_min : input->rndv_fast_thresh;
    plan->rndv_late_min = (plan->rndv_forced || !input->memory) ? 0 : RNDV_AUTO_LATE;
    plan->zcopy_min     = (input->zcopy_thresh == CW_PLAN_AUTO) ?
                          smaller(ZCOPY_AUTO, input->max_bcopy - CW_PLAN_HEADER + 1) : input->zcopy_thresh;
    if (input->max_zcopy <= CW_PLAN_HEADER) {
        plan->zcopy_min = CW_PLAN_NEVER;
    }
    plan->short_end = smaller(input->max_short + 1, smaller(plan->rndv_min, plan->zcopy_min));
}

static void add(struct cw_protocol_row *rows, unsigned *count, size_t end, const char *way, const char *why)
{
    size_t first = (*count == 0) ? 0 : rows[*count - 1].last + 1;

    if (*count > 0 && rows[*count - 1].last == CW_PLAN_NEVER) {
        return;
    }
    if (end > first) {
        rows[(*count)++] = (struct cw_protocol_row){first, (end == CW_PLAN_NEVER) ? end : end - 1, way, why};
    }
}

unsigned cw_protocol_rows(const struct cw_protocol_input *input, const struct cw_protocol_plan *plan,
                          struct cw_protocol_row rows[CW_PROTOCOL_MAX_ROWS])
{
    const size_t eager_end = (input->used_in_place && plan->rndv_late_min > plan->rndv_min) ? plan->rndv_late_min :
                             plan->rndv_min;
    const size_t packet    = input->max_bcopy - CW_PLAN_HEADER;
    const char *rndv_why   = plan->rndv_forced ? input->rndv_setting : input->grows ?
                             "a round trip costs less than copies from here, unless a ring is in use" :
                             "a round trip costs less than copies from here";
    const char *copies_why = (input->used_in_place && input->memory) ? "one packet where rings are wide, else several" :
                             "several packets, copied";
    unsigned count         = 0;

    add(rows, &count, plan->short_end, "short", "copied into the packet by the call itself");
    add(rows, &count, smaller(smaller(packet, plan->zcopy_min), eager_end), "eager copy", "fits one packet");
    add(rows, &count, smaller(plan->zcopy_min, eager_end), "eager copies", copies_why);
    add(rows, &count, eager_end, "eager zero copy",
        (input->zcopy_thresh == CW_PLAN_AUTO) ? "the copy costs more than its bookkeeping" : "ZCOPY_THRESH");
    add(rows, &count, CW_PLAN_NEVER,
        input->memory ? "rendezvous, copied from memory to memory by both sides" :
        (input->max_placed > 0) ? "rendezvous, received in place" : "rendezvous, in pieces", rndv_why);
    return count;
}
