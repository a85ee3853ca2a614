/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Warnings about what nothing reads (CFG-7, CFG-41 .. CFG-43), and which names are known.
 */
#include "test_config_child.h"

#include <pthread.h>

#include "base/log.h"
#include "config/global.h"
#include "config/table.h"

static void read_and_warn(const char *prefix, const char *filename)
{
    struct cw_config *config;

    child_check(cw_config_read(prefix, filename, &config) == UCS_OK);
    cw_config_warn_unused(config);
    cw_config_free(config);
}

static void body_cfg41(void)
{
    child_write_file("ucx.conf", "UCX_IN_FILE_ONLY=1\nUCX_NO_SUCH_THING=1\n");
    child_check(setenv("UCX_NO_SUCH_THING", "1", 1) == 0);
    child_check(setenv("UCX_TSL", "tcp", 1) == 0 && setenv("UCX_RNDV_TRESH", "1", 1) == 0);
    child_check(setenv("UCX_TLS", "all", 1) == 0 && setenv("NOT_UCX_TSL", "1", 1) == 0);
    read_and_warn(NULL, NULL);
    read_and_warn(NULL, NULL); /* once per process and prefix */
    read_and_warn("", NULL);
}

TEST(test_cfg41_unused_variables_once_with_a_guess)
{
    child_run(body_cfg41);
    assert_int_equal(child_count("WARN  unused environment variables: "), 1);
    assert_int_equal(child_count("UCX_NO_SUCH_THING"), 1);
    assert_int_equal(child_count("UCX_TSL (maybe: UCX_TLS?)"), 1);
    assert_int_equal(child_count("UCX_RNDV_TRESH (maybe: UCX_RNDV_THRESH?)"), 1);
    assert_int_equal(child_count("unused in configuration files: UCX_IN_FILE_ONLY in './ucx.conf' at line 1\n"), 1);
    assert_int_equal(child_count("UCX_IN_FILE_ONLY"), 1);
    assert_int_equal(child_count("; "), 2);
    assert_int_equal(child_count("WARN  (set UCX_WARN_UNUSED_ENV_VARS=n to suppress this warning)\n"), 1);
    assert_int_equal(child_count("NOT_UCX_TSL"), 0);
}

static void body_cfg41_prefix(void)
{
    child_check(setenv("UCX_TSL", "1", 1) == 0 && setenv("MPI_UCX_NET_DEVICE", "1", 1) == 0);
    child_check(setenv("UCX_MPI_TLSS", "1", 1) == 0 && setenv("UCX_MPI_SEG_SIZE", "1k", 1) == 0);
    child_check(setenv("MPI_UCX_SEG_SIZE", "2k", 1) == 0 && setenv("MPI_UCX_LOG_LEVEL", "info", 1) == 0);
    child_write_file("own.conf", "UCX_OWN_FILE=1\n");
    read_and_warn("MPI", "own.conf");
    read_and_warn("MPI", NULL);
    read_and_warn(NULL, NULL);
}

TEST(test_cfg41_each_prefix_once)
{
    child_run(body_cfg41_prefix);
    assert_int_equal(child_count("MPI_UCX_NET_DEVICE (maybe: MPI_UCX_NET_DEVICES?)"), 1);
    assert_int_equal(child_count("UCX_TSL (maybe: UCX_TLS?)"), 2);
    assert_int_equal(child_count("UCX_OWN_FILE"), 1);
    /* Settings of the process have no prefix. */
    assert_int_equal(child_count("MPI_UCX_LOG_LEVEL (maybe: UCX_LOG_LEVEL?)"), 1);
    assert_int_equal(child_count("SEG_SIZE"), 0);
    assert_int_equal(child_count("unused environment variable"), 2);
}

static void body_cfg41_one(void)
{
    child_check(setenv("UCX_TSL", "1", 1) == 0);
    read_and_warn(NULL, NULL);
}

TEST(test_cfg41_singular)
{
    child_run(body_cfg41_one);
    assert_int_equal(child_count("WARN  unused environment variable: UCX_TSL (maybe: UCX_TLS?)\n"), 1);
}

