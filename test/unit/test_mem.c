/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regions of a context (core/mem.h): what ucp_mem_map makes, which accesses of peers are let in, pins, and that nothing
 * is left of a region that was unmapped. Between processes: test_mem_attach.c.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runner.h"
#include "core/ep.h"
#include "core/mem.h"
#include "core/mem_table.h"
#include "core/rkey.h"

enum { BOTH = CW_KEY_READ | CW_KEY_WRITE };

static ucp_context_h context;
static char area[10000];

static int setup(void **state)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_RMA};

    (void)state;
    (void)setenv("UCX_LOG_LEVEL", "fatal", 1);
    return (ucp_init(&params, NULL, &context) == UCS_OK) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    ucp_cleanup(context);
    return 0;
}

static int is_open(uint32_t fd)
{
    return fcntl((int)fd, F_GETFD) >= 0;
}

static ucs_status_t map(void *address, size_t length, unsigned flags, struct ucp_mem **mem_p)
{
    const uint64_t mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                          UCP_MEM_MAP_PARAM_FIELD_FLAGS;
    const ucp_mem_map_params_t params = {.field_mask = mask,
                                         .address = address,
                                         .length = length,
                                         .flags = flags};

    return cw_mem_map(context, &params, mem_p);
}

static struct cw_key key_of(const struct ucp_mem *mem)
{
    struct cw_key key;

    cw_mem_key(mem, &key);
    return key;
}

static ucs_status_t enter(uint64_t token, const void *address, uint64_t length, unsigned rights)
{
    void *ptr = NULL;
    ucs_status_t status = cw_mem_enter(context, token, (uintptr_t)address, length, rights, &ptr);

    if (status == UCS_OK) {
        assert_ptr_equal(ptr, address);
        cw_mem_leave(context);
    }
    return status;
}

TEST_WITH(accesses_stay_within_the_region, setup, teardown)
{
    struct ucp_mem *mem;
    struct cw_key key;

    assert_int_equal(map(area + 10, 1000, 0, &mem), UCS_OK);
    key = key_of(mem);
    assert_true(key.token != 0 && key.address == (uintptr_t)area + 10 && key.length == 1000 && key.rights == BOTH);
    assert_int_equal(enter(key.token, area + 10, 1000, BOTH), UCS_OK);
    assert_int_equal(enter(key.token, area + 1009, 1, BOTH), UCS_OK);
    assert_int_equal(enter(key.token, area + 1010, 0, BOTH), UCS_OK);
    assert_int_equal(enter(key.token, area + 9, 1, BOTH), UCS_ERR_INVALID_ADDR);
    assert_int_equal(enter(key.token, area + 1010, 1, BOTH), UCS_ERR_INVALID_ADDR);
    assert_int_equal(enter(key.token, area + 1009, 2, BOTH), UCS_ERR_INVALID_ADDR);
    assert_int_equal(enter(key.token, area + 10, 1001, BOTH), UCS_ERR_INVALID_ADDR);
    assert_int_equal(enter(key.token, area + 500, UINT64_MAX, BOTH), UCS_ERR_INVALID_ADDR);
    assert_int_equal(enter(key.token, area + 500, UINT64_MAX - (uintptr_t)area, BOTH), UCS_ERR_INVALID_ADDR);
    assert_int_equal(enter(key.token ^ 1, area + 10, 1, BOTH), UCS_ERR_INVALID_ADDR);
    assert_true(cw_mem_covers(mem, area + 10, 1000) && cw_mem_covers(mem, NULL, 0));
    assert_false(cw_mem_covers(mem, area + 9, 1) || cw_mem_covers(mem, area + 11, 1000));
    assert_int_equal(enter(0, NULL, 0, 0), UCS_ERR_INVALID_ADDR);
    assert_int_equal(cw_mem_unmap(context, mem), UCS_OK);
    assert_int_equal(enter(key.token, area + 10, 1, BOTH), UCS_ERR_CONNECTION_RESET);
}

