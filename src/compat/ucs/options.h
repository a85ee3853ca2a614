/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Options of the process, inside libucs.
 */
#ifndef CW_COMPAT_UCS_OPTIONS_H
#define CW_COMPAT_UCS_OPTIONS_H

#include <ucs/config/types.h>

/* The log of the library as programs see it: the head of ucs_global_opts, with its level determined. */
ucs_log_component_config_t *cw_ucs_log_component(void);

#endif
