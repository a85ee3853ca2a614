/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory type of the exercise, for the tests of memory that the processor cannot read: its copies are counted, and
 * fail once there were enough of them. */
#include "mem/registry.h"

#include "device.h"
#include "mirror.h"

static uint64_t copies, left = UINT64_MAX;
static struct cw_md counting;

static ucs_status_t copy(const struct cw_md *md CW_UNUSED, void *to, const void *from, size_t length)
{
    if (left == 0) {
        return UCS_ERR_IO_ERROR;
    }
    left--;
    copies++;
    return mirror_md.copy(&mirror_md, to, from, length);
}

/* In place of src/mem/registry.c. */
const struct cw_md *const cw_mds[] = {&cw_md_host, &counting, NULL};

const int device_trusts = 0;
const int device_is_apart = 0;
const uint64_t device_other_types = 0;

void device_open(void)
{
    counting = mirror_md;
    counting.copy = copy;
    left = UINT64_MAX;
}

void device_close(void)
{
}

void *device_alloc(size_t length)
{
    const struct cw_memory_spec spec = {.length = length};
    struct cw_memory memory;

    return (mirror_md.allocate(&mirror_md, &spec, &memory) == UCS_OK) ? memory.ptr : NULL;
}

void device_free(void *ptr)
{
    struct cw_memory memory = {.ptr = ptr};

    mirror_md.release(&mirror_md, &memory);
}

void *device_alloc_managed(size_t length)
{
    (void)length;
    return NULL;
}

void device_free_managed(void *ptr)
{
    (void)ptr;
}

void device_write(void *to, const void *from, size_t length)
{
    (void)mirror_md.copy(&mirror_md, to, from, length);
}

void device_fail_after(uint64_t count)
{
    left = count;
}

uint64_t device_copies(void)
{
    return copies;
}
