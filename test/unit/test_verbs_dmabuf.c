/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the verbs transport registers memory, of GPUs above all: what it asks of libibverbs, which a list of functions
 * stands for, and what it makes of the answers.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "config/config.h"
#include "mem/md.h"
#include "transport/verbs/verbs.h"

#define GPUS    (CW_MEMORY_BIT(UCS_MEMORY_TYPE_CUDA) | CW_MEMORY_BIT(UCS_MEMORY_TYPE_ROCM))
#define ADDRESS ((void *)(uintptr_t)0x7f0000001200)

enum { LENGTH = 123456, FD = 77, OFFSET = 0x5200 };

static struct cw_verbs_library library;
static struct verbs_context calls = {.context = {.abi_compat = __VERBS_ABI_IS_EXTENDED}, .sz = sizeof(calls)};
static struct ibv_odp_caps odp;
static struct ibv_pd pd;
static struct ibv_mr mr = {.lkey = 1, .rkey = 2};
static unsigned modules;
static int answer; /* errno of a registration; 0: it succeeds */
static struct {
    unsigned calls, deregistered;
    int fd, access;
    uint64_t offset, address;
    size_t length;
} asked;

const struct cw_verbs_library *__wrap_cw_verbs_library(const char **why_p);
unsigned __wrap_cw_verbs_peer_memory(void);
struct ibv_context *__wrap_cw_verbs_device_open(const struct cw_verbs_library *lib,
                                                const struct cw_verbs_settings *settings, const char *name,
                                                struct cw_verbs_port *port);

const struct cw_verbs_library *__wrap_cw_verbs_library(const char **why_p)
{
    (void)why_p;
    return &library;
}

unsigned __wrap_cw_verbs_peer_memory(void)
{
    return modules;
}

struct ibv_context *__wrap_cw_verbs_device_open(const struct cw_verbs_library *lib,
                                                const struct cw_verbs_settings *settings, const char *name,
                                                struct cw_verbs_port *port)
{
    (void)lib, (void)settings, (void)name, (void)port;
    return &calls.context;
}

static int query_device_ex(struct ibv_context *of, const struct ibv_query_device_ex_input *input,
                           struct ibv_device_attr_ex *attr, size_t size)
{
    assert_ptr_equal(of, &calls.context);
    assert_null(input);
    assert_int_equal(size, sizeof(*attr));
    attr->odp_caps = odp;
    return answer;
}

static struct ibv_mr *reg_host(struct ibv_pd *of, void *address, size_t length, int access)
{
    assert_ptr_equal(of, &pd);
    assert_ptr_equal(address, ADDRESS);
    assert_int_equal(length, LENGTH);
    asked.access = access;
    return &mr;
}

static struct ibv_pd *alloc_pd(struct ibv_context *of)
{
    (void)of;
    return &pd;
}

static int dealloc_pd(struct ibv_pd *of)
{
    (void)of;
    return 0;
}

static int close_device(struct ibv_context *of)
{
    (void)of;
    return 0;
}

static int dereg_mr(struct ibv_mr *of)
{
    assert_ptr_equal(of, &mr);
    asked.deregistered++;
    return 0;
}

static struct ibv_mr *reg_dmabuf(struct ibv_pd *of, uint64_t offset, size_t length, uint64_t address, int fd,
                                 int access)
{
    assert_ptr_equal(of, &pd);
    asked.calls++;
    asked.fd = fd;
    asked.access = access;
    asked.offset = offset;
    asked.address = address;
    asked.length = length;
    errno = answer;
    return (answer == 0) ? &mr : NULL;
}

static unsigned on_demand; /* UCX_REG_NONBLOCK_MEM_TYPES */

static struct cw_domain *open_domain(void)
{
    const struct cw_config config = {.ib_pkey = "auto", .reg_nonblock_mem_types = on_demand};
    struct cw_domain *domain = NULL;

    assert_int_equal(cw_verbs_domain_kind.open(&config, "mlx5_0:1", &domain), UCS_OK);
    return domain;
}

static int setup(void **state)
{
    (void)state;
    library = (struct cw_verbs_library){.alloc_pd = alloc_pd,
                                   .dealloc_pd = dealloc_pd,
                                   .close_device = close_device,
                                   .dereg_mr = dereg_mr,
                                   .reg_dmabuf_mr = reg_dmabuf};
    modules = 0;
    answer = 0;
    memset(&asked, 0, sizeof(asked));
    return 0;
}

/* Types of memory follow from the library and from the kernel's modules. */
TEST_WITH(test_types, setup, NULL)
{
    static const struct {
        int has_dmabuf;
        unsigned modules;
        uint64_t by_dmabuf, by_address;
    } rows[] = {{0, 0, 0, 0},
                {1, 0, GPUS, 0},
                {0, CW_VERBS_PEER_NVIDIA, 0, CW_MEMORY_BIT(UCS_MEMORY_TYPE_CUDA)},
                {0, CW_VERBS_PEER_AMD, 0, CW_MEMORY_BIT(UCS_MEMORY_TYPE_ROCM)},
                {1, CW_VERBS_PEER_NVIDIA | CW_VERBS_PEER_AMD, GPUS, GPUS}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct cw_domain *domain;

        library.reg_dmabuf_mr = rows[i].has_dmabuf ? reg_dmabuf : NULL; /* as of rdma-core before 34 */
        modules = rows[i].modules;
        domain = open_domain();
        assert_int_equal(domain->attr.by_dmabuf, rows[i].by_dmabuf);
        assert_int_equal(domain->attr.by_address, rows[i].by_address);
        assert_int_equal(domain->attr.memory_types,
                         CW_MEMORY_BIT(UCS_MEMORY_TYPE_HOST) | rows[i].by_dmabuf | rows[i].by_address);
        domain->kind->close(domain);
    }
}

