/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hostile client that speaks the wire format: every packet id, with headers of every kind of wrong (and some right),
 * in every state of a connection, at a worker's TCP port and at a listener. It repeats numbers that it was given: ids
 * of operations under way, tokens, addresses. The process lives, only the connection of the hostile one is lost,
 * another client is served on, memory beside what is exposed is neither changed nor sent. -n: packets of each kind.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "chaos.h"
#include "chaos.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/tcp/tcp_wire.h"
#include "wire/address.h"
#include "wire/hello.h"
#include "wire/key.h"
#include "wire/lane.h"
#include "wire/cm.h"
#include "wire/rma.h"

enum { MARGIN = 65536, REGION = 65536, MOST = 70000, POOL = 64, VARIANTS = 8, IDS = CW_PACKET_COUNT + 2, WAIT_S = 20 };
enum { FEATURES = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_STREAM | UCP_FEATURE_RMA | UCP_FEATURE_AMO64 };

enum state {
    CONNECTED,          /* at the worker's port, nothing was said */
    OPEN,              /* the handshake was answered */
    CLOSED,            /* and CLOSE was said */
    ENDED,             /* and END was said */
    LANE,              /* a further lane of an open endpoint */
    CONNECTED_LISTENER, /* at a listener, nothing was said */
    WAITING,           /* the program has not answered the request */
    CHOOSING,          /* it has, and the ops has not chosen */
    MET,               /* the connection of a connection request is open, and operations are under way */
    LEFT,              /* the program has closed its endpoint */
    STATES
};

static const char *const state_names[STATES] = {
    "at a worker, before the handshake", "at a worker, open", "after CLOSE", "after END", "on a further lane",
    "at a listener, before the handshake", "before the program's answer", "before STAY", "open, operations under way",
    "after the program closed"};

struct server {
    struct cw_party party;
    struct cw_party client;
    ucp_listener_h listener;
    uint16_t ports[2];          /* the worker's, the listener's; network order */
    uint32_t key;
    uint64_t uid;
    ucp_mem_h memh;
    uint64_t token;
    ucp_conn_request_h request;
    ucp_ep_h ep;                /* to the ops */
    int failures;
    ucs_status_ptr_t under_way[8];
    int num_under_way;
};

static struct server server;
static char memory[MARGIN + REGION + MARGIN];   /* the middle is exposed */
static char secret[MARGIN];                     /* nothing of it is */
static char scratch[300000];
static uint64_t random_state;
static uint64_t pool[POOL];
static unsigned pool_count;
static unsigned long cases, closed;

static void failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)arg;
    (void)status;
    cw_check(ep == server.ep && ++server.failures == 1);
}

static void requested(ucp_conn_request_h request, void *arg)
{
    (void)arg;
    cw_check(server.request == NULL);
    server.request = request;
}

static void progress(void)
{
    (void)ucp_worker_progress(server.party.worker);
    (void)ucp_worker_progress(server.client.worker);
}

/* ---- the server ---- */

static ucs_status_t am_came(void *arg, const void *header, size_t header_length, void *data, size_t length,
                            const ucp_am_recv_param_t *param)
{
    (void)arg;
    (void)header;
    (void)header_length;
    (void)data;
    (void)length;
    /* what may be kept is kept now and then, and never released: it goes with the worker */
    return (param->recv_attr & (UCP_AM_RECV_ATTR_FLAG_DATA | UCP_AM_RECV_ATTR_FLAG_RNDV)) &&
           cw_one_in(&random_state, 20) ? UCS_INPROGRESS : UCS_OK;
}

static void listen_here(void)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ucp_listener_params_t params = {.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
                                                  UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
                                    .sockaddr = {(struct sockaddr *)&name, sizeof(name)},
                                    .conn_handler = {requested, NULL}};
    ucp_listener_attr_t attr = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};

    cw_check(ucp_listener_create(server.party.worker, &params, &server.listener) == UCS_OK);
    cw_check(ucp_listener_query(server.listener, &attr) == UCS_OK);
    server.ports[1] = ((struct sockaddr_in *)&attr.sockaddr)->sin_port;
}

