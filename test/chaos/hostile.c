/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of hostile.h. */
#define _GNU_SOURCE
#include "hostile.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "msg/credit.h"
#include "wire/address.h"
#include "wire/packet.h"

enum { WAIT_MS = 60000, MAX_GROWTH_KB = 8192 };

/* The connection of the two is checked once more some time after it began to send, an eighth of the interval
 * (transport/tcp/tcp_conn.c): an alarm that wakes who sleeps. Here that is half a second, and the last check is over
 * after a bit more, for bytes that were not acknowledged at the first one. */
#define KEEPALIVE_INTERVAL "4s"
enum { LAST_CHECK_MS = 700 };

struct cw_party cw_server, cw_client;

static uint64_t seed = 12345;
static unsigned lines_before;
static int fds_before;
static long memory_before;
static char address_bytes[1024];

void cw_server_progress(void)
{
    (void)ucp_worker_progress(cw_server.worker);
    (void)ucp_worker_progress(cw_client.worker);
}

void cw_server_until(int (*done)(void *), void *argument)
{
    uint64_t end = cw_now_ns() + WAIT_MS * UINT64_C(1000000);

    while (!done(argument)) {
        cw_server_progress();
        cw_check(cw_now_ns() < end);
    }
}

static void rest(unsigned ms)
{
    uint64_t end = cw_now_ns() + ms * UINT64_C(1000000);

    while (cw_now_ns() < end) {
        cw_server_progress();
    }
}

void cw_hostile_begin(void)
{
    cw_check(setenv("UCX_KEEPALIVE_INTERVAL", KEEPALIVE_INTERVAL, 1) == 0);
    cw_party_open(&cw_server, UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP);
    cw_party_open(&cw_client, UCP_FEATURE_TAG);
    cw_party_connect(&cw_client, &cw_server);
    cw_party_connect(&cw_server, &cw_client);
    cw_party_talk(&cw_client, &cw_server, 100000);
    cw_party_talk(&cw_server, &cw_client, 100000);
    (void)cw_party_address(&cw_server, address_bytes);
    rest(10);
    fds_before = cw_open_fds();
    memory_before = cw_resident_kb();
}

const void *cw_server_entry(uint8_t wire_id, size_t *length_p)
{
    struct cw_address address;
    const void *entry;

    cw_check(cw_address_decode(address_bytes, &address) == UCS_OK);
    entry = cw_address_find(&address, wire_id, length_p);
    cw_check(entry != NULL);
    return entry;
}

struct cw_hello cw_hostile_hello(void)
{
    struct cw_address address;

    cw_check(cw_address_decode(address_bytes, &address) == UCS_OK);
    return (struct cw_hello){.source_uid = cw_random(&seed), .target_uid = address.uid};
}

void cw_log_mark(void)
{
    lines_before = cw_log_lines();
}

void cw_check_served(unsigned lines)
{
    lines +=
        strstr(cw_log_last(), "were suppressed") != NULL; /* of earlier connections, logged when a second is over */
    if (cw_log_lines() > lines_before + lines) {
        (void)fprintf(stderr, "the last of %u lines: %s\n", cw_log_lines() - lines_before, cw_log_last());
    }
    cw_check(cw_log_lines() <= lines_before + lines);
    cw_party_talk(&cw_client, &cw_server, 1000);
    cw_party_talk(&cw_server, &cw_client, 1000);
    cw_check(cw_server.failures == 0 && cw_client.failures == 0);
}

static int fds_are_back(void *argument)
{
    (void)argument;
    return cw_open_fds() <= fds_before;
}

void cw_hostile_end(void)
{
    int efd, tries = 0;
    uint64_t cpu;

    cw_server_until(fds_are_back, NULL);
    rest(LAST_CHECK_MS);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    cw_check(cw_resident_kb() <= memory_before + MAX_GROWTH_KB);
#endif
    cw_check(ucp_worker_get_efd(cw_server.worker, &efd) == UCS_OK);
    while (ucp_worker_arm(cw_server.worker) != UCS_OK) {
        (void)ucp_worker_progress(cw_server.worker);
        cw_check(++tries < 10000);
    }
    cpu = cw_cpu_ns();
    cw_check(poll(&(struct pollfd){.fd = efd, .events = POLLIN}, 1, 100) == 0);
    cw_check(cw_cpu_ns() - cpu < 20000000);
    cw_party_talk(&cw_client, &cw_server, 100000);
    cw_party_close(&cw_client);
    cw_party_close(&cw_server);
}

