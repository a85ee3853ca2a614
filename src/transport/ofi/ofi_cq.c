/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completions. The provider's reports are validated: a completion must name a slot in flight, and no packet may be
 * longer than its buffer. After an invalid report the provider is no longer used; the process continues.
 */
#include "transport/ofi/ofi_send.h"

#include "transport/ofi/ofi_access.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"

#define MAX_STRANGE   1000u
#define EMPTY_BATCHES 8u /* consecutive batches in one call of progress */

static struct cw_log_limit limit;

void cw_ofi_break(struct ofi_iface *iface, const char *what)
{
    struct ofi_conn *conn;

    if (!iface->broken) {
        cw_warn("%s:%s over libfabric is disabled: %s", iface->info->fabric_attr->prov_name,
                iface->info->domain_attr->name, what);
    }
    iface->broken = 1;
    cw_list_for_each(conn, &iface->conns, struct ofi_conn, link)
    {
        cw_ofi_end(conn, UCS_ERR_IO_ERROR, what);
    }
}

/* Completes a slot in flight. Returns 1 if that concerns a connection, and 0 if it concerns unauthenticated peers
 * only. */
static CW_NOINLINE unsigned complete(struct ofi_iface *iface, struct ofi_slot *slot)
{
    struct ofi_conn *conn;

    if (slot == NULL) {
        cw_ofi_break(iface, "the provider completed an operation that was not in flight");
        return 1;
    }
    if (slot->access.use != OFI_USE_PACKET) {
        cw_ofi_accessed(iface, slot, 0, NULL);
        return 1;
    }
    conn = cw_ofi_sent(iface, slot, 0, NULL);
    if (conn != NULL && cw_unlikely(!cw_list_empty(&conn->flushes))) {
        cw_ofi_end_flushes(conn);
    }
    return conn != NULL;
}

/* Handles a received packet. Returns as cw_ofi_arrived(). */
static CW_INLINE unsigned receive(struct ofi_iface *iface, struct ofi_slot *slot, size_t length, fi_addr_t source)
{
    unsigned done;

    if (cw_unlikely(length > slot->block->space)) {
        cw_ofi_break(iface, "the provider reported a packet longer than its buffer");
        return 1;
    }
    slot->state = OFI_WAITING;
    iface->strange = 0;
    done = cw_ofi_arrived(iface, slot->bytes, length, source);
    cw_ofi_post_receive(iface, slot);
    return done;
}

/* A failed receive concerns no particular connection. */
static void receive_failed(struct ofi_iface *iface, struct ofi_slot *slot, const char *text)
{
    slot->state = OFI_WAITING;
    cw_log_ratelimited(&limit, CW_LOG_DEBUG, "a receive of %s failed: %s", iface->info->fabric_attr->prov_name, text);
    if (++iface->strange > MAX_STRANGE) {
        cw_ofi_break(iface, "all receives fail");
        return;
    }
    cw_ofi_post_receive(iface, slot);
}

/* Returns 1 if the error concerns a connection. */
static unsigned take_error(struct ofi_iface *iface)
{
    struct fi_cq_err_entry entry = {0};
    struct ofi_slot *slot;
    char text[192], space[96] = "";
    const char *said;
    int error;

    if (fi_cq_readerr(iface->cq, &entry, 0) <= 0) {
        if (++iface->strange > MAX_STRANGE) {
            cw_ofi_break(iface, "repeated errors without an entry");
        }
        return 0;
    }
    error = (entry.err > 0) ? entry.err : FI_EIO; /* an error entry never means success */
    said = fi_cq_strerror(iface->cq, entry.prov_errno, entry.err_data, space, sizeof(space));
    snprintf(text, sizeof(text), "%s (%s)", iface->fi->strerror(error), (said != NULL) ? said : "no reason given");
    slot = cw_ofi_slot_find(iface, entry.op_context);
    if (slot == NULL) {
        /* Some providers report internal errors that name no slot. */
        cw_log_ratelimited(&limit, CW_LOG_DEBUG, "%s reported an error that belongs to no packet: %s",
                           iface->info->fabric_attr->prov_name, text);
        if (++iface->strange > MAX_STRANGE) {
            cw_ofi_break(iface, "repeated errors that belong to no packet");
        }
    } else if (slot->access.use != OFI_USE_PACKET) {
        cw_ofi_accessed(iface, slot, error, text);
        return 1;
    } else if (slot->block->kind == OFI_BLOCK_RECEIVE) {
        receive_failed(iface, slot, text);
    } else {
        return cw_ofi_sent(iface, slot, error, text) != NULL;
    }
    return 0;
}

