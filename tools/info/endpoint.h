/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints to a peer of our own.
 *
 * Callers: objects.c, why.c.
 */
#ifndef CW_INFO_ENDPOINT_H
#define CW_INFO_ENDPOINT_H

#include "side.h"

/* -e: connects an endpoint and prints it. An exit status, after a sentence on stderr if it is a bad one. */
int cw_endpoint_show(struct cw_info_side *side, const struct cw_info_options *options);

/* The peer that lies there. `peer` is opened unless it is the side itself. The address is to be freed. NULL: a sentence
 * is on stderr. */
ucp_address_t *cw_endpoint_peer(struct cw_info_side *side, struct cw_info_side *peer, enum cw_info_place place,
                                const struct cw_info_options *options, uint64_t features);

#endif
