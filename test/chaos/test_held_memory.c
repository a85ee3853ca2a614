/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer of this machine that holds its memory back (userfaultfd) while this process copies from it or to it. Such a
 * copy takes as long as the peer likes, and nothing else comes of it: what is sent arrives, nothing is logged, and the
 * copy after it takes the same path, because swap or a busy machine delay copies of good peers, too. RMA-9, ERR-9,
 * TAG-15. Skipped where the system lets nobody hold memory back from it, or does not copy between processes.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "chaos.h"

#define HOLD_MS  900u
#define HELD_NS  (HOLD_MS * UINT64_C(1000000) / 3 * 2) /* a call that takes so long has met memory that is held back */
#define LENGTH   (200u << 10)                       /* goes by rendezvous, and a system copy */
#define ROUNDS   3u

enum { TAG = 5 };

struct cm {
    struct cw_party party;
    int other;                  /* socket to the other process */
};

static void send_bytes(const struct cm *cm, const void *data, size_t length)
{
    cw_check(write(cm->other, data, length) == (ssize_t)length);
}

static void hear(const struct cm *cm, void *data, size_t length)
{
    cw_check(recv(cm->other, data, length, MSG_WAITALL) == (ssize_t)length);
}

static void join(struct cm *cm)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    char bytes[1024] = {0};

    cw_party_open(&cm->party, UCP_FEATURE_TAG);
    (void)cw_party_address(&cm->party, bytes);
    send_bytes(cm, bytes, sizeof(bytes));
    hear(cm, bytes, sizeof(bytes));
    params.address = (const ucp_address_t *)bytes;
    cw_check(ucp_ep_create(cm->party.worker, &params, &cm->party.ep) == UCS_OK);
}

/* ---- the one that holds its memory back ---- */

static uint8_t *pages;
static int faults;              /* descriptor of userfaultfd(2) */

