/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulated GPU. Its addresses are a range that is mapped without access; the bytes lie in other memory that only
 * this file knows. A lock guards the list of allocations, as several threads may copy.
 */
#include "sim_gpu.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/log.h"
#include "os/lock.h"

struct allocation {
    struct cw_list link;
    struct cw_memory bytes;
    char *addresses; /* that the program has, as many */
};

struct late {
    void *to;
    const void *from;
    size_t length;
    unsigned polls;
};

static struct {
    struct cw_lock lock;
    struct cw_list all;
    ucs_memory_type_t type;     /* HOST: the GPU is not open */
    uint64_t copies;
    uint64_t copied;
    uint64_t left;              /* copies to go before all further ones fail */
} gpu;

void cw_sim_gpu_open(ucs_memory_type_t type)
{
    cw_lock_init(&gpu.lock);
    cw_list_init(&gpu.all);
    gpu.copies = 0;
    gpu.copied = 0;
    gpu.left = UINT64_MAX;
    gpu.type = type;
}

void cw_sim_gpu_close(void)
{
    gpu.type = UCS_MEMORY_TYPE_HOST;
}

static void gpu_query(const struct cw_md *md CW_UNUSED, struct cw_md_attr *attr)
{
    const uint64_t types = (gpu.type == UCS_MEMORY_TYPE_HOST) ? 0 : CW_MEMORY_BIT(gpu.type);

    *attr = (struct cw_md_attr){.allocates = types, .registers = types, .copies = types};
}

/* ---- allocations ---- */

static ucs_status_t gpu_allocate(const struct cw_md *md CW_UNUSED, const struct cw_memory_spec *spec,
                                 struct cw_memory *memory)
{
    const struct cw_memory_spec bytes = {.length = spec->length, .huge = CW_MEMORY_SMALL};
    struct allocation *allocation = calloc(1, sizeof(*allocation));
    ucs_status_t status;

