/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unix sockets that carry whole messages with descriptors: two processes of one machine use them to negotiate shared
 * memory. All sockets are non-blocking and close-on-exec. A name lies in the abstract namespace (nothing on disk)
 * unless a directory is given, for containers that share only that directory.
 */
#ifndef CW_OS_UNIX_SOCKET_H
#define CW_OS_UNIX_SOCKET_H

#include <stddef.h>
#include <stdint.h>

#include "ucs/type/status.h"

/* Listens under a name derived from the token. directory NULL or "": abstract. UCS_ERR_IO_ERROR, UCS_ERR_NO_DEVICE (its
 * name is too long), with the reason in the log. */
ucs_status_t cw_unix_listen(const char *directory, uint64_t token, int *fd_p);
/* Removes the name of a listening socket from the directory, if there is one. */
void cw_unix_unlink(const char *directory, uint64_t token);
/* Removes names left in the directory by processes that were killed. */
void cw_unix_sweep(const char *directory);

/* A number that two processes share if, and only if, names in this directory mean the same to both; 0 when the
 * directory cannot be used. */
uint64_t cw_unix_directory_id(const char *directory);
/* As cw_host_why_apart, for two such numbers. */
const char *cw_unix_why_apart(const char *directory, uint64_t ours, uint64_t theirs);

/* Starts to connect. UCS_ERR_BUSY: the listener's backlog is full, try later; UCS_ERR_NO_RESOURCE: no descriptors;
 * UCS_ERR_UNREACHABLE: no listener; UCS_ERR_REJECTED: another user's process. */
ucs_status_t cw_unix_connect(const char *directory, uint64_t token, int *fd_p);

/* UCS_ERR_NO_ELEM: the backlog is empty; UCS_ERR_NO_RESOURCE: the kernel accepts none now, errno is set;
 * UCS_ERR_REJECTED: another user's process, already dropped. */
ucs_status_t cw_unix_accept(int listen_fd, int *fd_p);

/* No call below blocks, whatever the peer does: each socket is one end of a connection, so no state of it is shared
 * with the peer, and each call is non-blocking by a flag of its own. */

/* A message; with a descriptor, which stays the caller's, unless fd_sent is -1. UCS_ERR_CONNECTION_RESET: the peer is
 * gone; UCS_ERR_NO_RESOURCE: the kernel refuses it, the reason is logged. */
ucs_status_t cw_unix_send(int fd, const void *data, size_t length, int fd_sent);

/* A message; *length_p is the capacity on entry. A descriptor that arrived with it becomes the caller's, *fd_p is -1 if
 * none did. UCS_ERR_NO_ELEM: nothing there; UCS_ERR_CONNECTION_RESET: the peer is gone; UCS_ERR_INVALID_PARAM: too long
 * a message, or too many descriptors; UCS_ERR_NO_RESOURCE: this process is out of descriptors. */
ucs_status_t cw_unix_recv(int fd, void *data, size_t *length_p, int *fd_p);

/* Closes an unwanted descriptor from a peer; it is -1 afterwards. */
void cw_unix_discard(int *fd_p);

/* A byte notifies the peer to poll the memory. Sending returns 0 when the connection is at its end, or the kernel is
 * out of memory. If the socket buffer is full, enough bytes wait there already, and the call succeeds. */
int cw_unix_send_byte(int fd);

/* The process at the other end of a connected socket: the one that connected or listened. 0: there is none with a
 * process id here, such as one in another pid namespace. */
int cw_unix_peer_pid(int fd);

/* Ends a connection, or listening, for both sides, even if a forked child still holds the descriptor. */
void cw_unix_close(int fd);

void cw_fd_close(int fd);
/* Makes a descriptor that another library has opened close-on-exec. */
void cw_fd_hide(int fd);

#endif