/* The table remembers only so many regions that were unmapped. */
TEST_WITH(old_regions_are_forgotten, setup, teardown)
{
    uint64_t tokens[CW_MEM_REVOKED + 1];
    struct ucp_mem *mem;

    for (unsigned i = 0; i <= CW_MEM_REVOKED; i++) {
        assert_int_equal(map(area, 10, 0, &mem), UCS_OK);
        tokens[i] = key_of(mem).token;
        assert_int_equal(cw_mem_unmap(context, mem), UCS_OK);
        assert_int_equal(enter(tokens[i], area, 1, BOTH), UCS_ERR_CONNECTION_RESET);
    }
    assert_int_equal(enter(tokens[1], area, 1, BOTH), UCS_ERR_CONNECTION_RESET);
    assert_int_equal(enter(tokens[0], area, 1, BOTH), UCS_ERR_INVALID_ADDR);
}

TEST_WITH(protection_is_obeyed, setup, teardown)
{
    static const struct {
        unsigned prot;
        uint8_t rights;
    } cases[] = {{UCP_MEM_MAP_PROT_REMOTE_READ, CW_KEY_READ},
                 {UCP_MEM_MAP_PROT_REMOTE_WRITE | UCP_MEM_MAP_PROT_LOCAL_READ, CW_KEY_WRITE},
                 {UCP_MEM_MAP_PROT_REMOTE_READ | UCP_MEM_MAP_PROT_REMOTE_WRITE, BOTH},
                 {UCP_MEM_MAP_PROT_LOCAL_READ | UCP_MEM_MAP_PROT_LOCAL_WRITE, 0}};
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                                 UCP_MEM_MAP_PARAM_FIELD_PROT,
                                   .address = area,
                                   .length = sizeof(area)};
    struct ucp_mem *mem;
    uint64_t token;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        params.prot = cases[i].prot;
        assert_int_equal(cw_mem_map(context, &params, &mem), UCS_OK);
        token = key_of(mem).token;
        assert_int_equal(key_of(mem).rights, cases[i].rights);
        for (unsigned rights = 0; rights <= BOTH; rights++) {
            assert_int_equal(enter(token, area, 8, rights),
                             ((cases[i].rights & rights) == rights) ? UCS_OK : UCS_ERR_INVALID_PARAM);
        }
        assert_int_equal(cw_mem_unmap(context, mem), UCS_OK);
    }
}

/* Many regions of the same bytes, unmapped in another order (MEM-11); more than one page of validity words. */
TEST_WITH(regions_are_independent, setup, teardown)
{
    enum { COUNT = 1500 };
    static struct ucp_mem *mems[COUNT];
    static struct cw_key keys[COUNT];
    unsigned i, at;

    for (i = 0; i < COUNT; i++) {
        assert_int_equal(map(area + i, 100, 0, &mems[i]), UCS_OK);
        keys[i] = key_of(mems[i]);
        assert_int_equal(*(const uint64_t *)(uintptr_t)keys[i].validity, keys[i].token);
    }
    for (i = 0; i < COUNT; i++) {
        at = i * 7 % COUNT;
        assert_int_equal(enter(keys[at].token, area + at, 100, BOTH), UCS_OK);
        assert_int_equal(cw_mem_unmap(context, mems[at]), UCS_OK);
        assert_int_equal(enter(keys[at].token, area + at, 100, BOTH), UCS_ERR_CONNECTION_RESET);
        assert_int_equal(*(const uint64_t *)(uintptr_t)keys[at].validity, 0);
    }
    for (i = 0; i < COUNT; i++) { /* words are used again, tokens are not */
        assert_int_equal(map(area + i, 100, 0, &mems[i]), UCS_OK);
        assert_int_equal(*(const uint64_t *)(uintptr_t)key_of(mems[i]).validity, key_of(mems[i]).token);
        assert_int_not_equal(key_of(mems[i]).token, keys[i].token);
    }
    for (i = 0; i < COUNT; i += 2) {
        assert_int_equal(cw_mem_unmap(context, mems[i]), UCS_OK);
    } /* the others end with the context */
}

