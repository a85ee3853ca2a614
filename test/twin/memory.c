/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory and keys: every combination of the members and flags of ucp_mem_map, advice, keys and pointers. MEM, KEY. */
#define _GNU_SOURCE
#include "twin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LENGTH = 8192 };

static char *area;

static void print_region(const char *what, ucp_context_h context, const ucp_mem_map_params_t *params, ucp_mem_h memh)
{
    bool given = (params->field_mask & UCP_MEM_MAP_PARAM_FIELD_ADDRESS) != 0;
    const char *address;
    ucp_mem_attr_t attr;
    ucs_status_t status;
    void *buffer;
    size_t size;

    memset(&attr, TWIN_FILL, sizeof(attr));
    attr.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH | UCP_MEM_ATTR_FIELD_MEM_TYPE;
    status = ucp_mem_query(memh, &attr);
    address = given && params->address == attr.address ? "as given" : "another";
    twin_print("%s: query %s, address %s, type %d", what, twin_status(status),
              attr.address == NULL ? "none" : address, (int)attr.mem_type);
    twin_print("%s: long enough %d, empty %d", what, attr.length >= (params->length > (1 << 30) ? 0 : params->length),
              attr.length == 0);
    status = ucp_rkey_pack(context, memh, &buffer, &size);
    twin_print("%s: key %s", what, twin_status(status));
    if (status == UCS_OK) {
        ucp_rkey_buffer_release(buffer);
    }
    twin_print("%s: unmap %s", what, twin_status(ucp_mem_unmap(context, memh)));
}

static void map(ucp_context_h context, const char *what, const ucp_mem_map_params_t *params)
{
    ucp_mem_h memh;
    ucs_status_t status = ucp_mem_map(context, params, &memh);

    twin_print("%s: %s", what, twin_status(status));
    if (status == UCS_OK) {
        print_region(what, context, params, memh);
    }
    /* what was allocated in its place is gone with it */
    twin_need(mmap(area, LENGTH * 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == area,
              "memory");
}

static void masks(void)
{
    const char *const kinds[] = {"area", "null", "odd"};
    char *const addresses[] = {area, NULL, area + 1};
    ucp_context_h context = twin_context(UCP_FEATURE_RMA);
    ucp_mem_map_params_t params;
    unsigned mask, flags, kind;
    size_t length;
    char what[96];

    for (mask = 0; mask < 32; mask++) {
        for (flags = 0; flags < ((mask & UCP_MEM_MAP_PARAM_FIELD_FLAGS) ? 8 : 1); flags++) {
            for (kind = 0; kind < ((mask & UCP_MEM_MAP_PARAM_FIELD_ADDRESS) ? 3 : 1); kind++) {
                for (length = 0; length <= ((mask & UCP_MEM_MAP_PARAM_FIELD_LENGTH) ? LENGTH : 0);
                     length += LENGTH / 2 - 1) {
                    memset(&params, TWIN_FILL, sizeof(params));
                    params.field_mask = mask;
                    params.address = (mask & UCP_MEM_MAP_PARAM_FIELD_ADDRESS) ? addresses[kind] : params.address;
                    params.length = (mask & UCP_MEM_MAP_PARAM_FIELD_LENGTH) ? length : params.length;
                    params.flags = (mask & UCP_MEM_MAP_PARAM_FIELD_FLAGS) ? flags : params.flags;
                    params.prot = (mask & UCP_MEM_MAP_PARAM_FIELD_PROT) ? UCP_MEM_MAP_PROT_REMOTE_READ : params.prot;
                    params.memory_type =
                        (mask & UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE) ? UCS_MEMORY_TYPE_HOST : params.memory_type;
                    snprintf(what, sizeof(what), "mask %#x, flags %u, %s, %zu bytes", mask, flags, kinds[kind], length);
                    map(context, what, &params);
                }
            }
        }
    }
    ucp_cleanup(context);
}

/* Memory of the program's own, or allocated, and nothing else. */
static void set(ucp_mem_map_params_t *params, bool allocate)
{
    memset(params, TWIN_FILL, sizeof(*params));
    params->field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS;
    params->length = LENGTH;
    params->flags = allocate ? UCP_MEM_MAP_ALLOCATE : 0;
    if (!allocate) {
        params->field_mask |= UCP_MEM_MAP_PARAM_FIELD_ADDRESS;
        params->address = area;
    }
}

static void types(bool allocate)
{
    static const unsigned list[] = {0, 1, 2, 3, 4, 5, 6, 99};
    ucp_context_h context = twin_context(UCP_FEATURE_RMA);
    ucp_mem_map_params_t params;
    char what[64];
    size_t i;

    for (i = 0; i < TWIN_COUNT(list); i++) {
        set(&params, allocate);
        params.field_mask |= UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
        params.memory_type = (ucs_memory_type_t)list[i];
        snprintf(what, sizeof(what), "allocate %d, type %u", allocate, list[i]);
        map(context, what, &params);
    }
    ucp_cleanup(context);
}

static void types_given(void)
{
    types(false);
}

static void types_allocated(void)
{
    types(true);
}

static void rights(void)
{
    static const unsigned prots[] = {0, 1, 2, 3, 0x100, 0x200, 0x303, 0xffffffff},
                          flags[] = {8, 16, 0xfffffff8, 0x80000000, 10, 0xfffffffa};
    ucp_context_h context = twin_context(UCP_FEATURE_RMA);
    ucp_mem_map_params_t params;
    char what[64];
    size_t i;
    int allocate;

    for (allocate = 0; allocate < 2; allocate++) {
        for (i = 0; i < TWIN_COUNT(prots) + TWIN_COUNT(flags); i++) {
            set(&params, allocate);
            if (i < TWIN_COUNT(prots)) {
                params.field_mask |= UCP_MEM_MAP_PARAM_FIELD_PROT;
                params.prot = prots[i];
                snprintf(what, sizeof(what), "allocate %d, protection %#x", allocate, params.prot);
            } else {
                params.flags |= flags[i - TWIN_COUNT(prots)];
                snprintf(what, sizeof(what), "allocate %d, flags %#x", allocate, params.flags);
            }
            map(context, what, &params);
        }
    }
    ucp_cleanup(context);
}

static void query(void)
{
    static const struct twin_field fields[] = {TWIN_FIELD(ucp_mem_attr_t, address), TWIN_FIELD(ucp_mem_attr_t, length),
                                               TWIN_FIELD(ucp_mem_attr_t, mem_type)};
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .address = area,
                                   .length = LENGTH};
    ucp_context_h context = twin_context(UCP_FEATURE_RMA);
    ucp_mem_attr_t attr;
    ucs_status_t status;
    ucp_mem_h memh;
    uint64_t mask;
    char what[32];
    int i;

    twin_need(ucp_mem_map(context, &params, &memh) == UCS_OK, "ucp_mem_map");
    for (i = 0; i < 10; i++) {
        if (i < 8) {
            mask = (uint64_t)i;
        } else {
            mask = i == 8 ? ~UINT64_C(7) : ~UINT64_C(0);
        }
        memset(&attr, TWIN_FILL, sizeof(attr));
        attr.field_mask = mask;
        status = ucp_mem_query(memh, &attr);
        snprintf(what, sizeof(what), "mask %#llx", (unsigned long long)mask);
        twin_print_filled(what, status, &attr, fields, TWIN_COUNT(fields));
    }
    (void)ucp_mem_unmap(context, memh);
    ucp_cleanup(context);
}

