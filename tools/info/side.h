/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One side of a connection: a context and a worker as a program would make them; and waiting for connections between
 * sides of this process, with a limit.
 *
 * Callers: objects.c, endpoint.c, why*.c. What is public is used as by a program.
 */
#ifndef CW_INFO_SIDE_H
#define CW_INFO_SIDE_H

#include "options.h"
#include "ucp/api/ucp.h"

struct cw_info_side {
    ucp_context_h context;
    ucp_worker_h worker;        /* NULL: none yet */
};

/* The settings, with the devices of one kind alone. UCS_OK, or a sentence on stderr and the status. */
ucs_status_t cw_side_config(enum cw_info_devices only, ucp_config_t **config_p);
/* A context with these features and, of the devices that the settings allow, those of one kind. Answers likewise. */
ucs_status_t cw_side_open(struct cw_info_side *side, const struct cw_info_options *options, uint64_t features,
                          enum cw_info_devices only);
ucs_status_t cw_side_add_worker(struct cw_info_side *side);
/* Also of a side that was never opened, if it is zero. */
void cw_side_close(struct cw_info_side *side);

/* Features that a program of this operation needs. */
uint64_t cw_side_features(enum cw_info_op op);

/* Connects an endpoint of `side`, with progress of both; `peer` may be NULL. UCS_ERR_TIMED_OUT after ten seconds. */
ucs_status_t cw_side_connect(struct cw_info_side *side, struct cw_info_side *peer, ucp_ep_h ep);
/* A connected endpoint of `side` to that worker address. */
ucs_status_t cw_side_meet(struct cw_info_side *side, struct cw_info_side *peer, const ucp_address_t *address,
                          int error_handling, ucp_ep_h *ep_p);
/* Closes it. */
void cw_side_part(struct cw_info_side *side, struct cw_info_side *peer, ucp_ep_h ep);

#endif
