/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-sided operations over a simulated network, for many seeds, against a model: every origin has a section of every
 * worker's memory, and what it does there has a defined outcome, because accesses overlap only where an order is
 * promised: behind a fence, and writes behind gets (R16). A flush that completes, and an active message behind a fence,
 * check the memory. Words for all are counted with atomics. Some keys reach the memory directly, so that accesses
 * that need no packets meet those that do. CW_SIM_SEED is the first seed, CW_SIM_SEEDS how many follow.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/list.h"
#include "core/rkey.h"
#include "series.h"
#include "cluster.h"

enum { MAX_IOV = 3, MAX_COUNTS = 4000, WORDS = 4, GUARD_BYTES = 64, GUARD = 0x5a, MARKER = 3 };
enum word { FETCH64, FETCH32, SUM64, SUM32 };
enum kind { PUT, GET, POSTED, FETCHING };

/* The section of `from` in the memory of `to`. */
struct area {
    unsigned from, to;
    ucp_rkey_h keys[2];         /* by copies and packets; directly; unpacked before any lane is cut (N22-80) */
    ucp_rkey_h shared_keys[2];
    uint8_t *memory;            /* the real one ... */
    uint8_t *model;             /* ... and what it is to be when all is done */
    uint32_t *written;          /* by byte: serial of the last access that changes it, ... */
    uint32_t *epoch;            /* ... and in which epoch of the origin that was */
    uint32_t serial;
    size_t last_offset, last_length;
    struct cw_list silent;      /* accesses whose end only a flush reports, in order */
};

struct access {
    struct cw_list link;        /* area->silent */
    struct area *area;
    enum kind kind;
    uint32_t serial;
    size_t length;
    uint8_t *buffer;            /* of puts: the source; of gets and fetching atomics: what comes, and a guard */
    uint8_t *expected;
    uint64_t *counted;          /* fetches of shared words: where the value goes */
    ucp_dt_iov_t iov[MAX_IOV];
    int calls, returned;
};

struct flush {
    unsigned from;
    int to;                     /* -1: the whole worker */
    uint32_t serials[CW_MAX_WORKERS];
    int calls;
};

struct node {
    uint8_t *memory;            /* sections and a guard */
    uint64_t *shared;
    ucp_mem_h memh, shared_memh;
    uint64_t validity[2]; /* of direct keys */
    uint32_t epoch;
    uint64_t counts[2][MAX_COUNTS]; /* what fetches of its words gave */
    unsigned num_counts[2];
    uint64_t sums[2];
};

static struct cw_cluster *cluster;
static struct area areas[CW_MAX_WORKERS][CW_MAX_WORKERS];
static struct node nodes[CW_MAX_WORKERS];
static struct cw_op *closes[CW_MAX_WORKERS * CW_MAX_WORKERS];
static unsigned num_closes;
static size_t section;
static int faulty;

static unsigned below(uint64_t limit)
{
    return (unsigned)cw_cluster_random(cluster, limit);
}

/* ---- what is to be seen ---- */

/* All that was written up to `serial` and not since. */
static void check_visible(const struct area *area, uint32_t serial, const char *who)
{
    for (size_t i = 0; i < section && !faulty; i++) {
        if (area->written[i] <= serial && area->memory[i] != area->model[i]) {
            cw_cluster_fail(cluster, "%s from %u to %u: byte %zu is %02x instead of %02x, written by access %u of %u",
                            who, area->from, area->to, i, area->memory[i], area->model[i], area->written[i], serial);
        }
    }
}

static void access_free(struct access *access)
{
    free(access->buffer);
    free(access->expected);
    free(access);
}