static void advise(void)
{
    static const struct {
        long offset;
        size_t length;
        int advice;
    } asked[] = {{0, LENGTH, 0}, {0, LENGTH, 1},     {0, LENGTH, 2},     {0, LENGTH, -1},
                                   {-1, 10, 0},    {0, LENGTH + 1, 0}, {LENGTH - 1, 2, 0}, {100, 10, 1},
                                   {LENGTH, 0, 0}, {0, 0, 0},          {LENGTH + 1, 0, 0}, {16, (size_t)-1, 0}};
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .address = area,
                                   .length = LENGTH};
    ucp_context_h context = twin_context(UCP_FEATURE_RMA);
    ucp_mem_advise_params_t advice;
    ucp_mem_h memh;
    unsigned mask;
    size_t i;

    twin_need(ucp_mem_map(context, &params, &memh) == UCS_OK, "ucp_mem_map");
    for (mask = 0; mask < 9; mask++) {
        memset(&advice, TWIN_FILL, sizeof(advice));
        advice.field_mask = mask < 8 ? mask : ~UINT64_C(0);
        advice.address = (mask & 1) || mask == 8 ? area : advice.address;
        advice.length = (mask & 2) || mask == 8 ? LENGTH : advice.length;
        advice.advice = (mask & 4) || mask == 8 ? UCP_MADV_WILLNEED : advice.advice;
        twin_print("mask %u: %s", mask, twin_status(ucp_mem_advise(context, memh, &advice)));
    }
    for (i = 0; i < TWIN_COUNT(asked); i++) {
        advice.field_mask = 7;
        advice.address = area + asked[i].offset;
        advice.length = asked[i].length;
        advice.advice = (ucp_mem_advice_t)asked[i].advice;
        twin_print("offset %ld, length %zu, advice %d: %s", asked[i].offset, asked[i].length, asked[i].advice,
                  twin_status(ucp_mem_advise(context, memh, &advice)));
    }
    (void)ucp_mem_unmap(context, memh);
    ucp_cleanup(context);
}

