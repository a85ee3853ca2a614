/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of peers on this host. Within a process an address is enough, and the driver confirms that it still belongs to
 * the allocation that the peer means. Memory of another process is opened by a handle of the driver. Opened memory is
 * kept, because opening takes longer than most copies; a peer that has freed an allocation and has got another one at
 * the same address names another number, and what is kept of the old one is closed first.
 */
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "mem/cuda/cuda.h"
#include "mem/cuda/cuda_peer.h"
#include "os/lock.h"
#include "os/memory.h"
#include "os/random.h"

#define MOST_KEPT  64u /* allocations that are open and not in use */
#define MOST_NAMES 32u

_Static_assert(sizeof(((struct cw_md_name *)0)->handle) == sizeof(struct cuda_ipc_handle), "a name has room");

/* An allocation of a peer that is open in a context of this process. */
struct opened {
    struct cw_list link; /* the last used one is the last */
    uint32_t peer;
    uint64_t process, buffer, start;
    struct cuda_ipc_handle handle;
    cuda_context context;
    unsigned long long id;
    cuda_ptr base;
    unsigned uses;
};

static struct known {
    struct cw_lock lock;
    struct cw_list all;
    unsigned count;
    uint64_t process; /* number of this process, */
    uint32_t pid;     /* which has this id */
    struct {
        unsigned long long buffer; /* 0: none */
        struct cuda_ipc_handle handle;
    } names[MOST_NAMES];
} known_of[CUDA_KINDS];

/* The table is locked. A forked child has another number, and none of the names. */
static uint64_t number_of_process(struct known *known)
{
    if (known->pid != cw_memory_process()) {
        known->pid     = cw_memory_process();
        known->process = cw_random_u64();
        memset(known->names, 0, sizeof(known->names));
    }
    return known->process;
}

static int holds(const struct cuda_range *range, uint64_t address, size_t length)
{
    return address - range->start < range->size && length <= range->size - (address - range->start);
}

/* ---- names ---- */

static void tell_nameless(const struct cuda_driver *cuda, int result)
{
    static int told;

    if (!__atomic_exchange_n(&told, 1, __ATOMIC_RELAXED)) {
        cw_warn("memory of a GPU has no handle for other processes (%s): messages from it to processes of this host go "
                "through memory of the host, which is several times slower; memory of %s has a "
                "handle, but mapped segments (PYTORCH_CUDA_ALLOC_CONF=expandable_segments) and pools of streams have "
                "none",
                cw_cuda_driver_error(cuda, result), cuda->kind->allocators);
    }
}

/* The table is locked. */
static int handle_of(const struct cuda_driver *cuda, const struct cuda_range *range, struct cuda_ipc_handle *handle)
{
    struct known *known = &known_of[cuda->kind->number];
    const unsigned at   = (unsigned)(range->buffer_id % MOST_NAMES);
    struct cuda_channel channel;
    int result;

    if (known->names[at].buffer == range->buffer_id && range->buffer_id != 0) {
        *handle = known->names[at].handle;
        return CUDA_OK;
    }
    result = cw_cuda_enter(cuda, range, &channel);
    if (result == CUDA_OK) {
        result = cuda->ipc_get(handle, range->start);
        cw_cuda_leave(cuda);
    }
    if (result == CUDA_OK) {
        known->names[at].buffer = range->buffer_id;
        known->names[at].handle = *handle;
    }
    return result;
}

int cw_cuda_give_name(const struct cuda_driver *cuda, const void *ptr, size_t length, uint32_t peer,
                      struct cw_md_name *name)
{
    struct known *known           = &known_of[cuda->kind->number];
    struct cuda_ipc_handle handle = {{0}};
    struct cuda_range range;
    int result = CUDA_OK;