/* ---- a flood ---- */

static void keep_attempting(int (*attempt)(unsigned), unsigned *attempts)
{
    unsigned number;

    for (number = 0;; number++) {
        if (attempt(number)) {
            (void)__atomic_add_fetch(attempts, 1, __ATOMIC_RELAXED);
        }
    }
}

void cw_hostile_flood(int (*attempt)(unsigned number))
{
    enum { PROCESSES = 3, CONNECTIONS = 3000 };
    pid_t pids[PROCESSES];
    unsigned *attempts;
    int status, i;

    cw_hostile_begin();
    attempts = mmap(NULL, sizeof(*attempts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cw_check(attempts != MAP_FAILED);
    while (ucp_worker_arm(cw_server.worker) != UCS_OK) { /* from now on each round checks the descriptors */
        (void)ucp_worker_progress(cw_server.worker);
    }
    for (i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            (void)alarm(CW_CHILD_S);
            keep_attempting(attempt, attempts);
        }
        cw_check(pids[i] > 0);
    }
    while (__atomic_load_n(attempts, __ATOMIC_RELAXED) < CONNECTIONS) {
        cw_check(ucp_worker_progress(cw_server.worker) == 0); /* GEN-9: a drain loop would go on otherwise */
    }
    for (i = 0; i < PROCESSES; i++) {
        cw_check(kill(pids[i], SIGKILL) == 0 && waitpid(pids[i], &status, 0) == pids[i]);
    }
    cw_check(munmap(attempts, sizeof(*attempts)) == 0);
    cw_party_talk(&cw_client, &cw_server, 1000);
    cw_hostile_end();
}

/* ---- packets ---- */

struct packet {
    uint8_t id;
    size_t length;
    uint8_t data[CW_MAX_BAD_PACKET];
};

static struct packet first_of(uint64_t tag, uint64_t total, uint32_t message, size_t payload)
{
    struct cw_wire_tag_first header = {.tag = htole64(tag), .total = htole64(total), .message = htole32(message)};
    struct packet packet = {.id = CW_PACKET_TAG_FIRST, .length = sizeof(header) + payload};

    memcpy(packet.data, &header, sizeof(header));
    return packet;
}

static struct packet next_of(uint32_t message, uint64_t offset, size_t payload)
{
    struct cw_wire_next header = {.message = htole32(message), .offset = htole64(offset)};
    struct packet packet = {.id = CW_PACKET_NEXT, .length = sizeof(header) + payload};

    memcpy(packet.data, &header, sizeof(header));
    return packet;
}

static struct packet plain(uint8_t id, size_t length, int fill)
{
    struct packet packet = {.id = id, .length = length};

    memset(packet.data, fill, sizeof(packet.data));
    return packet;
}

static struct packet ack_of(uint64_t id)
{
    struct cw_wire_tag_ack header = {.sync_id = htole64(id)};
    struct packet packet = {.id = CW_PACKET_TAG_ACK, .length = sizeof(header)};

    memcpy(packet.data, &header, sizeof(header));
    return packet;
}

static void give(const struct cw_hostile_ops *ops, struct cw_hostile_conn *conn, struct packet packet)
{
    ops->send(conn, packet.id, packet.data, packet.length);
}

struct wait {
    const struct cw_hostile_ops *ops;
    struct cw_hostile_conn *conn;
};

static int has_ended(void *argument)
{
    const struct wait *wait = argument;

    return wait->ops->ended(wait->conn);
}

/* Up to two packets, the last of which costs the connection. */
static void must_cost(const struct cw_hostile_ops *ops, const struct packet *before, struct packet last)
{
    struct cw_hostile_conn *conn;
    struct wait wait;

    cw_log_mark();
    conn = ops->open();
    if (before != NULL) {
        give(ops, conn, *before);
        rest(1);
        cw_check(!ops->ended(conn));
    }
    give(ops, conn, last);
    wait = (struct wait){ops, conn};
    cw_server_until(has_ended, &wait);
    ops->leave(conn);
    rest(1);
    cw_check_served(1);
}

static void bad_packets(const struct cw_hostile_ops *ops)
{
    static const uint8_t unknown[] = {CW_PACKET_INVALID, CW_PACKET_COUNT, 100, 254, 255};
    struct packet first = first_of(77, 1000, 5, 100);
    size_t i;

    for (i = 0; i < sizeof(unknown); i++) {
        must_cost(ops, NULL, plain(unknown[i], 0, 0));
        must_cost(ops, NULL, plain(unknown[i], 200, 0xff));
    }
    for (i = 0; i < 8; i++) {
        must_cost(ops, NULL, plain(CW_PACKET_TAG_EAGER, i, 1));
        must_cost(ops, NULL, plain(CW_PACKET_TAG_SYNC, 2 * i, 1));
        must_cost(ops, NULL, plain(CW_PACKET_TAG_FIRST, 4 * i + 4, 1));
        must_cost(ops, NULL, plain(CW_PACKET_NEXT, 2 * i + 2, 1));
        must_cost(ops, NULL, plain(CW_PACKET_TAG_ACK, i, 1));
        must_cost(ops, NULL, plain(CW_PACKET_AM_EAGER, i, 0));
        must_cost(ops, NULL, plain(CW_PACKET_AM_FIRST, 3 * i, 0));
        must_cost(ops, NULL, plain(CW_PACKET_AM_RTS, 4 * i, 0));
    }
    must_cost(ops, NULL, plain(CW_PACKET_AM_EAGER, 100, 1));   /* a header longer than the packet */
    must_cost(ops, NULL, plain(CW_PACKET_AM_EAGER, 8, 2));     /* flags that do not exist */
    must_cost(ops, NULL, plain(CW_PACKET_AM_FIRST, 24, 0));    /* of nothing */
    must_cost(ops, NULL, plain(CW_PACKET_AM_RTS, 32, 0));      /* nobody can answer id 0 */
    must_cost(ops, NULL, plain(CW_PACKET_TAG_ACK, 9, 1));
    must_cost(ops, NULL, plain(CW_PACKET_TAG_SYNC, 100, 0));   /* nobody can answer id 0 */
    must_cost(ops, NULL, first_of(77, 0, 0, 10));
    must_cost(ops, NULL, first_of(77, 10, 0, 10));             /* all of it */
    must_cost(ops, NULL, first_of(77, 9, 0, 10));
    must_cost(ops, NULL, next_of(0, 0, 10));                   /* of nothing */
    must_cost(ops, NULL, first_of(77, UINT64_MAX, 0, 10));     /* more than the window */
    must_cost(ops, NULL, first_of(77, CW_CREDIT_WINDOW, 0, 10));
    must_cost(ops, &first, first_of(78, 1000, 5, 100));        /* the number is in use */
    must_cost(ops, &first, next_of(6, 100, 100));
    must_cost(ops, &first, next_of(5, 99, 100));
    must_cost(ops, &first, next_of(5, 101, 100));
    must_cost(ops, &first, next_of(5, UINT64_MAX, 100));
    first = first_of(77, 150, 5, 100);
    must_cost(ops, &first, next_of(5, 100, 51));               /* more than all */
    must_cost(ops, NULL, ack_of(0));
    must_cost(ops, NULL, ack_of(UINT64_MAX));
    must_cost(ops, NULL, ack_of(UINT64_C(1) << 32));
}

static void received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    ucs_status_t *status_p = user_data;

    (void)request;
    (void)info;
    cw_check(*status_p == UCS_INPROGRESS);
    *status_p = status;
}

