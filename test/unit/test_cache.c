/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cache of registrations (mem/cache.h) over a domain that only counts: what is found again, bounds, the order in
 * which registrations go, and what the program reports as unmapped (NB-42).
 */
#include <stdlib.h>
#include <string.h>

#include <sys/resource.h>

#include <ucm/api/ucm.h>

#include "runner.h"
#include "compat/ucm/share.h"
#include "mem/cache.h"
#include "test_log_lines.h"
#include "test_random.h"

enum { PAGE = 4096, MOST = 64 };

/* Of which the next registrations are refused; and those that there are. */
static unsigned refusals, num_made, num_live, read_only;
static ucs_status_t refusal = UCS_ERR_NO_MEMORY;

static ucs_status_t reg(struct cw_domain *domain, void *address, size_t length, unsigned rights, struct cw_memh **memh)
{
    (void)address;
    (void)length;
    if (refusals > 0) {
        refusals--;
        return refusal;
    }
    *memh = malloc(sizeof(**memh));
    assert_non_null(*memh);
    **memh = (struct cw_memh){.domain = domain, .rights = read_only ? rights & CW_RIGHT_REMOTE_READ : rights};
    num_made++;
    num_live++;
    return UCS_OK;
}

static void dereg(struct cw_memh *memh)
{
    num_live--;
    free(memh);
}

static const struct cw_domain_kind kind = {.name = "counting", .reg = reg, .dereg = dereg};
static struct cw_domain domain = {.kind = &kind, .device = "counting0", .number = 1};
static struct cw_cache *cache;

static void begin(uint64_t regions, uint64_t bytes, int on_demand)
{
    const struct cw_cache_limits limits = {.regions = regions, .bytes = bytes};

    domain.attr.on_demand = on_demand;
    refusals = num_made = num_live = read_only = 0;
    cache = cw_cache_new(&domain, &limits);
    assert_non_null(cache);
}

static void end(void)
{
    cw_cache_free(cache);
    assert_int_equal(num_live, 0);
    ucm_unset_external_event(UCM_EVENT_VM_UNMAPPED);
}

static struct cw_cached *get(uint64_t begin_at, uint64_t end_at, unsigned rights)
{
    struct cw_cached *cached = cw_cache_get(cache, (void *)(uintptr_t)begin_at, end_at - begin_at, rights);

    if (cached != NULL) {
        assert_true(cached->range.address <= begin_at && cached->range.address + cached->range.length >= end_at);
        assert_int_equal(cached->memh->rights & rights, rights);
    }
    return cached;
}

static void use(uint64_t begin_at, uint64_t end_at, unsigned rights)
{
    struct cw_cached *cached = get(begin_at, end_at, rights);

    assert_non_null(cached);
    cw_cache_put(cached);
}

/* Nobody reports unmapped memory, and the device does not page by itself. */
TEST(test_no_cache_without_events)
{
    begin(UINT64_MAX, UINT64_MAX, 0);
    assert_false(cw_cache_is_active(cache));
    assert_null(get(0, PAGE, CW_RIGHT_LOCAL_WRITE));
    assert_int_equal(num_made, 0);
    ucm_set_external_event(UCM_EVENT_VM_UNMAPPED);
    assert_true(cw_cache_is_active(cache));
    use(PAGE, 2 * PAGE, CW_RIGHT_LOCAL_WRITE);
    ucm_unset_external_event(UCM_EVENT_VM_UNMAPPED); /* and what was kept is not used again */
    assert_null(get(PAGE, 2 * PAGE, CW_RIGHT_LOCAL_WRITE));
    assert_int_equal(num_live, 0);
    end();
}

TEST(test_found_again)
{
    begin(UINT64_MAX, UINT64_MAX, 1);
    use(PAGE, 3 * PAGE, CW_RIGHT_LOCAL_WRITE);
    use(PAGE + 1, 2 * PAGE, CW_RIGHT_LOCAL_WRITE);
    assert_int_equal(num_made, 1);
    use(PAGE, 2 * PAGE, CW_RIGHT_REMOTE_READ); /* a right that it lacks: one with both */
    assert_int_equal(num_made, 2);
    assert_int_equal(num_live, 1);
    use(PAGE, 3 * PAGE, CW_RIGHT_LOCAL_WRITE | CW_RIGHT_REMOTE_READ);
    use(2 * PAGE, 5 * PAGE, CW_RIGHT_LOCAL_WRITE); /* overlaps: one with both ranges */
    use(PAGE, 5 * PAGE, CW_RIGHT_REMOTE_READ);
    assert_int_equal(num_made, 3);
    assert_int_equal(num_live, 1);
    use(7 * PAGE, 8 * PAGE, CW_RIGHT_LOCAL_WRITE);
    use(5 * PAGE, 6 * PAGE, CW_RIGHT_LOCAL_WRITE);
    assert_int_equal(num_live, 3);
    end();
}

