/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers that keep this process waiting where microseconds are usual. The system copies from or to their memory, and
 * such a copy cannot be interrupted while a peer withholds its pages (userfaultfd, FUSE). Or a peer begins a put of its
 * own and does not end it. Each process of the machine may cause half a second of waiting, and a tenth of the time that
 * passes since. Beyond that nothing is copied any more between that process and this one, and nothing of it is waited
 * for; packets serve as well.
 *
 * Of the first copy that takes too long only its time is known, so all of that time counts. The copies after it are
 * watched: of these only the ones count in which this thread slept, because otherwise it may have lost its processor to
 * another thread. Invariant: the waiting of a process is kept apart from its connections, so a new connection gives no
 * new allowance.
 */
#include "transport/shm/shm_held.h"

#include "base/log.h"
#include "os/clock.h"
#include "os/lock.h"
#include "os/thread.h"

#define CHANCE_NS    UINT64_C(500000000)
#define SHARE        10u                  /* one part in this many of the time that passes is forgiven */
#define LONGER_NS    UINT64_C(100000)     /* a copy may take this much longer than its bytes ... */
#define BYTES_PER_NS 1u                   /* ... at this speed */
#define WATCHED      UINT8_MAX            /* copies that are watched after one that took too long */
#define PROCESSES    64u                  /* that are known; the one that was seen longest ago is replaced first */

struct process {
    uint64_t held_ns;           /* the time that it kept this process waiting, less the forgiven part ... */
    uint64_t seen_ns;           /* ... at this time; 0: the entry is free */
    uint32_t pid;               /* 0: all processes of other name spaces together */
    uint8_t distrusted;
};

static struct cw_lock lock;
static struct process processes[PROCESSES];
static uint32_t num_distrusted;     /* ever; read without the lock */

/* With the lock. NULL: the process has no entry. */
static struct process *find(uint32_t pid)
{
    unsigned i;

    for (i = 0; i < PROCESSES; i++) {
        if (processes[i].pid == pid && processes[i].seen_ns != 0) {
            return &processes[i];
        }
    }
    return NULL;
}

/* With the lock. */
static struct process *find_or_add(uint32_t pid, uint64_t now_ns)
{
    struct process *process = find(pid), *oldest = &processes[0];
    unsigned i;

    if (process != NULL) {
        return process;
    }
    for (i = 1; i < PROCESSES; i++) {
        if (processes[i].seen_ns < oldest->seen_ns) {
            oldest = &processes[i];
        }
    }
    *oldest = (struct process){.pid = pid, .seen_ns = now_ns};
    return oldest;
}

/* Counts the waiting time. Whether the process has used up its allowance. */
static int use_chance(uint32_t pid, uint64_t waited_ns)
{
    const uint64_t now_ns = cw_clock_ns();
    struct process *process;
    uint64_t forgiven;
    int distrusted, was;

    cw_lock_enter(&lock);
    process             = find_or_add(pid, now_ns);
    was                 = process->distrusted;
    forgiven            = (now_ns - process->seen_ns) / SHARE;
    process->held_ns   -= (forgiven < process->held_ns) ? forgiven : process->held_ns;
    process->held_ns   += waited_ns;
    process->seen_ns    = now_ns;
    process->distrusted = was || process->held_ns > CHANCE_NS;
    distrusted          = process->distrusted;
    __atomic_fetch_add(&num_distrusted, distrusted && !was, __ATOMIC_RELAXED);
    cw_lock_leave(&lock);
    return distrusted;
}

static int is_distrusted(uint32_t pid)
{
    const struct process *process;
    int distrusted;

    cw_lock_enter(&lock);
    process    = find(pid);
    distrusted = process != NULL && process->distrusted;
    cw_lock_leave(&lock);
    return distrusted;
}

int cw_shm_peer_excused(struct cw_conn *super, uint64_t waited_ns)
{
    struct shm_conn *conn = shm_conn_of(super);
    const uint32_t known  = __atomic_load_n(&num_distrusted, __ATOMIC_RELAXED);
    uint32_t pid;

    if (conn->distrusted || (waited_ns == 0 && conn->asked_of == known)) {
        return !conn->distrusted;
    }
    conn->asked_of   = known;
    pid              = cw_shm_peer_process(super);
    conn->distrusted = (uint8_t)((waited_ns > 0) ? use_chance(pid, waited_ns) : is_distrusted(pid));
    if (!conn->distrusted) {
        return 1;
    }
    conn->peer_state = SHM_PEER_CLOSED;
    if (waited_ns > 0) {
        cw_warn("process %u of this machine kept this one waiting for too long, now for %llu ms, while memory was "
                "copied between them; they exchange packets only from now on. It is hostile, was stopped in the middle "
                "of it, or its memory is slow to come (swap, userfaultfd, FUSE)", pid,
                (unsigned long long)(waited_ns / 1000000));
    }
    return 0;
}

void cw_shm_watch_begin(const struct shm_conn *conn, struct shm_watch *watch)
{
    watch->sleeps   = conn->watched ? cw_thread_sleeps() : 0;
    watch->begin_ns = cw_clock_ns();
}

static CW_COLD void took_too_long(struct shm_conn *conn, const struct shm_watch *watch, uint64_t took_ns)
{
    const int explained = conn->watched && cw_thread_sleeps() == watch->sleeps;

    conn->watched = WATCHED;
    if (!explained) {
        (void)cw_shm_peer_excused(&conn->super, took_ns);
    }
}

void cw_shm_watch_end(struct shm_conn *conn, const struct shm_watch *watch, size_t bytes)
{
    const uint64_t took_ns = cw_clock_ns() - watch->begin_ns;

    if (cw_unlikely(took_ns > LONGER_NS + bytes / BYTES_PER_NS)) {
        took_too_long(conn, watch, took_ns);
    } else if (conn->watched) {
        conn->watched--;
    }
}
