/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Placeholder of the transport layer's header: programs and binding generators that include it by habit find it.
 * It gives the version macros and the common types. There is no public transport interface: Causeway's transports sit
 * behind an internal contract in libucp, and libuct.so.0 exports no function. A program that calls uct_* functions
 * (uct_query_components, uct_md_open, ...) fails to compile here instead of failing at run time.
 */
#ifndef UCT_H
#define UCT_H

#include <uct/api/version.h>
#include <ucs/memory/memory_type.h>
#include <ucs/type/status.h>
#include <ucs/type/thread_mode.h>

#endif
