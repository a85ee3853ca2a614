/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of the peer's process and claim pairs: copies of all sizes and alignments, addresses that are none, the end of
 * the peer's connection and of its process, a system and a configuration that do not allow it. Where the system forbids
 * copies the tests that need them are skipped.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"
#include "rig.h"
#include "stream.h"

#if defined(__x86_64__)
#define THIS_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define THIS_ARCH AUDIT_ARCH_AARCH64
#endif

enum { AREA = 300000, MAX_ENTRIES = 200, PAGE = 4096 };

static uint8_t theirs[AREA], local[AREA], before[AREA];

static uint64_t address_of(const void *ptr)
{
    return (uintptr_t)ptr;
}

static int is_ready(const struct cw_end *end)
{
    return cw_subject.transport->copies->ready(end->conn);
}

static ucs_status_t copy(const struct cw_end *end, int writes, const struct iovec *iov, unsigned count, uint64_t at)
{
    const struct cw_transport *transport = cw_subject.transport;

    return writes ? transport->copies->write(end->conn, iov, count, at, NULL) :
           transport->copies->read(end->conn, iov, count, at, NULL);
}

static void need_slots(void)
{
    const struct cw_transport_copies *copies = cw_subject.transport->copies;

    cw_rig_need(copies != NULL, "copies to and from the peer's memory");
    cw_check(copies->ready != NULL && copies->read != NULL && copies->write != NULL && copies->pair != NULL,
             "a slot for the peer's memory is empty");
}

/* Two ends that can copy both ways. */
static void connect_ready(struct cw_rig *rig, struct cw_end **one, struct cw_end **other)
{
    need_slots();
    cw_rig_connect(rig, rig->a, rig->b, one, other);
    if (!is_ready(*one) || !is_ready(*other)) {
        print_message("Skipped: the system (or chance) does not let these ends copy\n");
        skip();
    }
}

/* A failed copy that chance explains. Ends the test in that case. */
static int was_chance(const struct cw_end *end, ucs_status_t status)
{
    if (status == UCS_OK || !(cw_subject.traits & CW_SUBJECT_CHANCE)) {
        cw_check(status == UCS_OK, "a copy answers %d", status);
        cw_check(is_ready(end), "after a copy that succeeded the peer's memory is not ready");
        return 0;
    }
    cw_check(status == UCS_ERR_IO_ERROR, "a copy answers %d", status);
    cw_check(!is_ready(end), "after a copy that failed the peer's memory is ready");
    return 1;
}

static void exchange_packets(struct cw_rig *rig, struct cw_end *one, struct cw_end *other)
{
    static struct cw_stream sent, seen, back, seen_back;
    static uint64_t seed = 5000;

    cw_stream_init(&sent, ++seed, one->side, 50);
    cw_stream_init(&seen, seed, one->side, 50);
    cw_stream_init(&back, ++seed, other->side, 50);
    cw_stream_init(&seen_back, seed, other->side, 50);
    one->sending = &sent;
    other->receiving = &seen;
    other->sending = &back;
    one->receiving = &seen_back;
    cw_stream_run(rig, one, other);
}

/* Cuts `length` bytes from local[at] into `count` entries of random sizes, some of them empty. */
static void cut(struct iovec *iov, unsigned count, size_t at, size_t length, uint64_t chance)
{
    unsigned i;
    size_t piece;

    for (i = 0; i < count; i++) {
        chance = cw_hash_mix(chance + i);
        if (i + 1 == count) {
            piece = length;
        } else {
            piece = (chance % 8 == 0) ? 0 : chance % (2 * length / (count - i) + 1);
        }
        piece = (piece < length) ? piece : length;
        iov[i] = (struct iovec){.iov_base = (piece > 0) ? local + at : NULL, .iov_len = piece};
        at += piece;
        length -= piece;
    }
}

