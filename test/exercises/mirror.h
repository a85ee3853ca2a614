/* SPDX-License-Identifier: BSD-3-Clause */
/* Exercise of docs/TRANSPORT.md: a type of memory. */
#ifndef CW_EXERCISE_MIRROR_H
#define CW_EXERCISE_MIRROR_H

#include "base/compiler.h"
#include "mem/md.h"

extern const struct cw_md mirror_md;

#endif
