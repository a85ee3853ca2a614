/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory in which other processes read a worker's counters (core/counters.h): made with the worker, written when
 * progress polls descriptors, and freed with its descriptor. A worker works without it, too.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/string.h"
#include "core/ep.h"
#include "core/queues.h"
#include "core/worker.h"
#include "os/env.h"
#include "os/memory.h"
#include "os/segment.h"

enum { MOST_FILES = 1000 };

static size_t round_up(size_t length)
{
    const size_t page = cw_memory_page();

    return (length + page - 1) / page * page;
}

void cw_counters_open(struct ucp_worker *worker)
{
    const uint64_t num_events = cw_trace_num_events(worker);
    const size_t head = round_up(sizeof(struct cw_counters_page));
    const size_t trace = (num_events == 0) ? 0 :
                         round_up(sizeof(struct cw_trace_ring) + num_events * sizeof(struct cw_trace_event));
    struct cw_counters_page *page;
    void *ptr;

    if ((!worker->context->config->counters && trace == 0) ||
        cw_segment_show(CW_COUNTERS_NAME, head + trace, &worker->observed.page_fd, &ptr) != UCS_OK) {
        return;
    }
    page = ptr;
    *page = (struct cw_counters_page){.version = CW_COUNTERS_VERSION,
                                 .pid = cw_memory_process(),
                                 .uid = worker->uid,
                                 .started_ns = cw_clock_ns(),
                                 .num_values = CW_COUNT_LAST,
                                 .trace_offset = (trace > 0) ? head : 0,
                                 .trace_length = trace};
    memcpy(page->name, worker->name, sizeof(page->name));
    worker->observed.page = page;
    worker->observed.page_length = head + trace;
    if (trace > 0) {
        cw_trace_open(worker, (char *)ptr + head, num_events);
    }
}

static unsigned num_transports(const struct ucp_worker *worker)
{
    unsigned count = 0;

    while (count < CW_COUNTERS_TRANSPORTS && worker->counts.transports[count].name[0] != '\0') {
        count++;
    }
    return count;
}

/* The index of a transport, shared by its interfaces; CW_COUNTERS_TRANSPORTS: the table is full. */
static unsigned index_of(struct ucp_worker *worker, const char *name)
{
    struct cw_counters_transport *transports = worker->counts.transports;
    const unsigned count = num_transports(worker);
    unsigned i;

    for (i = 0; i < count && strncmp(transports[i].name, name, sizeof(transports[i].name) - 1) != 0; i++) {
    }
    if (i == count && i < CW_COUNTERS_TRANSPORTS) {
        strncpy(transports[i].name, name, sizeof(transports[i].name) - 1);
    }
    return i;
}

void cw_counters_ready(struct ucp_worker *worker)
{
    struct cw_counters_page *page = worker->observed.page;
    unsigned i;

    for (i = 0; i < worker->num_ifaces; i++) {
        worker->ifaces[i]->counted = index_of(worker, cw_iface_name(worker->ifaces[i]));
    }
    if (page != NULL) {
        page->num_transports = num_transports(worker);
        memcpy(page->transports, worker->counts.transports, sizeof(page->transports));
        cw_counters_publish(worker);
        __atomic_store_n(&page->magic, CW_COUNTERS_MAGIC, __ATOMIC_RELEASE); /* from now on readers accept the page */
    }
}

/* Creates a file with a new name: the pattern's, or that with the first free number. */
static int create_file(char *path, size_t size, const char *pattern)
{
    size_t length;
    int fd, i;

    cw_string_expand(path, size, pattern);
    length = strlen(path);
    fd = cw_file_create(path);
    for (i = 1; fd < 0 && errno == EEXIST && i < MOST_FILES; i++) {
        (void)snprintf(path + length, size - length, ".%d", i);
        fd = cw_file_create(path);
    }
    return fd;
}

/* Writes a file of the bytes that others can read while the worker lives. */
static void keep_events(const struct ucp_worker *worker)
{
    const char *pattern = worker->context->config->trace_file;
    struct cw_write_signals signals;
    char path[512];
    int fd, failed;

    if (worker->trace == NULL || worker->observed.page->magic == 0 || pattern[0] == '\0') {
        return;
    }
    cw_write_signals_hold(&signals);
    fd = create_file(path, sizeof(path), pattern);
    failed = fd < 0 || cw_file_write_all(fd, worker->observed.page, worker->observed.page_length) != 0;
    if (failed) {
        cw_warn("cannot write the trace of worker %s to '%s': %s; check UCX_TRACE_FILE", worker->name, path,
                strerror(errno));
    }
    if (fd >= 0) {
        cw_file_close(fd);
    }
    cw_write_signals_release(&signals);
}

void cw_counters_close(struct ucp_worker *worker)
{
    cw_queues_close(worker);
    keep_events(worker);
    cw_trace_close(worker);
    if (worker->observed.page != NULL) {
        cw_segment_hide(worker->observed.page_fd, worker->observed.page, worker->observed.page_length);
        worker->observed.page = NULL;
    }
}

static void store(uint64_t *to, const uint64_t *from, unsigned count)
{
    unsigned i;

    for (i = 0; i < count; i++) {
        __atomic_store_n(&to[i], from[i], __ATOMIC_RELAXED);
    }
}

void cw_counters_write(struct ucp_worker *worker)
{
    struct cw_counters_page *page = worker->observed.page;
    struct cw_counters *counts = &worker->counts;
    const uint64_t sequence = page->sequence;
    unsigned i;

    counts->values[CW_COUNT_REQUESTS] = cw_request_pool_in_use(&worker->requests);
    counts->values[CW_COUNT_BUSY] = worker->round - 1 - worker->idle_rounds; /* the first round is 1 */
    if (worker->handlers->worker_gauges != NULL) {
        worker->handlers->worker_gauges(worker);
    }
    __atomic_store_n(&page->sequence, sequence + 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE); /* pairs with the reader, which reads the sequence before and after */
    store(page->values, counts->values, CW_COUNT_LAST);
    for (i = 0; i < page->num_transports && i < CW_COUNTERS_TRANSPORTS; i++) {
        store(&page->transports[i].open, &counts->transports[i].open, 1);
        store(&page->transports[i].opened, &counts->transports[i].opened, 1);
    }
    __atomic_store_n(&page->sequence, sequence + 2, __ATOMIC_RELEASE);
    cw_queues_poll(worker);
}

static struct cw_counters_transport *transport_of(struct ucp_worker *worker, const struct cw_conn *conn)
{
    const int has = conn != NULL && conn->iface->counted < CW_COUNTERS_TRANSPORTS;

    return has ? &worker->counts.transports[conn->iface->counted] : NULL;
}

void cw_counters_opened(struct ucp_worker *worker, const struct cw_conn *conn)
{
    struct cw_counters_transport *transport = transport_of(worker, conn);

    if (transport != NULL) {
        transport->open++;
        transport->opened++;
    }
}

void cw_counters_ended(struct ucp_worker *worker, const struct cw_conn *conn)
{
    struct cw_counters_transport *transport = transport_of(worker, conn);

    if (transport != NULL) {
        transport->open--;
    }
}
