/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cross-process copies, and the claim pairs.
 *
 * Whether the kernel permits copies (namespaces, seccomp, ptrace restrictions) is tested by a trial: the peer's probe
 * word is read and compared with the handshake's value, and its target word is written. The pid comes from the socket.
 * After any error copies are disabled; messages then go through the rings. The duration of a copy is no sign of
 * misbehaviour: a busy machine, swap, or the peer's pages (userfaultfd, FUSE) delay it.
 *
 * Pids are reused. The probe word holds a random number while the connection is open, and a copy reads it
 * (os/peer_memory.h). The socket would prove less: a child of the peer can hold it open after the peer's end.
 *
 * Reading the word takes as long as a short copy. So a word that was right is not read again for FRESH_TICKS, in which
 * no pid can be reused, since the kernel assigns all others first, unless the peer has cleared a word meanwhile: before
 * it releases the memory, it changes `revocations` in the memory of each connection. It no longer counts there once it
 * has closed the connection, while the peer, which may not know, still copies with validity words: 0. Nothing reports
 * an execve: a copy directly after it may reach the new program, as it may between the check and the copy.
 *
 * A dialler does not know the peer's words before the reply, which a peer that computes sends late. Until then only
 * copies with a validity word are made: its value is a random number, too, that only the owner of the memory has.
 */
#include "transport/shm/shm.h"

#include <assert.h>
#include <stdbool.h>

#include "base/bytes.h"
#include "base/log.h"
#include "os/clock.h"
#include "os/lock.h"
#include "os/random.h"
#include "os/unix_socket.h"

#define FRESH_TICKS (32 * (uint64_t)CW_CLOCK_TICKS_SHORT) /* well below a millisecond */

/* The word that peers write to prove that they can. One per process and never freed, so that a late proof cannot
 * overwrite other data. Its value is never read. */
static uint64_t target;

/* The connections of this process whose peers may read our memory. */
static struct {
    struct cw_lock lock;
    struct cw_list conns;
} revocable = {.conns = {&revocable.conns, &revocable.conns}};

/* Added to the shared word rather than stored from one of this process: a forked child, which inherits the list,
 * changes the words of its parent's connections, too. After 2^32 changes the word stays 0. */
static void change_revocations(struct shm_conn *conn)
{
    uint32_t *word = &conn->tx.control->revocations;

    if (__atomic_load_n(word, __ATOMIC_RELAXED) != 0) {
        (void)__atomic_add_fetch(word, 1, __ATOMIC_RELEASE);
    }
}

void cw_shm_revoked(void)
{
    struct shm_conn *conn;

    cw_lock_enter(&revocable.lock);
    cw_list_for_each(conn, &revocable.conns, struct shm_conn, revocable) {
        change_revocations(conn);
    }
    cw_lock_leave(&revocable.lock);
}

static void begin_revocable(struct shm_conn *conn)
{
    __atomic_store_n(&conn->tx.control->revocations, 1, __ATOMIC_RELAXED);
    cw_lock_enter(&revocable.lock);
    cw_list_add_tail(&revocable.conns, &conn->revocable);
    cw_lock_leave(&revocable.lock);
}

static void end_revocable(struct shm_conn *conn)
{
    cw_lock_enter(&revocable.lock); /* neighbours in the list change the link, too */
    if (conn->revocable.next != NULL) {
        __atomic_store_n(&conn->tx.control->revocations, 0, __ATOMIC_RELEASE);
        cw_list_remove(&conn->revocable);
    }
    cw_lock_leave(&revocable.lock);
}

void cw_shm_peer_offer(struct shm_conn *conn, struct shm_handshake *handshake)
{
    handshake->passes = 1;
    if (shm_iface_of(&conn->super)->peer_memory) {
        begin_revocable(conn);
        __atomic_store_n(&conn->probe, cw_random_u64() | 1, __ATOMIC_RELAXED); /* never 0 */
        handshake->probe_address = (uintptr_t)&conn->probe;
        handshake->probe = conn->probe;
        handshake->target_address = (uintptr_t)&target;
    }
}