/* It is over and the program knows. */
static void ended(struct access *access, ucs_status_t status)
{
    const struct area *area = access->area;

    if (status != UCS_OK && !faulty) {
        cw_cluster_fail(cluster, "an access from %u to %u ends with %s", area->from, area->to,
                        ucs_status_string(status));
    }
    if (access->expected != NULL && status == UCS_OK && !faulty &&
        memcmp(access->buffer, access->expected, access->length + 1) != 0) {
        cw_cluster_fail(cluster, "access %u from %u to %u (kind %d, %zu bytes) brings wrong bytes", access->serial,
                        area->from, area->to, access->kind, access->length);
    }
    if (access->counted != NULL && status == UCS_OK) {
        memcpy(access->counted, access->buffer, access->length);
    }
    memset(access->buffer, 0xee, access->length); /* ours again */
}

static void on_access(void *request, ucs_status_t status, void *user_data)
{
    struct access *access = user_data;

    ucp_request_free(request);
    if (++access->calls > 1) {
        cw_cluster_fail(cluster, "an access completes twice");
    }
    cluster->num_done++;
    ended(access, status);
    if (access->returned) {
        access_free(access);
    }
}

/* Those up to `serial` that nobody reports. */
static void silent_ended(struct area *area, uint32_t serial)
{
    struct cw_list *link, *next;
    struct access *access;

    for (link = area->silent.next; link != &area->silent && !faulty; link = next) {
        next = link->next;
        access = cw_container_of(link, struct access, link);
        if (access->serial <= serial) {
            cw_list_remove(link);
            ended(access, UCS_OK);
            access_free(access);
        }
    }
}

static void flushed(struct flush *flush, ucs_status_t status)
{
    if (flush->calls++ > 0 || (status != UCS_OK && !faulty)) {
        cw_cluster_fail(cluster, "a flush of worker %u ends with %s", flush->from, ucs_status_string(status));
    }
    for (unsigned to = 0; to < cluster->num_workers; to++) {
        if (flush->to < 0 || flush->to == (int)to) {
            check_visible(&areas[flush->from][to], flush->serials[to], "a flush");
            silent_ended(&areas[flush->from][to], flush->serials[to]);
        }
    }
    cluster->num_done++;
    free(flush);
}

static void on_flush(void *request, ucs_status_t status, void *user_data)
{
    ucp_request_free(request);
    flushed(user_data, status);
}

/* ---- accesses ---- */

static void fence(unsigned from)
{
    if (ucp_worker_fence(cluster->nodes[from].worker) != UCS_OK) {
        cw_cluster_fail(cluster, "a fence fails");
    }
    nodes[from].epoch++;
    cluster->nodes[from].asleep = 0;
}

static size_t random_length(void)
{
    switch (below(8)) {
    case 0:
        return below(section);
    case 1:
        return below(3000);
    case 2:
    case 3:
        return below(300);
    default:
        return below(20);
    }
}

static int is_ordered(const struct area *area, size_t offset, size_t length)
{
    for (size_t i = offset; i < offset + length; i++) {
        if (area->epoch[i] >= nodes[area->from].epoch) {
            return 0;
        }
    }
    return 1;
}

/* A place for an access that nothing of the same epoch has written to; often where the last one was. */
static size_t pick(struct area *area, size_t length, size_t align)
{
    size_t offset = 0;

    for (unsigned tries = 0; tries < 4; tries++) {
        offset = below(section - length + 1);
        if (below(2) == 0 && area->last_length > 0) {
            offset = area->last_offset + below(area->last_length);
            offset = (offset > section - length) ? section - length : offset;
        }
        offset = offset / align * align;
        if (is_ordered(area, offset, length)) {
            break;
        }
    }
    if (!is_ordered(area, offset, length)) {
        fence(area->from);
    }
    area->last_offset = offset;
    area->last_length = length;
    return offset;
}

static struct access *access_new(struct area *area, enum kind kind, size_t length)
{
    struct access *access = calloc(1, sizeof(*access));

    access->area = area;
    access->kind = kind;
    access->length = length;
    access->serial = ++area->serial;
    access->buffer = malloc(length + 1);
    memset(access->buffer, 0xcc, length + 1);
    cluster->nodes[area->from].asleep = 0;
    return access;
}