static int is_through(void *argument)
{
    return *(ucs_status_t *)argument != UCS_INPROGRESS;
}

/* A receive is matched by the beginning of a message that claims to have 1 MiB, and never gets the rest. */
static void unfinished(const struct cw_hostile_ops *ops)
{
    const ucp_tag_t tag = 0xabcdef;
    ucs_status_t status = UCS_INPROGRESS;
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                 .cb.recv = received, .user_data = &status};
    ucs_status_ptr_t request;
    struct cw_hostile_conn *conn;
    char in[200];
    int i;

    memset(in, 0x55, sizeof(in));
    cw_log_mark();
    request = ucp_tag_recv_nbx(cw_server.worker, in, 100, tag, UINT64_MAX, &param);
    cw_check(UCS_PTR_IS_PTR(request));
    conn = ops->open();
    give(ops, conn, first_of(tag, UINT64_C(1) << 20, 1, 50));
    give(ops, conn, next_of(1, 50, 200));
    rest(2);
    for (i = 2; i < 60; i++) { /* and many others, begun only */
        give(ops, conn, first_of(tag, 100000, (uint32_t)i, 200));
        rest(1);
    }
    cw_check(!ops->ended(conn) && status == UCS_INPROGRESS);
    ops->leave(conn);
    cw_server_until(is_through, &status);
    cw_check(status < 0);
    ucp_request_free(request);
    for (i = 100; i < 200; i++) {
        cw_check(in[i] == 0x55);
    }
    cw_check_served(1);
}

