/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unix sockets that carry whole messages with descriptors: how two processes of one machine meet to share memory. All
 * sockets are non-blocking and close-on-exec. A name lies in the abstract name space (nothing on disk) unless a
 * directory is given, for containers that share only that.
 */
#ifndef CW_OS_UNIX_SOCKET_H
#define CW_OS_UNIX_SOCKET_H

#include <stddef.h>
#include <stdint.h>

#include "ucs/type/status.h"

#define CW_UNIX_MAX_FDS 2

/* Listens under a name made of the token. directory NULL or "": abstract. UCS_ERR_IO_ERROR, UCS_ERR_NO_DEVICE (its name
 * is too long), with the reason in the log. */
ucs_status_t cw_unix_listen(const char *directory, uint64_t token, int *fd_p);
/* Removes the name of a listening socket from the directory, if there is one. */
void cw_unix_unlink(const char *directory, uint64_t token);
/* Removes names left in the directory by processes that were killed. */
void cw_unix_sweep(const char *directory);

/* A number that two processes share if, and only if, names in this directory mean the same to both; 0 when the
 * directory cannot be used. */
uint64_t cw_unix_directory_id(const char *directory);

/* Starts to connect. UCS_ERR_BUSY: the listener's queue is full, try later; UCS_ERR_NO_RESOURCE: no descriptors;
 * UCS_ERR_UNREACHABLE: nobody there; UCS_ERR_REJECTED: another user's process. */
ucs_status_t cw_unix_connect(const char *directory, uint64_t token, int *fd_p);

/* UCS_ERR_NO_ELEM: nobody waits; UCS_ERR_NO_RESOURCE: no descriptors; UCS_ERR_REJECTED: another user's process, already
 * dropped. */
ucs_status_t cw_unix_accept(int listen_fd, int *fd_p);

/* One message with descriptors, which stay the caller's. UCS_ERR_BUSY: no room now; UCS_ERR_CONNECTION_RESET
 * otherwise. */
ucs_status_t cw_unix_send(int fd, const void *data, size_t length, const int *fds, unsigned num_fds);

/* One message; *length_p is the room on entry. Descriptors become the caller's; at most CW_UNIX_MAX_FDS, others are
 * closed. UCS_ERR_NO_ELEM: nothing there; UCS_ERR_CONNECTION_RESET: the peer is gone; UCS_ERR_INVALID_PARAM: too long a
 * message. */
ucs_status_t cw_unix_recv(int fd, void *data, size_t *length_p, int *fds, unsigned *num_fds_p);

/* A byte that only says: look. Taking: 1, or -1 when there is none, or 0 at the end of the connection. Sending: 0 when
 * the connection is at its end. Where so many wait that there is no room, one more would say nothing new. */
int cw_unix_take_byte(int fd);
int cw_unix_send_byte(int fd);

/* Whether the other side closed the connection or died; what it sent before may still be there. */
int cw_unix_is_ended(int fd);

/* The process at the other end of a connected socket: the one that connected or listened. 0: none that we could name,
 * such as one in another name space of processes. */
int cw_unix_peer_pid(int fd);

/* Whether a descriptor that came from a peer can be signalled: writing to it neither blocks nor raises a signal. */
int cw_event_is_safe(int fd);

/* Ends a connection, or listening, for both sides, even if a forked child still holds the descriptor. */
void cw_unix_close(int fd);

/* Adds 1 to an eventfd. Never blocks. */
void cw_event_signal(int fd);

void cw_fd_close(int fd);

#endif
