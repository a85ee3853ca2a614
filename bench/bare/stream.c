/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implements stream.h.
 */
#include "stream.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bare.h"

enum { PAGE = 4096 };

static int listener;
static struct sockaddr_in address = {.sin_family = AF_INET};

char *cw_stream_memory(size_t length)
{
    char *memory = aligned_alloc(PAGE, (length + PAGE - 1) / PAGE * PAGE);

    if (memory == NULL) {
        cw_bare_die("memory");
    }
    memset(memory, 1, length);
    return memory;
}

void cw_stream_listen(void)
{
    socklen_t length = sizeof(address);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) != 0) {
        cw_bare_die("listening on the loopback interface");
    }
}

int cw_stream_connect(bool is_ping)
{
    /* Other algorithms of congestion control compute a pace for each segment. */
    static const char plainest[] = "reno";
    int one = 1;
    int connection;

    if (is_ping) {
        connection = socket(AF_INET, SOCK_STREAM, 0);
        if (connection < 0 || connect(connection, (struct sockaddr *)&address, sizeof(address)) != 0) {
            cw_bare_die("connect");
        }
    } else {
        connection = accept(listener, NULL, NULL);
        if (connection < 0) {
            cw_bare_die("accept");
        }
    }
    close(listener);
    (void)setsockopt(connection, IPPROTO_TCP, TCP_CONGESTION, plainest, sizeof(plainest) - 1);
    /* Without TCP_NODELAY the end of a message waits for the timer of a delayed acknowledgement. */
    if (setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) != 0 ||
        fcntl(connection, F_SETFL, O_NONBLOCK) != 0) {
        cw_bare_die("setting socket options");
    }
    return connection;
}

void cw_stream_send(int connection, const void *data, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t sent = send(connection, (const char *)data + done, length - done, MSG_NOSIGNAL);

        if (sent > 0) {
            done += (size_t)sent;
        } else if (sent == 0 || (errno != EAGAIN && errno != EINTR)) {
            cw_bare_die("send");
        }
    }
}

void cw_stream_recv(int connection, void *data, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t got = recv(connection, (char *)data + done, length - done, 0);

        if (got > 0) {
            done += (size_t)got;
        } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
            cw_bare_die("recv");
        }
    }
}
