/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * No memory: each allocation of each configuration call fails once; the call says so, nothing leaks, nothing changes,
 * and the next attempt works. To be linked with --wrap for malloc, calloc and realloc; without it the tests are
 * skipped.
 */
#include "test_config_child.h"

#include "config/global.h"
#include "config/table.h"

static long fail_after; /* allocations that succeed before the one that fails; negative: none fails */

void *__real_malloc(size_t size) __attribute__((weak));
void *__real_calloc(size_t count, size_t size) __attribute__((weak));
void *__real_realloc(void *ptr, size_t size) __attribute__((weak));
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *ptr, size_t size);

static int allowed(void)
{
    if (fail_after < 0) {
        return 1;
    }
    return fail_after-- > 0;
}

void *__wrap_malloc(size_t size)
{
    return allowed() ? __real_malloc(size) : NULL;
}

void *__wrap_calloc(size_t count, size_t size)
{
    return allowed() ? __real_calloc(count, size) : NULL;
}

void *__wrap_realloc(void *ptr, size_t size)
{
    return allowed() ? __real_realloc(ptr, size) : NULL;
}

static void begin(void)
{
    fail_after = -1;
    if (__real_malloc == NULL) {
        skip();
    }
}

static struct cw_config *with_memory(void)
{
    struct cw_config *config;

    fail_after = -1;
    child_check(cw_config_read("MPI", "own.conf", &config) == UCS_OK);
    return config;
}

/* The first reading, that of ucx.conf and of the settings of the process included; each count in a process of its
 * own. */
static long first_reading_count;

static void body_first_read(void)
{
    struct cw_config *config = NULL;
    ucs_status_t status;

    child_write_file("ucx.conf", "UCX_SEG_SIZE=1k\nUCX_NET_DEVICES=a,b\n");
    child_write_file("own.conf", "UCX_TLS=^x,y\n");
    child_check(setenv("UCX_SHM_DEVICES", "memory", 1) == 0 && setenv("MPI_UCX_POSIX_DIR", "/tmp", 1) == 0);
    fail_after = first_reading_count;
    status = cw_config_read("MPI", "own.conf", &config);
    fail_after = -1;
    if (status == UCS_OK) {
        cw_config_free(config);
        exit(0);
    }
    child_check(status == UCS_ERR_NO_MEMORY && config == NULL);
    config = with_memory(); /* nothing is left half done */
    child_check(strcmp(config->retained[CW_NAME_SEG_SIZE], "1k") == 0);
    child_check(config->net_devices.count == 2 && config->tls.list.count == 2);
    child_check(strcmp(config->posix_dir, "/tmp") == 0);
    cw_config_free(config);
    (void)puts("failed");
}

TEST(test_first_reading)
{
    begin();
    for (first_reading_count = 0; first_reading_count < 2000; ++first_reading_count) {
        child_run(body_first_read);
        if (child_count("failed") == 0) {
            break;
        }
    }
    assert_in_range(first_reading_count, 30, 1999);
}

static void body_clone(void)
{
    struct cw_config *config;
    struct cw_config *clone = NULL;
    ucs_status_t status = UCS_ERR_NO_MEMORY;
    long count;

    config = with_memory();
    child_check(cw_config_modify(config, "FC_WND_SIZE", "1") == UCS_OK);
    child_check(cw_config_modify(config, "TLS", "a,b") == UCS_OK);
    for (count = 0; status != UCS_OK; ++count) {
        fail_after = count;
        status = cw_config_clone(config, &clone);
        child_check(status == UCS_OK || (status == UCS_ERR_NO_MEMORY && clone == NULL));
    }
    fail_after = -1;
    child_check(count > 20);
    cw_config_free(clone);
    cw_config_free(config);
}

TEST(test_clone)
{
    begin();
    child_run(body_clone);
}

static void body_modify(void)
{
    static const char *const changes[][2] = {{"TLS", "a,b"}, {"POSIX_DIR", "/x"}, {"FC_WND_SIZE", "1"},
                                             {"AF_PRIO", "inet"}, {"FENCE_MODE", "x"},
                                             {"RNDV_FRAG_SIZE", "host:1k"}, {"LOG_FILE_FILTER", "a*"},
                                             {"NET_DEVICES", "eth0"}, {"FC_WND_SIZE", "2"}};
    struct cw_config *config = with_memory();
    ucs_status_t status;
    char *before;
    size_t length;
    FILE *stream;
    size_t i;
    long count;

    for (i = 0; i < sizeof(changes) / sizeof(changes[0]); ++i) {
        status = UCS_ERR_NO_MEMORY;
        for (count = 0; status != UCS_OK; ++count) {
            fail_after = count;
            status = cw_config_modify(config, changes[i][0], changes[i][1]);
            fail_after = -1;
            child_check(status == UCS_OK || status == UCS_ERR_NO_MEMORY);
            stream = open_memstream(&before, &length);
            child_check(stream != NULL);
            cw_config_print_groups(config, stream, NULL, UCS_CONFIG_PRINT_CONFIG, CW_GROUPS_ALL);
            child_check(fclose(stream) == 0);
            child_check((strstr(before, changes[i][1]) != NULL) >= (status == UCS_OK));
            free(before);
        }
        child_check(count >= 2);
    }
    cw_config_free(config);
}

TEST(test_modify)
{
    begin();
    child_run(body_modify);
}

/* Printing and warning go on with what they have. */
static void body_print_and_warn(void)
{
    struct cw_config *config;
    FILE *stream = fopen("/dev/null", "w");
    ucs_status_t status;
    char prefix[32];
    long count;

    child_check(stream != NULL && setenv("UCX_TSL", "1", 1) == 0);
    for (count = 0; count < 60; ++count) {
        (void)snprintf(prefix, sizeof(prefix), "P%ld", count);
        fail_after = -1;
        child_check(cw_config_read(prefix, NULL, &config) == UCS_OK);
        child_check(cw_config_modify(config, "FC_WND_SIZE", "1") == UCS_OK);
        fail_after = count;
        cw_config_print_groups(config, stream, "t", (ucs_config_print_flags_t)31, CW_GROUPS_ALL);
        fail_after = count;
        cw_config_warn_unused(config);
        fail_after = count;
        fail_after = count;
        status = cw_config_modify(config, "TLS", "all,x");
        child_check(status == UCS_ERR_INVALID_PARAM || status == UCS_ERR_NO_MEMORY);
        fail_after = -1;
        cw_config_free(config);
    }
    child_check(fclose(stream) == 0);
}

TEST(test_print_and_warn)
{
    begin();
    child_run(body_print_and_warn);
}
