/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bare limit of a connection over shared memory, until the first answer: a trip makes a segment, passes it to the other
 * process through a socket that is made for it, and has one word there and one back, each in a page of its own. Both
 * processes poll without sleeping; what they make stays until the end, as connections do. What a library has to do
 * beside that is left out: whom it talks to, whether he may, what he can, and who looks after the socket.
 */
#define _GNU_SOURCE
#include "bare.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* As long as the segment of a connection of the library, and as many pages are touched first. */
enum { PAGE = 4096, SEGMENT = 4 << 20, SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

struct segment {
    char control[PAGE];
    _Alignas(PAGE) _Atomic uint64_t there;
    _Alignas(PAGE) _Atomic uint64_t back;
};

static struct sockaddr_un name = {.sun_family = AF_UNIX};
static socklen_t name_length;
static int listener;

static void check(bool fine, const char *what)
{
    if (!fine) {
        cw_bare_die(what);
    }
}

/* A name that the system chooses, without a file. */
static void open_listener(bool sleeps)
{
    struct rlimit limit;

    (void)sleeps;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
    name_length = sizeof(name);
    check(listener >= 0 && bind(listener, (struct sockaddr *)&name, offsetof(struct sockaddr_un, sun_path)) == 0 &&
              listen(listener, 1) == 0 && getsockname(listener, (struct sockaddr *)&name, &name_length) == 0,
          "listening");
}

static void start(bool is_ping)
{
    (void)is_ping;
}

static struct segment *map(int fd)
{
    struct segment *segment = mmap(NULL, SEGMENT, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    check(segment != MAP_FAILED, "mmap");
    close(fd);
    return segment;
}

/* Sends or receives a byte and a descriptor. */
static bool pass(int connection, int *fd, bool sends)
{
    char byte = 1, control[CMSG_SPACE(sizeof(int))] __attribute__((aligned(sizeof(size_t)))) = {0};
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    if (sends) {
        *header = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(header), fd, sizeof(*fd));
        return sendmsg(connection, &message, MSG_NOSIGNAL) == 1;
    }
    if (recvmsg(connection, &message, MSG_CMSG_CLOEXEC) != 1) {
        return false;
    }
    header = CMSG_FIRSTHDR(&message);
    check(header != NULL && header->cmsg_type == SCM_RIGHTS, "the descriptor");
    memcpy(fd, CMSG_DATA(header), sizeof(*fd));
    return true;
}

static void ping(uint64_t trip)
{
    const int connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int fd;

    check(connection >= 0 && connect(connection, (struct sockaddr *)&name, name_length) == 0, "connect");
    fd = memfd_create("bare", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    check(fd >= 0 && ftruncate(fd, SEGMENT) == 0 && fcntl(fd, F_ADD_SEALS, SEALS) == 0, "memory");
    check(pass(connection, &fd, true), "passing memory");
    struct segment *segment = map(fd);
    segment->control[0] = 1;
    atomic_store_explicit(&segment->there, trip, memory_order_release);
    while (atomic_load_explicit(&segment->back, memory_order_acquire) != trip) {
    }
}

static void pong(uint64_t trip)
{
    int connection, fd;

    while ((connection = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) < 0) {
        check(errno == EAGAIN, "accept");
    }
    while (!pass(connection, &fd, false)) {
        check(errno == EAGAIN, "taking memory");
    }
    check(fcntl(fd, F_GET_SEALS) == SEALS, "seals");
    struct segment *segment = map(fd);
    while (atomic_load_explicit(&segment->there, memory_order_acquire) != trip) {
    }
    atomic_store_explicit(&segment->back, trip, memory_order_release);
}

int main(int argc, char **argv)
{
    static const struct cw_bare bare = {
        .name = "bare_connect",
        .open = open_listener,
        .start = start,
        .ping = ping,
        .pong = pong,
    };

    return cw_bare_main(&bare, argc, argv);
}