static void expect(struct access *access, size_t offset)
{
    access->expected = malloc(access->length + 1);
    memcpy(access->expected, access->area->model + offset, access->length);
    access->expected[access->length] = 0xcc;
}

static void note_write(struct area *area, size_t offset, const void *bytes, size_t length)
{
    memcpy(area->model + offset, bytes, length);
    for (size_t i = offset; i < offset + length; i++) {
        area->written[i] = area->serial;
        area->epoch[i] = nodes[area->from].epoch;
    }
}

/* Attributes by chance. *silent_p: the request is given back before its end. */
static ucp_request_param_t attributes(struct access *access, int *silent_p)
{
    static const uint32_t flags[] = {0, 0, 0, 0, UCP_OP_ATTR_FLAG_NO_IMM_CMPL, UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                     UCP_OP_ATTR_FLAG_FAST_CMPL, UCP_OP_ATTR_FLAG_MULTI_SEND};
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | flags[below(8)],
                                 .datatype = ucp_dt_make_contig(1)};

    *silent_p = !faulty && below(4) == 0;
    if (!*silent_p) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
        param.cb.send = on_access;
        param.user_data = access;
    }
    return param;
}

static void started(struct access *access, ucs_status_ptr_t result, int silent)
{
    if (UCS_PTR_IS_PTR(result) && silent) {
        ucp_request_free(result);
        cw_list_add_tail(&access->area->silent, &access->link);
        return;
    }
    cluster->num_ops++;
    if (!UCS_PTR_IS_PTR(result)) {
        if (access->calls > 0) {
            cw_cluster_fail(cluster, "the callback was called although the call returned a result");
        }
        access->calls = 1;
        cluster->num_done++;
        ended(access, UCS_PTR_STATUS(result));
    }
    access->returned = 1;
    if (access->calls > 0) {
        access_free(access);
    }
}

static void *describe(struct access *access, ucp_request_param_t *param, size_t *count)
{
    size_t first = below(access->length + 1), second = below(access->length - first + 1);

    *count = access->length;
    if (below(3) != 0) {
        return access->buffer;
    }
    access->iov[0] = (ucp_dt_iov_t){access->buffer, first};
    access->iov[1] = (ucp_dt_iov_t){access->buffer + first, second};
    access->iov[2] = (ucp_dt_iov_t){access->buffer + first + second, access->length - first - second};
    param->datatype = ucp_dt_make_iov();
    *count = MAX_IOV;
    return access->iov;
}

static void move(struct area *area, enum kind kind)
{
    size_t length = random_length(), offset = pick(area, length, 1), count;
    struct access *access = access_new(area, kind, length);
    ucp_ep_h ep = cluster->nodes[area->from].eps[area->to];
    ucp_rkey_h key = area->keys[below(3) == 0];
    uint64_t address = (uint64_t)(uintptr_t)(area->memory + offset);
    int silent;
    ucp_request_param_t param = attributes(access, &silent);
    void *buffer = describe(access, &param, &count);

    if (kind == PUT) {
        for (size_t i = 0; i < length; i++) {
            access->buffer[i] = (uint8_t)(cw_hash_mix((uint64_t)access->serial << 20 | i >> 3) >> (i % 8 * 8));
        }
        note_write(area, offset, access->buffer, length);
        started(access, ucp_put_nbx(ep, buffer, count, address, key, &param), silent);
    } else {
        expect(access, offset);
        started(access, ucp_get_nbx(ep, buffer, count, address, key, &param), silent);
    }
}

static uint64_t result_of(unsigned op, uint64_t before, uint64_t operand, uint64_t swap)
{
    const uint64_t after[] = {before + operand, operand,          (before == operand) ? swap : before,
                              before & operand, before | operand, before ^ operand};

    return after[op];
}

