/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A provider for libfabric that is as difficult as the interface allows, and then lies. libfabric loads it from
 * FI_PROVIDER_PATH. Endpoints of one process reach each other; nothing leaves it.
 *
 * CW_STAND_IN is a list of words:
 *   local virt_addr allocated prov_key raw endpoint hmem rma_event   the registration modes that it demands
 *   small_key     keys of one byte
 *   context       mode FI_CONTEXT2; what is written there must be untouched at the completion
 *   reorder       packets overtake each other, and no order is promised
 *   late          packets complete some polls later
 *   again         every other call is answered by -FI_EAGAIN
 *   no_fd         there are no wait objects
 *   rma           remote access and atomic operations; writes complete before they are in the memory of the target, and
 *   deliver       it takes FI_DELIVERY_COMPLETE, and completes such writes when they are there
 *   ordered       it promises that reads do not pass writes
 *   fence         FI_FENCE keeps a read behind the writes before it, which it passes otherwise
 *   (calls that fail: test/devices/failing.h; av_open, cq_open, endpoint, bind, enable, getname, domain, mr_reg, recv,
 *   send, cq_read)
 *   lie_length, lie_name, lie_twice, lie_count, lie_error, lie_errors, lie_cut, lie_handled, lie_lose, lie_negative,
 *   lie_silence, lie_errno, lie_taken
 *                 from the 300th completion on: a packet longer than its room, a completion of nothing, of a packet
 *                 twice, more completions than were asked for, an error that is none, errors of nothing without end,
 *                 packets cut in half, packets that announce more than was sent, a packet that gets lost, a count below
 *                 all numbers of errors, errors that cannot be read, failures by numbers that are none, and sends that
 *                 are answered by them
 * What the library under test must not do ends the program with a sentence.
 */
#include <errno.h>
#include <limits.h>
#include <rdma/providers/fi_prov.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../devices/failing.h"
#include "stand_in.h"

#define FAIL_AT(step, memory)             \
    do {                                  \
        const int number = failing(step); \
        if (number != 0) {                \
            free(memory);                 \
            return -number;               \
        }                                 \
    } while (0)

struct ep *eps[MAX_EPS];
struct mr mrs[MAX_MRS];
static uint64_t next_id = 1, completions, next_key = 100;
static uint32_t chance = 12345;
/* Errors that are none; NO_NUMBER is reported as 0. */
#define NO_NUMBER (-1)
static const int numbers[] = {NO_NUMBER, -5, 77777, INT_MAX};

void wrong(const char *what)
{
    fprintf(stderr, "stand-in provider: %s\n", what);
    _exit(99);
}

int has(const char *word)
{
    const char *words = getenv("CW_STAND_IN"), *at;
    const size_t length = strlen(word);

    for (at = (words != NULL) ? strstr(words, word) : NULL; at != NULL; at = strstr(at + 1, word)) {
        if ((at == words || at[-1] == ' ') && (at[length] == '\0' || at[length] == ' ')) {
            return 1;
        }
    }
    return 0;
}

unsigned draw(unsigned below)
{
    chance = chance * 1664525u + 1013904223u;
    return (chance >> 8) % below;
}

static int lies(const char *word)
{
    return completions > HONEST && has(word);
}

int refuses(void)
{
    return has("again") && draw(2) == 0;
}

static int mr_mode(void)
{
    return (has("local") ? FI_MR_LOCAL : 0) | (has("virt_addr") ? FI_MR_VIRT_ADDR : 0) |
           (has("allocated") ? FI_MR_ALLOCATED : 0) | (has("prov_key") ? FI_MR_PROV_KEY : 0) |
           (has("raw") ? FI_MR_RAW : 0) | (has("endpoint") ? FI_MR_ENDPOINT : 0) | (has("hmem") ? FI_MR_HMEM : 0) |
           (has("rma_event") ? FI_MR_RMA_EVENT : 0);
}

/* ---- registered memory ---- */

