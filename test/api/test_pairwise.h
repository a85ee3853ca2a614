/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cases of a test with many factors: drawn so that every pair of values of two factors comes together at least once.
 */
#ifndef CW_API_TEST_PAIRWISE_H
#define CW_API_TEST_PAIRWISE_H

#include "harness.h"

#include <string.h>

enum { PAIRWISE_FACTORS = 12, PAIRWISE_LEVELS = 32, PAIRWISE_CANDIDATES = 40 };

struct drawing {
    uint64_t random;
    const unsigned *levels; /* how many values each factor has */
    int factors;
    bool met[PAIRWISE_FACTORS][PAIRWISE_LEVELS][PAIRWISE_FACTORS][PAIRWISE_LEVELS];
    unsigned left;
};

static inline void drawing_init(struct drawing *drawing, uint64_t seed, const unsigned *levels, int factors)
{
    memset(drawing, 0, sizeof(*drawing));
    assert_in_range(factors, 1, PAIRWISE_FACTORS);
    drawing->random = seed;
    drawing->levels = levels;
    drawing->factors = factors;
    for (int a = 0; a < factors; a++) {
        for (int b = a + 1; b < factors; b++) {
            drawing->left += levels[a] * levels[b];
        }
    }
}

static inline unsigned drawing_pairs(struct drawing *drawing, const unsigned *row, bool note)
{
    unsigned count = 0;

    for (int a = 0; a < drawing->factors; a++) {
        for (int b = a + 1; b < drawing->factors; b++) {
            bool *met = &drawing->met[a][row[a]][b][row[b]];

            count += !*met;
            *met = *met || note;
        }
    }
    return count;
}

/* The next case, best[0..factors), is the one of some random rows with the most pairs that are new. Once they bring
 * nothing new, a row is made around a pair that is missing. Returns false when all pairs came. */
static inline bool drawing_next(struct drawing *drawing, unsigned *best)
{
    const unsigned *levels = drawing->levels;
    const int factors = drawing->factors;
    unsigned row[PAIRWISE_FACTORS], most = 0;

    if (drawing->left == 0) {
        return false;
    }
    for (int i = 0; i < PAIRWISE_CANDIDATES; i++) {
        unsigned count;

        for (int a = 0; a < factors; a++) {
            row[a] = (unsigned)(cw_random_next(&drawing->random) % levels[a]);
        }
        count = drawing_pairs(drawing, row, false);
        if (i == 0 || count > most) {
            most = count;
            memcpy(best, row, (size_t)factors * sizeof(row[0]));
        }
    }
    for (int a = 0; a < factors && most == 0; a++) {
        for (int b = a + 1; b < factors && most == 0; b++) {
            for (unsigned i = 0; i < levels[a] * levels[b] && most == 0; i++) {
                if (!drawing->met[a][i / levels[b]][b][i % levels[b]]) {
                    best[a] = i / levels[b];
                    best[b] = i % levels[b];
                    most = 1;
                }
            }
        }
    }
    drawing->left -= drawing_pairs(drawing, best, true);
    return true;
}

#endif