static ssize_t read_queue(struct ofi_iface *iface, struct fi_cq_msg_entry *entries, fi_addr_t *sources)
{
    if (iface->objects->names_source) {
        return fi_cq_readfrom(iface->cq, entries, CW_OFI_AT_ONCE, sources);
    }
    return fi_cq_read(iface->cq, entries, CW_OFI_AT_ONCE);
}

/* Returns how many of the completions (at least one) concern connections. */
static CW_INLINE unsigned handle(struct ofi_iface *iface, const struct fi_cq_msg_entry *entries,
                                 const fi_addr_t *sources, unsigned count)
{
    unsigned done = 0, i = 0;

    do {
        struct ofi_slot *slot = cw_ofi_slot_find(iface, entries[i].op_context);

        if (cw_likely(slot != NULL && slot->block->kind == OFI_BLOCK_RECEIVE)) {
            done += receive(iface, slot, entries[i].len,
                            iface->objects->names_source ? sources[i] : FI_ADDR_NOTAVAIL);
        } else {
            done += complete(iface, slot);
        }
    } while (++i < count && !iface->broken);
    return done;
}

/* Whether the provider returned an impossible count. */
static bool is_nonsense(struct ofi_iface *iface, ssize_t count)
{
    if (cw_unlikely(count < 0 || count > (ssize_t)CW_OFI_AT_ONCE)) {
        cw_ofi_break(iface, (count < 0) ? iface->fi->strerror((int)-count) : "more completions than requested");
        return true;
    }
    return false;
}

static CW_NOINLINE unsigned handle_early(struct ofi_iface *iface)
{
    const unsigned count = iface->early.count;

    iface->early.count = 0;
    return handle(iface, iface->early.entries, iface->early.sources, count);
}

/* Handles a return value that is no count of completions. Returns as cw_ofi_poll(). */
static CW_NOINLINE unsigned not_read(struct ofi_iface *iface, ssize_t count)
{
    if (count == -FI_EAVAIL) {
        return take_error(iface);
    }
    (void)is_nonsense(iface, count);
    return 0;
}

/* Returns how many completions of a batch concern connections. *is_empty: the queue is empty. */
static CW_INLINE unsigned poll_batch(struct ofi_iface *iface, bool *is_empty)
{
    struct fi_cq_msg_entry entries[CW_OFI_AT_ONCE];
    fi_addr_t sources[CW_OFI_AT_ONCE];
    const ssize_t count = read_queue(iface, entries, sources);

    *is_empty = count <= 0;
    if (count == -FI_EAGAIN || count == 0) {
        return 0;
    }
    if (cw_unlikely(count < 0 || count > (ssize_t)CW_OFI_AT_ONCE)) {
        return not_read(iface, count);
    }
    return handle(iface, entries, sources, (unsigned)count);
}

/* Continues after a batch that concerned unauthenticated peers only. */
static CW_NOINLINE unsigned poll_on(struct ofi_iface *iface)
{
    unsigned batches, done = 0;
    bool is_empty = false;

    for (batches = 1; batches < EMPTY_BATCHES && done == 0 && !is_empty && !iface->broken; batches++) {
        done = poll_batch(iface, &is_empty);
    }
    return done;
}

unsigned cw_ofi_poll(struct ofi_iface *iface)
{
    bool is_empty;
    unsigned done;

    if (cw_unlikely(iface->broken)) {
        return 0;
    }
    if (cw_unlikely(iface->early.count > 0)) {
        done = handle_early(iface);
        return (done > 0) ? done : poll_on(iface);
    }
    done = poll_batch(iface, &is_empty);
    return (done > 0 || is_empty) ? done : poll_on(iface);
}

int cw_ofi_has_event(struct ofi_iface *iface)
{
    ssize_t count;

    if (iface->broken || iface->early.count > 0) {
        return 1;
    }
    count = read_queue(iface, iface->early.entries, iface->early.sources);
    if (count == -FI_EAGAIN) {
        return 0;
    }
    if (count != -FI_EAVAIL && !is_nonsense(iface, count)) {
        iface->early.count = (unsigned)count;
    }
    return 1;
}