void check_memory(const void *buffer, size_t length, const void *desc)
{
    const struct mr *mr = desc;

    if (!has("local")) {
        return;
    }
    if (mr < mrs || mr >= mrs + MAX_MRS || !mr->used) {
        wrong("a buffer comes without the descriptor of registered memory");
    }
    if ((const char *)buffer < mr->memory || (const char *)buffer + length > mr->memory + mr->length) {
        wrong("a buffer lies outside of the registered memory of its descriptor");
    }
    if (has("endpoint") && !(mr->bound && mr->enabled)) {
        wrong("registered memory was not bound to the endpoint and enabled");
    }
}

static int mr_close(struct fid *fid)
{
    struct mr *mr = (struct mr *)fid;

    mr->used = 0;
    return 0;
}

static int mr_bind(struct fid *fid, struct fid *with, uint64_t flags)
{
    (void)flags;
    if (!has("endpoint") || with->fclass != FI_CLASS_EP) {
        wrong("registered memory is bound to something else than an endpoint, or needlessly");
    }
    ((struct mr *)fid)->bound = 1;
    ((struct mr *)fid)->ep = (struct ep *)with;
    return 0;
}

static int mr_control(struct fid *fid, int command, void *arg)
{
    if (command == FI_GET_RAW_MR) {
        const struct fi_mr_raw_attr *attr = arg;
        const uint64_t key = ((struct mr *)fid)->key ^ RAW_MASK;

        if (!has("raw") || *attr->key_size < sizeof(key)) {
            return -FI_EINVAL;
        }
        *attr->base_addr = (uintptr_t)((struct mr *)fid)->memory;
        *attr->key_size = sizeof(key);
        memcpy(attr->raw_key, &key, sizeof(key));
        return 0;
    }
    if (command != FI_ENABLE || !((struct mr *)fid)->bound) {
        return -FI_ENOSYS;
    }
    ((struct mr *)fid)->enabled = 1;
    return 0;
}

static struct fi_ops mr_ops = {.size = sizeof(mr_ops), .close = mr_close, .bind = mr_bind, .control = mr_control};

static void check_allocated(const struct iovec *iov)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const uintptr_t first = (uintptr_t)iov->iov_base & ~(page - 1);
    unsigned char there;
    uintptr_t at;

    for (at = first; at < (uintptr_t)iov->iov_base + iov->iov_len; at += page) {
        if (mincore((void *)at, page, &there) != 0 || !(there & 1)) {
            wrong("memory is registered whose pages do not exist yet");
        }
    }
}

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags, struct fid_mr **mr_p)
{
    unsigned i, free_one = MAX_MRS;

    FAIL_AT("mr_reg", NULL);
    (void)flags;
    if (has("allocated")) {
        check_allocated(attr->mr_iov);
    }
    if (has("hmem") && attr->iface != FI_HMEM_SYSTEM) {
        wrong("the kind of registered memory is not named");
    }
    if (!has("prov_key") && has("small_key") && attr->requested_key > 255) {
        wrong("a key does not fit");
    }
    for (i = 0; i < MAX_MRS; i++) {
        if (mrs[i].used && !has("prov_key") && mrs[i].key == attr->requested_key &&
            mrs[i].domain == (struct fid_domain *)fid) {
            return -FI_ENOKEY;
        }
        free_one = mrs[i].used ? free_one : i;
    }
    if (free_one == MAX_MRS) {
        return -FI_ENOSPC;
    }
    mrs[free_one] = (struct mr){.mr = {.fid = {.fclass = FI_CLASS_MR, .ops = &mr_ops}, .mem_desc = &mrs[free_one]},
                            .memory = attr->mr_iov->iov_base,
                            .length = attr->mr_iov->iov_len,
                            .key = has("prov_key") ? ++next_key : attr->requested_key,
                            .access = attr->access,
                            .domain = (struct fid_domain *)fid,
                            .used = 1};
    mrs[free_one].mr.key = has("raw") ? FI_KEY_NOTAVAIL : mrs[free_one].key;
    *mr_p = &mrs[free_one].mr;
    return 0;
}

static struct fi_ops_mr domain_mr_ops = {.size = sizeof(domain_mr_ops), .regattr = mr_regattr};