static void open_server(void)
{
    ucp_mem_map_params_t mem = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                .address = memory + MARGIN, .length = REGION};
    ucp_am_handler_param_t am = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB,
                                 .cb = am_came};
    struct cw_tcp_address tcp;
    struct cw_address address;
    const void *entry;
    char bytes[1024];
    size_t length;
    struct cw_key decoded;
    void *key;

    memset(memory, 0x5e, sizeof(memory));
    memset(memory + MARGIN, 0, REGION);
    memset(secret, 0x5e, sizeof(secret));
    cw_party_open(&server.party, FEATURES);
    cw_party_open(&server.client, FEATURES);
    cw_party_connect(&server.client, &server.party);
    cw_party_connect(&server.party, &server.client);
    cw_check(ucp_worker_set_am_recv_handler(server.party.worker, &am) == UCS_OK);
    cw_check(ucp_mem_map(server.party.context, &mem, &server.memh) == UCS_OK);
    cw_check(ucp_rkey_pack(server.party.context, server.memh, &key, &length) == UCS_OK);
    cw_check(cw_key_decode(key, &decoded, NULL) == UCS_OK);
    server.token = decoded.token;
    ucp_rkey_buffer_release(key);
    (void)cw_party_address(&server.party, bytes);
    cw_check(cw_address_decode(bytes, &address) == UCS_OK);
    entry = cw_address_find(&address, cw_tcp_transport.wire_id, &length);
    cw_check(entry != NULL && cw_tcp_address_decode(entry, length, &tcp) == NULL);
    server.ports[0] = htons(tcp.port);
    server.key = tcp.key;
    server.uid = address.uid;
    listen_here();
}

static void check_server(void)
{
    size_t i;

    for (i = 0; i < MARGIN; i++) {
        cw_check(memory[i] == 0x5e && memory[MARGIN + REGION + i] == 0x5e && secret[i] == 0x5e);
    }
    cw_party_talk(&server.client, &server.party, 1000);
    cw_party_talk(&server.party, &server.client, 1000);
    cw_check(server.party.failures == 0 && server.client.failures == 0);
}

/* Messages that happened to be whole. */
static void drain_messages(void)
{
    ucp_request_param_t param = {.op_attr_mask = 0};
    ucp_tag_recv_info_t info;
    ucp_tag_message_h message;

    while ((message = ucp_tag_probe_nb(server.party.worker, 0, 0, 1, &info)) != NULL) {
        size_t length = info.length < sizeof(scratch) ? info.length : sizeof(scratch);
        ucs_status_ptr_t request = ucp_tag_msg_recv_nbx(server.party.worker, scratch, length, message, &param);

        if (UCS_PTR_IS_PTR(request)) { /* ends at the latest with the connection, which is gone */
            (void)cw_party_wait(&server.party, &server.client, request);
        }
    }
}

/* ---- the ops ---- */

static int dial(int listener)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                               .sin_port = server.ports[listener]};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    cw_check(fd >= 0 && connect(fd, (const struct sockaddr *)&name, sizeof(name)) == 0);
    cw_check(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    return fd;
}

static void say(int fd, const void *bytes, size_t length)
{
    double end = cw_now_s() + WAIT_S;

    while (length > 0) {
        ssize_t done = send(fd, bytes, length, MSG_NOSIGNAL);

        cw_check(cw_now_s() < end);
        if (done < 0 && errno != EAGAIN) {
            return;
        }
        if (done > 0) {
            bytes = (const char *)bytes + done;
            length -= (size_t)done;
        }
        progress();
    }
}

