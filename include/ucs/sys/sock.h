/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one helper for addresses that programs take from libucs. The reference library's others, which open and read
 * sockets, are not part of the UCP interface and not here.
 */
#ifndef UCS_SOCKET_H
#define UCS_SOCKET_H

#include <stddef.h>
#include <sys/socket.h>
#include <ucs/sys/compiler_def.h>

BEGIN_C_DECLS
#pragma GCC visibility push(default)

/**
 * Writes an address as ADDRESS:PORT into a string, cut short where it is too small.
 *
 * @param sock_addr  An address of IPv4 or IPv6, or NULL.
 * @param str        Where to write; closed by a zero in any case.
 * @param max_size   Size of str.
 *
 * @return str, which holds "<null>" for NULL and "<invalid address family>" for addresses of another family.
 */
const char *ucs_sockaddr_str(const struct sockaddr *sock_addr, char *str, size_t max_size);

#pragma GCC visibility pop
END_C_DECLS

#endif