/* ---- completions ---- */

void add_completion(struct cq *cq, void *context, uint64_t flags, size_t length, unsigned after)
{
    const uint64_t one = 1;

    if (cq->count == QUEUE) {
        wrong("the completion queue overflows");
    }
    cq->queue[cq->count++] = (struct completion){context, flags, length, after, 0};
    if (cq->fd >= 0 && write(cq->fd, &one, sizeof(one)) < 0) {
        wrong("an eventfd cannot be written");
    }
}

void mark_context(void *context)
{
    if (has("context")) {
        memset(context, 0x5c, sizeof(struct fi_context2));
    }
}

static void check_context(const void *context)
{
    size_t i;

    for (i = 0; has("context") && i < sizeof(struct fi_context2); i++) {
        if (((const unsigned char *)context)[i] != 0x5c) {
            wrong("somebody wrote into the context of an operation that is under way");
        }
    }
}

static void match(struct ep *ep)
{
    struct message *message;
    struct posted *posted;
    size_t length;

    while (ep->first != NULL && ep->num_posted > 0) {
        message = ep->first;
        ep->first = message->next;
        ep->waiting--;
        posted = &ep->posted[0];
        if (message->length > posted->length) {
            wrong("a packet is longer than the room for it");
        }
        length = (lies("lie_cut") && message->length > 48) ? message->length / 2 : message->length;
        memcpy(posted->buffer, message->data, length);
        if (lies("lie_handled") && length >= 24) {
            memset(posted->buffer + 20, 0x7f, 2); /* struct cw_ofi_header */
        }
        add_completion(ep->cq, posted->context, FI_RECV | FI_MSG, length, 0);
        memmove(&ep->posted[0], &ep->posted[1], --ep->num_posted * sizeof(ep->posted[0]));
        free(message);
    }
}

static ssize_t cq_read(struct fid_cq *fid, void *buffer, size_t count)
{
    struct cq *cq = (struct cq *)fid;
    struct fi_cq_msg_entry *entry = buffer;
    size_t found = 0;
    unsigned i;

    FAIL_AT("cq_read", NULL);
    match(cq->ep);
    carry_out();
    if (cq->failed) {
        return -FI_EAVAIL;
    }
    if (lies("lie_count")) {
        memset(buffer, 0, count * sizeof(*entry));
        return 100000;
    }
    if (lies("lie_error")) {
        return -FI_EIO;
    }
    if (lies("lie_negative")) {
        return -77777;
    }
    if (lies("lie_silence")) {
        return -FI_EAVAIL;
    }
    if (lies("lie_errors")) {
        return -FI_EAVAIL;
    }
    for (i = 0; i < cq->count && found < count;) {
        if (cq->queue[i].after > 0) {
            cq->queue[i++].after--;
            continue;
        }
        check_context(cq->queue[i].context);
        if (lies("lie_errno")) {
            cq->queue[i].error = numbers[draw(4)];
        }
        if (cq->queue[i].error != 0) {
            if (found > 0) {
                break;
            }
            cq->failure = cq->queue[i];
            cq->failed = 1;
            memmove(&cq->queue[i], &cq->queue[i + 1], (--cq->count - i) * sizeof(cq->queue[0]));
            return -FI_EAVAIL;
        }
        entry[found] = (struct fi_cq_msg_entry){cq->queue[i].context, cq->queue[i].flags, cq->queue[i].length};
        completions++;
        if (lies("lie_length") && (cq->queue[i].flags & FI_RECV)) {
            entry[found].len = SIZE_MAX / 2;
        }
        if (lies("lie_name")) {
            entry[found].op_context = (draw(2) == 0) ? NULL : (void *)((char *)entry[found].op_context + 8 * draw(64));
        }
        if (lies("lie_twice") && cq->count < QUEUE) {
            cq->queue[cq->count++] = cq->queue[i];
        }
        found++;
        memmove(&cq->queue[i], &cq->queue[i + 1], (--cq->count - i) * sizeof(cq->queue[0]));
    }
    return (found > 0) ? (ssize_t)found : -FI_EAGAIN;
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *entry, uint64_t flags)
{
    struct cq *cq = (struct cq *)fid;

    (void)flags;
    if (lies("lie_silence")) {
        return -FI_EAGAIN;
    }
    if (cq->failed) {
        cq->failed = 0;
        if (cq->failure.error == NO_NUMBER) {
            cq->failure.error = 0;
        }
        *entry =
            (struct fi_cq_err_entry){.op_context = cq->failure.context, .err = cq->failure.error, .prov_errno = -1};
        return 1;
    }
    *entry = (struct fi_cq_err_entry){
        .op_context = (void *)(uintptr_t)draw(1u << 20), .err = (int)draw(300), .prov_errno = -1};
    return 1;
}

