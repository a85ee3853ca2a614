/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * os/net.h on Linux sockets.
 */
#include "os/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOOPBACK_UNSENT (64u << 10)

union socket_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static socklen_t to_socket_address(const struct cw_net_address *address, union socket_address *to)
{
    memset(to, 0, sizeof(*to));
    if (address->family == CW_NET_IPV4) {
        to->v4.sin_family = AF_INET;
        to->v4.sin_port = htons(address->port);
        memcpy(&to->v4.sin_addr, address->bytes, 4);
        return sizeof(to->v4);
    }
    to->v6.sin6_family = AF_INET6;
    to->v6.sin6_port = htons(address->port);
    to->v6.sin6_scope_id = address->scope;
    memcpy(&to->v6.sin6_addr, address->bytes, 16);
    return sizeof(to->v6);
}

/* An IPv4-mapped IPv6 address is returned as IPv4. family CW_NET_NONE: another kind of address. */
static void from_socket_address(const struct sockaddr *from, struct cw_net_address *address)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)from;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)from;

    memset(address, 0, sizeof(*address));
    if (from->sa_family == AF_INET) {
        address->family = CW_NET_IPV4;
        address->port = ntohs(v4->sin_port);
        memcpy(address->bytes, &v4->sin_addr, 4);
    } else if (from->sa_family == AF_INET6) {
        address->port = ntohs(v6->sin6_port);
        if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
            address->family = CW_NET_IPV4;
            memcpy(address->bytes, v6->sin6_addr.s6_addr + 12, 4);
        } else {
            address->family = CW_NET_IPV6;
            memcpy(address->bytes, &v6->sin6_addr, 16);
            address->scope = v6->sin6_scope_id;
        }
    }
}

size_t cw_net_sockaddr_size(const struct sockaddr *from, size_t length)
{
    if (length < offsetof(struct sockaddr, sa_family) + sizeof(from->sa_family)) {
        return 0;
    }
    if (from->sa_family == AF_INET) {
        return sizeof(struct sockaddr_in);
    }
    return (from->sa_family == AF_INET6) ? sizeof(struct sockaddr_in6) : 0;
}

void cw_net_from_sockaddr(const struct sockaddr *from, struct cw_net_address *address)
{
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)from;

    from_socket_address(from, address);
    if (from->sa_family == AF_INET6 && address->family == CW_NET_IPV4) { /* kept as IPv6, because the program may listen
                                                                            on it */
        address->family = CW_NET_IPV6;
        memcpy(address->bytes, &v6->sin6_addr, 16);
    }
}

void cw_net_to_sockaddr(const struct cw_net_address *address, struct sockaddr_storage *to)
{
    union socket_address name;
    const socklen_t length = to_socket_address(address, &name);

    memset(to, 0, sizeof(*to));
    memcpy(to, &name, length);
}

void cw_net_ends(int fd, struct cw_net_address *local, struct cw_net_address *peer)
{
    union socket_address name;
    socklen_t length = sizeof(name);

    memset(&name, 0, sizeof(name));
    memset(local, 0, sizeof(*local));
    memset(peer, 0, sizeof(*peer));
    if (getsockname(fd, &name.any, &length) == 0) {
        from_socket_address(&name.any, local);
    }
    length = sizeof(name);
    if (getpeername(fd, &name.any, &length) == 0) {
        from_socket_address(&name.any, peer);
    }
}

int cw_net_same_subnet(const struct cw_net_address *left, const struct cw_net_address *right, unsigned bits)
{
    const unsigned bytes = bits / 8;
    const unsigned rest = bits % 8;

    if (left->family != right->family || bits > ((left->family == CW_NET_IPV4) ? 32u : 128u)) {
        return 0;
    }
    return memcmp(left->bytes, right->bytes, bytes) == 0 &&
           (rest == 0 || ((left->bytes[bytes] ^ right->bytes[bytes]) >> (8 - rest)) == 0);
}

bool cw_net_is_loopback(const struct cw_net_address *address)
{
    static const uint8_t v6[16] = {[15] = 1};

    return (address->family == CW_NET_IPV4) ? address->bytes[0] == 127 : memcmp(address->bytes, v6, sizeof(v6)) == 0;
}

void cw_net_format(const struct cw_net_address *address, char text[CW_NET_TEXT_MAX])
{
    char name[INET6_ADDRSTRLEN] = "?";

    inet_ntop((address->family == CW_NET_IPV4) ? AF_INET : AF_INET6, address->bytes, name, sizeof(name));
    snprintf(text, CW_NET_TEXT_MAX, (address->family == CW_NET_IPV4) ? "%s:%u" : "[%s]:%u", name, address->port);
}

