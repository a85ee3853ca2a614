/* SPDX-License-Identifier: BSD-3-Clause */
/* What actor.c and actor_ops.c share. */
#ifndef CW_STORM_ACTOR_OPS_H
#define CW_STORM_ACTOR_OPS_H

#include "actor.h"

#include <limits.h>

/* Sets the handlers of active messages. */
void actor_ops_open(struct actor *actor);
/* ACTOR_MOST bytes and more that all processes agree on; never written. */
const char *actor_pattern(void);

#endif