TEST_WITH(wrong_orders_are_refused, setup, teardown)
{
    const ucp_mem_map_params_t none = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS, .address = area};
    const unsigned allocate = UCP_MEM_MAP_ALLOCATE;
    const unsigned fixed = UCP_MEM_MAP_ALLOCATE | UCP_MEM_MAP_FIXED;
    char *const last = (char *)(UINTPTR_MAX & ~(uintptr_t)4095);
    struct ucp_mem *mem = NULL;

    assert_int_equal(cw_mem_map(context, &none, &mem), UCS_ERR_INVALID_PARAM);
    assert_int_equal(map(NULL, 1, 0, &mem), UCS_ERR_INVALID_PARAM);
    assert_int_equal(map(area, 1, UCP_MEM_MAP_FIXED, &mem), UCS_ERR_INVALID_PARAM);
    assert_int_equal(map(NULL, 1, fixed, &mem), UCS_ERR_INVALID_PARAM);
    assert_int_equal(map((void *)(uintptr_t)4097, 1, fixed, &mem), UCS_ERR_INVALID_PARAM);
    assert_int_equal(map(area, SIZE_MAX, 0, &mem), UCS_ERR_INVALID_PARAM);
    assert_int_equal(map(area, SIZE_MAX - (uintptr_t)area + 1, 0, &mem), UCS_ERR_INVALID_PARAM);
    assert_int_equal(map(last, 8192, fixed, &mem), UCS_ERR_INVALID_PARAM);
    assert_int_equal(map(last, 4096, fixed, &mem), UCS_ERR_INVALID_PARAM);
    assert_int_equal(map(last - 8192, 4096, fixed, &mem), UCS_ERR_NO_MEMORY);
    assert_int_equal(map(NULL, SIZE_MAX, allocate, &mem), UCS_ERR_NO_MEMORY);
    assert_int_equal(map(NULL, SIZE_MAX / 2, allocate, &mem), UCS_ERR_NO_MEMORY);
    assert_int_equal(map(NULL, (size_t)1 << 46, allocate, &mem), UCS_ERR_NO_MEMORY);
    assert_null(mem);
}

TEST_WITH(allocated_memory_is_given_back, setup, teardown)
{
    static const size_t lengths[] = {1, 4096, 5000, 3 << 20};
    struct ucp_mem *mem;
    unsigned char seen;
    struct cw_key key;

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        assert_int_equal(map(NULL, lengths[i], UCP_MEM_MAP_ALLOCATE, &mem), UCS_OK);
        key = key_of(mem);
        assert_true(key.length >= lengths[i] && key.length % 4096 == 0 && key.address % 4096 == 0);
        assert_true(lengths[i] < (2 << 20) || key.address % (2 << 20) == 0);
        assert_int_equal(key.flags, CW_KEY_SHARED);
        for (size_t at = 0; at < key.length; at += 1000) {
            assert_int_equal(((char *)(uintptr_t)key.address)[at], 0);
        }
        memset((void *)(uintptr_t)key.address, 1, key.length);
        assert_true(is_open(key.fd));
        assert_int_equal(cw_mem_unmap(context, mem), UCS_OK);
        assert_false(is_open(key.fd));
        assert_int_equal(mincore((void *)(uintptr_t)key.address, 4096, &seen), -1);
    }
}

static void again_with(const char *name, const char *value)
{
    ucp_cleanup(context);
    assert_int_equal(setenv(name, value, 1), 0);
    assert_int_equal(setup(NULL), 0);
    assert_int_equal(unsetenv(name), 0);
}

/* UCX_ALLOC_PRIO, UCX_POSIX_HUGETLB_MODE: every way gives zeroed memory of at least that length, or none does. */
TEST_WITH(methods_are_chosen_by_settings, setup, teardown)
{
    static const struct {
        const char *name, *value;
        int flags; /* of the key; -1: refused, -2: whatever the system has */
    } cases[] = {{"UCX_ALLOC_PRIO", "heap", 0},
                 {"UCX_ALLOC_PRIO", "mmap", 0},
                 {"UCX_ALLOC_PRIO", "thp", 0},
                 {"UCX_ALLOC_PRIO", "thp,md:*", 0},
                 {"UCX_ALLOC_PRIO", "md:knem,md:p*", CW_KEY_SHARED},
                 {"UCX_ALLOC_PRIO", "md:rdma,md:x", -1},
                 {"UCX_ALLOC_PRIO", "huge,md:sysv,heap", -2},
                 {"UCX_POSIX_HUGETLB_MODE", "y", CW_KEY_SHARED},
                 {"UCX_POSIX_HUGETLB_MODE", "n", CW_KEY_SHARED}};
    const size_t length = (3 << 20) + 1;
    struct ucp_mem *mem;
    struct cw_key key;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        again_with(cases[i].name, cases[i].value);
        if (cases[i].flags == -1) {
            assert_int_equal(map(NULL, length, UCP_MEM_MAP_ALLOCATE, &mem), UCS_ERR_NO_MEMORY);
            continue;
        }
        assert_int_equal(map(NULL, length, UCP_MEM_MAP_ALLOCATE, &mem), UCS_OK);
        key = key_of(mem);
        assert_true(key.length >= length && (cases[i].flags < 0 || key.flags == cases[i].flags));
        assert_int_equal(((char *)(uintptr_t)key.address)[length - 1], 0);
        ((char *)(uintptr_t)key.address)[key.length - 1] = 1;
        assert_int_equal(cw_mem_unmap(context, mem), UCS_OK);
    }
}

