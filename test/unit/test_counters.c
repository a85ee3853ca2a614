/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The layout that tools read (core/counters.h), the memory in which workers show it, and what stands there after
 * messages: docs/reference/observing.md.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runner.h"
#include "core/ep.h"
#include "core/queues.h"
#include "core/worker.h"

#define MESSAGES 100

struct pair {
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h ep;
};

static void open_worker(struct pair *pair)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP};
    const ucp_worker_params_t worker = {.field_mask = UCP_WORKER_PARAM_FIELD_NAME, .name = "counted"};

    assert_int_equal(ucp_init(&params, NULL, &pair->context), UCS_OK);
    assert_int_equal(ucp_worker_create(pair->context, &worker, &pair->worker), UCS_OK);
}

static void open_pair(struct pair *pair)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_address_t *address;
    size_t length;

    open_worker(pair);
    assert_int_equal(ucp_worker_get_address(pair->worker, &address, &length), UCS_OK);
    params.address = address;
    assert_int_equal(ucp_ep_create(pair->worker, &params, &pair->ep), UCS_OK);
    ucp_worker_release_address(pair->worker, address);
}

static void close_pair(struct pair *pair)
{
    ucp_worker_destroy(pair->worker);
    ucp_cleanup(pair->context);
}

static void wait_for(struct pair *pair, ucs_status_ptr_t request)
{
    assert_false(UCS_PTR_IS_ERR(request));
    if (request != NULL) {
        while (ucp_request_check_status(request) == UCS_INPROGRESS) {
            ucp_worker_progress(pair->worker);
        }
        ucp_request_free(request);
    }
}

/* How many descriptors of this process are links to this memory; *fd_p is one of them. */
static unsigned named(const char *link, int *fd_p)
{
    DIR *directory = opendir("/proc/self/fd");
    const struct dirent *entry;
    unsigned count = 0;
    char text[64];
    ssize_t length;

    assert_non_null(directory);
    while ((entry = readdir(directory)) != NULL) {
        length = readlinkat(dirfd(directory), entry->d_name, text, sizeof(text) - 1);
        text[(length > 0) ? length : 0] = '\0';
        if (strcmp(text, link) == 0) {
            *fd_p = atoi(entry->d_name);
            count++;
        }
    }
    closedir(directory);
    return count;
}

static unsigned shown(int *fd_p)
{
    return named("/memfd:" CW_COUNTERS_NAME " (deleted)", fd_p);
}

static unsigned answered(int *fd_p)
{
    return named("/memfd:" CW_QUEUES_NAME " (deleted)", fd_p);
}

static void read_page(int fd, struct cw_counters_page *page)
{
    assert_int_equal(pread(fd, page, sizeof(*page), 0), sizeof(*page));
    assert_true(page->magic == CW_COUNTERS_MAGIC);
}

/* What is written down: tools of other versions rely on it. */
TEST(layout_is_as_written)
{
    assert_int_equal(offsetof(struct cw_counters_page, magic), 0);
    assert_int_equal(offsetof(struct cw_counters_page, version), 8);
    assert_int_equal(offsetof(struct cw_counters_page, sequence), 16);
    assert_int_equal(offsetof(struct cw_counters_page, pid), 24);
    assert_int_equal(offsetof(struct cw_counters_page, uid), 32);
    assert_int_equal(offsetof(struct cw_counters_page, started_ns), 40);
    assert_int_equal(offsetof(struct cw_counters_page, num_transports), 48);
    assert_int_equal(offsetof(struct cw_counters_page, num_values), 56);
    assert_int_equal(offsetof(struct cw_counters_page, trace_offset), 64);
    assert_int_equal(offsetof(struct cw_counters_page, trace_length), 72);
    assert_int_equal(offsetof(struct cw_counters_page, name), 128);
    assert_int_equal(offsetof(struct cw_counters_page, transports), 160);
    assert_int_equal(offsetof(struct cw_counters_page, values), 416);
    /* the places of some: new ones go to the end */
    assert_int_equal(CW_COUNT_TAG_SENT, 0);
    assert_int_equal(CW_COUNT_AMO_RECEIVED_BYTES, 23);
    assert_int_equal(CW_COUNT_BAD_PACKETS, 42);
    assert_int_equal(CW_COUNT_RECEIVES_DRY, 43);
}

