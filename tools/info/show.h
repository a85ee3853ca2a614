/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What ucx_info can show, one function each; they print to stdout.
 *
 * Callers: main.c. The result, where there is one, is an exit status (options.h) after a sentence on stderr.
 */
#ifndef CW_INFO_SHOW_H
#define CW_INFO_SHOW_H

#include "options.h"

void cw_show_version(void);                                     /* -v */
void cw_show_build(void);                                       /* -b */
void cw_show_types(void);                                       /* -y */
int cw_show_devices(const struct cw_info_options *options);     /* -d, -t */
void cw_show_topology(void);                                    /* -T */
void cw_show_system(void);                                      /* -s */
void cw_show_copies(void);                                      /* -M */
int cw_show_config(const struct cw_info_options *options);      /* -c, -C, -F, -a, -f */
int cw_show_objects(const struct cw_info_options *options);     /* -p, -w, -e, -m */
int cw_show_why(const struct cw_info_options *options);         /* --why */
int cw_show_address(const struct cw_info_options *options);     /* --address */

#endif
