/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Host memory. Memory allocated to be shared has a page of words behind it, the trailer (os/memory.h), which confirms
 * the keys that name the memory. A peer reaches all other memory through the target, or by copies of the kernel.
 */
#include "base/bytes.h"
#include "base/log.h"
#include "mem/md.h"
#include "os/host.h"

/* Words of the trailer. The first one is nonzero while the region is registered. */
enum { TRAILER_TOKEN, TRAILER_ADDRESS, TRAILER_RIGHTS };

static void host_query(const struct cw_md *md CW_UNUSED, struct cw_md_attr *attr)
{
    *attr = (struct cw_md_attr){.allocates = CW_MEMORY_BIT(UCS_MEMORY_TYPE_HOST),
                               .registers = CW_MEMORY_BIT(UCS_MEMORY_TYPE_HOST),
                               .copies = CW_MEMORY_BIT(UCS_MEMORY_TYPE_HOST),
                               .key_length = sizeof(struct cw_md_part)};
}

static ucs_status_t host_allocate(const struct cw_md *md CW_UNUSED, const struct cw_memory_spec *spec,
                                  struct cw_memory *memory)
{
    return cw_memory_allocate(spec, memory);
}

static void host_release(const struct cw_md *md CW_UNUSED, struct cw_memory *memory)
{
    cw_memory_release(memory);
}

static ucs_status_t host_register(const struct cw_md *md CW_UNUSED, void *address, size_t length)
{
    (void)address, (void)length; /* the kernel pages the memory in on access */
    return UCS_OK;
}

static void host_deregister(const struct cw_md *md CW_UNUSED, void *address, size_t length)
{
    (void)address, (void)length;
}

static int host_publish(const struct cw_md *md CW_UNUSED, struct cw_memory *memory, const struct cw_md_label *label,
                        struct cw_md_part *part)
{
    if (memory->trailer == NULL) {
        return 0;
    }
    *part = (struct cw_md_part){.system = cw_host_pidns_id(),
                                .pid = cw_memory_process(),
                                .fd = (uint32_t)memory->fd};
    memory->trailer[TRAILER_ADDRESS] = label->address;
    memory->trailer[TRAILER_RIGHTS] = label->rights;
    __atomic_store_n(&memory->trailer[TRAILER_TOKEN], label->token, __ATOMIC_RELEASE);
    return 1;
}

/* A forked child shares the trailer with its parent, whose region stays registered. */
static void host_withdraw(const struct cw_md *md CW_UNUSED, struct cw_memory *memory, const struct cw_md_part *part)
{
    if (memory->trailer != NULL && part->pid == cw_memory_process()) {
        __atomic_store_n(&memory->trailer[TRAILER_TOKEN], 0, __ATOMIC_RELEASE);
    }
}

static int confirms(const struct cw_memory *memory, const struct cw_md_label *label)
{
    return __atomic_load_n(&memory->trailer[TRAILER_TOKEN], __ATOMIC_ACQUIRE) == label->token &&
           memory->trailer[TRAILER_ADDRESS] == label->address && memory->trailer[TRAILER_RIGHTS] == label->rights;
}

static ucs_status_t host_attach(const struct cw_md *md CW_UNUSED, const struct cw_md_part *part,
                                const struct cw_md_label *label, uint64_t length, struct cw_memory *memory,
                                const uint64_t **valid_p)
{
    ucs_status_t status;

    if (part->system != cw_host_pidns_id()) {
        return UCS_ERR_UNREACHABLE;
    }
    status = cw_memory_open(part->pid, part->fd, length, memory);
    if (status != UCS_OK) {
        return status;
    }
    if (!confirms(memory, label)) {
        cw_debug("memory of process %u does not match its key", part->pid);
        cw_memory_release(memory);
        return UCS_ERR_UNREACHABLE;
    }
    *valid_p = &memory->trailer[TRAILER_TOKEN];
    return UCS_OK;
}

static ucs_memory_type_t host_type_of(const struct cw_md *md CW_UNUSED, const void *ptr, size_t length)
{
    (void)ptr, (void)length; /* all memory that no other domain recognizes */
    return UCS_MEMORY_TYPE_HOST;
}

static ucs_status_t host_copy(const struct cw_md *md CW_UNUSED, void *to, const void *from, size_t length)
{
    cw_bytes_copy_any(to, from, length);
    return UCS_OK;
}

const struct cw_md cw_md_host = {
    .name = "host",
    .query = host_query,
    .allocate = host_allocate,
    .release = host_release,
    .reg = host_register,
    .dereg = host_deregister,
    .publish = host_publish,
    .withdraw = host_withdraw,
    .attach = host_attach,
    .type_of = host_type_of,
    .copy = host_copy,
};