static size_t address_space(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    size_t pages;

    cw_check(file != NULL && fscanf(file, "%zu", &pages) == 1);
    (void)fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* As many as may be unfinished, 2^38 bytes each: nothing of the server's is given on their word. */
static void made_up_lengths(const struct cw_hostile_ops *ops)
{
    struct cw_wire_am_first header = {.total = htole64(UINT64_C(1) << 38)};
    struct packet packet = {.id = CW_PACKET_AM_FIRST, .length = sizeof(header) + 100};
    struct cw_hostile_conn *conn;
    size_t before;
    uint32_t i;

    cw_log_mark();
    conn = ops->open();
    before = address_space();
    for (i = 0; i < 64; i++) {
        header.message = htole32(i);
        memcpy(packet.data, &header, sizeof(header));
        give(ops, conn, packet);
        rest(1);
    }
    give(ops, conn, next_of(63, 100, 200)); /* known, and not too much */
    rest(2);
    cw_check(!ops->ended(conn));
    cw_check(address_space() <= before + ((size_t)1 << 30));
    ops->leave(conn);
    cw_check_served(1);
}

/* An answer to a message that was sent to somebody else. */
static void forged_ack(const struct cw_hostile_ops *ops)
{
    ucp_request_param_t param = {.op_attr_mask = 0};
    const ucp_tag_t tag = 0x5151;
    ucs_status_ptr_t request, receive;
    uint32_t generation, slot;
    char in[8];

    request = ucp_tag_send_sync_nbx(cw_server.ep, "12345678", 8, tag, &param);
    cw_check(UCS_PTR_IS_PTR(request));
    rest(2);
    for (generation = 1; generation < 4; generation++) {
        for (slot = 0; slot < 4; slot++) {
            must_cost(ops, NULL, ack_of(((uint64_t)generation << 32) | slot));
            cw_check(ucp_request_check_status(request) == UCS_INPROGRESS);
        }
    }
    receive = ucp_tag_recv_nbx(cw_client.worker, in, sizeof(in), tag, UINT64_MAX, &param);
    cw_check(cw_party_wait(&cw_client, &cw_server, receive) == UCS_OK);
    cw_check(cw_party_wait(&cw_server, &cw_client, request) == UCS_OK);
}

/* Nothing is expected but that the server lives on. Messages that happen to be whole are taken out again. */
static void random_packets(const struct cw_hostile_ops *ops, unsigned rounds)
{
    static char in[CW_MAX_BAD_PACKET];
    ucp_request_param_t param = {.op_attr_mask = 0};
    ucp_tag_recv_info_t info;
    ucp_tag_message_h message;
    struct cw_hostile_conn *conn;
    struct packet packet;
    unsigned round, i;
    size_t at;

    for (round = 0; round < rounds; round++) {
        conn = ops->open();
        for (i = 0; i < 20 && !ops->ended(conn); i++) {
            packet.id = (uint8_t)(cw_random(&seed) % (CW_PACKET_COUNT + 1));
            packet.length = cw_random(&seed) % 64;
            for (at = 0; at < packet.length; at++) { /* small numbers come near to the truth more often */
                packet.data[at] = (uint8_t)((cw_random(&seed) % 8 == 0) ? cw_random(&seed) : cw_random(&seed) % 2);
            }
            give(ops, conn, packet);
            cw_server_progress();
        }
        ops->leave(conn);
        rest(1);
        while ((message = ucp_tag_probe_nb(cw_server.worker, 0, 0, 1, &info)) != NULL) {
            (void)cw_party_wait(&cw_server, &cw_client,
                                ucp_tag_msg_recv_nbx(cw_server.worker, in, sizeof(in), message, &param));
        }
        if (round % 16 == 0) {
            cw_party_talk(&cw_client, &cw_server, 100);
        }
    }
    cw_check(cw_server.failures == 0 && cw_client.failures == 0);
}

void cw_hostile_packets(const struct cw_hostile_ops *ops)
{
    cw_hostile_begin();
    bad_packets(ops);
    unfinished(ops);
    made_up_lengths(ops);
    forged_ack(ops);
    random_packets(ops, 300);
    cw_hostile_end();
}