/* What the server says is remembered, number by number, and must hold nothing that is not exposed. false: it ended. */
static int hear(int fd)
{
    static char bytes[65536];
    ssize_t got = recv(fd, bytes, sizeof(bytes), 0);
    ssize_t i, run = 0;

    for (i = 0; i < got; i++) {
        run = (bytes[i] == 0x5e) ? run + 1 : 0;
        cw_check(run < 16);
    }
    for (i = 0; i + 8 <= got && i < 600; i += 8) {
        memcpy(&pool[pool_count++ % POOL], bytes + i, 8);
    }
    return got > 0 || (got < 0 && errno == EAGAIN);
}

static void hear_exactly(int fd, void *bytes, size_t length)
{
    double end = cw_now_s() + WAIT_S;

    while (recv(fd, bytes, length, MSG_PEEK) != (ssize_t)length) {
        progress();
        cw_check(cw_now_s() < end);
    }
    cw_check(recv(fd, bytes, length, 0) == (ssize_t)length);
}

static int open_worker_conn(uint64_t *uid)
{
    struct cw_hello hello = {.source_uid = cw_random(&random_state), .target_uid = server.uid,
                             .err_mode = (uint8_t)cw_random_below(&random_state, 2)};
    uint8_t bytes[256];
    int fd = dial(0);

    cw_tcp_handshake_encode(bytes, CW_TCP_HELLO, CW_HELLO_LENGTH, server.key);
    cw_hello_encode(&hello, bytes + CW_TCP_HANDSHAKE_SIZE);
    say(fd, bytes, CW_TCP_HANDSHAKE_SIZE + CW_HELLO_LENGTH);
    hear_exactly(fd, bytes, CW_TCP_HANDSHAKE_SIZE);
    cw_check(bytes[5] == CW_TCP_ACCEPTED);
    hear_exactly(fd, bytes, CW_HELLO_REPLY_LENGTH);
    if (uid != NULL) {
        *uid = hello.source_uid;
    }
    return fd;
}

/* Asks for lanes as the dialler does, and opens one by the token of the answer. */
static int open_lane(int *first)
{
    const struct cw_wire_lane ask = {.kind = CW_WIRE_LANE_ASK, .lane = 2};
    struct cw_lane_hello hello = {.target_uid = server.uid, .lane = 1};
    uint8_t bytes[256];
    struct cw_wire_lane offer;
    int fd;

    *first = open_worker_conn(&hello.source_uid);
    cw_tcp_frame_encode(bytes, CW_TCP_PACKET, CW_PACKET_LANE, sizeof(ask));
    memcpy(bytes + CW_TCP_FRAME_HEADER, &ask, sizeof(ask));
    say(*first, bytes, CW_TCP_FRAME_HEADER + sizeof(ask));
    hear_exactly(*first, bytes, CW_TCP_FRAME_HEADER + sizeof(offer));
    memcpy(&offer, bytes + CW_TCP_FRAME_HEADER, sizeof(offer));
    cw_check(bytes[4] == CW_PACKET_LANE && offer.kind == CW_WIRE_LANE_OFFER);
    memcpy(hello.token, &offer.sent, sizeof(hello.token));
    fd = dial(0);
    cw_tcp_handshake_encode(bytes, CW_TCP_HELLO, CW_LANE_HELLO_LENGTH, server.key);
    cw_lane_hello_encode(&hello, bytes + CW_TCP_HANDSHAKE_SIZE);
    say(fd, bytes, CW_TCP_HANDSHAKE_SIZE + CW_LANE_HELLO_LENGTH);
    hear_exactly(fd, bytes, CW_TCP_HANDSHAKE_SIZE + CW_HELLO_REPLY_LENGTH);
    cw_check(bytes[5] == CW_TCP_ACCEPTED);
    return fd;
}