/* What cannot be shared is private memory; the process is not killed (SIGXFSZ) and no descriptor is lost. */
TEST_WITH(limits_lead_to_private_memory, setup, teardown)
{
    static const int resources[] = {RLIMIT_NOFILE, RLIMIT_FSIZE};
    const int next = dup(0);
    struct rlimit old, none = {0, 0};
    struct ucp_mem *mem;

    close(next);
    for (size_t i = 0; i < sizeof(resources) / sizeof(resources[0]); i++) {
        assert_int_equal(getrlimit(resources[i], &old), 0);
        none.rlim_max = old.rlim_max;
        assert_int_equal(setrlimit(resources[i], &none), 0);
        assert_int_equal(map(NULL, 10000, UCP_MEM_MAP_ALLOCATE, &mem), UCS_OK);
        assert_int_equal(setrlimit(resources[i], &old), 0);
        assert_int_equal(key_of(mem).flags, 0);
        memset((void *)(uintptr_t)key_of(mem).address, 1, key_of(mem).length);
        assert_int_equal(cw_mem_unmap(context, mem), UCS_OK);
        assert_false(is_open((uint32_t)next));
    }
}

/* MEM-7: what was there is replaced, and the trailer lies elsewhere. */
TEST_WITH(fixed_memory_replaces, setup, teardown)
{
    char *place = mmap(NULL, 8 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct ucp_mem *mem, *hinted;

    assert_true(place != MAP_FAILED);
    memset(place, 7, 8 * 4096);
    assert_int_equal(map(place + 4096, 3 * 4096 - 5, UCP_MEM_MAP_ALLOCATE | UCP_MEM_MAP_FIXED, &mem), UCS_OK);
    assert_int_equal(key_of(mem).address, (uintptr_t)place + 4096);
    assert_int_equal(key_of(mem).length, 3 * 4096);
    assert_true(place[4095] == 7 && place[4096] == 0 && place[4 * 4096 - 1] == 0 && place[4 * 4096] == 7);
    assert_int_equal(map(place, 4096, UCP_MEM_MAP_ALLOCATE, &hinted), UCS_OK); /* MEM-6: a hint replaces nothing */
    assert_int_not_equal(key_of(hinted).address, (uintptr_t)place);
    assert_int_equal(place[0], 7);
    assert_int_equal(cw_mem_unmap(context, hinted), UCS_OK);
    assert_int_equal(cw_mem_unmap(context, mem), UCS_OK);
    munmap(place, 8 * 4096);
}

TEST_WITH(memory_of_no_bytes_is_fine, setup, teardown)
{
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH, .length = 5};
    uint8_t bytes[CW_KEY_MAX];
    struct ucp_rkey *rkey;
    struct ucp_mem *mem;
    struct cw_key key;
    void *ptr;

    for (unsigned flags = 0; flags <= UCP_MEM_MAP_ALLOCATE; flags += UCP_MEM_MAP_ALLOCATE) {
        assert_int_equal(map((flags == 0) ? area : NULL, 0, flags, &mem), UCS_OK);
        attr.address = area;
        assert_int_equal(cw_mem_query(mem, &attr), UCS_OK);
        assert_null(attr.address);
        assert_int_equal(attr.length, 0);
        key = key_of(mem);
        assert_int_equal(key.token, 0);
        cw_key_encode(&key, NULL, bytes);
        assert_int_equal(cw_rkey_unpack(context, bytes, 0, &rkey), UCS_OK);
        assert_true(cw_rkey_holds(rkey, 0, 0) && !cw_rkey_holds(rkey, 0, 1));
        assert_int_equal(cw_rkey_ptr(rkey, 0, &ptr), UCS_ERR_INVALID_ADDR);
        cw_rkey_release(rkey);
        assert_int_equal(cw_mem_unmap(context, mem), UCS_OK);
    }
}

