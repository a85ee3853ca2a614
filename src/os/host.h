/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which machine this is, as far as two processes have to know it of each other. Thread safe; never blocks.
 */
#ifndef CW_OS_HOST_H
#define CW_OS_HOST_H

#include <stdint.h>

/*
 * A number that two processes share when they run under one boot of one kernel and in one network namespace: they then
 * reach each other by loopback and by abstract Unix sockets. Never 0. The namespace is that of the calling thread and
 * looked up at each call (one system call), since a program may change it; the rest is remembered. Equal numbers are
 * strong evidence, not proof (a machine cloned while running), so whoever connects on their word has the other side
 * confirm who it is.
 */
uint64_t cw_host_netns_id(void);

/* Why such a number of another process can differ from ours although both run on one machine: the end of a sentence
 * about that process, which names what is missing, in it or here. NULL: nothing is, so it is elsewhere. */
const char *cw_host_why_apart(uint64_t ours, uint64_t theirs);

/* The same without the network namespace: one boot of one kernel. Never 0. */
uint64_t cw_host_boot_id(void);

/* What that is in a process without procfs. */
uint64_t cw_host_boot_by_name(void);

/* As cw_host_why_apart, for a number that was made of that of the boot; `by_name`: as made of the above. */
const char *cw_host_why_other_boot(uint64_t theirs, uint64_t by_name);

/* One boot and one name space of process ids: what a process id means. Never 0. Looked up at each call, as above. */
uint64_t cw_host_pidns_id(void);

#endif
