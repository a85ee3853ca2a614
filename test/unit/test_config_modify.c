/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changing a configuration (CFG-15 .. CFG-22, R12, N22-130, N22-136): every known name, unknown names,
 * malformed values, random bytes.
 */
#include "test_config_child.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "config/global.h"
#include "config/table.h"
#include "test_random.h"

static struct cw_config *new_config(void)
{
    struct cw_config *config;

    child_check(cw_config_read(NULL, NULL, &config) == UCS_OK);
    return config;
}

#define is_retained(config, name, text) (strcmp((config)->retained[CW_NAME_##name], text) == 0)

static void body_cfg15(void)
{
    struct cw_config *config = new_config();

    child_check(cw_config_modify(config, "TLS", "tcp,self") == UCS_OK);
    child_check(config->tls.mode == CW_LIST_ALLOW && config->tls.list.count == 2);
    child_check(cw_config_modify(config, "RNDV_THRESH", "inf") == UCS_OK);
    child_check(config->rndv_thresh.inter == CW_MEMUNITS_INF && config->rndv_thresh.intra == CW_MEMUNITS_INF);
    child_check(cw_config_modify(config, "RNDV_THRESH", "much") == UCS_ERR_INVALID_PARAM);
    child_check(config->rndv_thresh.inter == CW_MEMUNITS_INF); /* the previous value is kept */
    child_check(cw_config_modify(config, "TLS", "all,tcp") == UCS_ERR_INVALID_PARAM);
    child_check(config->tls.list.count == 2);
    child_check(cw_config_modify(config, NULL, "x") == UCS_ERR_INVALID_PARAM);
    child_check(cw_config_modify(config, "TLS", NULL) == UCS_ERR_INVALID_PARAM);
    child_check(config->pairs == NULL);
    cw_config_free(config);
}

TEST(test_cfg15_option_of_the_context)
{
    child_run(body_cfg15);
    assert_int_equal(child_count("ERROR invalid value for RNDV_THRESH: 'much', expected: memory size"), 1);
    assert_int_equal(child_count("ERROR"), 4);
}

static void body_cfg16(void)
{
    struct cw_config *config = new_config();

    child_check(cw_config_modify(config, "LOG_LEVEL", "trace") == UCS_OK);
    child_check(cw_log_get_level() == CW_LOG_TRACE);
    child_check(cw_config_modify(config, "LOG_LEVEL", "loud") == UCS_ERR_INVALID_PARAM);
    child_check(cw_log_get_level() == CW_LOG_TRACE);
    child_check(cw_config_modify(config, "WARN_UNUSED_ENV_VARS", "n") == UCS_OK);
    child_check(!cw_config_global_warns_unused());
    child_check(cw_config_modify(config, "HANDLE_ERRORS", "none") == UCS_OK);
    child_check(cw_config_modify(config, "LOG_FILE", "/nonexistent/x") == UCS_ERR_INVALID_PARAM); /* read-only */
    child_check(config->pairs == NULL);
    cw_config_free(config);
}

TEST(test_cfg16_globals_are_set_at_once)
{
    child_run(body_cfg16);
    assert_int_equal(child_count("ERROR invalid value for LOG_LEVEL: 'loud', expected: one of FATAL"), 1);
    assert_int_equal(child_count("ERROR cannot modify the configuration: UCX_LOG_FILE is read once"), 1);
}

static void body_n22_130(void)
{
    static const char *const known[] = {"MAX_HCA_PER_GPU", "RC_GDA_NUM_CHANNELS", "RNDV_PIPELINE_ERROR_HANDLING",
                                        "MAX_COMPONENT_MDS",
                                        "EXTRA_OP_ATTR_FLAGS", "REG_NONBLOCK_FALLBACK", "GVA_ENABLE",
                                        "TCP_EP_BIND_SRC_ADDR", "PLUGIN_PATH", "MM_SEND_OVERHEAD",
                                        "IB_SEND_OVERHEAD", "RMA_PPLN_ENABLE"};
    struct cw_config *config = new_config();
    struct cw_config *clone;
    size_t i;

    child_check(cw_config_modify(config, "A", "1") == UCS_ERR_INVALID_PARAM);
    child_check(cw_config_modify(config, "", "1") == UCS_ERR_INVALID_PARAM);
    child_check(cw_config_modify(config, "RNDV_TRESH", "1") == UCS_ERR_INVALID_PARAM);
    child_check(config->pairs == NULL);
    for (i = 0; i < sizeof(known) / sizeof(known[0]); ++i) {
        child_check(cw_config_modify(config, known[i], "anything") == UCS_OK);
    }
    child_check(cw_config_modify(config, "RC_GDA_NUM_CHANNELS", "2") == UCS_OK); /* replaces */
    child_check(cw_config_clone(config, &clone) == UCS_OK);
    child_check(strcmp(clone->pairs->value, "2") == 0);
    cw_config_free(clone);
    cw_config_free(config);
}

