/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The situation of the tests of os/poll.h: a poller with a signal.
 */
#ifndef CW_TEST_UNIT_TEST_POLLER_H
#define CW_TEST_UNIT_TEST_POLLER_H

#include <stdlib.h>
#include <string.h>

#include "runner.h"

#include <poll.h>

#include "base/list.h"
#include "os/poll.h"

static struct cw_poller *poller;

static inline int poller_set_up(void **state)
{
    (void)state;
    return (cw_poller_new(1, &poller) == UCS_OK) ? 0 : -1;
}

static inline int poller_tear_down(void **state)
{
    (void)state;
    cw_poller_free(poller);
    return 0;
}

static inline int readable(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

    return poll(&poll_fd, 1, 0) == 1;
}

#endif
