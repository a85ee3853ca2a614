/* SPDX-License-Identifier: BSD-3-Clause */
/* Exercise of docs/TRANSPORT.md: a protocol for short messages. */
#ifndef CW_EXERCISE_HALVES_H
#define CW_EXERCISE_HALVES_H

#include "proto/protocol.h"

#define HALVES_LEAST 4000u

extern const struct cw_protocol cw_exercise_halves;
extern unsigned halves_sent; /* for its test */

#endif
