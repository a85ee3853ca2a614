/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helpers that programs of UCP borrow from libucs although they are not part of its interface.
 *
 * Invariants: no lock, and no allocation unless requested; callable from any thread at any time.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <ucs/debug/memtrack.h>
#include <ucs/sys/sock.h>
#include <ucs/sys/string.h>
#include <ucs/sys/uid.h>

#include "os/host.h"

const char *ucs_sockaddr_str(const struct sockaddr *sock_addr, char *str, size_t max_size)
{
    char host[INET6_ADDRSTRLEN];
    struct sockaddr_in6 v6;
    struct sockaddr_in v4;

    if (sock_addr == NULL) {
        snprintf(str, max_size, "<null>");
    } else if (sock_addr->sa_family == AF_INET) {
        memcpy(&v4, sock_addr, sizeof(v4)); /* the caller's address may have any alignment */
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

void *ucs_malloc(size_t size, const char *name)
{
    (void)name;
    return malloc(size);
}

void ucs_free(void *ptr)
{
    free(ptr);
}

ssize_t ucs_string_find_in_list(const char *str, const char **list, int case_sensitive)
{
    ssize_t index;

    for (index = 0; list[index] != NULL; index++) {
        if ((case_sensitive ? strcmp(list[index], str) : strcasecmp(list[index], str)) == 0) {
            return index;
        }
    }
    return -1;
}

uint64_t ucs_get_system_id(void)
{
    return cw_host_boot_id();
}
