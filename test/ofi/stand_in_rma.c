/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Remote access of the stand-in provider. Accesses are carried out some polls after they were posted, in any order that
 * was not promised; those of an endpoint that was closed meanwhile are carried out all the same.
 */
#include <stdlib.h>
#include <string.h>

#include "stand_in.h"

enum kind { PUT, GET, ATOMIC };

struct op {
    struct op *next;
    enum kind kind;
    uint64_t from, to; /* endpoints */
    uint64_t address, key, flags;
    void *context;
    char *local;
    uint64_t operand, compare;
    enum fi_op what;
    size_t length;
    unsigned after; /* polls */
    int is_lost;    /* its connection broke */
    char data[];
};

static struct op *ops;

static struct ep *by_id(uint64_t id)
{
    unsigned i;

    for (i = 0; i < MAX_EPS; i++) {
        if (eps[i] != NULL && eps[i]->id == id) {
            return eps[i];
        }
    }
    return NULL;
}

/* That an operation needs. */
static uint64_t rights_for(const struct op *op)
{
    switch (op->kind) {
    case GET:
        return FI_REMOTE_READ;
    case PUT:
        return FI_REMOTE_WRITE;
    default:
        return FI_REMOTE_READ | FI_REMOTE_WRITE;
    }
}

static char *find_memory(const struct op *op)
{
    const uint64_t rights = rights_for(op);
    const struct ep *to = by_id(op->to);
    uint64_t offset;
    unsigned i;

    for (i = 0; to != NULL && i < MAX_MRS; i++) {
        if (!mrs[i].used || mrs[i].domain != to->domain || mrs[i].key != op->key ||
            (mrs[i].access & rights) != rights || (has("endpoint") && (!mrs[i].enabled || mrs[i].ep != to))) {
            continue;
        }
        offset = has("virt_addr") ? op->address - (uintptr_t)mrs[i].memory : op->address;
        if (offset < mrs[i].length && op->length <= mrs[i].length - offset) {
            return (char *)(uintptr_t)mrs[i].memory + offset;
        }
    }
    return NULL;
}

static uint64_t applied(const struct op *op, uint64_t word)
{
    switch (op->what) {
    case FI_SUM:
        return word + op->operand;
    case FI_BAND:
        return word & op->operand;
    case FI_BOR:
        return word | op->operand;
    case FI_BXOR:
        return word ^ op->operand;
    case FI_CSWAP:
        return (word == op->compare) ? op->operand : word;
    default:
        return op->operand;
    }
}

static void complete_op(const struct op *op, int error)
{
    struct ep *from = by_id(op->from);

    if (from != NULL) {
        add_completion(from->cq, op->context, FI_RMA, 0, has("late") ? draw(20) : 0);
        from->cq->queue[from->cq->count - 1].error = error;
    }
}

static int is_reported(const struct op *op)
{
    return op->kind != PUT || (has("deliver") && (op->flags & FI_DELIVERY_COMPLETE));
}

/* A write that is refused breaks the connection, and with it what was posted behind it. */
static void break_behind(const struct op *refused)
{
    struct op *op;

    for (op = refused->next; op != NULL; op = op->next) {
        op->is_lost |= op->from == refused->from && op->to == refused->to;
    }
}

static void do_op(const struct op *op)
{
    char *memory = op->is_lost ? NULL : find_memory(op);
    uint64_t word;

    if (memory == NULL) {
        break_behind(op);
    }

    if (memory != NULL && op->kind == PUT) {
        memcpy(memory, op->data, op->length);
    } else if (memory != NULL && by_id(op->from) != NULL && op->kind == GET) {
        memcpy(op->local, memory, op->length);
    } else if (memory != NULL && op->kind == ATOMIC) {
        memcpy(&word, memory, sizeof(word));
        if (by_id(op->from) != NULL) {
            memcpy(op->local, &word, sizeof(word));
        }
        word = applied(op, word);
        memcpy(memory, &word, sizeof(word));
    }
    if (is_reported(op)) {
        complete_op(op, (memory == NULL) ? FI_EACCES : 0);
    }
}

/* Whether something that was posted before holds this access back. */
static int waits(const struct op *op)
{
    const struct op *earlier;

    for (earlier = ops; earlier != op; earlier = earlier->next) {
        if (earlier->from == op->from && earlier->kind == PUT &&
            (has("ordered") || (has("fence") && (op->flags & FI_FENCE)))) {
            return op->kind == GET;
        }
    }
    return 0;
}

void carry_out(void)
{
    struct op **at = &ops, *op;

    while ((op = *at) != NULL) {
        if (op->after > 0) {
            op->after--;
        } else if (!waits(op)) {
            do_op(op);
            *at = op->next;
            free(op);
            continue;
        }
        at = &op->next;
    }
}

