/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Log-linear histogram of unsigned 64-bit values: every value up to 2047 has a cell of its own, above that
 * each power of two is cut into 1024 cells, so that a cell is never wider than 0.1 % of its value (three
 * significant digits). Adding is a few instructions and touches one cell.
 *
 * Callers: the performance tool, the demonstration and the bare-limit programs.
 * Not thread-safe; one histogram per thread, joined with cw_hist_merge().
 */
#ifndef CW_TOOLS_HIST_H
#define CW_TOOLS_HIST_H

#include <stdbool.h>
#include <stdint.h>

#define CW_HIST_EXACT_BITS 11
#define CW_HIST_EXACT      (1u << CW_HIST_EXACT_BITS)
#define CW_HIST_HALF       (CW_HIST_EXACT / 2)
#define CW_HIST_CELLS      (CW_HIST_EXACT + (64 - CW_HIST_EXACT_BITS) * CW_HIST_HALF)

struct cw_hist {
    uint64_t *cells;
    uint64_t count;
    uint64_t min;
    uint64_t max;
};

/* Prepares an empty histogram; false when there is no memory (then nothing is held). */
bool cw_hist_init(struct cw_hist *hist);

/* Frees what cw_hist_init() took; harmless on a zeroed structure. */
void cw_hist_fini(struct cw_hist *hist);

/* Forgets all values. */
void cw_hist_reset(struct cw_hist *hist);

/* Adds all values of `from` to `to`. */
void cw_hist_merge(struct cw_hist *to, const struct cw_hist *from);

/*
 * The smallest value that at least `percent` % of the added values do not exceed, as the middle of its cell
 * (exact below 2048) clipped to the observed minimum and maximum. 0 for an empty histogram; `percent` is
 * clipped to 0..100, where 0 gives the minimum.
 */
uint64_t cw_hist_percentile(const struct cw_hist *hist, double percent);

/* The cell that counts `value`. */
static inline unsigned cw_hist_cell(uint64_t value)
{
    if (value < CW_HIST_EXACT) {
        return (unsigned)value;
    }
    unsigned shift = 64 - CW_HIST_EXACT_BITS - (unsigned)__builtin_clzll(value);
    return CW_HIST_EXACT + (shift - 1) * CW_HIST_HALF + (unsigned)((value >> shift) - CW_HIST_HALF);
}

/* The smallest value that cell `cell` counts; the first value beyond it is that of `cell + 1`. */
uint64_t cw_hist_cell_start(unsigned cell);

/* Adds a value `times` times. */
static inline void cw_hist_add_many(struct cw_hist *hist, uint64_t value, uint64_t times)
{
    hist->cells[cw_hist_cell(value)] += times;
    hist->count += times;
    if (value < hist->min) {
        hist->min = value;
    }
    if (value > hist->max) {
        hist->max = value;
    }
}

static inline void cw_hist_add(struct cw_hist *hist, uint64_t value)
{
    cw_hist_add_many(hist, value, 1);
}

#endif