/* ---- pins ---- */

TEST_WITH(pins_are_counted, setup, teardown)
{
    struct cw_mem_pin pins[3];
    struct ucp_mem *mem;
    struct cw_key key;
    void *ptr;

    assert_int_equal(map(area, 100, 0, &mem), UCS_OK);
    key = key_of(mem);
    assert_int_equal(cw_mem_pin(context, key.token, key.address, 101, BOTH, NULL, &pins[0], &ptr),
                     UCS_ERR_INVALID_ADDR);
    assert_null(pins[0].mem);
    cw_mem_unpin(context, &pins[0]);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(cw_mem_pin(context, key.token, key.address + 1, 99, BOTH, NULL, &pins[i], &ptr), UCS_OK);
        assert_ptr_equal(ptr, area + 1);
    }
    for (int i = 0; i < 3; i++) {
        cw_mem_unpin(context, &pins[(i + 1) % 3]);
        cw_mem_unpin(context, &pins[(i + 1) % 3]); /* holds nothing any more */
    }
    assert_int_equal(cw_mem_unmap(context, mem), UCS_OK);
}

/* MEM-16: the endpoint fails, the memory is gone at once, and the pin may still be taken off. */
TEST_WITH(unmapping_breaks_pins, setup, teardown)
{
    struct ucp_worker worker = {.context = context};
    struct ucp_ep ep = {.worker = &worker, .state = CW_EP_OPEN};
    struct cw_mem_pin pins[2];
    struct ucp_mem *mem;
    unsigned char seen;
    struct cw_key key;
    void *ptr;

    assert_int_equal(cw_poller_new(0, &worker.poller), UCS_OK);
    cw_list_init(&worker.reap);
    cw_list_init(&ep.reap_link);
    assert_int_equal(map(NULL, 4096, UCP_MEM_MAP_ALLOCATE, &mem), UCS_OK);
    key = key_of(mem);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cw_mem_pin(context, key.token, key.address, 10, BOTH, &ep, &pins[i], &ptr), UCS_OK);
    }
    assert_int_equal(cw_mem_unmap(context, mem), UCS_OK);
    assert_int_equal(ep.state, CW_EP_FAILED);
    assert_int_equal(ep.status, UCS_ERR_IO_ERROR);
    assert_int_equal(mincore((void *)(uintptr_t)key.address, 4096, &seen), -1);
    for (int i = 0; i < 2; i++) {
        assert_null(pins[i].mem);
        cw_mem_unpin(context, &pins[i]);
    }
    cw_poller_free(worker.poller);
}

/* A worker that belongs to another thread is left alone: its pins keep the memory, which nobody reaches any more. */
TEST_WITH(pins_of_others_keep_the_memory, setup, teardown)
{
    struct ucp_worker worker = {.context = context};
    struct ucp_ep ep = {.worker = &worker, .state = CW_EP_OPEN};
    struct cw_mem_pin pins[2];
    struct ucp_mem *mem;
    unsigned char seen;
    struct cw_key key;
    void *ptr;

    context->mt_workers_shared = 1;
    assert_int_equal(map(NULL, 4096, UCP_MEM_MAP_ALLOCATE, &mem), UCS_OK);
    key = key_of(mem);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cw_mem_pin(context, key.token, key.address, 10, BOTH, &ep, &pins[i], &ptr), UCS_OK);
    }
    assert_int_equal(cw_mem_unmap(context, mem), UCS_OK);
    context->mt_workers_shared = 0;
    assert_int_equal(ep.state, CW_EP_OPEN);
    assert_int_equal(enter(key.token, (void *)(uintptr_t)key.address, 1, 0), UCS_ERR_CONNECTION_RESET);
    assert_int_equal(*(const uint64_t *)(uintptr_t)key.validity, 0);
    cw_mem_unpin(context, &pins[0]);
    *(volatile char *)ptr = 1;
    cw_mem_unpin(context, &pins[1]);
    assert_int_equal(mincore((void *)(uintptr_t)key.address, 4096, &seen), -1);
    assert_false(is_open(key.fd));
}

/* ---- threads ---- */