/* Copies between local[ours] and theirs[at], and checks every byte of both areas. 0: chance ended it. */
static int copy_and_check(const struct cw_end *end, int writes, size_t ours, size_t at, size_t length, unsigned count,
                          uint64_t chance)
{
    struct iovec iov[MAX_ENTRIES];
    uint8_t *dest = writes ? theirs : local, *source = writes ? local : theirs;
    const size_t to = writes ? at : ours, from = writes ? ours : at;
    ucs_status_t status;

    cw_pattern_fill(source, AREA, chance);
    cw_pattern_fill(dest, AREA, chance + 1);
    memcpy(before, dest, AREA);
    cut(iov, count, ours, length, chance);
    status = copy(end, writes, iov, count, address_of(theirs + at));
    if (was_chance(end, status)) {
        return 0;
    }
    cw_check(memcmp(dest, before, to) == 0 && memcmp(dest + to + length, before + to + length, AREA - to - length) == 0,
             "a copy of %zu bytes changed memory beside them", length);
    cw_check(memcmp(dest + to, source + from, length) == 0, "a copy of %zu bytes in %u pieces is wrong", length, count);
    return 1;
}

RIG_TEST(test_copies)
{
    static const size_t lengths[] = {0, 1, 7, 8, 9, 64, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE, 65536, 131072, 200000};
    struct cw_end *one, *other;
    const unsigned rounds = cw_scaled(300);
    unsigned round, count;
    uint64_t chance = 77;
    size_t length, ours, at;

    connect_ready(rig, &one, &other);
    for (round = 0; round < rounds; round++) {
        chance = cw_hash_mix(chance + round);
        length = (round % 3 == 0) ? lengths[round / 3 % (sizeof(lengths) / sizeof(lengths[0]))] : chance % 20000;
        ours = cw_hash_mix(chance ^ 1) % (AREA - length);
        at = cw_hash_mix(chance ^ 2) % (AREA - length);
        at = (round % 5 == 0 && length < AREA - 2 * PAGE) ? PAGE - address_of(theirs) % PAGE + PAGE - 3 : at;
        count = 1 + (unsigned)(cw_hash_mix(chance ^ 3) % ((round % 7 == 0) ? MAX_ENTRIES : CW_PLACE_MAX_IOV));
        if (!copy_and_check((round & 1) ? one : other, (round & 2) != 0, ours, at, length, count, chance)) {
            return;
        }
    }
}

static const struct {
    const char *what;
    uint64_t address;
    size_t length;
} nowhere[] = {
    {"address 0", 0, 8},
    {"address 1", 1, 8},
    {"the last byte", UINT64_MAX, 1},
    {"the end of the addresses", UINT64_MAX - 8, 64},
    {"an address of the system", UINT64_C(0xffffffff80000000), 8},
    {"no address at all", UINT64_C(0x8000000000000000), 100000},
    {"an address out of a pattern", UINT64_C(0x5a5a5a5a5a5a5a5a), 4096},
};

/* The copy fails, the end never copies again, and everything else goes on. */
static void must_fail(struct cw_rig *rig, const char *what, int writes, uint64_t address, size_t length)
{
    struct iovec iov = {.iov_base = local, .iov_len = length};
    struct cw_end *one, *other;
    ucs_status_t status;

    connect_ready(rig, &one, &other);
    status = copy(one, writes, &iov, 1, address);
    cw_check(status == UCS_ERR_IO_ERROR, "%s %s answers %d", writes ? "writing to" : "reading from", what, status);
    cw_check(!is_ready(one), "%s leaves the peer's memory ready", what);
    iov.iov_len = 8;
    cw_check(copy(one, writes, &iov, 1, address_of(theirs)) == UCS_ERR_IO_ERROR && !is_ready(one),
             "a copy after one that failed is done");
    cw_check(is_ready(other) && copy(other, writes, &iov, 1, address_of(theirs)) == UCS_OK,
             "%s has stopped the copies of the other end", what);
    exchange_packets(rig, one, other);
    cw_end_close(one);
    cw_end_close(other);
}

