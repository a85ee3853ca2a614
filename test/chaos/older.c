/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One of two processes that talk, each on the library that LD_LIBRARY_PATH names: older.py starts both and carries
 * their addresses. Only calls of the public interface, so that this one program runs on either release.
 *
 *   chaos_older first|second            every kind of message in both directions; prints "TALKED"
 *   chaos_older first|second refused    the peer must be refused: prints "REFUSED STATUS", or "NOTHING CAME"
 */
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

#include "../abi/finish.h" /* older.py ends a program whose peer never answers */

#define LONGEST     (1u << 20)
#define ADDRESS_MAX 4096u
#define KEY_MAX     1024u
#define AM_ID       7u
#define AM_HEADER   "head"

enum { TAG_BEGIN = 1, TAG_DATA, TAG_MEMORY, TAG_DONE };

/* What the asker needs for put, get and atomic operations on memory of the server. */
struct memory {
    uint64_t address;
    uint64_t key_length;
    uint8_t key[KEY_MAX];
};

/* Lengths that travel inside a packet, in several, and by a rendezvous. */
static const size_t lengths[] = {8, 8000, LONGEST};
#define NUM_LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

static const char *step = "start";
static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h ep;
static uint8_t sent[LONGEST];
static uint8_t received[LONGEST];

static struct {
    int count;
    size_t length;
    void *later; /* a rendezvous that has to be fetched */
    ucp_ep_h reply_ep;
} am;

static void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

static void fail(const char *format, ...)
{
    va_list arguments;

    printf("FAILED: %s: ", step);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    exit(1);
}

static void must(ucs_status_t status, const char *call)
{
    if (status != UCS_OK) {
        fail("%s: %s", call, ucs_status_string(status));
    }
}

static void fill(size_t length, unsigned seed)
{
    for (size_t i = 0; i < length; i++) {
        sent[i] = (uint8_t)(i * 7 + seed + i / 251);
    }
    memset(received, 0, length);
}

static void expect_same(size_t length, size_t came)
{
    if (came != length || memcmp(sent, received, length) != 0) {
        fail("%zu of %zu bytes came, or other ones", came, length);
    }
}

static void send_tagged(ucp_tag_t tag, const void *data, size_t length)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};

    must(finish(worker, ucp_tag_send_nbx(ep, data, length, tag, &param)), "ucp_tag_send_nbx");
}

static size_t receive_tagged(ucp_tag_t tag, void *data, size_t length)
{
    ucp_tag_recv_info_t info = {.length = 0};
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_RECV_INFO | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                           .recv_info.tag_info = &info};
    void *request = ucp_tag_recv_nbx(worker, data, length, tag, UINT64_MAX, &param);
    ucs_status_t status;

    if (!UCS_PTR_IS_PTR(request)) {
        fail("ucp_tag_recv_nbx: %s", ucs_status_string(UCS_PTR_STATUS(request)));
    }
    while ((status = ucp_tag_recv_request_test(request, &info)) == UCS_INPROGRESS) {
        ucp_worker_progress(worker);
    }
    ucp_request_free(request);
    must(status, "ucp_tag_recv_nbx");
    return info.length;
}

static void ask_tag(void)
{
    for (size_t i = 0; i < NUM_LENGTHS; i++) {
        fill(lengths[i], 1);
        send_tagged(TAG_DATA, sent, lengths[i]);
        expect_same(lengths[i], receive_tagged(TAG_DATA, received, lengths[i]));
    }
}

static void serve_tag(void)
{
    for (size_t i = 0; i < NUM_LENGTHS; i++) {
        send_tagged(TAG_DATA, received, receive_tagged(TAG_DATA, received, sizeof(received)));
    }
}

static ucs_status_t on_am(void *arg, const void *header, size_t header_length, void *data, size_t length,
                          const ucp_am_recv_param_t *param)
{
    (void)arg;
    if (header_length != sizeof(AM_HEADER) || memcmp(header, AM_HEADER, sizeof(AM_HEADER)) != 0) {
        fail("an active message came without its header");
    }
    am.count++;
    am.length = length;
    am.reply_ep = (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) ? param->reply_ep : NULL;
    if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) {
        am.later = data;
        return UCS_INPROGRESS;
    }
    memcpy(received, data, length);
    return UCS_OK;
}

static void listen_to_am(void)
{
    const ucp_am_handler_param_t param = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB, .id = AM_ID, .cb = on_am};

    must(ucp_worker_set_am_recv_handler(worker, &param), "ucp_worker_set_am_recv_handler");
}

static void send_am(ucp_ep_h to, const void *data, size_t length, unsigned flags)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = flags};

    must(finish(worker, ucp_am_send_nbx(to, AM_ID, AM_HEADER, sizeof(AM_HEADER), data, length, &param)),
         "ucp_am_send_nbx");
}

