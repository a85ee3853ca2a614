/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of peers on this host. Within a process an address suffices, and the driver confirms that it still belongs to
 * the allocation in the name. Memory of another process is opened by a handle of the driver. Opened memory is cached,
 * because opening takes longer than most copies; a new allocation of the peer at the same address has another number,
 * and the cached mapping of the old one is closed first.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "mem/cuda/cuda.h"
#include "mem/cuda/cuda_peer.h"
#include "mem/cuda/cuda_pieces.h"
#include "os/lock.h"
#include "os/memory.h"
#include "os/random.h"

#define MOST_RETAINED  64u /* allocations that are open and not in use */
#define MOST_NAMES 32u

_Static_assert(sizeof(((struct cw_md_name *)0)->handle) == sizeof(struct cuda_ipc_handle), "a name has space");

/* An allocation of a peer that is open in a context of this process. */
struct opened {
    struct cw_list link; /* most recently used last */
    uint32_t peer;
    uint64_t process, buffer, start;
    struct cuda_ipc_handle handle;
    size_t size;    /* of mapped pieces; 0: opened by a handle */
    unsigned count; /* of these pieces */
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

/* The lock is held. A forked child gets another number and drops the inherited names. */
static uint64_t number_of_process(struct known *known)
{
    if (known->pid != cw_memory_process()) {
        known->pid = cw_memory_process();
        known->process = cw_random_u64();
        memset(known->names, 0, sizeof(known->names));
    }
    return known->process;
}

static bool holds(const struct cuda_range *range, uint64_t address, size_t length)
{
    return address - range->start < range->size && length <= range->size - (address - range->start);
}

/* ---- names ---- */

static const char pool_helps[] = "stream-ordered pools have none";
static const char export_helps[] = "mapped segments (PYTORCH_CUDA_ALLOC_CONF=expandable_segments) have one if the "
                                   "allocator requests it: requestedHandleTypes in cuMemCreate must name "
                                   "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR";
static const char uneven_helps[] = "mapped segments have one for messages in at most 32 mapped pieces of equal length";
static const char managed_helps[] = "managed memory cannot be shared with other processes";

/* Logs each reason once. */
static void log_nameless(const struct cuda_driver *cuda, const char *why, int result)
{
    static const char *logged[4]; /* atomic: reasons already logged */
    const char *expected;
    unsigned i;

    for (i = 0; i < sizeof(logged) / sizeof(logged[0]); i++) {
        expected = NULL;
        if (__atomic_compare_exchange_n(&logged[i], &expected, why, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            break;
        }
        if (expected == why) {
            return;
        }
    }
    cw_warn("GPU memory has no IPC handle (%s): messages from it to processes of this host are staged through host "
            "memory, which is several times slower; memory of %s has a handle; %s",
            cw_cuda_driver_error(cuda, result), cuda->kind->allocators, why);
}

/* The lock is held. */
static int handle_of(const struct cuda_driver *cuda, const struct cuda_range *range, struct cuda_ipc_handle *handle)
{
    struct known *known = &known_of[cuda->kind->number];
    const unsigned at = (unsigned)(range->buffer_id % MOST_NAMES);
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

/* Whether the range was mapped by the program; then the name is complete, or the reason for its absence is logged. */
static bool is_mapped(const struct cuda_driver *cuda, const struct cuda_range *range, const void *ptr, size_t length,
                      struct cw_md_name *name)
{
    int result = CUDA_NOT_SUPPORTED;

    if (range->context != NULL) {
        return false;
    }
    switch (cw_cuda_pieces_name(cuda, ptr, length, name, &result)) {
    case CUDA_PIECES_NAMED:
        name->form = CW_MD_PASSED;
        return true;
    case CUDA_PIECES_PRIVATE:
        log_nameless(cuda, export_helps, result);
        return true;
    case CUDA_PIECES_UNEVEN:
        log_nameless(cuda, uneven_helps, CUDA_NOT_SUPPORTED);
        return true;
    default:
        return false;
    }
}

/* The lock is held. */
static void name_for_other(const struct cuda_driver *cuda, const struct cuda_range *range, const void *ptr,
                           size_t length, struct cw_md_name *name)
{
    struct cuda_ipc_handle handle = {{0}};
    int result;

    if (range->type != cuda->kind->device) {
        log_nameless(cuda, managed_helps, CUDA_NOT_SUPPORTED);
    } else if (!is_mapped(cuda, range, ptr, length, name) && cuda->ipc_get != NULL &&
               holds(range, (uintptr_t)ptr, length)) {
        result = handle_of(cuda, range, &handle);
        if (result != CUDA_OK) {
            log_nameless(cuda, pool_helps, result);
        } else {
            name->form = CW_MD_HANDLE;
            memcpy(name->handle, &handle, sizeof(handle));
        }
    }
}

int cw_cuda_give_name(const struct cuda_driver *cuda, const void *ptr, size_t length, uint32_t peer,
                      struct cw_md_name *name)
{
    struct known *known = &known_of[cuda->kind->number];
    struct cuda_range range;

    cw_cuda_range_of(cuda, ptr, &range);
    if (!cw_cuda_is_of_gpu(cuda, &range)) {
        return 0; /* freed */
    }
    cw_lock_enter(&known->lock);
    *name = (struct cw_md_name){.type = (uint8_t)range.type,
                             .process = number_of_process(known),
                             .buffer = range.buffer_id,
                             .start = range.start,
                             .size = range.size,
                             .address = (uintptr_t)ptr};
    if (peer != known->pid) {
        name_for_other(cuda, &range, ptr, length, name);
    } else if (holds(&range, (uintptr_t)ptr, length)) {
        name->form = CW_MD_HERE;
    }
    cw_lock_leave(&known->lock);
    return name->form != 0;
}

/* ---- memory of other processes ---- */

static void log_closed(const struct cuda_driver *cuda, uint32_t peer, int result)
{
    static int logged;

    if (!__atomic_exchange_n(&logged, 1, __ATOMIC_RELAXED)) {
        cw_warn("cannot open GPU memory of process %u (%s): messages from it are staged through host memory, which is "
                "several times slower; make the same GPUs visible to both processes, and run containers with "
                "--ipc=host --pid=host",
                peer, cw_cuda_driver_error(cuda, result));
    }
}

/* The lock is held. Destroying a context has closed memory opened by a handle, but not mapped pieces. */
static void opened_free(const struct cuda_driver *cuda, struct opened *opened)
{
    cw_list_remove(&opened->link);
    known_of[cuda->kind->number].count--;
    if (opened->size > 0) {
        cw_cuda_pieces_close(cuda, opened->base, opened->size);
    } else if (cw_cuda_enter_again(cuda, opened->context, opened->id) == CUDA_OK) {
        (void)cuda->ipc_close(opened->base);
        cw_cuda_leave(cuda);
    }
    free(opened);
}

/* The lock is held. Closes unused mappings of that peer's memory; start 0: all, else the allocation at that address. */
static void close_unused(const struct cuda_driver *cuda, uint32_t peer, uint64_t start)
{
    struct known *known = &known_of[cuda->kind->number];
    struct cw_list *link, *next;
    struct opened *opened;

    for (link = known->all.next; link != NULL && link != &known->all; link = next) {
        next = link->next;
        opened = cw_container_of(link, struct opened, link);
        if (opened->uses == 0 && opened->peer == peer && (start == 0 || opened->start == start)) {
            opened_free(cuda, opened);
        }
    }
}

/* The lock is held. Evicts the least recently used mapping. */
static void make_space(const struct cuda_driver *cuda)
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

/* The lock is held. */
static struct opened *find(struct known *known, const struct cw_md_name *name, uint32_t peer,
                           const struct cuda_channel *channel)
{
    struct opened *opened;

    cw_list_for_each(opened, &known->all, struct opened, link)
    {
        if (opened->peer == peer && opened->process == name->process && opened->buffer == name->buffer &&
            opened->start == name->start && memcmp(&opened->handle, name->handle, sizeof(opened->handle)) == 0 &&
            opened->count == name->num_fds && (opened->size == 0 || opened->size == name->size) &&
            opened->context == channel->context && opened->id == channel->id) {
            return opened;
        }
    }
    return NULL;
}

/* The lock is held, and the context of the channel is current. */
static struct opened *opened_new(const struct cuda_driver *cuda, const struct cw_md_name *name, uint32_t peer,
                                 const struct cuda_channel *channel, int device)
{
    struct known *known = &known_of[cuda->kind->number];
    struct opened *opened = calloc(1, sizeof(*opened));
    int result;

    if (opened == NULL) {
        return NULL;
    }
    *opened = (struct opened){.peer = peer,
                           .process = name->process,
                           .buffer = name->buffer,
                           .start = name->start,
                           .context = channel->context,
                           .id = channel->id};
    memcpy(&opened->handle, name->handle, sizeof(opened->handle));
    close_unused(cuda, peer, name->start); /* the driver opens an address of a process only once */
    while (known->count >= MOST_RETAINED) {
        const unsigned before = known->count;

        make_space(cuda);
        if (known->count == before) {
            break; /* all are in use */
        }
    }
    if (name->form == CW_MD_PASSED) {
        opened->size = (size_t)name->size;
        opened->count = name->num_fds;
        result = cw_cuda_pieces_open(cuda, name, device, &opened->base);
    } else {
        result = cuda->ipc_open(&opened->base, opened->handle, CUDA_IPC_LAZY_PEERS);
    }
    if (result != CUDA_OK) {
        log_closed(cuda, peer, result);
        free(opened);
        return NULL;
    }
    cw_list_add_tail(&known->all, &opened->link);
    known->count++;
    return opened;
}

/* Opened memory must be as large as the peer claims. The driver has already verified the size of pieces. */
static bool has_bytes(const struct cuda_driver *cuda, const struct opened *opened, uint64_t offset, size_t length)
{
    struct cuda_range range;

    if (opened->size > 0) {
        return offset <= opened->size && length <= opened->size - offset;
    }
    cw_cuda_range_of(cuda, (const void *)(uintptr_t)opened->base, &range);
    return cw_cuda_is_of_gpu(cuda, &range) && range.start + range.size - opened->base >= offset &&
           holds(&range, opened->base + offset, length);
}

/* The lock is held. */
static ucs_status_t use(const struct cuda_driver *cuda, struct opened *opened, const struct cw_md_name *name,
                        size_t length, struct cw_md_window *window)
{
    struct known *known = &known_of[cuda->kind->number];
    const uint64_t offset = name->address - name->start;

    if (!has_bytes(cuda, opened, offset, length)) {
        return UCS_ERR_UNREACHABLE;
    }
    cw_list_remove(&opened->link);
    cw_list_add_tail(&known->all, &opened->link);
    opened->uses++;
    window->ptr = (char *)(uintptr_t)(opened->base + offset);
    window->opened = opened;
    return UCS_OK;
}

static bool can_open(const struct cuda_driver *cuda, const struct cw_md_name *name)
{
    return (name->form == CW_MD_HANDLE && cuda->ipc_open != NULL && cuda->ipc_close != NULL) ||
           (name->form == CW_MD_PASSED && name->num_fds > 0);
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
    if (!cw_cuda_is_of_gpu(cuda, &range) || !can_open(cuda, name) || cw_cuda_enter(cuda, &range, &channel) != CUDA_OK) {
        return UCS_ERR_UNREACHABLE;
    }
    cw_lock_enter(&known->lock);
    if (known->all.next == NULL) {
        cw_list_init(&known->all);
    }
    opened = find(known, name, peer, &channel);
    if (opened == NULL) {
        opened = opened_new(cuda, name, peer, &channel, range.device);
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
    window->ptr = (char *)(uintptr_t)name->address;
    window->opened = NULL;
    return UCS_OK;
}

ucs_status_t cw_cuda_open(const struct cuda_driver *cuda, const struct cw_md_name *name, uint32_t peer, const void *to,
                          size_t length, struct cw_md_window *window)
{
    if (name->type != cuda->kind->device && name->type != cuda->kind->managed) {
        return UCS_ERR_UNREACHABLE; /* GPU memory of another kind */
    }
    return (peer == cw_memory_process()) ? open_here(cuda, name, length, window)
                                         : open_other(cuda, name, peer, to, length, window);
}

void cw_cuda_shut(const struct cuda_driver *cuda, struct cw_md_window *window)
{
    struct known *known = &known_of[cuda->kind->number];
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
