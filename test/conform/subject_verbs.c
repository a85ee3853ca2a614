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

/* As many as there are, another one first each time. */
static ucs_status_t open_next(const struct cw_iface_params *params, struct cw_iface **iface_p)
{
    struct cw_iface_params next = *params;
    ucs_status_t status;

    next.devices     = &params->devices[turn++ % params->num_devices];
    next.num_devices = 1;
    status           = cw_verbs_transport.open(&next, iface_p);
    if (status == UCS_OK) {
        (*iface_p)->transport = &in_turn;
    }
    return status;
}

__attribute__((constructor)) static void make_transport(void)
{
    in_turn      = cw_verbs_transport;
    in_turn.open = open_next;
}

const struct cw_subject cw_subject = {.transport = &in_turn,
                                      .traits = CW_SUBJECT_PROCESSES | CW_SUBJECT_DIALS_OUT | CW_SUBJECT_NEEDS_WATCH};
