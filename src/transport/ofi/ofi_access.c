/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Remote memory access. The data are staged in slots of the transport, since libfabric cannot cancel an access: after
 * the end of a connection the provider may still read or write the slot, but never memory of the program.
 *
 * A put is complete when it is known to be in the target's memory (enum ofi_delivery). If the provider does not report
 * that, a read of the last written bytes (the echo) is posted directly behind the write, with the same key. If the read
 * cannot be posted there, it proves nothing, because the provider may have lost the write with its connection and
 * reconnected meanwhile: then write and read are repeated, which the contract allows before `done`.
 */
#include "transport/ofi/ofi_access.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "transport/ofi/ofi_send.h"

#define MAX_SHORT 256u
#define ECHO      8u /* most bytes that are read back */

static unsigned ofi_peer_domain(const struct cw_conn *super)
{
    return cw_container_of(super, const struct ofi_conn, super)->reach.domain;
}

/* ---- exchange of struct cw_ofi_reach ---- */

size_t cw_ofi_reach_write(const struct ofi_iface *iface, char *to)
{
    const struct ofi_domain *domain = iface->objects;
    const struct cw_ofi_reach reach = {.mr_mode = (uint32_t)domain->info->domain_attr->mr_mode,
                                    .key_length = (uint8_t)domain->key_length,
                                    .domain = domain->super.number,
                                    .length = (uint16_t)domain->end_length};

    if (!domain->reaches) {
        return 0;
    }
    memcpy(to, &reach, sizeof(reach));
    cw_bytes_copy_any(to + sizeof(reach), domain->end_address, domain->end_length);
    return sizeof(reach) + domain->end_length;
}

void cw_ofi_reach_read(struct ofi_conn *conn, const char *bytes, size_t length)
{
    struct ofi_iface *iface = cw_ofi_iface_of(&conn->super);
    const struct ofi_domain *domain = iface->objects;
    struct cw_ofi_reach reach;

    if (!domain->reaches || length < sizeof(reach) || conn->reach.domain != 0) {
        return;
    }
    memcpy(&reach, bytes, sizeof(reach));
    if (reach.mr_mode != (uint32_t)domain->info->domain_attr->mr_mode || reach.key_length != domain->key_length ||
        reach.domain == 0 || reach.domain > CW_DOMAIN_MAX || reach.length != length - sizeof(reach) ||
        reach.length > CW_OFI_MAX_ADDRESS || (reach.length > 0) != (domain->end != NULL)) {
        return;
    }
    if (reach.length > 0) {
        conn->reach.route = cw_ofi_route_get(iface, (const uint8_t *)bytes + sizeof(reach), reach.length);
        if (conn->reach.route == NULL) {
            return;
        }
    }
    conn->reach.domain = reach.domain;
}

/* ---- the end of an access ---- */

static bool is_fetch(const struct ofi_slot *slot)
{
    return slot->access.use == OFI_USE_GET || slot->access.use == OFI_USE_ATOMIC;
}

static ucs_status_t status_of(int error)
{
    if (error == 0) {
        return UCS_OK;
    }
    return (error == FI_EKEYREJECTED || error == FI_EACCES || error == FI_EPERM || error == FI_EFAULT)
               ? UCS_ERR_INVALID_ADDR
               : UCS_ERR_IO_ERROR;
}

static void submit_bye(struct ofi_iface *iface, struct ofi_slot *bye)
{
    struct ofi_peer *peer = bye->peer;

    cw_ofi_submit(iface, NULL, peer, bye);
    cw_ofi_peer_drop(peer);
}

/* Frees an access, which is in no list of its connection any more. */
static void dispose(struct ofi_iface *iface, struct ofi_slot *slot)
{
    struct ofi_route *route = slot->route;
    struct ofi_peer *peer = slot->peer;
    struct ofi_slot *bye = slot->access.bye;

    if (slot->access.is_mapped) {
        cw_lock_enter(&iface->objects->lock);
        (void)fi_mr_unmap_key(iface->objects->domain, slot->access.mapped);
        cw_lock_leave(&iface->objects->lock);
    }
    if (slot->access.echo != NULL) {
        cw_ofi_slot_free(iface, slot->access.echo);
    }
    cw_ofi_slot_free(iface, slot);
    iface->flying--;
    if (bye != NULL && --bye->access.waiting_for == 0) {
        submit_bye(iface, bye);
    }
    cw_ofi_route_drop(iface, route);
    cw_ofi_peer_drop(peer);
}

