/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC32C, the checksum of iSCSI and ext4: for bytes on their way, against accidents only. Thread safe.
 */
#ifndef CW_BASE_CRC32C_H
#define CW_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Goes on from the checksum of what came before; 0: from nothing. */
uint32_t cw_crc32c(uint32_t crc, const void *data, size_t length);
/* The same without the processor's help, for tests. */
uint32_t cw_crc32c_portable(uint32_t crc, const void *data, size_t length);

#endif