static const char *cq_strerror(struct fid_cq *fid, int number, const void *data, char *buffer, size_t length)
{
    (void)fid;
    (void)number;
    (void)data;
    (void)buffer;
    (void)length;
    return has("lie_errors") ? NULL : "the text of the stand-in";
}

static struct fi_ops_cq cq_ops = {
    .size = sizeof(cq_ops), .read = cq_read, .readerr = cq_readerr, .strerror = cq_strerror};

static int cq_close(struct fid *fid)
{
    struct cq *cq = (struct cq *)fid;

    if (cq->fd >= 0) {
        close(cq->fd);
    }
    free(cq);
    return 0;
}

static int cq_control(struct fid *fid, int command, void *arg)
{
    if (command != FI_GETWAIT || ((struct cq *)fid)->fd < 0) {
        return -FI_ENOSYS;
    }
    *(int *)arg = ((struct cq *)fid)->fd;
    return 0;
}

static struct fi_ops cq_fid_ops = {.size = sizeof(cq_fid_ops), .close = cq_close, .control = cq_control};

static int cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq_p, void *context)
{
    struct cq *cq;

    FAIL_AT("cq_open", NULL);
    (void)domain;
    (void)context;
    if (attr->wait_obj == FI_WAIT_FD && has("no_fd")) {
        return -FI_ENOSYS;
    }
    cq = calloc(1, sizeof(*cq));
    cq->fd = (attr->wait_obj == FI_WAIT_FD) ? eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) : -1;
    cq->cq = (struct fid_cq){.fid = {.fclass = FI_CLASS_CQ, .ops = &cq_fid_ops}, .ops = &cq_ops};
    *cq_p = &cq->cq;
    return 0;
}

/* ---- addresses ---- */

static int av_close(struct fid *fid)
{
    free(fid);
    return 0;
}

static struct fi_ops av_fid_ops = {.size = sizeof(av_fid_ops), .close = av_close};

static int av_insert(struct fid_av *fid, const void *address, size_t count, fi_addr_t *result, uint64_t flags,
                     void *context)
{
    struct av *av = (struct av *)fid;
    unsigned i;

    (void)flags;
    (void)context;
    for (i = 0; count == 1 && i < MAX_PEERS; i++) {
        if (!av->used[i]) {
            av->used[i] = 1;
            memcpy(&av->ids[i], address, sizeof(av->ids[i]));
            *result = i;
            return 1;
        }
    }
    return 0;
}

static int av_remove(struct fid_av *fid, fi_addr_t *address, size_t count, uint64_t flags)
{
    struct av *av = (struct av *)fid;

    (void)flags;
    if (count != 1 || *address >= MAX_PEERS || !av->used[*address]) {
        wrong("an address is removed that is not there");
    }
    av->used[*address] = 0;
    return 0;
}

static struct fi_ops_av av_ops = {.size = sizeof(av_ops), .insert = av_insert, .remove = av_remove};

static int av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av_p, void *context)
{
    struct av *av = calloc(1, sizeof(*av));

    FAIL_AT("av_open", av);
    (void)domain;
    (void)attr;
    (void)context;
    av->av = (struct fid_av){.fid = {.fclass = FI_CLASS_AV, .ops = &av_fid_ops}, .ops = &av_ops};
    *av_p = &av->av;
    return 0;
}

