/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The identity of this machine, for comparison between two processes. Thread safe; no call blocks.
 */
#ifndef CW_OS_HOST_H
#define CW_OS_HOST_H

#include <stdint.h>

/*
 * A number that is equal in two processes that run under one boot of one kernel and in one network namespace: such
 * processes reach each other by loopback and by abstract Unix sockets. Never 0. The namespace is that of the calling
 * thread. It is read at each call (one system call), because a program may change it; the other parts are cached. Equal
 * numbers are strong evidence but no proof (a machine may have been cloned while it ran), so a process that connects
 * because of them has the other side confirm its identity.
 */
uint64_t cw_host_netns_id(void);

/* Why this number of another process can differ from ours although both run on one machine: the end of a sentence about
 * that process, which names what is missing there or here. Each such reason is logged once, as a warning. NULL: nothing
 * is missing, so the process runs on another machine. */
const char *cw_host_why_apart(uint64_t ours, uint64_t theirs);

/* As cw_host_netns_id, without the network namespace: it identifies one boot of one kernel. Never 0. */
uint64_t cw_host_boot_id(void);

/* The value of cw_host_boot_id in a process without procfs. */
uint64_t cw_host_boot_by_name(void);

/* As cw_host_why_apart, for two numbers that were made from cw_host_boot_id; `by_name` is made from
 * cw_host_boot_by_name. */
const char *cw_host_why_other_boot(uint64_t theirs, uint64_t by_name);

/* Identifies one boot and one pid namespace: in two processes where it is equal, a process id means one process. Never
 * 0. Read at each call. */
uint64_t cw_host_pidns_id(void);

#endif
