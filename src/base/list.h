/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Doubly linked lists through an embedded link, and singly linked queues. No allocation, no locks. An unlinked element
 * that was initialised points to itself, so that removing it twice is harmless.
 */
#ifndef CW_BASE_LIST_H
#define CW_BASE_LIST_H

#include <stddef.h>

#define cw_container_of(ptr, type, member) ((type *)(void *)((char *)(ptr) - offsetof(type, member)))

struct cw_list {
    struct cw_list *next;
    struct cw_list *prev;
};

static inline void cw_list_init(struct cw_list *list)
{
    list->next = list;
    list->prev = list;
}

static inline int cw_list_empty(const struct cw_list *list)
{
    return list->next == list;
}

static inline void cw_list_insert_before(struct cw_list *where, struct cw_list *link)
{
    link->prev = where->prev;
    link->next = where;
    where->prev->next = link;
    where->prev = link;
}

static inline void cw_list_add_tail(struct cw_list *list, struct cw_list *link)
{
    cw_list_insert_before(list, link);
}

static inline void cw_list_add_head(struct cw_list *list, struct cw_list *link)
{
    cw_list_insert_before(list->next, link);
}

/* The link is left initialised: cw_list_empty(link) is then true. */
static inline void cw_list_remove(struct cw_list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    cw_list_init(link);
}

static inline struct cw_list *cw_list_pop_head(struct cw_list *list)
{
    struct cw_list *link = list->next;

    if (link == list) {
        return NULL;
    }
    cw_list_remove(link);
    return link;
}

/* Moves all of `from` behind `to`; `from` is empty afterwards. */
static inline void cw_list_splice_tail(struct cw_list *to, struct cw_list *from)
{
    if (cw_list_empty(from)) {
        return;
    }
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    cw_list_init(from);
}

#define cw_list_head(list, type, member) cw_container_of((list)->next, type, member)

#define cw_list_for_each(pos, list, type, member)                                                 \
    for (pos = cw_container_of((list)->next, type, member); &pos->member != (list);               \
         pos = cw_container_of(pos->member.next, type, member))

/* The current element may be removed and freed by the body. */
#define cw_list_for_each_safe(pos, tmp, list, type, member)                                       \
    for (pos = cw_container_of((list)->next, type, member),                                       \
        tmp = cw_container_of(pos->member.next, type, member);                                    \
         &pos->member != (list); pos = tmp, tmp = cw_container_of(pos->member.next, type, member))

#endif
