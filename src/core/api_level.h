/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The API level that a program passes to ucp_init_version, and its effect: values whose meaning depends on the header
 * that the program was compiled with. Only this file handles levels. It is called where the program passes such a
 * value, so operations without one pay nothing. Values that the library returns are its own: a kind that an older
 * header lacks can only occur where such hardware is present.
 */
#ifndef CW_CORE_API_LEVEL_H
#define CW_CORE_API_LEVEL_H

#include <stdint.h>

#include "ucs/memory/memory_type.h"

struct cw_api_level {
    uint8_t unknown;        /* the value by which the program marks a memory type as unknown */
    uint8_t has_remote;     /* the program knows the members of ucp_request_param_t that describe the remote side */
    uint8_t has_device;     /* the program knows the member of ucp_worker_attr_t that names a device */
    uint8_t is_vague;       /* the level does not identify the header: the program has it as a constant */
};

/* Accepts any numbers, also those that no release had. */
struct cw_api_level cw_api_level_of(unsigned major, unsigned minor);

/*
 * The memory type that the program means by a number; `present`: CW_MEMORY_BIT of the types that some domain copies. A
 * number above those of this library is returned unchanged; the caller rejects it.
 */
ucs_memory_type_t cw_api_memory_type(const struct cw_api_level *level, unsigned number, uint64_t present);

#endif
