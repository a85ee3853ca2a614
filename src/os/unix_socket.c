/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * os/unix_socket.h on SOCK_SEQPACKET sockets. Processes of another user are rejected by their credentials. Processes of
 * this user are trusted: they could read our memory by other means anyway.
 */
#include "os/unix_socket.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "os/host.h"

#define NAME_PREFIX "causeway-"
#define MAX_FDS     253 /* the kernel's limit per message; it closes descriptors that do not fit here */

static bool is_abstract(const char *directory)
{
    return directory == NULL || directory[0] == '\0';
}

/* Returns the length of the address, or 0 when the directory's name is too long. */
static socklen_t make_name(const char *directory, uint64_t token, struct sockaddr_un *name)
{
    int length;

    memset(name, 0, sizeof(*name));
    name->sun_family = AF_UNIX;
    if (is_abstract(directory)) {
        length = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, NAME_PREFIX "%016llx",
                          (unsigned long long)token);
        return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    }
    length = snprintf(name->sun_path, sizeof(name->sun_path), "%s/" NAME_PREFIX "%016llx", directory,
                      (unsigned long long)token);
    return ((size_t)length >= sizeof(name->sun_path)) ? 0 : (socklen_t)sizeof(*name);
}

static int new_socket(void)
{
    return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

ucs_status_t cw_unix_listen(const char *directory, uint64_t token, int *fd_p)
{
    struct sockaddr_un name;
    socklen_t length = make_name(directory, token, &name);
    int fd;

    if (length == 0) {
        cw_error("UCX_POSIX_DIR=%s is too long for the name of a socket", directory);
        return UCS_ERR_NO_DEVICE;
    }
    fd = new_socket();
    if (fd < 0 || bind(fd, (const struct sockaddr *)&name, length) < 0 || listen(fd, SOMAXCONN) < 0) {
        cw_error("cannot listen for peers on this machine%s%s: %m%s", is_abstract(directory) ? "" : " in directory ",
                 is_abstract(directory) ? "" : directory,
                 (errno == EMFILE) ? "; raise the limit of open files (ulimit -n)" : "");
        cw_fd_close(fd);
        return UCS_ERR_IO_ERROR;
    }
    *fd_p = fd;
    return UCS_OK;
}

void cw_unix_unlink(const char *directory, uint64_t token)
{
    struct sockaddr_un name;

    if (!is_abstract(directory) && make_name(directory, token, &name) > 0) {
        (void)unlink(name.sun_path);
    }
}

/* Whether the process that connected or listens there belongs to our user. */
static bool is_our_user(int fd, const char *what)
{
    static struct cw_log_limit limit;
    struct ucred peer = {0};
    socklen_t length = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid()) {
        return true;
    }
    cw_log_ratelimited(&limit, CW_LOG_WARN,
                       "dropped a connection over shared memory %s process %d of user %u: different user; enable tcp "
                       "by UCX_TLS on both sides, or run both as one user", what,
                       (int)peer.pid, (unsigned)peer.uid);
    return false;
}

ucs_status_t cw_unix_connect(const char *directory, uint64_t token, int *fd_p)
{
    struct sockaddr_un name;
    socklen_t length = make_name(directory, token, &name);
    int fd, error;

    if (length == 0) {
        return UCS_ERR_UNREACHABLE;
    }
    fd = new_socket();
    if (fd < 0) {
        cw_error("cannot open a socket to a peer on this machine: %m");
        return UCS_ERR_NO_RESOURCE;
    }
    if (connect(fd, (const struct sockaddr *)&name, length) == 0) {
        if (!is_our_user(fd, "to")) { /* another user may have taken the name after the peer had gone */
            cw_fd_close(fd);
            return UCS_ERR_REJECTED;
        }
        *fd_p = fd;
        return UCS_OK;
    }
    error = errno;
    cw_fd_close(fd);
    return (error == EAGAIN) ? UCS_ERR_BUSY : UCS_ERR_UNREACHABLE;
}

void cw_unix_sweep(const char *directory)
{
    DIR *dir = is_abstract(directory) ? NULL : opendir(directory);
    unsigned long long token;
    struct dirent *entry;
    int fd, end;

    if (dir == NULL) {
        return;
    }
    while ((entry = readdir(dir)) != NULL) {
        end = 0;
        if (sscanf(entry->d_name, NAME_PREFIX "%16llx%n", &token, &end) == 1 && entry->d_name[end] == '\0') {
            fd = -1;
            if (cw_unix_connect(directory, token, &fd) == UCS_ERR_UNREACHABLE) {
                cw_unix_unlink(directory, token);
            }
            cw_fd_close(fd);
        }
    }
    closedir(dir);
}

static uint64_t directory_within(uint64_t boot, const struct stat *st)
{
    return cw_hash_mix(boot ^ cw_hash_mix((uint64_t)st->st_dev) ^ (uint64_t)st->st_ino) | 1u;
}

const char *cw_unix_why_apart(const char *directory, uint64_t ours, uint64_t theirs)
{
    struct stat st;

    if (is_abstract(directory)) {
        return cw_host_why_apart(ours, theirs);
    }
    return (stat(directory, &st) < 0) ? NULL :
           cw_host_why_other_boot(theirs, directory_within(cw_host_boot_by_name(), &st));
}

