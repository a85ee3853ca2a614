/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Telling hosts apart.
 */
#ifndef UCS_UID_H
#define UCS_UID_H

#include <stdint.h>
#include <ucs/sys/compiler_def.h>

BEGIN_C_DECLS
#pragma GCC visibility push(default)

/**
 * A number of this host since it was booted: equal in all its processes, those in containers too, and different on
 * other hosts. Any thread may call it.
 *
 * @return The number, never 0.
 */
uint64_t ucs_get_system_id(void);

#pragma GCC visibility pop
END_C_DECLS

#endif
