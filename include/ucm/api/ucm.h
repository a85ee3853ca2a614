/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory events: the calls by which other libraries report or ask about mapping changes.
 * Callers: memory hooks of MPI libraries. Every call may be made from any thread at any time, from inside munmap()
 * too; none blocks, allocates or fails. Causeway installs no hooks of its own: memory that was registered for a message
 * is kept registered for the next ones only while a program reports what it unmaps.
 *
 * A program that subscribes to events gets UCS_ERR_UNSUPPORTED. Not here: the replacements of the
 * allocator's functions.
 */
#ifndef UCM_H
#define UCM_H

#include <ucs/sys/compiler_def.h>
#include <ucs/type/status.h>

BEGIN_C_DECLS
#pragma GCC visibility push(default)

/** Kinds of events, combined by OR. */
typedef enum ucm_event_type {
    UCM_EVENT_NONE                = 0,           /**< Nothing. */
    UCM_EVENT_MMAP                = UCS_BIT(0),  /**< mmap() */
    UCM_EVENT_MUNMAP              = UCS_BIT(1),  /**< munmap() */
    UCM_EVENT_MREMAP              = UCS_BIT(2),  /**< mremap() */
    UCM_EVENT_SHMAT               = UCS_BIT(3),  /**< shmat() */
    UCM_EVENT_SHMDT               = UCS_BIT(4),  /**< shmdt() */
    UCM_EVENT_SBRK                = UCS_BIT(5),  /**< sbrk() */
    UCM_EVENT_MADVISE             = UCS_BIT(6),  /**< madvise() */
    UCM_EVENT_BRK                 = UCS_BIT(7),  /**< brk() */
    UCM_EVENT_VM_MAPPED           = UCS_BIT(16), /**< Memory was mapped by whatever call. */
    UCM_EVENT_VM_UNMAPPED         = UCS_BIT(17), /**< Memory is about to be unmapped by whatever call. */
    UCM_EVENT_MEM_TYPE_ALLOC      = UCS_BIT(20), /**< Memory that is not host memory was allocated. */
    UCM_EVENT_MEM_TYPE_FREE       = UCS_BIT(21), /**< Memory that is not host memory is freed. */
    UCM_EVENT_FLAG_NO_INSTALL     = UCS_BIT(24), /**< Modifier: install no hooks for this. */
    UCM_EVENT_FLAG_EXISTING_ALLOC = UCS_BIT(25)  /**< Modifier: report existing allocations too. */
} ucm_event_type_t;

/**
 * Announce that the caller will report these events itself.
 *
 * @param events  OR of ucm_event_type_t; UCM_EVENT_VM_UNMAPPED lets registrations be kept.
 */
void ucm_set_external_event(int events);

/**
 * Ask whether events are noticed.
 *
 * @param events  OR of ucm_event_type_t.
 * @return UCS_OK always: the library depends on none of them.
 */
ucs_status_t ucm_test_events(int events);

/**
 * Ask whether events that the caller announced by ucm_set_external_event() are noticed.
 *
 * @param events  OR of ucm_event_type_t.
 * @return UCS_OK always: the library depends on none of them.
 */
ucs_status_t ucm_test_external_events(int events);

/**
 * Report that a range is about to be unmapped.
 *
 * @param addr    First byte of the range.
 * @param length  Number of bytes.
 */
void ucm_vm_munmap(void *addr, size_t length);

/**
 * Report that a range was mapped.
 *
 * @param addr    First byte of the range.
 * @param length  Number of bytes.
 */
void ucm_vm_mmap(void *addr, size_t length);

/**
 * Take back what ucm_set_external_event() announced.
 *
 * @param events  OR of ucm_event_type_t. Accepted and not needed.
 */
void ucm_unset_external_event(int events);

/** Data of an event. None is ever made. */
typedef union ucm_event ucm_event_t;

/** Would be called with an event: its kind, its data, and the argument of ucm_set_event_handler(). */
typedef void (*ucm_event_callback_t)(ucm_event_type_t event_type, ucm_event_t *event, void *arg);

/**
 * Ask to be called when memory is mapped or unmapped.
 *
 * @param events    OR of ucm_event_type_t.
 * @param priority  Order among several handlers.
 * @param cb        Would be called; is not kept.
 * @param arg       Its last argument.
 * @return UCS_ERR_UNSUPPORTED always: the library watches no memory.
 */
ucs_status_t ucm_set_event_handler(int events, int priority, ucm_event_callback_t cb, void *arg);

#pragma GCC visibility pop
END_C_DECLS

#endif