    if (allocation == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    status = cw_memory_allocate(&bytes, &allocation->bytes);
    if (status != UCS_OK) {
        free(allocation);
        return status;
    }
    allocation->addresses = mmap(NULL, allocation->bytes.length, PROT_NONE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (allocation->addresses == MAP_FAILED) {
        cw_memory_release(&allocation->bytes);
        free(allocation);
        return UCS_ERR_NO_MEMORY;
    }
    cw_lock_enter(&gpu.lock);
    cw_list_add_tail(&gpu.all, &allocation->link);
    cw_lock_leave(&gpu.lock);
    *memory = allocation->bytes;
    memory->ptr = allocation->addresses;
    return UCS_OK;
}

/* The allocation whose addresses hold the range, or NULL. The list is locked. */
static struct allocation *find(const void *ptr, size_t length)
{
    struct allocation *allocation;
    size_t offset;

    cw_list_for_each(allocation, &gpu.all, struct allocation, link) {
        offset = (uintptr_t)ptr - (uintptr_t)allocation->addresses;
        if (offset < allocation->bytes.length && length <= allocation->bytes.length - offset) {
            return allocation;
        }
    }
    return NULL;
}

static void gpu_release(const struct cw_md *md CW_UNUSED, struct cw_memory *memory)
{
    struct allocation *allocation;

    cw_lock_enter(&gpu.lock);
    allocation = find(memory->ptr, 1);
    if (allocation != NULL) {
        cw_list_remove(&allocation->link);
    }
    cw_lock_leave(&gpu.lock);
    if (allocation != NULL) {
        (void)munmap(allocation->addresses, allocation->bytes.length);
        cw_memory_release(&allocation->bytes);
        free(allocation);
    }
}

static ucs_memory_type_t gpu_type_of(const struct cw_md *md CW_UNUSED, const void *ptr, size_t length)
{
    int ours = 0;

    if (gpu.type != UCS_MEMORY_TYPE_HOST) {
        cw_lock_enter(&gpu.lock);
        ours = find(ptr, length) != NULL;
        cw_lock_leave(&gpu.lock);
    }
    return ours ? gpu.type : UCS_MEMORY_TYPE_UNKNOWN;
}

static ucs_status_t gpu_register(const struct cw_md *md, void *address, size_t length)
{
    return (gpu_type_of(md, address, length) == UCS_MEMORY_TYPE_UNKNOWN) ? UCS_ERR_INVALID_ADDR : UCS_OK;
}

/* ---- copies ---- */

/* The memory that holds these bytes, of a device or of the host. The list is locked. */
static char *place_of(const void *ptr, size_t length)
{
    struct allocation *allocation = find(ptr, length);

    return (allocation == NULL) ? (char *)(uintptr_t)ptr :
           allocation->bytes.ptr + ((uintptr_t)ptr - (uintptr_t)allocation->addresses);
}

static void move(void *to, const void *from, size_t length)
{
    cw_bytes_move(place_of(to, length), place_of(from, length), length);
}

static ucs_status_t gpu_copy(const struct cw_md *md CW_UNUSED, void *to, const void *from, size_t length)
{
    ucs_status_t status = UCS_ERR_IO_ERROR;

    cw_lock_enter(&gpu.lock);
    if (gpu.left > 0) {
        gpu.left--;
        gpu.copies++;
        gpu.copied += length;
        move(to, from, length);
        status = UCS_OK;
    }
    cw_lock_leave(&gpu.lock);
    return status;
}

/* ---- copies that go on: carried out after a few polls ---- */

#define POLLS 3

static void *gpu_stage(const struct cw_md *md CW_UNUSED, const void *device, size_t length)
{
    (void)device;
    return malloc(length);
}

static void gpu_unstage(const struct cw_md *md CW_UNUSED, void *memory)
{
    free(memory);
}

static ucs_status_t gpu_start(const struct cw_md *md CW_UNUSED, void *to, const void *from, size_t length,
                              struct cw_md_copy *copy)
{
    struct late *late = malloc(sizeof(*late));

    if (late == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    *late = (struct late){.to = to, .from = from, .length = length, .polls = POLLS};
    *copy = (struct cw_md_copy){.handle = late};
    return UCS_INPROGRESS;
}

static ucs_status_t gpu_wait(const struct cw_md *md, struct cw_md_copy *copy)
{
    struct late *late = copy->handle;
    ucs_status_t status = gpu_copy(md, late->to, late->from, late->length);

    free(late);
    return status;
}

static ucs_status_t gpu_poll(const struct cw_md *md, struct cw_md_copy *copy)
{
    struct late *late = copy->handle;

    return (--late->polls > 0) ? UCS_INPROGRESS : gpu_wait(md, copy);
}

const struct cw_md cw_md_sim_gpu = {
    .name = "sim_gpu",
    .query = gpu_query,
    .allocate = gpu_allocate,
    .release = gpu_release,
    .reg = gpu_register,
    .type_of = gpu_type_of,
    .copy = gpu_copy,
    .staging = gpu_stage,
    .unstage = gpu_unstage,
    .start = gpu_start,
    .poll = gpu_poll,
    .wait = gpu_wait,
};

/* ---- for tests ---- */

void *cw_sim_gpu_alloc(size_t length)
{
    const struct cw_memory_spec spec = {.length = length};
    struct cw_memory memory;

    return (gpu_allocate(&cw_md_sim_gpu, &spec, &memory) == UCS_OK) ? memory.ptr : NULL;
}

void cw_sim_gpu_free(void *ptr)
{
    struct cw_memory memory = {.ptr = ptr};

    gpu_release(&cw_md_sim_gpu, &memory);
}

void cw_sim_gpu_write(void *device, const void *host, size_t length)
{
    cw_lock_enter(&gpu.lock);
    move(device, host, length);
    cw_lock_leave(&gpu.lock);
}

void cw_sim_gpu_read(void *host, const void *device, size_t length)
{
    cw_sim_gpu_write(host, device, length);
}

void cw_sim_gpu_fail_after(uint64_t copies)
{
    cw_lock_enter(&gpu.lock);
    gpu.left = copies;
    cw_lock_leave(&gpu.lock);
}

uint64_t cw_sim_gpu_copies(void)
{
    return gpu.copies;
}

uint64_t cw_sim_gpu_bytes(void)
{
    return gpu.copied;
}
