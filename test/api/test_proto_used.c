/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the trace says about the ways of operations (docs/reference/observing.md), and that the tables of protocols say
 * the same. Each round is a child with settings of its own, which makes a list of operations, one after the other, and
 * then reads its worker's file of events.
 */
#define _GNU_SOURCE
#include "test_rma_common.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/counters.h"
#include "core/trace.h"

enum { MOST_OPS = 64, ROUNDS = 12, NONE = -1, AM_ID = 7, MOST_BYTES = 3 << 20 };

enum data { CONTIG, LIST, GENERIC, DATA_KINDS };
enum kind { TAG, AM, STREAM, PUT, GET, FADD, KINDS };

static const unsigned counters[KINDS] = {CW_COUNT_TAG_SENT, CW_COUNT_AM_SENT,      CW_COUNT_STREAM_SENT,
                                         CW_COUNT_PUT_SENT, CW_COUNT_GET_RECEIVED, CW_COUNT_AMO_SENT};

/* An operation, and what its events told. Lengths are unlike, so that they name operations. */
struct used {
    enum kind kind;
    enum cw_memory memory; /* of the other side: one-sided operations */
    size_t length;
    enum data data;  /* messages and streams */
    bool fast;       /* FAST_CMPL */
    bool told;       /* the tables are asked, and a message may do without a request */
    unsigned before; /* by the tables before and after it, a bit for each way that is right; bit 31: no request */
    unsigned after;
    int way; /* enum cw_trace_way; -1: it had no request, or its request told no way */
};

struct round {
    ucp_datatype_t generic;
    struct cw_pair pair;
    struct cw_region regions[CW_MEMORY_KINDS];
    ucp_rkey_h keys[CW_MEMORY_KINDS];
    char *out, *in;
    volatile int arrived;
};

struct packed {
    char *bytes;
    size_t length;
};

static void *start_pack(void *context, const void *buffer, size_t count)
{
    struct packed *packed = malloc(sizeof(*packed));

    (void)context;
    assert_non_null(packed);
    *packed = (struct packed){.bytes = (char *)(uintptr_t)buffer, .length = count};
    return packed;
}

static void *start_unpack(void *context, void *buffer, size_t count)
{
    return start_pack(context, buffer, count);
}

static size_t packed_size(void *state)
{
    return ((struct packed *)state)->length;
}

static size_t pack(void *state, size_t offset, void *to, size_t max)
{
    struct packed *packed = state;
    size_t length         = packed->length - offset < max ? packed->length - offset : max;

    memcpy(to, packed->bytes + offset, length);
    return length;
}

static ucs_status_t unpack(void *state, size_t offset, const void *from, size_t length)
{
    memcpy(((struct packed *)state)->bytes + offset, from, length);
    return UCS_OK;
}

static ucp_datatype_t generic_new(void)
{
    static const ucp_generic_dt_ops_t ops = {start_pack, start_unpack, packed_size, pack, unpack, free};
    ucp_datatype_t datatype;

    assert_int_equal(ucp_dt_create_generic(&ops, NULL, &datatype), UCS_OK);
    return datatype;
}

static ucs_status_t on_am(void *arg, const void *header, size_t header_length, void *data, size_t length,
                          const ucp_am_recv_param_t *param)
{
    struct round *round            = arg;
    const ucp_request_param_t none = {0};
    ucs_status_ptr_t result;

    (void)header;
    (void)header_length;
    round->arrived++;
    if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) {
        result = ucp_am_recv_data_nbx(round->pair.rx->worker, data, round->in, length, &none);
        assert_false(UCS_PTR_IS_ERR(result));
        if (UCS_PTR_IS_PTR(result)) {
            ucp_request_free(result);
        }
        return UCS_INPROGRESS;
    }
    return UCS_OK;
}

