/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections of the shared memory transport from the first byte to the last: dial, accept, greeting, end. What a
 * stranger sends is checked before anything is mapped; whatever is wrong with it, only its connection is dropped, with
 * one line in the log.
 */
#include "transport/shm/shm.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "os/clock.h"
#include "os/shm.h"
#include "os/unix_socket.h"

#define ACCEPT_PAUSE_NS    UINT64_C(100000000)
#define DIAL_DELAY_MIN_NS  UINT64_C(1000000)
#define DIAL_DELAY_MAX_NS  UINT64_C(64000000)
#define GREETING_NS        UINT64_C(10000000000)

static const char greeting_magic[4] = {'C', 'W', 'S', '1'};

static struct cw_log_limit stranger_limit;

static unsigned socket_ready(struct cw_poll_item *item, unsigned events);

/* Points both views into the memory; `dialler` tells which of the two rings is ours to fill. */
char *cw_shm_area(const struct shm_conn *conn, int ours, int wide)
{
    const size_t cells_size = shm_whole_pages(sizeof(struct cw_cell) << conn->tx.cell_shift);
    const size_t bytes_size = (size_t)conn->num_bytes + SHM_PAGE;
    const unsigned index    = (ours != 0) == (conn->is_dialler != 0) ? 0 : 1;
    char *bytes = (char *)conn->memory + shm_whole_pages(sizeof(struct shm_shared)) + 2 * cells_size + SHM_BYTES_LEAD;

    return wide ? bytes + 2 * bytes_size + index * ((size_t)conn->wide_bytes + SHM_PAGE) : bytes + index * bytes_size;
}

/* conn->memory is there, of that size; whether it has wide areas follows from it. */
static void lay_out(struct shm_conn *conn, uint32_t cell_shift, uint32_t num_bytes, int dialler)
{
    struct shm_shared *shared        = conn->memory;
    struct shm_ring_control *control = shared->rings;
    const size_t cells_size          = shm_whole_pages(sizeof(struct cw_cell) << cell_shift);
    char *cells                      = (char *)conn->memory + shm_whole_pages(sizeof(*shared));
    unsigned tx                      = dialler ? 0 : 1, rx = 1 - tx;

    conn->is_dialler    = (uint8_t)dialler;
    conn->num_bytes     = num_bytes;
    conn->wide_bytes    = (conn->memory_size == shm_memory_size(cell_shift, num_bytes, 0)) ? 0 : SHM_WIDE_BYTES;
    conn->tx.cell_shift = cell_shift;
    shm_producer_init(&conn->tx, (struct cw_cell *)(void *)(cells + tx * cells_size), cell_shift,
                      cw_shm_area(conn, 1, 0), num_bytes, control + tx, 0, 0);
    shm_consumer_init(&conn->rx, (struct cw_cell *)(void *)(cells + rx * cells_size), cell_shift,
                      cw_shm_area(conn, 0, 0), num_bytes, control + rx, 0, 0);
    conn->super.max_whole = shm_max_whole(num_bytes);
    conn->rx.conn    = &conn->super;
    conn->rx.answers = &conn->tx;
    conn->rx.control->attention = shm_iface_of(&conn->super)->wakeup ? SHM_ATTENTION_SLEEPS : 0;
    cw_shm_trim_begin(conn);
}

/* Rings that are wide by themselves need no more; nor is there any where all memory is reserved at once. */
static uint32_t wide_bytes(uint32_t num_bytes)
{
    return (num_bytes < SHM_WIDE_BYTES && !cw_shm_is_strict()) ? SHM_WIDE_BYTES : 0;
}

static int is_size(const struct shm_greeting *greeting)
{
    return greeting->memory_size == shm_memory_size(greeting->cell_shift, greeting->num_bytes, 0) ||
           (greeting->num_bytes < SHM_WIDE_BYTES &&
            greeting->memory_size == shm_memory_size(greeting->cell_shift, greeting->num_bytes, SHM_WIDE_BYTES));
}

static struct shm_conn *conn_new(struct shm_iface *iface, size_t hello_room, enum shm_conn_state state)
{
    size_t size           = (sizeof(struct shm_conn) + hello_room + CW_CACHE_LINE - 1) & ~(size_t)(CW_CACHE_LINE - 1);
    struct shm_conn *conn = malloc(size);

    if (conn != NULL) {
        *conn = (struct shm_conn){.super    = {.iface = &iface->super},
                                  .state    = (uint8_t)state,
                                  .event_fd = -1,
                                  .item     = {.fd = -1, .ready = socket_ready}};
        cw_list_add_tail(&iface->others, &conn->link);
    }
    return conn;
}

