/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Out-of-band connection between the two sides of a tool.
 *
 * Callers: link.c, the performance tool, the demonstration.
 * The socket is non-blocking; every wait is a poll() with a deadline. Nothing that a peer sends is trusted: a
 * length beyond CW_OOB_MAX_PAYLOAD or an unexpected type ends the connection with a sentence.
 */
#define _GNU_SOURCE
#include "oob.h"

#include "say.h"
#include "ticks.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define REPORTS "the peer reports: "

enum { HELLO_V1 = 12, HELLO_V2 = 28, RELEASE_MOST = 32 };

static const char magic[8] = "CWPERF\r\n";
static _Thread_local char error_text[512];

int cw_oob_fail(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(error_text, sizeof(error_text), format, arguments);
    va_end(arguments);
    return -1;
}

const char *cw_oob_error(void)
{
    return error_text;
}

static void put_u32(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++) {
        to[i] = (uint8_t)(value >> (8 * i));
    }
}

static uint32_t get_u32(const uint8_t *from)
{
    return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

static uint64_t deadline_after(int timeout_ms)
{
    return timeout_ms < 0 ? UINT64_MAX : cw_clock_ns() + (uint64_t)timeout_ms * 1000000;
}

/* Waits until `events` or the deadline; with an idle function it spins so that the idle function is served. */
static int wait_for(struct cw_oob *oob, short events, uint64_t deadline_ns)
{
    for (;;) {
        struct pollfd item = {.fd = oob->fd, .events = events};
        uint64_t now = cw_clock_ns();
        int slice_ms = 1000;
        if (oob->idle != NULL) {
            oob->idle(oob->idle_arg);
            slice_ms = 0;
        } else if (deadline_ns != UINT64_MAX && deadline_ns - now < 1000000000 && deadline_ns > now) {
            slice_ms = (int)((deadline_ns - now) / 1000000) + 1;
        }
        int count = poll(&item, 1, slice_ms);
        cw_watchdog_beat();
        if (count > 0) {
            return 0;
        }
        if (count < 0 && errno != EINTR) {
            return cw_oob_fail("poll on the connection to the peer failed: %s", strerror(errno));
        }
        if (now >= deadline_ns) {
            return cw_oob_fail("the peer did not answer within %d seconds", oob->timeout_ms / 1000);
        }
    }
}

static int send_all(struct cw_oob *oob, const void *data, size_t length)
{
    const char *at = data;
    uint64_t deadline_ns = deadline_after(oob->timeout_ms);

    while (length > 0) {
        ssize_t sent = send(oob->fd, at, length, MSG_NOSIGNAL);
        if (sent >= 0) {
            at += sent;
            length -= (size_t)sent;
        } else if (errno == EAGAIN) {
            if (wait_for(oob, POLLOUT, deadline_ns) != 0) {
                return -1;
            }
        } else if (errno != EINTR) {
            return cw_oob_fail("sending to the peer failed: %s", strerror(errno));
        }
    }
    return 0;
}

static int recv_all(struct cw_oob *oob, void *data, size_t length)
{
    char *at = data;
    uint64_t deadline_ns = deadline_after(oob->timeout_ms);

    while (length > 0) {
        ssize_t got = recv(oob->fd, at, length, 0);
        if (got > 0) {
            at += got;
            length -= (size_t)got;
        } else if (got == 0) {
            return cw_oob_fail("the peer closed the connection");
        } else if (errno == EAGAIN) {
            if (wait_for(oob, POLLIN, deadline_ns) != 0) {
                return -1;
            }
        } else if (errno != EINTR) {
            return cw_oob_fail("receiving from the peer failed: %s", strerror(errno));
        }
    }
    return 0;
}

int cw_oob_send(struct cw_oob *oob, enum cw_oob_type type, const void *payload, size_t length)
{
    uint8_t head[8];

    put_u32(head, type);
    put_u32(head + 4, (uint32_t)length);
    if (send_all(oob, head, sizeof(head)) != 0) {
        return -1;
    }
    return send_all(oob, payload, length);
}

int cw_oob_recv(struct cw_oob *oob, unsigned types, enum cw_oob_type *type, void **payload, size_t *length)
{
    uint8_t head[8];

    if (recv_all(oob, head, sizeof(head)) != 0) {
        return -1;
    }
    uint32_t got_type = get_u32(head);
    uint32_t got_length = get_u32(head + 4);
    if (got_type == 0 || got_type > CW_OOB_LAST || got_length > CW_OOB_MAX_PAYLOAD) {
        return cw_oob_fail("it sends what is no message");
    }
    char *data = malloc((size_t)got_length + 1);
    if (data == NULL) {
        return cw_oob_fail("out of memory for a message of %u bytes", got_length);
    }
    if (recv_all(oob, data, got_length) != 0) {
        free(data);
        return -1;
    }
    data[got_length] = '\0';
    if (got_type == CW_OOB_ERROR) {
        cw_oob_fail(REPORTS "%s", data);
        free(data);
        return -1;
    }
    if ((types & (1u << got_type)) == 0) {
        free(data);
        return cw_oob_fail("the peer sent an unexpected message (type %u)", got_type);
    }
    *type = got_type;
    *payload = data;
    *length = got_length;
    return 0;
}

int cw_oob_barrier(struct cw_oob *oob)
{
    enum cw_oob_type type;
    void *payload = NULL;
    size_t length;

    if (cw_oob_send(oob, CW_OOB_BARRIER, NULL, 0) != 0 ||
        cw_oob_recv(oob, 1u << CW_OOB_BARRIER, &type, &payload, &length) != 0) {
        return -1;
    }
    free(payload);
    return 0;
}

int cw_oob_check(struct cw_oob *oob, bool *readable)
{
    uint8_t head[8];
    ssize_t got = recv(oob->fd, head, sizeof(head), MSG_PEEK);

    *readable = got > 0;
    if (got == 0) {
        return cw_oob_fail("the peer closed the connection before the test was over");
    }
    if (got < 0 && errno != EAGAIN && errno != EINTR) {
        return cw_oob_fail("the connection to the peer failed: %s", strerror(errno));
    }
    if (got == (ssize_t)sizeof(head) && get_u32(head) == CW_OOB_ERROR) {
        enum cw_oob_type type;
        void *payload;
        size_t length;
        return cw_oob_recv(oob, 0, &type, &payload, &length);
    }
    return 0;
}

/* A few letters of another program; the payload ends with a zero byte (cw_oob_recv()). */
static const char *release_of(const uint8_t *hello, size_t length)
{
    const char *text = (const char *)hello + HELLO_V2;

    if (length <= HELLO_V2 || strspn(text, "0123456789.abcdefghijklmnopqrstuvwxyz-+~") != strlen(text) ||
        strlen(text) > RELEASE_MOST) {
        return "unknown";
    }
    return text;
}

/* What the peer says of itself: magic (8), version (4), since version 2 token (16) and release (the rest). */
static int check_hello(const struct cw_oob *oob, const uint8_t *hello, size_t length)
{
    if (length < HELLO_V1 || memcmp(hello, magic, 8) != 0) {
        return cw_oob_fail("the peer does not speak this tool's protocol");
    }
    if (get_u32(hello + 8) != CW_OOB_VERSION) {
        return cw_oob_fail("the peer's tool is another release (%s, protocol version %u) than this one (%s, version "
                           "%u): use the same one on both sides",
                           release_of(hello, length), get_u32(hello + 8), CW_TOOL_RELEASE, CW_OOB_VERSION);
    }
    if (length < HELLO_V2 || memcmp(hello + HELLO_V1, oob->token, sizeof(oob->token)) != 0) {
        return cw_oob_fail("the peer belongs to another job than this process");
    }
    return 0;
}

/* UCX's tool waits for numbers of its own, sends some, or closes. What a peer of this kind reports stays. */
static int no_hello(void)
{
    char reason[sizeof(error_text)];

    memcpy(reason, error_text, sizeof(reason));
    if (strncmp(reason, REPORTS, sizeof(REPORTS) - 1) == 0) {
        return -1;
    }
    return cw_oob_fail("the peer does not speak this tool's protocol (%.200s): it is UCX's own tool, or another "
                       "program; run this one on both sides", reason);
}

static int exchange_hello(struct cw_oob *oob)
{
    uint8_t hello[HELLO_V2 + sizeof(CW_TOOL_RELEASE)];
    enum cw_oob_type type;
    void *payload = NULL;
    size_t length = 0;

    memcpy(hello, magic, 8);
    put_u32(hello + 8, CW_OOB_VERSION);
    memcpy(hello + HELLO_V1, oob->token, sizeof(oob->token));
    memcpy(hello + HELLO_V2, CW_TOOL_RELEASE, sizeof(CW_TOOL_RELEASE));
    if (cw_oob_send(oob, CW_OOB_HELLO, hello, sizeof(hello)) != 0 ||
        cw_oob_recv(oob, 1u << CW_OOB_HELLO, &type, &payload, &length) != 0) {
        return no_hello();
    }
    int status = check_hello(oob, payload, length);
    free(payload);
    return status;
}

static int setup_socket(struct cw_oob *oob)
{
    int one = 1;

    setsockopt(oob->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return exchange_hello(oob);
}

static void print_accepted(const struct sockaddr_storage *address, socklen_t length)
{
    char host[NI_MAXHOST], port[NI_MAXSERV];

    if (getnameinfo((const struct sockaddr *)address, length, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) == 0) {
        printf("Accepted connection from %s:%s\n", host, port);
        fflush(stdout);
    }
}

int cw_oob_listen(int family, unsigned port)
{
    int one = 1, zero = 0;
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port), .sin6_addr = in6addr_any};
    struct sockaddr_in in4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    const struct sockaddr *address = family == AF_INET6 ? (struct sockaddr *)&in6 : (struct sockaddr *)&in4;
    socklen_t length = family == AF_INET6 ? sizeof(in6) : sizeof(in4);

    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return cw_oob_fail("no socket for waiting: %s", strerror(errno));
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (family == AF_INET6) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
    }
    if (bind(fd, address, length) != 0 || listen(fd, 64) != 0) {
        cw_oob_fail("cannot listen on port %u: %s (choose another one with -p)", port, strerror(errno));
        close(fd);
        return -1;
    }
    return fd;
}