uint64_t cw_unix_directory_id(const char *directory)
{
    struct stat st;

    if (is_abstract(directory)) {
        return cw_host_netns_id();
    }
    if (stat(directory, &st) < 0 || !S_ISDIR(st.st_mode)) {
        cw_error("UCX_POSIX_DIR=%s cannot be used: %m", directory);
        return 0;
    }
    return directory_within(cw_host_boot_id(), &st);
}

ucs_status_t cw_unix_accept(int listen_fd, int *fd_p)
{
    int fd;

    do {
        fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    } while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
    if (fd < 0) { /* for any other error accept would fail again at once: the connection stays in the queue */
        return (errno == EAGAIN) ? UCS_ERR_NO_ELEM : UCS_ERR_NO_RESOURCE;
    }
    if (!is_our_user(fd, "from")) {
        cw_fd_close(fd);
        return UCS_ERR_REJECTED;
    }
    *fd_p = fd;
    return UCS_OK;
}

static ucs_status_t not_sent(int error)
{
    static struct cw_log_limit limit;

    if (error == EPIPE || error == ECONNRESET || error == ENOTCONN) {
        return UCS_ERR_CONNECTION_RESET;
    }
    cw_log_ratelimited(&limit, CW_LOG_WARN, "cannot send a message to a peer on this machine: %s%s", strerror(error),
                       (error == ETOOMANYREFS) ? "; too many descriptors of this user are in flight in sockets: end "
                                                 "processes that do not receive them, or raise the limit of open files "
                                                 "(ulimit -n)" : "");
    return UCS_ERR_NO_RESOURCE;
}

ucs_status_t cw_unix_send(int fd, const void *data, size_t length, int fd_sent)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {.bytes = {0}};
    struct iovec iov = {.iov_base = (void *)data, .iov_len = length};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    struct cmsghdr *header;
    ssize_t ret;

    if (fd_sent >= 0) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(sizeof(int));
        header = CMSG_FIRSTHDR(&msg);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &fd_sent, sizeof(int));
    }
    do {
        ret = sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (ret < 0 && errno == EINTR);
    return (ret == (ssize_t)length) ? UCS_OK : not_sent(errno);
}

/* Closes an unwanted descriptor from a peer. It may be a socket whose close lingers until its bytes are sent, for as
 * long as the peer has set; so lingering is turned off first. */
static void discard(int fd)
{
    const struct linger none = {.l_onoff = 0};

    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
    cw_fd_close(fd);
}

/* Keeps the first descriptor and closes the others; returns their number. */
static size_t take_fds(struct msghdr *msg, int *fd_p)
{
    size_t count = 0, i, part;
    struct cmsghdr *header;
    int fd;

    for (header = CMSG_FIRSTHDR(msg); header != NULL; header = CMSG_NXTHDR(msg, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        part = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (i = 0; i < part; i++) {
            memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(fd));
            if (count++ == 0) {
                *fd_p = fd;
            } else {
                discard(fd);
            }
        }
    }
    return count;
}

ucs_status_t cw_unix_recv(int fd, void *data, size_t *length_p, int *fd_p)
{
    union {
        char bytes[CMSG_SPACE(MAX_FDS * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec iov = {.iov_base = data, .iov_len = *length_p};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    size_t num_fds;
    ssize_t ret;

    *fd_p = -1;
    do {
        ret = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    } while (ret < 0 && errno == EINTR);
    if (ret < 0) {
        return (errno == EAGAIN) ? UCS_ERR_NO_ELEM : UCS_ERR_CONNECTION_RESET;
    }
    num_fds = take_fds(&msg, fd_p);
    if (ret == 0 && num_fds == 0) {
        return UCS_ERR_CONNECTION_RESET;
    }
    *length_p = (size_t)ret;
    if (num_fds > 1 || (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
        cw_unix_discard(fd_p);
        return (msg.msg_flags & MSG_CTRUNC) ? UCS_ERR_NO_RESOURCE : UCS_ERR_INVALID_PARAM;
    }
    return UCS_OK;
}

void cw_unix_discard(int *fd_p)
{
    if (*fd_p >= 0) {
        discard(*fd_p);
        *fd_p = -1;
    }
}

int cw_unix_send_byte(int fd)
{
    const int saved = errno;
    const char byte = 0;
    ssize_t ret;
    int alive;

    do {
        ret = send(fd, &byte, sizeof(byte), MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (ret < 0 && errno == EINTR);
    alive = ret == (ssize_t)sizeof(byte) || errno == EAGAIN || not_sent(errno) == UCS_OK;
    errno = saved;
    return alive;
}

int cw_unix_peer_pid(int fd)
{
    struct ucred peer;
    socklen_t length = sizeof(peer);

    return (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.pid > 0) ? (int)peer.pid : 0;
}

void cw_unix_close(int fd)
{
    if (fd >= 0) {
        (void)shutdown(fd, SHUT_RDWR);
        close(fd);
    }
}

void cw_fd_close(int fd)
{
    if (fd >= 0) {
        close(fd);
    }
}

void cw_fd_hide(int fd)
{
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
}
