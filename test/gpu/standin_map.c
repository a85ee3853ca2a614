/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stand-in's mapped allocations. A handle stands for a piece of memory, which lives as long as a handle or a
 * mapping of it does, in this process or another one. A piece lies in a memfd, which is also what an exported
 * descriptor is; a page behind the bytes marks it as a piece. Mapped memory is of use only to the device that was
 * allowed to access it, and has no handle for legacy IPC. The memfd stands for a dma-buf as well, of a whole allocation
 * or piece.
 */
#include "standin_internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PIECE_MAGIC 0x7069656365207676ull

struct piece {
    unsigned uses; /* handles and mappings in this process */
    char *bytes;
    size_t length;
    int device;
    int fd;
    int is_exportable;
};

static size_t page(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static void drop(struct piece *piece)
{
    if (--piece->uses == 0) {
        munmap(piece->bytes, piece->length + page());
        close(piece->fd);
        free(piece);
    }
}

static struct piece *piece_new(char *bytes, size_t length, int fd)
{
    struct piece *piece = calloc(1, sizeof(*piece));

    if (piece == NULL) {
        standin_die("there is no memory");
    }
    *piece = (struct piece){.uses = 1, .bytes = bytes, .length = length, .fd = fd};
    return piece;
}

/* Of the properties it checks the types of handles and the device: type, types of handles, type of location,
 * number. */
int cuMemCreate(unsigned long long *handle, size_t length, const void *properties, unsigned long long flags)
{
    struct shared *shared;
    struct piece *piece;
    char *bytes;
    int fd;

    (void)flags;
    ENTER();
    if (length == 0 || length % STANDIN_GRAIN != 0) {
        return standin_leave(CUDA_INVALID_VALUE);
    }
    bytes = standin_shared_bytes(length, &fd, &shared);
    piece = piece_new(bytes, length, fd);
    piece->is_exportable = (((const int *)properties)[1] & CUDA_HANDLE_DESCRIPTOR) != 0;
    piece->device = ((const int *)properties)[3];
    shared->magic = PIECE_MAGIC;
    memset(bytes, 0x5a, length);
    *handle = (uintptr_t)piece;
    return standin_leave(CUDA_OK);
}

int cuMemRelease(cuda_piece handle)
{
    ENTER();
    drop((struct piece *)(uintptr_t)handle);
    return standin_leave(CUDA_OK);
}

int cuMemRetainAllocationHandle(cuda_piece *handle, void *ptr)
{
    struct range *range;

    ENTER();
    range = standin_find((uintptr_t)ptr);
    if (range == NULL || range->kind != MAPPED) {
        return standin_leave(CUDA_INVALID_VALUE);
    }
    range->piece->uses++;
    *handle = (uintptr_t)range->piece;
    return standin_leave(CUDA_OK);
}

int cuMemExportToShareableHandle(void *out, cuda_piece handle, int type, unsigned long long flags)
{
    const struct piece *piece = (const struct piece *)(uintptr_t)handle;
    int fd;

    ENTER();
    if (type != CUDA_HANDLE_DESCRIPTOR || flags != 0 || !piece->is_exportable) {
        return standin_leave(CUDA_INVALID_VALUE);
    }
    fd = dup(piece->fd);
    if (fd < 0) {
        return standin_leave(CUDA_NOT_SUPPORTED);
    }
    memcpy(out, &fd, sizeof(fd));
    return standin_leave(CUDA_OK);
}

/* The descriptor stays the program's. */
int cuMemImportFromShareableHandle(cuda_piece *piece, void *handle, int type)
{
    const int fd = (int)(intptr_t)handle;
    const off_t size = lseek(fd, 0, SEEK_END);
    const size_t length = (size_t)size - page();
    char *bytes = MAP_FAILED;
    struct piece *made;

    ENTER();
    if (type == CUDA_HANDLE_DESCRIPTOR && size > (off_t)page()) {
        bytes = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (bytes == MAP_FAILED) {
        return standin_leave(CUDA_INVALID_VALUE);
    }
    if (((const struct shared *)(void *)(bytes + length))->magic != PIECE_MAGIC) {
        munmap(bytes, (size_t)size);
        return standin_leave(CUDA_INVALID_VALUE);
    }
    made = piece_new(bytes, length, dup(fd));
    *piece = (uintptr_t)made;
    return standin_leave(CUDA_OK);
}

int cuMemAddressReserve(cuda_ptr *ptr, size_t length, size_t alignment, cuda_ptr hint, unsigned long long flags)
{
    (void)alignment, (void)hint, (void)flags;
    ENTER();
    *ptr = (length % STANDIN_GRAIN == 0) ? (uintptr_t)standin_addresses(length) : 0;
    return standin_leave((*ptr != 0) ? CUDA_OK : CUDA_NO_MEMORY);
}

int cuMemAddressFree(cuda_ptr ptr, size_t length)
{
    size_t at;

    ENTER();
    for (at = 0; at < length; at += STANDIN_GRAIN) {
        if (standin_find(ptr + at) != NULL) {
            return standin_leave(CUDA_INVALID_VALUE);
        }
    }
    munmap((void *)(uintptr_t)ptr, length);
    return standin_leave(CUDA_OK);
}

int cuMemMap(cuda_ptr ptr, size_t length, size_t offset, cuda_piece handle, unsigned long long flags)
{
    struct piece *piece = (struct piece *)(uintptr_t)handle;
    struct range *range;

    (void)flags;
    ENTER();
    if (offset != 0 || length != piece->length || standin_find(ptr) != NULL) {
        return standin_leave(CUDA_INVALID_VALUE);
    }
    piece->uses++;
    range = standin_add(MAPPED, (char *)(uintptr_t)ptr, piece->bytes, length, piece->device, NULL);
    range->piece = piece;
    return standin_leave(CUDA_OK);
}

int cuMemUnmap(cuda_ptr ptr, size_t length)
{
    struct range *range;
    struct piece *piece;
    uintptr_t end = (uintptr_t)ptr + length;

    ENTER();
    standin_drain(NULL);
    for (; ptr < end; ptr += length) {
        range = standin_find(ptr);
        if (range == NULL || range->kind != MAPPED || (uintptr_t)range->addresses != ptr) {
            return standin_leave(CUDA_INVALID_VALUE);
        }
        length = range->length;
        piece = range->piece;
        standin_remove(range);
        drop(piece);
    }
    return standin_leave(CUDA_OK);
}

int cuMemSetAccess(cuda_ptr ptr, size_t length, const struct cuda_access *access, size_t count)
{
    const uintptr_t end = (uintptr_t)ptr + length;
    struct range *range;

    ENTER();
    if (count != 1 || access->location_type != CUDA_LOCATION_DEVICE || access->location < 0 ||
        access->location >= STANDIN_DEVICES || access->flags != CUDA_ACCESS_READ_WRITE) {
        return standin_leave(CUDA_INVALID_VALUE);
    }
    for (; ptr < end; ptr += range->length) {
        range = standin_find(ptr);
        if (range == NULL || range->kind != MAPPED || (uintptr_t)range->addresses != ptr) {
            return standin_leave(CUDA_INVALID_VALUE);
        }
        range->is_accessible = 1;
    }
    return standin_leave(CUDA_OK);
}

/* A real driver knows several pieces of an address range, too. */
int cuMemGetHandleForAddressRange(void *out, cuda_ptr ptr, size_t length, int type, unsigned long long flags)
{
    const struct range *range;
    int fd;

    ENTER();
    range = standin_find(ptr);
    if (standin_current() == NULL || type != CUDA_RANGE_DMABUF || flags != 0 || ptr % page() != 0 ||
        length % page() != 0 || length == 0 || range == NULL) {
        return standin_leave(CUDA_INVALID_VALUE);
    }
    if ((range->kind != DEVICE && range->kind != MAPPED) || (uintptr_t)range->addresses != ptr ||
        range->length != length) {
        return standin_leave(CUDA_NOT_SUPPORTED);
    }
    fd = dup((range->kind == DEVICE) ? range->fd : range->piece->fd);
    if (fd < 0) {
        return standin_leave(CUDA_NOT_SUPPORTED);
    }
    memcpy(out, &fd, sizeof(fd));
    return standin_leave(CUDA_OK);
}

void standin_check_mapped(const struct range *range)
{
    if (range != NULL && range->kind == MAPPED && !range->is_accessible) {
        standin_die("mapped memory is used that no device may access");
    }
}

unsigned standin_mapped(void)
{
    const struct range *range;
    unsigned count = 0;

    pthread_mutex_lock(&standin.mutex);
    for (range = standin.ranges; range != NULL; range = range->next) {
        count += range->kind == MAPPED;
    }
    pthread_mutex_unlock(&standin.mutex);
    return count;
}
