/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unauthenticated connections by TCP, to a worker's port or a listener's: dial, send something wrong, and be closed.
 */
#ifndef CW_CHAOS_HOSTILE_TCP_H
#define CW_CHAOS_HOSTILE_TCP_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hostile.h"

/* A connection to this port (in the order of the network), which does not block. */
static inline int cw_dial_port(uint16_t port)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = port};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    cw_check(fd >= 0 && connect(fd, (const struct sockaddr *)&name, sizeof(name)) == 0);
    cw_check(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    return fd;
}

/* Of a pointer to a descriptor, for cw_server_until. */
static inline int fd_ended(void *argument)
{
    ssize_t got;
    char byte;

    while ((got = recv(*(int *)argument, &byte, 1, 0)) == 1) {
    }
    return got == 0 || errno != EAGAIN;
}

/* Sends these bytes (with `finish`, and then FIN), and waits until the server closes. */
static inline void cw_must_close(uint16_t port, const void *bytes, size_t length, int finish)
{
    int fd;

    cw_log_mark();
    fd = cw_dial_port(port);
    cw_check(send(fd, bytes, length, MSG_NOSIGNAL) == (ssize_t)length);
    if (finish) {
        (void)shutdown(fd, SHUT_WR);
    }
    cw_server_until(fd_ended, &fd);
    (void)close(fd);
    cw_check_served(1);
    cw_sleep_ms(110); /* ten lines a second pass the log; each of these is to be counted */
}

#endif
