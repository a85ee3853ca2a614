/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accepts connections. The handshake of an unauthenticated peer is checked before its memory is mapped; if it is
 * invalid, only that connection is dropped, with one log line. A dropped peer does not count as progress, so that a
 * program's drain loop ends even while unauthenticated peers keep connecting.
 */
#include "transport/shm/shm.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "os/clock.h"
#include "os/segment.h"
#include "os/unix_socket.h"

#define ACCEPTS_PER_EVENT 64

#define PAUSE_NS    UINT64_C(100000000)
#define HANDSHAKE_NS UINT64_C(10000000000)
/* After connect(2) a dialler creates its memory, which takes some ten microseconds, and sends its handshake. So
 * accepting spins for it for about as long as the interval between two polls of the descriptors; a slower dialler is
 * left to the poller. */
#define HANDSHAKE_SOON_NS UINT64_C(20000)

static struct cw_log_limit unauth_limit;

static bool is_power(uint32_t bytes)
{
    return (bytes & (bytes - 1)) == 0;
}

static bool are_sizes(const struct shm_handshake *handshake)
{
    return handshake->first_bytes >= SHM_MIN_BYTES && handshake->first_bytes <= handshake->ring_bytes &&
           handshake->ring_bytes <= SHM_MAX_BYTES && is_power(handshake->first_bytes) &&
           is_power(handshake->ring_bytes) && handshake->memory_size == shm_memory_size(handshake->ring_bytes);
}

static ucs_status_t send_reply(struct shm_iface *iface, struct shm_conn *conn, int accepted, const void *reply,
                               size_t length)
{
    char message[sizeof(struct shm_handshake) + CW_HELLO_MAX];
    struct shm_handshake handshake = {.version = SHM_VERSION,
                               .hello_length = (uint16_t)length,
                               .sleeps = (uint8_t)(accepted && iface->wakeup),
                               .accepted = (uint8_t)accepted};

    memcpy(handshake.magic, SHM_MAGIC, sizeof(handshake.magic));
    if (accepted) {
        cw_shm_peer_offer(conn, &handshake);
    }
    memcpy(message, &handshake, sizeof(handshake));
    memcpy(message + sizeof(handshake), reply, length);
    return cw_unix_send(conn->item.fd, message, sizeof(handshake) + length, -1);
}

/* Checks the handshake and maps the memory of `fd`. NULL, or the error. */
static const char *take_memory(const struct shm_iface *iface, struct shm_conn *conn,
                               const struct shm_handshake *handshake, size_t length, int fd)
{
    ucs_status_t status;

    if (!shm_handshake_is_ours(handshake)) {
        return "it speaks another protocol or version";
    }
    if (handshake->hello_length != length || handshake->sleeps > 1 || fd < 0 || !cw_shm_peer_take(conn, handshake)) {
        return "its handshake is inconsistent";
    }
    if (!are_sizes(handshake)) {
        return "it requests a ring of an invalid size";
    }
    if (handshake->ring_bytes / 4 < iface->super.limits.max_bcopy) {
        return "its rings are too small for our packets; use the same UCX_POSIX_SEG_SIZE on both sides";
    }
    status = cw_segment_attach(fd, handshake->memory_size, SHM_PAGE, &conn->memory);
    if (status != UCS_OK) {
        return (status == UCS_ERR_NO_MEMORY) ? "out of memory to map its rings" :
               "its memory cannot be mapped safely";
    }
    conn->memory_size = handshake->memory_size;
    conn->peer_sleeps = handshake->sleeps;
    cw_shm_lay_out(conn, handshake->first_bytes, handshake->ring_bytes, 0);
    return NULL;
}

static void drop_unauth(struct shm_conn *conn, enum cw_log_level level, const char *why)
{
    cw_log_ratelimited(&unauth_limit, level, "dropped a connection over shared memory: %s", why);
    cw_shm_dispose(conn);
}