/* Everything that can wait for the other side. */
static void begin_operations(void)
{
    ucp_request_param_t param = {.op_attr_mask = 0};
    ucs_status_ptr_t requests[] = {
        ucp_tag_send_nbx(server.ep, scratch, 200000, 1, &param),
        ucp_tag_send_sync_nbx(server.ep, scratch, 100, 2, &param),
        ucp_am_send_nbx(server.ep, 0, scratch, 8, scratch, 200000, &param),
        ucp_stream_send_nbx(server.ep, scratch, 100, &param),
        ucp_stream_recv_nbx(server.ep, scratch, 100, &(size_t){0}, &param),
        ucp_ep_flush_nbx(server.ep, &param),
    };
    size_t i;

    for (i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        if (UCS_PTR_IS_PTR(requests[i])) {
            server.under_way[server.num_under_way++] = requests[i];
        }
    }
}

static int open_request(enum state state)
{
    struct cw_cm_request asked = {.number = cw_random(&random_state), .err_mode = 1};
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST | UCP_EP_PARAM_FIELD_ERR_HANDLER |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER, .err_handler = {failed, NULL}};
    const ucp_request_param_t none = {.op_attr_mask = 0};
    uint8_t bytes[256];
    double end = cw_now_s() + WAIT_S;
    int fd = dial(1);

    cw_tcp_handshake_encode(bytes, CW_TCP_HELLO, CW_CM_REQUEST_LENGTH, 0);
    cw_cm_request_encode(&asked, bytes + CW_TCP_HANDSHAKE_SIZE);
    say(fd, bytes, CW_TCP_HANDSHAKE_SIZE + CW_CM_REQUEST_LENGTH);
    while (server.request == NULL) {
        progress();
        cw_check(cw_now_s() < end);
    }
    if (state == WAITING) {
        return fd;
    }
    params.conn_request = server.request;
    server.request = NULL;
    cw_check(ucp_ep_create(server.party.worker, &params, &server.ep) == UCS_OK);
    hear_exactly(fd, bytes, CW_TCP_HANDSHAKE_SIZE);
    cw_check(bytes[5] == CW_TCP_ACCEPTED);
    if (state == CHOOSING) {
        return fd;
    }
    cw_tcp_frame_encode(bytes, CW_TCP_PACKET, CW_PACKET_STAY, 8);
    memset(bytes + CW_TCP_FRAME_HEADER, 0, 8);
    say(fd, bytes, CW_TCP_FRAME_HEADER + 8);
    begin_operations();
    if (state == LEFT) {
        ucs_status_ptr_t closing = ucp_ep_close_nbx(server.ep, &none);

        server.ep = NULL;
        if (UCS_PTR_IS_PTR(closing)) {
            server.under_way[server.num_under_way++] = closing;
        }
    }
    return fd;
}

static int open_in_state(enum state state, int *first)
{
    uint8_t bytes[CW_TCP_FRAME_HEADER + 8] = {0};
    int fd, i;

    *first = -1;
    switch (state) {
    case CONNECTED:
    case CONNECTED_LISTENER:
        return dial(state == CONNECTED_LISTENER);
    case OPEN:
    case CLOSED:
    case ENDED:
        fd = open_worker_conn(NULL);
        if (state != OPEN) {
            cw_tcp_frame_encode(bytes, CW_TCP_PACKET, state == CLOSED ? CW_PACKET_CLOSE : CW_PACKET_END, 8);
            say(fd, bytes, sizeof(bytes));
        }
        return fd;
    case LANE:
        return open_lane(first);
    default:
        fd = open_request(state);
        for (i = 0; i < 5; i++) {
            progress();
            (void)hear(fd);
        }
        return fd;
    }
}

/* ---- packets ---- */

/* What the header of this id has; 0: there is none. */
static size_t header_length(unsigned id)
{
    static const uint8_t lengths[CW_PACKET_COUNT] = {
        0,  8, 8, 8, 16, 32, 16, 8,  32, 40, 16, 16, 16, 8,  8, 8,
        24, 32, 8, 8, 16, 40, 40, 16, 48, 24, 8,  16, 0, 0, 8,
        [CW_PACKET_GET_DATA] = sizeof(struct cw_wire_get_data),
        [CW_PACKET_LANE] = sizeof(struct cw_wire_lane),
        [CW_PACKET_PUT_LIST] = CW_WIRE_PUT_LIST_BYTES(2),
        [CW_PACKET_RNDV_NAME] = 128,
        [CW_PACKET_RNDV_CHUNK] = sizeof(struct cw_wire_rndv_chunk),
        [CW_PACKET_RNDV_TAKEN] = sizeof(struct cw_wire_rndv_taken)};

    return id < CW_PACKET_COUNT ? lengths[id] : 0;
}

