/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One TCP connection over the loopback interface between the two processes of a bare program, set up as the library
 * sets up its own. A call that fails ends the program by cw_bare_die().
 */
#ifndef CW_BENCH_STREAM_H
#define CW_BENCH_STREAM_H

#include <stdbool.h>
#include <stddef.h>

/* Before the processes part. Where malloc begins large memory, 16 bytes behind a page's beginning, the system may copy
 * five times as slowly (AMD Zen 3), which would be no limit to compare with: the memory begins with a page. */
char *cw_stream_memory(size_t length);
void cw_stream_listen(void);

/* In each process: the connection, which does not block and delays nothing. */
int cw_stream_connect(bool is_ping);

/* Goes on until all `length` bytes are sent, or received. */
void cw_stream_send(int connection, const void *data, size_t length);
void cw_stream_recv(int connection, void *data, size_t length);

#endif