/* Memory that cannot be written. */
TEST(test_rights_that_memory_lacks)
{
    begin(UINT64_MAX, UINT64_MAX, 1);
    read_only = 1;
    assert_null(get(0, PAGE, CW_RIGHT_LOCAL_WRITE));
    use(0, PAGE, CW_RIGHT_REMOTE_READ);
    assert_null(get(0, PAGE, CW_RIGHT_LOCAL_WRITE));
    assert_int_equal(num_live, 0);
    end();
}

/* UCX_RCACHE_MAX_REGIONS, UCX_RCACHE_MAX_SIZE: what is in use stays, beyond that the oldest goes. */
TEST(test_bounds)
{
    struct cw_cached *held;
    uint64_t at;

    begin(3, UINT64_MAX, 1);
    held = get(0, PAGE, CW_RIGHT_LOCAL_WRITE);
    assert_non_null(held);
    for (at = 2; at < 20; at += 2) {
        use(at * PAGE, (at + 1) * PAGE, CW_RIGHT_LOCAL_WRITE);
        assert_in_range(num_live, 1, 3);
    }
    use(16 * PAGE, 17 * PAGE, CW_RIGHT_LOCAL_WRITE); /* used again: the other one is older now */
    use(30 * PAGE, 31 * PAGE, CW_RIGHT_LOCAL_WRITE);
    num_made = 0;
    use(16 * PAGE, 17 * PAGE, CW_RIGHT_LOCAL_WRITE);
    use(0, PAGE, CW_RIGHT_LOCAL_WRITE);
    assert_int_equal(num_made, 0);
    cw_cache_put(held);
    end();
    begin(UINT64_MAX, 10 * PAGE, 1);
    assert_null(get(0, 11 * PAGE, CW_RIGHT_LOCAL_WRITE));
    use(0, 6 * PAGE, CW_RIGHT_LOCAL_WRITE);
    use(10 * PAGE, 14 * PAGE, CW_RIGHT_LOCAL_WRITE);
    assert_int_equal(num_live, 2);
    use(20 * PAGE, 21 * PAGE, CW_RIGHT_LOCAL_WRITE);
    assert_int_equal(num_live, 2);
    held = get(40 * PAGE, 50 * PAGE, CW_RIGHT_LOCAL_WRITE);
    assert_int_equal(num_live, 1);
    assert_null(get(60 * PAGE, 61 * PAGE, CW_RIGHT_LOCAL_WRITE)); /* all of the bound is in use */
    cw_cache_put(held);
    end();
}

/* The domain is at its own limit: what nobody uses is given back for it. */
TEST(test_limit_of_the_domain)
{
    begin(UINT64_MAX, UINT64_MAX, 1);
    use(0, PAGE, CW_RIGHT_LOCAL_WRITE);
    use(2 * PAGE, 3 * PAGE, CW_RIGHT_LOCAL_WRITE);
    refusals = 2;
    use(4 * PAGE, 5 * PAGE, CW_RIGHT_LOCAL_WRITE);
    assert_int_equal(num_live, 1);
    refusals = MOST;
    assert_null(get(6 * PAGE, 7 * PAGE, CW_RIGHT_LOCAL_WRITE));
    refusals = 0;
    use(6 * PAGE, 7 * PAGE, CW_RIGHT_LOCAL_WRITE);
    assert_int_equal(cw_cache_shrink(cache), 1);
    assert_int_equal(cw_cache_shrink(cache), 0);
    end();
}

/* A device that refuses memory is logged once, by a sentence with its reason, and with the limit that the user can
 * raise where that matters. */