/* A worker of mode MULTI whose thread uses a pinned region, and the table, until it lets the worker go. */
struct busy {
    struct ucp_worker worker;
    struct ucp_ep ep;
    struct cw_mem_pin pin;
    struct cw_key key;
    int pinned, unmapping, touched;
};

static void *use_the_region(void *arg)
{
    struct busy *busy = arg;
    void *ptr;

    cw_worker_enter(&busy->worker);
    if (cw_mem_pin(context, busy->key.token, busy->key.address, 8, BOTH, &busy->ep, &busy->pin, &ptr) == UCS_OK) {
        __atomic_store_n(&busy->pinned, 1, __ATOMIC_RELEASE);
        while (cw_mem_enter(context, busy->key.token, busy->key.address, 8, BOTH, &ptr) == UCS_OK) {
            cw_mem_leave(context); /* until it is unmapped */
        }
        for (int i = 0; i < 1000; i++) {
            (void)cw_mem_enter(context, busy->key.token, busy->key.address, 8, BOTH, &ptr);
            *(volatile char *)(uintptr_t)busy->key.address = 1; /* still ours */
            busy->touched++;
            sched_yield();
        }
    }
    cw_worker_leave(&busy->worker);
    return NULL;
}

/* Lock order: who unmaps waits for the worker, and the worker's thread goes on using the table meanwhile. */
TEST_WITH(unmapping_waits_for_the_worker, setup, teardown)
{
    static struct busy busy;
    struct ucp_mem *mem;
    unsigned char seen;
    pthread_t thread;

    busy.worker.context = context;
    busy.worker.mt = 1;
    busy.ep.worker = &busy.worker;
    busy.ep.state = CW_EP_OPEN;
    context->mt_workers_shared = 1;
    cw_list_init(&busy.worker.reap);
    cw_list_init(&busy.ep.reap_link);
    cw_lock_init(&busy.worker.lock);
    assert_int_equal(cw_poller_new(0, &busy.worker.poller), UCS_OK);
    assert_int_equal(map(NULL, 4096, UCP_MEM_MAP_ALLOCATE, &mem), UCS_OK);
    busy.key = key_of(mem);
    assert_int_equal(pthread_create(&thread, NULL, use_the_region, &busy), 0);
    while (!__atomic_load_n(&busy.pinned, __ATOMIC_ACQUIRE)) {
        sched_yield();
    }
    assert_int_equal(cw_mem_unmap(context, mem), UCS_OK);
    assert_int_equal(busy.touched, 1000);
    assert_int_equal(busy.ep.state, CW_EP_FAILED);
    assert_null(busy.pin.mem);
    assert_int_equal(mincore((void *)(uintptr_t)busy.key.address, 4096, &seen), -1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    cw_poller_free(busy.worker.poller);
}

static void *churn(void *arg)
{
    const unsigned seed = (unsigned)(uintptr_t)arg;
    struct cw_mem_pin pin;
    struct ucp_rkey *rkey;
    uint8_t bytes[CW_KEY_MAX];
    struct ucp_mem *mem;
    struct cw_key key;
    unsigned i;
    void *ptr;

    for (i = 0; i < 1000; i++) {
        if (map(area + seed, 64, ((i + seed) % 4 == 0) ? UCP_MEM_MAP_ALLOCATE : 0, &mem) != UCS_OK) {
            return NULL;
        }
        key = key_of(mem);
        cw_key_encode(&key, NULL, bytes);
        if (cw_mem_pin(context, key.token, key.address, 64, BOTH, NULL, &pin, &ptr) != UCS_OK ||
            cw_rkey_unpack(context, bytes, 0, &rkey) != UCS_OK || cw_rkey_direct(rkey, key.address, BOTH) == NULL) {
            return NULL;
        }
        cw_mem_unpin(context, &pin);
        if (cw_mem_unmap(context, mem) != UCS_OK || cw_rkey_direct(rkey, key.address, BOTH) != NULL) {
            return NULL;
        }
        cw_rkey_release(rkey);
    }
    return arg;
}

TEST_WITH(threads_map_and_unmap, setup, teardown) /* MEM-18 */
{
    pthread_t threads[4];
    void *result;

    for (uintptr_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)), 0);
    }
    for (uintptr_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_ptr_equal(result, (void *)(i + 1));
    }
}