/* One of the kernel, not of user mode only: the other process' copies are to be held. */
static int open_faults(void)
{
    struct uffdio_api api = {.api = UFFD_API};
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

    if (fd >= 0 && ioctl(fd, UFFDIO_API, &api) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static void fill(uint64_t address, uint64_t length)
{
    static uint8_t bytes[LENGTH];
    struct uffdio_copy copy = {.dst = address, .len = length};

    memset(bytes, 0x44, sizeof(bytes));
    copy.src = (uintptr_t)bytes;
    cw_check(ioctl(faults, UFFDIO_COPY, &copy) == 0);
}

/* Lets whoever touches the first page wait, and then has all that is missing. */
static void *hold(void *argument)
{
    struct uffd_msg message;
    struct pollfd item = {.fd = faults, .events = POLLIN};

    (void)argument;
    while (poll(&item, 1, -1) == 1) {
        if (read(faults, &message, sizeof(message)) == (ssize_t)sizeof(message)) {
            cw_sleep_ms(HOLD_MS);
            fill((uintptr_t)pages, LENGTH);
        }
    }
    return NULL;
}

static void hide(void)
{
    cw_check(madvise(pages, LENGTH, MADV_DONTNEED) == 0);
}

static void prepare(void)
{
    struct uffdio_register range = {.mode = UFFDIO_REGISTER_MODE_MISSING};
    pthread_t thread;

    pages = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cw_check(pages != MAP_FAILED);
    range.range = (struct uffdio_range){.start = (uintptr_t)pages, .len = LENGTH};
    cw_check(ioctl(faults, UFFDIO_REGISTER, &range) == 0);
    cw_check(pthread_create(&thread, NULL, hold, NULL) == 0);
}

/* ---- what the two do ---- */

static ucs_status_ptr_t post(struct cm *cm, void *data, int sends)
{
    const ucp_request_param_t none = {.op_attr_mask = 0};

    return sends ? ucp_tag_send_nbx(cm->party.ep, data, LENGTH, TAG, &none)
                 : ucp_tag_recv_nbx(cm->party.worker, data, LENGTH, TAG, UINT64_MAX, &none);
}

/* The longest call of progress until the request is over. */
static uint64_t finish(struct cm *cm, ucs_status_ptr_t request)
{
    uint64_t longest = 0, begin;

    cw_check(!UCS_PTR_IS_ERR(request));
    while (UCS_PTR_IS_PTR(request) && ucp_request_check_status(request) == UCS_INPROGRESS) {
        begin = cw_now_ns();
        (void)ucp_worker_progress(cm->party.worker);
        begin = cw_now_ns() - begin;
        longest = (begin > longest) ? begin : longest;
    }
    if (UCS_PTR_IS_PTR(request)) {
        cw_check(ucp_request_check_status(request) == UCS_OK);
        ucp_request_free(request);
    }
    return longest;
}

/* As long as the other one needs. */
static void serve_until_ordered(struct cm *cm)
{
    struct pollfd item = {.fd = cm->other, .events = POLLIN};
    char byte;

    while (poll(&item, 1, 0) == 0) {
        (void)ucp_worker_progress(cm->party.worker);
    }
    hear(cm, &byte, 1);
}

/* Sends or receives in memory that is not there at first; a second connection, by a new worker, for the last round. */
static void holder(int other, int sends)
{
    struct cm cm = {.other = other};
    unsigned round;

    faults = open_faults();
    cw_check(faults >= 0);
    prepare();
    for (round = 0; round < ROUNDS; round++) {
        if (round == 0 || round == ROUNDS - 1) {
            join(&cm);
        }
        hide();
        (void)finish(&cm, post(&cm, pages, sends));
        serve_until_ordered(&cm);
        cw_check(pages[0] == (sends ? 0x44 : 0x66) && pages[LENGTH - 1] == (sends ? 0x44 : 0x66));
        if (round >= ROUNDS - 2) {
            send_bytes(&cm, "x", 1);
            cw_party_close(&cm.party);
        }
    }
}

static void body(void *argument)
{
    static uint8_t data[LENGTH];
    const int sends = *(const int *)argument;
    struct cm cm = {0};
    uint64_t longest[ROUNDS];
    int ends[2], status = 0;
    unsigned round;
    pid_t pid;
    char byte;

    faults = open_faults();
    if (faults < 0) {
        (void)fprintf(stderr, "skipped: the system lets no process hold memory back (userfaultfd)\n");
        _exit(CW_CHILD_SKIP);
    }
    (void)close(faults);
    cw_check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    pid = fork();
    cw_check(pid >= 0);
    if (pid == 0) {
        cw_check(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && close(ends[0]) == 0);
        holder(ends[1], !sends);
        _exit(0);
    }
    (void)close(ends[1]);
    cm.other = ends[0];
    cw_log_watch();
    for (round = 0; round < ROUNDS; round++) {
        if (round == 0 || round == ROUNDS - 1) {
            join(&cm);
        }
        memset(data, 0x66, sizeof(data));
        longest[round] = finish(&cm, post(&cm, data, sends));
        cw_check(data[0] == (sends ? 0x66 : 0x44) && data[LENGTH - 1] == (sends ? 0x66 : 0x44));
        send_bytes(&cm, "x", 1);
        if (round >= ROUNDS - 2) {
            hear(&cm, &byte, 1);
            cw_party_close(&cm.party);
        }
    }
    cw_check(waitpid(pid, &status, 0) == pid && status == 0);
    if (longest[0] < HELD_NS) {
        (void)fprintf(stderr, "skipped: the system does not copy between these processes\n");
        _exit(CW_CHILD_SKIP);
    }
    cw_check(longest[1] >= HELD_NS && longest[2] >= HELD_NS); /* still copied by the system */
    cw_check(cw_log_lines() == 0);
}

TEST(test_memory_that_is_read)
{
    static const int sends = 0;

    cw_child_must_pass(body, (void *)(uintptr_t)&sends, "a peer that holds back what it sends");
}

TEST(test_memory_that_is_written)
{
    static const int sends = 1;

    cw_check(setenv("UCX_RNDV_SCHEME", "put_zcopy", 1) == 0); /* the sender copies */
    cw_child_must_pass(body, (void *)(uintptr_t)&sends, "a peer that holds back where it receives");
    cw_check(unsetenv("UCX_RNDV_SCHEME") == 0);
}