static bool is_before(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) < 0;
}

static void end_flushes(struct ofi_conn *conn, ucs_status_t status)
{
    struct cw_completion *completion;
    struct ofi_flush *flush;
    ucs_status_t answer;

    if (conn->state == OFI_ENDING) {
        return; /* they end with `closed` */
    }
    while (!cw_list_empty(&conn->access_flushes)) {
        flush = cw_list_head(&conn->access_flushes, struct ofi_flush, link);
        if (!cw_list_empty(&conn->accesses) &&
            is_before(cw_list_head(&conn->accesses, struct ofi_slot, link)->number, flush->number)) {
            return;
        }
        cw_list_remove(&flush->link);
        completion = flush->completion;
        answer = (status == UCS_OK) ? conn->access_error : status;
        conn->access_error = UCS_OK;
        free(flush);
        completion->done(completion, answer);
    }
}

/* Whether the access may still be executed: it is in flight, or its write was sent and is not confirmed yet. */
static bool is_open(const struct ofi_slot *slot)
{
    return slot->access.under_way > 0 || (slot->access.is_written && !slot->access.is_seen && !slot->access.is_over);
}

/* Removes an access from its connection. */
static void leave_conn(struct ofi_conn *conn, struct ofi_slot *slot)
{
    cw_list_remove(&slot->link);
    conn->accessing--;
    conn->fetching -= (unsigned)is_fetch(slot);
    conn->longs -= slot->block->kind == OFI_BLOCK_LONG;
    if (!cw_list_empty(&slot->waiting) && !slot->access.is_over) {
        conn->stuck--;
    }
    if (!is_open(slot)) {
        cw_list_remove(&slot->waiting);
    }
}

static void finish(struct ofi_iface *iface, struct ofi_slot *slot)
{
    struct ofi_access *access = &slot->access;
    struct ofi_conn *conn = slot->conn;
    struct cw_completion *completion;
    ucs_status_t status = status_of(access->error);

    if (conn == NULL) {
        cw_list_remove(&slot->link);
        dispose(iface, slot);
        return;
    }
    if (status == UCS_ERR_IO_ERROR && conn->state != OFI_OPEN) {
        status = conn->status; /* the reason of the connection's end */
    }
    access->is_over = access->is_over || cw_list_empty(&slot->waiting);
    leave_conn(conn, slot);
    completion = access->completion;
    if (status == UCS_OK && access->result != NULL) {
        memcpy(access->result, slot->bytes + 2 * sizeof(uint64_t), sizeof(*access->result));
    }
    if (status == UCS_OK && access->unpack != NULL) {
        access->unpack(slot->bytes, slot->length, access->arg);
    }
    dispose(iface, slot);
    if (completion != NULL) {
        completion->done(completion, status);
    } else if (conn->access_error == UCS_OK) {
        conn->access_error = status;
    }
    end_flushes(conn, UCS_OK);
}

/* A refused access breaks its connection. With ofi_rxm it also breaks the provider's own connection and silently loses
 * packets of other connections to that peer, except of those created later. */
static void break_conns(struct ofi_iface *iface, const struct ofi_slot *slot, const char *text)
{
    const int shares = (iface->objects->quirks & CW_OFI_SHARES_BREAK) != 0;
    struct ofi_conn *conn;

    if (shares) {
        cw_ofi_route_renew(iface, slot->peer->route, slot->access.age);
    }

    cw_list_for_each(conn, &iface->conns, struct ofi_conn, link)
    {
        if (conn == slot->conn || (shares && conn->peer == slot->peer && conn->age < slot->access.age)) {
            cw_ofi_end(conn, UCS_ERR_CONNECTION_RESET, text);
        }
    }
}

