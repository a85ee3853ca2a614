/* SPDX-License-Identifier: BSD-3-Clause */
/* Classes of the matcher (tag_class.h): functions that find a class by its mask, make it, and free it when there are
 * many. */
#include "op/tag_class.h"

#include <assert.h>
#include <stdlib.h>

static bool class_is_idle(const struct cw_tag_matcher *matcher, const struct cw_tag_class *class)
{
    return ((matcher->busy | matcher->indexed) & cw_tag_class_bit(class)) == 0;
}

/* Frees an idle class if there are many. Slots have no gaps: the last class moves into the free slot. */
void cw_tag_class_retire(struct cw_tag_matcher *matcher, struct cw_tag_class *class)
{
    struct cw_tag_class *last;

    if ((matcher->num_classes <= CW_TAG_KEPT_CLASSES) || !class_is_idle(matcher, class)) {
        return;
    }
    last = matcher->classes[--matcher->num_classes];
    if (last != class) {
        uint64_t gap  = cw_tag_class_bit(class);
        uint64_t bit  = cw_tag_class_bit(last);
        bool     busy = (matcher->busy & bit) != 0;
        bool     held = (matcher->indexed & bit) != 0;

        matcher->busy                 = (matcher->busy & ~bit) | (busy ? gap : 0);
        matcher->indexed              = (matcher->indexed & ~bit) | (held ? gap : 0);
        matcher->classes[class->slot] = last;
        last->slot                    = class->slot;
    }
    if (matcher->recent == class) {
        matcher->recent = NULL;
    }
    free(class);
}

struct cw_tag_class *cw_tag_class_find(const struct cw_tag_matcher *matcher, uint64_t mask)
{
    unsigned i;

    for (i = 0; i < matcher->num_classes; i++) {
        if (matcher->classes[i]->mask == mask) {
            return matcher->classes[i];
        }
    }
    return NULL;
}

/* The least recently used class without receives and without index, NULL if there is none. */
static struct cw_tag_class *class_find_idle(const struct cw_tag_matcher *matcher)
{
    struct cw_tag_class *oldest = NULL;
    unsigned             i;

    for (i = 0; i < matcher->num_classes; i++) {
        struct cw_tag_class *class = matcher->classes[i];

        if (class_is_idle(matcher, class) && ((oldest == NULL) || (class->last_use < oldest->last_use))) {
            oldest = class;
        }
    }
    return oldest;
}

/* NULL if there is no memory or all classes are in use. */
static struct cw_tag_class *class_new(struct cw_tag_matcher *matcher)
{
    struct cw_tag_class *class;

    if (matcher->classes == NULL) {
        assert(matcher->num_classes == 0);
        matcher->classes = calloc(CW_TAG_MAX_CLASSES, sizeof(*matcher->classes));
        if (matcher->classes == NULL) {
            return NULL;
        }
    }
    if (matcher->num_classes == CW_TAG_MAX_CLASSES) {
        return NULL;
    }
    class = malloc(sizeof(*class));
    if (class == NULL) {
        return NULL;
    }
    cw_tag_table_init(&class->posted);
    class->index                             = NULL;
    class->slot                              = matcher->num_classes;
    matcher->classes[matcher->num_classes++] = class;
    return class;
}

static struct cw_tag_class *class_add(struct cw_tag_matcher *matcher, uint64_t mask)
{
    struct cw_tag_class *class = NULL;

    if (matcher->num_classes < CW_TAG_KEPT_CLASSES) {
        class = class_new(matcher);
    }
    if (class == NULL) {
        class = class_find_idle(matcher);
    }
    if ((class == NULL) && (matcher->num_classes >= CW_TAG_KEPT_CLASSES)) {
        class = class_new(matcher);
    }
    if (class != NULL) {
        class->mask    = mask;
        class->scanned = 0;
    }
    return class;
}

struct cw_tag_class *cw_tag_class_switch(struct cw_tag_matcher *matcher, uint64_t mask)
{
    struct cw_tag_class *class;

    if (matcher->recent != NULL) {
        matcher->recent->last_use = ++matcher->clock;
    }
    class = cw_tag_class_find(matcher, mask);
    if (class == NULL) {
        class = class_add(matcher, mask);
    }
    if (class != NULL) {
        class->last_use = ++matcher->clock;
        matcher->recent = class;
    }
    return class;
}