static void drop_unread(struct shm_conn *conn, ucs_status_t status)
{
    if (status == UCS_ERR_CONNECTION_RESET) { /* also a dialler that only probes for names without a listener */
        drop_unauth(conn, CW_LOG_DIAG, "it ended without a handshake");
    } else if (status == UCS_ERR_NO_RESOURCE) {
        drop_unauth(conn, CW_LOG_WARN, "no descriptor is left for its memory; raise the limit of open files "
                    "(ulimit -n)");
    } else {
        drop_unauth(conn, CW_LOG_WARN, "its handshake has a wrong length, or too many descriptors");
    }
}

/* The core knows the connection, but the reply could not be sent. */
static void break_unanswered(struct shm_iface *iface, struct shm_conn *conn, ucs_status_t status)
{
    cw_log_ratelimited(&unauth_limit, (status == UCS_ERR_CONNECTION_RESET) ? CW_LOG_DIAG : CW_LOG_WARN,
                       "closed a connection over shared memory: cannot send the reply");
    cw_shm_close_socket(iface, conn);
    cw_shm_conn_broken(conn, status);
}

/* The handshake is valid, and its memory is mapped: calls the core's `accept`. */
static unsigned welcome(struct shm_iface *iface, struct shm_conn *conn, const void *hello, size_t length)
{
    char reply[CW_HELLO_MAX];
    size_t reply_length = sizeof(reply);
    ucs_status_t status, sent;

    if (cw_shm_make_open(iface, conn) != UCS_OK) {
        drop_unauth(conn, CW_LOG_WARN, "out of memory");
        return 0;
    }
    iface->num_handshake--;
    cw_shm_forget_alarms(iface);
    status = iface->super.upcalls->accept(iface->super.owner, &conn->super, hello, length, reply, &reply_length);
    sent = send_reply(iface, conn, status == UCS_OK, reply, reply_length);
    if (status != UCS_OK) {
        cw_shm_dispose(conn);
        return 0;
    }
    if (sent != UCS_OK) {
        break_unanswered(iface, conn, sent);
    }
    return 1;
}

unsigned cw_shm_take_handshake(struct shm_iface *iface, struct shm_conn *conn)
{
    char message[sizeof(struct shm_handshake) + CW_HELLO_MAX];
    size_t length = sizeof(message);
    struct shm_handshake handshake;
    const char *wrong;
    ucs_status_t status;
    int fd;

    status = cw_unix_recv(conn->item.fd, message, &length, &fd);
    if (status == UCS_ERR_NO_ELEM) {
        return 0;
    }
    if (status != UCS_OK || length < sizeof(handshake)) {
        cw_unix_discard(&fd);
        drop_unread(conn, status);
        return 0;
    }
    memcpy(&handshake, message, sizeof(handshake));
    length -= sizeof(handshake);
    wrong = take_memory(iface, conn, &handshake, length, fd);
    if (wrong != NULL) {
        cw_unix_discard(&fd);
        drop_unauth(conn, CW_LOG_WARN, wrong);
        return 0;
    }
    cw_fd_close(fd);
    return welcome(iface, conn, message + sizeof(handshake), length);
}

static void drop_oldest_handshake(struct shm_iface *iface)
{
    struct shm_conn *conn;

    cw_list_for_each(conn, &iface->others, struct shm_conn, link) {
        if (conn->state == SHM_CONN_HANDSHAKE) {
            drop_unauth(conn, CW_LOG_WARN, "too many connections wait without a handshake");
            return;
        }
    }
}

/* Returns the number of connections that were accepted: 0 or 1. */
static unsigned await_handshake(struct shm_iface *iface, struct shm_conn *conn)
{
    const uint64_t end_ns = cw_clock_ns() + HANDSHAKE_SOON_NS;
    const unsigned waiting = iface->num_handshake; /* decreases when the handshake was handled or conn dropped */
    unsigned accepted = cw_shm_take_handshake(iface, conn);
    int is_last = 0;

    while (iface->num_handshake == waiting && !is_last) {
        is_last = cw_clock_ns() >= end_ns; /* checked before the last attempt: a preempted thread tries once more */
        accepted = cw_shm_take_handshake(iface, conn);
    }
    return accepted;
}

