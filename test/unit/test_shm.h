/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ground that the tests of the shared memory transport share: an interface with its poller, to be embedded in what a
 * test calls a node. Its upcalls are the test's.
 */
#ifndef CW_TEST_SHM_H
#define CW_TEST_SHM_H

#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "config/config.h"
#include "os/poll.h"
#include "transport/shm/shm.h"
#include "transport/shm/shm_transport.h"

struct side {
    struct cw_config config;
    struct cw_poller *poller;
    struct cw_iface *iface;
};

/* segment, fifo: UCX_POSIX_SEG_SIZE and UCX_POSIX_FIFO_SIZE. */
static inline void side_open(struct side *side, size_t segment, unsigned fifo, int wakeup,
                             const struct cw_upcalls *upcalls, void *owner)
{
    static const struct cw_device device = {.name = "memory"};
    struct cw_iface_params params = {.config = &side->config, .upcalls = upcalls, .owner = owner,
                                     .devices = &device, .num_devices = 1, .worker_uid = 1, .wakeup = wakeup};

    memset(side, 0, sizeof(*side));
    side->config.posix_seg_size = segment;
    side->config.posix_fifo_size = fifo;
    side->config.posix_bw_bps = 1e10;
    assert_int_equal(cw_poller_new(wakeup, &side->poller), UCS_OK);
    params.poller = side->poller;
    assert_int_equal(cw_shm_transport.open(&params, &side->iface), UCS_OK);
}

/* Its connections are closed. */
static inline void side_close(struct side *side)
{
    cw_shm_transport.close(side->iface);
    cw_poller_free(side->poller);
}

static inline void side_progress(struct side *side)
{
    cw_poller_dispatch(side->poller);
    cw_shm_transport.progress(side->iface);
}

/* Begins to dial: neither side has progressed yet. */
static inline void side_dial(struct side *from, struct side *to, void *user, struct cw_conn **conn_p)
{
    char address[64];
    const size_t length = cw_shm_transport.address(to->iface, address, sizeof(address));

    assert_int_equal(cw_shm_transport.connect->dial(from->iface, address, length, "hello", 5, user, conn_p), UCS_OK);
}

#endif
