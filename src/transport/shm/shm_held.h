/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes of this machine that keep this one waiting where microseconds are usual. Callers: shm_peer.c around copies;
 * the core, by the slot peer_excused, where it waits for a word on a claim pair.
 */
#ifndef CW_TRANSPORT_SHM_SHM_HELD_H
#define CW_TRANSPORT_SHM_SHM_HELD_H

#include "transport/shm/shm.h"

struct shm_watch {
    uint64_t begin_ns;
    uint64_t sleeps;
};

/* The slot `peer_excused` of the transport's table. */
int cw_shm_peer_excused(struct cw_conn *conn, uint64_t waited_ns);

/* To be called before and after the system copies this many bytes: a peer that has used up its allowance gets
 * conn->distrusted and no copies from then on. */
void cw_shm_watch_begin(const struct shm_conn *conn, struct shm_watch *watch);
void cw_shm_watch_end(struct shm_conn *conn, const struct shm_watch *watch, size_t bytes);

#endif
