/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What tests do to the devices of verbs_stand_in.c, "stand0" and "stand1".
 */
#ifndef CW_TEST_DEVICES_VERBS_STAND_IN_H
#define CW_TEST_DEVICES_VERBS_STAND_IN_H

/* That device breaks for ever, and reports it. NULL: all work again for those who open them anew. */
void stand_in_dies(const char *name);

#endif