unsigned cw_oob_port(int listener)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof(address);

    memset(&address, 0, sizeof(address));
    if (getsockname(listener, (struct sockaddr *)&address, &length) != 0) {
        return 0;
    }
    return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                               : ((struct sockaddr_in *)&address)->sin_port);
}

int cw_oob_accept_at(struct cw_oob *oob, int listener, int wait_timeout_ms, int timeout_ms, bool announce)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof(address);
    struct cw_oob waiting = {.fd = listener, .timeout_ms = wait_timeout_ms};
    uint64_t deadline_ns = deadline_after(wait_timeout_ms);
    int fd = -1;

    while (fd < 0) {
        if (wait_for(&waiting, POLLIN, deadline_ns) != 0) {
            return cw_oob_fail("no client connected within %d seconds", wait_timeout_ms / 1000);
        }
        fd = accept4(listener, (struct sockaddr *)&address, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
            return cw_oob_fail("accept failed: %s", strerror(errno));
        }
    }
    oob->fd = fd;
    oob->timeout_ms = timeout_ms;
    if (announce) {
        print_accepted(&address, length);
    }
    if (setup_socket(oob) != 0) {
        cw_oob_close(oob);
        return -1;
    }
    return 0;
}

int cw_oob_accept(struct cw_oob *oob, int family, unsigned port, int wait_timeout_ms, int timeout_ms)
{
    int listener = cw_oob_listen(family, port);

    if (listener < 0) {
        return -1;
    }
    printf("Waiting for connection...\n");
    fflush(stdout);
    int result = cw_oob_accept_at(oob, listener, wait_timeout_ms, timeout_ms, true);
    close(listener);
    return result;
}