void cw_ofi_access_refuse(struct ofi_iface *iface, struct ofi_slot *slot, int error)
{
    if (!cw_list_empty(&slot->waiting) && slot->conn != NULL) {
        slot->conn->stuck--;
    }
    cw_list_remove(&slot->waiting);
    slot->access.error = error;
    slot->access.is_over = 1;
    cw_ofi_line_up(iface, &iface->over, &slot->waiting);
    cw_poller_wake(iface->poller);
}

unsigned cw_ofi_access_settle(struct ofi_iface *iface)
{
    struct ofi_slot *slot;
    unsigned count = 0;

    while (!cw_list_empty(&iface->over)) {
        slot = cw_list_head(&iface->over, struct ofi_slot, waiting);
        if (slot->access.error != 0 && slot->access.error != FI_ECANCELED) {
            break_conns(iface, slot, iface->fi->strerror(slot->access.error));
        }
        finish(iface, slot);
        count++;
    }
    return count;
}

void cw_ofi_accessed(struct ofi_iface *iface, struct ofi_slot *slot, int error, const char *text)
{
    struct ofi_slot *main = (slot->access.use == OFI_USE_ECHO) ? slot->access.echo : slot;
    struct ofi_access *access = &main->access;

    slot->state = OFI_WAITING;
    access->under_way--;
    access->error = (access->error == 0) ? error : access->error;
    access->is_seen = (uint8_t)(access->is_seen || (slot != main && error == 0));
    if (cw_unlikely(error != 0)) {
        break_conns(iface, main, text);
    }
    if (access->under_way > 0) {
        return;
    }
    if (access->echo != NULL && !access->is_seen && access->error == 0) {
        if (main->conn != NULL) {
            main->conn->stuck++;
        }
        cw_ofi_line_up(iface, &iface->waiting, &main->waiting);
        return;
    }
    finish(iface, main);
}

/* ---- provider operations ---- */

static fi_addr_t route_of(const struct ofi_slot *slot)
{
    return (slot->route != NULL) ? slot->route->address : slot->peer->route->address;
}

/* Gets the key in the provider's form. Returns 0 or an error of libfabric. */
static int take_key(struct ofi_iface *iface, struct ofi_slot *slot)
{
    struct ofi_access *access = &slot->access;
    uint8_t bytes[sizeof(uint64_t)];
    int error;

    if (!(iface->info->domain_attr->mr_mode & FI_MR_RAW)) {
        access->mapped = access->key.word[0];
        return 0;
    }
    if (access->is_mapped) {
        return 0;
    }
    memcpy(bytes, &access->key.word[0], sizeof(bytes));
    cw_lock_enter(&iface->objects->lock);
    error = fi_mr_map_raw(iface->objects->domain, access->key.word[1], bytes, iface->objects->key_length,
                          &access->mapped, 0);
    cw_lock_leave(&iface->objects->lock);
    access->is_mapped = error == 0;
    return error;
}

/* Posts the echo behind a put. */
static void post_echo(struct ofi_iface *iface, struct ofi_slot *put)
{
    const size_t length = (put->length < ECHO) ? put->length : ECHO;
    struct ofi_slot *slot = put->access.echo;
    struct iovec iov = {.iov_base = slot->bytes, .iov_len = length};
    struct fi_rma_iov there = {
        .addr = put->access.address + put->length - length, .len = length, .key = put->access.mapped};
    const struct fi_msg_rma message = {.msg_iov = &iov,
                                 .desc = &slot->block->desc,
                                 .iov_count = 1,
                                 .addr = route_of(put),
                                 .rma_iov = &there,
                                 .rma_iov_count = 1,
                                 .context = &slot->context};
    const uint64_t fence = (iface->objects->delivery == OFI_DELIVERY_FENCED) ? FI_FENCE : 0;
    ssize_t error;

    slot->state = OFI_FLYING;
    error = fi_readmsg(iface->ep, &message, FI_COMPLETION | fence);
    if (error == 0) {
        put->access.under_way++;
        return;
    }
    slot->state = OFI_WAITING;
    put->access.error = (error == -FI_EAGAIN) ? 0 : (int)-error;
}