static void body_cfg41_file(void)
{
    child_write_file("ucx.conf", "# mine\n\nUCX_TSL=tcp\nUCX_TLS=all\nUCX_NOTHING=1\n");
    read_and_warn(NULL, NULL);
}

/* A name in a file is not called an environment variable, and the line is named. */
TEST(test_cfg41_names_in_files)
{
    child_run(body_cfg41_file);
    assert_int_equal(child_count("UCX_TSL in './ucx.conf' at line 3 (maybe: UCX_TLS?); UCX_NOTHING in './ucx.conf' at "
                                 "line 5\n"), 1);
    assert_int_equal(child_count("environment variable"), 0);
    assert_int_equal(child_count("WARN  (set UCX_WARN_UNUSED_ENV_VARS=n to suppress this warning)\n"), 1);
}

static void body_cfg41_silenced(void)
{
    child_check(setenv("UCX_TSL", "1", 1) == 0 && setenv("UCX_SOCKADDR_AUX_TLS", "1", 1) == 0);
    child_check(setenv("UCX_WARN_UNUSED_ENV_VARS", "n", 1) == 0);
    read_and_warn(NULL, NULL);
}

TEST(test_cfg41_can_be_silenced)
{
    child_run(body_cfg41_silenced);
    assert_string_equal(child_output, "");
}

static void body_cfg42(void)
{
    child_check(setenv("UCX_TLS", "all", 1) == 0 && setenv("UCX_LOG_LEVEL", "info", 1) == 0);
    child_check(setenv("MPI_UCX_SEG_SIZE", "1k", 1) == 0);
    read_and_warn("MPI", NULL);
}

TEST(test_cfg42_used_variables_at_info)
{
    child_run(body_cfg42);
    assert_int_equal(child_count("INFO  UCX_* variables used: "), 1);
    assert_int_equal(child_count("UCX_TLS"), 1);
    assert_int_equal(child_count("MPI_UCX_SEG_SIZE"), 1);
    assert_int_equal(child_count("UCX_LOG_LEVEL"), 1);
    assert_int_equal(child_count("WARN"), 0);
}

TEST(test_cfg7_cfg43_known_names)
{
    static const char *const known[] = {
        "CONFIG_DIR", "TLS", "MAX_EAGER_LANES", "SOCKADDR_AUX_TLS", "TCP_MAX_SHORT", "LOG_LEVEL", "STATS_DEST",
        "IB_GID_INDEX", "RC_TX_QUEUE_LEN", "RC_MLX5_TM_ENABLE", "UD_TIMEOUT", "DC_TX_POLICY", "CUDA_IPC_CACHE",
        "CUDA_COPY_DMABUF", "ROCM_COPY_D2H_THRESH", "KNEM_REG_GROWTH", "XPMEM_BW", "GDR_COPY_RCACHE_OVERHEAD",
        "RDMA_CM_TIMEOUT", "MM_FIFO_SIZE", "MM_BW", "SYSV_ERROR_HANDLING", "POSIX_ALLOC", "TCP_RX_MAX_BUFS",
        "MEMTYPE_CACHE", "MEM_MALLOC_HOOKS", "SOCKADDR_CM_ENABLE", "RECOVERY_RETRIES", "MIN_RMA_CHUNK_SIZE",
        "ASYNC_MAX_EVENTS", "RC_TX_INLINE_RESP", "USE_MT_MUTEX", "TCP_CM_REUSEADDR", "PROFILE_MODE",
        /* Of several transports at once */
        "ALLOC", "SM_BW", "SCOPY_MAX_IOV", "SCOPY_SEG_SIZE", "MM_HUGETLB_MODE", "CM_REUSEADDR", "CM_FAILURE",
        "MM_ALLOC", "MM_SEND_OVERHEAD", "MM_RX_MAX_BUFS", "MM_RX_GROW_FACTOR"};
    static const char *const unknown[] = {"", "TSL", "tls", "TLS ", "IB", "IB_", "TX_SEG_SIZE", "MM_DIR", "FAILURE",
                                          "UCX_TLS", "TIMEOUT", "SM_FIFO_SIZE", "CM_TIMEOUT", "SCOPY_"};
    size_t i;

    for (i = 0; i < sizeof(known) / sizeof(known[0]); ++i) {
        if (!cw_setting_is_known(known[i])) {
            fail_msg("%s is not known", known[i]);
        }
    }
    for (i = 0; i < sizeof(unknown) / sizeof(unknown[0]); ++i) {
        if (cw_setting_is_known(unknown[i])) {
            fail_msg("'%s' is known", unknown[i]);
        }
    }
    assert_true(cw_setting_is_known_key("TX_SEG_SIZE"));
    assert_true(cw_setting_is_known_key("FAILURE"));
    assert_true(cw_setting_is_known_key("LOG_LEVEL"));
    assert_false(cw_setting_is_known_key("LOG_FILE"));
    assert_false(cw_setting_is_known_key("NONSENSE"));
}