static ucs_status_t reg(struct cw_domain *domain, unsigned rights, struct cw_memh **memh_p)
{
    const struct cw_md_dmabuf dmabuf = {.fd = FD, .offset = OFFSET};

    return domain->kind->reg_dmabuf(domain, &dmabuf, ADDRESS, LENGTH, rights, memh_p);
}

/* The device gets the bytes that are meant, under the program's address, with the rights that are wanted. */
TEST_WITH(test_registering, setup, NULL)
{
    static const struct {
        unsigned rights;
        int access;
    } rows[] = {{CW_RIGHT_REMOTE_READ, IBV_ACCESS_REMOTE_READ},
                                {CW_RIGHT_LOCAL_WRITE, IBV_ACCESS_LOCAL_WRITE},
                                {CW_RIGHT_REMOTE_WRITE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE}};
    struct cw_domain *domain = open_domain();
    uint8_t part[4] = {0};
    struct cw_memh *memh;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(reg(domain, rows[i].rights, &memh), UCS_OK);
        assert_int_equal(asked.fd, FD);
        assert_int_equal(asked.offset, OFFSET);
        assert_int_equal(asked.length, LENGTH);
        assert_int_equal(asked.address, (uintptr_t)ADDRESS);
        assert_int_equal(asked.access, rows[i].access);
        assert_int_equal(memh->rights, rows[i].rights);
        domain->kind->write_part(memh, part);
        assert_memory_equal(part, ((uint8_t[]){0, 0, 0, 2}), 4);
        domain->kind->dereg(memh);
    }
    assert_int_equal(asked.deregistered, asked.calls);
    domain->kind->close(domain);
}

/* The errors tell apart what cannot work on this device, what may work later, and what is wrong with this memory. */
TEST_WITH(test_refusals, setup, NULL)
{
    static const struct {
        int error;
        ucs_status_t status;
    } rows[] = {
        {EOPNOTSUPP, UCS_ERR_UNSUPPORTED}, {ENOSYS, UCS_ERR_UNSUPPORTED}, {EPROTONOSUPPORT, UCS_ERR_UNSUPPORTED},
        {ENOMEM, UCS_ERR_NO_MEMORY},       {EAGAIN, UCS_ERR_NO_MEMORY},   {EINVAL, UCS_ERR_INVALID_ADDR},
        {EFAULT, UCS_ERR_INVALID_ADDR}};
    struct cw_domain *domain = open_domain();
    struct cw_memh *memh;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        answer = rows[i].error;
        assert_int_equal(reg(domain, CW_RIGHT_REMOTE_READ, &memh), rows[i].status);
    }
    assert_int_equal(asked.deregistered, 0);
    domain->kind->close(domain);
}

/* The host's memory is paged on demand where the user wants that and the device can do it for all that is done with the
 * memory; what the program maps stays pinned (N22-40, N22-44). */
TEST_WITH(test_on_demand, setup, NULL)
{
    enum { MESSAGES = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_WRITE, ALL = 0x1f };
    static const struct {
        unsigned wanted, general, rc;
        int has_call, answer, on_demand, pages_atomics;
    } rows[] = {{1, 1, ALL, 1, 0, 1, 1}, {1, 1, MESSAGES, 1, 0, 1, 0},
                {0, 1, ALL, 1, 0, 0, 0}, {2, 1, ALL, 1, 0, 0, 0}, /* memory of a GPU alone is named */
                {1, 0, ALL, 1, 0, 0, 0}, {1, 1, ALL & ~IBV_ODP_SUPPORT_READ, 1, 0, 0, 0},
                {1, 1, ALL, 1, EOPNOTSUPP, 0, 0}, {1, 1, ALL, 0, 0, 0, 0}};
    struct cw_memh *memh;

    library.reg_mr = reg_host;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const int paged = rows[i].on_demand ? IBV_ACCESS_ON_DEMAND : 0;
        const int atomics = rows[i].pages_atomics ? IBV_ACCESS_ON_DEMAND : 0;
        struct cw_domain *domain;

        on_demand = rows[i].wanted;
        answer = rows[i].answer;
        calls.query_device_ex = rows[i].has_call ? query_device_ex : NULL;
        odp = (struct ibv_odp_caps){.general_caps = rows[i].general, .per_transport_caps = {.rc_odp_caps = rows[i].rc}};
        domain = open_domain();
        assert_int_equal(domain->attr.on_demand, rows[i].on_demand);
        assert_int_equal(domain->kind->reg(domain, ADDRESS, LENGTH, CW_RIGHT_REMOTE_READ, &memh), UCS_OK);
        assert_int_equal(asked.access, IBV_ACCESS_REMOTE_READ | paged);
        domain->kind->dereg(memh);
        assert_int_equal(domain->kind->reg(domain, ADDRESS, LENGTH, CW_RIGHT_REMOTE_ATOMIC, &memh), UCS_OK);
        assert_int_equal(asked.access, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC | atomics);
        domain->kind->dereg(memh);
        assert_int_equal(domain->kind->reg(domain, ADDRESS, LENGTH, CW_RIGHT_REMOTE_READ | CW_RIGHT_PINNED, &memh),
                         UCS_OK);
        assert_int_equal(asked.access, IBV_ACCESS_REMOTE_READ);
        domain->kind->dereg(memh);
        domain->kind->close(domain);
    }
    on_demand = 0;
}
