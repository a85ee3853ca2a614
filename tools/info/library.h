/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which libucp.so.0 programs load here. The tool has the library linked in (docs/why/tools.md), so it has to ask
 * the loader.
 *
 * Callers: main.c (ucx.conf beside the library), version.c.
 */
#ifndef CW_INFO_LIBRARY_H
#define CW_INFO_LIBRARY_H

#include <stdbool.h>

struct cw_info_library {
    bool found;
    bool is_ours;       /* of this project, not the reference's */
    char path[4096];
    char version[64];
};

/* Loads it in a process of its own, because a foreign library does all kinds of things when it is loaded. */
void cw_info_library_find(struct cw_info_library *library);

/* Names the library within the tool the file it stands for, so that it reads the same ucx.conf as that one. */
void cw_info_library_stand_for(void);

#endif
