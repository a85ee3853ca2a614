/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions, targets and the servant of the tests of remote access; see test_rma_common.h. */
#define _GNU_SOURCE
#include "test_rma_common.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- regions ---- */

ucp_mem_map_params_t cw_mem_garbage(uint64_t mask)
{
    ucp_mem_map_params_t params;

    memset(&params, 0xff, sizeof(params)); /* GEN-2 */
    params.field_mask = mask;
    return params;
}

ucp_mem_map_params_t cw_mem_params(void *address, size_t length, unsigned flags)
{
    ucp_mem_map_params_t params = cw_mem_garbage(UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                          UCP_MEM_MAP_PARAM_FIELD_FLAGS);

    params.address = address;
    params.length = length;
    params.flags = flags;
    return params;
}

ucp_mem_attr_t cw_mem_query(ucp_mem_h memh)
{
    ucp_mem_attr_t attr;

    memset(&attr, 0x77, sizeof(attr));
    attr.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH | UCP_MEM_ATTR_FIELD_MEM_TYPE;
    assert_int_equal(ucp_mem_query(memh, &attr), UCS_OK);
    return attr;
}

ucp_mem_h cw_mem_map(ucp_context_h context, void *address, size_t length, unsigned flags)
{
    ucp_mem_map_params_t params = cw_mem_params(address, length, flags);
    ucp_mem_h memh = NULL;
    ucs_status_t status = ucp_mem_map(context, &params, &memh);

    if (status != UCS_OK) {
        fail_msg("%zu bytes at %p with flags %#x: %s", length, address, flags, ucs_status_string(status));
    }
    assert_non_null(memh);
    return memh;
}

ucs_status_t cw_mem_refusal(ucp_context_h context, const ucp_mem_map_params_t *params)
{
    ucp_mem_h memh = NULL;
    ucs_status_t status = ucp_mem_map(context, params, &memh);

    if (status == UCS_OK) {
        fail_msg("Mapping worked, but should not");
    }
    return status;
}

void cw_mem_unmap(ucp_context_h context, ucp_mem_h memh)
{
    assert_int_equal(ucp_mem_unmap(context, memh), UCS_OK);
}

void cw_region_register(struct cw_region *region, ucp_context_h context, void *base, size_t length)
{
    *region = (struct cw_region){.kind = CW_MEMORY_KINDS, .context = context, .base = base, .length = length};
    region->memh = cw_mem_map(context, base, length, 0);
}

