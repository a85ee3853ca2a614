/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * VAR-31: what the tables of protocols say is what is done, over every transport, the simulated RDMA device and the
 * simulated GPU among them. Each seed is a child with a configuration of its own: transports, settings that change the
 * selection, abilities of the devices. It makes operations one after the other, between memory of every kind, with
 * lengths around the borders that ucp_ep_print_info has printed, and compares the printed row with the path that the
* trace records, and with what the simulated device did. CW_PROTO_SEED=<seed> CW_PROTO_SEEDS=<count> replays or goes on.
 */
#include "test_proto.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ucm/api/ucm.h>

#include "core/ep.h"
#include "core/lane_access.h"
#include "core/rkey.h"
#include "device.h"
#include "proto/info.h"

enum { SEEDS = 60, OPS = 40, AM_ID = 7, MOST_BYTES = 3 << 20 };

/* Where bytes lie. MAPPED: memory of the host that the program has mapped, and whose handle it gives. */
enum place { HOST, MAPPED, GPU, PLACES };
enum data { CONTIG, LIST, GENERIC };

struct memory {
    char *bytes;
    ucp_mem_h memh; /* NULL: not mapped */
    ucp_rkey_h key; /* of memory of the peer */
};

struct operation {
    enum cw_proto_operation kind;
    enum place from, to; /* of one-sided operations `to` is the peer's */
    enum data data;
    size_t length;
    int fast;
};

struct world {
    uint64_t seed, random;
    char settings[512];
    struct cw_sim_knobs knobs;
    struct cw_sim_network *sim;
    int has_gpu, is_named; /* the device of a lane reaches memory of the GPU by a dma-buf */
    struct cw_pair pair;
    struct cw_proto_rings rings;
    struct memory here[PLACES], there[PLACES];
    ucp_datatype_t generic;
    const struct operation *now;
    volatile int arrived;
};

static struct world world;

static uint64_t draw(uint64_t limit)
{
    return cw_random_next(&world.random) % limit;
}

static void fail_op(const char *what, const char *text)
{
    const struct operation *op = world.now;

    print_error("%s: %s of %zu bytes from %d to %d, data %d, fast %d\nWith %s, %s; max_bcopy %zu, max_zcopy %zu, "
                "max_placed %zu, dmabuf %d, on demand %d, all atomics %d\n%s\nReplay: CW_PROTO_SEED=%llu "
                "CW_PROTO_SEEDS=1\n",
                what, cw_proto_name(op->kind), op->length, op->from, op->to, op->data, op->fast, world.settings,
                world.has_gpu ? "a GPU" : "no GPU", world.knobs.max_bcopy, world.knobs.max_zcopy,
                world.knobs.max_placed, world.knobs.dmabuf, world.knobs.on_demand, world.knobs.all_atomics, text,
                (unsigned long long)world.seed);
    _exit(1);
}

/* ---- configurations ---- */

#define PICK(words) ((words)[draw(sizeof(words) / sizeof((words)[0]))])