RIG_TEST(test_bad_addresses)
{
    uint8_t *pages = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t i;

    need_slots();
    cw_rig_need(cw_subject.traits & CW_SUBJECT_PROCESSES, "copies that the system checks");
    cw_check(pages != MAP_FAILED, "no memory");
    for (i = 0; i < sizeof(nowhere) / sizeof(nowhere[0]); i++) {
        must_fail(rig, nowhere[i].what, 0, nowhere[i].address, nowhere[i].length);
        must_fail(rig, nowhere[i].what, 1, nowhere[i].address, nowhere[i].length);
    }
    /* a hole that stays one: what allocates meanwhile would fill a true one */
    (void)mmap(pages + PAGE, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    must_fail(rig, "a hole behind a page", 0, address_of(pages) + 100, PAGE);
    must_fail(rig, "a hole behind a page", 1, address_of(pages) + 100, PAGE);
    cw_check(mprotect(pages + 3 * PAGE, PAGE, PROT_NONE) == 0 && mprotect(pages + 2 * PAGE, PAGE, PROT_READ) == 0,
             "no protection");
    must_fail(rig, "a page without rights", 0, address_of(pages + 3 * PAGE), 8);
    must_fail(rig, "a page that is only read", 1, address_of(pages + 2 * PAGE), 8);
    (void)munmap(pages, 4 * PAGE);
}

RIG_TEST(test_claim_pairs)
{
    struct cw_claim_pair *ipc, *far;
    struct cw_end *one, *other, *third, *fourth;
    unsigned i, ours, round;

    need_slots();
    cw_rig_connect(rig, rig->a, rig->b, &one, &other);
    cw_rig_connect(rig, rig->b, rig->a, &third, &fourth);
    for (round = 0; round < 2; round++) {
        for (i = 0; i < 2 * CW_CLAIM_PAIRS; i++) {
            ours = i / CW_CLAIM_PAIRS;
            ipc = cw_subject.transport->copies->pair(one->conn, (int)ours, i % CW_CLAIM_PAIRS);
            far = cw_subject.transport->copies->pair(other->conn, !ours, i % CW_CLAIM_PAIRS);
            cw_check(ipc != NULL && far != NULL && address_of(ipc) % 64 == 0, "pair %u is not there", i);
            cw_check(__atomic_load_n(&ipc->claim, __ATOMIC_ACQUIRE) == 1000 * i * round &&
                         __atomic_load_n(&far->done, __ATOMIC_ACQUIRE) == 2000 * i * round,
                     "pair %u was not 0 at first, or another pair's words were written to it", i);
            __atomic_store_n(&ipc->claim, 1000 * i, __ATOMIC_RELEASE);
            __atomic_store_n(&far->done, 2000 * i, __ATOMIC_RELEASE);
            cw_check(__atomic_load_n(&far->claim, __ATOMIC_ACQUIRE) == 1000 * i &&
                         __atomic_load_n(&ipc->done, __ATOMIC_ACQUIRE) == 2000 * i,
                     "pair %u is not shared", i);
            cw_check(cw_subject.transport->copies->pair(third->conn, (int)ours, i % CW_CLAIM_PAIRS)->claim == 0 &&
                         cw_subject.transport->copies->pair(fourth->conn, (int)ours, i % CW_CLAIM_PAIRS)->claim ==
                             0,
                     "two connections share a pair");
        }
    }
    exchange_packets(rig, one, other); /* claim pairs do not lie in the way of anything */
    exchange_packets(rig, fourth, third);
    cw_end_close(one);
    ipc = cw_subject.transport->copies->pair(other->conn, 1, 0);
    cw_check(__atomic_add_fetch(&ipc->claim, 1, __ATOMIC_ACQ_REL) > 0, "a pair ends with the peer's connection");
}

/* A peer that closed its connection may use its memory for something else: no copy from the moment of the close on. */
RIG_TEST(test_peer_closes)
{
    struct iovec iov = {.iov_base = local, .iov_len = 8};
    struct cw_end *one, *other;
    int round, writes;

    for (round = 0; round < 4; round++) {
        writes = round % 2;
        connect_ready(rig, &one, &other);
        if (round >= 2 && was_chance(one, copy(one, writes, &iov, 1, address_of(theirs)))) {
            return;
        }
        cw_end_close(other);
        cw_check(copy(one, writes, &iov, 1, address_of(theirs)) != UCS_OK, "a copy after the peer's close is done");
        cw_check(!is_ready(one), "the memory of a peer that closed the connection is ready");
        cw_rig_wait(rig, &one->closed, 1, "`closed`");
        cw_check(!is_ready(one), "after `closed` the peer's memory is ready");
    }
}

/* Before the answer, with the validity word of what is copied. */
RIG_TEST(test_unanswered)
{
    const struct cw_transport_copies *copies = cw_subject.transport->copies;
    const struct cw_bytes hello = cw_bytes_unique(16);
    const uint64_t word = 4711;
    const struct cw_validity right = {.address = address_of(&word), .value = word};
    const struct cw_validity wrong = {.address = address_of(&word), .value = word + 1};
    struct iovec iov = {.iov_base = local, .iov_len = AREA};
    struct cw_end *end;
    ucs_status_t status;

    need_slots();
    end = cw_end_dial(rig->a, rig->b, &hello);
    if (!is_ready(end)) {
        print_message("Skipped: no copies before the answer\n");
        skip();
    }
    cw_pattern_fill(theirs, AREA, 21);
    cw_pattern_fill(local, AREA, 22);
    memcpy(before, local, AREA);
    cw_check(copies->write(end->conn, &iov, 1, address_of(theirs), &wrong) == UCS_ERR_REJECTED &&
                 memcmp(theirs, before, AREA) != 0 && is_ready(end), "a wrong validity word is not rejected");
    status = copies->write(end->conn, &iov, 1, address_of(theirs), &right);
    if (was_chance(end, status)) {
        return;
    }
    cw_check(memcmp(theirs, before, AREA) == 0, "what was written before the answer is wrong");
    memset(local, 0, AREA);
    status = copies->read(end->conn, &iov, 1, address_of(theirs), &right);
    if (was_chance(end, status)) {
        return;
    }
    cw_check(memcmp(local, before, AREA) == 0, "what was read before the answer is wrong");
    cw_check(copies->read(end->conn, &iov, 1, address_of(theirs), &wrong) == UCS_ERR_REJECTED && is_ready(end),
             "a wrong validity word is not rejected");
    cw_rig_wait(rig, &end->opened, 1, "`opened`");
    cw_check(is_ready(end) && copies->read(end->conn, &iov, 1, address_of(theirs), NULL) == UCS_OK,
             "after a rejected copy before the answer the memory is not ready");
}

/* Both sides are in this process, so it clears the word for the peer. */
RIG_TEST(test_revoked)
{
    const struct cw_transport_copies *copies = cw_subject.transport->copies;
    uint64_t words[16] = {0}, word = 4711;
    struct cw_validity validity[16];
    struct iovec iov = {.iov_base = local, .iov_len = 8};
    struct cw_end *one, *other;
    ucs_status_t status;
    unsigned i, round;

    connect_ready(rig, &one, &other);
    status = copies->write(one->conn, &iov, 1, address_of(theirs),
                           &(struct cw_validity){.address = address_of(&word), .value = word});
    cw_rig_need(status != UCS_ERR_REJECTED, "copies with a validity word");
    if (was_chance(one, status)) {
        return;
    }
    for (round = 0; round < 200; round++) {
        for (i = 0; i < 16; i++) {
            words[i] = ++word;
            validity[i] = (struct cw_validity){.address = address_of(&words[i]), .value = word};
        }
        for (i = 0; i < 64; i++) {
            status = (i % 3 == 0) ? copies->read(one->conn, &iov, 1, address_of(theirs), &validity[i % 16]) :
                     copies->write(one->conn, &iov, 1, address_of(theirs), &validity[i % 16]);
            if (was_chance(one, status)) {
                return;
            }
        }
        memset(words, 0, sizeof(words));
        if (copies->revoked != NULL) {
            copies->revoked();
        }
        memset(local, (int)round, 8);
        memset(theirs, (int)round + 1, 8);
        memcpy(before, theirs, 8);
        for (i = 0; i < 32; i++) {
            status = (i % 2 == 0) ? copies->read(one->conn, &iov, 1, address_of(theirs), &validity[i % 16]) :
                     copies->write(one->conn, &iov, 1, address_of(theirs), &validity[i % 16]);
            cw_check(status == UCS_ERR_REJECTED, "a copy with a word that was cleared answers %d", status);
        }
        cw_check(memcmp(theirs, before, 8) == 0, "a copy with a word that was cleared is done");
    }
    exchange_packets(rig, one, other);
}

/* Copies by `right` to and from the other end, which are remembered, then without it: the owner has cleared `word`. */
static void clear_and_reject(const struct cw_end *one, uint64_t *word, const struct cw_validity *right)
{
    const struct cw_transport_copies *copies = cw_subject.transport->copies;
    struct iovec iov = {.iov_base = local, .iov_len = 8};
    int i;

    for (i = 0; i < 4; i++) {
        if (was_chance(one, copies->write(one->conn, &iov, 1, address_of(theirs), right))) {
            return;
        }
    }
    *word = 0;
    if (copies->revoked != NULL) {
        copies->revoked();
    }
    cw_check(copies->write(one->conn, &iov, 1, address_of(theirs), right) != UCS_OK,
             "a write with a word that was cleared is done");
    cw_check(copies->read(one->conn, &iov, 1, address_of(theirs), right) != UCS_OK,
             "a read with a word that was cleared is done");
}

/* Memory stays registered when a connection is closed, and peers that have not noticed copy on. */
RIG_TEST(test_revoked_after_close)
{
    const struct cw_transport_copies *copies = cw_subject.transport->copies;
    uint64_t word = 4711;
    const struct cw_validity right = {.address = address_of(&word), .value = word};
    struct iovec iov = {.iov_base = local, .iov_len = 8};
    struct cw_end *one, *other;
    int round;

    for (round = 0; round < 20; round++) {
        connect_ready(rig, &one, &other);
        word = right.value;
        cw_rig_need(copies->write(one->conn, &iov, 1, address_of(theirs), &right) == UCS_OK,
                    "copies with a validity word");
        cw_end_close(other);
        if (copies->write(one->conn, &iov, 1, address_of(theirs), &right) == UCS_OK) {
            clear_and_reject(one, &word, &right);
        }
        cw_rig_wait(rig, &one->closed, 1, "`closed`");
        cw_end_close(one);
    }
}

/* A child that was forked uses the transport for itself. */
RIG_TEST(test_revoked_after_fork)
{
    const struct cw_transport_copies *copies = cw_subject.transport->copies;
    uint64_t word = 4711;
    const struct cw_validity right = {.address = address_of(&word), .value = word};
    struct iovec iov = {.iov_base = local, .iov_len = 8};
    struct cw_end *one, *other;
    int status;
    pid_t pid;

    connect_ready(rig, &one, &other);
    cw_rig_need(copies->revoked != NULL, "words that are not read with each copy");
    cw_rig_need(copies->write(one->conn, &iov, 1, address_of(theirs), &right) == UCS_OK,
                "copies with a validity word");
    pid = fork();
    if (pid == 0) {
        copies->revoked();
        _exit(0);
    }
    cw_check(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "no child");
    clear_and_reject(one, &word, &right);
    exchange_packets(rig, one, other);
}

/* ---- another process ---- */

/* Closes the sides of the rig; what comes next opens them where it needs them. */
static void close_sides(struct cw_rig *rig)
{
    cw_side_close(rig->a);
    cw_side_close(rig->b);
}

static void put(int fd, const void *data, size_t length)
{
    cw_check(write(fd, data, length) == (ssize_t)length, "the socket between the processes is broken");
}

static void get(int fd, void *data, size_t length)
{
    cw_check(recv(fd, data, length, MSG_WAITALL) == (ssize_t)length, "the other process ended");
}

/* Sends its address and that of its memory, then progresses; on a word answers what its memory begins with. */
static void run_child(struct cw_rig *rig, int fd)
{
    uint64_t address = address_of(theirs);
    ssize_t got;
    char byte;

    cw_check_in_child();
    cw_side_open(rig->a);
    cw_pattern_fill(theirs, AREA, 1234);
    put(fd, &rig->a->address_length, sizeof(rig->a->address_length));
    put(fd, rig->a->address, rig->a->address_length);
    put(fd, &address, sizeof(address));
    while ((got = recv(fd, &byte, 1, MSG_DONTWAIT)) != 0) {
        cw_side_progress(rig->a);
        if (got == 1) {
            put(fd, theirs + 5, 100);
        }
    }
    cw_side_close(rig->a);
    _exit(0);
}

struct child {
    pid_t pid;
    int fd;
    uint64_t memory;
    struct cw_end *end;
};

static struct child start(struct cw_rig *rig)
{
    struct cw_bytes hello = cw_bytes_unique(16);
    struct cw_side remote;
    struct child child;
    int fds[2];

    close_sides(rig);
    rig->b = rig->a;
    cw_check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0, "no socket pair");
    child.pid = fork();
    cw_check(child.pid >= 0, "fork failed");
    if (child.pid == 0) {
        close(fds[0]);
        run_child(rig, fds[1]);
    }
    close(fds[1]);
    child.fd = fds[0];
    cw_side_open(rig->a);
    get(child.fd, &remote.address_length, sizeof(remote.address_length));
    get(child.fd, remote.address, remote.address_length);
    get(child.fd, &child.memory, sizeof(child.memory));
    child.end = cw_end_dial(rig->a, &remote, &hello);
    cw_rig_wait(rig, &child.end->opened, 1, "`opened` from another process");
    cw_check(child.end->opened_status == UCS_OK, "the connection opens with status %d", child.end->opened_status);
    return child;
}