    cw_cuda_range_of(cuda, ptr, &range);
    if (!cw_cuda_is_of_gpu(cuda, &range) || !holds(&range, (uintptr_t)ptr, length)) {
        return 0; /* freed, or pieces that are mapped one behind the other */
    }
    if (peer != cw_memory_process() && (range.type != cuda->kind->device || cuda->ipc_get == NULL)) {
        return 0; /* managed memory is shared with no other process */
    }
    cw_lock_enter(&known->lock);
    *name = (struct cw_md_name){.form    = CW_MD_HERE,
                                .type    = (uint8_t)range.type,
                                .process = number_of_process(known),
                                .buffer  = range.buffer_id,
                                .start   = range.start,
                                .size    = range.size,
                                .address = (uintptr_t)ptr};
    if (peer != known->pid) {
        name->form = CW_MD_HANDLE;
        result     = handle_of(cuda, &range, &handle);
    }
    cw_lock_leave(&known->lock);
    memcpy(name->handle, &handle, sizeof(handle));
    if (result != CUDA_OK) {
        tell_nameless(cuda, result);
    }
    return result == CUDA_OK;
}

/* ---- memory of other processes ---- */

static void tell_closed(const struct cuda_driver *cuda, uint32_t peer, int result)
{
    static int told;

    if (!__atomic_exchange_n(&told, 1, __ATOMIC_RELAXED)) {
        cw_warn("memory of a GPU of process %u cannot be opened here (%s): messages from it go through memory of the "
                "host, which is several times slower; let both processes see the same GPUs, and run containers with "
                "--ipc=host --pid=host",
                peer, cw_cuda_driver_error(cuda, result));
    }
}

/* The table is locked. A destroyed context has closed it by itself. */
static void opened_free(const struct cuda_driver *cuda, struct opened *opened)
{
    cw_list_remove(&opened->link);
    known_of[cuda->kind->number].count--;
    if (cw_cuda_enter_again(cuda, opened->context, opened->id) == CUDA_OK) {
        (void)cuda->ipc_close(opened->base);
        cw_cuda_leave(cuda);
    }
    free(opened);
}

/* The table is locked. Closes memory of that peer that is not in use; start 0: all of it, else an allocation there. */
static void close_unused(const struct cuda_driver *cuda, uint32_t peer, uint64_t start)
{
    struct known *known = &known_of[cuda->kind->number];
    struct cw_list *link, *next;
    struct opened *opened;

    for (link = known->all.next; link != NULL && link != &known->all; link = next) {
        next   = link->next;
        opened = cw_container_of(link, struct opened, link);
        if (opened->uses == 0 && opened->peer == peer && (start == 0 || opened->start == start)) {
            opened_free(cuda, opened);
        }
    }
}

/* The table is locked. Closes what was not used for the longest time. */
static void make_room(const struct cuda_driver *cuda)
{
    struct known *known = &known_of[cuda->kind->number];
    struct opened *opened;

    cw_list_for_each(opened, &known->all, struct opened, link)
    {
        if (opened->uses == 0) {
            opened_free(cuda, opened);
            return;
        }
    }
}

/* The table is locked. */
static struct opened *find(struct known *known, const struct cw_md_name *name, uint32_t peer,
                           const struct cuda_channel *channel)
{
    struct opened *opened;

    cw_list_for_each(opened, &known->all, struct opened, link)
    {
        if (opened->peer == peer && opened->process == name->process && opened->buffer == name->buffer &&
            opened->start == name->start && memcmp(&opened->handle, name->handle, sizeof(opened->handle)) == 0 &&
            opened->context == channel->context && opened->id == channel->id) {
            return opened;
        }
    }
    return NULL;
}

/* The table is locked, and the context of the channel is current. */
static struct opened *opened_new(const struct cuda_driver *cuda, const struct cw_md_name *name, uint32_t peer,
                                 const struct cuda_channel *channel)
{
    struct known *known   = &known_of[cuda->kind->number];
    struct opened *opened = calloc(1, sizeof(*opened));
    int result;

    if (opened == NULL) {
        return NULL;
    }
    *opened = (struct opened){.peer    = peer,
                              .process = name->process,
                              .buffer  = name->buffer,
                              .start   = name->start,
                              .context = channel->context,
                              .id      = channel->id};
    memcpy(&opened->handle, name->handle, sizeof(opened->handle));
    close_unused(cuda, peer, name->start); /* the driver opens an address of a process once */
    while (known->count >= MOST_KEPT) {
        const unsigned before = known->count;

        make_room(cuda);
        if (known->count == before) {
            break; /* all are in use */
        }
    }
    result = cuda->ipc_open(&opened->base, opened->handle, CUDA_IPC_LAZY_PEERS);
    if (result != CUDA_OK) {
        tell_closed(cuda, peer, result);
        free(opened);
        return NULL;
    }
    cw_list_add_tail(&known->all, &opened->link);
    known->count++;
    return opened;
}

