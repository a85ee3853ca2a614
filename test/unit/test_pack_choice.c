/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice of base/pack_choice.h, with times that the tests make up.
 */
#include "runner.h"
#include "base/pack_choice.h"

enum { PIECE = 64 << 10 };

static struct cw_pack_choice choice;
static unsigned straight_pieces;

/* Packs pieces by the way that is chosen, each of which takes the ticks of that way. */
static void pack(unsigned pieces, uint64_t by_buffer, uint64_t straight)
{
    const uint64_t ticks[] = {by_buffer, straight};
    unsigned i;
    bool way;

    straight_pieces = 0;
    for (i = 0; i < pieces; i++) {
        way = cw_pack_goes_straight(&choice);
        straight_pieces += way;
        cw_pack_note(&choice, way, PIECE, cw_pack_is_timed(&choice, PIECE) ? ticks[way] : 0);
    }
}

static int set_up(void **state)
{
    (void)state;
    choice = (struct cw_pack_choice){.is_faster = false};
    return 0;
}

TEST_WITH(the_faster_way_is_found, set_up, NULL)
{
    pack(CW_PACK_TIMED, 12000, 6000);
    pack(CW_PACK_TRIED * 10, 12000, 6000);
    assert_int_equal(straight_pieces, CW_PACK_TRIED * 10 - 10);

    set_up(NULL);
    pack(CW_PACK_TIMED, 6000, 12000);
    pack(CW_PACK_TRIED * 10, 6000, 12000);
    assert_int_equal(straight_pieces, 10);
}

TEST_WITH(a_change_is_noticed, set_up, NULL)
{
    unsigned i;

    pack(1000, 12000, 6000);
    for (i = 0; i < 4; i++) { /* whether the way in use becomes slower, or the other one faster */
        pack(10 * CW_PACK_TRIED, 12000, 24000);
        pack(10 * CW_PACK_TRIED, 12000, 24000);
        assert_int_equal(straight_pieces, 10);
        pack(10 * CW_PACK_TRIED, 12000, 6000);
        pack(10 * CW_PACK_TRIED, 12000, 6000);
        assert_int_equal(straight_pieces, 10 * CW_PACK_TRIED - 10);
    }
}

TEST_WITH(nearly_the_same_time_changes_nothing, set_up, NULL)
{
    unsigned i;

    pack(1000, 10000, 9500);
    pack(10 * CW_PACK_TRIED, 10000, 9500);
    assert_int_equal(straight_pieces, 10);
    pack(1000, 10000, 5000);
    for (i = 0; i < 10; i++) {
        pack(10 * CW_PACK_TRIED, 9000 + i % 2 * 2000, 10000);
        assert_int_equal(straight_pieces, 10 * CW_PACK_TRIED - 10);
    }
}

TEST_WITH(an_interrupted_piece_changes_nothing, set_up, NULL)
{
    pack(1000, 20000, 10000);
    while (!cw_pack_is_timed(&choice, PIECE)) {
        cw_pack_note(&choice, true, PIECE, 0);
    }
    cw_pack_note(&choice, true, PIECE, 100000000);
    assert_true(choice.is_faster);
}

/* Also where a tick is as long as a copy of several KiB. */
TEST_WITH(a_slow_clock_suffices, set_up, NULL)
{
    pack(CW_PACK_TIMED, 80, 40);
    pack(CW_PACK_TRIED * 10, 80, 40);
    assert_int_equal(straight_pieces, CW_PACK_TRIED * 10 - 10);
    pack(20 * CW_PACK_TRIED, 80, 100);
    pack(CW_PACK_TRIED * 10, 80, 100);
    assert_int_equal(straight_pieces, 10);
}

TEST_WITH(an_interrupted_first_trial_is_corrected, set_up, NULL)
{
    pack(CW_PACK_TIMED - 1, 20000, 10000);
    assert_true(cw_pack_goes_straight(&choice));
    cw_pack_note(&choice, true, PIECE, 100000000);
    pack(10 * CW_PACK_TRIED, 20000, 10000);
    assert_true(choice.is_faster);
}

TEST_WITH(short_pieces_do_not_count, set_up, NULL)
{
    cw_pack_note(&choice, false, CW_PACK_LEAST - 1, 1000);
    cw_pack_note(&choice, true, 0, 1000);
    assert_int_equal(choice.pieces, 0);
    assert_int_equal(choice.ticks[0], 0);
    assert_int_equal(choice.ticks[1], 0);
}

TEST_WITH(any_time_is_taken, set_up, NULL)
{
    static const uint64_t times[] = {1, UINT32_MAX, UINT64_MAX, 1};
    unsigned i;

    for (i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        cw_pack_note(&choice, true, PIECE, times[i]);
        assert_true(choice.ticks[1] > 0);
    }
    assert_true(cw_pack_ticks(0) != 0);
    assert_true(cw_pack_ticks(cw_pack_ticks(0)) != 0);
}
