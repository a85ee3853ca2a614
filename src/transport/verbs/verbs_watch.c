/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Watches the processes of peers. A device reports the death of a peer only when its retries are exhausted, and on an
 * idle connection not at all, so a watched connection over Ethernet also watches the peer's process by TCP
 * (os/watch.h). The port is part of the RDMA address; the IP address is that of the GID that the device has verified to
 * be the peer's. All connections to an interface share one watch.
 */
#include <stdlib.h>
#include <string.h>

#include "transport/verbs/verbs_conn.h"

struct cw_verbs_process {
    struct cw_hash_link link; /* iface->processes */
    struct cw_watch watch;
    struct cw_verbs_iface *iface;
    unsigned references;
    uint16_t port;
    uint8_t gid[16];
};

_Static_assert(CW_VERBS_MAX_GIDS <= CW_WATCH_ADDRESSES, "each GID has a socket");

void cw_verbs_watch_open(struct cw_verbs_iface *iface)
{
    struct cw_net_address address;
    unsigned i;

    cw_watch_listener_init(&iface->watched, iface->poller, &iface->num_conns);
    if (!iface->port.address.ethernet || iface->settings.keepalive_ns == UINT64_MAX) {
        return;
    }
    for (i = 0; i < iface->port.address.num_gids; i++) {
        if (cw_verbs_gid_address(iface->port.address.gids[i], &address) &&
            !cw_watch_listen(&iface->watched, &address)) {
            cw_debug("%s: GID %u: cannot listen for peers that watch this "
                     "process", iface->port.name, iface->port.gid_indices[i]);
        }
    }
}

static void on_ended(struct cw_watch *watch, ucs_status_t status, const char *why)
{
    struct cw_verbs_process *process = cw_container_of(watch, struct cw_verbs_process, watch);
    struct cw_verbs_conn *conn;

    process->iface->drained = 0; /* deliver received packets before the end */
    cw_list_for_each(conn, &process->iface->conns, struct cw_verbs_conn, link)
    {
        if (conn->process == process) {
            conn->lost = why;
            conn->lost_status = status;
            cw_verbs_conn_due(conn);
        }
    }
}

static struct cw_verbs_process *find(const struct cw_verbs_iface *iface, const struct cw_verbs_address *peer,
                                     const uint8_t gid[16])
{
    struct cw_hash_link *link = cw_hash_find(&iface->processes, peer->key);
    struct cw_verbs_process *process;

    for (; link != NULL; link = cw_hash_next(link)) {
        process = cw_container_of(link, struct cw_verbs_process, link);
        if (process->port == peer->watch_port && memcmp(process->gid, gid, sizeof(process->gid)) == 0) {
            return process;
        }
    }
    return NULL;
}

void cw_verbs_watch_begin(struct cw_verbs_conn *conn)
{
    struct cw_verbs_iface *iface = cw_verbs_iface_of(&conn->super);
    const uint8_t *gid = conn->peer.gids[conn->peer_gid];
    struct cw_verbs_process *process;
    struct cw_net_address ours, theirs;

    if ((!conn->is_watched && conn->state != CW_VERBS_REOPENING) ||
        (conn->state != CW_VERBS_OPEN && conn->epoch == 0) || conn->process != NULL ||
        conn->peer.watch_port == 0 ||
        iface->settings.keepalive_ns == UINT64_MAX || !cw_verbs_gid_address(gid, &theirs) ||
        !cw_verbs_gid_address(iface->local.gids[conn->gid_index], &ours)) {
        return;
    }
    process = find(iface, &conn->peer, gid);
    if (process == NULL) {
        process = calloc(1, sizeof(*process));
        if (process == NULL) {
            return;
        }
        process->iface = iface;
        process->port = conn->peer.watch_port;
        process->watch.ended = on_ended;
        process->watch.wakes = 1;
        memcpy(process->gid, gid, sizeof(process->gid));
        cw_hash_add(&iface->processes, &process->link, conn->peer.key);
        cw_watch_init(&process->watch, iface->poller);
        theirs.port = process->port;
        cw_watch_begin(&process->watch, &theirs, &ours, iface->settings.keepalive_ns);
    } else if (conn->state == CW_VERBS_OPEN) {
        cw_watch_heard(&process->watch);
    }
    process->references++;
    conn->process = process;
}

bool cw_verbs_is_seen(const struct cw_verbs_conn *conn)
{
    return conn->process != NULL && conn->process->watch.is_seen;
}

void cw_verbs_watch_end(struct cw_verbs_conn *conn)
{
    struct cw_verbs_process *process = conn->process;

    conn->process = NULL;
    if (process != NULL && --process->references == 0) {
        cw_watch_end(&process->watch);
        cw_hash_remove(&process->iface->processes, &process->link);
        free(process);
    }
}