static size_t receive_am(void)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};

    while (am.count == 0) {
        ucp_worker_progress(worker);
    }
    am.count--;
    if (am.later != NULL) {
        must(finish(worker, ucp_am_recv_data_nbx(worker, am.later, received, am.length, &param)),
             "ucp_am_recv_data_nbx");
        am.later = NULL;
    }
    return am.length;
}

static void ask_am(void)
{
    for (size_t i = 0; i < NUM_LENGTHS; i++) {
        fill(lengths[i], 2);
        send_am(ep, sent, lengths[i], UCP_AM_SEND_FLAG_REPLY);
        expect_same(lengths[i], receive_am());
    }
}

static void serve_am(void)
{
    for (size_t i = 0; i < NUM_LENGTHS; i++) {
        size_t length = receive_am();

        if (am.reply_ep == NULL) {
            fail("an active message came without an endpoint for the reply");
        }
        send_am(am.reply_ep, received, length, 0);
    }
}

static void send_stream(const void *data, size_t length)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};

    must(finish(worker, ucp_stream_send_nbx(ep, data, length, &param)), "ucp_stream_send_nbx");
}

static size_t receive_stream(size_t length)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_STREAM_RECV_FLAG_WAITALL};
    size_t came = 0;

    must(finish(worker, ucp_stream_recv_nbx(ep, received, length, &came, &param)), "ucp_stream_recv_nbx");
    return came > 0 ? came : length;
}

static void ask_stream(void)
{
    for (size_t i = 0; i < NUM_LENGTHS; i++) {
        fill(lengths[i], 3);
        send_stream(sent, lengths[i]);
        expect_same(lengths[i], receive_stream(lengths[i]));
    }
}

static void serve_stream(void)
{
    for (size_t i = 0; i < NUM_LENGTHS; i++) {
        send_stream(received, receive_stream(lengths[i]));
    }
}

static void flush(void)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};

    must(finish(worker, ucp_ep_flush_nbx(ep, &param)), "ucp_ep_flush_nbx");
}

/* The server's memory is LONGEST bytes and a counter behind them. */
static void ask_memory(void)
{
    const ucp_request_param_t plain = {.op_attr_mask = 0};
    uint64_t add = 5;
    uint64_t before = 0;
    const ucp_request_param_t fetch = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER,
                                       .datatype = ucp_dt_make_contig(sizeof(add)),
                                       .reply_buffer = &before};
    struct memory memory;
    ucp_rkey_h key;

    receive_tagged(TAG_MEMORY, &memory, sizeof(memory));
    must(ucp_ep_rkey_unpack(ep, memory.key, &key), "ucp_ep_rkey_unpack");
    for (size_t i = 0; i < NUM_LENGTHS; i++) {
        fill(lengths[i], 4);
        must(finish(worker, ucp_put_nbx(ep, sent, lengths[i], memory.address, key, &plain)), "ucp_put_nbx");
        flush();
        must(finish(worker, ucp_get_nbx(ep, received, lengths[i], memory.address, key, &plain)), "ucp_get_nbx");
        expect_same(lengths[i], lengths[i]);
    }
    must(finish(worker, ucp_atomic_op_nbx(ep, UCP_ATOMIC_OP_ADD, &add, 1, memory.address + LONGEST, key, &fetch)),
         "ucp_atomic_op_nbx");
    if (before != 100) {
        fail("an atomic operation brought back %" PRIu64 ", not 100", before);
    }
    ucp_rkey_destroy(key);
    send_tagged(TAG_DONE, sent, 8);
}

static void serve_memory(void)
{
    const ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
                                         .length = LONGEST + sizeof(uint64_t),
                                         .flags = UCP_MEM_MAP_ALLOCATE};
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
    struct memory memory = {.address = 0};
    uint64_t counter = 100;
    ucp_mem_h handle;
    void *key;
    size_t key_length;

    must(ucp_mem_map(context, &params, &handle), "ucp_mem_map");
    must(ucp_mem_query(handle, &attr), "ucp_mem_query");
    must(ucp_rkey_pack(context, handle, &key, &key_length), "ucp_rkey_pack");
    if (key_length > sizeof(memory.key)) {
        fail("a packed key has %zu bytes", key_length);
    }
    memory.address = (uintptr_t)attr.address;
    memory.key_length = key_length;
    memcpy(memory.key, key, key_length);
    ucp_rkey_buffer_release(key);
    memcpy((uint8_t *)attr.address + LONGEST, &counter, sizeof(counter));
    send_tagged(TAG_MEMORY, &memory, sizeof(memory));
    receive_tagged(TAG_DONE, received, sizeof(received));
    fill(LONGEST, 4);
    memcpy(received, attr.address, LONGEST);
    expect_same(LONGEST, LONGEST);
    memcpy(&counter, (uint8_t *)attr.address + LONGEST, sizeof(counter));
    if (counter != 105) {
        fail("an atomic operation made %" PRIu64 " of 100, not 105", counter);
    }
    must(ucp_mem_unmap(context, handle), "ucp_mem_unmap");
}

