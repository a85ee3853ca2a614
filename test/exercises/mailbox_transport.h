/* SPDX-License-Identifier: BSD-3-Clause */
/* Exercise of docs/TRANSPORT.md: a transport by which a worker reaches itself. */
#ifndef CW_EXERCISE_MAILBOX_TRANSPORT_H
#define CW_EXERCISE_MAILBOX_TRANSPORT_H

#include "transport/transport.h"

extern const struct cw_transport cw_mailbox_transport;

#endif
