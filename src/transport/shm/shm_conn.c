/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections of the shared memory transport: memory layout, lists of the interface, close. shm_dial.c and shm_accept.c
 * set them up.
 */
#include "transport/shm/shm.h"

#include <stdlib.h>
#include <string.h>

#include "base/counter.h"
#include "base/string.h"
#include "os/segment.h"
#include "os/unix_socket.h"
#include "transport/shm/shm_pass.h"

static unsigned socket_ready(struct cw_poll_item *item, unsigned events);

void cw_shm_lay_out(struct shm_conn *conn, uint32_t first_bytes, uint32_t ring_bytes, int dialler)
{
    struct shm_shared *shared = conn->memory;
    struct shm_ring_control *control = shared->rings;
    const uint32_t lap = (uint32_t)(uint16_t)cw_counter_start + 1; /* a word has 16 bits for it */
    const uint32_t small = shm_iface_of(&conn->super)->small_bytes;
    const unsigned tx = dialler ? 0 : 1;
    const struct shm_place out = shm_place(shared, first_bytes, ring_bytes, tx);
    const struct shm_place in = shm_place(shared, first_bytes, ring_bytes, 1 - tx);

    if (dialler) { /* the peer does not have the memory yet */
        control[0].done = control[1].done = shm_position(lap, 0);
    }
    conn->is_dialler = (uint8_t)dialler;
    conn->first_bytes = first_bytes;
    cw_shm_tx_init(&conn->tx, &out, lap);
    cw_shm_rx_init(&conn->rx, &in, lap);
    conn->small_bytes = (small < ring_bytes) ? small : ring_bytes;
    conn->super.max_whole = shm_max_whole(conn->small_bytes);
    conn->rx.fast.conn = &conn->super;
    conn->rx.fast.answers = &conn->tx.fast;
    conn->super.nt = &conn->tx.nt;
    conn->tx.nt.off = !shm_iface_of(&conn->super)->nt_copies;
    conn->rx.control->attention = shm_iface_of(&conn->super)->wakeup ? SHM_ATTENTION_SLEEPS : 0;
    cw_shm_trim_begin(conn);
}

struct shm_conn *cw_shm_conn_new(struct shm_iface *iface, enum shm_conn_state state)
{
    struct shm_conn *conn = malloc(sizeof(*conn));

    if (conn != NULL) {
        *conn = (struct shm_conn){.super = {.iface = &iface->super},
                                  .state = (uint8_t)state,
                                  .item = {.fd = -1, .ready = socket_ready}};
        cw_list_add_tail(&iface->others, &conn->link);
    }
    return conn;
}

ucs_status_t cw_shm_make_open(struct shm_iface *iface, struct shm_conn *conn)
{
    struct shm_conn **open;
    unsigned max;

    if (iface->num_open == iface->max_open) {
        max = (iface->max_open == 0) ? 4 : iface->max_open * 2;
        open = realloc(iface->open, max * sizeof(struct shm_conn *));
        if (open == NULL) {
            return UCS_ERR_NO_MEMORY;
        }
        iface->open = open;
        iface->max_open = max;
    }
    cw_list_remove(&conn->link);
    conn->state = SHM_CONN_OPEN;
    conn->peer_state = SHM_PEER_UNPROVED; /* by the peer's words, which a dialler gets only now */
    cw_shm_open_add(iface, conn);
    return UCS_OK;
}

static void leave_open(struct shm_iface *iface, struct shm_conn *conn)
{
    cw_shm_open_remove(iface, conn);
    cw_list_add_tail(&iface->others, &conn->link);
    cw_shm_trim_end(conn);
    if (conn->blocked) {
        conn->blocked = 0;
        iface->num_blocked--;
    }
    shm_no_space(conn);
    cw_shm_inbox(iface);
}

static const char *what_ended(ucs_status_t status)
{
    switch (status) {
    case UCS_ERR_CONNECTION_RESET:
        return "closed by the peer, or it died";
    case UCS_ERR_IO_ERROR:
        return "the peer wrote a malformed packet";
    default:
        return "cannot send a reply to the peer";
    }
}

/* Stores the reason of the end for the log. */
static void note_end(struct shm_conn *conn, ucs_status_t status)
{
    struct cw_text text = {0};

    if (conn->super.end != NULL) {
        return;
    }
    cw_text_addf(&text, "shared memory with process %d on this machine: %s", cw_unix_peer_pid(conn->item.fd),
                 what_ended(status));
    conn->super.end = text.data;
}

void cw_shm_conn_broken(struct shm_conn *conn, ucs_status_t status)
{
    struct shm_iface *iface = shm_iface_of(&conn->super);

    leave_open(iface, conn);
    conn->state = SHM_CONN_BROKEN;
    note_end(conn, status);
    iface->super.upcalls->closed(&conn->super, status);
}

void cw_shm_close_socket(struct shm_iface *iface, struct shm_conn *conn)
{
    if (conn->item.fd >= 0) {
        cw_poller_remove(iface->poller, &conn->item);
        cw_unix_close(conn->item.fd);
        conn->item.fd = -1;
    }
}

void cw_shm_forget_alarms(struct shm_iface *iface)
{
    if (iface->num_waiting == 0) {
        cw_poller_alarm_cancel(iface->poller, &iface->dial_again);
    }
    if (iface->num_handshake == 0) {
        cw_poller_alarm_cancel(iface->poller, &iface->handshake_deadline);
    }
    if (iface->num_open == 0) {
        cw_poller_alarm_cancel(iface->poller, &iface->trim);
        cw_poller_alarm_cancel(iface->poller, &iface->cool);
    }
}

void cw_shm_dispose(struct shm_conn *conn)
{
    struct shm_iface *iface = shm_iface_of(&conn->super);

    if (conn->state == SHM_CONN_OPEN) {
        leave_open(iface, conn);
    }
    iface->num_waiting -= (conn->state == SHM_CONN_WAITING);
    iface->num_handshake -= (conn->state == SHM_CONN_HANDSHAKE);
    cw_shm_forget_alarms(iface);
    cw_list_remove(&conn->link);
    cw_shm_close_socket(iface, conn);
    cw_shm_peer_end(conn);
    cw_shm_pass_end(conn);
    cw_shm_bell_end(conn);
    if (conn->memory != NULL) {
        cw_segment_unmap(conn->memory, conn->memory_size);
    }
    free(conn->hello);
    free(conn->super.end);
    free(conn);
}

void cw_shm_close_conn(struct cw_conn *super)
{
    struct shm_iface *iface = shm_iface_of(super);

    cw_shm_dispose(shm_conn_of(super));
    cw_shm_accept_resume(iface); /* a descriptor is free again */
}

static unsigned socket_ready(struct cw_poll_item *item, unsigned events CW_UNUSED)
{
    struct shm_conn *conn = cw_container_of(item, struct shm_conn, item);
    struct shm_iface *iface = shm_iface_of(&conn->super);
    unsigned count;

    switch (conn->state) {
    case SHM_CONN_HANDSHAKE:
        return cw_shm_take_handshake(iface, conn);
    case SHM_CONN_DIALLED:
        return cw_shm_take_reply(iface, conn);
    case SHM_CONN_OPEN:
        count = cw_shm_bell(conn);
        if (conn->hangup) { /* progress drains the ring first */
            note_end(conn, UCS_ERR_CONNECTION_RESET);
            cw_shm_close_socket(iface, conn);
        }
        return count;
    default:
        cw_shm_close_socket(iface, conn);
        return 0;
    }
}