void cw_net_peer_text(int fd, char text[CW_NET_TEXT_MAX])
{
    struct cw_net_address address;
    union socket_address peer = {0};
    socklen_t length = sizeof(peer);

    if (getpeername(fd, &peer.any, &length) < 0 && /* getpeername knows no peer of a reset connection */
        getsockopt(fd, SOL_SOCKET, SO_PEERNAME, &peer, &length) < 0) {
        snprintf(text, CW_NET_TEXT_MAX, "an unknown address");
        return;
    }
    from_socket_address(&peer.any, &address);
    cw_net_format(&address, text);
}

static void set_option(int fd, int level, int option, size_t value)
{
    int number = (value > INT_MAX) ? INT_MAX : (int)value;

    /* All options are best effort: a connection works without them. */
    (void)setsockopt(fd, level, option, &number, sizeof(number));
}

void cw_net_keepalive(int fd, const struct cw_net_keepalive *keepalive)
{
    if (keepalive->idle_s != 0) {
        set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, keepalive->idle_s);
        set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, keepalive->interval_s);
        set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, keepalive->count);
        set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    }
}

static void set_options(int fd, const struct cw_net_options *options)
{
    if (options->nodelay) {
        set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    }
    if (options->sndbuf != 0) {
        set_option(fd, SOL_SOCKET, SO_SNDBUF, options->sndbuf);
    }
    if (options->rcvbuf != 0) {
        set_option(fd, SOL_SOCKET, SO_RCVBUF, options->rcvbuf);
    }
    if (options->syn_retries != 0) {
        set_option(fd, IPPROTO_TCP, TCP_SYNCNT, options->syn_retries);
    }
    if (options->user_timeout_ms != 0) {
        cw_net_set_user_timeout(fd, options->user_timeout_ms);
    }
    cw_net_keepalive(fd, &options->keepalive);
}

/* Loopback is never congested. The simplest algorithm costs least there; others compute a pace for each segment. Bytes
 * remain unsent only while the receiver is slower: then few of them, so that short packets do not wait for megabytes.
 * On a network they are what is sent while the program computes. */
static void set_loopback_options(int fd)
{
    static const char plainest[] = "reno";

    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, plainest, sizeof(plainest) - 1);
    cw_net_limit_unsent(fd, LOOPBACK_UNSENT);
}

void cw_net_set_user_timeout(int fd, uint64_t timeout_ms)
{
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, timeout_ms);
}

uint64_t cw_net_user_timeout(int fd)
{
    int timeout_ms = 0;
    socklen_t length = sizeof(timeout_ms);

    return (getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, &length) == 0) ? (uint64_t)timeout_ms : 0;
}

bool cw_net_is_unanswered(int fd, uint64_t within_ms)
{
    struct tcp_info info = {0};
    socklen_t length = sizeof(info);

    /* one probe may stay unanswered: kernels limit the rate of their answers */
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 &&
           (info.tcpi_retransmits > 1 || info.tcpi_probes > 1) && info.tcpi_last_ack_recv >= within_ms;
}

static int new_socket(const struct cw_net_address *address)
{
    int fd =
        socket((address->family == CW_NET_IPV4) ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    return (fd < 0) ? -errno : fd;
}

int cw_net_listen(const struct cw_net_address *address, int reuse, const struct cw_net_options *options,
                  uint16_t *port_p)
{
    struct cw_net_address bound;
    union socket_address name;
    socklen_t length = to_socket_address(address, &name);
    int fd = new_socket(address);
    const int off = 0;
    int error;

    if (fd < 0) {
        return fd;
    }
    if (reuse) {
        set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    }
    set_options(fd, options);
    if (address->family == CW_NET_IPV6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) < 0) {
        goto fail;
    }
    if (bind(fd, &name.any, length) < 0 || listen(fd, (options->backlog > 0) ? options->backlog : SOMAXCONN) < 0) {
        goto fail;
    }
    length = sizeof(name);
    if (getsockname(fd, &name.any, &length) < 0) {
        goto fail;
    }
    from_socket_address(&name.any, &bound);
    *port_p = bound.port;
    return fd;

fail:
    error = -errno;
    close(fd);
    return error;
}

