/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the Rust bindings are made of. bindgen reads this file, and a C compiler makes an object of the same file: it
 * holds the functions that the headers define themselves (ucp_init() and a few more). Those are `static inline`, which
 * bindgen passes over, so they are plain functions here. The system's headers come first and stay as they are.
 */
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/types.h>

#define static
#define inline
#include <ucm/api/ucm.h>
#include <ucp/api/ucp.h>
#include <uct/api/uct.h>
