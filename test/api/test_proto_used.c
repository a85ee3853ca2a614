/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The trace records the paths of operations (docs/reference/observing.md). Each round is a child with settings of its
 * own, which makes a list of operations, one after the other, and then reads its worker's file of events.
 * test/mem/test_proto.c compares the tables of protocols with the trace.
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

enum { MOST_OPS = 64, AM_ID = 7, MOST_BYTES = 3 << 20 };

enum kind { TAG, AM, STREAM, PUT, GET, FADD, KINDS };

static const unsigned counters[KINDS] = {CW_COUNT_TAG_SENT, CW_COUNT_AM_SENT,      CW_COUNT_STREAM_SENT,
                                         CW_COUNT_PUT_SENT, CW_COUNT_GET_RECEIVED, CW_COUNT_AMO_SENT};

/* An operation, and what its events recorded. Lengths are unlike, so that they name operations. */
struct used {
    enum kind kind;
    enum cw_memory memory; /* of the other side: one-sided operations */
    size_t length;
    int path; /* enum cw_trace_path; -1: it had no request, or its request recorded no path */
};

struct round {
    struct cw_pair pair;
    struct cw_region regions[CW_MEMORY_KINDS];
    ucp_rkey_h keys[CW_MEMORY_KINDS];
    char *out, *in;
    volatile int arrived;
};

static ucs_status_t on_am(void *arg, const void *header, size_t header_length, void *data, size_t length,
                          const ucp_am_recv_param_t *param)
{
    struct round *round = arg;
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
    ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                    UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                      .id = AM_ID,
                                      .cb = on_am,
                                      .arg = round};

    round->out = calloc(1, MOST_BYTES);
    round->in = calloc(1, MOST_BYTES);
    assert_true(round->out != NULL && round->in != NULL);
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
    free(round->out);
    free(round->in);
}

#define ONE(path) (1u << (path))

/* ---- operations ---- */

static void make(struct round *round, const struct used *op)
{
    const struct cw_region *region = &round->regions[op->memory];
    ucp_ep_h ep = round->pair.tx->ep;
    struct cw_op send = {0}, recv = {0};
    ucp_request_param_t param = cw_param_send(&send), none = cw_param_none();
    int before = round->arrived;
    size_t length;
    uint64_t one = 1;

    param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    switch (op->kind) {
    case TAG:
        cw_op_recv(&recv, round->pair.rx->worker, round->in, op->length, 1, CW_TAG_ALL);
        cw_op_started(&send, ucp_tag_send_nbx(ep, round->out, op->length, 1, &param));
        assert_int_equal(cw_op_wait(&round->pair, &recv, "receive"), UCS_OK);
        break;
    case AM:
        cw_op_started(&send, ucp_am_send_nbx(ep, AM_ID, NULL, 0, round->out, op->length, &param));
        cw_pair_wait_count(&round->pair, &round->arrived, before + 1, "active message");
        break;
    case STREAM:
        none.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
        none.flags = UCP_STREAM_RECV_FLAG_WAITALL;
        cw_op_started(&send, ucp_stream_send_nbx(ep, round->out, op->length, &param));
        assert_int_equal(cw_pair_wait(&round->pair,
                                      ucp_stream_recv_nbx(round->pair.rx->ep, round->in, op->length, &length, &none),
                                      "stream"),
                         UCS_OK);
        break;
    case PUT:
        cw_op_started(&send, ucp_put_nbx(ep, round->out, op->length, (uint64_t)(uintptr_t)region->base,
                                         round->keys[op->memory], &param));
        break;
    case GET:
        cw_op_started(&send, ucp_get_nbx(ep, round->in, op->length, (uint64_t)(uintptr_t)region->base,
                                         round->keys[op->memory], &param));
        break;
    default:
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
        param.datatype = ucp_dt_make_contig(op->length);
        param.reply_buffer = round->in;
        cw_op_started(&send, ucp_atomic_op_nbx(ep, UCP_ATOMIC_OP_ADD, &one, 1, (uint64_t)(uintptr_t)region->base,
                                               round->keys[op->memory], &param));
    }
    assert_int_equal(cw_op_wait(&round->pair, &send, "operation"), UCS_OK);
    cw_pair_settle(&round->pair);
}