TEST(bytes_follow_their_messages)
{
    assert_int_equal(CW_COUNT_TAG_SENT + CW_COUNT_BYTES, CW_COUNT_TAG_SENT_BYTES);
    assert_int_equal(CW_COUNT_TAG_RECEIVED + CW_COUNT_BYTES, CW_COUNT_TAG_RECEIVED_BYTES);
    assert_int_equal(CW_COUNT_AM_SENT + CW_COUNT_BYTES, CW_COUNT_AM_SENT_BYTES);
    assert_int_equal(CW_COUNT_STREAM_RECEIVED + CW_COUNT_BYTES, CW_COUNT_STREAM_RECEIVED_BYTES);
    assert_int_equal(CW_COUNT_PUT_SENT + CW_COUNT_BYTES, CW_COUNT_PUT_SENT_BYTES);
    assert_int_equal(CW_COUNT_GET_RECEIVED + CW_COUNT_BYTES, CW_COUNT_GET_RECEIVED_BYTES);
    assert_int_equal(CW_COUNT_AMO_SENT + CW_COUNT_BYTES, CW_COUNT_AMO_SENT_BYTES);
}

TEST(head_names_the_worker)
{
    struct cw_counters_page page;
    struct pair pair;
    int fd = -1;

    open_worker(&pair);
    assert_int_equal(shown(&fd), 1);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    read_page(fd, &page);
    assert_int_equal(page.version, CW_COUNTERS_VERSION);
    assert_int_equal(page.num_values, CW_COUNT_LAST);
    assert_int_equal(page.pid, getpid());
    assert_true(page.uid == pair.worker->uid);
    assert_string_equal(page.name, "counted");
    assert_int_equal(page.num_transports, pair.worker->num_ifaces);
    assert_string_equal(page.transports[0].name, pair.worker->ifaces[0]->transport->name);
    assert_int_equal(page.sequence % 2, 0);
    close_pair(&pair);
    assert_int_equal(shown(&fd), 0);
}

/* Nobody but the worker writes, not even through the descriptor itself, and nobody changes the size. */
TEST(memory_is_sealed)
{
    struct pair pair;
    char path[64];
    int fd = -1, other;

    open_worker(&pair);
    assert_int_equal(shown(&fd), 1);
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    assert_int_equal(pwrite(fd, path, 1, 0), -1);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    other = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(other >= 0);
    close(other);
    close_pair(&pair);
}

static void exchange(struct pair *pair, size_t length)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    char *from = calloc(1, length), *to = malloc(length);
    ucs_status_ptr_t receive, send;
    unsigned i;

    assert_non_null(from);
    assert_non_null(to);
    for (i = 0; i < MESSAGES; i++) {
        if (i % 2 == 0) { /* the receive is there, so the message is copied at once */
            receive = ucp_tag_recv_nbx(pair->worker, to, length, 1, UINT64_MAX, &param);
            send = ucp_tag_send_nbx(pair->ep, from, length, 1, &param);
        } else {
            send = ucp_tag_send_nbx(pair->ep, from, length, 1, &param);
            receive = ucp_tag_recv_nbx(pair->worker, to, length, 1, UINT64_MAX, &param);
        }
        wait_for(pair, send);
        wait_for(pair, receive);
    }
    free(from);
    free(to);
}

/* Each message is counted once, whatever path it takes: short, one packet, in pieces, by rendezvous. */
TEST(messages_are_counted)
{
    static const size_t lengths[] = {1, 8, 5000, 100000, 3000000};
    struct cw_counters_page page;
    uint64_t messages = 0, bytes = 0;
    struct pair pair;
    int fd = -1;
    size_t i;

    open_pair(&pair);
    assert_int_equal(shown(&fd), 1);
    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        exchange(&pair, lengths[i]);
        messages += MESSAGES;
        bytes += MESSAGES * lengths[i];
        cw_counters_publish(pair.worker);
        read_page(fd, &page);
        assert_int_equal(page.values[CW_COUNT_TAG_SENT], messages);
        assert_int_equal(page.values[CW_COUNT_TAG_SENT_BYTES], bytes);
        assert_int_equal(page.values[CW_COUNT_TAG_RECEIVED], messages);
        assert_int_equal(page.values[CW_COUNT_TAG_RECEIVED_BYTES], bytes);
        assert_int_equal(page.values[CW_COUNT_WAITING], 0);
        assert_int_equal(page.values[CW_COUNT_REQUESTS], 0);
    }
    assert_true(page.values[CW_COUNT_RNDV_SENT] > 0);
    assert_int_equal(page.values[CW_COUNT_RNDV_SENT], page.values[CW_COUNT_RNDV_RECEIVED]);
    assert_int_equal(page.values[CW_COUNT_EPS], 1);
    assert_int_equal(page.values[CW_COUNT_DIALS], 1);
    assert_int_equal(page.values[CW_COUNT_EPS_FAILED], 0);
    close_pair(&pair);
}