static void open_round(struct round *round)
{
    const struct cw_pair_config config = {.features = CW_RMA_FEATURES | UCP_FEATURE_STREAM};
    ucp_am_handler_param_t handler     = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                        UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                          .id  = AM_ID,
                                          .cb  = on_am,
                                          .arg = round};

    round->out = calloc(1, MOST_BYTES);
    round->in  = calloc(1, MOST_BYTES);
    assert_true(round->out != NULL && round->in != NULL);
    round->generic = generic_new();
    cw_pair_open(&round->pair, &config);
    assert_int_equal(ucp_worker_set_am_recv_handler(round->pair.rx->worker, &handler), UCS_OK);
    for (int i = 0; i < CW_MEMORY_KINDS; i++) {
        cw_region_open(&round->regions[i], round->pair.rx->context, (enum cw_memory)i, MOST_BYTES);
        round->keys[i] = cw_region_key(&round->regions[i], round->pair.tx->ep);
    }
}

static void close_round(struct round *round)
{
    for (int i = 0; i < CW_MEMORY_KINDS; i++) {
        ucp_rkey_destroy(round->keys[i]);
        cw_region_close(&round->regions[i]);
    }
    cw_pair_close(&round->pair);
    ucp_dt_destroy(round->generic);
    free(round->out);
    free(round->in);
}

/* ---- the tables ---- */

#define ONE(way)   (1u << (way))
#define NO_REQUEST (1u << 31)

static unsigned ways_of(const char *name, enum kind kind)
{
    static const struct {
        const char *name;
        unsigned ways;
    } names[] = {{"short", NO_REQUEST},
                 {"eager copy", ONE(CW_TRACE_COPIED)},
                 {"eager zero copy", ONE(CW_TRACE_WITHOUT_COPY)},
                 {"eager pieces", ONE(CW_TRACE_PIECES)},
                 {"rendezvous", ONE(CW_TRACE_ANNOUNCED)},
                 {"store", ONE(CW_TRACE_MAPPED)},
                 {"load", ONE(CW_TRACE_MAPPED)},
                 {"this processor", ONE(CW_TRACE_MAPPED)},
                 {"packet to the owner", ONE(CW_TRACE_COPIED)},
                 {"request to the owner", ONE(CW_TRACE_ASKED)},
                 {"request, copied if it is late", ONE(CW_TRACE_ASKED_FIRST)},
                 {"requests of 64 KiB, copied if they are late", ONE(CW_TRACE_PARTS)},
                 {"counted packets", ONE(CW_TRACE_COUNTED)},
                 {"copy between processes, in shares", ONE(CW_TRACE_SHARES)},
                 {"copy between processes", ONE(CW_TRACE_SYSTEM)}};

    if (kind >= PUT && strncmp(name, "short", 5) == 0) {
        return ONE(CW_TRACE_COPIED); /* these operations ask for a request */
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strncmp(name, names[i].name, strlen(names[i].name)) == 0) {
            /* a stream is cut without a copy, too */
            return names[i].ways | (kind == STREAM && i == 2 ? ONE(CW_TRACE_PIECES) : 0);
        }
    }
    fail_msg("There is no way '%s'", name);
    return 0;
}

/* The ways that a table of that title names for the length; 0: there is no such table. */
static unsigned told_by(const char *text, const char *title, const struct used *op)
{
    unsigned long long first, last;
    const char *row = strstr(text, title);
    unsigned ways   = 0;
    int used;

    for (row = row == NULL ? NULL : strchr(row, '\n') + 1; row != NULL && ways == 0; row = strchr(row, '\n') + 1) {
        used = 0;
        if (sscanf(row, "# | %llu..%n", &first, &used) != 1) {
            assert_int_equal(strncmp(row, "# +", 3), 0); /* the rule */
            continue;
        }
        last = UINT64_MAX;
        (void)sscanf(row + used, "%llu", &last);
        if (op->length >= first && op->length <= last) {
            row  = strchr(row + used, '|') + 2;
            ways = ways_of(row, op->kind);
        }
    }
    return ways;
}

/* What ucp_ep_print_info says about such an operation. `mapped`: loads and stores reach the memory. Both tables
 * count for an owner that may be found to be away. */