/* CFG-19, N22-131, N22-132. */
TEST(test_n22_130_unknown_names_are_refused)
{
    child_run(body_n22_130);
    assert_int_equal(child_count("ERROR cannot modify the configuration: unknown setting 'A'\n"), 1);
    assert_int_equal(child_count("unknown setting 'RNDV_TRESH' (maybe: RNDV_THRESH?)\n"), 1);
    assert_int_equal(child_count("ERROR"), 3);
    assert_int_equal(child_count("WARN"), 0);
}

static void body_n22_136(void)
{
    struct cw_config *config = new_config();
    struct cw_config *read;
    char path[] = "/tmp/test_config_modify.XXXXXX";
    FILE *file;

    child_check(cw_config_modify(config, "TCP_?X_SEG_SIZE", "16k") == UCS_OK);
    child_check(config->tcp_tx_seg_size == 16384 && config->tcp_rx_seg_size == 16384);
    child_check(cw_config_modify(config, "*_FAILURE", "ERROR") == UCS_OK);
    child_check(config->tcp_failure == CW_LOG_ERROR && is_retained(config, SELF_FAILURE, "ERROR"));
    child_check(cw_config_modify(config, "LOG_LEV??", "info") == UCS_OK); /* of the process */
    child_check(cw_log_get_level() == CW_LOG_INFO);
    child_check(cw_config_modify(config, "*RAILS", "3") == UCS_OK);
    child_check(config->max_rndv_rails == 3 && config->max_rma_rails == 3 && is_retained(config, MAX_EAGER_RAILS, "3"));
    child_check(cw_config_modify(config, "*RAILS", "many") == UCS_ERR_INVALID_PARAM);
    child_check(config->max_rma_rails == 3 && is_retained(config, MAX_EAGER_RAILS, "3"));
    child_check(cw_config_modify(config, "TCP_*X*", "1") == UCS_ERR_INVALID_PARAM); /* not all of them take it: none */
    child_check(config->tcp_tx_seg_size == 16384);
    child_check(cw_config_modify(config, "NOTHING_*", "3") == UCS_ERR_INVALID_PARAM);
    cw_config_free(config);

    child_check((file = fdopen(mkstemp(path), "w")) != NULL);
    child_check(fputs("UCX_MAX_RNDV_RAILS = 5\nUCX_MAX_*_RAILS = 7\nUCX_ALL_*_WRONG = 1\n", file) >= 0);
    child_check(fclose(file) == 0);
    child_check(cw_config_read(NULL, path, &read) == UCS_OK);
    child_check(read->max_rndv_rails == 5 && read->max_rma_rails == 7 && is_retained(read, MAX_EAGER_RAILS, "7"));
    cw_config_warn_unused(read);
    cw_config_free(read);
    (void)remove(path);
    child_check(setenv("UCX_MAX_*_RAILS", "9", 1) == 0); /* not there */
    child_check(cw_config_read(NULL, NULL, &read) == UCS_OK);
    child_check(read->max_rma_rails == 1 && is_retained(read, MAX_EAGER_RAILS, "1"));
    cw_config_free(read);
}

TEST(test_n22_136_patterns_of_names)
{
    child_run(body_n22_136);
    assert_int_equal(child_count("unknown setting 'NOTHING_*'"), 1);
    assert_int_equal(child_count("invalid value for *RAILS: 'many', expected"), 1);
    assert_int_equal(child_count("UCX_ALL_*_WRONG"), 1);
    assert_int_equal(child_count("unused"), 1);
}