/* On a word of the section. */
static void change(struct area *area, enum kind kind)
{
    static const ucp_atomic_op_t posted[] = {UCP_ATOMIC_OP_ADD, UCP_ATOMIC_OP_AND, UCP_ATOMIC_OP_OR, UCP_ATOMIC_OP_XOR};
    size_t length = 4 + 4 * below(2), offset = pick(area, length, length);
    struct access *access = access_new(area, kind, length);
    ucp_atomic_op_t op = (kind == POSTED) ? posted[below(4)] : (ucp_atomic_op_t)below(UCP_ATOMIC_OP_LAST);
    uint64_t before = 0, operand = cw_hash_mix(access->serial), swap = cw_hash_mix(operand), after;
    int silent;
    ucp_request_param_t param = attributes(access, &silent);

    memcpy(&before, area->model + offset, length);
    if (op == UCP_ATOMIC_OP_CSWAP && below(2) == 0) {
        operand = before;
    }
    operand = (length == 4) ? (uint32_t)operand : operand;
    param.datatype = ucp_dt_make_contig(length);
    if (kind == FETCHING) {
        memcpy(access->buffer, &swap, length);
        expect(access, offset);
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_REPLY_BUFFER;
        param.reply_buffer = access->buffer;
    }
    after = result_of(op, before, operand, swap);
    note_write(area, offset, &after, length);
    started(access, ucp_atomic_op_nbx(cluster->nodes[area->from].eps[area->to], op, &operand, 1,
                                      (uint64_t)(uintptr_t)(area->memory + offset), area->keys[below(3) == 0], &param),
            silent);
    operand = 0; /* it was captured (AMO-10) */
}

/* On a word that all use: fetched counts come once each, sums are exact. */
static void count(struct area *area)
{
    struct node *owner = &nodes[area->to];
    enum word word = (enum word)below(WORDS);
    int narrow = word == FETCH32 || word == SUM32, fetches = word == FETCH64 || word == FETCH32, silent;
    struct access *access;
    ucp_request_param_t param;
    uint64_t operand = 1;

    if (fetches && owner->num_counts[narrow] == MAX_COUNTS) {
        return;
    }
    access = access_new(area, fetches ? FETCHING : POSTED, narrow ? 4 : 8);
    param = attributes(access, &silent);
    param.datatype = ucp_dt_make_contig(access->length);
    if (fetches) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_REPLY_BUFFER;
        param.reply_buffer = access->buffer;
        access->counted = &owner->counts[narrow][owner->num_counts[narrow]++];
        *access->counted = 0;
    } else {
        operand = cw_hash_mix(access->serial);
        owner->sums[narrow] += operand;
    }
    started(access, ucp_atomic_op_nbx(cluster->nodes[area->from].eps[area->to], UCP_ATOMIC_OP_ADD, &operand, 1,
                                      (uint64_t)(uintptr_t)&owner->shared[word], area->shared_keys[below(3) == 0],
                                      &param), silent);
}

/* Put, fence, active message: who gets the message sees the put (R16). */
static ucs_status_t on_marker(void *arg, const void *header, size_t header_length, void *data, size_t length,
                              const ucp_am_recv_param_t *param)
{
    uint32_t marker[2];

    (void)data, (void)length, (void)param;
    if (header_length != sizeof(marker)) {
        cw_cluster_fail(cluster, "a message has a header of %zu bytes", header_length);
    }
    memcpy(marker, header, sizeof(marker));
    check_visible(&areas[marker[0]][(uintptr_t)arg], marker[1], "a message behind a fence");
    cluster->num_done++;
    return UCS_OK;
}

static void send_marker(struct area *area)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_AM_SEND_FLAG_COPY_HEADER};
    const uint32_t marker[2] = {area->from, area->serial};
    ucs_status_ptr_t result;

    if (faulty) {
        return;
    }
    fence(area->from);
    cluster->num_ops++;
    result = ucp_am_send_nbx(cluster->nodes[area->from].eps[area->to], MARKER, marker, sizeof(marker), NULL, 0, &param);
    if (UCS_PTR_IS_PTR(result)) {
        ucp_request_free(result);
    } else if (result != NULL) {
        cw_cluster_fail(cluster, "a message fails");
    }
}

