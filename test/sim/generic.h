/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A generic datatype of plain bytes, whose pack now and then gives less than it may (DT-7). What was started must be
 * finished before it is freed (DT-9).
 */
#ifndef CW_TEST_SIM_GENERIC_H
#define CW_TEST_SIM_GENERIC_H

#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include <ucp/api/ucp.h>

struct cw_generic {
    char *bytes;
    size_t length;
    unsigned packs;
};

static int cw_generic_open;

static inline void *cw_generic_start_unpack(void *context, void *buffer, size_t count)
{
    struct cw_generic *generic = malloc(sizeof(*generic));

    (void)context;
    assert_non_null(generic);
    *generic = (struct cw_generic){.bytes = buffer, .length = count};
    cw_generic_open++;
    return generic;
}

static inline void *cw_generic_start_pack(void *context, const void *buffer, size_t count)
{
    return cw_generic_start_unpack(context, (void *)(uintptr_t)buffer, count);
}

static inline size_t cw_generic_size(void *state)
{
    return ((const struct cw_generic *)state)->length;
}

static inline size_t cw_generic_pack(void *state, size_t offset, void *to, size_t most)
{
    struct cw_generic *generic = state;
    size_t part = generic->length - offset;

    part = (part < most) ? part : most;
    part = (generic->packs++ % 3 == 1 && part > 1) ? part / 2 : part;
    memcpy(to, generic->bytes + offset, part);
    return part;
}

static inline ucs_status_t cw_generic_unpack(void *state, size_t offset, const void *from, size_t length)
{
    const struct cw_generic *generic = state;

    assert_true(offset <= generic->length && length <= generic->length - offset);
    memcpy(generic->bytes + offset, from, length);
    return UCS_OK;
}

static inline void cw_generic_finish(void *state)
{
    free(state);
    cw_generic_open--;
}

static inline ucp_datatype_t cw_generic_new(void)
{
    static const ucp_generic_dt_ops_t ops = {cw_generic_start_pack, cw_generic_start_unpack, cw_generic_size,
                                             cw_generic_pack, cw_generic_unpack, cw_generic_finish};
    ucp_datatype_t datatype;

    assert_int_equal(ucp_dt_create_generic(&ops, NULL, &datatype), UCS_OK);
    return datatype;
}

static inline void cw_generic_free(ucp_datatype_t datatype)
{
    assert_int_equal(cw_generic_open, 0);
    ucp_dt_destroy(datatype);
}

#endif