void cw_region_open(struct cw_region *region, ucp_context_h context, enum cw_memory kind, size_t length)
{
    *region = (struct cw_region){.kind = kind, .context = context, .length = length};
    if (kind == CW_MEMORY_ALLOCATED) {
        region->memh = cw_mem_map(context, NULL, length, UCP_MEM_MAP_ALLOCATE);
        region->base = cw_mem_query(region->memh).address;
        return;
    }
    if (kind == CW_MEMORY_HEAP) {
        region->own = malloc(length + 16);
        assert_non_null(region->own);
        region->base = (char *)region->own + 8;
    } else {
        region->own_length = (length + CW_PAGE - 1) / CW_PAGE * CW_PAGE;
        region->own = mmap(NULL, region->own_length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_true(region->own != MAP_FAILED);
        region->base = region->own;
    }
    region->memh = cw_mem_map(context, region->base, length, 0);
}

void cw_region_unmap(struct cw_region *region)
{
    if (region->memh != NULL) {
        assert_int_equal(ucp_mem_unmap(region->context, region->memh), UCS_OK);
        region->memh = NULL;
    }
}

void cw_region_close(struct cw_region *region)
{
    cw_region_unmap(region);
    if (region->kind == CW_MEMORY_HEAP) {
        free(region->own);
    } else if (region->kind == CW_MEMORY_SHARED) {
        munmap(region->own, region->own_length);
    }
    region->own = NULL;
}

void *cw_region_blob(const struct cw_region *region, size_t *length)
{
    void *packed = NULL, *copy;

    assert_int_equal(ucp_rkey_pack(region->context, region->memh, &packed, length), UCS_OK);
    assert_non_null(packed);
    copy = malloc(*length);
    assert_non_null(copy);
    memcpy(copy, packed, *length);
    memset(packed, 0xff, *length);
    ucp_rkey_buffer_release(packed);
    return copy;
}

static ucp_rkey_h key_unpack(ucp_ep_h ep, void *blob, size_t length)
{
    ucp_rkey_h key = NULL;
    ucs_status_t status = ucp_ep_rkey_unpack(ep, blob, &key);

    memset(blob, 0xff, length); /* KEY-3 */
    if (status != UCS_OK) {
        fail_msg("ucp_ep_rkey_unpack: %s", ucs_status_string(status));
    }
    return key;
}

ucp_rkey_h cw_region_key(const struct cw_region *region, ucp_ep_h ep)
{
    size_t length;
    void *blob = cw_region_blob(region, &length);
    ucp_rkey_h key = key_unpack(ep, blob, length);

    free(blob);
    return key;
}

/* ---- helper ---- */

static void *helper_run(void *arg)
{
    struct cw_helper *helper = arg;

    while (!__atomic_load_n(&helper->stop, __ATOMIC_ACQUIRE)) {
        if (ucp_worker_progress(helper->worker) == 0) {
            sched_yield();
        }
    }
    return NULL;
}

void cw_helper_start(struct cw_helper *helper, ucp_worker_h worker)
{
    helper->worker = worker;
    helper->stop = 0;
    assert_int_equal(pthread_create(&helper->thread, NULL, helper_run, helper), 0);
}

void cw_helper_stop(struct cw_helper *helper)
{
    __atomic_store_n(&helper->stop, 1, __ATOMIC_RELEASE);
    assert_int_equal(pthread_join(helper->thread, NULL), 0);
}

/* ---- servant ---- */

enum { REGIONS = 32 };

struct message {
    uint64_t order;
    uint64_t region;
    uint64_t a;
    uint64_t b;
    uint64_t c;
};

struct answer {
    uint64_t value;
    uint64_t region;
    uint64_t blob_length;
    unsigned char blob[CW_BLOB_MAX];
};

int cw_servant_failures;
ucs_status_t cw_servant_failure;

static void note_failure(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)arg;
    (void)ep;
    cw_servant_failures++;
    cw_servant_failure = status;
}

/* ERR-21: the reference has none over shared memory. */
static bool peer_mode_works(void)
{
    return !cw_test_reference() || cw_test_tls_has("tcp");
}

static ucp_ep_h connect_watched(int fd, struct cw_side *side)
{
    const struct cw_pair_config config = {.peer_mode = peer_mode_works(), .on_failure = note_failure};

    cw_servant_failures = 0;
    return cw_fd_connect(fd, side, &config);
}

static void await(const char *place, uint64_t value)
{
    double deadline = cw_time_now_s() + CW_WAIT_S;

    while (__atomic_load_n((const uint64_t *)place, __ATOMIC_ACQUIRE) != value) {
        if (cw_time_now_s() > deadline) {
            fail_msg("The value did not come within %d s", CW_WAIT_S);
        }
    }
}

/* In one piece where it lies like a word; elsewhere not every processor can. */
static void store(char *place, uint64_t value)
{
    if ((uintptr_t)place % sizeof(value) == 0) {
        __atomic_store_n((uint64_t *)place, value, __ATOMIC_RELEASE);
    } else {
        memcpy(place, &value, sizeof(value));
    }
}

static void map_for(struct cw_region *region, ucp_context_h context, const struct message *message,
                    struct answer *answer)
{
    size_t length;
    void *blob;

    cw_region_open(region, context, (enum cw_memory)message->a, message->b);
    memset(region->base, 0, message->b);
    blob = cw_region_blob(region, &length);
    assert_true(length <= sizeof(answer->blob));
    memcpy(answer->blob, blob, length);
    free(blob);
    answer->blob_length = length;
    answer->value = (uintptr_t)region->base;
}

