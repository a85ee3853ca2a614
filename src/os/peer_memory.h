/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of another process, copied by the kernel directly. Addresses of the other process may be any numbers: the
 * kernel checks them, and a wrong one harms neither process. Logs nothing but one debug line with the kernel's error.
 *
 * A process id may pass to another process at any time. So the other process has a word with a random value, and each
 * system call that reads memory also reads this word: the bytes count only if the value is right. Without a word the
 * caller knows that it is the right process.
 */
#ifndef CW_OS_PEER_MEMORY_H
#define CW_OS_PEER_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "ucs/type/status.h"

struct cw_peer_process {
    int pid;                    /* greater than 0 */
    uint64_t probe_address;     /* in that process; 0: no word is read */
    uint64_t probe;             /* the value of the word there while it is the right process */
};

/*
 * Copies from (or to) that address of the process to (or from) our memory, all bytes of the `count` entries; any number
 * of entries. Blocks while the kernel copies. UCS_OK: everything was copied, and it was the right process;
 * UCS_ERR_IO_ERROR otherwise: some of it may have been copied.
 */
ucs_status_t cw_peer_memory_read(const struct cw_peer_process *peer, const struct iovec *to, unsigned count,
                                 uint64_t from);
ucs_status_t cw_peer_memory_write(const struct cw_peer_process *peer, const struct iovec *from, unsigned count,
                                  uint64_t to);

#endif
