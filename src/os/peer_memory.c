/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * os/peer_memory.h on process_vm_readv(2) and process_vm_writev(2). They take a limited number of entries, so each copy
 * is a loop over windows of the caller's entries. A short read has met unmapped memory. The kernel copies by `rep
 * movsb`, which is slow for some alignments: there the bytes go through an aligned buffer (base/bytes.h).
 */
#include "os/peer_memory.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/log.h"

#define WINDOW       64u
#define DETOUR_BYTES (64u << 10)
#define DETOUR_MIN   4096u /* a shorter copy ends before the buffer gains time */

/* The part of a copy that is still to be done. */
struct rest {
    const struct iovec *iov;
    unsigned count;
    size_t skip;                /* bytes of iov[0] that are copied already */
    uint64_t address;           /* in the other process */
};

static void advance(struct rest *rest, size_t length)
{
    rest->address += length;
    rest->skip += length;
    while (rest->count > 0 && rest->skip >= rest->iov[0].iov_len) {
        rest->skip -= rest->iov[0].iov_len;
        rest->iov++;
        rest->count--;
    }
}

/* Fills `iov` with the next entries of ours; returns their number, and in *length_p their bytes. */
static unsigned window(const struct rest *rest, struct iovec *iov, size_t *length_p)
{
    unsigned count = (rest->count < WINDOW) ? rest->count : WINDOW, i;
    size_t length = 0;

    for (i = 0; i < count; i++) {
        iov[i] = rest->iov[i];
        length += iov[i].iov_len;
    }
    iov[0].iov_base = (char *)iov[0].iov_base + rest->skip;
    iov[0].iov_len -= rest->skip;
    *length_p = length - rest->skip;
    return count;
}

static void *address_of(uint64_t address)
{
    return (void *)(uintptr_t)address; /* never dereferenced here */
}

static ucs_status_t refused(const struct cw_peer_process *peer, const char *what, ssize_t done)
{
    if (done < 0) {
        cw_debug("memory of process %d cannot be %s directly: %m", peer->pid, what);
    } else {
        cw_debug("memory of process %d cannot be %s directly: the pid was reused, or nothing is mapped there",
                 peer->pid, what);
    }
    return UCS_ERR_IO_ERROR;
}

/* The probe is read last: a peer clears it before it releases the memory, so a correct probe shows that the bytes read
 * before belong to the peer's memory as it was. */
static ucs_status_t read_into(const struct cw_peer_process *peer, const struct iovec *to, unsigned count, uint64_t from)
{
    const unsigned probes = (peer->probe_address != 0) ? 1 : 0;
    struct rest rest = {.iov = to, .count = count, .address = from};
    struct iovec ours[WINDOW + 1], theirs[2];
    uint64_t probe;
    unsigned entries;
    size_t length;
    ssize_t done;

    advance(&rest, 0);
    while (rest.count > 0) {
        probe = probes ? ~peer->probe : peer->probe;
        entries = window(&rest, ours, &length);
        ours[entries] = (struct iovec){&probe, sizeof(probe)};
        theirs[0] = (struct iovec){address_of(rest.address), length};
        theirs[1] = (struct iovec){address_of(peer->probe_address), sizeof(probe)};
        done = process_vm_readv(peer->pid, ours, entries + probes, theirs, 1 + probes, 0);
        if (done != (ssize_t)(length + probes * sizeof(probe)) || probe != peer->probe) {
            return refused(peer, "read", done);
        }
        advance(&rest, length);
    }
    return UCS_OK;
}

/* Whether the peer is still the same process; else what was rejected is logged. */
static bool is_same(const struct cw_peer_process *peer)
{
    struct iovec theirs = {address_of(peer->probe_address), sizeof(uint64_t)};
    uint64_t probe = ~peer->probe;
    struct iovec ours = {&probe, sizeof(probe)};
    const ssize_t done = process_vm_readv(peer->pid, &ours, 1, &theirs, 1, 0);

    if (done != (ssize_t)sizeof(probe) || probe != peer->probe) {
        (void)refused(peer, "written", done);
        return false;
    }
    return true;
}

static ucs_status_t write_from(const struct cw_peer_process *peer, const struct iovec *from, unsigned count,
                               uint64_t to)
{
    struct iovec ours[WINDOW], theirs;
    struct rest rest = {.iov = from, .count = count, .address = to};
    unsigned entries;
    ssize_t done;

    advance(&rest, 0);
    while (rest.count > 0) {
        if (peer->probe_address != 0 && !is_same(peer)) {
            return UCS_ERR_IO_ERROR;
        }
        entries = window(&rest, ours, &theirs.iov_len);
        theirs.iov_base = address_of(rest.address);
        done = process_vm_writev(peer->pid, ours, entries, &theirs, 1, 0);
        if (done <= 0) {
            return refused(peer, "written", done);
        }
        advance(&rest, (size_t)done);
    }
    return UCS_OK;
}

/* Whether the kernel would copy one of these entries slowly. */
static bool lies_badly(const struct iovec *iov, unsigned count, uint64_t address, int reads)
{
    uint64_t ours;
    unsigned i;

    for (i = 0; i < count; i++) {
        ours = (uintptr_t)iov[i].iov_base;
        if (cw_unlikely(iov[i].iov_len >= DETOUR_MIN &&
                        (reads ? cw_bytes_are_near(ours, address) : cw_bytes_are_near(address, ours)))) {
            return true;
        }
        address += iov[i].iov_len;
    }
    return false;
}

/* Between our entries and contiguous memory, at most `max` bytes; returns the number copied. */
static size_t copy_rest(struct rest *rest, char *flat, size_t max, int to_ours)
{
    size_t done = 0, part;
    char *ours;

    while (rest->count > 0 && done < max) {
        ours = (char *)rest->iov[0].iov_base + rest->skip;
        part = rest->iov[0].iov_len - rest->skip;
        part = (part < max - done) ? part : max - done;
        cw_bytes_copy_any(to_ours ? ours : flat + done, to_ours ? flat + done : ours, part);
        done += part;
        advance(rest, part);
    }
    return done;
}

/* `bytes` is cache-line aligned. The copy in it begins at the offset within a line that the peer's memory has, so that
 * both have one alignment; behind that offset there is space for DETOUR_BYTES. */
static ucs_status_t detour(const struct cw_peer_process *peer, char *bytes, const struct iovec *iov, unsigned count,
                           uint64_t address, int reads)
{
    struct rest rest = {.iov = iov, .count = count, .address = address};
    struct iovec flat = {.iov_base = bytes + address % CW_CACHE_LINE};
    ucs_status_t status = UCS_OK;
    size_t left = 0;
    unsigned i;

    for (i = 0; i < count; i++) {
        left += iov[i].iov_len;
    }
    for (advance(&rest, 0); left > 0 && status == UCS_OK; left -= flat.iov_len) {
        address = rest.address;
        if (reads) {
            flat.iov_len = (left < DETOUR_BYTES) ? left : DETOUR_BYTES;
            status = read_into(peer, &flat, 1, address);
            if (status == UCS_OK) {
                copy_rest(&rest, flat.iov_base, flat.iov_len, 1);
            }
        } else {
            flat.iov_len = copy_rest(&rest, flat.iov_base, DETOUR_BYTES, 0);
            status = write_from(peer, &flat, 1, address);
        }
    }
    return status;
}

static CW_COLD ucs_status_t try_detour(const struct cw_peer_process *peer, const struct iovec *iov, unsigned count,
                                       uint64_t address, int reads)
{
    char *bytes = aligned_alloc(CW_CACHE_LINE, DETOUR_BYTES + CW_CACHE_LINE);
    ucs_status_t status;

    if (bytes == NULL) { /* the direct copy is slower, but needs no buffer */
        return reads ? read_into(peer, iov, count, address) : write_from(peer, iov, count, address);
    }
    status = detour(peer, bytes, iov, count, address, reads);
    free(bytes);
    return status;
}

ucs_status_t cw_peer_memory_read(const struct cw_peer_process *peer, const struct iovec *to, unsigned count,
                                 uint64_t from)
{
    return lies_badly(to, count, from, 1) ? try_detour(peer, to, count, from, 1) : read_into(peer, to, count, from);
}

ucs_status_t cw_peer_memory_write(const struct cw_peer_process *peer, const struct iovec *from, unsigned count,
                                  uint64_t to)
{
    return lies_badly(from, count, to, 0) ? try_detour(peer, from, count, to, 0) : write_from(peer, from, count, to);
}
