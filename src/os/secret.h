/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files that hold secrets, and bytes that nobody may guess.
 */
#ifndef CW_OS_SECRET_H
#define CW_OS_SECRET_H

#include <stddef.h>
#include <stdint.h>

#include "ucs/type/status.h"

/* Reads a file of `min` to *length_p bytes that belongs to this user (or root) and that nobody else may read. Errors
 * are in the log, which calls it by the setting's name: UCS_ERR_INVALID_PARAM. */
ucs_status_t cw_secret_read(const char *setting, const char *path, void *bytes, size_t min, size_t *length_p);
/* The same checks for a file that somebody else reads. */
ucs_status_t cw_secret_check(const char *setting, const char *path);
/* Overwrites, also where the compiler thinks that nobody looks any more. */
void cw_secret_wipe(void *bytes, size_t length);
/* Takes equally long wherever they differ. */
int cw_secret_equal(const void *left, const void *right, size_t length);
/* 0: the system has none; there is no substitute. */
int cw_secret_random(void *bytes, size_t length);

#endif
