/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The API level of a program, as ucp_init_version was told it, and its effect: numbers whose meaning depends on the
 * header that the program was compiled with. Only this file knows of levels. It is called where the program gives such
 * a number, so operations without one pay nothing. Numbers that the library returns are its own: a kind that an older
 * header lacks can only occur where such hardware is there.
 */
#ifndef CW_CORE_API_LEVEL_H
#define CW_CORE_API_LEVEL_H

#include <stdint.h>

#include "ucs/memory/memory_type.h"

struct cw_api_level {
    uint8_t unknown;        /* the number by which the program says that a memory type is unknown */
    uint8_t has_remote;     /* the program knows the members of ucp_request_param_t that describe the remote side */
    uint8_t has_device;     /* the program knows the member of ucp_worker_attr_t that names a device */
    uint8_t is_vague;       /* the level does not tell the header: the program has it as a constant */
};

/* Takes any numbers, also those that no release had. */
struct cw_api_level cw_api_level_of(unsigned major, unsigned minor);

/*
 * The memory type that the program means by a number; `present`: CW_MEMORY_BIT of the types that some domain
 * copies. A number above those of this library is returned unchanged; the caller refuses it.
 */
ucs_memory_type_t cw_api_memory_type(const struct cw_api_level *level, unsigned number, uint64_t present);

#endif
