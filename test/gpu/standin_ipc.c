/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stand-in's memory of other processes. Device memory lies in a memfd, which another process opens by way of the
 * owner's directory in /proc; a page behind the bytes says which allocation it is, and whether it was freed. As the
 * driver's manual says, a process cannot open its own handles, nor one twice, and nobody uses memory that was freed.
 */
#include "standin_internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAGIC 0x73746e64696e4950ull

struct handle {
    unsigned long long magic, id;
    size_t length;
    int pid, fd;
};

_Static_assert(sizeof(struct handle) <= sizeof(struct cuda_ipc_handle), "it fits");

static size_t page(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static char *map(int fd, size_t length, struct shared **shared)
{
    char *bytes = mmap(NULL, length + page(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (bytes == MAP_FAILED) {
        return NULL;
    }
    *shared = (struct shared *)(void *)(bytes + length);
    return bytes;
}

char *standin_shared_bytes(size_t length, int *fd, struct shared **shared)
{
    char *bytes = NULL;

    *fd = memfd_create("device", MFD_CLOEXEC);
    if (*fd >= 0 && ftruncate(*fd, (off_t)(length + page())) == 0) {
        bytes = map(*fd, length, shared);
    }
    if (bytes == NULL) {
        standin_die("there is no memory");
    }
    (*shared)->magic = MAGIC;
    (*shared)->pid = (int)getpid();
    return bytes;
}

void standin_unshare(struct range *range)
{
    if (range->shared != NULL) {
        if (range->kind == DEVICE) {
            range->shared->is_freed = 1;
            close(range->fd);
        }
        munmap(range->shared, page());
        range->shared = NULL;
    }
}

void standin_check_shared(const struct range *range)
{
    if (range != NULL && range->shared != NULL && range->shared->is_freed) {
        standin_die("memory is used that another process has freed");
    }
}

unsigned standin_opened(void)
{
    const struct range *range;
    unsigned count = 0;

    pthread_mutex_lock(&standin.mutex);
    for (range = standin.ranges; range != NULL; range = range->next) {
        count += range->kind == OPENED;
    }
    pthread_mutex_unlock(&standin.mutex);
    return count;
}

int cuIpcGetMemHandle(struct cuda_ipc_handle *handle, cuda_ptr ptr)
{
    struct handle inside;
    struct range *range;

    ENTER();
    range = standin_find(ptr);
    if (range == NULL || range->kind != DEVICE) {
        return standin_leave(CUDA_INVALID_VALUE);
    }
    inside = (struct handle){
        .magic = MAGIC, .id = range->id, .length = range->length, .pid = (int)getpid(), .fd = range->fd};
    memset(handle, 0, sizeof(*handle));
    memcpy(handle, &inside, sizeof(inside));
    return standin_leave(CUDA_OK);
}

static int is_open(const struct shared *shared)
{
    const struct range *range;

    for (range = standin.ranges; range != NULL; range = range->next) {
        if (range->kind == OPENED && range->shared->pid == shared->pid && range->shared->id == shared->id) {
            return 1;
        }
    }
    return 0;
}

static int open_of(const struct handle *handle, char **bytes, struct shared **shared)
{
    char path[64];
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/fd/%d", handle->pid, handle->fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    *bytes =
        (fd < 0 || lseek(fd, 0, SEEK_END) != (off_t)(handle->length + page())) ? NULL : map(fd, handle->length, shared);
    if (fd >= 0) {
        close(fd);
    }
    if (*bytes == NULL) {
        return CUDA_INVALID_VALUE;
    }
    if ((*shared)->magic != MAGIC || (*shared)->id != handle->id || (*shared)->is_freed) {
        munmap(*bytes, handle->length + page());
        return CUDA_INVALID_VALUE;
    }
    if (is_open(*shared)) {
        munmap(*bytes, handle->length + page());
        return CUDA_ALREADY_MAPPED;
    }
    return CUDA_OK;
}

int cuIpcOpenMemHandle_v2(cuda_ptr *ptr, struct cuda_ipc_handle opaque, unsigned flags)
{
    cuda_context context;
    struct shared *shared;
    struct handle handle;
    struct range *range;
    char *bytes;
    int result;

    (void)flags;
    memcpy(&handle, &opaque, sizeof(handle));
    ENTER();
    context = standin_current();
    if (context == NULL || handle.pid == (int)getpid()) {
        return standin_leave(CUDA_INVALID_CONTEXT);
    }
    if (handle.magic != MAGIC || handle.length == 0 || handle.length > (size_t)1 << 40) {
        return standin_leave(CUDA_INVALID_VALUE);
    }
    result = open_of(&handle, &bytes, &shared);
    if (result != CUDA_OK) {
        return standin_leave(result);
    }
    range = standin_add(OPENED, standin_addresses(handle.length), bytes, handle.length, context->device, context);
    range->shared = shared;
    *ptr = (uintptr_t)range->addresses;
    return standin_leave(CUDA_OK);
}

int cuIpcCloseMemHandle(cuda_ptr ptr)
{
    struct range *range;

    ENTER();
    range = standin_find(ptr);
    if (range == NULL || range->kind != OPENED || (uintptr_t)range->addresses != ptr) {
        return standin_leave(CUDA_INVALID_VALUE);
    }
    standin_drain(NULL);
    standin_remove(range);
    return standin_leave(CUDA_OK);
}