TEST(test_refusal_is_logged_once)
{
    static const struct {
        rlim_t limit;
        ucs_status_t refusal;
        const char *says;
        int pins;
        const char *why;
    } cases[] = {{65536, UCS_ERR_NO_MEMORY, "raise the limit of locked memory, now 64 KiB (ulimit -l", 1, NULL},
                 {65536, UCS_ERR_NO_MEMORY, "program: the card is full; such messages are copied; raise the limit", 1,
                  "the card is full"},
                 {65536, UCS_ERR_NO_MEMORY, "of the program: no key is free; such messages are copied; UCX_RCACHE", 0,
                  "no key is free"},
                 {RLIM_INFINITY, UCS_ERR_NO_MEMORY, "is out of resources", 1, NULL},
                 {65536, UCS_ERR_INVALID_ADDR, "the kernel refuses device access to it", 1, NULL},
                 {65536, UCS_ERR_INVALID_ADDR, "of the program: no such mode; messages", 0, "no such mode"}};
    struct rlimit before, now;
    struct cw_memh *memh;
    char bytes[8];

    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        now = (struct rlimit){cases[i].limit, before.rlim_max};
        if (setrlimit(RLIMIT_MEMLOCK, &now) != 0) {
            assert_true(cases[i].limit == RLIM_INFINITY); /* above the hard limit of this system */
            continue;
        }
        begin(UINT64_MAX, UINT64_MAX, 1);
        use(0, PAGE, CW_RIGHT_LOCAL_WRITE);
        domain.logged = 0;
        domain.attr.pins = cases[i].pins;
        domain.why = cases[i].why;
        refusal = cases[i].refusal;
        refusals = 1;
        log_count_begin();
        if (refusal == UCS_ERR_NO_MEMORY) { /* the cache gives something back, and that is enough */
            assert_int_equal(cw_cache_reg_apart(cache, &domain, bytes, sizeof(bytes), 0, &memh), UCS_OK);
            assert_int_equal(log_lines, 0);
            dereg(memh);
        }
        refusals = 2;
        for (int j = 0; j < 2; j++) {
            assert_int_equal(cw_cache_reg_apart(cache, &domain, bytes, sizeof(bytes), 0, &memh), refusal);
        }
        log_count_end();
        assert_int_equal(log_lines, 1);
        assert_non_null(strstr(log_text, "counting0 cannot register 8 bytes of the program"));
        assert_non_null(strstr(log_text, cases[i].says));
        refusal = UCS_ERR_NO_MEMORY;
        end();
    }
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &before), 0);
}

/* What overlaps with a reported range is not used again; what is in use ends with that. */
TEST(test_reported_ranges)
{
    struct cw_cached *held;

    begin(UINT64_MAX, UINT64_MAX, 0);
    ucm_set_external_event(UCM_EVENT_VM_UNMAPPED);
    use(0, PAGE, CW_RIGHT_LOCAL_WRITE);
    use(2 * PAGE, 4 * PAGE, CW_RIGHT_LOCAL_WRITE);
    held = get(6 * PAGE, 8 * PAGE, CW_RIGHT_LOCAL_WRITE);
    assert_int_equal(num_made, 3);
    ucm_vm_munmap((void *)(uintptr_t)PAGE, PAGE);         /* beside all */
    ucm_vm_munmap((void *)(uintptr_t)(3 * PAGE), PAGE);   /* the end of one */
    ucm_vm_munmap((void *)(uintptr_t)(7 * PAGE), 9000);
    use(0, PAGE, CW_RIGHT_LOCAL_WRITE);
    assert_int_equal(num_made, 3);
    assert_int_equal(num_live, 2); /* the first, and the one in use */
    use(2 * PAGE, 3 * PAGE, CW_RIGHT_LOCAL_WRITE);
    use(6 * PAGE, 8 * PAGE, CW_RIGHT_LOCAL_WRITE);
    assert_int_equal(num_made, 5);
    assert_int_equal(num_live, 4);
    cw_cache_put(held);
    assert_int_equal(num_live, 3);
    end();
}

/* More reports than are kept: any memory may have been among them. */
TEST(test_lost_reports)
{
    begin(UINT64_MAX, UINT64_MAX, 0);
    ucm_set_external_event(UCM_EVENT_MUNMAP);
    use(0, PAGE, CW_RIGHT_LOCAL_WRITE);
    for (unsigned i = 0; i <= UCM_CW_RANGES; i++) {
        ucm_vm_munmap((void *)(uintptr_t)(100 * PAGE), PAGE);
    }
    use(0, PAGE, CW_RIGHT_LOCAL_WRITE);
    assert_int_equal(num_made, 2);
    for (unsigned i = 0; i < UCM_CW_RANGES; i++) {
        ucm_vm_munmap((void *)(uintptr_t)(100 * PAGE), PAGE);
    }
    use(0, PAGE, CW_RIGHT_LOCAL_WRITE);
    assert_int_equal(num_made, 2);
    ucm_unset_external_event(UCM_EVENT_MUNMAP);
    end();
}

/* Random use beside a model: what is found covers what is wanted, nothing overlaps, the bound holds. */
TEST(test_random)
{
    struct cw_cached *held[8] = {NULL};
    uint64_t random, from, to;

    begin(20, 200 * PAGE, 0);
    ucm_set_external_event(UCM_EVENT_VM_UNMAPPED);
    for (int i = 0; i < 100000; i++) {
        random = next_random();
        from = (random >> 33) % (100 * PAGE);
        to = from + 1 + (random >> 20) % (5 * PAGE);
        if (random >> 60 == 0) {
            ucm_vm_munmap((void *)(uintptr_t)from, to - from);
            continue;
        }
        if (held[i % 8] != NULL) {
            cw_cache_put(held[i % 8]);
        }
        held[i % 8] = get(from, to, CW_RIGHT_LOCAL_WRITE);
        assert_in_range(num_live, 0, 20);
    }
    for (int i = 0; i < 8; i++) {
        if (held[i] != NULL) {
            cw_cache_put(held[i]);
        }
    }
    end();
}