TEST(queues_are_shown)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    struct cw_counters_page page;
    ucs_status_ptr_t receive;
    struct pair pair;
    char bytes[64] = "";
    int fd = -1;

    open_pair(&pair);
    assert_int_equal(shown(&fd), 1);
    receive = ucp_tag_recv_nbx(pair.worker, bytes, sizeof(bytes), 7, UINT64_MAX, &param);
    wait_for(&pair, ucp_tag_send_nbx(pair.ep, bytes, 24, 8, &param));
    wait_for(&pair, ucp_tag_send_nbx(pair.ep, bytes, 16, 8, &param));
    while (ucp_worker_progress(pair.worker) != 0 || pair.worker->counts.values[CW_COUNT_UNEXPECTED_BYTES] < 40) {
    }
    while (ucp_worker_arm(pair.worker) == UCS_ERR_BUSY) {
        ucp_worker_progress(pair.worker);
    }
    read_page(fd, &page); /* arming has written it */
    assert_int_equal(page.values[CW_COUNT_POSTED], 1);
    assert_int_equal(page.values[CW_COUNT_UNEXPECTED], 2);
    assert_int_equal(page.values[CW_COUNT_UNEXPECTED_BYTES], 40);
    assert_int_equal(page.values[CW_COUNT_REQUESTS], 1);
    assert_int_equal(page.values[CW_COUNT_ARMS], 1);
    wait_for(&pair, ucp_tag_recv_nbx(pair.worker, bytes, sizeof(bytes), 8, UINT64_MAX, &param));
    cw_counters_publish(pair.worker);
    read_page(fd, &page);
    assert_int_equal(page.values[CW_COUNT_UNEXPECTED], 1);
    assert_int_equal(page.values[CW_COUNT_UNEXPECTED_BYTES], 16);
    ucp_request_cancel(pair.worker, receive);
    ucp_request_free(receive);
    wait_for(&pair, ucp_tag_recv_nbx(pair.worker, bytes, sizeof(bytes), 8, UINT64_MAX, &param));
    close_pair(&pair);
}

/* Asks as another process does: by a lock on the page, opened anew for reading. */
static int ask(void)
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    char path[64];
    int fd = -1;

    assert_int_equal(shown(&fd), 1);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
    return fd;
}

static void read_queues(struct pair *pair, struct cw_queues *queues, struct cw_queues_item *items, size_t count)
{
    int fd = -1;

    while (answered(&fd) == 0) {
        ucp_worker_progress(pair->worker);
    }
    assert_int_equal(answered(&fd), 1);
    assert_int_equal(pread(fd, queues, sizeof(*queues), 0), sizeof(*queues));
    assert_int_equal(pread(fd, items, count * sizeof(*items), sizeof(*queues)), count * sizeof(*items));
    assert_true(queues->magic == CW_QUEUES_MAGIC);
    assert_int_equal(queues->version, CW_QUEUES_VERSION);
    assert_int_equal(queues->pid, getpid());
    assert_true(queues->uid == pair->worker->uid);
    assert_int_equal(pwrite(fd, queues, 1, 0), -1);
    assert_int_equal(ftruncate(fd, 0), -1);
}

