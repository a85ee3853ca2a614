/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Log-linear histogram, the parts that are not on a measured path.
 *
 * Callers: the performance tool, the demonstration and the bare-limit programs.
 * Invariant: the sum of all cells equals `count`; `min` is UINT64_MAX while the histogram is empty.
 */
#include "hist.h"

#include <stdlib.h>
#include <string.h>

bool cw_hist_init(struct cw_hist *hist)
{
    uint64_t *cells = calloc(CW_HIST_CELLS, sizeof(*cells));

    if (cells == NULL) {
        return false;
    }
    *hist = (struct cw_hist){.cells = cells, .min = UINT64_MAX};
    return true;
}

void cw_hist_fini(struct cw_hist *hist)
{
    free(hist->cells);
    *hist = (struct cw_hist){.min = UINT64_MAX};
}

void cw_hist_reset(struct cw_hist *hist)
{
    memset(hist->cells, 0, CW_HIST_CELLS * sizeof(*hist->cells));
    hist->count = 0;
    hist->min = UINT64_MAX;
    hist->max = 0;
}

void cw_hist_merge(struct cw_hist *to, const struct cw_hist *from)
{
    for (unsigned cell = 0; cell < CW_HIST_CELLS; cell++) {
        to->cells[cell] += from->cells[cell];
    }
    to->count += from->count;
    to->min = from->min < to->min ? from->min : to->min;
    to->max = from->max > to->max ? from->max : to->max;
}

uint64_t cw_hist_cell_start(unsigned cell)
{
    if (cell < CW_HIST_EXACT) {
        return cell;
    }
    unsigned above = cell - CW_HIST_EXACT;
    unsigned shift = above / CW_HIST_HALF + 1;
    return (uint64_t)(CW_HIST_HALF + above % CW_HIST_HALF) << shift;
}

/* The value that stands for a cell: its middle, so that errors up and down are equally likely. */
static uint64_t cell_value(unsigned cell)
{
    uint64_t start = cw_hist_cell_start(cell);

    if (cell < CW_HIST_EXACT) {
        return start;
    }
    unsigned shift = (cell - CW_HIST_EXACT) / CW_HIST_HALF + 1;
    return start + (UINT64_C(1) << (shift - 1));
}

uint64_t cw_hist_percentile(const struct cw_hist *hist, double percent)
{
    if (hist->count == 0) {
        return 0;
    }
    if (!(percent > 0)) {
        return hist->min;
    }
    if (percent >= 100) {
        return hist->max;
    }

    double exact_rank = percent / 100 * (double)hist->count;
    uint64_t rank = (uint64_t)exact_rank;
    if ((double)rank < exact_rank) {
        rank++;
    }

    uint64_t seen = 0;
    for (unsigned cell = 0; cell < CW_HIST_CELLS; cell++) {
        seen += hist->cells[cell];
        if (seen >= rank && hist->cells[cell] != 0) {
            uint64_t value = cell_value(cell);
            value = value < hist->min ? hist->min : value;
            return value > hist->max ? hist->max : value;
        }
    }
    return hist->max;
}