static ssize_t write_there(struct ofi_iface *iface, struct ofi_slot *slot)
{
    struct iovec iov = {.iov_base = slot->bytes, .iov_len = slot->length};
    struct fi_rma_iov there = {.addr = slot->access.address, .len = slot->length, .key = slot->access.mapped};
    const struct fi_msg_rma message = {.msg_iov = &iov,
                                 .desc = &slot->block->desc,
                                 .iov_count = 1,
                                 .addr = route_of(slot),
                                 .rma_iov = &there,
                                 .rma_iov_count = 1,
                                 .context = &slot->context};
    const uint64_t delivery = (iface->objects->delivery == OFI_DELIVERY_COMPLETE) ? FI_DELIVERY_COMPLETE : 0;

    return fi_writemsg(iface->ep, &message, FI_COMPLETION | delivery);
}

static ssize_t apply_there(struct ofi_iface *iface, struct ofi_slot *slot)
{
    static const enum fi_op ops[] = {
        [CW_ACCESS_ADD] = FI_SUM,  [CW_ACCESS_AND] = FI_BAND,          [CW_ACCESS_OR] = FI_BOR,
        [CW_ACCESS_XOR] = FI_BXOR, [CW_ACCESS_SWAP] = FI_ATOMIC_WRITE, [CW_ACCESS_CSWAP] = FI_CSWAP};
    const struct ofi_access *access = &slot->access;
    void *const desc = slot->block->desc;
    uint64_t *const words = (uint64_t *)(void *)slot->bytes;

    if (access->op == CW_ACCESS_CSWAP) {
        return fi_compare_atomic(iface->ep, &words[0], 1, desc, &words[1], desc, &words[2], desc, route_of(slot),
                                 access->address, access->mapped, FI_UINT64, FI_CSWAP, &slot->context);
    }
    return fi_fetch_atomic(iface->ep, &words[0], 1, desc, &words[2], desc, route_of(slot), access->address,
                           access->mapped, FI_UINT64, ops[access->op], &slot->context);
}