static void start_flush(unsigned from, int to)
{
    struct flush *flush = calloc(1, sizeof(*flush));
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                 .cb.send = on_flush,
                                 .user_data = flush};
    ucs_status_ptr_t result;

    flush->from = from;
    flush->to = to;
    for (unsigned i = 0; i < cluster->num_workers; i++) {
        flush->serials[i] = areas[from][i].serial;
    }
    cluster->nodes[from].asleep = 0;
    cluster->num_ops++;
    result = (to < 0) ? ucp_worker_flush_nbx(cluster->nodes[from].worker, &param) :
                        ucp_ep_flush_nbx(cluster->nodes[from].eps[to], &param);
    if (!UCS_PTR_IS_PTR(result)) {
        flushed(flush, UCS_PTR_STATUS(result));
    }
}

static void talk(unsigned num_accesses)
{
    while (num_accesses > 0) {
        unsigned from = below(cluster->num_workers), to = below(cluster->num_workers), chance = below(32);
        struct area *area = &areas[from][to];

        num_accesses -= chance < 11;
        if (chance < 4) {
            move(area, PUT);
        } else if (chance < 7) {
            move(area, GET);
        } else if (chance < 9) {
            change(area, (chance == 7) ? POSTED : FETCHING);
        } else if (chance < 11) {
            count(area);
        } else if (chance > 11) {
            cw_cluster_step(cluster);
        } else if (below(3) == 0) {
            send_marker(area);
        } else if (below(3) == 0) {
            fence(from);
        } else {
            start_flush(from, (below(3) == 0) ? -1 : (int)to);
        }
    }
}

/* ---- a run ---- */

static ucp_mem_h map(unsigned worker, void *memory, size_t length)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .address = memory,
                                   .length = length};
    ucp_mem_h memh;

    assert_int_equal(ucp_mem_map(cluster->nodes[worker].context, &params, &memh), UCS_OK);
    return memh;
}

/* Two keys: as the library makes it, and one that reaches the memory by loads and stores. */
static void unpack(struct area *area, ucp_mem_h memh, uint64_t *validity, ucp_rkey_h keys[2])
{
    void *bytes;
    size_t length;

    assert_int_equal(ucp_rkey_pack(cluster->nodes[area->to].context, memh, &bytes, &length), UCS_OK);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(ucp_ep_rkey_unpack(cluster->nodes[area->from].eps[area->to], bytes, &keys[i]), UCS_OK);
        assert_null(keys[i]->local); /* UCX_TLS=sim does not allow it */
    }
    ucp_rkey_buffer_release(bytes);
    *validity = keys[1]->key.token;
    keys[1]->local = (char *)(uintptr_t)keys[1]->key.address;
    keys[1]->validity = validity;
}

static void make_area(unsigned from, unsigned to)
{
    struct area *area = &areas[from][to];

    *area = (struct area){.from = from, .to = to, .memory = nodes[to].memory + from * section};
    area->model = calloc(1, section);
    area->written = calloc(section, sizeof(*area->written));
    area->epoch = calloc(section, sizeof(*area->epoch));
    cw_list_init(&area->silent);
    unpack(area, nodes[to].memh, &nodes[to].validity[0], area->keys);
    unpack(area, nodes[to].shared_memh, &nodes[to].validity[1], area->shared_keys);
}