static void choose_configuration(void)
{
    static const char *const tls[] = {"self",         "shm",          "tcp",         "posix",      "shm,tcp",
                                      "self,shm,tcp", "sim",          "sim,tcp",     "simrdma",    "simrdma",
                                      "simrdma",      "self,simrdma", "simrdma,tcp", "simrdma,shm"};
    static const char *const rndv[] = {"auto", "auto", "auto", "0", "inf", "1000", "9000", "100k"};
    static const char *const fast[] = {"auto", "256k", "5000", "inf"};
    static const char *const zcopy[] = {"auto", "auto", "0", "inf", "2000", "30000"};
    static const char *const scheme[] = {"auto", "auto", "get_zcopy", "put_zcopy", "am", "rkey_ptr"};
    static const char *const rails[] = {"1", "2", "4"};
    static const char *const where[] = {"guess", "cpu", "device"};
    static const char *const segment[] = {"8k", "4k", "60k"};
    static const size_t packets[] = {1024, 4096, 8192, 16384, 60000};
    const int is_named = getenv("CW_TEST_DMABUF") != NULL;
    const char *chosen = is_named ? "simrdma,cuda" : PICK(tls);

    snprintf(world.settings, sizeof(world.settings),
             "UCX_TRACE=16384 UCX_TLS=%s UCX_RNDV_THRESH=%s UCX_RNDV_SEND_NBR_THRESH=%s UCX_ZCOPY_THRESH=%s "
             "UCX_RNDV_SCHEME=%s "
             "UCX_MAX_RNDV_RAILS=%s UCX_MAX_RMA_RAILS=%s UCX_MAX_EAGER_RAILS=%s UCX_ATOMIC_MODE=%s "
             "UCX_TCP_TX_SEG_SIZE=%s",
             chosen, PICK(rndv), PICK(fast), PICK(zcopy), PICK(scheme), PICK(rails), PICK(rails), PICK(rails),
             PICK(where), PICK(segment));
    world.is_named = is_named;
    world.has_gpu = is_named || draw(2) == 0;
    cw_sim_knobs_default(&world.knobs);
    world.knobs.max_bcopy = PICK(packets);
    world.knobs.max_short = draw(200);
    world.knobs.max_zcopy = draw(3) == 0 ? 0 : world.knobs.max_bcopy / 2 + draw(40000);
    world.knobs.max_placed = draw(3) == 0 ? 0 : 65536;
    world.knobs.window = 1 << 20;
    world.knobs.budget = 64;
    world.knobs.rdma = strstr(chosen, "simrdma") != NULL ? 1 + (unsigned)draw(2) : 0;
    world.knobs.max_access = 4096u << draw(6);
    world.knobs.all_atomics = (int)draw(2);
    world.knobs.alignment = draw(3) == 0 ? 8 : 0;
    world.knobs.on_demand = draw(4) == 0;
    world.knobs.dmabuf = (is_named || draw(2) == 0) ? CW_SIM_TAKES_DMABUF : CW_SIM_NO_DMABUF;
    world.knobs.chance[CW_SIM_NO_COPIES] = draw(2) == 0 ? CW_SIM_ALWAYS : 0;
}

static void obey_settings(const char *settings)
{
    char text[512], *name, *value, *rest;

    snprintf(text, sizeof(text), "%s", settings);
    for (name = strtok_r(text, " ", &rest); name != NULL; name = strtok_r(NULL, " ", &rest)) {
        value = strchr(name, '=');
        *value = '\0';
        setenv(name, value + 1, 1);
    }
}

static ucs_status_t on_am(void *arg, const void *header, size_t header_length, void *data, size_t length,
                          const ucp_am_recv_param_t *param)
{
    const struct memory *to = &world.there[world.now->to];
    const ucp_request_param_t none = {.op_attr_mask = (to->memh != NULL) ? UCP_OP_ATTR_FIELD_MEMH : 0,
                                      .memh = to->memh};
    ucs_status_ptr_t result;

    (void)arg, (void)header, (void)header_length;
    world.arrived++;
    if (!(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)) {
        return UCS_OK;
    }
    result = ucp_am_recv_data_nbx(world.pair.rx->worker, data, to->bytes, length, &none);
    assert_false(UCS_PTR_IS_ERR(result));
    if (UCS_PTR_IS_PTR(result)) {
        ucp_request_free(result);
    }
    return UCS_INPROGRESS;
}

static void memory_open(struct memory *memory, ucp_context_h context, enum place place, ucp_ep_h from)
{
    const int is_gpu = place == GPU;
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                                 UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
                                   .length = MOST_BYTES,
                                   .memory_type = is_gpu ? DEVICE_TYPE : UCS_MEMORY_TYPE_HOST};
    size_t length;
    void *packed;

    *memory = (struct memory){.bytes = is_gpu ? device_alloc(MOST_BYTES) : aligned_alloc(4096, MOST_BYTES)};
    assert_non_null(memory->bytes);
    if (!is_gpu) {
        memset(memory->bytes, 0, MOST_BYTES);
    }
    if (place == HOST && from == NULL) {
        return;
    }
    params.address = memory->bytes;
    assert_int_equal(ucp_mem_map(context, &params, &memory->memh), UCS_OK);
    if (from != NULL) {
        assert_int_equal(ucp_rkey_pack(context, memory->memh, &packed, &length), UCS_OK);
        assert_int_equal(ucp_ep_rkey_unpack(from, packed, &memory->key), UCS_OK);
        ucp_rkey_buffer_release(packed);
    }
}

/* Memory of this side, for all operations, and of the peer: mapped for one-sided ones, for messages as its place
 * says. */
static struct memory targets[PLACES];