/* A place among those that progress polls. */
static ucs_status_t make_open(struct shm_iface *iface, struct shm_conn *conn)
{
    struct shm_conn **open;
    unsigned max;

    if (iface->num_open == iface->max_open) {
        max  = (iface->max_open == 0) ? 4 : iface->max_open * 2;
        open = realloc(iface->open, max * sizeof(struct shm_conn *));
        if (open == NULL) {
            return UCS_ERR_NO_MEMORY;
        }
        iface->open     = open;
        iface->max_open = max;
    }
    cw_list_remove(&conn->link);
    conn->state = SHM_CONN_OPEN;
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
    shm_no_cells(conn);
    cw_shm_inbox(iface);
}

void cw_shm_conn_broken(struct shm_conn *conn, ucs_status_t status)
{
    struct shm_iface *iface = shm_iface_of(&conn->super);

    leave_open(iface, conn);
    conn->state = SHM_CONN_BROKEN;
    iface->super.upcalls->closed(&conn->super, status);
}

static void close_socket(struct shm_iface *iface, struct shm_conn *conn)
{
    if (conn->item.fd >= 0) {
        cw_poller_remove(iface->poller, &conn->item);
        cw_unix_close(conn->item.fd);
        conn->item.fd = -1;
    }
}

static void forget_alarms(struct shm_iface *iface)
{
    if (iface->num_waiting == 0) {
        cw_poller_alarm_cancel(iface->poller, &iface->dial_again);
    }
    if (iface->num_greeting == 0) {
        cw_poller_alarm_cancel(iface->poller, &iface->greet_deadline);
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
    iface->num_waiting  -= (conn->state == SHM_CONN_WAITING);
    iface->num_greeting -= (conn->state == SHM_CONN_GREETING);
    forget_alarms(iface);
    cw_list_remove(&conn->link);
    close_socket(iface, conn);
    cw_shm_peer_end(conn);
    cw_fd_close(conn->event_fd);
    if (conn->memory != NULL) {
        cw_shm_unmap(conn->memory, conn->memory_size);
    }
    free(conn);
}

void cw_shm_close_conn(struct cw_conn *super)
{
    struct shm_iface *iface = shm_iface_of(super);

    cw_shm_dispose(shm_conn_of(super));
    cw_shm_accept_resume(iface); /* a descriptor is free again */
}

/* ---- dialling ---- */

static ucs_status_t send_hello(struct shm_iface *iface, struct shm_conn *conn, int memory_fd)
{
    char message[sizeof(struct shm_greeting) + CW_HELLO_MAX];
    struct shm_greeting greeting = {.version      = SHM_VERSION,
                                    .hello_length = (uint16_t)conn->hello_length,
                                    .cell_shift   = iface->cell_shift,
                                    .num_bytes    = iface->num_bytes,
                                    .memory_size  = conn->memory_size,
                                    .sleeps       = (uint8_t)iface->wakeup};
    int fds[CW_UNIX_MAX_FDS]     = {memory_fd, cw_poller_signal_fd(iface->poller)};

    memcpy(greeting.magic, greeting_magic, sizeof(greeting.magic));
    cw_shm_peer_offer(conn, &greeting);
    memcpy(message, &greeting, sizeof(greeting));
    memcpy(message + sizeof(greeting), conn->hello, conn->hello_length);
    return cw_unix_send(conn->item.fd, message, sizeof(greeting) + conn->hello_length, fds, iface->wakeup ? 2 : 1);
}

/* UCS_ERR_BUSY: later again. */
static ucs_status_t try_dial(struct shm_iface *iface, struct shm_conn *conn)
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
    conn->memory_size = shm_memory_size(iface->cell_shift, iface->num_bytes, wide_bytes(iface->num_bytes));
    status            = cw_shm_create(conn->memory_size, SHM_PAGE, &memory_fd, &conn->memory);
    if (status == UCS_OK) {
        lay_out(conn, iface->cell_shift, iface->num_bytes, 1);
        status = send_hello(iface, conn, memory_fd);
        cw_fd_close(memory_fd);
    }
    return (status == UCS_ERR_BUSY) ? UCS_ERR_NO_RESOURCE : status;
}