static void start(uint64_t seed, ucp_err_handling_mode_t mode, int sleepers, size_t section_size)
{
    struct cw_sim_knobs knobs;

    cw_sim_knobs_random(&knobs, seed);
    if (seed % 3 != 0) {
        knobs.chance[CW_SIM_NO_COPIES] = CW_SIM_ALWAYS; /* packets only */
    }
    cluster = cw_cluster_new(seed, &knobs, mode, sleepers);
    section = section_size;
    faulty = mode == UCP_ERR_HANDLING_MODE_PEER;
    num_closes = 0;
    for (unsigned i = 0; i < cluster->num_workers; i++) {
        struct node *node = &nodes[i];
        size_t length = section * cluster->num_workers;
        ucp_am_handler_param_t param = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                         UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                        .id = MARKER,
                                        .cb = on_marker,
                                        .arg = (void *)(uintptr_t)i};

        memset(node, 0, sizeof(*node));
        node->epoch = 1;
        node->memory = aligned_alloc(64, (length + GUARD_BYTES + 63) / 64 * 64);
        node->shared = calloc(WORDS, sizeof(uint64_t));
        memset(node->memory, 0, length);
        memset(node->memory + length, GUARD, GUARD_BYTES);
        node->memh = map(i, node->memory, length);
        node->shared_memh = map(i, node->shared, WORDS * sizeof(uint64_t));
        assert_int_equal(ucp_worker_set_am_recv_handler(cluster->nodes[i].worker, &param), UCS_OK);
    }
    for (unsigned i = 0; i < cluster->num_workers * cluster->num_workers; i++) {
        make_area(i / cluster->num_workers, i % cluster->num_workers);
    }
}

static int compare(const void *first, const void *second)
{
    uint64_t a = *(const uint64_t *)first, b = *(const uint64_t *)second;

    return (a > b) - (a < b);
}

static void check_counts(unsigned worker)
{
    struct node *node = &nodes[worker];

    for (int narrow = 0; narrow < 2 && !faulty; narrow++) {
        qsort(node->counts[narrow], node->num_counts[narrow], sizeof(uint64_t), compare);
        for (unsigned i = 0; i < node->num_counts[narrow]; i++) {
            if (node->counts[narrow][i] != i) {
                cw_cluster_fail(cluster, "fetches of a counter of worker %u give %llu instead of %u", worker,
                                (unsigned long long)node->counts[narrow][i], i);
            }
        }
    }
    if (!faulty && (node->shared[FETCH64] != node->num_counts[0] || node->shared[SUM64] != node->sums[0] ||
                    node->shared[FETCH32] != node->num_counts[1] ||
                    node->shared[SUM32] != (uint32_t)node->sums[1])) {
        cw_cluster_fail(cluster, "a sum of worker %u is wrong", worker);
    }
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        if (node->memory[section * cluster->num_workers + i] != GUARD) {
            cw_cluster_fail(cluster, "something was written behind the memory of worker %u", worker);
        }
    }
}

static void free_way(struct area *area)
{
    struct cw_list *link;

    while ((link = cw_list_pop_head(&area->silent)) != NULL) {
        access_free(cw_container_of(link, struct access, link));
    }
    free(area->model);
    free(area->written);
    free(area->epoch);
}

static void destroy_keys(struct area *area)
{
    for (unsigned i = 0; i < 2; i++) {
        ucp_rkey_destroy(area->keys[i]);
        ucp_rkey_destroy(area->shared_keys[i]);
    }
}

static uint64_t end(void)
{
    unsigned num_workers = cluster->num_workers;
    uint64_t digest;

    cw_cluster_finish(cluster);
    for (unsigned i = 0; i < num_closes; i++) {
        cw_op_check(cluster, closes[i]);
    }
    for (unsigned i = 0; i < num_workers * num_workers; i++) {
        check_visible(&areas[i / num_workers][i % num_workers], UINT32_MAX, "the end");
        destroy_keys(&areas[i / num_workers][i % num_workers]);
    }
    for (unsigned i = 0; i < num_workers; i++) {
        check_counts(i);
        assert_int_equal(ucp_mem_unmap(cluster->nodes[i].context, nodes[i].shared_memh), UCS_OK);
        if (nodes[i].memh != NULL) {
            assert_int_equal(ucp_mem_unmap(cluster->nodes[i].context, nodes[i].memh), UCS_OK);
        }
    }
    cluster->num_ops = cluster->num_done = 0;
    digest = cw_cluster_free(cluster);
    for (unsigned i = 0; i < num_workers * num_workers; i++) {
        free_way(&areas[i / num_workers][i % num_workers]);
    }
    for (unsigned i = 0; i < num_workers; i++) {
        free(nodes[i].memory);
        free(nodes[i].shared);
    }
    return digest;
}

