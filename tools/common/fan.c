/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One out-of-band connection for several threads.
 *
 * Callers: threads.c of the performance tool.
 * On the connection: number of the thread (4 bytes, little-endian) and some of its bytes, none at their end.
 * The carrier feeds no watchdog: that is for the threads to do, which call the library.
 */
#define _GNU_SOURCE
#include "fan.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PART = 65536, SLICE_MS = 100 };

int cw_fan_open(struct cw_fan *fan, struct cw_oob *trunk, unsigned count, const atomic_bool *stop)
{
    *fan = (struct cw_fan){.trunk = trunk, .stop = stop, .ends = calloc(count, sizeof(*fan->ends))};
    if (fan->ends == NULL) {
        return cw_oob_fail("out of memory for %u threads", count);
    }
    for (unsigned i = 0; i < count; i++) {
        int fds[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0) {
            int error = errno;
            cw_fan_close(fan);
            return cw_oob_fail("no pair of sockets for thread %u: %s", i, strerror(error));
        }
        fan->ends[i] = (struct cw_fan_end){
            .oob = {.fd = fds[0], .timeout_ms = trunk->timeout_ms},
            .near = fds[1],
        };
        fan->count = i + 1;
    }
    return 0;
}

/* From a thread to the peer. */
static int forward(struct cw_fan *fan, unsigned index)
{
    struct cw_fan_end *end = &fan->ends[index];
    uint8_t part[4 + PART] = {(uint8_t)index, (uint8_t)(index >> 8), (uint8_t)(index >> 16), (uint8_t)(index >> 24)};
    ssize_t got = recv(end->near, part + 4, PART, 0);

    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return 0;
    }
    if (got <= 0) {
        end->ipc_ended = true;
        got = 0;
    }
    return cw_oob_send(fan->trunk, CW_OOB_CHANNEL, part, 4 + (size_t)got);
}

/* A thread that does not take its bytes holds up the others: it has ended, or the time limit of the others does. */
static int deliver(struct cw_fan *fan, struct cw_fan_end *end, const uint8_t *bytes, size_t length)
{
    while (length > 0) {
        ssize_t sent = send(end->near, bytes, length, MSG_NOSIGNAL);
        if (sent >= 0) {
            bytes += sent;
            length -= (size_t)sent;
        } else if (errno == EAGAIN) {
            struct pollfd item = {.fd = end->near, .events = POLLOUT};
            poll(&item, 1, SLICE_MS);
            if (atomic_load(fan->stop)) {
                return cw_oob_fail("a thread has failed");
            }
        } else if (errno != EINTR) {
            return 0; /* It is gone and wants nothing. */
        }
    }
    return 0;
}

/* From the peer to a thread. */
static int take(struct cw_fan *fan)
{
    enum cw_oob_type type;
    void *payload;
    size_t length;

    if (cw_oob_recv(fan->trunk, 1u << CW_OOB_CHANNEL, &type, &payload, &length) != 0) {
        return -1;
    }
    const uint8_t *bytes = payload;
    uint32_t index = UINT32_MAX;
    int result = 0;
    if (length >= 4) {
        index = bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
    }
    if (index >= fan->count || fan->ends[index].far_ended) {
        result = cw_oob_fail("the peer sent bytes for a thread that does not exist");
    } else if (length == 4) {
        fan->ends[index].far_ended = true;
        shutdown(fan->ends[index].near, SHUT_WR);
    } else {
        result = deliver(fan, &fan->ends[index], bytes + 4, length - 4);
    }
    free(payload);
    return result;
}

static bool all_ended(const struct cw_fan *fan)
{
    for (unsigned i = 0; i < fan->count; i++) {
        if (!fan->ends[i].ipc_ended || !fan->ends[i].far_ended) {
            return false;
        }
    }
    return true;
}

static int carry_once(struct cw_fan *fan, struct pollfd *items)
{
    items[fan->count] = (struct pollfd){.fd = fan->trunk->fd, .events = POLLIN};
    for (unsigned i = 0; i < fan->count; i++) {
        items[i] = (struct pollfd){.fd = fan->ends[i].ipc_ended ? -1 : fan->ends[i].near, .events = POLLIN};
    }
    if (poll(items, fan->count + 1, SLICE_MS) < 0 && errno != EINTR) {
        return cw_oob_fail("poll failed: %s", strerror(errno));
    }
    if (atomic_load(fan->stop)) {
        return cw_oob_fail("a thread has failed");
    }
    for (unsigned i = 0; i < fan->count; i++) {
        if (items[i].fd >= 0 && items[i].revents != 0 && forward(fan, i) != 0) {
            return -1;
        }
    }
    return items[fan->count].revents != 0 ? take(fan) : 0;
}

int cw_fan_carry(struct cw_fan *fan)
{
    struct pollfd *items = calloc(fan->count + 1, sizeof(*items));
    int result = 0;

    if (items == NULL) {
        result = cw_oob_fail("out of memory");
    } else {
        while (result == 0 && !all_ended(fan)) {
            result = carry_once(fan, items);
        }
    }
    for (unsigned i = 0; result != 0 && i < fan->count; i++) {
        shutdown(fan->ends[i].near, SHUT_RDWR);
    }
    free(items);
    return result;
}

void cw_fan_close(struct cw_fan *fan)
{
    for (unsigned i = 0; i < fan->count; i++) {
        cw_oob_close(&fan->ends[i].oob);
        if (fan->ends[i].near >= 0) {
            close(fan->ends[i].near);
        }
    }
    free(fan->ends);
    *fan = (struct cw_fan){0};
}