static void need_processes(void)
{
    need_slots();
    cw_rig_need(cw_subject.traits & CW_SUBJECT_PROCESSES, "a path to other processes");
}

RIG_TEST(test_other_process)
{
    struct iovec iov[] = {{local + 3, 60}, {local + 90000, 40}};
    struct child child;
    int status, ready;
    uint8_t answer[100];

    need_processes();
    child = start(rig);
    ready = is_ready(child.end);
    if (ready) {
        cw_pattern_fill(before, AREA, 1234);
        cw_check(copy(child.end, 0, iov, 2, child.memory + 7) == UCS_OK, "reading from another process fails");
        cw_check(memcmp(local + 3, before + 7, 60) == 0 && memcmp(local + 90000, before + 67, 40) == 0,
                 "what was read from another process is wrong");
        cw_pattern_fill(local, AREA, 99);
        cw_check(copy(child.end, 1, iov, 2, child.memory + 5) == UCS_OK, "writing to another process fails");
        put(child.fd, "?", 1);
        get(child.fd, answer, sizeof(answer));
        cw_check(memcmp(answer, local + 3, 60) == 0 && memcmp(answer + 60, local + 90000, 40) == 0,
                 "what was written to another process is wrong");
    }
    close(child.fd);
    cw_check(waitpid(child.pid, &status, 0) == child.pid && status == 0, "the other process ended with %x", status);
    if (!ready) {
        print_message("Skipped: the system does not let two processes copy\n");
        skip();
    }
}

