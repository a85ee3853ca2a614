/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When an acceptor over shared memory takes a handshake: with the connection if it comes soon after it, later
 * otherwise.
 */
#include "test_shm.h"
#include "test_log_lines.h"

#include <errno.h>
#include <sys/socket.h>

#include "os/unix_socket.h"

static struct side dialler, acceptor;
static struct cw_conn *dialled, *accepted;
static ucs_status_t opened;
static ucs_status_t ended; /* the accepted one */
static uint64_t late;      /* so many polls for a message find nothing */
static int refused;        /* error number with which no message can be sent; 0: it can */
static size_t beside;      /* bytes of descriptors that were sent */

ssize_t __real_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    beside += message->msg_controllen;
    if (refused == 0) {
        return __real_sendmsg(fd, message, flags);
    }
    errno = refused;
    return -1;
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
    if (late == 0) {
        return __real_recvmsg(fd, message, flags);
    }
    late--;
    errno = EAGAIN;
    return -1;
}

static ucs_status_t on_accept(void *owner, struct cw_conn *conn, const void *hello, size_t hello_length, void *reply,
                              size_t *reply_length)
{
    (void)owner;
    (void)reply;
    assert_true(hello_length == 5 && memcmp(hello, "hello", 5) == 0);
    accepted = conn;
    *reply_length = 0;
    return UCS_OK;
}

static void on_opened(struct cw_conn *conn, ucs_status_t status, const void *reply, size_t reply_length)
{
    (void)conn;
    (void)reply;
    (void)reply_length;
    opened = status;
}

static void on_closed(struct cw_conn *conn, ucs_status_t status)
{
    assert_ptr_equal(conn, accepted);
    assert_int_not_equal(status, UCS_OK);
    ended = status;
}

static const struct cw_upcalls upcalls = {.accept = on_accept, .opened = on_opened, .closed = on_closed};

static int begin(void **state)
{
    (void)state;
    late = 0;
    refused = 0;
    log_lines = 0;
    accepted = dialled = NULL;
    opened = UCS_INPROGRESS;
    ended = UCS_OK;
    log_count_begin();
    side_open(&dialler, 8256, 64, 0, &upcalls, NULL);
    side_open(&acceptor, 8256, 64, 0, &upcalls, NULL);
    return 0;
}

static int end(void **state)
{
    (void)state;
    if (dialled != NULL) {
        cw_shm_transport.connect->close_conn(dialled);
    }
    if (accepted != NULL) {
        cw_shm_transport.connect->close_conn(accepted);
    }
    side_close(&dialler);
    side_close(&acceptor);
    log_count_end();
    return 0;
}

TEST_WITH(a_handshake_that_comes_soon_is_taken_with_the_connection, begin, end)
{
    side_dial(&dialler, &acceptor, NULL, &dialled);
    late = 1;
    cw_poller_dispatch(acceptor.poller);
    assert_non_null(accepted);
    assert_int_equal(late, 0);
    cw_poller_dispatch(dialler.poller);
    assert_int_equal(opened, UCS_OK);
}

TEST_WITH(a_handshake_that_comes_late_is_not_waited_for, begin, end)
{
    side_dial(&dialler, &acceptor, NULL, &dialled);
    late = UINT64_MAX;
    cw_poller_dispatch(acceptor.poller);
    assert_null(accepted);
    late = 0;
    cw_poller_dispatch(acceptor.poller);
    assert_non_null(accepted);
    cw_poller_dispatch(dialler.poller);
    assert_int_equal(opened, UCS_OK);
}

static int connect_as_unauth(void)
{
    struct shm_iface *iface = cw_container_of(acceptor.iface, struct shm_iface, super);
    int fd = -1;

    assert_int_equal(cw_unix_connect(iface->directory, iface->token, &fd), UCS_OK);
    return fd;
}

TEST_WITH(who_sends_a_wrong_hello_or_goes_meanwhile_is_dropped, begin, end)
{
    const char nonsense[100] = {1};
    unsigned polls;
    int fd;

    for (polls = 0; polls < 3; polls++) {
        fd = connect_as_unauth();
        late = polls;
        assert_int_equal(cw_unix_send(fd, nonsense, sizeof(nonsense), -1), UCS_OK);
        cw_poller_dispatch(acceptor.poller);
        cw_fd_close(fd);
        cw_poller_dispatch(acceptor.poller);
        fd = connect_as_unauth();
        late = polls;
        cw_fd_close(fd);
        cw_poller_dispatch(acceptor.poller);
        late = 0;
        cw_poller_dispatch(acceptor.poller);
    }
    assert_null(accepted);
    assert_int_equal(cw_container_of(acceptor.iface, struct shm_iface, super)->num_handshake, 0);
    side_dial(&dialler, &acceptor, NULL, &dialled);
    cw_poller_dispatch(acceptor.poller);
    assert_non_null(accepted);
}

/* ERR-1: the core of the acceptor has the connection already, and the peer waits for an answer that never comes. */
TEST_WITH(who_cannot_be_answered_is_logged_on_both_sides, begin, end)
{
    side_dial(&dialler, &acceptor, NULL, &dialled);
    refused = ETOOMANYREFS;
    cw_poller_dispatch(acceptor.poller);
    refused = 0;
    assert_non_null(accepted);
    assert_int_equal(ended, UCS_ERR_NO_RESOURCE);
    assert_true(log_lines > 0);
    log_lines = 0;
    cw_poller_dispatch(dialler.poller);
    assert_int_equal(opened, UCS_ERR_CONNECTION_RESET);
    assert_int_equal(log_lines, 1);
}

TEST_WITH(a_dial_whose_memory_cannot_be_sent_fails_at_once, begin, end)
{
    char address[64];
    const size_t length = cw_shm_transport.address(acceptor.iface, address, sizeof(address));

    refused = ETOOMANYREFS;
    assert_int_equal(cw_shm_transport.connect->dial(dialler.iface, address, length, "hello", 5, NULL, &dialled),
                     UCS_ERR_NO_RESOURCE);
    assert_null(dialled);
    assert_int_equal(log_lines, 1);
}

/* Nothing but the memory: what a peer shares it can make block, and it needs room in both processes. */
TEST_WITH(no_descriptor_comes_back, begin, end)
{
    const struct shm_conn *conn;

    side_close(&acceptor);
    side_open(&acceptor, 8256, 64, 1, &upcalls, NULL);
    side_dial(&dialler, &acceptor, NULL, &dialled);
    assert_true(beside > 0);
    beside = 0;
    cw_poller_dispatch(acceptor.poller);
    cw_poller_dispatch(dialler.poller);
    assert_int_equal(opened, UCS_OK);
    assert_int_equal(beside, 0);
    conn = cw_container_of(dialled, struct shm_conn, super);
    assert_true(conn->peer_sleeps);
    assert_false(cw_container_of(accepted, struct shm_conn, super)->peer_sleeps);
    assert_int_equal(log_lines, 0);
}