/* ---- endpoints ---- */

struct ep *target(const struct ep *ep, fi_addr_t address)
{
    unsigned i;

    if (address >= MAX_PEERS || !ep->av->used[address]) {
        wrong("a packet goes to an address that is not in the vector");
    }
    for (i = 0; i < MAX_EPS; i++) {
        if (eps[i] != NULL && eps[i]->id == ep->av->ids[address]) {
            return eps[i];
        }
    }
    return NULL;
}

static void queue(struct ep *ep, struct message *message)
{
    struct message **at = &ep->first;
    const uint64_t one = 1;
    unsigned behind = 0, count = 0;

    while (*at != NULL) {
        at = &(*at)->next;
        count++;
    }
    if (has("reorder") && count > 0) { /* somewhere among the last */
        behind = draw((count < 8 ? count : 8) + 1);
        for (at = &ep->first; count > behind; count--) {
            at = &(*at)->next;
        }
    }
    message->next = *at;
    *at = message;
    ep->waiting++;
    if (ep->cq->fd >= 0 && write(ep->cq->fd, &one, sizeof(one)) < 0) {
        wrong("an eventfd cannot be written");
    }
}

static ssize_t carry(struct ep *ep, const void *buffer, size_t length, fi_addr_t address)
{
    struct ep *to = target(ep, address);
    struct message *message;

    if (to == NULL) {
        return -FI_EHOSTUNREACH;
    }
    if (refuses() || to->waiting == MAX_WAITING) {
        return -FI_EAGAIN;
    }
    message = malloc(sizeof(*message) + length);
    message->length = length;
    memcpy(message->data, buffer, length);
    queue(to, message);
    return 0;
}

static ssize_t post(struct ep *ep, const void *buffer, size_t length, void *desc, fi_addr_t address, void *context)
{
    ssize_t error;

    FAIL_AT("send", NULL);
    check_memory(buffer, length, desc);
    if (lies("lie_taken")) {
        return (draw(2) == 0) ? 5 : -77777;
    }
    error = carry(ep, buffer, length, address);
    if (error == 0) {
        mark_context(context);
        add_completion(ep->cq, context, FI_SEND | FI_MSG, 0, has("late") ? 5 + draw(40) : 0);
    }
    return error;
}

/* What is lost is lost without a report, as with a connection of the provider that ends. */
static ssize_t ep_inject(struct fid_ep *fid, const void *buffer, size_t length, fi_addr_t address)
{
    static int lost;

    if (length > 64) {
        wrong("more is injected than inject_size allows");
    }
    if (has("reorder")) {
        wrong("a packet is injected although nothing keeps it in order");
    }
    if (lies("lie_taken")) {
        return (draw(2) == 0) ? 5 : -77777;
    }
    if (!lost && lies("lie_lose")) {
        lost = 1;
        return 0;
    }
    return carry((struct ep *)fid, buffer, length, address);
}

static ssize_t ep_send(struct fid_ep *fid, const void *buffer, size_t length, void *desc, fi_addr_t address,
                       void *context)
{
    return post((struct ep *)fid, buffer, length, desc, address, context);
}

static ssize_t ep_sendmsg(struct fid_ep *fid, const struct fi_msg *message, uint64_t flags)
{
    if ((flags & FI_INJECT) && message->msg_iov->iov_len > 64) {
        wrong("more is injected than inject_size allows");
    }
    return post((struct ep *)fid, message->msg_iov->iov_base, message->msg_iov->iov_len,
                (message->desc != NULL) ? message->desc[0] : NULL, message->addr, message->context);
}

static ssize_t ep_recv(struct fid_ep *fid, void *buffer, size_t length, void *desc, fi_addr_t address, void *context)
{
    struct ep *ep = (struct ep *)fid;

    FAIL_AT("recv", NULL);
    (void)address;
    check_memory(buffer, length, desc);
    if (ep->num_posted == QUEUE || refuses()) {
        return -FI_EAGAIN;
    }
    ep->posted[ep->num_posted++] = (struct posted){buffer, length, context};
    mark_context(context);
    return 0;
}