/* The table is locked. Opened memory must have as many bytes as the peer says. */
static ucs_status_t use(const struct cuda_driver *cuda, struct opened *opened, const struct cw_md_name *name,
                        size_t length, struct cw_md_window *window)
{
    struct known *known   = &known_of[cuda->kind->number];
    const uint64_t offset = name->address - name->start;
    struct cuda_range range;

    cw_cuda_range_of(cuda, (const void *)(uintptr_t)opened->base, &range);
    if (!cw_cuda_is_of_gpu(cuda, &range) || range.start + range.size - opened->base < offset ||
        !holds(&range, opened->base + offset, length)) {
        return UCS_ERR_UNREACHABLE;
    }
    cw_list_remove(&opened->link);
    cw_list_add_tail(&known->all, &opened->link);
    opened->uses++;
    window->ptr    = (char *)(uintptr_t)(opened->base + offset);
    window->opened = opened;
    return UCS_OK;
}

static ucs_status_t open_other(const struct cuda_driver *cuda, const struct cw_md_name *name, uint32_t peer,
                               const void *to, size_t length, struct cw_md_window *window)
{
    struct known *known = &known_of[cuda->kind->number];
    ucs_status_t status = UCS_ERR_UNREACHABLE;
    struct cuda_channel channel;
    struct opened *opened;
    struct cuda_range range;

    cw_cuda_range_of(cuda, to, &range);
    if (!cw_cuda_is_of_gpu(cuda, &range) || cuda->ipc_open == NULL || cuda->ipc_close == NULL ||
        name->form != CW_MD_HANDLE || cw_cuda_enter(cuda, &range, &channel) != CUDA_OK) {
        return UCS_ERR_UNREACHABLE;
    }
    cw_lock_enter(&known->lock);
    if (known->all.next == NULL) {
        cw_list_init(&known->all);
    }
    opened = find(known, name, peer, &channel);
    if (opened == NULL) {
        opened = opened_new(cuda, name, peer, &channel);
    }
    if (opened != NULL) {
        status = use(cuda, opened, name, length, window);
    }
    cw_lock_leave(&known->lock);
    cw_cuda_leave(cuda);
    return status;
}

/* ---- slots ---- */

static ucs_status_t open_here(const struct cuda_driver *cuda, const struct cw_md_name *name, size_t length,
                              struct cw_md_window *window)
{
    struct cuda_range range;

    cw_cuda_range_of(cuda, (const void *)(uintptr_t)name->address, &range);
    if (name->form != CW_MD_HERE || !cw_cuda_is_of_gpu(cuda, &range) || range.buffer_id != name->buffer ||
        !holds(&range, name->address, length)) {
        return UCS_ERR_UNREACHABLE;
    }
    window->ptr    = (char *)(uintptr_t)name->address;
    window->opened = NULL;
    return UCS_OK;
}

ucs_status_t cw_cuda_open(const struct cuda_driver *cuda, const struct cw_md_name *name, uint32_t peer, const void *to,
                          size_t length, struct cw_md_window *window)
{
    if (name->type != cuda->kind->device && name->type != cuda->kind->managed) {
        return UCS_ERR_UNREACHABLE; /* memory of a GPU of another kind */
    }
    return (peer == cw_memory_process()) ? open_here(cuda, name, length, window)
                                         : open_other(cuda, name, peer, to, length, window);
}

void cw_cuda_shut(const struct cuda_driver *cuda, struct cw_md_window *window)
{
    struct known *known   = &known_of[cuda->kind->number];
    struct opened *opened = window->opened;

    if (opened != NULL) {
        cw_lock_enter(&known->lock);
        opened->uses--;
        cw_lock_leave(&known->lock);
    }
}

void cw_cuda_forget(const struct cuda_driver *cuda, uint32_t peer)
{
    struct known *known = &known_of[cuda->kind->number];

    cw_lock_enter(&known->lock);
    close_unused(cuda, peer, 0);
    cw_lock_leave(&known->lock);
}