static void open_world(void)
{
    const struct cw_pair_config config = {.features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_STREAM |
                                                      UCP_FEATURE_RMA | UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64};
    ucp_am_handler_param_t handler = {
            .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB, .id = AM_ID, .cb = on_am};

    obey_settings(world.settings);
    world.sim = cw_sim_network_new(world.seed, &world.knobs);
    assert_non_null(world.sim);
    if (world.has_gpu) {
        device_open();
    }
    world.generic = cw_proto_generic();
    cw_pair_open(&world.pair, &config);
    assert_int_equal(ucp_worker_set_am_recv_handler(world.pair.rx->worker, &handler), UCS_OK);
    cw_pair_ping(&world.pair, 1);
    for (int place = 0; place < PLACES - !world.has_gpu; place++) {
        memory_open(&world.here[place], world.pair.tx->context, (enum place)place, NULL);
        memory_open(&world.there[place], world.pair.rx->context, (enum place)place, NULL);
        memory_open(&targets[place], world.pair.rx->context, (enum place)place, world.pair.tx->ep);
    }
    cw_proto_rings_open(&world.rings, &world.pair);
}

/* ---- what the tables say ---- */

static char *print_tables(ucp_ep_h ep)
{
    char *text = NULL;
    size_t length;
    FILE *file = open_memstream(&text, &length);

    assert_non_null(file);
    ucp_ep_print_info(ep, file);
    assert_int_equal(fclose(file), 0);
    return text;
}

static const char *data_name(const struct operation *op, enum place at)
{
    if (op->data == CONTIG) {
        return at == GPU ? " of device memory" : "";
    }
    return (op->data == LIST && at != GPU) ? " of a list" : " of a generic datatype";
}

/* Writes the beginning of the title of the n-th table that may hold for the operation, in the order of preference; 0:
 * there is none. */
static int title_of_message(const struct operation *op, unsigned n, char *title, size_t size)
{
    const char *fast = (op->fast && n % 2 == 0) ? " with fast completion" : "";
    const int handle = op->from == MAPPED && op->data == CONTIG && !op->fast && n < 2;

    snprintf(title, size, "| %s%s%s%s over ", cw_proto_name(op->kind), fast, data_name(op, op->from),
             handle ? " (with a memory handle)" : "");
    return n < 4;
}

static int is_mapped(const struct operation *op)
{
    void *here;

    return ucp_rkey_ptr(targets[op->to].key, (uint64_t)(uintptr_t)targets[op->to].bytes, &here) == UCS_OK;
}

/* Whether the device of the lane reaches the memory, and is to, as the key says. */
static int is_by_device(const struct operation *op)
{
    const struct ucp_rkey *rkey = targets[op->to].key;

    if (op->kind == CW_PROTO_AMO_FETCH) {
        return rkey->key.executor != 0;
    }
    return rkey->parts.length > 0;
}

static int title_of_access(const struct operation *op, unsigned n, char *title, size_t size)
{
    const int copies = op->from != GPU && op->to != GPU && op->kind != CW_PROTO_AMO_FETCH;
    const char *const remotes[] = {is_mapped(op) ? " (mapped here)" : NULL,
                                   copies ? " (copied by the system)" : NULL,
                                   is_by_device(op) ? " (by the device)" : NULL,
                                   (op->to == GPU && op->kind == CW_PROTO_PUT) ? " (packets to device memory)" : NULL,
                                   " (packets)"};
    const int fast = op->fast && n % 2 == 0 && op->kind == CW_PROTO_PUT;

    if (n / 2 < 5 && remotes[n / 2] != NULL) {
        snprintf(title, size, "| %s%s%s%s over ", cw_proto_name(op->kind), fast ? " with fast completion" : "",
                 (op->kind == CW_PROTO_AMO_FETCH) ? "" : data_name(op, op->from), remotes[n / 2]);
    } else {
        snprintf(title, size, "| no such table");
    }
    return n / 2 < 5;
}

static int title_of(const struct operation *op, unsigned n, char *title, size_t size)
{
    return op->kind < CW_PROTO_PUT ? title_of_message(op, n, title, size) : title_of_access(op, n, title, size);
}

/* The row that the tables have for the operation. */
static void find_row(const char *text, const struct operation *op, char path[64])
{
    char title[128];

    for (unsigned n = 0; title_of(op, n, title, sizeof(title)); n++) {
        if (cw_proto_row(text, title, op->length, path, 64)) {
            return;
        }
    }
    fail_op("There is no row", text);
}

