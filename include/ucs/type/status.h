/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Status codes, and the pointer that carries either a status or a request.
 * Callers: every program. Section 17.2 of the behaviour specification says which call gives which status.
 * Invariants: a status is one signed byte; 0 is success, 1 is "not yet", negative is failure, none is below
 * UCS_ERR_LAST.
 */
#ifndef UCS_TYPE_STATUS_H
#define UCS_TYPE_STATUS_H

#include <ucs/sys/compiler_def.h>

BEGIN_C_DECLS
#pragma GCC visibility push(default)

/** Result of an operation. Statuses marked "internal" are never returned by a public call. */
typedef enum {
    UCS_OK                         = 0,   /**< Done. */
    UCS_INPROGRESS                 = 1,   /**< Accepted, not complete yet. Not an error. */

    UCS_ERR_NO_MESSAGE             = -1,  /**< Internal: nothing waiting. */
    UCS_ERR_NO_RESOURCE            = -2,  /**< Cannot complete at once although the caller insisted. */
    UCS_ERR_IO_ERROR               = -3,  /**< The system refused an input or output. */
    UCS_ERR_NO_MEMORY              = -4,  /**< Allocation or registration failed. */
    UCS_ERR_INVALID_PARAM          = -5,  /**< The call contradicts itself or lacks a mandatory field. */
    UCS_ERR_UNREACHABLE            = -6,  /**< No transport to the peer, or no path to that memory. */
    UCS_ERR_INVALID_ADDR           = -7,  /**< Address outside of the region. */
    UCS_ERR_NOT_IMPLEMENTED        = -8,  /**< The library does not implement this. */
    UCS_ERR_MESSAGE_TRUNCATED      = -9,  /**< The message was longer than the receive buffer. */
    UCS_ERR_NO_PROGRESS            = -10, /**< Internal: nothing was done. */
    UCS_ERR_BUFFER_TOO_SMALL       = -11, /**< An output does not fit. */
    UCS_ERR_NO_ELEM                = -12, /**< Not found, or an empty list where one entry is needed. */
    UCS_ERR_SOME_CONNECTS_FAILED   = -13, /**< Internal: part of a set of connections failed. */
    UCS_ERR_NO_DEVICE              = -14, /**< Nothing usable is left after filtering. */
    UCS_ERR_BUSY                   = -15, /**< Events are waiting (arm), or the address is in use (listener). */
    UCS_ERR_CANCELED               = -16, /**< Cancelled by the user, by a forced close or by destruction. */
    UCS_ERR_SHMEM_SEGMENT          = -17, /**< A shared memory segment could not be made or attached. */
    UCS_ERR_ALREADY_EXISTS         = -18, /**< There is one already. */
    UCS_ERR_OUT_OF_RANGE           = -19, /**< A number outside of its range. */
    UCS_ERR_TIMED_OUT              = -20, /**< The time allowed is over. */
    UCS_ERR_EXCEEDS_LIMIT          = -21, /**< More than a fixed limit. */
    UCS_ERR_UNSUPPORTED            = -22, /**< A legal request that this build or transport cannot serve. */
    UCS_ERR_REJECTED               = -23, /**< The server declined the connection. */
    UCS_ERR_NOT_CONNECTED          = -24, /**< No connection, or no listener at the address. */
    UCS_ERR_CONNECTION_RESET       = -25, /**< The peer closed the connection or died. */

    UCS_ERR_FIRST_LINK_FAILURE     = -40, /**< First code of the range "the local link failed". */
    UCS_ERR_LAST_LINK_FAILURE      = -59, /**< Last code of that range. */
    UCS_ERR_FIRST_ENDPOINT_FAILURE = -60, /**< First code of the range "the connection failed". */
    UCS_ERR_ENDPOINT_TIMEOUT       = -80, /**< The peer does not answer any more. */
    UCS_ERR_LAST_ENDPOINT_FAILURE  = -89, /**< Last code of that range. */

    UCS_ERR_LAST                   = -100 /**< Lowest value that a status can have. */
} UCS_S_PACKED ucs_status_t;

/**
 * Result of an operation that may complete later: NULL = complete with UCS_OK and no request exists; one of the top
 * 100 addresses = failed with that status; anything else = a request. Tell them apart by the macros below.
 */
typedef void *ucs_status_ptr_t;

/** True for an error code of the "local link failed" range. */
#define UCS_IS_LINK_ERROR(code) (((code) <= UCS_ERR_FIRST_LINK_FAILURE) && ((code) >= UCS_ERR_LAST_LINK_FAILURE))

/** True for an error code of the "connection failed" range. */
#define UCS_IS_ENDPOINT_ERROR(code) \
    (((code) <= UCS_ERR_FIRST_ENDPOINT_FAILURE) && ((code) >= UCS_ERR_LAST_ENDPOINT_FAILURE))

/** True if the returned pointer carries an error status. */
#define UCS_PTR_IS_ERR(ptr) ((uintptr_t)(ptr) >= (uintptr_t)UCS_ERR_LAST)

/** True if the returned pointer is a request. */
#define UCS_PTR_IS_PTR(ptr) (((uintptr_t)(ptr)-1) < ((uintptr_t)UCS_ERR_LAST - 1))

/** The status in a pointer that is known to be NULL or an error. */
#define UCS_PTR_RAW_STATUS(ptr) ((ucs_status_t)(intptr_t)(ptr))

/* UCS_PTR_STATUS as a function, so that an argument that is a call is evaluated once. */
static inline ucs_status_t ucs_ptr_status_(uintptr_t ptr)
{
    return UCS_PTR_IS_PTR(ptr) ? UCS_INPROGRESS : UCS_PTR_RAW_STATUS(ptr);
}

/** The status that a returned pointer, of whatever type, stands for: UCS_OK, UCS_INPROGRESS for a request, or the
 * error. */
#define UCS_PTR_STATUS(ptr) ucs_ptr_status_((uintptr_t)(ptr))

/** The pointer that carries @a status. */
#define UCS_STATUS_PTR(status) ((void *)(intptr_t)(status))

/** True for every negative status; false for UCS_OK and UCS_INPROGRESS. */
#define UCS_STATUS_IS_ERR(status) ((status) < 0)

/**
 * English text of a status, for people.
 *
 * @param status  Any value; one without a name gives "Unknown error N".
 * @return A string that the library owns, never NULL. The text of an unknown value stays valid until the same thread
 *         asks for the next unknown one; all the others are static. Callable from any thread, before ucp_init() too.
 */
const char *ucs_status_string(ucs_status_t status);

#pragma GCC visibility pop
END_C_DECLS

#endif
