/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Version numbers under the names that configure scripts look for; the same level as ucp/api/ucp_version.h.
 * Callers: build systems.
 */
#ifndef UCT_VERSION_H
#define UCT_VERSION_H

#define UCT_VERNO_MAJOR  1
#define UCT_VERNO_MINOR  22
#define UCT_VERNO_PATCH  0
#define UCT_VERNO_STRING "1.23.0"

#define UCT_MAJOR_BIT 24
#define UCT_MINOR_BIT 16

/** A level as one number; later levels compare greater. */
#define UCT_VERSION(major, minor) (((major) << UCT_MAJOR_BIT) | ((minor) << UCT_MINOR_BIT))

#define UCT_API UCT_VERSION(1, 23)

#endif