static struct fi_ops_msg msg_ops = {
    .size = sizeof(msg_ops), .recv = ep_recv, .send = ep_send, .sendmsg = ep_sendmsg, .inject = ep_inject};

static int ep_getname(struct fid *fid, void *address, size_t *length)
{
    const size_t space = *length;

    FAIL_AT("getname", NULL);
    *length = sizeof(uint64_t);
    if (space < sizeof(uint64_t)) {
        return -FI_ETOOSMALL;
    }
    memcpy(address, &((struct ep *)fid)->id, sizeof(uint64_t));
    return 0;
}

static struct fi_ops_cm cm_ops = {.size = sizeof(cm_ops), .getname = ep_getname};

static int ep_close(struct fid *fid)
{
    struct ep *ep = (struct ep *)fid;
    struct message *message;
    unsigned i;

    for (i = 0; i < MAX_EPS; i++) {
        eps[i] = (eps[i] == ep) ? NULL : eps[i];
    }
    while ((message = ep->first) != NULL) {
        ep->first = message->next;
        free(message);
    }
    free(ep);
    return 0;
}

static int ep_bind(struct fid *fid, struct fid *with, uint64_t flags)
{
    struct ep *ep = (struct ep *)fid;

    FAIL_AT("bind", NULL);
    (void)flags;
    if (with->fclass == FI_CLASS_CQ) {
        ep->cq = (struct cq *)with;
        ep->cq->ep = ep;
    } else if (with->fclass == FI_CLASS_AV) {
        ep->av = (struct av *)with;
    }
    return 0;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
    struct ep *ep = (struct ep *)fid;
    unsigned i;

    FAIL_AT("enable", NULL);
    (void)arg;
    for (i = 0; command == FI_ENABLE && ep->cq != NULL && ep->av != NULL && i < MAX_EPS; i++) {
        if (eps[i] == NULL) {
            eps[i] = ep;
            return 0;
        }
    }
    return -FI_ENOSYS;
}

static struct fi_ops ep_fid_ops = {
    .size = sizeof(ep_fid_ops), .close = ep_close, .bind = ep_bind, .control = ep_control};

static int ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep_p, void *context)
{
    struct ep *ep = calloc(1, sizeof(*ep));

    FAIL_AT("endpoint", ep);
    (void)info;
    (void)context;
    ep->ep = (struct fid_ep){.fid = {.fclass = FI_CLASS_EP, .ops = &ep_fid_ops},
                          .msg = &msg_ops,
                          .cm = &cm_ops,
                          .rma = &rma_ops,
                          .atomic = &atomic_ops};
    ep->id = next_id++;
    ep->domain = domain;
    *ep_p = &ep->ep;
    return 0;
}

/* ---- domain and fabric ---- */

static int plain_close(struct fid *fid)
{
    free(fid);
    return 0;
}

static struct fi_ops plain_ops = {.size = sizeof(plain_ops), .close = plain_close};
static struct fi_ops_domain domain_ops = {.size = sizeof(domain_ops),
                                  .av_open = av_open,
                                  .cq_open = cq_open,
                                  .endpoint = ep_open,
                                  .query_atomic = query_atomic};

static int domain_control(struct fid *fid, int command, void *arg)
{
    (void)fid;
    return map_key(command, arg);
}

static int domain_close(struct fid *fid)
{
    if (mapped_keys != 0) {
        wrong("a raw key stays mapped");
    }
    free(fid);
    return 0;
}

static struct fi_ops domain_fid_ops = {
    .size = sizeof(domain_fid_ops), .close = domain_close, .control = domain_control};

static int domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain_p, void *context)
{
    struct fid_domain *domain = calloc(1, sizeof(*domain));

    FAIL_AT("domain", domain);
    (void)fabric;
    (void)info;
    (void)context;
    *domain = (struct fid_domain){
        .fid = {.fclass = FI_CLASS_DOMAIN, .ops = &domain_fid_ops}, .ops = &domain_ops, .mr = &domain_mr_ops};
    *domain_p = domain;
    return 0;
}

