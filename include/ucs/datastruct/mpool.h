/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Placeholder: some programs (Charm++) include this header without using anything of it.
 * Not here: the memory pool. It is not part of the UCP interface.
 */
#ifndef UCS_MPOOL_H
#define UCS_MPOOL_H

#include <ucs/sys/compiler_def.h>
#include <ucs/type/status.h>

#endif