/* Whether the header begins with the token of a region. */
static int names_region(unsigned id)
{
    return (id >= CW_PACKET_PUT && id <= CW_PACKET_AMO && id != CW_PACKET_GET_REFUSED) || id == CW_PACKET_PUT_LIST;
}

static uint64_t some_number(void)
{
    const uint64_t base = (uintptr_t)memory + MARGIN;

    switch (cw_random_below(&random_state, 10)) {
    case 0:
        return 0;
    case 1:
        return UINT64_MAX - cw_random_below(&random_state, 64);
    case 2:
        return cw_random_below(&random_state, 70000);
    case 3:
        return server.token;
    case 4:
        return base + cw_random_below(&random_state, REGION);
    case 5:
        return base - 8 + cw_random_below(&random_state, 16) + (cw_one_in(&random_state, 2) ? REGION : 0);
    case 6:
        return (uintptr_t)secret + cw_random_below(&random_state, MARGIN);
    case 7:
        return UINT64_C(1) << cw_random_below(&random_state, 64);
    default:
        return pool[cw_random_below(&random_state, POOL)];
    }
}

/* A packet of that id in one of several ways to be wrong; the length of the frame. */
static size_t make_packet(uint8_t *frame, unsigned id, unsigned variant)
{
    static const unsigned payloads[] = {0, 0, 8, 100, 4000};
    size_t header = header_length(id), length = header, i;
    uint8_t *body = frame + CW_TCP_FRAME_HEADER;
    int placed = variant == 7;
    uint64_t number;

    switch (variant) {
    case 0:
        memset(body, 0, length);
        break;
    case 1:
        memset(body, 0xff, length += cw_random_below(&random_state, 300));
        break;
    case 2:
        length = header == 0 ? 0 : cw_random_below(&random_state, header);
        memset(body, 1, length);
        break;
    case 3:
        length = cw_one_in(&random_state, 8) ? CW_TCP_PACKET_MAX : cw_random_below(&random_state, 300);
        for (i = 0; i < length; i++) {
            body[i] = (uint8_t)cw_random_below(&random_state, cw_one_in(&random_state, 8) ? 256 : 3);
        }
        break;
    default: /* numbers that mean something, in each place of the header; the payload does not matter */
        length += payloads[cw_random_below(&random_state, 5)];
        memset(body, 0x11, length);
        for (i = 0; i + 8 <= header; i += 8) {
            number = htole64(some_number());
            memcpy(body + i, &number, 8);
        }
        if (variant == 6 && names_region(id)) {
            memcpy(body, &server.token, 8); /* the true token, so that bounds alone protect */
        }
        if (id == CW_PACKET_PUT_LIST && cw_one_in(&random_state, 2)) {
            const uint64_t pieces = htole64(2); /* a count that fits the payload, so that the places are checked */

            memcpy(body + 8, &pieces, 8);
        }
    }
    if (placed && length <= CW_PLACE_HEADER) {
        length = CW_PLACE_HEADER + 8;
    }
    cw_tcp_frame_encode(frame, placed ? CW_TCP_PLACED : CW_TCP_PACKET, (uint8_t)id, length);
    return CW_TCP_FRAME_HEADER + length;
}

static void make_handshake(uint8_t *bytes, unsigned id)
{
    size_t i;

    for (i = 0; i < CW_TCP_HANDSHAKE_SIZE + 256; i++) {
        bytes[i] = (uint8_t)cw_random(&random_state);
    }
    cw_tcp_handshake_encode(bytes, (enum cw_tcp_handshake_kind)(id % 16), cw_random_below(&random_state, 300),
                            server.key);
}