static unsigned accept_one(struct shm_iface *iface, int fd)
{
    struct shm_conn *conn;
    unsigned accepted;

    if (iface->num_handshake >= SHM_MAX_HANDSHAKES) {
        drop_oldest_handshake(iface);
    }
    conn = cw_shm_conn_new(iface, SHM_CONN_HANDSHAKE);
    if (conn == NULL) {
        cw_fd_close(fd);
        return 0;
    }
    iface->num_handshake++;
    conn->item.fd = fd;
    if (cw_poller_add(iface->poller, &conn->item, CW_POLL_READ) != UCS_OK) {
        cw_fd_close(fd);
        conn->item.fd = -1;
        cw_shm_dispose(conn);
        return 0;
    }
    conn->deadline_ns = cw_clock_ns() + HANDSHAKE_NS;
    accepted = await_handshake(iface, conn);
    if (iface->num_handshake > 0 && !cw_alarm_is_set(&iface->handshake_deadline)) {
        cw_poller_alarm_set(iface->poller, &iface->handshake_deadline, cw_clock_ns() + HANDSHAKE_NS);
    }
    return accepted;
}

void cw_shm_accept_resume(struct shm_iface *iface)
{
    if (!iface->paused) {
        return;
    }
    if (cw_poller_add(iface->poller, &iface->listener, CW_POLL_READ) == UCS_OK) {
        iface->paused = 0;
        cw_poller_alarm_cancel(iface->poller, &iface->accept_again);
    } else {
        cw_poller_alarm_set(iface->poller, &iface->accept_again, cw_clock_ns() + PAUSE_NS);
    }
}

unsigned cw_shm_accept_again(struct cw_alarm *alarm)
{
    cw_shm_accept_resume(cw_container_of(alarm, struct shm_iface, accept_again));
    return 0;
}

unsigned cw_shm_drop_silent(struct cw_alarm *alarm)
{
    struct shm_iface *iface = cw_container_of(alarm, struct shm_iface, handshake_deadline);
    const uint64_t now_ns = cw_clock_ns();
    struct shm_conn *conn, *next;

    cw_list_for_each_safe(conn, next, &iface->others, struct shm_conn, link) {
        if (conn->state == SHM_CONN_HANDSHAKE && conn->deadline_ns > now_ns) {
            cw_poller_alarm_set(iface->poller, alarm, conn->deadline_ns);
            break;
        }
        if (conn->state == SHM_CONN_HANDSHAKE) {
            drop_unauth(conn, CW_LOG_WARN, "it did not send a handshake in time");
        }
    }
    return 0;
}

static const char *remedy(int error)
{
    switch (error) {
    case EMFILE:
    case ENFILE:
        return "; raise the limit of open files (ulimit -n)";
    case EPERM:
    case EACCES:
    case ENOSYS:
        return "; allow the system call accept4";
    default:
        return "";
    }
}

static void accept_pause(struct shm_iface *iface)
{
    if (!iface->shortage_logged) {
        cw_error("cannot accept peers on this machine: %m; retrying ten times a second%s",
                 remedy(errno));
    }
    cw_poller_remove(iface->poller, &iface->listener);
    iface->shortage_logged = 1;
    iface->paused = 1;
    cw_poller_alarm_set(iface->poller, &iface->accept_again, cw_clock_ns() + PAUSE_NS);
}

unsigned cw_shm_accept_ready(struct cw_poll_item *item, unsigned events CW_UNUSED)
{
    struct shm_iface *iface = cw_container_of(item, struct shm_iface, listener);
    unsigned accepted = 0, i;
    ucs_status_t status;
    int fd;

    for (i = 0; i < ACCEPTS_PER_EVENT; i++) {
        status = cw_unix_accept(item->fd, &fd);
        if (status == UCS_ERR_NO_ELEM) {
            break;
        }
        if (status == UCS_ERR_NO_RESOURCE) {
            accept_pause(iface);
            break;
        }
        if (status == UCS_OK) {
            iface->shortage_logged = 0;
            accepted += accept_one(iface, fd);
        }
    }
    return accepted;
}
