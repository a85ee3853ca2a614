/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Log levels for programs that include this header by habit (ucxx does).
 * It gives ucs_log_level_t. Not here: ucs_log_push_handler(), ucs_log_pop_handler(), ucs_log_dispatch() and the logging
 * macros; they are not part of the UCP interface, and a program that needs them must be told at compile time.
 */
#ifndef UCS_LOG_DEF_H
#define UCS_LOG_DEF_H

#include <ucs/config/types.h>

#endif
