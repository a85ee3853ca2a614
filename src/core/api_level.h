/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The API level of a program, as it told ucp_init_version, and what it changes: numbers whose meaning depends on the
 * header that the program was compiled with. This is the only place that knows of levels; it is asked where such a
 * number comes in, so operations that name none pay nothing. Numbers that go out are those of this library, for a kind
 * that an older header does not know cannot occur unless such hardware is there (N22-21).
 */
#ifndef CW_CORE_API_LEVEL_H
#define CW_CORE_API_LEVEL_H

#include <stdint.h>

#include "ucs/memory/memory_type.h"

struct cw_api_level {
    uint8_t unknown;        /* the number by which it says that a memory type is not known */
    uint8_t has_remote;     /* it knows the members of ucp_request_param_t that describe the remote side */
    uint8_t is_vague;       /* the level says nothing of the header: it is a constant in the program (N22-15) */
};

/* Any numbers, also such as no release had. */
struct cw_api_level cw_api_level_of(unsigned major, unsigned minor);

/*
 * The memory type that the program means by a number (N22-23); `present`: CW_MEMORY_BIT of those that some domain
 * copies. A number above those of this library comes back as it is, to be refused.
 */
ucs_memory_type_t cw_api_memory_type(const struct cw_api_level *level, unsigned number, uint64_t present);

#endif