/* ---- cases ---- */

static void end_conn(int fd, int first)
{
    const ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
    double end = cw_now_s() + WAIT_S;
    ucp_ep_h ep = server.ep;
    ucs_status_ptr_t request;
    int i;

    (void)close(fd);
    if (first >= 0) {
        (void)close(first);
    }
    if (server.request != NULL) {
        cw_check(ucp_listener_reject(server.listener, server.request) == UCS_OK);
        server.request = NULL;
    }
    while (ep != NULL && server.failures == 0) { /* the end is noticed */
        progress();
        cw_check(cw_now_s() < end);
    }
    for (i = 0; i < server.num_under_way; i++) {
        (void)cw_party_wait(&server.party, &server.client, server.under_way[i]);
    }
    server.num_under_way = 0;
    if (ep != NULL) {
        server.ep = NULL;
        request = ucp_ep_close_nbx(ep, &force);
        cw_check(request == NULL);
    }
    server.failures = 0;
    for (i = 0; i < 4; i++) {
        progress();
    }
    drain_messages();
}

static void run_case(enum state state, unsigned id, unsigned variant)
{
    static uint8_t frame[MOST];
    int first, fd = open_in_state(state, &first), i;
    unsigned more = (unsigned)cw_random_below(&random_state, 3);

    if ((state == CONNECTED || state == CONNECTED_LISTENER) && variant >= 4) {
        make_handshake(frame, id);
        say(fd, frame, CW_TCP_HANDSHAKE_SIZE + cw_random_below(&random_state, 256));
    } else {
        say(fd, frame, make_packet(frame, id, variant));
    }
    while (more-- > 0) { /* and others behind it */
        id = (unsigned)cw_random_below(&random_state, IDS);
        variant = (unsigned)cw_random_below(&random_state, VARIANTS);
        say(fd, frame, make_packet(frame, id, variant));
    }
    for (i = 0; i < 6; i++) {
        progress();
        if (!hear(fd)) {
            closed++;
            break;
        }
    }
    end_conn(fd, first);
    cases++;
}

static struct cw_options options = {.seed = 1, .rounds = 1, .seconds = 1e9};

static void all_cases(void *argument)
{
    unsigned state, id, variant;
    int fds;
    long n;

    (void)argument;
    (void)alarm(0);
    random_state = options.seed;
    open_server();
    check_server(); /* connects with the client */
    fds = cw_open_fds();
    for (state = 0; state < STATES; state++) {
        cases = closed = 0;
        for (n = 0; n < options.rounds; n++) {
            for (id = 0; id < IDS; id++) {
                for (variant = 0; variant < VARIANTS; variant++) {
                    (void)alarm(4 * WAIT_S);
                    if (options.verbose) {
                        printf("%s: id %u, variant %u\n", state_names[state], id, variant);
                    }
                    run_case((enum state)state, id == IDS - 1 ? 255 : id, variant);
                }
                check_server();
            }
        }
        printf("%-40s %6lu cases, %6lu closed at once\n", state_names[state], cases, closed);
    }
    for (n = 0; n < 100000 && cw_open_fds() > fds; n++) {
        progress();
    }
    cw_check(cw_open_fds() <= fds);
    ucp_listener_destroy(server.listener);
    cw_check(ucp_mem_unmap(server.party.context, server.memh) == UCS_OK);
    cw_party_close(&server.client);
    cw_party_close(&server.party);
}

int main(int argc, char **argv)
{
    int code;

    cw_run.name = "chaos.hostile";
    cw_log_watch();
    setvbuf(stdout, NULL, _IOLBF, 0);
    cw_options(argc, argv, &options);
    code = cw_child_run(all_cases, NULL);
    if (code != 0) {
        fprintf(stderr, "the process ended with %d\n", code);
    }
    return code != 0;
}
