/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The API level of these headers. ucp_get_version() returns that of the library at run time.
 * Callers: programs that compile for several levels. All of these are usable in #if.
 */
#ifndef UCP_VERSION_H
#define UCP_VERSION_H

#define UCP_VERSION_MAJOR_SHIFT 24
#define UCP_VERSION_MINOR_SHIFT 16

/** A level as one number; later levels compare greater. */
#define UCP_VERSION(major, minor) (((major) << UCP_VERSION_MAJOR_SHIFT) | ((minor) << UCP_VERSION_MINOR_SHIFT))

#define UCP_API_MAJOR 1
#define UCP_API_MINOR 23

/** The level of these headers, to compare with UCP_VERSION(major, minor). */
#define UCP_API_VERSION UCP_VERSION(1, 23)

#endif
