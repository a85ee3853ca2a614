/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one helper for texts that programs take from libucs.
 */
#ifndef UCS_STRING_H
#define UCS_STRING_H

#include <sys/types.h>
#include <ucs/sys/compiler_def.h>

BEGIN_C_DECLS
#pragma GCC visibility push(default)

/**
 * Finds a text in a list. Any thread may call it.
 *
 * @param str             The text.
 * @param list            Texts, NULL at the end, such as ucs_memory_type_names.
 * @param case_sensitive  0: letters of either case are the same.
 *
 * @return Index of the first that is equal, or -1.
 */
ssize_t ucs_string_find_in_list(const char *str, const char **list, int case_sensitive);

#pragma GCC visibility pop
END_C_DECLS

#endif