static uint64_t run_healthy(uint64_t seed, int sleepers)
{
    start(seed, UCP_ERR_HANDLING_MODE_NONE, sleepers, (seed % 10 == 0) ? 500000 : 20000);
    talk(250);
    for (unsigned i = 0; i < cluster->num_workers; i++) {
        start_flush(i, -1);
    }
    return end();
}

SERIES_TEST(test_healthy_network, 100, cw_cluster_check_devices)
{
    run_healthy(seed, 0);
}

SERIES_TEST(test_sleepers, 100, cw_cluster_check_devices)
{
    run_healthy(seed, 1);
}

SERIES_TEST(test_runs_replay, 5, cw_cluster_check_devices)
{
    assert_int_equal(run_healthy(seed, 0), run_healthy(seed, 0));
}

static void close_all(unsigned from, uint32_t flags)
{
    for (unsigned to = 0; to < cluster->num_workers; to++) {
        closes[num_closes++] = cw_cluster_close_ep(cluster, from, to, flags);
    }
}

/* The origin closes behind its last access: all of them are carried out (CLS-4). */
SERIES_TEST(test_close_loses_nothing, 30, cw_cluster_check_devices)
{
    start(seed, UCP_ERR_HANDLING_MODE_NONE, 0, 20000);
    talk(60);
    for (unsigned from = 0; from < cluster->num_workers; from++) {
        close_all(from, 0);
    }
    cw_cluster_finish(cluster);
    for (unsigned i = 0; i < cluster->num_workers * cluster->num_workers; i++) {
        silent_ended(&areas[i / cluster->num_workers][i % cluster->num_workers], UINT32_MAX);
    }
    for (unsigned i = 0; i < cw_cluster_rest(); i++) {
        cw_cluster_step(cluster);
    }
    end();
}

/* Connections break: every access ends once. */
SERIES_TEST(test_broken_connections, 100, cw_cluster_check_devices)
{
    const enum cw_sim_fault fault = cw_cluster_breaking(seed);

    start(seed, UCP_ERR_HANDLING_MODE_PEER, 0, 20000);
    talk(80);
    cw_sim_set_fault(cluster->network, fault, 3000);
    talk(100);
    cw_sim_set_fault(cluster->network, fault, 0);
    if (seed % 3 == 0) {
        cw_sim_reset_all(cluster->network, below(cluster->num_workers));
    }
    for (unsigned i = 0; i < 2000; i++) {
        cw_cluster_step(cluster);
    }
    for (unsigned from = 0; from < cluster->num_workers; from++) {
        close_all(from, (seed % 4 < 2) ? UCP_EP_CLOSE_FLAG_FORCE : 0);
    }
    end();
}

/* A worker takes its memory back while others use it: nobody changes it any more, nobody waits for ever (MEM-16). */
SERIES_TEST(test_unmap_under_access, 100, cw_cluster_check_devices)
{
    unsigned owner;
    size_t length;

    start(seed, UCP_ERR_HANDLING_MODE_PEER, 0, 50000);
    owner = below(cluster->num_workers);
    length = section * cluster->num_workers;
    talk(40 + below(60));
    assert_int_equal(ucp_mem_unmap(cluster->nodes[owner].context, nodes[owner].memh), UCS_OK);
    nodes[owner].memh = NULL;
    nodes[owner].validity[0] = 0;
    memset(nodes[owner].memory, 0x77, length);
    talk(60);
    for (unsigned from = 0; from < cluster->num_workers; from++) {
        start_flush(from, -1);
    }
    cw_cluster_finish(cluster);
    for (size_t i = 0; i < length; i++) {
        if (nodes[owner].memory[i] != 0x77) {
            cw_cluster_fail(cluster, "byte %zu of memory that was unmapped is changed", i);
        }
    }
    end();
}
