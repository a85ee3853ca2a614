/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC32C, the checksum of iSCSI and ext4: for bytes in transit, against accidents only. Thread safe.
 */
#ifndef CW_BASE_CRC32C_H
#define CW_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Continues from the checksum of the preceding bytes; 0 at the start. */
uint32_t cw_crc32c(uint32_t crc, const void *data, size_t length);
/* The checksum without the processor's instruction, for tests. */
uint32_t cw_crc32c_portable(uint32_t crc, const void *data, size_t length);

#endif