/* `reaped`: its process id may belong to somebody else by then. */
static void copy_after_death(struct cw_rig *rig, int writes, int reaped)
{
    struct iovec iov = {.iov_base = local, .iov_len = 1000};
    struct child child = start(rig);
    siginfo_t info;
    int ready = is_ready(child.end);

    kill(child.pid, SIGKILL);
    cw_check(waitid(P_PID, (id_t)child.pid, &info, WEXITED | (reaped ? 0 : WNOWAIT)) == 0, "waitid failed");
    cw_check(copy(child.end, writes, &iov, 1, child.memory) == UCS_ERR_IO_ERROR, "a copy with a dead process is done");
    cw_check(!is_ready(child.end), "the memory of a dead process is ready");
    cw_rig_wait(rig, &child.end->closed, 1, "`closed` after the other process is gone");
    cw_check(copy(child.end, writes, &iov, 1, child.memory) != UCS_OK && !is_ready(child.end),
             "a copy with a dead process is done");
    if (!reaped) {
        (void)waitid(P_PID, (id_t)child.pid, &info, WEXITED);
    }
    close(child.fd);
    if (!ready) {
        print_message("Skipped: the system does not let two processes copy\n");
        skip();
    }
}

RIG_TEST(test_peer_killed)
{
    int i;

    need_processes();
    for (i = 0; i < 4; i++) {
        copy_after_death(rig, i & 1, i >> 1);
    }
}