static unsigned told(ucp_ep_h ep, const struct used *op, bool mapped)
{
    static const char *const names[]   = {"tag send", "active message", "stream send", "put", "get", "atomic fetch"};
    static const char *const data[]    = {"", " of a list", " of a generic datatype"};
    static const char *const remotes[] = {" (copied by the system)", " (copied by the system, owner away)",
                                          " (packets)"};
    char title[96], *text = NULL;
    unsigned ways = 0;
    size_t length;
    FILE *file = open_memstream(&text, &length);

    assert_non_null(file);
    ucp_ep_print_info(ep, file);
    assert_int_equal(fclose(file), 0);
    if (op->kind < PUT || mapped) {
        snprintf(title, sizeof(title), "| %s%s%s%s over ", names[op->kind],
                 op->kind == TAG && op->fast ? " with fast completion" : "", data[op->data],
                 op->kind < PUT ? "" : " (mapped here)");
        ways = told_by(text, title, op);
    }
    for (unsigned i = 0; i < 3 && op->kind >= PUT && !mapped && (i < 2 || ways == 0); i++) {
        snprintf(title, sizeof(title), "| %s%s%s over ", names[op->kind], data[op->data], remotes[i]);
        ways |= told_by(text, title, op);
    }
    if (ways == 0) {
        fail_msg("There is no row of '%s' for %zu bytes in %s", title, op->length, text);
    }
    free(text);
    return ways;
}

/* ---- operations ---- */

/* The bytes to send as that datatype; *count_p is theirs. */
static const void *describe(struct round *round, const struct used *op, ucp_dt_iov_t iov[2], size_t *count_p,
                            ucp_request_param_t *param)
{
    param->op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    *count_p = op->length;
    switch (op->data) {
    case LIST:
        param->datatype = ucp_dt_make_iov();
        iov[0]          = (ucp_dt_iov_t){.buffer = round->out, .length = op->length / 3};
        iov[1]          = (ucp_dt_iov_t){.buffer = round->out + op->length / 3, .length = op->length - op->length / 3};
        *count_p        = 2;
        return iov;
    case GENERIC:
        param->datatype = round->generic;
        break;
    default:
        param->datatype = ucp_dt_make_contig(1);
    }
    return round->out;
}

static void make(struct round *round, const struct used *op)
{
    const struct cw_region *region = &round->regions[op->memory];
    ucp_ep_h ep                    = round->pair.tx->ep;
    struct cw_op send = {0}, recv = {0};
    ucp_request_param_t param = cw_param_send(&send), none = cw_param_none();
    const void *from = round->out;
    int before       = round->arrived;
    size_t count     = op->length, length;
    uint64_t one     = 1;
    ucp_dt_iov_t iov[2];

    param.op_attr_mask |=
        (op->told && op->kind < PUT ? 0 : UCP_OP_ATTR_FLAG_NO_IMM_CMPL) | (op->fast ? UCP_OP_ATTR_FLAG_FAST_CMPL : 0);
    if (op->kind <= GET) {
        from = describe(round, op, iov, &count, &param);
    }
    switch (op->kind) {
    case TAG:
        cw_op_recv(&recv, round->pair.rx->worker, round->in, op->length, 1, CW_TAG_ALL);
        cw_op_started(&send, ucp_tag_send_nbx(ep, from, count, 1, &param));
        assert_int_equal(cw_op_wait(&round->pair, &recv, "receive"), UCS_OK);
        break;
    case AM:
        cw_op_started(&send, ucp_am_send_nbx(ep, AM_ID, NULL, 0, from, count, &param));
        cw_pair_wait_count(&round->pair, &round->arrived, before + 1, "active message");
        break;
    case STREAM:
        none.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
        none.flags = UCP_STREAM_RECV_FLAG_WAITALL;
        cw_op_started(&send, ucp_stream_send_nbx(ep, from, count, &param));
        assert_int_equal(cw_pair_wait(&round->pair,
                                      ucp_stream_recv_nbx(round->pair.rx->ep, round->in, op->length, &length, &none),
                                      "stream"),
                         UCS_OK);
        break;
    case PUT:
        cw_op_started(&send,
                      ucp_put_nbx(ep, from, count, (uint64_t)(uintptr_t)region->base, round->keys[op->memory], &param));
        break;
    case GET:
        cw_op_started(&send, ucp_get_nbx(ep, (void *)(uintptr_t)from, count, (uint64_t)(uintptr_t)region->base,
                                         round->keys[op->memory], &param));
        break;
    default:
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
        param.datatype     = ucp_dt_make_contig(op->length);
        param.reply_buffer = round->in;
        cw_op_started(&send, ucp_atomic_op_nbx(ep, UCP_ATOMIC_OP_ADD, &one, 1, (uint64_t)(uintptr_t)region->base,
                                               round->keys[op->memory], &param));
    }
    assert_int_equal(cw_op_wait(&round->pair, &send, "operation"), UCS_OK);
    cw_pair_settle(&round->pair);
}