TEST(test_guesses)
{
    assert_string_equal(cw_setting_guess("NET_DEVICE"), "NET_DEVICES");
    assert_string_equal(cw_setting_guess("RNDV_THERSH"), "RNDV_THRESH");
    assert_string_equal(cw_setting_guess("LOGLEVEL"), "LOG_LEVEL");
    assert_string_equal(cw_setting_guess("TCP_PORTRANGE"), "TCP_PORT_RANGE");
    assert_null(cw_setting_guess("COMPLETELY_DIFFERENT"));
    assert_null(cw_setting_guess("FOO"));
    assert_null(cw_setting_guess(""));
    assert_int_equal(cw_string_distance("abc", "abc", 3), 0);
    assert_int_equal(cw_string_distance("abc", "acb", 3), 1);
    assert_int_equal(cw_string_distance("abc", "", 3), 3);
    assert_int_equal(cw_string_distance("abcd", "", 3), 4);
    assert_int_equal(cw_string_distance("kitten", "sitting", 3), 3);
}

/* No name stands for two things, and every alias leads somewhere. */
TEST(test_names_are_unique)
{
    const struct cw_setting_retired *retired;
    const struct cw_setting_alias *alias;
    size_t i;
    size_t j;

    for (i = 0; i < CW_SETTING_COUNT; ++i) {
        for (j = i + 1; j < CW_SETTING_COUNT; ++j) {
            assert_string_not_equal(cw_settings[i].name, cw_settings[j].name);
        }
        assert_null(cw_setting_find_global(cw_settings[i].name));
        assert_null(cw_setting_find_retired(cw_settings[i].name));
    }
    for (alias = cw_setting_aliases; alias->name != NULL; ++alias) {
        assert_non_null(cw_setting_find(alias->target));
        assert_string_equal(cw_setting_find(alias->name)->name, alias->target);
    }
    for (retired = cw_setting_retired_names, i = 0; retired->name != NULL; ++retired, ++i) {
    }
    assert_true(i <= 64); /* one bit each, see warn_retired */
}

/* Several threads with objects of their own, and the settings of the process in between. */
static void *thread_main(void *arg)
{
    struct cw_config *config;
    struct cw_config *clone;
    int round;

    (void)arg;
    for (round = 0; round < 20; ++round) {
        child_check(cw_config_read("MPI", "own.conf", &config) == UCS_OK);
        child_check(cw_config_modify(config, "LOG_LEVEL", (round % 2 == 0) ? "error" : "warn") == UCS_OK);
        child_check(cw_config_modify(config, "TLS", "tcp") == UCS_OK);
        child_check(cw_config_clone(config, &clone) == UCS_OK);
        cw_config_warn_unused(config);
        cw_config_free(config);
        (void)cw_config_global_warns_unused();
        cw_config_free(clone);
    }
    return NULL;
}

static void body_threads(void)
{
    pthread_t threads[4];
    size_t i;

    child_write_file("ucx.conf", "UCX_SEG_SIZE=1k\n");
    child_write_file("own.conf", "UCX_NUM_EPS=1\n");
    for (i = 0; i < 4; ++i) {
        child_check(pthread_create(&threads[i], NULL, thread_main, NULL) == 0);
    }
    for (i = 0; i < 4; ++i) {
        child_check(pthread_join(threads[i], NULL) == 0);
    }
}

TEST(test_several_threads)
{
    child_run(body_threads);
    assert_string_equal(child_output, "");
}