/* Whether the range wraps around the address space: some providers do not check for overflow. */
static int wraps(const struct ofi_iface *iface, const struct ofi_slot *slot)
{
    const int is_virtual = (iface->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
    const uint64_t first = slot->access.address + (is_virtual ? 0 : slot->access.key.word[1]);
    const size_t length = (slot->access.use == OFI_USE_ATOMIC) ? sizeof(uint64_t) : slot->length;

    return first > UINT64_MAX - length;
}

int cw_ofi_access_post(struct ofi_iface *iface, struct ofi_slot *slot)
{
    ssize_t error = wraps(iface, slot) ? -FI_EACCES : take_key(iface, slot);

    slot->state = OFI_FLYING;
    if (error == 0 && slot->access.use == OFI_USE_PUT) {
        error = write_there(iface, slot);
    } else if (error == 0 && slot->access.use == OFI_USE_GET) {
        error = fi_read(iface->ep, slot->bytes, slot->length, slot->block->desc, route_of(slot), slot->access.address,
                        slot->access.mapped, &slot->context);
    } else if (error == 0) {
        error = apply_there(iface, slot);
    }
    if (error == 0) {
        slot->access.under_way++;
        if (slot->access.echo != NULL) {
            slot->access.is_written = 1;
            post_echo(iface, slot);
        }
        return 1;
    }
    slot->state = OFI_WAITING;
    if (error == -FI_EAGAIN) {
        return 0;
    }
    cw_ofi_access_refuse(iface, slot, (int)-error);
    return 1;
}

/* ---- submission ---- */

static enum ofi_block_kind kind_for(size_t length)
{
    if (length <= CW_OFI_SMALL) {
        return OFI_BLOCK_SMALL;
    }
    return (length <= CW_OFI_LARGE) ? OFI_BLOCK_LARGE : OFI_BLOCK_LONG;
}

/* Allocates a slot for an access of that many bytes. Returns NULL with *status_p set. */
static struct ofi_slot *take(struct cw_conn *super, enum ofi_use use, size_t length, const struct cw_access_target *to,
                             unsigned flags, ucs_status_t *status_p)
{
    struct ofi_conn *conn = cw_ofi_conn_of(super);
    struct ofi_iface *iface = cw_ofi_iface_of(super);
    const struct ofi_domain *domain = iface->objects;
    const enum ofi_block_kind kind = kind_for(length);
    struct ofi_slot *slot, *echo = NULL;

    if (conn->state != OFI_OPEN) {
        *status_p = conn->status;
        return NULL;
    }
    *status_p = CW_AGAIN;
    conn->wants_large = 0;
    conn->wants_access = 1;
    conn->wants_long = kind == OFI_BLOCK_LONG;
    conn->wants_fetched = (flags & CW_ACCESS_AFTER_FETCHES) != 0;
    slot = cw_ofi_has_space(conn) ? cw_ofi_slot_new(iface, kind) : NULL;
    if (slot != NULL && use == OFI_USE_PUT && length > 0 && cw_ofi_reads_back(domain)) {
        echo = cw_ofi_slot_new(iface, OFI_BLOCK_SMALL);
        if (echo == NULL) {
            cw_ofi_slot_free(iface, slot);
            slot = NULL;
        }
    }
    if (slot == NULL) {
        (void)cw_ofi_again(iface, conn);
        return NULL;
    }
    slot->access = (struct ofi_access){
        .age = iface->ages, .use = (uint8_t)use, .address = to->address, .key = to->key, .echo = echo};
    if (!(domain->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR)) {
        slot->access.address = to->address - to->key.word[1];
    }
    if (echo != NULL) {
        echo->access = (struct ofi_access){.use = OFI_USE_ECHO, .echo = slot};
    }
    return slot;
}

static ucs_status_t begin(struct cw_conn *super, struct ofi_slot *slot, size_t length, struct cw_completion *completion)
{
    struct ofi_conn *conn = cw_ofi_conn_of(super);
    struct ofi_iface *iface = cw_ofi_iface_of(super);

    slot->length = (uint32_t)length;
    slot->number = conn->next_access++;
    slot->access.completion = completion;
    slot->route = conn->reach.route;
    if (slot->route != NULL) {
        slot->route->references++;
    }
    cw_ofi_submit(iface, conn, conn->peer, slot);
    return UCS_INPROGRESS;
}

static ucs_status_t ofi_put_short(struct cw_conn *super, const void *data, size_t length,
                                  const struct cw_access_target *to, unsigned flags, struct cw_completion *completion)
{
    ucs_status_t status;
    struct ofi_slot *slot = take(super, OFI_USE_PUT, length, to, flags, &status);

    if (slot == NULL) {
        return status;
    }
    cw_bytes_copy_any(slot->bytes, data, length);
    return begin(super, slot, length, completion);
}

static ucs_status_t ofi_put_bcopy(struct cw_conn *super, size_t max, cw_pack_fn pack, void *arg,
                                  const struct cw_access_target *to, unsigned flags, struct cw_completion *completion)
{
    ucs_status_t status;
    struct ofi_slot *slot = take(super, OFI_USE_PUT, max, to, flags, &status);

    return (slot != NULL) ? begin(super, slot, pack(slot->bytes, max, arg), completion) : status;
}

static ucs_status_t ofi_get_bcopy(struct cw_conn *super, size_t length, cw_unpack_fn unpack, void *arg,
                                  const struct cw_access_target *from, unsigned flags, struct cw_completion *completion)
{
    ucs_status_t status;
    struct ofi_slot *slot = take(super, OFI_USE_GET, length, from, flags, &status);

    if (slot == NULL) {
        return status;
    }
    slot->access.unpack = unpack;
    slot->access.arg = arg;
    return begin(super, slot, length, completion);
}

static ucs_status_t ofi_atomic(struct cw_conn *super, enum cw_access_op op, uint64_t operand, uint64_t compare,
                               uint64_t *result, const struct cw_access_target *to, unsigned flags,
                               struct cw_completion *completion)
{
    const uint64_t words[2] = {operand, compare};
    ucs_status_t status;
    struct ofi_slot *slot = take(super, OFI_USE_ATOMIC, 3 * sizeof(uint64_t), to, flags, &status);

    if (slot == NULL) {
        return status;
    }
    memcpy(slot->bytes, words, sizeof(words));
    slot->access.op = (uint8_t)op;
    slot->access.result = result;
    return begin(super, slot, 3 * sizeof(uint64_t), completion);
}

static ucs_status_t ofi_flush(struct cw_conn *super, struct cw_completion *completion)
{
    struct ofi_conn *conn = cw_ofi_conn_of(super);
    ucs_status_t status;
    struct ofi_flush *flush;

    if (conn->accessing == 0 && conn->state != OFI_OPEN) {
        return conn->status;
    }
    if (conn->accessing == 0) {
        status = conn->access_error;
        conn->access_error = (completion != NULL) ? UCS_OK : conn->access_error;
        return (completion != NULL) ? status : UCS_OK;
    }
    if (completion == NULL) {
        return UCS_INPROGRESS;
    }
    flush = malloc(sizeof(*flush));
    if (flush == NULL) {
        conn->wants_access = 1;
        return cw_ofi_again(cw_ofi_iface_of(super), conn);
    }
    *flush = (struct ofi_flush){.completion = completion, .number = conn->next_access};
    cw_list_add_tail(&conn->access_flushes, &flush->link);
    return UCS_INPROGRESS;
}

/* ---- the end of a connection ---- */

void cw_ofi_accesses_abandon(struct ofi_conn *conn)
{
    struct ofi_iface *iface = cw_ofi_iface_of(&conn->super);
    struct ofi_slot *slot;

    cw_list_for_each(slot, &conn->accesses, struct ofi_slot, link)
    {
        slot->access.unpack = NULL;
        slot->access.result = NULL;
        if (!is_open(slot) && !slot->access.is_over) {
            cw_ofi_access_refuse(iface, slot, FI_ECANCELED);
        }
    }
}

void cw_ofi_access_bye(struct ofi_conn *conn, struct ofi_slot *bye)
{
    struct ofi_slot *slot;

    cw_list_for_each(slot, &conn->accesses, struct ofi_slot, link)
    {
        if (is_open(slot)) {
            slot->access.bye = bye;
            bye->access.waiting_for++;
        }
    }
    bye->peer = conn->peer;
    cw_ofi_peer_hold(bye->peer);
    if (bye->access.waiting_for == 0) {
        submit_bye(cw_ofi_iface_of(&conn->super), bye);
    }
}

void cw_ofi_accesses_end(struct ofi_conn *conn, ucs_status_t status)
{
    struct ofi_iface *iface = cw_ofi_iface_of(&conn->super);
    struct cw_completion *completion;
    struct ofi_slot *slot;

    while (!cw_list_empty(&conn->accesses)) {
        slot = cw_list_head(&conn->accesses, struct ofi_slot, link);
        completion = slot->access.completion;
        leave_conn(conn, slot);
        slot->conn = NULL;
        slot->access.unpack = NULL;
        slot->access.result = NULL;
        if (is_open(slot)) {
            cw_list_add_tail(&iface->orphans, &slot->link);
        } else {
            dispose(iface, slot);
        }
        if (completion != NULL) {
            completion->done(completion, status);
        }
    }
    end_flushes(conn, status);
}

void cw_ofi_access_limits(struct ofi_iface *iface)
{
    const struct ofi_domain *domain = iface->objects;
    const struct fi_ep_attr *attr = domain->info->ep_attr;
    const size_t max = (attr->max_msg_size < CW_OFI_PIECE) ? attr->max_msg_size : CW_OFI_PIECE;
    size_t put = (domain->delivery == OFI_DELIVERY_UNKNOWN) ? 0 : max;

    if (domain->delivery == OFI_DELIVERY_READ_BACK && put > attr->max_order_raw_size) {
        put = attr->max_order_raw_size;
    }
    if (domain->reaches) {
        iface->super.limits.access = (struct cw_access_limits){.max_put_short = (put < MAX_SHORT) ? put : MAX_SHORT,
                                                               .max_put_bcopy = put,
                                                               .max_get_bcopy = max,
                                                               .fetching = domain->atomics};
    }
}

const struct cw_transport_access cw_ofi_access = {
    .domain = &cw_ofi_domain_kind,
    .peer_domain = ofi_peer_domain,
    .put_short = ofi_put_short,
    .put_bcopy = ofi_put_bcopy,
    .get_bcopy = ofi_get_bcopy,
    .atomic = ofi_atomic,
    .flush = ofi_flush,
};
