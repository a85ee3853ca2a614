/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dials: creates the memory, sends the handshake, waits for the reply. If the backlog of the listener is full, it
 * redials later.
 */
#include "transport/shm/shm.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "os/clock.h"
#include "os/segment.h"
#include "os/unix_socket.h"

#define DELAY_MIN_NS UINT64_C(1000000)
#define DELAY_MAX_NS UINT64_C(64000000)

static ucs_status_t send_hello(struct shm_iface *iface, struct shm_conn *conn, int memory_fd, const void *hello,
                               size_t hello_length)
{
    char message[sizeof(struct shm_handshake) + CW_HELLO_MAX];
    struct shm_handshake handshake = {.version = SHM_VERSION,
                               .hello_length = (uint16_t)hello_length,
                               .first_bytes = iface->first_bytes,
                               .ring_bytes = iface->ring_bytes,
                               .memory_size = conn->memory_size,
                               .sleeps = (uint8_t)iface->wakeup};

    memcpy(handshake.magic, SHM_MAGIC, sizeof(handshake.magic));
    cw_shm_peer_offer(conn, &handshake);
    memcpy(message, &handshake, sizeof(handshake));
    memcpy(message + sizeof(handshake), hello, hello_length);
    return cw_unix_send(conn->item.fd, message, sizeof(handshake) + hello_length, memory_fd);
}

/* UCS_ERR_BUSY: retry later. */
static ucs_status_t try_dial(struct shm_iface *iface, struct shm_conn *conn, const void *hello, size_t hello_length)
{
    ucs_status_t status;
    int memory_fd = -1;

    status = cw_unix_connect(iface->directory, conn->token, &conn->item.fd);
    if (status != UCS_OK) {
        return status;
    }
    status = cw_poller_add(iface->poller, &conn->item, CW_POLL_READ);
    if (status != UCS_OK) {
        cw_fd_close(conn->item.fd);
        conn->item.fd = -1;
        return status;
    }
    conn->memory_size = shm_memory_size(iface->ring_bytes);
    status = cw_segment_create(conn->memory_size, SHM_PAGE, &memory_fd, &conn->memory);
    if (status == UCS_OK) {
        cw_shm_lay_out(conn, iface->first_bytes, iface->ring_bytes, 1);
        status = send_hello(iface, conn, memory_fd, hello, hello_length);
        cw_fd_close(memory_fd);
    }
    return status;
}

/* By an alarm, because no event reports that a listener's backlog has space again. */
static void dial_later(struct shm_iface *iface)
{
    cw_poller_alarm_set(iface->poller, &iface->dial_again, cw_clock_ns() + iface->dial_delay_ns);
}

