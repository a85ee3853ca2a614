/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implementation of mem/cuda/cuda_pieces.h. The sender exports descriptors for each message and closes them at once,
 * since an open descriptor keeps memory alive that the program has released. The receiver caches its mappings
 * (cuda_peer.c). A mapped piece has no permanent number, so the numbers of the mappings identify the allocation: pieces
 * mapped later at the same address have others.
 */
#include "mem/cuda/cuda_pieces.h"

#include <stdbool.h>

#include "base/hash.h"
#include "os/unix_socket.h"

static bool has_calls(const struct cuda_driver *cuda)
{
    return cuda->piece_retain != NULL && cuda->piece_export != NULL && cuda->piece_import != NULL &&
           cuda->piece_release != NULL && cuda->piece_map != NULL && cuda->piece_unmap != NULL &&
           cuda->piece_access != NULL && cuda->address_reserve != NULL && cuda->address_free != NULL;
}

/* ---- names ---- */

/* Drivers that do not report mappings report pieces as ranges. */
int cw_cuda_mapping_at(const struct cuda_driver *cuda, uintptr_t at, struct cuda_range *range)
{
    int attributes[] = {CUDA_POINTER_MAPPING_SIZE, CUDA_POINTER_MAPPING_START};
    void *start = NULL;
    size_t size = 0;
    void *data[] = {&size, &start};

    cw_cuda_range_of(cuda, (const void *)at, range);
    if (range->type != cuda->kind->device) {
        return 0;
    }
    if (cuda->pointer_attributes(2, attributes, data, at) == CUDA_OK && size > 0) {
        range->start = (uintptr_t)start;
        range->size = size;
    }
    return at - range->start < range->size;
}

static enum cuda_pieces export_piece(const struct cuda_driver *cuda, uintptr_t at, int *fd_p, int *result_p)
{
    cuda_piece piece = 0;

    if (cuda->piece_retain(&piece, (void *)at) != CUDA_OK) {
        return CUDA_PIECES_NONE;
    }
    *result_p = cuda->piece_export(fd_p, piece, CUDA_HANDLE_DESCRIPTOR, 0);
    (void)cuda->piece_release(piece);
    if (*result_p != CUDA_OK) {
        return CUDA_PIECES_PRIVATE;
    }
    cw_fd_hide(*fd_p);
    return CUDA_PIECES_NAMED;
}

static enum cuda_pieces name_all(const struct cuda_driver *cuda, uintptr_t ptr, size_t length, struct cw_md_name *name,
                                 int *result_p)
{
    enum cuda_pieces found;
    struct cuda_range range;
    uintptr_t next = ptr;
    size_t piece = 0;

    name->buffer = 0;
    while (next < ptr + length) {
        if (!cw_cuda_mapping_at(cuda, next, &range) || range.buffer_id == 0) {
            return CUDA_PIECES_NONE;
        }
        if (piece == 0) {
            piece = range.size;
            name->start = range.start;
        }
        if (range.size != piece || (next != ptr && range.start != next) || name->num_fds == CW_MD_MOST_PIECES) {
            return CUDA_PIECES_UNEVEN;
        }
        found = export_piece(cuda, range.start, &name->fds[name->num_fds], result_p);
        if (found != CUDA_PIECES_NAMED) {
            return found;
        }
        name->num_fds++;
        name->buffer = cw_hash_mix(name->buffer ^ range.buffer_id);
        next = range.start + range.size;
    }
    name->size = next - name->start;
    return CUDA_PIECES_NAMED;
}

enum cuda_pieces cw_cuda_pieces_name(const struct cuda_driver *cuda, const void *ptr, size_t length,
                                     struct cw_md_name *name, int *result_p)
{
    enum cuda_pieces found =
        has_calls(cuda) ? name_all(cuda, (uintptr_t)ptr, length, name, result_p) : CUDA_PIECES_NONE;

    while (found != CUDA_PIECES_NAMED && name->num_fds > 0) {
        cw_fd_close(name->fds[--name->num_fds]);
    }
    return found;
}

/* ---- memory of peers ---- */

/* Maps one piece. The driver rejects a descriptor of anything else, and a piece of another length. */
static int map_piece(const struct cuda_driver *cuda, cuda_ptr at, size_t length, int fd)
{
    cuda_piece piece = 0;
    int result = cuda->piece_import(&piece, (void *)(intptr_t)fd, CUDA_HANDLE_DESCRIPTOR);

    if (result == CUDA_OK) {
        result = cuda->piece_map(at, length, 0, piece, 0);
        (void)cuda->piece_release(piece); /* the mapping keeps the memory alive */
    }
    return result;
}

int cw_cuda_pieces_open(const struct cuda_driver *cuda, const struct cw_md_name *name, int device, cuda_ptr *base_p)
{
    const struct cuda_access access = {CUDA_LOCATION_DEVICE, device, CUDA_ACCESS_READ_WRITE};
    const size_t piece = (name->num_fds == 0) ? 0 : name->size / name->num_fds;
    cuda_ptr base = 0;
    unsigned mapped = 0;
    int result;

    if (!has_calls(cuda) || piece == 0 || piece * name->num_fds != name->size) {
        return CUDA_INVALID_VALUE;
    }
    result = cuda->address_reserve(&base, name->size, 0, 0, 0);
    if (result != CUDA_OK) {
        return result;
    }
    while (result == CUDA_OK && mapped < name->num_fds) {
        result = map_piece(cuda, base + mapped * piece, piece, name->fds[mapped]);
        mapped += (result == CUDA_OK);
    }
    if (result == CUDA_OK) {
        result = cuda->piece_access(base, name->size, &access, 1);
    }
    if (result != CUDA_OK) {
        if (mapped > 0) {
            (void)cuda->piece_unmap(base, mapped * piece);
        }
        (void)cuda->address_free(base, name->size);
        return result;
    }
    *base_p = base;
    return CUDA_OK;
}

void cw_cuda_pieces_close(const struct cuda_driver *cuda, cuda_ptr base, size_t size)
{
    (void)cuda->piece_unmap(base, size);
    (void)cuda->address_free(base, size);
}
