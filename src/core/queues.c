/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Answers a process that requests the queues of a worker. A lock as the request leaves the memory of the counters
 * sealed, and a process that is killed meanwhile leaves nothing behind.
 */
#include "core/queues.h"

#include "core/worker.h"
#include "os/memory.h"
#include "os/segment.h"

#define POLL_MOMENTS  8u                     /* between two system calls that check the lock */
#define ANSWER_LASTS  UINT64_C(1000000000)   /* ns; a process that requests later gets an answer of its own */

static void hide(struct ucp_worker *worker)
{
    if (worker->observed.queues != NULL) {
        cw_segment_hide(worker->observed.queues_fd, worker->observed.queues, worker->observed.queues_length);
        worker->observed.queues = NULL;
    }
}

static uint64_t at_most(uint64_t number)
{
    return (number < CW_QUEUES_MOST) ? number : CW_QUEUES_MOST;
}

static void answer(struct ucp_worker *worker, uint64_t now_ns)
{
    const struct cw_queues head = {.version = CW_QUEUES_VERSION,
                         .pid = cw_memory_process(),
                         .uid = worker->uid,
                         .written_ns = now_ns,
                         .num_posted = worker->counts.values[CW_COUNT_POSTED],
                         .num_unexpected = worker->counts.values[CW_COUNT_UNEXPECTED],
                         .listed_posted = at_most(worker->counts.values[CW_COUNT_POSTED]),
                         .listed_unexpected = at_most(worker->counts.values[CW_COUNT_UNEXPECTED])};
    const size_t size = sizeof(head) + (head.listed_posted + head.listed_unexpected) * sizeof(struct cw_queues_item);
    const size_t page = cw_memory_page();
    void *ptr;

    worker->observed.queues_length = (size + page - 1) / page * page;
    if (cw_segment_show(CW_QUEUES_NAME, worker->observed.queues_length, &worker->observed.queues_fd, &ptr) != UCS_OK) {
        return;
    }
    worker->observed.queues = ptr;
    *worker->observed.queues = head;
    worker->handlers->worker_queues(worker, worker->observed.queues);
    __atomic_store_n(&worker->observed.queues->magic, CW_QUEUES_MAGIC, __ATOMIC_RELEASE);
}

void cw_queues_poll(struct ucp_worker *worker)
{
    const uint64_t now_ns = cw_clock_ns();

    worker->moment = (uint32_t)(now_ns >> CW_MOMENT_SHIFT);
    if (worker->moment - worker->observed.queues_polled < POLL_MOMENTS || worker->handlers->worker_queues == NULL) {
        return;
    }
    worker->observed.queues_polled = worker->moment;
    if (!cw_segment_is_locked(worker->observed.page_fd)) {
        hide(worker);
    } else if (worker->observed.queues == NULL || now_ns - worker->observed.queues->written_ns > ANSWER_LASTS) {
        hide(worker);
        answer(worker, now_ns);
    }
}

void cw_queues_close(struct ucp_worker *worker)
{
    hide(worker);
}