static ucs_status_t wait_for_backlog(struct shm_iface *iface, struct shm_conn *conn, const void *hello,
                                     size_t hello_length)
{
    conn->hello = malloc(hello_length);
    if (conn->hello == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    memcpy(conn->hello, hello, hello_length);
    conn->hello_length = (uint32_t)hello_length;
    conn->state = SHM_CONN_WAITING;
    if (iface->num_waiting++ == 0) {
        iface->dial_delay_ns = DELAY_MIN_NS;
        dial_later(iface);
    }
    return UCS_OK;
}

ucs_status_t cw_shm_dial(struct cw_iface *super, const void *address, size_t address_length, const void *hello,
                         size_t hello_length, void *user, struct cw_conn **conn_p)
{
    struct shm_iface *iface = cw_container_of(super, struct shm_iface, super);
    struct shm_conn *conn;
    ucs_status_t status;
    const char *why;

    if (!cw_shm_transport.reachable(super, address, address_length, &why) || hello_length > CW_HELLO_MAX) {
        return UCS_ERR_UNREACHABLE;
    }
    conn = cw_shm_conn_new(iface, SHM_CONN_DIALLED);
    if (conn == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    conn->super.user = user;
    memcpy(&conn->token, (const char *)address + sizeof(uint64_t), sizeof(conn->token));
    status = try_dial(iface, conn, hello, hello_length);
    if (status == UCS_ERR_BUSY) {
        status = wait_for_backlog(iface, conn, hello, hello_length);
    }
    if (status != UCS_OK) {
        cw_shm_dispose(conn);
        return status;
    }
    *conn_p = &conn->super;
    return UCS_OK;
}

int cw_shm_is_there(const struct cw_conn *super)
{
    return cw_container_of(super, const struct shm_conn, super)->state == SHM_CONN_DIALLED;
}

static void dial_ended(struct shm_conn *conn, ucs_status_t status, const void *reply, size_t length)
{
    conn->state = SHM_CONN_BROKEN;
    cw_shm_close_socket(shm_iface_of(&conn->super), conn);
    conn->super.iface->upcalls->opened(&conn->super, status, reply, length);
}

unsigned cw_shm_dial_waiting(struct cw_alarm *alarm)
{
    struct shm_iface *iface = cw_container_of(alarm, struct shm_iface, dial_again);
    struct shm_conn *conn, *next;
    ucs_status_t status;
    unsigned count = 0;

    cw_list_for_each_safe(conn, next, &iface->others, struct shm_conn, link) {
        if (conn->state != SHM_CONN_WAITING) {
            continue;
        }
        status = try_dial(iface, conn, conn->hello, conn->hello_length);
        if (status == UCS_ERR_BUSY) {
            break; /* the other listeners are probably busy as well */
        }
        free(conn->hello);
        conn->hello = NULL;
        iface->num_waiting--;
        conn->state = SHM_CONN_DIALLED;
        if (status != UCS_OK) {
            dial_ended(conn, status, NULL, 0);
        }
        count++;
    }
    if (count > 0) {
        iface->dial_delay_ns = DELAY_MIN_NS;
    } else {
        iface->dial_delay_ns = (iface->dial_delay_ns < DELAY_MAX_NS) ? iface->dial_delay_ns * 2 : DELAY_MAX_NS;
    }
    if (iface->num_waiting > 0) {
        dial_later(iface);
    }
    return count;
}

static void log_no_answer(ucs_status_t status)
{
    static struct cw_log_limit limit;

    cw_log_ratelimited(&limit, CW_LOG_WARN, "cannot connect to a peer on this machine: %s",
                       (status == UCS_ERR_CONNECTION_RESET) ? "the peer closed it without a reply: it died or was "
                                                              "destroyed, or is out of descriptors or memory (see its "
                                                              "log)" :
                       "the peer's reply is of another protocol or version");
}

unsigned cw_shm_take_reply(struct shm_iface *iface, struct shm_conn *conn)
{
    char message[sizeof(struct shm_handshake) + CW_HELLO_MAX];
    struct shm_handshake handshake = {.version = 0};
    size_t length = sizeof(message);
    ucs_status_t status;
    int fd;

    status = cw_unix_recv(conn->item.fd, message, &length, &fd);
    if (status == UCS_ERR_NO_ELEM) {
        return 0;
    }
    if (status == UCS_OK && length >= sizeof(handshake)) {
        memcpy(&handshake, message, sizeof(handshake));
        length -= sizeof(handshake);
    }
    if (status != UCS_OK || fd >= 0 || !shm_handshake_is_ours(&handshake) || handshake.hello_length != length ||
        handshake.sleeps > 1 || !cw_shm_peer_take(conn, &handshake)) {
        cw_unix_discard(&fd);
        log_no_answer(status);
        dial_ended(conn, (status == UCS_OK) ? UCS_ERR_IO_ERROR : UCS_ERR_CONNECTION_RESET, NULL, 0);
        return 1;
    }
    conn->peer_sleeps = handshake.sleeps;
    if (!handshake.accepted) {
        dial_ended(conn, UCS_ERR_REJECTED, message + sizeof(handshake), length);
    } else if (cw_shm_make_open(iface, conn) != UCS_OK) {
        dial_ended(conn, UCS_ERR_NO_MEMORY, NULL, 0);
    } else {
        iface->super.upcalls->opened(&conn->super, UCS_OK, message + sizeof(handshake), length);
    }
    return 1;
}