/* A length at a border of one of the operation's tables, or anywhere. */
static size_t choose_length(const char *text, const struct operation *op)
{
    size_t border = 0;
    char title[128];

    for (unsigned n = 0; border == 0 && draw(3) != 0 && title_of(op, n, title, sizeof(title)); n++) {
        border = cw_proto_border(text, title, (unsigned)draw(8));
    }
    border = (border == 0) ? draw(UINT64_C(1) << (1 + draw(21))) : border - 2 + draw(4);
    return border == 0 || border > MOST_BYTES ? 1 : border;
}

static struct operation choose_op(const char *text)
{
    static const enum cw_proto_operation kinds[] = {CW_PROTO_TAG, CW_PROTO_AM,  CW_PROTO_STREAM,   CW_PROTO_TAG,
                                                    CW_PROTO_PUT, CW_PROTO_GET, CW_PROTO_AMO_FETCH};
    struct operation op = {.kind = PICK(kinds),
                           .from = (enum place)draw(PLACES - !world.has_gpu),
                           .to = (enum place)draw(PLACES - !world.has_gpu)};

    if (op.kind == CW_PROTO_AMO_FETCH) {
        op.from = HOST;
        op.to = (op.to == GPU) ? MAPPED : op.to;
        op.length = (draw(2) == 0 && !is_by_device(&op)) ? 4 : 8; /* words of a device have 8 bytes */
        if (!is_by_device(&op) || cw_lane_peer_domain(world.pair.tx->ep->conn) != 0) {
            return op;
        }
        op.kind = CW_PROTO_GET; /* a lane that does not lead to the device that the key names is refused */
    }
    if (draw(3) == 0 && (op.kind < CW_PROTO_PUT || op.from != GPU)) {
        op.data = (draw(2) == 0 || op.from == GPU || op.kind >= CW_PROTO_PUT) ? LIST : GENERIC;
    }
    op.fast = op.kind != CW_PROTO_GET && op.kind != CW_PROTO_STREAM && draw(3) == 0;
    op.length = choose_length(text, &op);
    return op;
}

/* ---- operations ---- */

static const void *describe(const struct operation *op, ucp_dt_iov_t iov[2], size_t *count, ucp_request_param_t *param)
{
    const struct memory *from = &world.here[op->from];

    *count = op->length;
    param->op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE | (op->fast ? UCP_OP_ATTR_FLAG_FAST_CMPL : 0);
    param->datatype = (op->data == GENERIC) ? world.generic : ucp_dt_make_contig(1);
    if (op->data == LIST) {
        param->datatype = ucp_dt_make_iov();
        iov[0] = (ucp_dt_iov_t){.buffer = from->bytes, .length = op->length / 3};
        iov[1] = (ucp_dt_iov_t){.buffer = from->bytes + op->length / 3, .length = op->length - op->length / 3};
        *count = 2;
        return iov;
    }
    if (op->from == MAPPED && op->data == CONTIG) {
        param->op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
        param->memh = from->memh;
    }
    return from->bytes;
}

static ucs_status_ptr_t start(const struct operation *op, const void *from, size_t count,
                              const ucp_request_param_t *param)
{
    static const uint64_t one = 1;
    const struct memory *target = &targets[op->to];
    const uint64_t address = (uint64_t)(uintptr_t)target->bytes;
    ucp_ep_h ep = world.pair.tx->ep;
    ucp_request_param_t fetching = *param;

    switch (op->kind) {
    case CW_PROTO_TAG:
        return ucp_tag_send_nbx(ep, from, count, 1, param);
    case CW_PROTO_AM:
        return ucp_am_send_nbx(ep, AM_ID, NULL, 0, from, count, param);
    case CW_PROTO_STREAM:
        return ucp_stream_send_nbx(ep, from, count, param);
    case CW_PROTO_PUT:
        return ucp_put_nbx(ep, from, count, address, target->key, param);
    case CW_PROTO_GET:
        return ucp_get_nbx(ep, (void *)(uintptr_t)from, count, address, target->key, param);
    default:
        fetching.op_attr_mask |= UCP_OP_ATTR_FIELD_REPLY_BUFFER | UCP_OP_ATTR_FIELD_DATATYPE;
        fetching.datatype = ucp_dt_make_contig(op->length);
        fetching.reply_buffer = world.here[HOST].bytes;
        return ucp_atomic_op_nbx(ep, UCP_ATOMIC_OP_ADD, &one, 1, address, target->key, &fetching);
    }
}