/* The events of one worker: of each operation the last way of its request. */
static void read_ring(const struct cw_trace_ring *ring, struct used *ops, unsigned count)
{
    uint64_t requests[MOST_OPS] = {0};

    assert_true(ring->next <= ring->num_events); /* nothing is forgotten */
    for (uint64_t i = 0; i < ring->next; i++) {
        const struct cw_trace_event *event = &ring->events[i];

        for (unsigned n = 0; n < count; n++) {
            if (event->kind == CW_TRACE_BEGIN && event->id == counters[ops[n].kind] && event->length == ops[n].length &&
                requests[n] == 0) {
                requests[n] = event->request;
                break;
            }
            if (event->request == requests[n] && requests[n] != 0 && event->kind == CW_TRACE_WAY) {
                ops[n].way = event->id;
            }
            if (event->request == requests[n] && event->kind == CW_TRACE_END) {
                requests[n] = UINT64_MAX;
            }
        }
    }
}

/* The rings lie behind the counters, which end with their page. */
static void read_files(const char *pattern, struct used *ops, unsigned count)
{
    const struct cw_counters_page *page;
    glob_t files;
    char *bytes;

    assert_int_equal(glob(pattern, 0, NULL, &files), 0);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        FILE *file = fopen(files.gl_pathv[i], "r");

        assert_non_null(file);
        bytes = malloc(8 << 20);
        assert_non_null(bytes);
        assert_true(fread(bytes, 1, 8 << 20, file) > sizeof(*page));
        page = (const void *)bytes;
        read_ring((const void *)(bytes + page->trace_offset), ops, count);
        free(bytes);
        fclose(file);
        unlink(files.gl_pathv[i]);
    }
    globfree(&files);
}

/* Makes the operations with those settings ("NAME=value ...") in a child and returns what the trace says. */
static void run(const char *settings, struct used *ops, unsigned count)
{
    char folder[] = "/tmp/cw_proto_used_XXXXXX", path[64], text[512], *name, *value, *rest;
    int ends[2], status;
    pid_t pid;

    assert_non_null(mkdtemp(folder));
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct round round = {.arrived = 0};

        snprintf(text, sizeof(text), "%s", settings);
        for (name = strtok_r(text, " ", &rest); name != NULL; name = strtok_r(NULL, " ", &rest)) {
            value  = strchr(name, '=');
            *value = '\0';
            setenv(name, value + 1, 1);
        }
        snprintf(path, sizeof(path), "%s/events", folder);
        setenv("UCX_TRACE_FILE", path, 1);
        setenv("UCX_TRACE", "65536", 1);
        open_round(&round);
        for (unsigned i = 0; i < count; i++) {
            const enum cw_memory memory = ops[i].memory;
            void *here;
            const bool mapped =
                ucp_rkey_ptr(round.keys[memory], (uint64_t)(uintptr_t)round.regions[memory].base, &here) == UCS_OK;

            ops[i].before = ops[i].told ? told(round.pair.tx->ep, &ops[i], mapped) : 0;
            make(&round, &ops[i]);
            ops[i].after = ops[i].told ? told(round.pair.tx->ep, &ops[i], mapped) : 0;
        }
        close_round(&round);
        snprintf(path, sizeof(path), "%s/events*", folder);
        read_files(path, ops, count);
        cw_fd_write(ends[1], ops, count * sizeof(*ops));
        _exit(0);
    }
    close(ends[1]);
    cw_fd_read(ends[0], ops, count * sizeof(*ops), NULL);
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    rmdir(folder);
}

