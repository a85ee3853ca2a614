/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The function-like macros of the headers with every type of argument that a macro takes which casts it: pointers with
 * any qualifiers, to structures that the program does not know, to functions; integers; results of calls, which are
 * made once. Included by macros_c.c and macros_cxx.cc, each of which gives `check_all` its name; in C90 and C++98.
 */
#include <stdio.h>

#include <ucp/api/ucp.h>

struct unknown_request;
typedef void (*callback_type)(void);

static int num_calls;
static int num_failed;

static void *calls_of(void *value)
{
    num_calls++;
    return value;
}

static void check(int holds, const char *what, int line)
{
    if (!holds) {
        printf("FAILED in line %d: %s\n", line, what);
        num_failed++;
    }
}

#define CHECK(condition) check(condition, #condition, __LINE__)

/* One argument that is a request, and one of its type that is an error. */
#define CHECK_POINTER(request, error) \
    do { \
        CHECK(UCS_PTR_IS_PTR(request) && !UCS_PTR_IS_ERR(request)); \
        CHECK(!UCS_PTR_IS_PTR(error) && UCS_PTR_IS_ERR(error)); \
        CHECK(UCS_PTR_STATUS(request) == UCS_INPROGRESS); \
        CHECK(UCS_PTR_STATUS(error) == UCS_ERR_BUSY); \
        CHECK(UCS_PTR_RAW_STATUS(error) == UCS_ERR_BUSY); \
        CHECK(UCS_STATUS_IS_ERR(UCS_PTR_STATUS(error))); \
    } while (0)

#define CHECK_TYPE(type) CHECK_POINTER((type)(uintptr_t)0x1000, (type)(intptr_t)UCS_ERR_BUSY)

static void check_pointers(void)
{
    CHECK_TYPE(void *);
    CHECK_TYPE(const void *);
    CHECK_TYPE(volatile void *);
    CHECK_TYPE(const volatile void *);
    CHECK_TYPE(ucs_status_ptr_t);
    CHECK_TYPE(char *);
    CHECK_TYPE(const volatile int *);
    CHECK_TYPE(void **);
    CHECK_TYPE(struct unknown_request *);
    CHECK_TYPE(const struct unknown_request *);
    CHECK_TYPE(volatile struct unknown_request *);
    CHECK_TYPE(ucp_ep_h);
    CHECK_TYPE(ucp_worker_h);
    CHECK_TYPE(ucp_tag_message_h);
    CHECK_TYPE(callback_type);
    CHECK_TYPE(uintptr_t);
    CHECK_TYPE(intptr_t);
    CHECK_TYPE(long);
    CHECK_TYPE(unsigned long);
}

/* Of objects, with their qualifiers. */
static void check_objects(void)
{
    volatile struct unknown_request *const volatile request = (struct unknown_request *)0x1000;
    const void *volatile error = (void *)(intptr_t)UCS_ERR_BUSY;
    const int code = UCS_ERR_BUSY;

    CHECK_POINTER(request, error);
    CHECK(UCS_PTR_STATUS(code) == UCS_ERR_BUSY && UCS_PTR_IS_ERR(code));
    CHECK(UCS_PTR_STATUS(NULL) == UCS_OK && !UCS_PTR_IS_ERR(NULL) && !UCS_PTR_IS_PTR(NULL));
    CHECK(UCS_PTR_STATUS(0) == UCS_OK);
    num_calls = 0;
    CHECK(UCS_PTR_STATUS(calls_of(NULL)) == UCS_OK && num_calls == 1);
    CHECK(UCS_PTR_STATUS(num_calls > 0 ? calls_of((void *)0x1000) : NULL) == UCS_INPROGRESS && num_calls == 2);
}

static void check_statuses(void)
{
    const ucs_status_t status = UCS_ERR_BUSY;
    const volatile int number = UCS_ERR_BUSY;
    const signed char octet = UCS_ERR_BUSY;
    ucs_status_ptr_t result = UCS_STATUS_PTR(status);

    CHECK(UCS_PTR_STATUS(result) == status);
    CHECK(UCS_STATUS_PTR(number) == result && UCS_STATUS_PTR(octet) == result && UCS_STATUS_PTR(-15L) == result);
    CHECK(UCS_STATUS_PTR(UCS_OK) == NULL);
    CHECK(UCS_STATUS_IS_ERR(status) && UCS_STATUS_IS_ERR(number) && UCS_STATUS_IS_ERR(octet));
    CHECK(!UCS_STATUS_IS_ERR(UCS_OK) && !UCS_STATUS_IS_ERR(UCS_INPROGRESS) && UCS_STATUS_IS_ERR(-1L));
    CHECK(UCS_IS_LINK_ERROR(UCS_ERR_FIRST_LINK_FAILURE) && !UCS_IS_LINK_ERROR(number));
    CHECK(UCS_IS_ENDPOINT_ERROR(UCS_ERR_ENDPOINT_TIMEOUT) && !UCS_IS_ENDPOINT_ERROR(octet));
}

static void check_numbers(void)
{
    const unsigned char small = 3;
    const volatile short mid = 3;
    const int64_t large = 3;
    const size_t size = 3;

    CHECK(UCS_BIT(small) == 8 && UCS_BIT(mid) == 8 && UCS_BIT(large) == 8 && UCS_BIT(size) == 8);
    CHECK(UCS_BIT(UCS_MEMORY_TYPE_CUDA) == 2 && UCS_BIT(63) == (uint64_t)1 << 63);
    CHECK(UCS_MASK(small) == 7 && UCS_MASK(mid) == 7 && UCS_MASK(large) == 7 && UCS_MASK(size) == 7);
    CHECK(ucp_dt_make_contig(small) == 24 && ucp_dt_make_contig(mid) == 24 && ucp_dt_make_contig(large) == 24);
    CHECK(ucp_dt_make_contig(size) == 24 && ucp_dt_make_contig(sizeof(double)) == 64);
    CHECK(ucp_dt_make_iov() == UCP_DATATYPE_IOV);
    CHECK(UCP_VERSION(1, 23) == UCP_API_VERSION && UCP_VERSION(1u, small) == ((1u << 24) | (3u << 16)));
    CHECK(UCS_CPUELT(size) == 0 && UCS_CPUMASK(small) == 8 && UCS_CPUMASK(large) == 8);
}

static void check_addresses(void)
{
    const volatile struct unknown_request *const pointer = (struct unknown_request *)0x1000;
    const char *const end = (const char *)0x1010;

    CHECK(UCS_PTR_BYTE_OFFSET(pointer, (short)16) == (void *)0x1010);
    CHECK(UCS_PTR_BYTE_OFFSET(end, -16L) == (void *)0x1000);
    CHECK(UCS_PTR_BYTE_OFFSET((uintptr_t)0x1000, (size_t)16) == (void *)0x1010);
    CHECK(UCS_PTR_TYPE_OFFSET(pointer, uint64_t) == (void *)0x1008);
    CHECK(UCS_PTR_BYTE_DIFF(pointer, end) == 16);
    CHECK(UCS_PTR_BYTE_DIFF(end, (void *)0x1000) == -16);
}

static int check_every_macro(void)
{
    check_pointers();
    check_objects();
    check_statuses();
    check_numbers();
    check_addresses();
    return num_failed;
}
