/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests of atomic operations: ucp_add, ucp_fadd, ucp_swap, ucp_cswap, of 32 bits with -s 4 and of 64 with -s 8. All of
 * them meet in one word of the server's memory.
 *
 * What --verify holds against the word at the end of a phase, whatever the order of operations in flight:
 *   add    the sum of all operands;
 *   fadd   the same, and the replies sum up to the partial sums;
 *   swap   replies and final word are the values swapped in, each once: their sum;
 *   cswap  a counter: each message makes n + 1 of n. The final word is the number of exchanges that went through, and
 *          no reply is beyond it. Exchanges that came too early leave it behind: the next round goes on from there.
 * With one operation in flight the order is known: then each reply is checked.
 *
 * Callers: run.c through the table.
 */
#include "origin.h"

#include <stdlib.h>
#include <string.h>

#define OPERAND UINT64_C(0x9e3779b97f4a7c15)

struct amo_test {
    struct cw_origin origin; /* first */
    ucp_atomic_op_t opcode;
    bool fetches;
    uint64_t mask; /* the bits of a word */
    uint64_t replies;
    uint64_t expected; /* sum of replies, with the final word where they belong together */
    uint64_t exchanged;
    uint64_t highest; /* reply */
    uint64_t lag;     /* exchanges that did not go through before this round */
};

/* Operand, and behind it reply, of a slot. */
static uint64_t load(const struct amo_test *test, const char *from)
{
    uint32_t narrow;
    uint64_t wide;

    if (test->origin.size == sizeof(narrow)) {
        memcpy(&narrow, from, sizeof(narrow));
        return narrow;
    }
    memcpy(&wide, from, sizeof(wide));
    return wide;
}

static inline void store(const struct amo_test *test, char *to, uint64_t value)
{
    if (test->origin.size == sizeof(uint32_t)) {
        uint32_t narrow = (uint32_t)value;
        memcpy(to, &narrow, sizeof(narrow));
    } else {
        memcpy(to, &value, sizeof(value));
    }
}

static char *reply_of(const struct cw_origin_slot *slot)
{
    return slot->buffer + 8;
}

static void prepare(struct cw_origin *origin, struct cw_origin_slot *slot)
{
    const struct amo_test *test = (const struct amo_test *)origin;

    slot->param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    slot->param.datatype = ucp_dt_make_contig(origin->size);
    if (test->fetches) {
        slot->param.op_attr_mask |= UCP_OP_ATTR_FIELD_REPLY_BUFFER;
        slot->param.reply_buffer = reply_of(slot);
    }
    store(test, slot->buffer, OPERAND);
}

static void fill(struct cw_origin *origin, struct cw_origin_slot *slot)
{
    const struct amo_test *test = (const struct amo_test *)origin;

    if (test->opcode == UCP_ATOMIC_OP_SWAP) {
        store(test, slot->buffer, cw_pattern_key(slot->message, 0));
    }
}

/* The reply to a compare-and-swap takes the place of its operand. */
static ucs_status_ptr_t start(struct cw_origin *origin, struct cw_origin_slot *slot)
{
    const struct amo_test *test = (const struct amo_test *)origin;

    if (test->opcode == UCP_ATOMIC_OP_CSWAP) {
        store(test, slot->buffer, slot->message - test->lag);
        store(test, reply_of(slot), slot->message - test->lag + 1);
    }
    return ucp_atomic_op_nbx(origin->link->ep, test->opcode, slot->buffer, 1, slot->target, origin->region.rkey,
                             &slot->param);
}

/* What the word holds before message `message` when everything goes in order. */
static uint64_t word_before(const struct amo_test *test, uint64_t message)
{
    switch (test->opcode) {
    case UCP_ATOMIC_OP_ADD:
        return message * OPERAND & test->mask;
    case UCP_ATOMIC_OP_SWAP:
        return message == 0 ? 0 : cw_pattern_key(message - 1, 0) & test->mask;
    default:
        return (message - test->lag) & test->mask;
    }
}

static void finish(struct cw_origin *origin, struct cw_origin_slot *slot)
{
    struct amo_test *test = (struct amo_test *)origin;

    if (!test->fetches) {
        return;
    }
    uint64_t reply = load(test, reply_of(slot)), before = word_before(test, slot->message);
    if (origin->window == 1 && reply != before) {
        cw_link_fail(origin->link, "operation %llu fetched 0x%llx instead of 0x%llx",
                     (unsigned long long)slot->message, (unsigned long long)reply, (unsigned long long)before);
    }
    test->replies += reply;
    test->expected += before;
    test->exchanged += reply == before;
    test->highest = reply > test->highest ? reply : test->highest;
    origin->run->verified++;
}