/* Receives and messages are listed for a process that asks, as long as it does. */
TEST(queues_are_listed_for_who_asks)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    const ucp_request_param_t waits = {.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL};
    const uint32_t lacks = CW_QUEUES_SYNC | CW_QUEUES_PARTIAL;
    static char bytes[200000];
    struct cw_queues_item items[6];
    struct cw_queues queues;
    ucs_status_ptr_t requests[6];
    struct pair pair;
    int fd = -1, lock;
    unsigned i;

    open_pair(&pair);
    requests[0] = ucp_tag_recv_nbx(pair.worker, bytes, 100, 0x1234, 0xff, &param);
    requests[1] = ucp_tag_recv_nbx(pair.worker, bytes, 200, 7, UINT64_MAX, &waits);
    wait_for(&pair, ucp_tag_send_nbx(pair.ep, bytes, 24, 8, &param));
    requests[2] = ucp_tag_send_sync_nbx(pair.ep, bytes, 16, 9, &param);
    requests[3] = ucp_tag_send_nbx(pair.ep, bytes, sizeof(bytes), 10, &waits);
    while (pair.worker->counts.values[CW_COUNT_UNEXPECTED_BYTES] < 40 + sizeof(bytes)) {
        ucp_worker_progress(pair.worker);
    }
    assert_int_equal(answered(&fd), 0);
    lock = ask();
    read_queues(&pair, &queues, items, 5);
    assert_int_equal(queues.num_posted, 2);
    assert_int_equal(queues.num_unexpected, 3);
    assert_int_equal(queues.listed_posted, 2);
    assert_int_equal(queues.listed_unexpected, 3);
    assert_int_equal(items[0].tag, 0x34);
    assert_int_equal(items[0].mask, 0xff);
    assert_int_equal(items[0].length, 100);
    assert_int_equal(items[0].peer, 0);
    assert_int_equal(items[1].tag, 7);
    assert_true(items[1].mask == UINT64_MAX);
    assert_int_equal(items[1].length, 200);
    for (i = 2; i < 5; i++) {
        assert_int_equal(items[i].tag, 6 + i);
        assert_true(items[i].peer == pair.worker->uid);
        assert_int_equal(items[i].endpoint, pair.ep->number);
    }
    assert_int_equal(items[2].length, 24);
    assert_int_equal(items[2].flags, 0);
    assert_int_equal(items[3].length, 16);
    assert_int_equal(items[3].flags, CW_QUEUES_SYNC);
    assert_int_equal(items[4].length, sizeof(bytes));
    assert_true(items[4].flags == CW_QUEUES_ANNOUNCED || (items[4].flags & ~lacks) == 0);
    for (i = 0; i < 5; i++) {
        assert_in_range(items[i].age_ns, 0, UINT64_C(3600) * 1000000000);
    }
    close(lock);
    while (answered(&fd) != 0) {
        ucp_worker_progress(pair.worker);
    }
    for (i = 8; i < 11; i++) {
        wait_for(&pair, ucp_tag_recv_nbx(pair.worker, bytes, sizeof(bytes), i, UINT64_MAX, &param));
    }
    wait_for(&pair, requests[2]);
    wait_for(&pair, requests[3]);
    for (i = 0; i < 2; i++) {
        ucp_request_cancel(pair.worker, requests[i]);
        ucp_request_free(requests[i]);
    }
    lock = ask();
    read_queues(&pair, &queues, items, 0);
    assert_int_equal(queues.num_posted + queues.num_unexpected + queues.listed_posted + queues.listed_unexpected, 0);
    close_pair(&pair); /* takes the answer along, though the lock is there */
    assert_int_equal(answered(&fd), 0);
    close(lock);
}

