/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files that contain secrets, and unpredictable bytes.
 */
#ifndef CW_OS_SECRET_H
#define CW_OS_SECRET_H

#include <stddef.h>
#include <stdint.h>

#include "ucs/type/status.h"

/* Reads a file of `min` to *length_p bytes that belongs to this user (or root) and that no other user may read.
 * UCS_ERR_INVALID_PARAM: the reason is logged with the name of the setting. */
ucs_status_t cw_secret_read(const char *setting, const char *path, void *bytes, size_t min, size_t *length_p);
/* Makes the checks of cw_secret_read for a file that another library reads. */
ucs_status_t cw_secret_check(const char *setting, const char *path);
/* Overwrites the bytes; the compiler cannot optimise this away. */
void cw_secret_wipe(void *bytes, size_t length);
/* Whether both are equal, in constant time. */
int cw_secret_equal(const void *left, const void *right, size_t length);
/* 0: the kernel provides none; there is no fallback. */
int cw_secret_random(void *bytes, size_t length);

#endif
