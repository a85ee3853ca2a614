/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Paths to a peer. A path is one interface of this worker and one entry of the peer's address that belongs to the same
 * transport. The order of the paths is a pure function of the interfaces' numbers (connect/choose.h), so an endpoint
 * whose dial failed continues with the path behind the one that it tried last.
 */
#ifndef CW_CONNECT_PATH_H
#define CW_CONNECT_PATH_H

#include "core/ep.h"
#include "wire/address.h"

struct cw_path {
    struct cw_iface *iface;
    const void *address;    /* of the peer's interface; borrowed from the peer's address */
    size_t length;
    uint32_t number;        /* identifies the pair for this worker and this address; never 0 */
};

/* The best path behind the path of the number `after` (0: the best of all) that does not use the interface `except`
 * (NULL: any may be used). Returns 0, and leaves *path unchanged, if there is none. No system call. */
int cw_path_next(struct ucp_worker *worker, const struct cw_address *address, uint32_t after,
                 const struct cw_iface *except, struct cw_path *path);

/* The interfaces of a worker in that order: the one behind `after` (NULL: the first), or NULL at the end. */
struct cw_iface *cw_path_next_iface(struct ucp_worker *worker, const struct cw_iface *after);

/* Whether some path uses this interface; otherwise *why is a constant phrase. No system call. */
int cw_path_exists(struct cw_iface *iface, const struct cw_address *address, const char **why);

#endif