/* Of long queues the oldest elements are listed, and the age of the oldest is the longest. */
TEST(oldest_of_long_queues_are_listed)
{
    enum { MANY = 3 * CW_QUEUES_MOST };
    const ucp_request_param_t param = {.op_attr_mask = 0};
    static struct cw_queues_item items[2 * CW_QUEUES_MOST];
    static ucs_status_ptr_t receives[MANY];
    struct cw_queues queues;
    struct pair pair;
    char byte = 0;
    unsigned i;
    int lock;

    open_pair(&pair);
    for (i = 0; i < MANY; i++) {
        receives[i] = ucp_tag_recv_nbx(pair.worker, &byte, 1, 2 * i + 1, UINT64_MAX, &param);
        wait_for(&pair, ucp_tag_send_nbx(pair.ep, &byte, 1, 2 * i, &param));
    }
    while (pair.worker->counts.values[CW_COUNT_UNEXPECTED_BYTES] < MANY) {
        ucp_worker_progress(pair.worker);
    }
    lock = ask();
    read_queues(&pair, &queues, items, sizeof(items) / sizeof(items[0]));
    assert_int_equal(queues.num_posted, MANY);
    assert_int_equal(queues.num_unexpected, MANY);
    assert_int_equal(queues.listed_posted, CW_QUEUES_MOST);
    assert_int_equal(queues.listed_unexpected, CW_QUEUES_MOST);
    for (i = 0; i < CW_QUEUES_MOST; i++) {
        assert_int_equal(items[i].tag, 2 * i + 1);
        assert_int_equal(items[CW_QUEUES_MOST + i].tag, 2 * i);
        assert_true(i == 0 || items[i].age_ns <= items[i - 1].age_ns);
    }
    close(lock);
    for (i = 0; i < MANY; i++) {
        wait_for(&pair, ucp_tag_recv_nbx(pair.worker, &byte, 1, 2 * i, UINT64_MAX, &param));
        ucp_request_cancel(pair.worker, receives[i]);
        ucp_request_free(receives[i]);
    }
    close_pair(&pair);
}

/* What waits for the connection is counted until it is through, or taken back. */
TEST(waiting_operations_are_shown)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    ucs_status_ptr_t first, second;
    char byte = 0;
    struct pair pair;

    open_pair(&pair);
    first = ucp_tag_send_nbx(pair.ep, &byte, 1, 1, &param);
    second = ucp_tag_send_nbx(pair.ep, &byte, 1, 1, &param);
    assert_true(UCS_PTR_IS_PTR(first));
    assert_true(UCS_PTR_IS_PTR(second));
    assert_int_equal(pair.worker->counts.values[CW_COUNT_WAITING], 2);
    ucp_request_cancel(pair.worker, second);
    assert_int_equal(pair.worker->counts.values[CW_COUNT_WAITING], 1);
    ucp_request_free(second);
    wait_for(&pair, first);
    assert_int_equal(pair.worker->counts.values[CW_COUNT_WAITING], 0);
    assert_int_equal(pair.worker->counts.values[CW_COUNT_WAITED], 2);
    wait_for(&pair, ucp_tag_recv_nbx(pair.worker, &byte, 1, 1, UINT64_MAX, &param));
    close_pair(&pair);
}

TEST(connections_are_shown)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    struct cw_counters_page page;
    uint64_t open = 0, opened = 0;
    struct pair pair;
    int fd = -1;
    unsigned i;

    open_pair(&pair);
    exchange(&pair, 8);
    for (i = 0; i < pair.worker->num_ifaces; i++) {
        open += pair.worker->counts.transports[i].open;
        opened += pair.worker->counts.transports[i].opened;
    }
    assert_int_equal(open, 1);
    assert_int_equal(opened, 1);
    wait_for(&pair, ucp_ep_close_nbx(pair.ep, &param));
    while (pair.worker->counts.values[CW_COUNT_EPS] > 0) {
        ucp_worker_progress(pair.worker);
    }
    assert_int_equal(shown(&fd), 1);
    cw_counters_publish(pair.worker);
    read_page(fd, &page);
    for (i = 0; i < page.num_transports; i++) {
        assert_int_equal(page.transports[i].open, 0);
    }
    close_pair(&pair);
}

TEST(setting_switches_it_off)
{
    struct pair pair;
    int fd = -1;

    setenv("UCX_COUNTERS", "n", 1);
    open_pair(&pair);
    unsetenv("UCX_COUNTERS");
    assert_int_equal(shown(&fd), 0);
    exchange(&pair, 8);
    close_pair(&pair);
}

/* A limit that forbids even one page (and would kill who tries): the worker does without. */
TEST(worker_works_without)
{
    struct rlimit limit, none;
    struct pair pair;
    int fd = -1;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    none = limit;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    setenv("UCX_TLS", "self", 1);
    open_pair(&pair);
    unsetenv("UCX_TLS");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(shown(&fd), 0);
    exchange(&pair, 8);
    close_pair(&pair);
}