int cw_net_accept(int fd)
{
    union socket_address peer = {0};
    struct cw_net_address address;
    socklen_t length;
    int new_fd;

    for (;;) {
        length = sizeof(peer);
        new_fd = accept4(fd, &peer.any, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (new_fd >= 0) {
            from_socket_address(&peer.any, &address);
            if (cw_net_is_loopback(&address)) {
                set_loopback_options(new_fd);
            }
            return new_fd;
        }
        switch (errno) {
        case EINTR:
        case ECONNABORTED:
        case EPROTO:
        case ENETDOWN:
        case ENOPROTOOPT:
        case EHOSTDOWN:
        case ENONET:
        case EHOSTUNREACH:
        case ENETUNREACH:
            continue; /* Linux reports here the error of the waiting connection, which is then gone */
        default:
            return -errno;
        }
    }
}

int cw_net_connect(const struct cw_net_address *address, const struct cw_net_options *options, int *connected)
{
    union socket_address name;
    const socklen_t length = to_socket_address(address, &name);
    const int fd = new_socket(address);
    union socket_address source;
    socklen_t source_length;
    int error;

    if (fd < 0) {
        return fd;
    }
    set_options(fd, options);
    if (cw_net_is_loopback(address)) {
        set_loopback_options(fd);
    }
    if (options->source != NULL) {
        source_length = to_socket_address(options->source, &source);
        if (bind(fd, &source.any, source_length) < 0) {
            error = -errno;
            close(fd);
            return error;
        }
    }
    if (connect(fd, &name.any, length) == 0) {
        *connected = 1;
        return fd;
    }
    if (errno == EINPROGRESS || errno == EINTR) {
        *connected = 0;
        return fd;
    }
    error = -errno;
    close(fd);
    return error;
}

int cw_net_connect_result(int fd)
{
    struct pollfd item = {.fd = fd, .events = POLLOUT};
    int error = 0;
    socklen_t length = sizeof(error);

    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0) {
        return -errno;
    }
    if (error != 0) {
        return -error;
    }
    return (poll(&item, 1, 0) == 1) ? 0 : -EINPROGRESS;
}

static ssize_t answer(ssize_t ret)
{
    if (ret >= 0) {
        return ret;
    }
    return (errno == ENOBUFS || errno == ENOMEM || errno == EWOULDBLOCK) ? -EAGAIN : -errno;
}

ssize_t cw_net_send(int fd, const void *data, size_t length)
{
    ssize_t ret;

    do {
        ret = send(fd, data, length, MSG_NOSIGNAL);
    } while (ret < 0 && errno == EINTR);
    return answer(ret);
}

static ssize_t send_parts(int fd, const struct iovec *iov, unsigned count, int flags)
{
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = count};
    ssize_t ret;

    do {
        ret = sendmsg(fd, &message, MSG_NOSIGNAL | flags);
    } while (ret < 0 && errno == EINTR);
    return answer(ret);
}

ssize_t cw_net_sendv(int fd, const struct iovec *iov, unsigned count)
{
    return send_parts(fd, iov, count, 0);
}

ssize_t cw_net_sendv_more(int fd, const struct iovec *iov, unsigned count)
{
    return send_parts(fd, iov, count, MSG_MORE);
}

void cw_net_push(int fd)
{
    set_option(fd, IPPROTO_TCP, TCP_CORK, 0);
}

ssize_t cw_net_recv(int fd, void *data, size_t length)
{
    ssize_t ret;

    do {
        ret = recv(fd, data, length, 0);
    } while (ret < 0 && errno == EINTR);
    return answer(ret);
}

ssize_t cw_net_recvv(int fd, const struct iovec *iov, unsigned count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = count};
    ssize_t ret;

    do {
        ret = recvmsg(fd, &message, 0);
    } while (ret < 0 && errno == EINTR);
    return answer(ret);
}

void cw_net_forget(int fd)
{
    const struct linger at_once = {.l_onoff = 1};

    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

void cw_net_finish(int fd)
{
    (void)shutdown(fd, SHUT_WR);
}

int cw_net_discard(int fd, size_t max)
{
    char bytes[4096];
    size_t done = 0;
    ssize_t ret;

    while (done < max) {
        ret = cw_net_recv(fd, bytes, sizeof(bytes));
        if (ret <= 0) {
            return ret != -EAGAIN;
        }
        done += (size_t)ret;
    }
    return 0;
}

size_t cw_net_unacknowledged(int fd)
{
    int bytes = 0;

    return (ioctl(fd, SIOCOUTQ, &bytes) < 0 || bytes < 0) ? 0 : (size_t)bytes;
}

size_t cw_net_unsent(int fd)
{
    int bytes = 0;

    return (ioctl(fd, SIOCOUTQNSD, &bytes) < 0 || bytes < 0) ? 0 : (size_t)bytes;
}

void cw_net_readable_at(int fd, unsigned bytes)
{
    set_option(fd, SOL_SOCKET, SO_RCVLOWAT, (int)bytes);
}

void cw_net_limit_unsent(int fd, unsigned bytes)
{
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof(bytes));
}

void cw_net_wait_readable(int fd, int timeout_ms)
{
    struct pollfd item = {.fd = fd, .events = POLLIN};

    (void)poll(&item, 1, timeout_ms);
}

void cw_net_close(int fd)
{
    close(fd);
}

void cw_net_unlisten(int fd)
{
    (void)shutdown(fd, SHUT_RDWR);
    close(fd);
}
