/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order of paths of connect/path.h.
 */
#include "connect/path.h"

#include "connect/choose.h"

static uint32_t number_of(unsigned iface, unsigned entry)
{
    return iface * CW_ADDRESS_MAX_ENTRIES + entry + 1;
}

static struct cw_plan_candidate candidate(const struct cw_iface *iface)
{
    return (struct cw_plan_candidate){
        .latency_ns = iface->limits.latency_ns, .bandwidth_bps = iface->limits.bandwidth_bps};
}

/* Whether the path (iface a, number a) comes before the path (iface b, number b). */
static bool is_before(const struct cw_iface *iface_a, uint32_t number_a, const struct cw_iface *iface_b,
                      uint32_t number_b)
{
    const struct cw_plan_candidate a = candidate(iface_a), b = candidate(iface_b);

    if (!cw_plan_is_better(&a, &b, NULL)) {
        return false;
    }
    return !cw_plan_is_better(&b, &a, NULL) || number_a < number_b;
}

int cw_path_next(struct ucp_worker *worker, const struct cw_address *address, uint32_t after,
                 const struct cw_iface *except, struct cw_path *path)
{
    const struct cw_iface *last = NULL;
    struct cw_address_entry entry;
    struct cw_path best = {.number = 0};
    struct cw_iface *iface;
    const char *why;
    uint32_t number;
    unsigned i, j;

    if (after != 0 && (after - 1) / CW_ADDRESS_MAX_ENTRIES < worker->num_ifaces) {
        last = worker->ifaces[(after - 1) / CW_ADDRESS_MAX_ENTRIES];
    }
    for (i = 0; i < worker->num_ifaces; i++) {
        iface = worker->ifaces[i];
        for (j = 0; iface != except && cw_address_get(address, j, &entry); j++) {
            number = number_of(i, j);
            if (entry.wire_id == cw_iface_wire_id(iface) &&
                (last == NULL || is_before(last, after, iface, number)) &&
                (best.number == 0 || is_before(iface, number, best.iface, best.number)) &&
                cw_iface_reachable(iface, entry.bytes, entry.length, &why)) {
                best = (struct cw_path){.iface = iface, .address = entry.bytes, .length = entry.length,
                                        .number = number};
            }
        }
    }
    if (best.number != 0) {
        *path = best;
    }
    return best.number != 0;
}

struct cw_iface *cw_path_next_iface(struct ucp_worker *worker, const struct cw_iface *after)
{
    unsigned i, best = worker->num_ifaces, last = worker->num_ifaces;

    for (i = 0; i < worker->num_ifaces; i++) {
        last = (worker->ifaces[i] == after) ? i : last;
    }
    for (i = 0; i < worker->num_ifaces; i++) {
        if ((after == NULL || is_before(after, last, worker->ifaces[i], i)) &&
            (best == worker->num_ifaces || is_before(worker->ifaces[i], i, worker->ifaces[best], best))) {
            best = i;
        }
    }
    return (best == worker->num_ifaces) ? NULL : worker->ifaces[best];
}

int cw_path_exists(struct cw_iface *iface, const struct cw_address *address, const char **why)
{
    struct cw_address_entry entry;
    unsigned i;

    *why = "the peer's address has no entry for it";
    for (i = 0; cw_address_get(address, i, &entry); i++) {
        if (entry.wire_id == cw_iface_wire_id(iface) && cw_iface_reachable(iface, entry.bytes, entry.length, why)) {
            return 1;
        }
    }
    return 0;
}