static void body_cfg18(void)
{
    struct cw_config *config = new_config();

    child_check(cw_config_modify(config, "TX_SEG_SIZE", "16k") == UCS_OK);
    child_check(config->tcp_tx_seg_size == 16384);
    child_check(cw_config_modify(config, "TCP_TX_SEG_SIZE", "32k") == UCS_OK);
    child_check(config->tcp_tx_seg_size == 32768);
    child_check(cw_config_modify(config, "CM_REUSEADDR", "y") == UCS_OK); /* as mercury does */
    child_check(is_retained(config, TCP_CM_REUSEADDR, "y"));
    child_check(cw_config_modify(config, "AF_PRIO", "inet6") == UCS_OK); /* as Arrow does */
    child_check(config->tcp_af_prio.count == 1);
    /* To every transport that knows the key. */
    child_check(cw_config_modify(config, "FAILURE", "ERROR") == UCS_OK);
    child_check(config->tcp_failure == CW_LOG_ERROR && is_retained(config, POSIX_FAILURE, "ERROR"));
    child_check(is_retained(config, SELF_FAILURE, "ERROR") && is_retained(config, CMA_FAILURE, "ERROR"));
    child_check(cw_config_modify(config, "MM_FIFO_SIZE", "512") == UCS_OK);
    child_check(config->posix_fifo_size == 512 && is_retained(config, SYSV_FIFO_SIZE, "512"));
    /* SEG_SIZE is an option of the context and means that alone. */
    child_check(cw_config_modify(config, "SEG_SIZE", "1k") == UCS_OK);
    child_check(is_retained(config, SEG_SIZE, "1k") && is_retained(config, SELF_SEG_SIZE, "8K"));
    child_check(cw_config_modify(config, "TCP_NODELAY", "perhaps") == UCS_ERR_INVALID_PARAM);
    child_check(config->tcp_nodelay == 1);
    cw_config_free(config);
}

TEST(test_cfg18_transport_keys_in_both_spellings)
{
    child_run(body_cfg18);
    assert_int_equal(child_count("WARN"), 0);
    assert_int_equal(child_count("ERROR"), 1);
}

static void body_cfg20(void)
{
    static const char *const keys[] = {"IB_PCI_RELAXED_ORDERING", "RC_FENCE", "IB_NUM_PATHS", "UD_VERBS_TIMEOUT",
                                       "DC_MLX5_NUM_DCI", "CUDA_COPY_BW", "ROCM_IPC_LAT", "KNEM_BW", "XPMEM_BW",
                                       "GDR_COPY_BW", "RDMA_CM_REUSEADDR", "MEMTYPE_COPY_ENABLE", "FC_WND_SIZE",
                                       "TRAFFIC_CLASS", "TX_INLINE_RESP", "NUM_PATHS", "SYSV_HUGETLB_MODE",
                                       "CMA_MAX_IOV", "RKEY_MPOOL_MAX_MD"};
    struct cw_config *config = new_config();
    char name[128];
    size_t i;

    for (i = 0; i < sizeof(keys) / sizeof(keys[0]); ++i) {
        child_check(cw_config_modify(config, keys[i], (strncmp(keys[i], "SYSV_", 5) == 0) ? "try" : "1") == UCS_OK);
    }
    cw_config_free(config);
    for (i = 0; i < 12; ++i) {
        (void)snprintf(name, sizeof(name), "UCX_%s", keys[i]);
        child_check(setenv(name, "x", 1) == 0);
    }
    config = new_config();
    cw_config_warn_unused(config);
    cw_config_free(config);
}

TEST(test_cfg20_reference_keys_of_absent_transports_are_taken_quietly)
{
    child_run(body_cfg20);
    assert_string_equal(child_output, "");
}

static void body_cfg21(void)
{
    struct cw_config *config = new_config();

    child_check(cw_config_modify(config, "MAX_RNDV_LANES", "4") == UCS_OK);
    child_check(config->max_rndv_rails == 4);
    child_check(cw_config_modify(config, "MAX_RMA_LANES", "2") == UCS_OK && config->max_rma_rails == 2);
    child_check(cw_config_modify(config, "MAX_WORKER_NAME", "8") == UCS_OK);
    child_check(is_retained(config, MAX_WORKER_ADDRESS_NAME, "8"));
    child_check(cw_config_modify(config, "SOCKADDR_AUX_TLS", "x") == UCS_OK);
    child_check(config->pairs == NULL);
    cw_config_free(config);
}

