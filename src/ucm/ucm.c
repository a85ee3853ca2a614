/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libucm: the memory-event calls that MPI libraries make (R28, APP-1, NB-40 .. NB-43).
 * Callers: memory hooks of other libraries, at any moment, from inside munmap() as well.
 * Invariants: no call of libc, no lock, no state. Causeway patches no allocator and keeps no cache that depends on
 * being told of unmapped memory, so there is nothing to install, and every question "would I be told?" is answered
 * with yes.
 */
#include <ucm/api/ucm.h>

void ucm_set_external_event(int events)
{
    (void)events;
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
    (void)addr;
    (void)length;
}

void ucm_unset_external_event(int events)
{
    (void)events;
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