static void make(const struct operation *op)
{
    const struct memory *to = &world.there[op->to];
    const ucp_request_param_t none = cw_param_none();
    struct cw_op send = {0}, recv = {0};
    ucp_request_param_t param = cw_param_send(&send), to_param = cw_param_recv(&recv);
    const int before = world.arrived;
    ucp_dt_iov_t iov[2];
    size_t count, length;
    const void *from;

    if (op->kind >= CW_PROTO_PUT) {
        param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    }
    from = describe(op, iov, &count, &param);
    if (op->kind == CW_PROTO_TAG) {
        to_param.op_attr_mask |= (to->memh != NULL) ? UCP_OP_ATTR_FIELD_MEMH : 0;
        to_param.memh = to->memh;
        cw_op_started(&recv, ucp_tag_recv_nbx(world.pair.rx->worker, to->bytes, MOST_BYTES, 1, CW_TAG_ALL, &to_param));
    }
    cw_op_started(&send, start(op, from, count, &param));
    if (op->kind == CW_PROTO_TAG) {
        assert_int_equal(cw_op_wait(&world.pair, &recv, "receive"), UCS_OK);
    } else if (op->kind == CW_PROTO_AM) {
        cw_pair_wait_count(&world.pair, &world.arrived, before + 1, "active message");
    } else if (op->kind == CW_PROTO_STREAM) {
        to_param = none;
        to_param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
        to_param.flags = UCP_STREAM_RECV_FLAG_WAITALL;
        assert_int_equal(cw_pair_wait(&world.pair,
                                      ucp_stream_recv_nbx(world.pair.rx->ep, to->bytes, op->length, &length, &to_param),
                                      "stream"),
                         UCS_OK);
    }
    if (cw_op_wait(&world.pair, &send, "operation") != UCS_OK) {
        fail_op("The operation failed", "");
    }
    assert_int_equal(cw_pair_wait(&world.pair, ucp_ep_flush_nbx(world.pair.tx->ep, &none), "flush"), UCS_OK);
    cw_pair_settle(&world.pair);
}

/* ---- printed = used ---- */

/* How the bytes of an announced message come, by the receiver's tables: the sender names its memory if it expects that
 * it will be read. NULL: over this lane no table says. */
static const char *announced(const char *text, const struct operation *op, char path[64])
{
    const int is_flat = op->to != GPU || world.is_named;
    const int known = op->to != HOST || world.knobs.on_demand;
    const int can = op->data == CONTIG && (op->from != GPU || world.is_named);
    char title[128];

    if (strstr(text, "announced message") == NULL) {
        return NULL;
    }
    strcpy(path, "in packets");
    if (!is_flat) {
        return path;
    }
    snprintf(title, sizeof(title), "| announced message%s (named, by the device%s) over ",
             op->from == GPU ? " of device memory" : "", op->from == GPU ? ", registered here" : "");
    if (can && !cw_proto_row(text, title, op->length, path, 64)) {
        fail_op("There is no row of announced messages", text);
    }
    snprintf(title, sizeof(title), "| announced message%s (%s, by the device%s) over ",
             op->to == GPU ? " of device memory" : "", (can && strncmp(path, "read", 4) == 0) ? "named" : "not named",
             known ? ", registered here" : "");
    if (!cw_proto_row(text, title, op->length, path, 64)) {
        fail_op("There is no row of announced messages", text);
    }
    return path;
}

static void check_announced(const char *text, const struct cw_sim_stats *before)
{
    struct cw_sim_stats after;
    const char *path;
    char space[64];

    cw_sim_get_stats(world.sim, &after);
    path = announced(text, world.now, space);
    if (path != NULL && ((after.gets > before->gets) != (strncmp(path, "read", 4) == 0) ||
                        (after.puts > before->puts) != (strncmp(path, "written", 7) == 0))) {
        print_error("printed '%s', and the devices made %llu gets and %llu puts\n", path,
                    (unsigned long long)(after.gets - before->gets), (unsigned long long)(after.puts - before->puts));
        fail_op("An announced message took another path", text);
    }
}