/* VER-25, N23-51, N23-70: values that releases after 1.16 brought. N22-134: names that programs and their scripts
 * set. */
static void body_ver25(void)
{
    static const char *const values[][2] = {
        {"NET_DEVICES", "^no_such_device"}, {"NET_DEVICES", "eth[0-3],lo"},  {"RNDV_THRESH", "intra:64k,inter:8k"},
        {"PROTO_INFO", "auto"},             {"PROTO_INFO", "used"},          {"FENCE_MODE", "ep_based"},
        {"MULTI_LANE_MAX_RATIO", "inf"},    {"MULTI_PATH_RATIO", "inf"}, {"RNDV_FRAG_MEM_TYPE", "host,cuda"},
        {"RNDV_FRAG_MEM_TYPES", "host"},    {"MIN_RMA_CHUNK_SIZE", "8k"},    {"PROTO_OVERHEAD", "single:1ns"},
        {"CONNECT_ALL_TO_ALL", "y"},        {"MAX_COMPONENT_MDS", "16"},     {"NODE_LOCAL_ID", "3"},
        {"PRINT_TRANSPORT_TABLES", "y"},    {"PROTO_EMULATION_ENABLE", "y"}, {"HANDLE_ERRORS", "none"},
        {"TLS", "ze,gaudi,gga,srd,ib"},     {"TLS", "all"},
        {"GPU_NIC_ASSIGNMENT_MODE", "auto"}, {"GPU_NIC_ASSIGNMENT_MODE", "off"},
        {"GPU_NIC_ASSIGNMENT_MODE", "flip"}, {"GPU_NIC_ASSIGNMENT_MODE", "round_robin"},
        {"GPU_NIC_ASSIGNMENT_MODE", "shared"}, {"RNDV_PIPELINE_SHM_CUDA_STAGING_FORCE", "y"},
        {"DC_MLX5_FULL_HANDSHAKE_LATENCY", "1us"}, {"IB_PCI_RELAXED_ORDERING", "only"}};
    static const char *const set[][2] = {
        {"TLS", "all"},                  {"NET_DEVICES", "all"},    {"LOG_LEVEL", "warn"},
        {"RNDV_THRESH", "auto"},         {"RNDV_SCHEME", "auto"},   {"MAX_RNDV_RAILS", "2"},
        {"MEMTYPE_CACHE", "n"},          {"TCP_CM_REUSEADDR", "y"}, {"CUDA_COPY_MAX_REG_RATIO", "1.0"},
        {"KEEPALIVE_INTERVAL", "20s"},   {"UD_TIMEOUT", "1m"},      {"RC_TIMEOUT", "1s"},
        {"WARN_UNUSED_ENV_VARS", "n"},   {"RC_RETRY_COUNT", "7"},   {"PROTO_INFO", "y"},
        {"PROTO_ENABLE", "y"},           {"RC_TX_INLINE_RESP", "64"}};
    struct cw_config *config = new_config();
    size_t i;

    for (i = 0; i < sizeof(values) / sizeof(values[0]); ++i) {
        child_check(cw_config_modify(config, values[i][0], values[i][1]) == UCS_OK);
    }
    for (i = 0; i < sizeof(set) / sizeof(set[0]); ++i) {
        child_check(cw_config_modify(config, set[i][0], set[i][1]) == UCS_OK);
    }
    cw_config_free(config);
}

TEST(test_ver25_n22_134_names_and_values_of_today)
{
    child_run(body_ver25);
    assert_int_equal(child_count("ERROR"), 0);
}

TEST(test_cfg21_aliases_and_deprecated_names)
{
    child_run(body_cfg21);
    assert_int_equal(child_count("WARN  SOCKADDR_AUX_TLS is deprecated (set UCX_WARN_UNUSED_ENV_VARS=n"), 1);
}

