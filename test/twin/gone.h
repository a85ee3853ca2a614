/* SPDX-License-Identifier: BSD-3-Clause */
/* One operation by name, on an endpoint whose peer goes away. */
#ifndef CW_TWIN_GONE_H
#define CW_TWIN_GONE_H

#include "twin.h"

enum { GONE_AM_ID = 3, GONE_TAG = 7 };

/* Memory of this side, and of the peer. */
struct gone_area {
    void *memory;
    const void *key;
    uint64_t remote;
};

/* `what`: tag, sync, am, stream, flush, put, get. */
ucs_status_ptr_t gone_post(const char *what, ucp_ep_h of, const struct gone_area *area, size_t length,
                           const ucp_request_param_t *param);

#endif
