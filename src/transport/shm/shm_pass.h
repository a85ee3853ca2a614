/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages on the socket of an OPEN connection: passed descriptors, and wakeups.
 */
#ifndef CW_TRANSPORT_SHM_SHM_PASS_H
#define CW_TRANSPORT_SHM_SHM_PASS_H

#include "transport/shm/shm.h"

/* Reads a message from the socket. 1: one was read, -1: none, 0: the peer is gone. */
int cw_shm_take_message(struct shm_conn *conn);
int cw_shm_pass(struct cw_conn *conn, uint64_t number, int fd);
int cw_shm_take_fd(struct cw_conn *conn, uint64_t number);
/* Closes the descriptors that were received and not taken. */
void cw_shm_pass_end(struct shm_conn *conn);

#endif