/* Nothing tells when a listener's queue has room again. */
static void dial_later(struct shm_iface *iface)
{
    cw_poller_alarm_set(iface->poller, &iface->dial_again, cw_clock_ns() + iface->dial_delay_ns);
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
    conn = conn_new(iface, CW_HELLO_MAX, SHM_CONN_DIALLED);
    if (conn == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    conn->super.user   = user;
    conn->hello_length = hello_length;
    memcpy(&conn->token, (const char *)address + sizeof(uint64_t), sizeof(conn->token));
    memcpy(conn->hello, hello, hello_length);
    status = try_dial(iface, conn);
    if (status == UCS_ERR_BUSY) {
        conn->state = SHM_CONN_WAITING;
        if (iface->num_waiting++ == 0) {
            iface->dial_delay_ns = DIAL_DELAY_MIN_NS;
            dial_later(iface);
        }
    } else if (status != UCS_OK) {
        cw_shm_dispose(conn);
        return status;
    }
    *conn_p = &conn->super;
    return UCS_OK;
}

static void dial_ended(struct shm_conn *conn, ucs_status_t status, const void *reply, size_t length)
{
    conn->state = SHM_CONN_BROKEN;
    close_socket(shm_iface_of(&conn->super), conn);
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
        status = try_dial(iface, conn);
        if (status == UCS_ERR_BUSY) {
            break; /* most likely the others are busy as well */
        }
        iface->num_waiting--;
        conn->state = SHM_CONN_DIALLED;
        if (status != UCS_OK) {
            dial_ended(conn, status, NULL, 0);
        }
        count++;
    }
    iface->dial_delay_ns = (count > 0) ? DIAL_DELAY_MIN_NS : (iface->dial_delay_ns < DIAL_DELAY_MAX_NS) ?
                           iface->dial_delay_ns * 2 : DIAL_DELAY_MAX_NS;
    if (iface->num_waiting > 0) {
        dial_later(iface);
    }
    return count;
}

/* The acceptor answered, or went away. */
static unsigned take_reply(struct shm_iface *iface, struct shm_conn *conn)
{
    char message[sizeof(struct shm_greeting) + CW_HELLO_MAX];
    size_t length = sizeof(message);
    int fds[CW_UNIX_MAX_FDS];
    struct shm_greeting greeting = {.version = 0};
    unsigned num_fds             = 0;
    ucs_status_t status;

    status = cw_unix_recv(conn->item.fd, message, &length, fds, &num_fds);
    if (status == UCS_ERR_NO_ELEM) {
        return 0;
    }
    if (status == UCS_OK && length >= sizeof(greeting)) {
        memcpy(&greeting, message, sizeof(greeting));
        length -= sizeof(greeting);
    }
    if (status != UCS_OK || memcmp(greeting.magic, greeting_magic, sizeof(greeting.magic)) != 0 ||
        greeting.version != SHM_VERSION ||
        greeting.hello_length != length || num_fds != greeting.sleeps ||
        (num_fds == 1 && !cw_event_is_safe(fds[0])) || !cw_shm_peer_take(conn, &greeting)) {
        while (num_fds > 0) {
            cw_fd_close(fds[--num_fds]);
        }
        dial_ended(conn, (status == UCS_OK) ? UCS_ERR_IO_ERROR : UCS_ERR_CONNECTION_RESET, NULL, 0);
        return 1;
    }
    conn->event_fd = (num_fds == 1) ? fds[0] : -1;
    if (!greeting.accepted) {
        dial_ended(conn, UCS_ERR_REJECTED, message + sizeof(greeting), length);
    } else if (make_open(iface, conn) != UCS_OK) {
        dial_ended(conn, UCS_ERR_NO_MEMORY, NULL, 0);
    } else {
        iface->super.upcalls->opened(&conn->super, UCS_OK, message + sizeof(greeting), length);
    }
    return 1;
}

/* ---- accepting ---- */

static void send_reply(struct shm_iface *iface, struct shm_conn *conn, int accepted, const void *reply, size_t length)
{
    char message[sizeof(struct shm_greeting) + CW_HELLO_MAX];
    struct shm_greeting greeting = {.version      = SHM_VERSION,
                                    .hello_length = (uint16_t)length,
                                    .sleeps       = (uint8_t)(accepted && iface->wakeup),
                                    .accepted     = (uint8_t)accepted};
    int event_fd                 = cw_poller_signal_fd(iface->poller);

    memcpy(greeting.magic, greeting_magic, sizeof(greeting.magic));
    if (accepted) {
        cw_shm_peer_offer(conn, &greeting);
    }
    memcpy(message, &greeting, sizeof(greeting));
    memcpy(message + sizeof(greeting), reply, length);
    /* should it fail, the peer is gone, and the end of the socket will tell */
    (void)cw_unix_send(conn->item.fd, message, sizeof(greeting) + length, &event_fd, greeting.sleeps);
}

