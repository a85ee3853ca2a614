/* SPDX-License-Identifier: BSD-3-Clause */
/* Names the transport of the exercise to the conformance suite. */
#include "mailbox_transport.h"
#include "rig.h"

const struct cw_subject cw_subject = {.transport = &cw_mailbox_transport};