struct expected {
    struct used op;
    unsigned ways; /* a bit for each that is right */
};

static void expect(const char *settings, const struct expected *rows, unsigned count)
{
    struct used ops[MOST_OPS];

    for (unsigned i = 0; i < count; i++) {
        ops[i]     = rows[i].op;
        ops[i].way = -1;
    }
    run(settings, ops, count);
    for (unsigned i = 0; i < count; i++) {
        if (ops[i].way < 0 || !(rows[i].ways & ONE(ops[i].way))) {
            fail_msg("With %s operation %u of kind %d, %zu bytes: way %d is none of %#x", settings, i, ops[i].kind,
                     ops[i].length, ops[i].way, rows[i].ways);
        }
    }
}

#define EXPECT(settings, rows) expect(settings, rows, sizeof(rows) / sizeof((rows)[0]))

static void test_trace_tells_ways_of_packets(void **state)
{
    static const struct expected tcp[] = {
        {{.kind = TAG, .length = 100}, ONE(CW_TRACE_COPIED)},
        {{.kind = AM, .length = 600000}, ONE(CW_TRACE_ANNOUNCED)},
        {{.kind = STREAM, .length = 101}, ONE(CW_TRACE_COPIED)},
        {{.kind = STREAM, .length = 600001}, ONE(CW_TRACE_PIECES) | ONE(CW_TRACE_WITHOUT_COPY)},
        {{.kind = PUT, .memory = CW_MEMORY_HEAP, .length = 102}, ONE(CW_TRACE_COPIED)},
        {{.kind = PUT, .memory = CW_MEMORY_HEAP, .length = 600002}, ONE(CW_TRACE_ANNOUNCED)},
        {{.kind = GET, .memory = CW_MEMORY_HEAP, .length = 103}, ONE(CW_TRACE_ASKED)},
        {{.kind = GET, .memory = CW_MEMORY_ALLOCATED, .length = 600003}, ONE(CW_TRACE_ASKED)},
        {{.kind = FADD, .memory = CW_MEMORY_HEAP, .length = 8}, ONE(CW_TRACE_COPIED)},
    };

    (void)state;
    EXPECT("UCX_TLS=tcp", tcp);
}

static void test_trace_tells_ways_to_memory(void **state)
{
    static const struct expected mapped[] = {
        {{.kind = PUT, .memory = CW_MEMORY_ALLOCATED, .length = 102}, ONE(CW_TRACE_MAPPED)},
        {{.kind = GET, .memory = CW_MEMORY_ALLOCATED, .length = 600003}, ONE(CW_TRACE_MAPPED)},
        {{.kind = FADD, .memory = CW_MEMORY_ALLOCATED, .length = 8}, ONE(CW_TRACE_MAPPED)},
    };
    /* copies between processes may be forbidden here */
    static const struct expected copied[] = {
        {{.kind = PUT, .memory = CW_MEMORY_HEAP, .length = 102}, ONE(CW_TRACE_COUNTED) | ONE(CW_TRACE_COPIED)},
        {{.kind = PUT, .memory = CW_MEMORY_HEAP, .length = 2000002},
         ONE(CW_TRACE_SHARES) | ONE(CW_TRACE_COUNTED) | ONE(CW_TRACE_PIECES)},
        {{.kind = GET, .memory = CW_MEMORY_HEAP, .length = 103}, ONE(CW_TRACE_ASKED_FIRST) | ONE(CW_TRACE_ASKED)},
        {{.kind = GET, .memory = CW_MEMORY_HEAP, .length = 600003}, ONE(CW_TRACE_PARTS) | ONE(CW_TRACE_ASKED)},
    };

    (void)state;
    EXPECT("UCX_TLS=self,shm", mapped);
    EXPECT("UCX_TLS=shm", copied);
}

/* ---- printed = used ---- */

static const char *pick(uint64_t *seed, const char *const *words, size_t count)
{
    return words[cw_random_next(seed) % count];
}

#define PICK(seed, words) pick(seed, words, sizeof(words) / sizeof((words)[0]))