/* Section 22, item 9: modify of every known name, with the text that the setting prints. */
static void body_every_name(void)
{
    struct cw_config *config = new_config();
    const struct cw_setting_known *known;
    struct cw_text text = {0};
    char name[128];
    size_t i;

    for (i = 0; i < CW_SETTING_COUNT; ++i) {
        cw_text_clear(&text);
        cw_value_print(&cw_settings[i].spec, (const char *)config + cw_settings[i].offset, &text);
        child_check(cw_config_modify(config, cw_settings[i].name, cw_text_get(&text)) == UCS_OK);
        child_check(config->sources[i] == CW_SOURCE_MODIFY);
    }
    for (i = 0; i < CW_GLOBAL_COUNT; ++i) {
        if ((cw_global_settings[i].flags & CW_SETTING_READ_ONLY) == 0) {
            child_check(cw_config_modify(config, cw_global_settings[i].name,
                                         cw_global_settings[i].spec.default_text) == UCS_OK);
        }
    }
    for (known = cw_setting_known_names; known->name != NULL; ++known) {
        /* Of names with a common beginning one that no setting has: with its star the name would be a pattern. */
        (void)snprintf(name, sizeof(name), "%s", known->name);
        if (strchr(name, '*') != NULL) {
            memcpy(strchr(name, '*'), "ZZ", sizeof("ZZ"));
        }
        child_check(cw_config_modify(config, name, "x") == UCS_OK);
    }
    cw_text_free(&text);
    cw_config_free(config);
}

TEST(test_every_known_name_can_be_modified)
{
    child_run(body_every_name);
    assert_string_equal(child_output, "");
}

/* Random bytes as names and values: an answer each time, and the configuration stays printable and readable. */
static void body_fuzz(void)
{
    static const char alphabet[] = "0123456789kKmMgGtTbBpsuin.,-^:=xXaAlLofey \t\n\\%\x01\x7f\x80\xff";
    struct cw_config *config = new_config();
    struct cw_text text = {0};
    struct cw_config *clone;
    union cw_value value;
    char bytes[48];
    unsigned round;
    size_t length;
    size_t i;

    cw_log_set_level(CW_LOG_FATAL);
    for (round = 0; round < 20000; ++round) {
        const struct cw_setting *setting;

        setting = &cw_settings[next_random() % CW_SETTING_COUNT];
        length = next_random() % (sizeof(bytes) - 1);
        for (i = 0; i < length; ++i) {
            bytes[i] = (round % 3 == 0) ? (char)next_random() : alphabet[next_random() % (sizeof(alphabet) - 1)];
        }
        bytes[length] = '\0';
        if (cw_config_modify(config, setting->name, bytes) == UCS_OK) {
            cw_text_clear(&text);
            cw_value_print(&setting->spec, (const char *)config + setting->offset, &text);
            child_check(setting->spec.type == CW_VALUE_ANY || strpbrk(cw_text_get(&text), "=\n") == NULL);
            child_check(cw_value_parse(&setting->spec, cw_text_get(&text), &value) == UCS_OK);
            cw_value_release(&setting->spec, &value);
        }
        if (round % 100 == 0) {
            child_check(cw_config_modify(config, bytes, bytes) != UCS_ERR_NO_MEMORY);
            child_check(cw_config_clone(config, &clone) == UCS_OK);
            (void)cw_config_validate(clone);
            cw_config_free(config);
            config = clone;
        }
    }
    cw_text_free(&text);
    cw_config_free(config);
}

TEST(test_random_values)
{
    child_run(body_fuzz);
}

/* The same through the environment, where NUL cannot come in. */
static void body_fuzz_environment(void)
{
    struct cw_config *config;
    char bytes[24];
    char name[128];
    unsigned round;
    size_t i;

    cw_log_set_level(CW_LOG_FATAL);
    child_check(setenv("UCX_LOG_LEVEL", "fatal", 1) == 0);
    for (round = 0; round < 3000; ++round) {
        (void)snprintf(name, sizeof(name), "UCX_%s", cw_settings[next_random() % CW_SETTING_COUNT].name);
        for (i = 0; i + 1 < sizeof(bytes); ++i) {
            bytes[i] = (char)next_random();
        }
        bytes[i] = '\0';
        child_check(setenv(name, bytes, 1) == 0);
        if (cw_config_read("P", NULL, &config) == UCS_OK) {
            cw_config_free(config);
        }
        child_check(unsetenv(name) == 0);
    }
}

TEST(test_random_values_in_the_environment)
{
    child_run(body_fuzz_environment);
}