/* After a round nothing is in flight, and the word is known. */
static int check_word(struct cw_origin *origin, uint64_t first, uint64_t count)
{
    struct amo_test *test = (struct amo_test *)origin;
    uint64_t next = first + count, wanted = word_before(test, next), word;

    if (cw_origin_ask(origin, CW_ORIGIN_WORD, 0, 0, &word) != 0) {
        return -1;
    }
    if (test->opcode == UCP_ATOMIC_OP_CSWAP) {
        wanted = test->exchanged & test->mask;
        if (test->highest > wanted) {
            return cw_link_fail(origin->link, "after %llu operations 0x%llx had been fetched, which was never there",
                                (unsigned long long)next, (unsigned long long)test->highest);
        }
        test->lag = next - test->exchanged;
    } else if (test->opcode == UCP_ATOMIC_OP_SWAP) {
        /* The last one to come is not known; its value is the one that no reply holds. */
        wanted = (test->expected + word_before(test, next) - test->replies) & test->mask;
    } else if (test->fetches && test->replies != test->expected) {
        return cw_link_fail(origin->link, "after %llu operations the replies are not all partial sums",
                            (unsigned long long)next);
    }
    if (word != wanted) {
        return cw_link_fail(origin->link, "after %llu operations the word is 0x%llx instead of 0x%llx",
                            (unsigned long long)next, (unsigned long long)word, (unsigned long long)wanted);
    }
    origin->run->verified += test->fetches ? 0 : count;
    return 0;
}

static int answer(struct cw_origin *origin, enum cw_origin_question what, uint64_t first, uint64_t count,
                  uint64_t *reply)
{
    (void)first;
    (void)count;
    if (what != CW_ORIGIN_WORD) {
        return cw_link_fail(origin->link, "the client's request belongs to another test");
    }
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    *reply = load((struct amo_test *)origin, origin->targets);
    return 0;
}

static int check(const struct cw_perf_run *run)
{
    if (run->params.size != 4 && run->params.size != 8) {
        return cw_link_fail(run->link, "atomic operations have 32 or 64 bits: use a size (-s) of 4 or 8");
    }
    if (run->params.send_iov || run->params.memory_handle) {
        return cw_link_fail(run->link, "atomic operations support neither lists (-D iov) nor memory handles (-z)");
    }
    return 0;
}

static int run_amo(struct cw_perf_run *run, ucp_atomic_op_t opcode, bool fetches)
{
    static const struct cw_origin_ops fetching = {
        .prepare = prepare,
        .start = start,
        .fill = fill,
        .finish = finish,
        .after = check_word,
        .answer = answer,
        .one_word = true,
    };
    static const struct cw_origin_ops posting = {
        .prepare = prepare,
        .start = start,
        .fill = fill,
        .finish = finish,
        .after = check_word,
        .answer = answer,
        .one_word = true,
        .posts = true,
    };

    if (check(run) != 0) {
        return -1;
    }
    struct amo_test *test = cw_test_new(sizeof(*test));
    if (test == NULL) {
        return cw_link_fail(run->link, "out of memory");
    }
    test->opcode = opcode;
    test->fetches = fetches;
    test->mask = run->params.size == 4 ? UINT32_MAX : UINT64_MAX;
    if (cw_origin_run(&test->origin, fetches ? &fetching : &posting, run) != 0) {
        return -1;
    }
    cw_test_free(test);
    return 0;
}

static int run_add(struct cw_perf_run *run)
{
    return run_amo(run, UCP_ATOMIC_OP_ADD, false);
}

static int run_fadd(struct cw_perf_run *run)
{
    return run_amo(run, UCP_ATOMIC_OP_ADD, true);
}

static int run_swap(struct cw_perf_run *run)
{
    return run_amo(run, UCP_ATOMIC_OP_SWAP, true);
}

static int run_cswap(struct cw_perf_run *run)
{
    return run_amo(run, UCP_ATOMIC_OP_CSWAP, true);
}

#define FEATURES (UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64)

const struct cw_perf_test cw_amo_tests[] = {
    {"ucp_add", "atomic add bandwidth / message rate", "UCP atomic add rate", FEATURES, false, 1, 32, run_add},
    {"ucp_fadd", "atomic fetch-and-add latency / bandwidth / rate", "UCP atomic fetch-and-add latency, rate", FEATURES,
     true, 1, 1, run_fadd},
    {"ucp_swap", "atomic swap latency / bandwidth / rate", "UCP atomic swap latency, rate", FEATURES, true, 1, 1,
     run_swap},
    {"ucp_cswap", "atomic compare-and-swap latency / bandwidth / rate", "UCP atomic compare-and-swap latency, rate",
     FEATURES, true, 1, 1, run_cswap},
};

const unsigned cw_amo_test_count = sizeof(cw_amo_tests) / sizeof(cw_amo_tests[0]);