/* ---- not allowed ---- */

/* Neither end copies; all the rest works. */
static void must_do_without(struct cw_rig *rig)
{
    struct iovec iov = {.iov_base = local, .iov_len = 8};
    struct cw_end *one, *other;

    cw_rig_connect(rig, rig->a, rig->b, &one, &other);
    cw_check(!is_ready(one) && !is_ready(other), "copies are ready although they are not allowed");
    cw_check(copy(one, 0, &iov, 1, address_of(theirs)) == UCS_ERR_IO_ERROR &&
             copy(other, 1, &iov, 1, address_of(theirs)) == UCS_ERR_IO_ERROR, "a copy is done that is not allowed");
    cw_check(cw_subject.transport->copies->pair(one->conn, 1, 3) != NULL, "there are no pairs");
    exchange_packets(rig, one, other);
    cw_end_close(one);
    cw_end_close(other);
}

/* One side's configuration is enough, whichever dials, and before the answer. */
RIG_TEST(test_switched_off)
{
    struct cw_bytes hello;
    unsigned off;

    need_processes();
    for (off = 1; off < 4; off++) {
        close_sides(rig);
        cw_rig_allow_peer_memory(!(off & 1));
        cw_side_open(rig->a);
        cw_rig_allow_peer_memory(!(off & 2));
        cw_side_open(rig->b);
        cw_rig_allow_peer_memory(1);
        hello = cw_bytes_unique(16);
        cw_check(!is_ready(cw_end_dial(rig->a, rig->b, &hello)), "copies that are not allowed are ready unanswered");
        must_do_without(rig);
    }
}

