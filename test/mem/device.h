/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device that test_device.c runs over: one file implements these for each kind.
 */
#ifndef CW_TEST_DEVICE_H
#define CW_TEST_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "ucs/memory/memory_type.h"

#ifndef DEVICE_TYPE /* the type of its memory, and one that no domain of the process has */
#define DEVICE_TYPE         UCS_MEMORY_TYPE_CUDA
#define DEVICE_MANAGED_TYPE UCS_MEMORY_TYPE_CUDA_MANAGED
#define DEVICE_ABSENT_TYPE  UCS_MEMORY_TYPE_ROCM
#endif

/* 1: a memory type that the program names is believed. */
extern const int device_trusts;
/* 1: a processor that touches its memory ends the program. */
extern const int device_is_apart;
/* Types of memory that it has besides DEVICE_TYPE, as a mask. */
extern const uint64_t device_other_types;

/* 0: this machine has none, and the tests are skipped. Without this function it is always there. */
int device_present(void) __attribute__((weak));
void device_open(void);
void device_close(void);
void *device_alloc(size_t length);
void device_free(void *ptr);
/* Of DEVICE_MANAGED_TYPE, if device_other_types has that. */
void *device_alloc_managed(size_t length);
void device_free_managed(void *ptr);
/* Memory of the device or of the host, at either end. */
void device_write(void *to, const void *from, size_t length);
/* From now on, once so many copies were made, all further ones fail; UINT64_MAX: none. */
void device_fail_after(uint64_t copies);
/* Copies made by the library. */
uint64_t device_copies(void);

#endif
