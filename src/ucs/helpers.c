/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helpers that programs of UCP borrow from libucs although they are not part of its interface (io_demo does).
 * Callers: programs alone.
 * Invariants: no lock, no allocation; callable from any thread at any time.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <ucs/debug/memtrack.h>
#include <ucs/sys/sock.h>

const char *ucs_sockaddr_str(const struct sockaddr *sock_addr, char *str, size_t max_size)
{
    char host[INET6_ADDRSTRLEN];
    struct sockaddr_in6 v6;
    struct sockaddr_in v4;

    if (sock_addr == NULL) {
        snprintf(str, max_size, "<null>");
    } else if (sock_addr->sa_family == AF_INET) {
        memcpy(&v4, sock_addr, sizeof(v4)); /* the caller's may lie anywhere */
        snprintf(str, max_size, "%s:%u", inet_ntop(AF_INET, &v4.sin_addr, host, sizeof(host)), ntohs(v4.sin_port));
    } else if (sock_addr->sa_family == AF_INET6) {
        memcpy(&v6, sock_addr, sizeof(v6));
        snprintf(str, max_size, "%s:%u", inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof(host)), ntohs(v6.sin6_port));
    } else {
        snprintf(str, max_size, "<invalid address family>");
    }
    return str;
}

void ucs_memtrack_allocated(void *ptr, size_t size, const char *name)
{
    (void)ptr;
    (void)size;
    (void)name;
}

void ucs_memtrack_releasing(void *ptr)
{
    (void)ptr;
}