static ssize_t post_op(struct ep *ep, const struct op *what, const void *data, void *desc, fi_addr_t address)
{
    struct ep *to = target(ep, address);
    struct op **at = &ops, *op;

    check_memory((what->kind == PUT) ? data : what->local, what->length, desc);
    if (to == NULL) {
        return -FI_EHOSTUNREACH;
    }
    if (has("raw") && (what->key >> 63) == 0) {
        wrong("a raw key is used without being mapped");
    }
    if (refuses()) {
        return -FI_EAGAIN;
    }
    op = malloc(sizeof(*op) + what->length);
    *op = *what;
    if (what->kind == PUT) {
        memcpy(op->data, data, what->length);
    }
    op->next = NULL;
    op->from = ep->id;
    op->to = to->id;
    op->key = has("raw") ? (what->key & ~(UINT64_C(1) << 63)) ^ (RAW_MASK & ~(UINT64_C(1) << 63)) : what->key;
    op->after = draw(30);
    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = op;
    mark_context(what->context);
    if (!is_reported(op)) {
        complete_op(op, 0);
    }
    return 0;
}

static ssize_t rma_msg(struct fid_ep *fid, const struct fi_msg_rma *message, uint64_t flags, enum kind kind)
{
    const struct op op = {.kind = kind,
                       .address = message->rma_iov->addr,
                       .key = message->rma_iov->key,
                       .flags = flags,
                       .context = message->context,
                       .local = message->msg_iov->iov_base,
                       .length = message->msg_iov->iov_len};

    return post_op((struct ep *)fid, &op, message->msg_iov->iov_base, (message->desc != NULL) ? message->desc[0] : NULL,
                   message->addr);
}

static ssize_t rma_readmsg(struct fid_ep *fid, const struct fi_msg_rma *message, uint64_t flags)
{
    if ((flags & FI_FENCE) && !has("fence")) {
        wrong("a fence is asked for that is not offered");
    }
    return rma_msg(fid, message, flags, GET);
}

static ssize_t rma_writemsg(struct fid_ep *fid, const struct fi_msg_rma *message, uint64_t flags)
{
    if (!has("deliver") && !has("ordered") && !has("fence")) {
        wrong("something is written although nothing reports when it is there");
    }
    return rma_msg(fid, message, flags, PUT);
}

static ssize_t rma_read(struct fid_ep *fid, void *buffer, size_t length, void *desc, fi_addr_t from, uint64_t address,
                        uint64_t key, void *context)
{
    const struct op op = {
        .kind = GET, .address = address, .key = key, .context = context, .local = buffer, .length = length};

    return post_op((struct ep *)fid, &op, NULL, desc, from);
}

struct fi_ops_rma rma_ops = {
    .size = sizeof(rma_ops), .read = rma_read, .readmsg = rma_readmsg, .writemsg = rma_writemsg};

static ssize_t compwrite(struct fid_ep *fid, const void *buffer, size_t count, void *desc, const void *compare,
                         void *compare_desc, void *result, void *result_desc, fi_addr_t to, uint64_t address,
                         uint64_t key, enum fi_datatype type, enum fi_op what, void *context)
{
    struct op op = {.kind = ATOMIC,
                 .address = address,
                 .key = key,
                 .context = context,
                 .local = result,
                 .what = what,
                 .length = sizeof(uint64_t)};

    if (count != 1 || type != FI_UINT64 || address % sizeof(uint64_t) != 0) {
        wrong("an atomic operation is not one of a word of 8 bytes");
    }
    check_memory(buffer, sizeof(uint64_t), desc);
    memcpy(&op.operand, buffer, sizeof(op.operand));
    if (compare != NULL) {
        check_memory(compare, sizeof(uint64_t), compare_desc);
        memcpy(&op.compare, compare, sizeof(op.compare));
    }
    return post_op((struct ep *)fid, &op, NULL, result_desc, to);
}

static ssize_t readwrite(struct fid_ep *fid, const void *buffer, size_t count, void *desc, void *result,
                         void *result_desc, fi_addr_t to, uint64_t address, uint64_t key, enum fi_datatype type,
                         enum fi_op what, void *context)
{
    return compwrite(fid, buffer, count, desc, NULL, NULL, result, result_desc, to, address, key, type, what, context);
}

struct fi_ops_atomic atomic_ops = {.size = sizeof(atomic_ops), .readwrite = readwrite, .compwrite = compwrite};

int query_atomic(struct fid_domain *domain, enum fi_datatype type, enum fi_op what, struct fi_atomic_attr *attr,
                 uint64_t flags)
{
    (void)domain;
    (void)flags;
    if (type != FI_UINT64 || what == FI_BXOR) { /* which is then made of compare and swap */
        return -FI_EOPNOTSUPP;
    }
    *attr = (struct fi_atomic_attr){.count = 1, .size = sizeof(uint64_t)};
    return 0;
}

int mapped_keys;

int map_key(int command, void *arg)
{
    const struct fi_mr_map_raw *map = arg;
    uint64_t key;

    if (command == FI_UNMAP_KEY) {
        mapped_keys--;
        return 0;
    }
    if (command != FI_MAP_RAW_MR || map->key_size != sizeof(key)) {
        return -FI_ENOSYS;
    }
    memcpy(&key, map->raw_key, sizeof(key));
    *map->key = key | UINT64_C(1) << 63;
    mapped_keys++;
    return 0;
}