static void keys_of(struct twin_pair *pair, const char *what, const ucp_mem_map_params_t *params)
{
    static const long offsets[] = {0, 8, LENGTH - 1, LENGTH, -1};
    void *first, *second, *moved, *pointer;
    ucs_status_t status, put;
    ucp_rkey_h rkey, again;
    size_t sizes[2], i;
    char word[8] = "1234567";
    ucp_mem_attr_t attr;
    ucp_mem_h memh;

    status = ucp_mem_map(pair->context, params, &memh);
    twin_print("%s: map %s", what, twin_status(status));
    attr.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS;
    if (status != UCS_OK || ucp_mem_query(memh, &attr) != UCS_OK) {
        return;
    }
    twin_print("%s: pack %s", what, twin_status(ucp_rkey_pack(pair->context, memh, &first, &sizes[0])));
    (void)ucp_rkey_pack(pair->context, memh, &second, &sizes[1]);
    twin_print("%s: same key %d", what, sizes[0] == sizes[1] && memcmp(first, second, sizes[0]) == 0);
    moved = memcpy((char *)malloc(sizes[0] + 1) + 1, first, sizes[0]);
    twin_print("%s: unpack %s", what, twin_status(ucp_ep_rkey_unpack(pair->ep[0], moved, &rkey)));
    twin_print("%s: unpack again %s", what, twin_status(ucp_ep_rkey_unpack(pair->ep[0], second, &again)));
    ucp_rkey_buffer_release(first);
    ucp_rkey_buffer_release(second);
    if (params->length > 0) {
        put = ucp_put_nbi(pair->ep[0], word, 8, (uintptr_t)attr.address, rkey);
        put = UCS_STATUS_IS_ERR(put) ? put : twin_wait(pair, ucp_ep_flush_nb(pair->ep[0], 0, twin_done));
        twin_print("%s: put %s, there %d", what, twin_status(put), memcmp(attr.address, word, 8) == 0);
    }
    for (i = 0; i < TWIN_COUNT(offsets) && params->length > 0; i++) {
        status = ucp_rkey_ptr(rkey, (uintptr_t)attr.address + (uintptr_t)offsets[i], &pointer);
        twin_print("%s: pointer at %ld: %s", what, offsets[i], twin_status(status));
    }
    ucp_rkey_destroy(again);
    ucp_rkey_destroy(rkey);
    twin_print("%s: unmap %s", what, twin_status(ucp_mem_unmap(pair->context, memh)));
}

static void keys(void)
{
    struct twin_pair pair;
    ucp_mem_map_params_t own = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                .address = area,
                                .length = LENGTH};
    ucp_mem_map_params_t ours = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
                                 .length = LENGTH,
                                 .flags = UCP_MEM_MAP_ALLOCATE};
    ucp_mem_map_params_t empty = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH};

    twin_pair_open(&pair, UCP_FEATURE_RMA, UCP_ERR_HANDLING_MODE_NONE);
    keys_of(&pair, "own", &own);
    keys_of(&pair, "allocated", &ours);
    keys_of(&pair, "empty", &empty);
    twin_pair_close(&pair);
}

static void with_area(void (*run)(void))
{
    area = mmap(NULL, LENGTH * 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    twin_need(area != MAP_FAILED, "memory");
    memset(area, 1, LENGTH * 4);
    run();
}

static void run_masks(void)
{
    with_area(masks);
}

static void run_types_given(void)
{
    with_area(types_given);
}

static void run_types_allocated(void)
{
    with_area(types_allocated);
}

static void run_rights(void)
{
    with_area(rights);
}

static void run_query(void)
{
    with_area(query);
}

static void run_advise(void)
{
    with_area(advise);
}

static void run_keys(void)
{
    with_area(keys);
}

const struct twin_case twin_memory_cases[] = {{"memory.masks", run_masks},
                                              {"memory.types", run_types_given},
                                              {"memory.types_allocated", run_types_allocated},
                                              {"memory.rights", run_rights},
                                              {"memory.query", run_query},
                                              {"memory.advise", run_advise},
                                              {"memory.keys", run_keys},
                                              {NULL, NULL}};
