/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handlers of a core that has no operations above it: no state of an endpoint, and nothing expected from peers but what
 * the test says.
 */
#ifndef CW_TEST_UNIT_TEST_NO_OP_H
#define CW_TEST_UNIT_TEST_NO_OP_H

#include "core/ep.h"

static int expects;

static inline void ep_init(struct ucp_ep *ep)
{
    (void)ep;
}

static inline int ep_expects(const struct ucp_ep *ep)
{
    (void)ep;
    return expects;
}

#endif