/* From now on the call answers this error in this process; 0: the machine lacks filters. */
static int refuse(long call, int error)
{
#ifdef THIS_ARCH
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCH, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
#else
    (void)call;
    (void)error;
    return 0;
#endif
}

RIG_TEST(test_refused_by_the_system)
{
    static const struct {
        long call;
        int error;
    } refusals[] = {{SYS_process_vm_readv, EPERM}, {SYS_process_vm_readv, ENOSYS}, {SYS_process_vm_writev, EPERM}};
    int status = 0;
    size_t i;
    pid_t pid;

    need_processes();
    for (i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        close_sides(rig);
        pid = fork();
        cw_check(pid >= 0, "fork failed");
        if (pid == 0) {
            cw_check_in_child();
            if (!refuse(refusals[i].call, refusals[i].error)) {
                _exit(77);
            }
            cw_side_open(rig->a);
            cw_side_open(rig->b);
            must_do_without(rig);
            close_sides(rig);
            _exit(0);
        }
        cw_check(waitpid(pid, &status, 0) == pid && WIFEXITED(status), "the process ended with %x", status);
        if (WEXITSTATUS(status) == 77) {
            print_message("Skipped: the system has no filters for its calls\n");
            skip();
        }
        cw_check(WEXITSTATUS(status) == 0, "the process ended with %d", WEXITSTATUS(status));
    }
}