int cw_shm_peer_take(struct shm_conn *conn, const struct shm_handshake *handshake)
{
    const int offered = (handshake->probe != 0);

    if ((handshake->probe_address != 0) != offered || (handshake->target_address != 0) != offered ||
        handshake->probe_address % sizeof(uint64_t) != 0 || handshake->target_address % sizeof(uint64_t) != 0) {
        return 0;
    }
    conn->peer.probe_address = handshake->probe_address;
    conn->peer.probe = handshake->probe;
    conn->peer_target = handshake->target_address;
    conn->peer_passes = handshake->passes == 1;
    return 1;
}

void cw_shm_peer_end(struct shm_conn *conn)
{
    __atomic_store_n(&conn->probe, 0, __ATOMIC_RELEASE); /* atomic, so that the compiler does not drop the store
                                                          * although the memory is freed next */
    end_revocable(conn);
}

/* Tries both directions of copying, once. */
static CW_COLD int copies_work(const struct shm_conn *conn)
{
    uint64_t word = 0;
    struct iovec iov = {.iov_base = &word, .iov_len = sizeof(word)};

    return cw_peer_memory_read(&conn->peer, &iov, 1, conn->peer.probe_address) == UCS_OK &&
           cw_peer_memory_write(&conn->peer, &iov, 1, conn->peer_target) == UCS_OK;
}

static CW_COLD enum shm_peer_state prove(struct shm_conn *conn)
{
    const bool answered = conn->state == SHM_CONN_OPEN;
    const char *why = NULL;

    if (!shm_iface_of(&conn->super)->peer_memory) {
        why = "UCX_TLS names neither cma nor shm";
    } else if (answered ? conn->peer.probe == 0 : !(conn->token & SHM_TOKEN_COPIES)) {
        why = "the peer refuses them";
    } else if ((conn->peer.pid = cw_unix_peer_pid(conn->item.fd)) == 0) {
        why = "the peer is in another PID namespace";
    } else if (answered && !copies_work(conn)) {
        why = "the kernel refuses to copy between the processes";
    }
    if (why != NULL) {
        cw_debug("no direct copies with a peer on this machine, messages use shared rings: %s", why);
        return SHM_PEER_CLOSED;
    }
    return SHM_PEER_READY;
}

int cw_shm_peer_ready(struct cw_conn *super)
{
    struct shm_conn *conn = shm_conn_of(super);

    if ((conn->state != SHM_CONN_OPEN && conn->state != SHM_CONN_DIALLED) || conn->hangup) {
        return 0;
    }
    if (conn->peer_state == SHM_PEER_UNPROVED) {
        conn->peer_state = (uint8_t)prove(conn);
    }
    return conn->peer_state == SHM_PEER_READY;
}

static uint32_t revocations_of_peer(const struct shm_conn *conn)
{
    return __atomic_load_n(&conn->rx.control->revocations, __ATOMIC_ACQUIRE);
}

static struct shm_checked *checked_entry(struct shm_conn *conn, uint64_t address)
{
    return &conn->checked[address / sizeof(uint64_t) % SHM_CHECKED];
}

/* Whether the word need not be read again. Nothing is noted while `revocations` is 0. */
static bool is_checked(struct shm_conn *conn, const struct cw_peer_process *owner, uint32_t revocations)
{
    const struct shm_checked *entry = checked_entry(conn, owner->probe_address);

    return entry->address == owner->probe_address && entry->value == owner->probe &&
           conn->checked_revocations == revocations && cw_clock_ticks() - conn->checked_ticks < FRESH_TICKS;
}

/* The word had the right value after the peer's `revocations` were read. */
static void note_checked(struct shm_conn *conn, const struct cw_peer_process *owner, uint32_t revocations,
                         uint64_t ticks)
{
    if (conn->state != SHM_CONN_OPEN || revocations == 0) {
        return;
    }
    if (conn->checked_revocations != revocations) {
        memset(conn->checked, 0, sizeof(conn->checked));
        conn->checked_revocations = revocations;
    }
    *checked_entry(conn, owner->probe_address) =
        (struct shm_checked){.address = owner->probe_address, .value = owner->probe};
    conn->checked_ticks = ticks;
}