static int connect_failed(struct cw_oob *oob, const char *host, unsigned port, int error)
{
    cw_oob_fail("cannot connect to %s, port %u: %s%s", host, port, strerror(error),
                (error == ECONNREFUSED) ? " (is the server started, on this port (-p)?)" : "");
    cw_oob_close(oob);
    return -1;
}

static int connect_one(struct cw_oob *oob, const struct addrinfo *info, const char *host, unsigned port, int timeout_ms)
{
    int error = 0;
    socklen_t length = sizeof(error);
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return cw_oob_fail("no socket: %s", strerror(errno));
    }
    oob->fd = fd;
    oob->timeout_ms = timeout_ms;
    if (connect(fd, info->ai_addr, info->ai_addrlen) != 0) {
        if (errno != EINPROGRESS) {
            return connect_failed(oob, host, port, errno);
        }
        if (wait_for(oob, POLLOUT, deadline_after(timeout_ms)) != 0) {
            cw_oob_close(oob);
            return -1;
        }
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
        if (error != 0) {
            return connect_failed(oob, host, port, error);
        }
    }
    return 0;
}

int cw_oob_connect(struct cw_oob *oob, int family, const char *host, unsigned port, int timeout_ms)
{
    struct addrinfo hints = {.ai_family = family, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    char service[16];

    snprintf(service, sizeof(service), "%u", port);
    int status = getaddrinfo(host, service, &hints, &found);
    if (status != 0) {
        return cw_oob_fail("no address for host '%s': %s", host, gai_strerror(status));
    }
    status = cw_oob_fail("host '%s' has no usable address", host);
    for (struct addrinfo *info = found; info != NULL && status != 0; info = info->ai_next) {
        status = connect_one(oob, info, host, port, timeout_ms);
    }
    freeaddrinfo(found);
    if (status != 0) {
        return -1;
    }
    if (setup_socket(oob) != 0) {
        cw_oob_close(oob);
        return -1;
    }
    return 0;
}

bool cw_oob_is_local(const struct cw_oob *oob)
{
    struct sockaddr_storage here, there;
    socklen_t here_length = sizeof(here), there_length = sizeof(there);

    memset(&here, 0, sizeof(here));
    memset(&there, 0, sizeof(there));
    if (getsockname(oob->fd, (struct sockaddr *)&here, &here_length) != 0 ||
        getpeername(oob->fd, (struct sockaddr *)&there, &there_length) != 0) {
        return false;
    }
    if (here.ss_family == AF_INET6) {
        return memcmp(&((struct sockaddr_in6 *)&here)->sin6_addr, &((struct sockaddr_in6 *)&there)->sin6_addr,
                      sizeof(struct in6_addr)) == 0;
    }
    return here.ss_family != AF_INET ||
           ((struct sockaddr_in *)&here)->sin_addr.s_addr == ((struct sockaddr_in *)&there)->sin_addr.s_addr;
}

void cw_oob_give_up(struct cw_oob *oob, const char *sentence)
{
    char waste[256];
    struct pollfd item = {.fd = oob->fd, .events = POLLIN};

    oob->idle = NULL;
    if (oob->fd >= 0 && cw_oob_send(oob, CW_OOB_ERROR, sentence, strlen(sentence)) == 0) {
        /* A close with unread bytes would reset the connection and could overtake the sentence. */
        shutdown(oob->fd, SHUT_WR);
        while (poll(&item, 1, 1000) > 0 && recv(oob->fd, waste, sizeof(waste), 0) > 0) {
        }
    }
    cw_oob_close(oob);
}

void cw_oob_close(struct cw_oob *oob)
{
    if (oob->fd >= 0) {
        close(oob->fd);
    }
    oob->fd = -1;
}