/* The events of one worker: of each operation the last path of its request. */
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
            if (event->request == requests[n] && requests[n] != 0 && event->kind == CW_TRACE_PATH) {
                ops[n].path = event->id;
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
            value = strchr(name, '=');
            *value = '\0';
            setenv(name, value + 1, 1);
        }
        snprintf(path, sizeof(path), "%s/events", folder);
        setenv("UCX_TRACE_FILE", path, 1);
        setenv("UCX_TRACE", "65536", 1);
        open_round(&round);
        for (unsigned i = 0; i < count; i++) {
            make(&round, &ops[i]);
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
    unsigned paths; /* a bit for each that is right */
};

static void expect(const char *settings, const struct expected *rows, unsigned count)
{
    struct used ops[MOST_OPS];

    for (unsigned i = 0; i < count; i++) {
        ops[i] = rows[i].op;
        ops[i].path = -1;
    }
    run(settings, ops, count);
    for (unsigned i = 0; i < count; i++) {
        if (ops[i].path < 0 || !(rows[i].paths & ONE(ops[i].path))) {
            fail_msg("With %s operation %u of kind %d, %zu bytes: path %d is none of %#x", settings, i, ops[i].kind,
                     ops[i].length, ops[i].path, rows[i].paths);
        }
    }
}

#define EXPECT(settings, rows) expect(settings, rows, sizeof(rows) / sizeof((rows)[0]))

API_TEST(test_trace_records_paths_of_packets)
{
    static const struct expected tcp[] = {
        {{.kind = TAG, .length = 100}, ONE(CW_TRACE_COPIED)},
        {{.kind = AM, .length = 600000}, ONE(CW_TRACE_ANNOUNCED)},
        {{.kind = STREAM, .length = 101}, ONE(CW_TRACE_COPIED)},
        {{.kind = STREAM, .length = 600001}, ONE(CW_TRACE_PIECES) | ONE(CW_TRACE_WITHOUT_COPY)},
        {{.kind = PUT, .memory = CW_MEMORY_HEAP, .length = 102}, ONE(CW_TRACE_COPIED)},
        {{.kind = PUT, .memory = CW_MEMORY_HEAP, .length = 600002}, ONE(CW_TRACE_PIECES)},
        {{.kind = GET, .memory = CW_MEMORY_HEAP, .length = 103}, ONE(CW_TRACE_ASKED)},
        {{.kind = GET, .memory = CW_MEMORY_ALLOCATED, .length = 600003}, ONE(CW_TRACE_ASKED)},
        {{.kind = FADD, .memory = CW_MEMORY_HEAP, .length = 8}, ONE(CW_TRACE_COPIED)},
    };

    EXPECT("UCX_TLS=tcp", tcp);
}

API_TEST(test_trace_records_paths_to_memory)
{
    static const struct expected mapped[] = {
        {{.kind = PUT, .memory = CW_MEMORY_ALLOCATED, .length = 102}, ONE(CW_TRACE_MAPPED)},
        {{.kind = GET, .memory = CW_MEMORY_ALLOCATED, .length = 600003}, ONE(CW_TRACE_MAPPED)},
        {{.kind = FADD, .memory = CW_MEMORY_ALLOCATED, .length = 8}, ONE(CW_TRACE_MAPPED)},
    };
    /* copies between processes may be forbidden here */
    static const struct expected copied[] = {
        {{.kind = PUT, .memory = CW_MEMORY_HEAP, .length = 102}, ONE(CW_TRACE_SYSTEM) | ONE(CW_TRACE_COPIED)},
        {{.kind = PUT, .memory = CW_MEMORY_HEAP, .length = 2000002}, ONE(CW_TRACE_SYSTEM) | ONE(CW_TRACE_PIECES)},
        {{.kind = GET, .memory = CW_MEMORY_HEAP, .length = 103}, ONE(CW_TRACE_SYSTEM) | ONE(CW_TRACE_ASKED)},
        {{.kind = GET, .memory = CW_MEMORY_HEAP, .length = 600003}, ONE(CW_TRACE_SYSTEM) | ONE(CW_TRACE_ASKED)},
    };

    EXPECT("UCX_TLS=self,shm", mapped);
    EXPECT("UCX_TLS=shm", copied);
}