static int trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
    struct cq *cq = (struct cq *)fids[0];
    uint64_t number;

    (void)fabric;
    (void)count;
    while (cq->fd >= 0 && read(cq->fd, &number, sizeof(number)) > 0) {
    }
    return (cq->count > 0 || cq->ep->first != NULL) ? -FI_EAGAIN : 0;
}

static struct fi_ops_fabric fabric_ops = {.size = sizeof(fabric_ops), .domain = domain_open, .trywait = trywait};

static int fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric_p, void *context)
{
    struct fid_fabric *fabric;

    (void)context;
    if (attr->prov_name == NULL || strstr(attr->prov_name, "standin") == NULL) {
        return -FI_ENODATA;
    }
    fabric = calloc(1, sizeof(*fabric));
    *fabric = (struct fid_fabric){.fid = {.fclass = FI_CLASS_FABRIC, .ops = &plain_ops}, .ops = &fabric_ops};
    *fabric_p = fabric;
    return 0;
}

static int getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
                   struct fi_info **info_p)
{
    struct fi_info *info;

    (void)version;
    (void)node;
    (void)service;
    (void)flags;
    /* no layer of libfabric's own is to build upon this one */
    if (getenv("CW_STAND_IN") == NULL || hints == NULL || hints->ep_attr == NULL || hints->domain_attr == NULL ||
        hints->ep_attr->type != FI_EP_RDM ||
        (hints->tx_attr != NULL && (hints->tx_attr->op_flags & FI_DELIVERY_COMPLETE) && !has("deliver")) ||
        (mr_mode() & ~hints->domain_attr->mr_mode) != 0) {
        return -FI_ENODATA;
    }
    info = fi_allocinfo();
    info->caps = FI_MSG | FI_SEND | FI_RECV | FI_LOCAL_COMM | FI_REMOTE_COMM;
    info->mode = has("context") ? FI_CONTEXT2 : 0;
    info->addr_format = FI_ADDR_EFA + 100;
    info->tx_attr->caps = FI_MSG | FI_SEND;
    info->tx_attr->msg_order = has("reorder") ? 0 : FI_ORDER_SAS;
    info->rx_attr->msg_order = info->tx_attr->msg_order;
    info->tx_attr->inject_size = 64;
    info->tx_attr->size = 256;
    info->tx_attr->iov_limit = 1;
    info->rx_attr->caps = FI_MSG | FI_RECV;
    info->rx_attr->size = 256;
    info->ep_attr->type = FI_EP_RDM;
    info->ep_attr->max_msg_size = 20000;
    info->domain_attr->name = strdup("standin0");
    info->domain_attr->resource_mgmt = FI_RM_ENABLED;
    info->domain_attr->mr_mode = mr_mode();
    info->domain_attr->threading = FI_THREAD_SAFE;
    info->domain_attr->mr_key_size = has("small_key") ? 1 : 8;
    info->domain_attr->av_type = FI_AV_TABLE;
    info->fabric_attr->name = strdup("standin");
    if (has("rma")) {
        info->caps |= FI_RMA | FI_ATOMIC | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
        info->caps |= has("fence") ? FI_FENCE : 0;
        info->tx_attr->caps = info->rx_attr->caps = info->caps;
        info->tx_attr->msg_order |= has("ordered") ? FI_ORDER_RAW : 0;
        info->rx_attr->msg_order |= has("ordered") ? FI_ORDER_RAW : 0;
        info->ep_attr->max_order_raw_size = has("ordered") ? SIZE_MAX : 0;
        info->ep_attr->max_msg_size = 1 << 20;
    }
    /* the name comes from libfabric */
    info->fabric_attr->api_version = FI_VERSION(1, 17);
    *info_p = info;
    return 0;
}

static struct fi_provider provider = {.version = FI_VERSION(1, 0),
                                   .fi_version = FI_VERSION(1, 17),
                                   .name = "standin",
                                   .getinfo = getinfo,
                                   .fabric = fabric_open};

__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void);

struct fi_provider *fi_prov_ini(void)
{
    return &provider;
}