static void obey(const struct message *message, struct cw_region *region, struct answer *answer)
{
    char *place = region->base + message->a;

    answer->value = 0;
    switch (message->order) {
    case CW_ORDER_UNMAP:
        cw_region_unmap(region);
        break;
    case CW_ORDER_DROP:
        cw_region_close(region);
        region->base = NULL;
        break;
    case CW_ORDER_FILL:
        cw_pattern_fill(place, message->b, message->c);
        break;
    case CW_ORDER_FIND:
        answer->value = (uint64_t)cw_pattern_find(place, message->b, message->c);
        break;
    case CW_ORDER_SET:
        memset(place, (int)message->c, message->b);
        break;
    case CW_ORDER_PEEK:
        memcpy(&answer->value, place, 8);
        break;
    case CW_ORDER_STORE:
        store(place, message->b);
        break;
    case CW_ORDER_AWAIT:
        await(place, message->b);
        break;
    default:
        break;
    }
}

int cw_servant_run(int fd, const char *argument)
{
    const struct cw_pair_config config = {.features = CW_RMA_FEATURES, .peer_mode = peer_mode_works()};
    static struct cw_region regions[REGIONS];
    static struct answer answer;
    struct message message = {.order = CW_ORDER_LIVELY};
    struct cw_side side;
    bool silent = false;

    (void)argument;
    cw_side_open(&side, &config);
    side.ep = cw_fd_connect(fd, &side, &config);
    while (message.order != CW_ORDER_QUIT) {
        while (!silent && cw_fd_poll(fd, 0) == 0) {
            if (ucp_worker_progress(side.worker) == 0) {
                sched_yield();
            }
        }
        cw_fd_read(fd, &message, sizeof(message), silent ? NULL : side.worker);
        if (message.order == CW_ORDER_MAP) {
            for (answer.region = 0; regions[answer.region].base != NULL; answer.region++) {
                assert_true(answer.region + 1 < REGIONS);
            }
            map_for(&regions[answer.region], side.context, &message, &answer);
        } else if (message.order == CW_ORDER_SILENT || message.order == CW_ORDER_LIVELY) {
            silent = message.order == CW_ORDER_SILENT;
        } else {
            obey(&message, &regions[message.region], &answer);
        }
        cw_fd_write(fd, &answer, sizeof(answer));
    }
    for (int i = 0; i < REGIONS; i++) {
        cw_region_close(&regions[i]);
    }
    cw_side_destroy(&side);
    return 0;
}

void cw_servant_start(struct cw_servant *servant, struct cw_pair *pair)
{
    const struct cw_pair_config config = {.features = CW_RMA_FEATURES};

    servant->pair = pair;
    servant->region = 0;
    cw_remote_start(&servant->remote, "servant", NULL);
    cw_side_open(&pair->sides[0], &config);
    pair->count = 1;
    pair->tx = pair->rx = &pair->sides[0];
    pair->tx->ep = connect_watched(servant->remote.fd, pair->tx);
}

static void pass(struct cw_servant *servant, const struct message *message, struct answer *answer)
{
    /* While the servant looks without progress something may have to leave here; otherwise it gets the processor. */
    cw_fd_write(servant->remote.fd, message, sizeof(*message));
    cw_fd_read(servant->remote.fd, answer, sizeof(*answer),
               message->order == CW_ORDER_AWAIT ? servant->pair->tx->worker : NULL);
}

uint64_t cw_servant_order(struct cw_servant *servant, enum cw_order order, uint64_t a, uint64_t b, uint64_t c)
{
    struct message message = {.order = order, .region = servant->region, .a = a, .b = b, .c = c};
    static struct answer answer;

    pass(servant, &message, &answer);
    return answer.value;
}

void cw_servant_dismiss(struct cw_servant *servant)
{
    cw_servant_order(servant, CW_ORDER_QUIT, 0, 0, 0);
    cw_remote_join(&servant->remote);
}

void cw_servant_kill(struct cw_servant *servant)
{
    cw_remote_kill(&servant->remote);
}

/* ---- targets ---- */

