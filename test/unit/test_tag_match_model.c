/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random operations on the matcher and on a naive model of it, which is two arrays in order, must give the same answers
 * (TAG-1, TAG-4..7, TPR-3, TPR-8, TPR-9, REQ-24). Each seed is a program of its own: tags, masks, depth of the queues
 * and how often memory is refused. Usage: test_tag_match_model [first seed [number of seeds]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "tag/match.h"
#include "test_tag_check.h"
#include "test_tag_memory.h"

#define MAX_LIVE  600 /* in each of the two queues */
#define NUM_STEPS 1500
#define MAX_TAGS  64
#define MAX_MASKS 128

struct random_source {
    uint64_t state;
};

static struct {
    struct random_source random;
    unsigned             percent; /* of the allocations */
} refused;

static uint64_t first_seed;
static uint64_t num_seeds = 3000;

static uint64_t random_next(struct random_source *source)
{
    uint64_t value = source->state += 0x9e3779b97f4a7c15u;

    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

static unsigned random_below(struct random_source *source, unsigned limit)
{
    return (unsigned)(random_next(source) % limit);
}

static bool refuse(void)
{
    return random_below(&refused.random, 100) < refused.percent;
}

/* What the naive model keeps of a receive or, with mask ~0, of a message. */
struct model_item {
    void    *object;
    uint64_t tag;
    uint64_t mask;
};

struct model_queue {
    struct model_item items[MAX_LIVE];
    unsigned          count;
};

struct program {
    struct random_source  random;
    uint64_t              seed;
    unsigned              step;
    uint64_t              tags[MAX_TAGS];
    unsigned              num_tags;
    uint64_t              masks[MAX_MASKS];
    unsigned              num_masks;
    unsigned              weights[6]; /* of enum action */
    struct cw_tag_matcher matcher;
    struct model_queue    posted;
    struct model_queue    unexpected;
    struct cw_tag_recv    recvs[MAX_LIVE];
    struct cw_tag_message messages[MAX_LIVE];
    void                 *spare_recvs[MAX_LIVE];
    void                 *spare_messages[MAX_LIVE];
    unsigned              num_spare_recvs;
    unsigned              num_spare_messages;
};

enum action {
    ACTION_POST,
    ACTION_ARRIVE,
    ACTION_PROBE,
    ACTION_PROBE_REMOVE,
    ACTION_CANCEL,
    ACTION_REMOVE,
    NUM_ACTIONS
};

static struct program program;

static void require(struct program *p, bool condition, const char *what)
{
    if (!condition) {
        refused.percent = 0;
        fail_msg("seed %llu step %u: %s", (unsigned long long)p->seed, p->step, what);
    }
}

static void model_add(struct model_queue *queue, void *object, uint64_t tag, uint64_t mask)
{
    queue->items[queue->count++] = (struct model_item){object, tag, mask};
}

static void *model_take(struct model_queue *queue, unsigned i)
{
    void *object = queue->items[i].object;

    queue->count--;
    memmove(&queue->items[i], &queue->items[i + 1], (queue->count - i) * sizeof(queue->items[0]));
    return object;
}

/* Index of the first item that matches; the number of items if none does. The rule is written out bit by bit. */
static unsigned model_find(const struct model_queue *queue, uint64_t tag, uint64_t mask)
{
    unsigned i;
    unsigned bit;

    for (i = 0; i < queue->count; i++) {
        uint64_t care = queue->items[i].mask & mask;

        if (queue->items[i].tag == tag) {
            return i;
        }
        for (bit = 0; bit < 64; bit++) {
            if (((care >> bit) & 1) && (((queue->items[i].tag >> bit) & 1) != ((tag >> bit) & 1))) {
                break;
            }
        }
        if (bit == 64) {
            return i;
        }
    }
    return i;
}

static uint64_t some_tag(struct program *p)
{
    uint64_t tag = p->tags[random_below(&p->random, p->num_tags)];

    return (random_below(&p->random, 16) == 0) ? tag ^ ((uint64_t)1 << random_below(&p->random, 64)) : tag;
}

static uint64_t some_mask(struct program *p)
{
    /* The first ones more often, so that there are rare masks, too. */
    unsigned limit = 1 + random_below(&p->random, p->num_masks);

    return p->masks[random_below(&p->random, limit)];
}

static void choose_masks(struct program *p)
{
    static const uint64_t usual[] = {UINT64_MAX, 0, 0xffffffff00000000, 0xffffff, 0x7fffffffffffffff};
    unsigned              kind = random_below(&p->random, 4);
    unsigned              i;

    switch (kind) {
    case 0:
        p->num_masks = 1;
        break;
    case 1:
        p->num_masks = 2 + random_below(&p->random, 4);
        break;
    default:
        p->num_masks = 6 + random_below(&p->random, (kind == 2) ? 12 : MAX_MASKS - 6);
    }
    for (i = 0; i < p->num_masks; i++) {
        p->masks[i] = (i < 5) ? usual[(i + p->seed / 4) % 5] : random_next(&p->random);
        if ((i >= 5) && (random_below(&p->random, 2) == 0)) {
            p->masks[i] &= random_next(&p->random) & random_next(&p->random);
        }
    }
}

static void choose_tags(struct program *p)
{
    uint64_t base = random_next(&p->random);
    unsigned i;

    p->num_tags = 1 + random_below(&p->random, (random_below(&p->random, 2) == 0) ? 4 : MAX_TAGS);
    for (i = 0; i < p->num_tags; i++) {
        switch (p->seed % 3) {
        case 0:
            p->tags[i] = i;
            break;
        case 1:
            p->tags[i] = ((uint64_t)(i % 8) << 32) | (i / 8);
            break;
        default:
            p->tags[i] = base ^ (random_next(&p->random) & random_next(&p->random) & random_next(&p->random));
        }
    }
}

/* From time to time the queues are made to grow, to shrink or to stay. */
static void choose_weights(struct program *p)
{
    unsigned i;

    for (i = 0; i < NUM_ACTIONS; i++) {
        p->weights[i] = random_below(&p->random, 8);
    }
    switch (random_below(&p->random, 4)) {
    case 0:
        p->weights[ACTION_POST] += 20;
        break;
    case 1:
        p->weights[ACTION_ARRIVE] += 20;
        break;
    case 2:
        p->weights[ACTION_CANCEL] += 20;
        p->weights[ACTION_REMOVE] += 20;
        break;
    default:
        p->weights[ACTION_POST]++;
    }
}

static void do_post(struct program *p)
{
    uint64_t               tag = some_tag(p);
    uint64_t               mask = some_mask(p);
    struct cw_tag_message *message;
    struct cw_tag_recv    *recv;
    unsigned               found;

    if (p->num_spare_recvs == 0) {
        return;
    }
    recv = p->spare_recvs[--p->num_spare_recvs];
    found = model_find(&p->unexpected, tag, mask);
    message = cw_tag_matcher_post(&p->matcher, recv, tag, mask);
    if (found < p->unexpected.count) {
        require(p, message == p->unexpected.items[found].object, "a receive took another message");
        require(p, !cw_tag_matcher_is_posted(&p->matcher, recv), "a matched receive is posted");
        p->spare_messages[p->num_spare_messages++] = model_take(&p->unexpected, found);
        p->spare_recvs[p->num_spare_recvs++] = recv;
    } else {
        require(p, message == NULL, "a receive took a message where none matches");
        require(p, cw_tag_matcher_is_posted(&p->matcher, recv), "an unmatched receive is not posted");
        model_add(&p->posted, recv, tag, mask);
    }
}

/* The receive for a message, by one step, or by two with nothing or another search in between. */
static struct cw_tag_recv *take_recv(struct program *p, uint64_t tag)
{
    unsigned            way = random_below(&p->random, 3);
    struct cw_tag_found found;

    if (way == 0) {
        return cw_tag_matcher_arrive(&p->matcher, tag);
    }
    found = cw_tag_matcher_find_recv(&p->matcher, tag);
    require(p, found.recv == NULL || cw_tag_matcher_is_posted(&p->matcher, found.recv),
            "a receive that was only found is not posted");
    if (way == 1) {
        struct cw_tag_recv *recv = cw_tag_matcher_arrive(&p->matcher, tag);

        require(p, recv == found.recv, "two searches found different receives");
        return recv;
    }
    if (found.recv != NULL) {
        cw_tag_matcher_take_found(&p->matcher, &found);
    }
    return found.recv;
}

static void do_arrive(struct program *p)
{
    uint64_t               tag = some_tag(p);
    struct cw_tag_message *message;
    struct cw_tag_recv    *recv;
    unsigned               found;

    if (p->num_spare_messages == 0) {
        return;
    }
    found = model_find(&p->posted, tag, UINT64_MAX);
    recv = take_recv(p, tag);
    if (found < p->posted.count) {
        require(p, recv == p->posted.items[found].object, "a message took another receive");
        require(p, !cw_tag_matcher_is_posted(&p->matcher, recv), "a matched receive is posted");
        p->spare_recvs[p->num_spare_recvs++] = model_take(&p->posted, found);
    } else {
        require(p, recv == NULL, "a message took a receive where none matches");
        message = p->spare_messages[--p->num_spare_messages];
        cw_tag_matcher_add_unexpected(&p->matcher, message, tag);
        model_add(&p->unexpected, message, tag, UINT64_MAX);
    }
}

static void do_probe(struct program *p, bool remove)
{
    uint64_t               tag = some_tag(p);
    uint64_t               mask = some_mask(p);
    unsigned               found = model_find(&p->unexpected, tag, mask);
    struct cw_tag_message *message = cw_tag_matcher_probe(&p->matcher, tag, mask, remove);

    if (found == p->unexpected.count) {
        require(p, message == NULL, "a probe found a message where none matches");
        return;
    }
    require(p, message == p->unexpected.items[found].object, "a probe found another message");
    require(p, message->tag == p->unexpected.items[found].tag, "the tag of a message changed");
    if (remove) {
        p->spare_messages[p->num_spare_messages++] = model_take(&p->unexpected, found);
    }
}

static void do_cancel(struct program *p)
{
    if (p->posted.count != 0) {
        struct cw_tag_recv *recv = model_take(&p->posted, random_below(&p->random, p->posted.count));

        require(p, cw_tag_matcher_cancel(&p->matcher, recv), "a posted receive could not be cancelled");
        require(p, !cw_tag_matcher_is_posted(&p->matcher, recv), "a cancelled receive is posted");
        require(p, !cw_tag_matcher_cancel(&p->matcher, recv), "a receive was cancelled twice");
        p->spare_recvs[p->num_spare_recvs++] = recv;
    }
}

static void do_remove(struct program *p)
{
    if (p->unexpected.count != 0) {
        struct cw_tag_message *message =
            model_take(&p->unexpected, random_below(&p->random, p->unexpected.count));

        cw_tag_matcher_remove_message(&p->matcher, message);
        /* The caller frees it now: nothing may read it any more. */
        memset(message, 0x5a, sizeof(*message));
        p->spare_messages[p->num_spare_messages++] = message;
    }
}

static void do_step(struct program *p)
{
    unsigned total = 0;
    unsigned dice;
    unsigned action;

    for (action = 0; action < NUM_ACTIONS; action++) {
        total += p->weights[action];
    }
    dice = random_below(&p->random, total);
    for (action = 0; dice >= p->weights[action]; action++) {
        dice -= p->weights[action];
    }
    switch ((enum action)action) {
    case ACTION_POST:
        do_post(p);
        break;
    case ACTION_ARRIVE:
        do_arrive(p);
        break;
    case ACTION_PROBE:
        do_probe(p, false);
        break;
    case ACTION_PROBE_REMOVE:
        do_probe(p, true);
        break;
    case ACTION_CANCEL:
        do_cancel(p);
        break;
    default:
        do_remove(p);
    }
    require(p, cw_tag_matcher_num_posted(&p->matcher) == p->posted.count, "the number of posted receives differs");
    require(p, p->matcher.num_unexpected == p->unexpected.count, "the number of unexpected messages differs");
}

static void check(struct program *p)
{
    const char *wrong = cw_tag_matcher_check(&p->matcher);

    require(p, wrong == NULL, wrong);
}

/* At the end everything comes out again, messages in order of arrival (TPR-8). */
static void drain(struct program *p)
{
    while (p->unexpected.count != 0) {
        require(p, cw_tag_matcher_probe(&p->matcher, random_next(&p->random), 0, true) == model_take(&p->unexpected, 0),
                "the last messages came out of order");
    }
    while (p->posted.count != 0) {
        require(p, cw_tag_matcher_take_recv(&p->matcher) != NULL, "receives are missing at the end");
        p->posted.count--;
    }
    require(p, cw_tag_matcher_take_recv(&p->matcher) == NULL, "there are more receives than were posted");
    check(p);
    cw_tag_matcher_cleanup(&p->matcher);
    require(p, memory.live == 0, "memory is left");
}

static void run_program(struct program *p, uint64_t seed)
{
    static const unsigned refuse_percents[] = {0, 0, 10, 50, 95};
    unsigned              i;

    memset(p, 0, sizeof(*p));
    p->seed = seed;
    p->random.state = seed * 0x100000001b3u;
    refused.random.state = ~seed;
    refused.percent = refuse_percents[seed % 5];
    memory.live = 0;
    memory.refuses = refuse;
    for (i = 0; i < MAX_LIVE; i++) {
        p->spare_recvs[p->num_spare_recvs++] = &p->recvs[i];
        p->spare_messages[p->num_spare_messages++] = &p->messages[i];
    }
    choose_masks(p);
    choose_tags(p);
    cw_tag_matcher_init(&p->matcher, random_next(&p->random));
    for (p->step = 0; p->step < NUM_STEPS; p->step++) {
        if ((p->step % 150) == 0) {
            choose_weights(p);
        }
        do_step(p);
        if ((p->step % 50) == 0) {
            check(p);
        }
    }
    check(p);
    drain(p);
    refused.percent = 0;
}

TEST(test_random_operations_agree_with_two_lists)
{
    uint64_t seed;

    for (seed = first_seed; seed < first_seed + num_seeds; seed++) {
        run_program(&program, seed);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        first_seed = strtoull(argv[1], NULL, 0);
        num_seeds = (argc > 2) ? strtoull(argv[2], NULL, 0) : 1;
    }
    return cw_tests_run(NULL, NULL);
}