/* Takes over the memory and the eventfd if the greeting is in order. Closes the descriptors in any case, but for the
 * eventfd kept. */
static const char *take_memory(const struct shm_iface *iface, struct shm_conn *conn,
                               const struct shm_greeting *greeting, size_t length, int *fds, unsigned num_fds)
{
    const char *wrong = NULL;

    if (memcmp(greeting->magic, greeting_magic, sizeof(greeting->magic)) != 0 || greeting->version != SHM_VERSION) {
        wrong = "it speaks another protocol or version";
    } else if (greeting->hello_length != length || greeting->sleeps > 1 || num_fds != 1u + greeting->sleeps ||
               !cw_shm_peer_take(conn, greeting)) {
        wrong = "its greeting contradicts itself";
    } else if (greeting->cell_shift > SHM_MAX_CELL_SHIFT || greeting->num_bytes < SHM_MIN_BYTES ||
               greeting->num_bytes > SHM_MAX_BYTES || (greeting->num_bytes & (greeting->num_bytes - 1)) != 0 ||
               !is_size(greeting)) {
        wrong = "it wants a ring of an impossible size";
    } else if (greeting->num_bytes / 4 < iface->super.limits.max_bcopy) {
        wrong = "its rings are too small for our packets; set UCX_POSIX_SEG_SIZE alike on both sides";
    } else if (greeting->sleeps && !cw_event_is_safe(fds[1])) {
        wrong = "the descriptor it wants to be woken by is no event counter";
    } else if (cw_shm_attach(fds[0], greeting->memory_size, SHM_PAGE, &conn->memory) != UCS_OK) {
        wrong = "the memory it offers cannot be used safely";
    } else {
        conn->memory_size = greeting->memory_size;
        lay_out(conn, greeting->cell_shift, greeting->num_bytes, 0);
        if (num_fds == 2) {
            conn->event_fd = fds[--num_fds];
        }
    }
    while (num_fds > 0) {
        cw_fd_close(fds[--num_fds]);
    }
    return wrong;
}

static void drop_stranger(struct shm_conn *conn, enum cw_log_level level, const char *why)
{
    cw_log_ratelimited(&stranger_limit, level, "dropped a connection over shared memory: %s", why);
    cw_shm_dispose(conn);
}

static unsigned take_greeting(struct shm_iface *iface, struct shm_conn *conn)
{
    char message[sizeof(struct shm_greeting) + CW_HELLO_MAX], reply[CW_HELLO_MAX];
    size_t length = sizeof(message), reply_length = sizeof(reply);
    int fds[CW_UNIX_MAX_FDS];
    struct shm_greeting greeting;
    unsigned num_fds = 0;
    const char *wrong;
    ucs_status_t status;

    status = cw_unix_recv(conn->item.fd, message, &length, fds, &num_fds);
    if (status == UCS_ERR_NO_ELEM) {
        return 0;
    }
    if (status != UCS_OK || length < sizeof(greeting)) {
        while (num_fds > 0) {
            cw_fd_close(fds[--num_fds]);
        }
        if (status == UCS_ERR_CONNECTION_RESET) { /* also whoever looks for names that nobody listens to any more */
            drop_stranger(conn, CW_LOG_DIAG, "it ended without a greeting");
        } else {
            drop_stranger(conn, CW_LOG_WARN, "its greeting has a wrong length, or there was no room for its "
                          "descriptors (ulimit -n)");
        }
        return 0;
    }
    memcpy(&greeting, message, sizeof(greeting));
    length -= sizeof(greeting);
    wrong   = take_memory(iface, conn, &greeting, length, fds, num_fds);
    if (wrong != NULL) {
        drop_stranger(conn, CW_LOG_WARN, wrong);
        return 0;
    }
    if (make_open(iface, conn) != UCS_OK) {
        drop_stranger(conn, CW_LOG_WARN, "no memory");
        return 0;
    }
    iface->num_greeting--;
    forget_alarms(iface);
    status = iface->super.upcalls->accept(iface->super.owner, &conn->super, message + sizeof(greeting), length, reply,
                                          &reply_length);
    send_reply(iface, conn, status == UCS_OK, reply, reply_length);
    if (status != UCS_OK) {
        cw_shm_dispose(conn);
    }
    return 1;
}

