/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verbs transport with its devices in turn, so that the two sides of the rig are two devices where there are two:
 * as in the virtual machine of test/rdma.
 */
#include <string.h>

#include "rig.h"
#include "transport/verbs/verbs_transport.h"

static struct cw_transport in_turn;
static unsigned turn;

/* As many as there are, another one first after each opening. */
static unsigned query_rotated(const struct cw_config *config, struct cw_device *devices, unsigned max)
{
    const unsigned count = cw_verbs_transport.query_devices(config, devices, max);
    struct cw_device first;
    unsigned i;

    for (i = 0; count > 0 && count <= max && i < turn % count; i++) {
        first = devices[0];
        memmove(&devices[0], &devices[1], (count - 1) * sizeof(devices[0]));
        devices[count - 1] = first;
    }
    return count;
}

static ucs_status_t open_next(const struct cw_iface_params *params, struct cw_iface **iface_p)
{
    ucs_status_t status = cw_verbs_transport.open(params, iface_p);

    if (status == UCS_OK) {
        (*iface_p)->transport = &in_turn;
    }
    turn++;
    return status;
}

__attribute__((constructor)) static void make_transport(void)
{
    in_turn = cw_verbs_transport;
    in_turn.query_devices = query_rotated;
    in_turn.open = open_next;
}

const struct cw_subject cw_subject = {.transport = &in_turn,
                                      .traits = CW_SUBJECT_PROCESSES | CW_SUBJECT_DIALS_OUT | CW_SUBJECT_NEEDS_WATCH};