static ucs_status_t copy_as(const struct cw_peer_process *peer, int writes, const struct iovec *iov, unsigned count,
                            uint64_t there)
{
    return writes ? cw_peer_memory_write(peer, iov, count, there) : cw_peer_memory_read(peer, iov, count, there);
}

static ucs_status_t copy(struct shm_conn *conn, const struct cw_peer_process *owner, int writes,
                         const struct iovec *iov, unsigned count, uint64_t there)
{
    const struct cw_peer_process unchecked = {.pid = owner->pid};
    const uint32_t revocations = revocations_of_peer(conn);
    const uint64_t ticks = cw_clock_ticks();
    ucs_status_t status;

    if (is_checked(conn, owner, revocations) && copy_as(&unchecked, writes, iov, count, there) == UCS_OK &&
        (writes || revocations_of_peer(conn) == revocations)) {
        return UCS_OK;
    }
    status = copy_as(owner, writes, iov, count, there);
    if (status == UCS_OK) {
        note_checked(conn, owner, revocations, ticks);
    }
    return status;
}

/* UCS_ERR_REJECTED: only this memory cannot be copied; UCS_ERR_IO_ERROR: copies have failed for the connection. Nothing
 * tells these apart before the reply. */
static CW_COLD ucs_status_t why_not(const struct shm_conn *conn)
{
    uint64_t word = 0;
    struct iovec at = {.iov_base = &word, .iov_len = sizeof(word)};

    return (conn->state == SHM_CONN_DIALLED ||
            cw_peer_memory_read(&conn->peer, &at, 1, conn->peer.probe_address) == UCS_OK) ? UCS_ERR_REJECTED :
           UCS_ERR_IO_ERROR;
}

/* Copies with a validity word instead of the probe: its correct value also identifies the process. */
static ucs_status_t copy_with_validity(struct shm_conn *conn, int writes, const struct iovec *iov, unsigned count,
                                       uint64_t there, const struct cw_validity *validity)
{
    const struct cw_peer_process owner = {
        .pid = conn->peer.pid, .probe_address = validity->address, .probe = validity->value};

    return (copy(conn, &owner, writes, iov, count, there) == UCS_OK) ? UCS_OK : why_not(conn);
}

/* After a failed trial no copy is tried again. */
static ucs_status_t peer_copy(struct cw_conn *super, int writes, const struct iovec *iov, unsigned count,
                              uint64_t there, const struct cw_validity *validity)
{
    struct shm_conn *conn = shm_conn_of(super);
    ucs_status_t status;

    if (!cw_shm_peer_ready(super)) {
        return UCS_ERR_IO_ERROR;
    }
    status = (validity != NULL) ? copy_with_validity(conn, writes, iov, count, there, validity)
                                : copy(conn, &conn->peer, writes, iov, count, there);
    if (status == UCS_ERR_IO_ERROR) {
        conn->peer_state = SHM_PEER_CLOSED;
    }
    return status;
}

ucs_status_t cw_shm_peer_read(struct cw_conn *super, const struct iovec *to, unsigned count, uint64_t from,
                              const struct cw_validity *validity)
{
    return peer_copy(super, 0, to, count, from, validity);
}

ucs_status_t cw_shm_peer_write(struct cw_conn *super, const struct iovec *from, unsigned count, uint64_t to,
                               const struct cw_validity *validity)
{
    return peer_copy(super, 1, from, count, to, validity);
}

uint32_t cw_shm_peer_process(struct cw_conn *super)
{
    const int fd = shm_conn_of(super)->item.fd;

    return (fd >= 0) ? (uint32_t)cw_unix_peer_pid(fd) : 0;
}

struct cw_claim_pair *cw_shm_pair(struct cw_conn *super, int ours, unsigned index)
{
    struct shm_conn *conn = shm_conn_of(super);
    struct shm_shared *shared = conn->memory;
    const unsigned side = (conn->is_dialler == !!ours) ? 0 : 1;

    assert(index < CW_CLAIM_PAIRS);
    return &shared->pairs[side][index];
}