static unsigned socket_ready(struct cw_poll_item *item, unsigned events)
{
    struct shm_conn *conn   = cw_container_of(item, struct shm_conn, item);
    struct shm_iface *iface = shm_iface_of(&conn->super);
    unsigned count;

    (void)events;
    switch (conn->state) {
    case SHM_CONN_GREETING:
        return take_greeting(iface, conn);
    case SHM_CONN_DIALLED:
        return take_reply(iface, conn);
    case SHM_CONN_OPEN:
        count = cw_shm_bell(conn);
        if (conn->hangup) { /* progress reads the ring to its end first */
            close_socket(iface, conn);
        }
        return count;
    default:
        close_socket(iface, conn);
        return 1;
    }
}

static void drop_oldest_greeting(struct shm_iface *iface)
{
    struct shm_conn *conn;

    cw_list_for_each(conn, &iface->others, struct shm_conn, link) {
        if (conn->state == SHM_CONN_GREETING) {
            drop_stranger(conn, CW_LOG_WARN, "too many connections wait without a greeting");
            return;
        }
    }
}

static void accept_one(struct shm_iface *iface, int fd)
{
    struct shm_conn *conn;

    if (iface->num_greeting >= SHM_MAX_GREETINGS) {
        drop_oldest_greeting(iface);
    }
    conn = conn_new(iface, 0, SHM_CONN_GREETING);
    if (conn == NULL) {
        cw_fd_close(fd);
        return;
    }
    iface->num_greeting++;
    conn->item.fd = fd;
    if (cw_poller_add(iface->poller, &conn->item, CW_POLL_READ) != UCS_OK) {
        cw_fd_close(fd);
        conn->item.fd = -1;
        cw_shm_dispose(conn);
        return;
    }
    conn->deadline_ns = cw_clock_ns() + GREETING_NS;
    (void)take_greeting(iface, conn); /* a dialler sends it at once: most likely it is there */
    if (iface->num_greeting > 0 && !cw_alarm_is_set(&iface->greet_deadline)) {
        cw_poller_alarm_set(iface->poller, &iface->greet_deadline, cw_clock_ns() + GREETING_NS);
    }
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
        cw_poller_alarm_set(iface->poller, &iface->accept_again, cw_clock_ns() + ACCEPT_PAUSE_NS);
    }
}

unsigned cw_shm_accept_again(struct cw_alarm *alarm)
{
    cw_shm_accept_resume(cw_container_of(alarm, struct shm_iface, accept_again));
    return 0;
}

unsigned cw_shm_drop_silent(struct cw_alarm *alarm)
{
    struct shm_iface *iface = cw_container_of(alarm, struct shm_iface, greet_deadline);
    const uint64_t now_ns   = cw_clock_ns();
    struct shm_conn *conn, *next;

    cw_list_for_each_safe(conn, next, &iface->others, struct shm_conn, link) {
        if (conn->state == SHM_CONN_GREETING && conn->deadline_ns > now_ns) {
            cw_poller_alarm_set(iface->poller, alarm, conn->deadline_ns);
            break;
        }
        if (conn->state == SHM_CONN_GREETING) {
            drop_stranger(conn, CW_LOG_WARN, "it did not send a greeting in time");
        }
    }
    return 0;
}

static void accept_pause(struct shm_iface *iface)
{
    if (!iface->shortage_told) {
        cw_error("cannot accept peers on this machine: no descriptors or memory left; they wait until some are free; "
                 "raise the limit of open files (ulimit -n) if it is too low");
    }
    cw_poller_remove(iface->poller, &iface->listener);
    iface->shortage_told = 1;
    iface->paused        = 1;
    cw_poller_alarm_set(iface->poller, &iface->accept_again, cw_clock_ns() + ACCEPT_PAUSE_NS);
}

unsigned cw_shm_accept_ready(struct cw_poll_item *item, unsigned events)
{
    struct shm_iface *iface = cw_container_of(item, struct shm_iface, listener);
    unsigned count          = 0;
    ucs_status_t status;
    int fd;

    (void)events;
    while (count < 64) {
        status = cw_unix_accept(item->fd, &fd);
        if (status == UCS_ERR_NO_ELEM) {
            break;
        }
        if (status == UCS_ERR_NO_RESOURCE) {
            accept_pause(iface);
            break;
        }
        if (status == UCS_OK) {
            iface->shortage_told = 0;
            accept_one(iface, fd);
        }
        count++;
    }
    return count;
}
