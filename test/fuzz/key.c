/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys and exported handles: any bytes, and the ones of real memory with some bits changed. What is accepted is encoded
 * to the same bytes again; memory is reached only by a key that agrees with it.
 */
#include "fuzz.h"

#include "core/mem.h"
#include "core/rkey.h"
#include "os/host.h"
#include "os/memory.h"
#include "sim_rdma.h"

/* Of two contexts, so that the second reaches the memory of the first as it would another process'. */
static ucp_context_h owner, reader;
static struct ucp_mem *mem;
static uint8_t real_key[CW_KEY_MAX], real_handle[CW_MEM_EXPORT_MAX];
static size_t key_length, handle_length;

static void prepare(void)
{
    const ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
                                         .length = 10000,
                                         .flags = UCP_MEM_MAP_ALLOCATE};
    const ucp_params_t init = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_EXPORTED_MEMH};

    if (reader != NULL) {
        return;
    }
    cw_log_set_interceptor(fuzz_swallow);
    fuzz_check(ucp_init(&init, NULL, &owner) == UCS_OK && ucp_init(&init, NULL, &reader) == UCS_OK);
    fuzz_check(cw_mem_map(owner, &params, &mem) == UCS_OK);
    key_length = cw_mem_pack(mem, real_key);
    fuzz_check(cw_mem_export(mem, real_handle, &handle_length) == UCS_OK);
}

static void try_key(const uint8_t *bytes)
{
    struct ucp_rkey *rkey;
    struct cw_key key, real;
    void *ptr;

    if (cw_rkey_unpack(reader, bytes, 0, &rkey) != UCS_OK) {
        fuzz_check(cw_key_decode(bytes, &key, NULL) != UCS_OK);
        return;
    }
    cw_mem_key(mem, &real);
    if (cw_rkey_ptr(rkey, rkey->key.address, &ptr) == UCS_OK) {
        fuzz_check(rkey->key.token == real.token && rkey->key.address == real.address);
        fuzz_check(rkey->key.length == real.length && rkey->key.rights == real.rights);
        ((volatile char *)ptr)[0] = 1;
        ((volatile char *)ptr)[real.length - 1] = 1;
    }
    cw_rkey_release(rkey);
}

static void try_handle(const uint8_t *bytes)
{
    const ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_EXPORTED_MEMH_BUFFER,
                               .exported_memh_buffer = bytes};
    struct ucp_mem *imported;

    if (cw_mem_map(reader, &params, &imported) == UCS_OK) {
        fuzz_check(cw_mem_unmap(reader, imported) == UCS_OK);
    }
}

/* Each part lies within them, and the domain of a device takes it or leaves it. */
static void check_parts(const struct cw_key_parts *parts)
{
    const struct cw_domain_range range = {.address = 4096, .length = 1};
    struct cw_remote_key key;
    const uint8_t *part;
    unsigned number;
    size_t length;

    for (number = 1; number <= CW_DOMAIN_MAX; number++) {
        part = cw_key_find_part(parts, number, &length);
        if (part != NULL) {
            fuzz_check(part > parts->bytes && length <= parts->length && part <= parts->bytes + parts->length - length);
            (void)cw_sim_rdma_domain.read_part(NULL, part, length, &range, &key);
        }
    }
}

static void try_bytes(const uint8_t *data, size_t size)
{
    uint8_t bytes[CW_MEM_EXPORT_MAX] = {0}, again[CW_KEY_MAX];
    struct cw_key_parts parts;
    struct cw_key key;
    size_t length;

    memcpy(bytes, data, (size < sizeof(bytes)) ? size : sizeof(bytes));
    if (cw_key_decode(bytes, &key, &parts) == UCS_OK) {
        length = cw_key_encode(&key, &parts, again);
        fuzz_check(length == cw_key_length(bytes) && memcmp(again, bytes, length) == 0);
        check_parts(&parts);
        key.system = cw_host_pidns_id();
        key.pid = cw_memory_process();
        key.fd    %= 64;
        cw_key_encode(&key, &parts, again);
        try_key(again);
    }
    try_key(bytes);
    try_handle(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t changed[CW_MEM_EXPORT_MAX];
    size_t i;

    prepare();
    try_bytes(data, size);
    for (i = 0; i < key_length; i++) {
        changed[i] = real_key[i] ^ ((i < size) ? data[i] : 0);
    }
    try_key(changed);
    for (i = 0; i < handle_length; i++) {
        changed[i] = real_handle[i] ^ ((i < size) ? data[i] : 0);
    }
    try_handle(changed);
    return 0;
}
