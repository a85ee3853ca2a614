/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For endpoints and workers whose transport has no fast path.
 */
#include "transport/transport.h"

static struct cw_line nothing;

struct cw_tx cw_no_tx;
struct cw_rx cw_no_rx = {.line = &nothing, .answers = &cw_no_tx};
