/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors that the peer passes on the socket: each comes with a number of eight bytes, by which the core takes it.
 * One that comes with four bytes is for shm_arrivals.c. Any other message is only a wakeup. The number of descriptors
 * that are not taken is bounded.
 */
#include <stdlib.h>
#include <string.h>

#include "os/unix_socket.h"
#include "transport/shm/shm_pass.h"

struct shm_passed {
    unsigned count;
    struct {
        uint64_t number;
        int fd;
    } items[CW_MOST_PASSED]; /* oldest first */
};

static void keep(struct shm_conn *conn, uint64_t number, int fd)
{
    struct shm_passed *passed = conn->passed;

    if (passed == NULL) {
        passed = conn->passed = calloc(1, sizeof(*passed));
    }
    if (passed == NULL) {
        cw_unix_discard(&fd);
        return;
    }
    if (passed->count == CW_MOST_PASSED) {
        cw_unix_discard(&passed->items[0].fd);
        passed->count--;
        memmove(passed->items, passed->items + 1, passed->count * sizeof(passed->items[0]));
    }
    passed->items[passed->count].number = number;
    passed->items[passed->count].fd = fd;
    passed->count++;
}

int cw_shm_take_message(struct shm_conn *conn)
{
    uint64_t number = 0;
    size_t length = sizeof(number);
    ucs_status_t status;
    int fd;

    if (conn->item.fd < 0) {
        return -1;
    }
    status = cw_unix_recv(conn->item.fd, &number, &length, &fd);
    if (status == UCS_ERR_NO_ELEM) {
        return -1;
    }
    if (status == UCS_ERR_CONNECTION_RESET) {
        return 0;
    }
    if (status == UCS_OK && fd >= 0 && length == sizeof(number)) {
        keep(conn, number, fd);
    } else {
        (void)(status == UCS_OK && cw_shm_bell_take(conn, &number, length, fd));
        cw_unix_discard(&fd);
    }
    return 1;
}

int cw_shm_pass(struct cw_conn *super, uint64_t number, int fd)
{
    const struct shm_conn *conn = shm_conn_of(super);

    return conn->state == SHM_CONN_OPEN && conn->peer_passes && !conn->hangup && conn->item.fd >= 0 &&
           (fd < 0 || cw_unix_send(conn->item.fd, &number, sizeof(number), fd) == UCS_OK);
}

static int find(struct shm_passed *passed, uint64_t number)
{
    unsigned i;
    int fd;

    for (i = 0; passed != NULL && i < passed->count; i++) {
        if (passed->items[i].number == number) {
            fd = passed->items[i].fd;
            passed->count--;
            memmove(passed->items + i, passed->items + i + 1, (passed->count - i) * sizeof(passed->items[0]));
            return fd;
        }
    }
    return -1;
}

/* A descriptor passed before a packet is in the socket when the packet is read. EOF is left to the poller, which sees
 * it as well. */
int cw_shm_take_fd(struct cw_conn *super, uint64_t number)
{
    struct shm_conn *conn = shm_conn_of(super);
    int fd = find(conn->passed, number);
    unsigned tries;

    for (tries = 0; fd < 0 && tries < 4 * CW_MOST_PASSED && cw_shm_take_message(conn) > 0; tries++) {
        fd = find(conn->passed, number);
    }
    return fd;
}

void cw_shm_pass_end(struct shm_conn *conn)
{
    unsigned i;

    for (i = 0; conn->passed != NULL && i < conn->passed->count; i++) {
        cw_unix_discard(&conn->passed->items[i].fd);
    }
    free(conn->passed);
    conn->passed = NULL;
}
