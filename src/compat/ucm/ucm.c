/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libucm: the memory-event calls that MPI libraries make, at any moment, from inside munmap() as well.
 *
 * Invariants: no call of libc, no lock. Causeway patches no allocator, so there is nothing to install. Registrations of
 * devices are cached over several messages only while a program reports what it unmaps, or where none is needed
 * (mem/cache.h); so every query whether events are reported is answered with UCS_OK.
 *
 * Reported ranges go to a ring that libucp polls before it reuses a registration (compat/ucm/share.h). A number is
 * written after its range, and cleared before it, so that a reader detects whether the range is complete.
 */
#include <ucm/api/ucm.h>

#include <stddef.h>

#include "compat/ucm/share.h"

#define UNMAPPED (UCM_EVENT_MUNMAP | UCM_EVENT_VM_UNMAPPED)

struct range {
    uint64_t number; /* of the range, plus 1; 0: none here, or it is being written */
    uintptr_t begin;
    uintptr_t end;
};

static struct range ranges[UCM_CW_RANGES];
static uint64_t num_ranges;
static int reported; /* kinds of events */

void ucm_set_external_event(int events)
{
    __atomic_or_fetch(&reported, events, __ATOMIC_SEQ_CST);
}

ucs_status_t ucm_test_events(int events)
{
    (void)events;
    return UCS_OK;
}

ucs_status_t ucm_test_external_events(int events)
{
    (void)events;
    return UCS_OK;
}

void ucm_vm_munmap(void *addr, size_t length)
{
    const uint64_t number = __atomic_fetch_add(&num_ranges, 1, __ATOMIC_SEQ_CST);
    struct range *range = &ranges[number % UCM_CW_RANGES];

    __atomic_store_n(&range->number, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&range->begin, (uintptr_t)addr, __ATOMIC_SEQ_CST);
    __atomic_store_n(&range->end, (uintptr_t)addr + length, __ATOMIC_SEQ_CST);
    __atomic_store_n(&range->number, number + 1, __ATOMIC_SEQ_CST);
}

void ucm_unset_external_event(int events)
{
    __atomic_and_fetch(&reported, ~events, __ATOMIC_SEQ_CST);
}

int ucm_cw_reports(void)
{
    return (__atomic_load_n(&reported, __ATOMIC_SEQ_CST) & UNMAPPED) != 0;
}

uint64_t ucm_cw_count(void)
{
    return __atomic_load_n(&num_ranges, __ATOMIC_SEQ_CST);
}

int ucm_cw_range(uint64_t number, uintptr_t *begin_p, uintptr_t *end_p)
{
    const struct range *range = &ranges[number % UCM_CW_RANGES];

    if (__atomic_load_n(&range->number, __ATOMIC_SEQ_CST) != number + 1) {
        return 0;
    }
    *begin_p = __atomic_load_n(&range->begin, __ATOMIC_SEQ_CST);
    *end_p = __atomic_load_n(&range->end, __ATOMIC_SEQ_CST);
    return __atomic_load_n(&range->number, __ATOMIC_SEQ_CST) == number + 1;
}

void ucm_vm_mmap(void *addr, size_t length)
{
    (void)addr;
    (void)length;
}

ucs_status_t ucm_set_event_handler(int events, int priority, ucm_event_callback_t cb, void *arg)
{
    (void)events;
    (void)priority;
    (void)cb;
    (void)arg;
    return UCS_ERR_UNSUPPORTED;
}
