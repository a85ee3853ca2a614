/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The linked list of base/list.h against an array, in both directions after each step.
 */
#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "base/list.h"
#include "test_random.h"

#define ITEMS 24u
#define LISTS 3u

struct item {
    int value;
    struct cw_list link;
};

/* The model: a list and what must be on it, in order. */
struct pair {
    struct cw_list list;
    struct item *model[ITEMS];
    unsigned count;
};

static struct item items[ITEMS];
static struct pair pairs[LISTS];

static unsigned below(unsigned bound)
{
    return (unsigned)(next_random() % bound);
}

static int set_up(void **state)
{
    unsigned i;

    for (i = 0; i < ITEMS; i++) {
        items[i].value = (int)i;
        cw_list_init(&items[i].link);
    }
    memset(pairs, 0, sizeof(pairs));
    for (i = 0; i < LISTS; i++) {
        cw_list_init(&pairs[i].list);
    }
    return random_set_up(state);
}

static void check(struct pair *pair)
{
    struct cw_list *back = pair->list.prev;
    struct item *item;
    unsigned i = 0;

    assert_int_equal(cw_list_empty(&pair->list), pair->count == 0);
    cw_list_for_each(item, &pair->list, struct item, link) {
        assert_true(i < pair->count);
        assert_ptr_equal(item, pair->model[i]);
        i++;
    }
    assert_int_equal(i, pair->count);
    while (i-- > 0) {
        assert_ptr_equal(back, &pair->model[i]->link);
        back = back->prev;
    }
    assert_ptr_equal(back, &pair->list);
    if (pair->count > 0) {
        assert_ptr_equal(cw_list_head(&pair->list, struct item, link), pair->model[0]);
    }
}

static void model_insert(struct pair *pair, unsigned at, struct item *item)
{
    memmove(&pair->model[at + 1], &pair->model[at], (pair->count - at) * sizeof(item));
    pair->model[at] = item;
    pair->count++;
}

static void model_remove(struct pair *pair, unsigned at)
{
    pair->count--;
    memmove(&pair->model[at], &pair->model[at + 1], (pair->count - at) * sizeof(pair->model[0]));
}

static int model_find(struct item *item, struct pair **pair_p, unsigned *at_p)
{
    unsigned i, at;

    for (i = 0; i < LISTS; i++) {
        for (at = 0; at < pairs[i].count; at++) {
            if (pairs[i].model[at] == item) {
                *pair_p = &pairs[i];
                *at_p = at;
                return 1;
            }
        }
    }
    return 0;
}

static void insert(struct pair *pair, struct item *item)
{
    unsigned at;

    switch (below(3)) {
    case 0:
        cw_list_add_head(&pair->list, &item->link);
        model_insert(pair, 0, item);
        break;
    case 1:
        cw_list_add_tail(&pair->list, &item->link);
        model_insert(pair, pair->count, item);
        break;
    default:
        at = below(pair->count + 1);
        cw_list_insert_before((at == pair->count) ? &pair->list : &pair->model[at]->link, &item->link);
        model_insert(pair, at, item);
    }
}

static void pop(struct pair *pair)
{
    struct cw_list *link = cw_list_pop_head(&pair->list);

    if (pair->count == 0) {
        assert_null(link);
        return;
    }
    assert_ptr_equal(link, &pair->model[0]->link);
    assert_true(cw_list_empty(link));
    model_remove(pair, 0);
}

static void splice(struct pair *to, struct pair *from)
{
    if (to == from) {
        return;
    }
    cw_list_splice_tail(&to->list, &from->list);
    memcpy(&to->model[to->count], from->model, from->count * sizeof(from->model[0]));
    to->count += from->count;
    from->count = 0;
}

static void step(void)
{
    struct item *item = &items[below(ITEMS)];
    struct pair *pair = &pairs[below(LISTS)];
    unsigned at = 0;
    int on_list = model_find(item, &pair, &at);

    assert_int_equal(cw_list_empty(&item->link), !on_list);
    if (!on_list) {
        insert(pair, item);
    } else if (below(4) == 0) {
        pop(pair);
    } else if (below(8) == 0) {
        splice(pair, &pairs[below(LISTS)]);
    } else {
        cw_list_remove(&item->link);
        assert_true(cw_list_empty(&item->link));
        cw_list_remove(&item->link); /* harmless */
        model_remove(pair, at);
    }
}

TEST_WITH(random_operations_agree_with_the_model, set_up, NULL)
{
    unsigned i, j;

    for (i = 0; i < 30000; i++) {
        step();
        for (j = 0; j < LISTS; j++) {
            check(&pairs[j]);
        }
    }
}

TEST_WITH(an_empty_list_gives_nothing, set_up, NULL)
{
    struct item *item, *next;
    struct cw_list list;

    cw_list_init(&list);
    assert_true(cw_list_empty(&list));
    assert_null(cw_list_pop_head(&list));
    cw_list_splice_tail(&list, &pairs[0].list);
    assert_true(cw_list_empty(&list));
    cw_list_for_each(item, &list, struct item, link) {
        fail();
    }
    cw_list_for_each_safe(item, next, &list, struct item, link) {
        fail();
    }
}

/* The body of the safe loop may free the element it is at. */
TEST_WITH(elements_may_be_freed_while_walking, set_up, NULL)
{
    struct item *item, *next;
    struct cw_list list;
    int expected = 0, i;

    cw_list_init(&list);
    for (i = 0; i < 10; i++) {
        item = malloc(sizeof(*item));
        assert_non_null(item);
        item->value = i;
        cw_list_add_tail(&list, &item->link);
    }
    cw_list_for_each_safe(item, next, &list, struct item, link) {
        assert_int_equal(item->value, expected);
        expected++;
        if (item->value % 2 == 0) {
            cw_list_remove(&item->link);
            memset(item, 0xa5, sizeof(*item));
            free(item);
        }
    }
    assert_int_equal(expected, 10);
    expected = 1;
    cw_list_for_each_safe(item, next, &list, struct item, link) {
        assert_int_equal(item->value, expected);
        expected += 2;
        cw_list_remove(&item->link);
        free(item);
    }
    assert_true(cw_list_empty(&list));
}

TEST_WITH(container_of_finds_the_element, set_up, NULL)
{
    assert_ptr_equal(cw_container_of(&items[3].link, struct item, link), &items[3]);
    assert_int_equal(cw_container_of(&items[5].link, struct item, link)->value, 5);
}
