/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internet sockets and interfaces. Every socket is non-blocking and close-on-exec; no call blocks, EINTR is retried and
 * SIGPIPE never raised. Functions that can fail with a system error return a negative errno value. Thread safe as the
 * system calls are.
 */
#ifndef CW_OS_NET_H
#define CW_OS_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#define CW_NET_NAME_MAX 16 /* interface name with NUL */
#define CW_NET_TEXT_MAX 64 /* "[address]:port" with NUL */

enum cw_net_family { CW_NET_NONE = 0, CW_NET_IPV4 = 4, CW_NET_IPV6 = 6 };

struct cw_net_address {
    uint8_t family;    /* enum cw_net_family */
    uint16_t port;     /* host byte order */
    uint8_t bytes[16]; /* network byte order; the first four of IPv4 */
    uint32_t scope;    /* interface of a link-local IPv6 address; 0: none */
};

/* An address of an interface that is up and running. */
struct cw_net_interface {
    char name[CW_NET_NAME_MAX];
    int loopback;
    unsigned prefix_bits;
    struct cw_net_address address; /* port 0; never link-local IPv6, which is meaningless without its interface */
};

/* Keepalive: how the kernel probes an idle connection. */
struct cw_net_keepalive {
    unsigned idle_s;            /* time without traffic before the first probe; 0: no probes */
    unsigned interval_s;        /* interval between probes */
    unsigned count;             /* number of unanswered ones that end the connection with ETIMEDOUT */
};

struct cw_net_options {
    int nodelay;
    size_t sndbuf;              /* bytes; 0: the kernel's default, here and below */
    size_t rcvbuf;
    unsigned syn_retries;
    struct cw_net_keepalive keepalive;  /* also of the connections that a listener accepts, as is ... */
    uint64_t user_timeout_ms;           /* cw_net_set_user_timeout */
    int backlog;                        /* of listeners; 0: the kernel's maximum */
    const struct cw_net_address *source; /* of connections; NULL: the kernel's default */
};

struct sockaddr;
struct sockaddr_storage;

/* The length of an internet address of that family in a program's memory; 0: `from`, of `length` bytes, is no internet
 * address. */
size_t cw_net_sockaddr_size(const struct sockaddr *from, size_t length);
/* `from` is an internet address of full length. */
void cw_net_from_sockaddr(const struct sockaddr *from, struct cw_net_address *address);
void cw_net_to_sockaddr(const struct cw_net_address *address, struct sockaddr_storage *to);
/* Both ends of a connected socket; CW_NET_NONE when it is gone. */
void cw_net_ends(int fd, struct cw_net_address *local, struct cw_net_address *peer);

/* Lists addresses in the kernel's order, at most `max`; returns their number, or -errno. Interfaces without a carrier
 * are omitted. */
int cw_net_interfaces(struct cw_net_interface *list, unsigned max);
/* Names of all interfaces, also of those without addresses, at most `max`; returns their number. */
unsigned cw_net_names(char (*names)[CW_NET_NAME_MAX], unsigned max);
/* Log text: why cw_net_interfaces lists no address of the interface. */
const char *cw_net_why_unlisted(const char *interface_name);
/* Whether the driver of the device is a bridge; the name does not matter. */
bool cw_net_is_bridge(const char *interface_name);
/* Whether the interface has a default route out of this host. */
bool cw_net_has_default_route(const char *interface_name);
/* The interface of the IPv4 default route with the lowest metric; "" when there is none. */
void cw_net_default_interface(char name[CW_NET_NAME_MAX]);

/* Whether the first `bits` bits agree. */
int cw_net_same_subnet(const struct cw_net_address *left, const struct cw_net_address *right, unsigned bits);
bool cw_net_is_loopback(const struct cw_net_address *address);
/* "10.0.0.5:4711", "[fe80::1]:4711". */
void cw_net_format(const struct cw_net_address *address, char text[CW_NET_TEXT_MAX]);
/* The other end of a connected socket; "an unknown address" when it is gone. */
void cw_net_peer_text(int fd, char text[CW_NET_TEXT_MAX]);

/*
 * A listening socket on that address and port (0: any free one); family CW_NET_IPV6 with an all-zero address accepts
 * IPv4 connections, too. The port goes to *port_p. `reuse` allows a port in TIME_WAIT. Accepted sockets inherit the
 * options. Returns the descriptor or -errno.
 */
int cw_net_listen(const struct cw_net_address *address, int reuse, const struct cw_net_options *options,
                  uint16_t *port_p);
/* The next connection; -EAGAIN: none. Connections that failed in the backlog are skipped. */
int cw_net_accept(int fd);
/* Starts to connect. *connected reports whether it is established already; otherwise the descriptor becomes
 * writable. */
int cw_net_connect(const struct cw_net_address *address, const struct cw_net_options *options, int *connected);
/* 0 or -errno of a finished attempt; -EINPROGRESS. */
int cw_net_connect_result(int fd);

/* Bytes moved, or -errno. Shortage of system memory is reported as -EAGAIN. 0 from recv: the peer has sent FIN. */
ssize_t cw_net_send(int fd, const void *data, size_t length);
ssize_t cw_net_sendv(int fd, const struct iovec *iov, unsigned count);
/* As cw_net_sendv, with more bytes to follow at once: a segment that is not full may wait for them, or for
 * cw_net_push. */
ssize_t cw_net_sendv_more(int fd, const struct iovec *iov, unsigned count);
void cw_net_push(int fd);
ssize_t cw_net_recv(int fd, void *data, size_t length);
ssize_t cw_net_recvv(int fd, const struct iovec *iov, unsigned count);

void cw_net_keepalive(int fd, const struct cw_net_keepalive *keepalive);
/* How long sent bytes may stay unacknowledged by the peer's kernel; also how long the peer may leave them unread. 0:
 * the kernel's default. */
void cw_net_set_user_timeout(int fd, uint64_t timeout_ms);
uint64_t cw_net_user_timeout(int fd);
/* Whether the peer's kernel has not answered a segment that was sent more than twice, and has answered nothing else
 * within this time. */
bool cw_net_is_unanswered(int fd, uint64_t within_ms);
/* A later close drops bytes that the peer did not acknowledge, and resets the connection. */
void cw_net_forget(int fd);
/* Shuts down the direction to the peer: no more bytes will be sent. */
void cw_net_finish(int fd);
/* Discards received bytes, at most `max`. 1: the peer ended the connection; 0: it may send more. */
int cw_net_discard(int fd, size_t max);
/* Bytes that the peer's kernel has not acknowledged yet. */
size_t cw_net_unacknowledged(int fd);
/* The part of these bytes that the kernel has not sent at all, because the peer's receive window is full. */
size_t cw_net_unsent(int fd);
/* The socket accepts no more bytes while this many are not sent to the network yet, if the kernel supports that. */
void cw_net_limit_unsent(int fd, unsigned bytes);
/* The socket becomes readable when that many bytes have come, or at its end. */
void cw_net_readable_at(int fd, unsigned bytes);
/* Sleeps until the descriptor is readable or timeout_ms passed. */
void cw_net_wait_readable(int fd, int timeout_ms);
void cw_net_close(int fd);
/* The listening socket accepts no more connections, and the port is free even if a forked child still holds the
 * descriptor. */
void cw_net_unlisten(int fd);

#endif