void cw_target_open(struct cw_target *target, struct cw_pair *pair, struct cw_servant *servant, enum cw_memory kind,
                    size_t length)
{
    struct message message = {.order = CW_ORDER_MAP, .a = kind, .b = length};
    static struct answer answer;

    *target = (struct cw_target){.pair = pair, .ep = pair->tx->ep, .length = length, .servant = servant};
    if (servant == NULL) {
        cw_region_open(&target->region, pair->rx->context, kind, length);
        memset(target->region.base, 0, length);
        target->address = (uintptr_t)target->region.base;
        target->key = cw_region_key(&target->region, target->ep);
        return;
    }
    pass(servant, &message, &answer);
    target->address = answer.value;
    target->number = answer.region;
    target->key = key_unpack(target->ep, answer.blob, answer.blob_length);
}

void cw_target_close(struct cw_target *target)
{
    ucp_rkey_destroy(target->key);
    if (target->servant == NULL) {
        cw_region_close(&target->region);
    } else {
        cw_target_order(target, CW_ORDER_DROP, 0, 0, 0);
    }
}

uint64_t cw_target_order(struct cw_target *target, enum cw_order order, uint64_t a, uint64_t b, uint64_t c)
{
    target->servant->region = target->number;
    return cw_servant_order(target->servant, order, a, b, c);
}

void cw_target_fill(struct cw_target *target, size_t offset, size_t length, uint64_t seed)
{
    if (target->servant != NULL) {
        cw_target_order(target, CW_ORDER_FILL, offset, length, seed);
    } else {
        cw_pattern_fill(target->region.base + offset, length, seed);
    }
}

void cw_target_set(struct cw_target *target, size_t offset, size_t length, int byte)
{
    if (target->servant != NULL) {
        cw_target_order(target, CW_ORDER_SET, offset, length, (uint64_t)byte);
    } else {
        memset(target->region.base + offset, byte, length);
    }
}

ssize_t cw_target_find(struct cw_target *target, size_t offset, size_t length, uint64_t seed)
{
    if (target->servant != NULL) {
        return (ssize_t)cw_target_order(target, CW_ORDER_FIND, offset, length, seed);
    }
    return cw_pattern_find(target->region.base + offset, length, seed);
}

void cw_target_check(struct cw_target *target, size_t offset, size_t length, uint64_t seed)
{
    ssize_t wrong = cw_target_find(target, offset, length, seed);

    if (wrong >= 0) {
        fail_msg("Byte %zd of %zu is wrong at the target", wrong, length);
    }
}

uint64_t cw_target_peek(struct cw_target *target, size_t offset)
{
    uint64_t value;

    if (target->servant != NULL) {
        return cw_target_order(target, CW_ORDER_PEEK, offset, 0, 0);
    }
    memcpy(&value, target->region.base + offset, 8);
    return value;
}

void cw_target_store(struct cw_target *target, size_t offset, uint64_t value)
{
    if (target->servant != NULL) {
        cw_target_order(target, CW_ORDER_STORE, offset, value, 0);
    } else {
        memcpy(target->region.base + offset, &value, 8);
    }
}

ucs_status_t cw_target_flush(struct cw_target *target)
{
    ucp_request_param_t param = cw_param_none();

    return cw_pair_wait(target->pair, ucp_ep_flush_nbx(target->ep, &param), "flush");
}

void cw_target_lend(struct cw_target *target, struct cw_helper *helper)
{
    helper->worker = NULL;
    if (target->servant == NULL && target->pair->rx != target->pair->tx) {
        cw_helper_start(helper, target->pair->rx->worker);
    }
}

void cw_target_return(struct cw_target *target, struct cw_helper *helper)
{
    (void)target;
    if (helper->worker != NULL) {
        cw_helper_stop(helper);
    }
}

void cw_target_try(struct cw_target *target, size_t offset)
{
    static uint64_t number = 1000;
    uint64_t out = ++number, in = 0;
    ucp_request_param_t param = cw_param_none();

    assert_int_equal(cw_pair_wait(target->pair, ucp_put_nbx(target->ep, &out, 8, target->address + offset, target->key,
                                                            &param), "put"), UCS_OK);
    assert_int_equal(cw_target_flush(target), UCS_OK);
    assert_true(cw_target_peek(target, offset) == out);
    assert_int_equal(cw_pair_wait(target->pair, ucp_get_nbx(target->ep, &in, 8, target->address + offset, target->key,
                                                            &param), "get"), UCS_OK);
    assert_true(in == out);
}