static const struct {
    const char *name;
    void (*ask)(void);
    void (*serve)(void);
} steps[] = {
    {"tags", ask_tag, serve_tag},
    {"active messages", ask_am, serve_am},
    {"streams", ask_stream, serve_stream},
    {"put, get and atomic operations", ask_memory, serve_memory},
};

static void talk(int asks)
{
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        step = steps[i].name;
        (asks ? steps[i].ask : steps[i].serve)();
    }
}

static void start(void)
{
    const uint64_t features =
        UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_STREAM | UCP_FEATURE_RMA | UCP_FEATURE_AMO64;
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = features};
    const ucp_worker_params_t worker_params = {.field_mask = 0};

    /* which release 1.0 knows: of a later level it warns, in the output that is read here */
    must(ucp_init_version(1, 22, &params, NULL, &context), "ucp_init_version");
    must(ucp_worker_create(context, &worker_params, &worker), "ucp_worker_create");
    listen_to_am();
}

static void print_address(void)
{
    ucp_address_t *address;
    size_t length;

    must(ucp_worker_get_address(worker, &address, &length), "ucp_worker_get_address");
    for (size_t i = 0; i < length; i++) {
        printf("%02x", ((const uint8_t *)address)[i]);
    }
    printf("\n");
    fflush(stdout);
    ucp_worker_release_address(worker, address);
}

static void on_error(void *arg, ucp_ep_h which, ucs_status_t status)
{
    (void)arg;
    (void)which;
    (void)status; /* the operations report it */
}

/* Reads the peer's address, a line of hexadecimal digits. */
static ucs_status_t connect_ep(void)
{
    static uint8_t address[ADDRESS_MAX];
    const ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                                  UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
                                    .address = (ucp_address_t *)address,
                                    .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                                    .err_handler.cb = on_error,
                                    .err_handler.arg = NULL};
    static char line[2 * ADDRESS_MAX + 2];
    unsigned byte;

    if (fgets(line, sizeof(line), stdin) == NULL) {
        fail("no address came");
    }
    for (size_t i = 0; i < sizeof(address) && sscanf(line + 2 * i, "%2x", &byte) == 1; i++) {
        address[i] = (uint8_t)byte;
    }
    return ucp_ep_create(worker, &params, &ep);
}

static void close_ep(void)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};

    finish(worker, ucp_ep_close_nbx(ep, &param)); /* the peer may have closed first */
}

static void meet_friend(int first)
{
    if (first) {
        must(connect_ep(), "ucp_ep_create");
        send_tagged(TAG_BEGIN, "begin", 5);
    } else {
        receive_tagged(TAG_BEGIN, received, sizeof(received));
        must(connect_ep(), "ucp_ep_create");
    }
    talk(first);
    talk(!first);
    step = "end";
    if (first) {
        send_tagged(TAG_DONE, "end", 3);
        receive_tagged(TAG_DONE, received, sizeof(received));
    } else {
        receive_tagged(TAG_DONE, received, sizeof(received));
        send_tagged(TAG_DONE, "end", 3);
    }
    close_ep();
    printf("TALKED\n");
}

static void be_refused(void)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    ucs_status_t status = connect_ep();

    if (status == UCS_OK) {
        status = finish(worker, ucp_tag_send_nbx(ep, sent, LONGEST, TAG_BEGIN, &param));
        close_ep();
    }
    if (status == UCS_OK) {
        fail("a message left for a peer of another version");
    }
    printf("REFUSED %s\n", ucs_status_string(status));
}

/* Until older.py closes the input, or writes what nobody reads. */
static void refuse(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    ucp_tag_recv_info_t info;

    while (poll(&input, 1, 1) == 0) {
        ucp_worker_progress(worker);
        if (ucp_tag_probe_nb(worker, 0, 0, 0, &info) != NULL) {
            fail("a message of a peer of another version came");
        }
    }
    printf("NOTHING CAME\n");
}

int main(int argc, char **argv)
{
    int first = argc > 1 && strcmp(argv[1], "first") == 0;
    int refused = argc > 2 && strcmp(argv[2], "refused") == 0;

    start();
    print_address();
    if (!refused) {
        meet_friend(first);
    } else if (first) {
        be_refused();
    } else {
        refuse();
    }
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    return 0;
}