static void check_op(void)
{
    char before[64], after[64];
    struct cw_sim_stats stats;
    char *text = print_tables(world.pair.tx->ep), *later;
    unsigned paths, used;
    struct operation op = choose_op(text);

    world.now = &op;
    find_row(text, &op, before);
    cw_sim_get_stats(world.sim, &stats);
    cw_proto_rings_skip(&world.rings);
    make(&op);
    used = cw_proto_rings_used(&world.rings, op.kind, op.length);
    later = print_tables(world.pair.tx->ep);
    find_row(later, &op, after);
    paths = cw_proto_paths(before, op.kind) | cw_proto_paths(after, op.kind);
    if (!(used & paths)) {
        print_error("printed '%s', later '%s' (%#x), used %#x\n", before, after, paths, used);
        fail_op("Another path was taken", text);
    }
    if (used == 1u << CW_TRACE_ANNOUNCED && op.kind < CW_PROTO_PUT) {
        check_announced(text, &stats);
    }
    free(text);
    free(later);
}

/* EP-36: the estimate is the cost of the printed rows: the greatest that any length up to this one has. */
static void check_estimate(void)
{
    const struct cw_proto_table table = {.operation = CW_PROTO_TAG, .data = CW_DATA_CONTIG};
    const ucp_ep_h ep = world.pair.tx->ep;
    const struct cw_limits *limits = &ep->conn->iface->limits;
    struct cw_protocol_row rows[CW_PROTOCOL_MAX_ROWS];
    const unsigned count = cw_proto_rows(ep->worker, ep->conn->iface, ep->conn, &table, rows);

    for (int n = 0; n < 20; n++) {
        const size_t length = draw(UINT64_C(1) << (1 + draw(30)));
        const double lines = length < 512 ? (double)length / 64 : 8;
        const ucp_ep_evaluate_perf_param_t param = {.field_mask = UCP_EP_PERF_PARAM_FIELD_MESSAGE_SIZE,
                                                  .message_size = length};
        ucp_ep_evaluate_perf_attr_t attr = {.field_mask = UCP_EP_PERF_ATTR_FIELD_ESTIMATED_TIME};
        double most = 0;

        for (unsigned i = 0; i < count && rows[i].first <= length; i++) {
            const double last = (double)(rows[i].last < length ? rows[i].last : length);
            const double cost = rows[i].cost.fixed_ns + rows[i].cost.byte_ns * last;

            most = cost > most ? cost : most;
        }
        most = (most + limits->distance_ns + lines * limits->line_ns) * 1e-9;
        assert_int_equal(ucp_ep_evaluate_perf(ep, &param, &attr), UCS_OK);
        if (attr.estimated_time < most * 0.999999 || attr.estimated_time > most * 1.000001) {
            print_error("%zu bytes: estimated %g, by the rows %g; seed %llu\n", length, attr.estimated_time, most,
                        (unsigned long long)world.seed);
            _exit(1);
        }
    }
}

/* One configuration, in a child, because a process has one simulated network. It leaves without closing: what is torn
 * down is the subject of other tests. */
static void run_seed(uint64_t seed, int report[2])
{
    unsigned paths;

    world.seed = seed;
    world.random = seed * 7919;
    choose_configuration();
    open_world();
    for (int n = 0; n < OPS; n++) {
        check_op();
    }
    check_estimate();
    paths = world.rings.paths;
    assert_int_equal(write(report[1], &paths, sizeof(paths)), sizeof(paths));
    _exit(0);
}

static long number_of(const char *name, long otherwise)
{
    return getenv(name) != NULL ? atol(getenv(name)) : otherwise;
}

TEST(test_var31_printed_is_used)
{
    const long first = number_of("CW_PROTO_SEED", 1), count = number_of("CW_PROTO_SEEDS", SEEDS);
    unsigned paths, seen = 0, status;
    int report[2];

    for (long seed = first; seed < first + count; seed++) {
        pid_t pid;

        assert_int_equal(pipe(report), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            run_seed((uint64_t)seed, report);
        }
        close(report[1]);
        assert_int_equal(waitpid(pid, (int *)&status, 0), pid);
        if (status != 0 || read(report[0], &paths, sizeof(paths)) != sizeof(paths)) {
            fail_msg("Seed %ld failed with status %#x", seed, status);
        }
        seen |= paths;
        close(report[0]);
    }
    if (count >= SEEDS) { /* the configurations are such that each of these paths was taken */
        const unsigned must = CW_PROTO_NO_REQUEST | 1u << CW_TRACE_COPIED | 1u << CW_TRACE_WITHOUT_COPY |
                              1u << CW_TRACE_PIECES | 1u << CW_TRACE_ANNOUNCED | 1u << CW_TRACE_DEVICE;

        assert_int_equal(seen & must, must);
    }
}
