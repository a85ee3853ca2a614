/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unauthenticated peers of workers that protect their TCP connections: by checksums, by a secret, by TLS. The first
 * byte chooses the worker, the rest is a row of kind, id, length, bytes: raw ones, messages of the agreement, records.
 * Nobody becomes a peer where a secret is demanded.
 */
#define _GNU_SOURCE
#include "fuzz.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/ep.h"
#include "core/worker.h"
#include "transport/tcp/tcp.h"

enum {
    SERVERS = 3,
    CHECKSUM = 0,
    RAW = 0,
    MESSAGE = 1,
    RECORD = 2,
    KINDS = 3,
    QUICK_ROUNDS = 1000,
    MAX_ROUNDS = 100000
};

struct server {
    ucp_worker_h worker;
    struct cw_tcp_iface *iface;
    struct sockaddr_in name;
};

static struct server servers[SERVERS];

static void open_server(struct server *server)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_worker_params_t worker_params = {.field_mask = 0};
    socklen_t length = sizeof(server->name);
    ucp_context_h context;

    fuzz_check(ucp_init(&params, NULL, &context) == UCS_OK);
    fuzz_check(ucp_worker_create(context, &worker_params, &server->worker) == UCS_OK);
    fuzz_check(server->worker->num_ifaces == 1);
    server->iface = cw_container_of(server->worker->ifaces[0], struct cw_tcp_iface, super);
    fuzz_check(getsockname(server->iface->listener.fd, (struct sockaddr *)&server->name, &length) == 0);
    server->name.sin_family = AF_INET;
    server->name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
}

static void open_servers(void)
{
    char path[] = "/tmp/fuzz_filter.XXXXXX";
    const int fd = mkstemp(path);

    cw_log_set_interceptor(fuzz_swallow);
    fuzz_check(fd >= 0 && write(fd, "nobody's secret but ours", 24) == 24 && close(fd) == 0);
    fuzz_check(setenv("UCX_TLS", "tcp", 1) == 0 && setenv("UCX_TCP_AF_PRIO", "inet", 1) == 0);
    fuzz_check(setenv("UCX_TCP_CHECKSUM", "y", 1) == 0);
    open_server(&servers[0]);
    fuzz_check(setenv("UCX_AUTH_KEY_FILE", path, 1) == 0);
    open_server(&servers[1]);
    fuzz_check(setenv("UCX_AUTH_TLS", "psk", 1) == 0);
    open_server(&servers[2]);
    unlink(path);
}

/* One element of the row, as bytes of the wire. Returns how many. */
static size_t make(const struct server *server, const uint8_t *data, size_t length, uint64_t *number, uint8_t *bytes)
{
    if (data[0] % KINDS == MESSAGE) {
        cw_tcp_handshake_encode(bytes, (enum cw_tcp_handshake_kind)data[1], length, server->iface->key);
        memcpy(bytes + CW_TCP_HANDSHAKE_SIZE, data + 3, length);
        return CW_TCP_HANDSHAKE_SIZE + length;
    }
    if (data[0] % KINDS == RECORD) {
        cw_tcp_record_encode(bytes, length, cw_crc32c(0, data + 3, length), (*number)++);
        memcpy(bytes + CW_TCP_RECORD_HEAD, data + 3, length);
        return CW_TCP_RECORD_HEAD + length;
    }
    memcpy(bytes, data + 3, length);
    return length;
}

static void progress(struct server *server)
{
    (void)ucp_worker_progress(server->worker);
    (void)cw_poller_dispatch(server->worker->poller);
}

/* What is sent over loopback arrives when the system finds time, on a busy machine much later. */
static void wait_for_it(struct server *server, int round)
{
    fuzz_check(round < MAX_ROUNDS);
    if (round > QUICK_ROUNDS) {
        usleep(100);
    }
    progress(server);
}

static void speak(struct server *server, int fd, const uint8_t *data, size_t size)
{
    uint8_t bytes[CW_TCP_HANDSHAKE_SIZE + 255];
    uint64_t number = 0;
    size_t length, made;

    while (size >= 3) {
        length = (data[2] < size - 3) ? data[2] : size - 3;
        made = make(server, data, length, &number, bytes);
        if (made > 0 && send(fd, bytes, made, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)made) {
            return; /* shown out */
        }
        if (data[1] % 2 == 1) {
            progress(server);
        }
        data += 3 + length;
        size -= 3 + length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct linger reset = {.l_onoff = 1};
    struct server *server;
    char byte[256];
    ssize_t got;
    int fd;

    if (servers[0].worker == NULL) {
        open_servers();
    }
    if (size == 0) {
        return 0;
    }
    server = &servers[data[0] % SERVERS];
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fuzz_check(fd >= 0 && connect(fd, (struct sockaddr *)&server->name, sizeof(server->name)) == 0);
    fuzz_check(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)) == 0); /* ports are few */
    speak(server, fd, data + 1, size - 1);
    (void)shutdown(fd, SHUT_WR);
    for (int round = 0; (got = recv(fd, byte, sizeof(byte), MSG_DONTWAIT)) > 0 || (got < 0 && errno == EAGAIN);
         round++) {
        wait_for_it(server, round);
    }
    close(fd);
    for (int round = 0; server->iface->num_unauth + server->iface->num_lingering > 0; round++) {
        wait_for_it(server, round);
    }
    fuzz_check(server - servers == CHECKSUM || server->iface->active == NULL);
    return 0;
}