static void choose_settings(uint64_t *seed, char *text, size_t size)
{
    static const char *const tls[]     = {"self", "shm", "tcp", "posix"};
    static const char *const rndv[]    = {"auto", "auto", "0", "inf", "1000", "9000", "100k"};
    static const char *const fast[]    = {"auto", "256k", "5000"};
    static const char *const zcopy[]   = {"auto", "auto", "0", "inf", "2000", "30000"};
    static const char *const scheme[]  = {"auto", "get_zcopy", "put_zcopy", "am"};
    static const char *const segment[] = {"8k", "4k", "60k"};

    snprintf(text, size,
             "UCX_TLS=%s UCX_RNDV_THRESH=%s UCX_RNDV_SEND_NBR_THRESH=%s UCX_ZCOPY_THRESH=%s UCX_RNDV_SCHEME=%s "
             "UCX_TCP_TX_SEG_SIZE=%s",
             PICK(seed, tls), PICK(seed, rndv), PICK(seed, fast), PICK(seed, zcopy), PICK(seed, scheme),
             PICK(seed, segment));
}

static void choose_op(uint64_t *seed, struct used *ops, unsigned n)
{
    struct used *op = &ops[n];
    unsigned i      = 0;

    if (n == MOST_OPS - 1) { /* lengths name them, so there is one with this one */
        *op = (struct used){.kind = FADD, .memory = CW_MEMORY_HEAP, .length = 8, .told = true};
        return;
    }
    *op        = (struct used){.kind   = (enum kind)(cw_random_next(seed) % (GET + 1)),
                               .memory = (enum cw_memory)(cw_random_next(seed) % CW_MEMORY_KINDS),
                               .told   = true};
    op->data   = (enum data)(cw_random_next(seed) % (op->kind >= PUT ? GENERIC : DATA_KINDS));
    op->fast   = op->kind == TAG && cw_random_next(seed) % 3 == 0;
    op->length = 9 + cw_random_next(seed) % (UINT64_C(1) << (1 + cw_random_next(seed) % 20));
    while (i < n) { /* lengths name them */
        if (ops[i].length == op->length) {
            op->length++;
            i = 0;
        } else {
            i++;
        }
    }
}

/* VAR-31: the tables say what is done, whatever the settings, the operation, the datatype and the length. */
static void test_var31_printed_is_used(void **state)
{
    unsigned seen = 0;

    (void)state;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        struct used ops[MOST_OPS];
        uint64_t seed = round * 7919;
        char settings[512];

        choose_settings(&seed, settings, sizeof(settings));
        for (unsigned n = 0; n < MOST_OPS; n++) {
            choose_op(&seed, ops, n);
            ops[n].way = NONE;
        }
        run(settings, ops, MOST_OPS);
        for (unsigned n = 1; n < MOST_OPS; n++) { /* the first one connects: it waits in a queue */
            const unsigned used = ops[n].way == NONE ? NO_REQUEST : ONE(ops[n].way);

            if (!(used & (ops[n].before | ops[n].after))) {
                fail_msg("%s: operation %u of kind %d, data %d, fast %d, %zu bytes: printed %#x, later %#x, used %#x",
                         settings, n, ops[n].kind, ops[n].data, ops[n].fast, ops[n].length, ops[n].before, ops[n].after,
                         used);
            }
            seen |= used;
        }
    }
    /* the settings are such that each way was taken */
    assert_int_equal(seen & (NO_REQUEST | (ONE(CW_TRACE_SYSTEM) - 1)),
                     NO_REQUEST | ONE(CW_TRACE_COPIED) | ONE(CW_TRACE_WITHOUT_COPY) | ONE(CW_TRACE_PIECES) |
                         ONE(CW_TRACE_ANNOUNCED) | ONE(CW_TRACE_MAPPED));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_trace_tells_ways_of_packets, cw_test_setup, cw_test_teardown),
        cmocka_unit_test_setup_teardown(test_trace_tells_ways_to_memory, cw_test_setup, cw_test_teardown),
        cmocka_unit_test_setup_teardown(test_var31_printed_is_used, cw_test_setup, cw_test_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
