/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where values come from and which one counts (CFG-1 .. CFG-10), and what a configuration holds when nothing is set
 * (VAR-*).
 */
#include "test_config_child.h"

#include <ctype.h>
#include <stdbool.h>

#include "base/log.h"
#include "config/file.h"
#include "config/global.h"
#include "os/env.h"
#include "os/machine.h"
#include "test_random.h"

static char *printed_value(const struct cw_config *config, const char *name)
{
    const struct cw_setting *setting = cw_setting_find(name);
    struct cw_text text = {0};
    int is_set;

    if (setting != NULL) {
        cw_value_print(&setting->spec, (const char *)config + setting->offset, &text);
    } else {
        setting = cw_setting_find_global(name);
        child_check(setting != NULL);
        cw_config_global_print(setting, &text, &is_set);
    }
    cw_text_add(&text, "");
    return text.data;
}

static int has_value(const struct cw_config *config, const char *name, const char *expected)
{
    char *value = printed_value(config, name);
    int equal = strcmp(value, expected) == 0;

    if (!equal) {
        (void)fprintf(stderr, "%s is '%s'\n", name, value);
    }
    free(value);
    return equal;
}

static struct cw_config *read_good(const char *prefix, const char *filename)
{
    struct cw_config *config;

    child_check(cw_config_read(prefix, filename, &config) == UCS_OK);
    return config;
}

/* Reads and compares one setting. */
static int reads(const char *prefix, const char *filename, const char *name, const char *expected)
{
    struct cw_config *config = read_good(prefix, filename);
    int equal = has_value(config, name, expected);

    cw_config_free(config);
    return equal;
}

static void body_cfg1(void)
{
    child_write_file("mine.conf", "UCX_SEG_SIZE=1k\nUCX_TM_THRESH=1k\n");
    child_write_file("ucx.conf", "UCX_SEG_SIZE=2k\nUCX_NUM_EPS=5\n");
    child_check(setenv("UCX_TM_THRESH", "3k", 1) == 0);
    child_check(reads(NULL, "mine.conf", "SEG_SIZE", "1k"));  /* above ucx.conf */
    child_check(reads(NULL, "mine.conf", "NUM_EPS", "5"));    /* beside it */
    child_check(reads(NULL, "mine.conf", "TM_THRESH", "3k")); /* below the environment */
    child_check(reads(NULL, "missing.conf", "SEG_SIZE", "2k"));
    child_check(reads(NULL, "", "SEG_SIZE", "2k"));
    child_check(reads(NULL, NULL, "SEG_SIZE", "2k"));
    child_write_file("mine.conf", "UCX_SEG_SIZE=7k\n");
    child_check(reads(NULL, "mine.conf", "SEG_SIZE", "7k")); /* read at each call */
}

TEST(test_cfg1_filename_is_read_and_a_missing_one_ignored)
{
    child_run(body_cfg1);
    assert_string_equal(child_output, "");
}

static void body_cfg2(void)
{
    child_check(setenv("UCX_SEG_SIZE", "1k", 1) == 0);
    child_check(setenv("MPI_UCX_SEG_SIZE", "2k", 1) == 0);
    child_check(setenv("UCX_TCP_MAX_IOV", "3", 1) == 0);
    child_check(setenv("MPI_UCX_TCP_TX_SEG_SIZE", "16k", 1) == 0);
    child_check(reads(NULL, NULL, "SEG_SIZE", "1k"));
    child_check(reads("", NULL, "SEG_SIZE", "1k"));
    child_check(reads("MPI", NULL, "SEG_SIZE", "2k"));
    child_check(reads("MPI", NULL, "TCP_MAX_IOV", "3")); /* plain UCX_ still works */
    child_check(reads("MPI", NULL, "TCP_TX_SEG_SIZE", "16K"));
    child_check(reads(NULL, NULL, "TCP_TX_SEG_SIZE", "8K"));
    child_check(reads("OSHMEM", NULL, "SEG_SIZE", "1k"));
    child_check(setenv("Charm++_UCX_SEG_SIZE", "4k", 1) == 0);
    child_check(reads("Charm++", NULL, "SEG_SIZE", "4k"));
}

TEST(test_cfg2_prefix_in_front)
{
    child_run(body_cfg2);
}

static void body_cfg2_inner(void)
{
    child_check(setenv("UCX_SEG_SIZE", "1k", 1) == 0);
    child_check(setenv("UCX_MPI_SEG_SIZE", "2k", 1) == 0);
    child_check(reads("MPI", NULL, "SEG_SIZE", "2k"));
    child_check(reads(NULL, NULL, "SEG_SIZE", "1k"));
    child_check(setenv("MPI_UCX_SEG_SIZE", "3k", 1) == 0);
    child_check(reads("MPI", NULL, "SEG_SIZE", "3k"));
    /* With the prefix SELF this is the setting SELF_SEG_SIZE, not SEG_SIZE. */
    child_check(setenv("UCX_SELF_SEG_SIZE", "5k", 1) == 0);
    child_check(reads("SELF", NULL, "SEG_SIZE", "1k"));
    child_check(reads("SELF", NULL, "SELF_SEG_SIZE", "5k"));
}

TEST(test_cfg2_prefix_behind_ucx)
{
    child_run(body_cfg2_inner);
}

/* The matrix of CFG-3: default < file < environment < modify for one name. */
static void body_cfg3(void)
{
    struct cw_config *config;

    child_write_file("ucx.conf", "UCX_SEG_SIZE=1k\nUCX_TM_THRESH=2k\nMPI_UCX_NUM_EPS=3\n");
    child_check(setenv("UCX_TM_THRESH", "4k", 1) == 0);
    child_check(setenv("UCX_NUM_EPS", "5", 1) == 0);
    config = read_good("MPI", NULL);
    child_check(has_value(config, "RKEY_PTR_SEG_SIZE", "512K"));
    child_check(has_value(config, "SEG_SIZE", "1k"));
    child_check(has_value(config, "TM_THRESH", "4k"));
    child_check(has_value(config, "NUM_EPS", "3")); /* P_UCX_X of a file beats UCX_X of the environment */
    child_check(config->sources[CW_SETTING_RKEY_PTR_SEG_SIZE] == CW_SOURCE_DEFAULT);
    child_check(config->sources[CW_SETTING_SEG_SIZE] == CW_SOURCE_FILE);
    child_check(config->sources[CW_SETTING_TM_THRESH] == CW_SOURCE_ENVIRONMENT);
    child_check(config->sources[CW_SETTING_NUM_EPS] == CW_SOURCE_FILE);
    child_check(cw_config_modify(config, "TM_THRESH", "6k") == UCS_OK);
    child_check(cw_config_modify(config, "SEG_SIZE", "7k") == UCS_OK);
    child_check(has_value(config, "TM_THRESH", "6k"));
    child_check(has_value(config, "SEG_SIZE", "7k"));
    child_check(config->sources[CW_SETTING_SEG_SIZE] == CW_SOURCE_MODIFY);
    cw_config_free(config);
    child_check(reads("MPI", NULL, "SEG_SIZE", "1k")); /* another object is not touched */
}

TEST(test_cfg3_precedence_matrix)
{
    child_run(body_cfg3);
}

static void body_cfg4(void)
{
    char path[4096];

    child_check(mkdir("home", 0755) == 0 && mkdir("named", 0755) == 0);
    child_write_file("home/ucx.conf", "UCX_SEG_SIZE=1k\nUCX_TM_THRESH=1k\nUCX_NUM_EPS=1\n");
    child_write_file("named/ucx.conf", "UCX_TM_THRESH=2k\nUCX_NUM_EPS=2\n");
    child_write_file("ucx.conf", "UCX_NUM_EPS=3\n");
    child_check(setenv("HOME", "home", 1) == 0 && setenv("UCX_CONFIG_DIR", "named", 1) == 0);
    child_check(reads(NULL, NULL, "SEG_SIZE", "1k"));
    child_check(reads(NULL, NULL, "TM_THRESH", "2k"));
    child_check(reads(NULL, NULL, "NUM_EPS", "3"));
    /* Once per process. */
    child_write_file("ucx.conf", "UCX_NUM_EPS=4\n");
    child_check(reads(NULL, NULL, "NUM_EPS", "3"));

    child_check(cw_config_library_file("/opt/x/lib/libucp.so.0", "", path, sizeof(path)));
    child_check(strcmp(path, "/opt/x/etc/ucx.conf") == 0);
    child_check(cw_config_library_file("/opt/x/lib64/libucp.so.0", "", path, sizeof(path)));
    child_check(strcmp(path, "/opt/x/etc/ucx.conf") == 0);
    child_check(cw_config_library_file("/usr/lib/x86_64-linux-gnu/libucp.so.0", "", path, sizeof(path)));
    child_check(strcmp(path, "/usr/etc/ucx.conf") == 0);
    child_check(cw_config_library_file("/lib/libucp.so.0", "", path, sizeof(path)));
    child_check(strcmp(path, "/etc/ucx.conf") == 0);
    child_check(cw_config_library_file("/opt/x/lib/libucp.so.0", "/ucx", path, sizeof(path)));
    child_check(strcmp(path, "/opt/x/etc/ucx/ucx.conf") == 0);
    child_check(!cw_config_library_file("libucp.so.0", "", path, sizeof(path)));
    child_check(!cw_config_library_file("/libucp.so.0", "", path, sizeof(path)));
    child_check(!cw_config_library_file("/opt/x/lib/libucp.so.0", "", path, 10));
}

/* Beside the library: where releases up to 1.16 look, and above it, where those of today do. */
static void body_cfg4_beside_the_library(void)
{
    char path[4096];

    child_check(mkdir("tree", 0755) == 0 && mkdir("tree/lib", 0755) == 0);
    child_check(mkdir("tree/etc", 0755) == 0 && mkdir("tree/etc/ucx", 0755) == 0 && mkdir("home", 0755) == 0);
    child_write_file("tree/lib/libucp.so.0", "");
    child_write_file("tree/etc/ucx.conf", "UCX_SEG_SIZE=1k\nUCX_TM_THRESH=1k\nUCX_NUM_EPS=1\n");
    child_write_file("tree/etc/ucx/ucx.conf", "UCX_TM_THRESH=2k\nUCX_NUM_EPS=2\n");
    child_write_file("home/ucx.conf", "UCX_NUM_EPS=3\n");
    child_check(realpath("tree/lib/libucp.so.0", path) != NULL && setenv("HOME", "home", 1) == 0);
    cw_env_library_set(path);
    child_check(reads(NULL, NULL, "SEG_SIZE", "1k"));
    child_check(reads(NULL, NULL, "TM_THRESH", "2k"));
    child_check(reads(NULL, NULL, "NUM_EPS", "3"));
}

TEST(test_cfg4_search_order_of_files)
{
    child_run(body_cfg4);
    child_run(body_cfg4_beside_the_library);
}

static void body_cfg5(void)
{
    child_check(unsetenv("HOME") == 0);
    child_check(reads(NULL, NULL, "SEG_SIZE", "8K"));
}

TEST(test_cfg5_missing_files_are_skipped_silently)
{
    child_run(body_cfg5);
    assert_string_equal(child_output, "");
}

static void body_cfg6(void)
{
    child_write_file("ucx.conf", "\xef\xbb\xbf# a comment\n"
                                 "; another\n"
                                 "[section]\n"
                                 "UCX_SEG_SIZE = 1k\n"
                                 "  UCX_TM_THRESH: 2k   # behind a blank\r\n"
                                 "\n"
                                 "UCX_NUM_EPS=3 ; likewise\n"
                                 "UCX_NET_DEVICES = eth0#1,lo;2\n"
                                 "UCX_SHM_DEVICES = # nothing\n"
                                 "UCX_RNDV_FRAG_SIZE=host:1k\n"
                                 "UCX_SELECT_DISTANCE_MD=a, b\n"
                                 "UCX_NUM_PPN=1\n"
                                 "UCX_NUM_PPN=2");
    child_check(reads(NULL, NULL, "SEG_SIZE", "1k"));
    child_check(reads(NULL, NULL, "TM_THRESH", "2k"));
    child_check(reads(NULL, NULL, "NUM_EPS", "3"));
    child_check(reads(NULL, NULL, "NET_DEVICES", "eth0#1,lo;2"));
    child_check(reads(NULL, NULL, "SHM_DEVICES", ""));
    child_check(reads(NULL, NULL, "RNDV_FRAG_SIZE", "host:1k"));
    child_check(reads(NULL, NULL, "SELECT_DISTANCE_MD", "a, b"));
    child_check(reads(NULL, NULL, "NUM_PPN", "2"));
}

TEST(test_cfg6_file_syntax)
{
    child_run(body_cfg6);
    assert_string_equal(child_output, "");
}

/* A section between one that always counts and one behind it: `counts` says whether it is to count. */
static void check_condition(const char *condition, bool counts)
{
    struct cw_config_variables variables = {0};
    struct cw_text problems = {0};
    char text[512];

    (void)snprintf(text, sizeof(text),
                   "UCX_NUM_EPS=1\n[some]\nUCX_NUM_PPN=1\n%s\nUCX_NUM_EPS=2\nno assignment\n"
                   "[next]\nUCX_SEG_SIZE=3\n", condition);
    child_write_file("any.conf", text);
    child_check(cw_config_file_parse("any.conf", &variables, &problems) == UCS_OK);
    child_check(strcmp(cw_config_variables_get(&variables, "UCX_NUM_EPS")->value, counts ? "2" : "1") == 0);
    child_check(strcmp(cw_config_variables_get(&variables, "UCX_NUM_PPN")->value, "1") == 0);
    child_check(strcmp(cw_config_variables_get(&variables, "UCX_SEG_SIZE")->value, "3") == 0);
    child_check((problems.length > 0) == counts); /* the wrong line of what is passed over is no problem */
    cw_config_variables_free(&variables);
    cw_text_free(&problems);
}

static void body_n23_74(void)
{
    struct cw_machine machine;
    char own[512];
    size_t i;

    cw_machine_read(&machine);
    (void)snprintf(own, sizeof(own), "CPU vendor=%s\nCPU model = %s\nProduct name: %s", machine.cpu_vendor,
                   machine.cpu_model, machine.product);
    check_condition(own, true);
    (void)snprintf(own, sizeof(own), "CPU vendor=%s\nCPU model=Another", machine.cpu_vendor);
    check_condition(own, false);
    (void)snprintf(own, sizeof(own), "CPU vendor=Another\nCPU vendor=%s", machine.cpu_vendor);
    check_condition(own, false);
    (void)snprintf(own, sizeof(own), "CPU model=%s", machine.cpu_model);
    for (i = strlen("CPU model="); own[i] != '\0'; i++) {
        own[i] = (char)toupper((unsigned char)own[i]);
    }
    check_condition(own, true);
    (void)snprintf(own, sizeof(own), "CPU vendor=%.1s*", machine.cpu_vendor);
    check_condition(own, true);
    check_condition("CPU model=*", true);
    check_condition("Product name=?*", true);
    check_condition("Product name=", false);
    check_condition("Product name=Some other machine*", false);
    child_write_file("ucx.conf", "CPU vendor=Another\nUCX_SEG_SIZE=1k\n"); /* before any section */
    child_check(reads(NULL, NULL, "SEG_SIZE", "8K"));
}

TEST(test_n23_74_sections_for_other_machines)
{
    child_run(body_n23_74);
    assert_string_equal(child_output, "");
}

static void body_cfg6_bad(void)
{
    child_write_file("ucx.conf", "UCX_SEG_SIZE=1k\nno assignment here\n= 5\nUCX_NUM_EPS=3\n[open\n");
    child_check(reads(NULL, NULL, "SEG_SIZE", "1k"));
    child_check(reads(NULL, NULL, "NUM_EPS", "3")); /* the good lines count */
}

TEST(test_cfg6_bad_file_warns_once_with_name_and_line)
{
    child_run(body_cfg6_bad);
    assert_int_equal(child_count(" WARN  "), 1);
    assert_int_equal(child_count("'./ucx.conf' at line 2"), 1);
}

/* Files that are no text at all: warned about or not, nothing else happens. */
static void body_malformed_files(void)
{
    static const char alphabet[] = "UCX_= #;[]:\n\r\t\\\"'x";
    struct cw_config_variables variables = {0};
    struct cw_text problems = {0};
    unsigned round;
    unsigned i;
    FILE *file;

    for (round = 0; round < 500; ++round) {
        file = fopen("any.conf", "w");
        child_check(file != NULL);
        for (i = 0; i < 200; ++i) {
            (void)fputc((round % 2 == 0) ? (uint8_t)next_random() : alphabet[next_random() % sizeof(alphabet)], file);
        }
        child_check(fclose(file) == 0);
        child_check(cw_config_file_parse("any.conf", &variables, &problems) == UCS_OK);
    }
    for (i = 0; i < variables.count; ++i) {
        child_check(variables.items[i].name[0] != '\0');
        child_check(strpbrk(variables.items[i].name, "=: \t\n") == NULL);
        child_check(strchr(variables.items[i].value, '\n') == NULL);
    }
    cw_config_variables_free(&variables);
    cw_text_free(&problems);
}

TEST(test_cfg6_random_files)
{
    child_run(body_malformed_files);
}

static void body_huge_file(void)
{
    FILE *file = fopen("ucx.conf", "w");
    int i;

    child_check(file != NULL);
    for (i = 0; i < 200000; ++i) {
        child_check(fputs("# x\n# y\n", file) >= 0);
    }
    child_check(fclose(file) == 0);
    child_check(reads(NULL, NULL, "SEG_SIZE", "8K"));
}

TEST(test_cfg6_huge_file_is_refused)
{
    child_run(body_huge_file);
    assert_int_equal(child_count("is longer than"), 1);
}

static void body_cfg8(void)
{
    struct cw_config *config = (struct cw_config *)&config;

    child_check(setenv("UCX_ZCOPY_THRESH", "big", 1) == 0 && setenv("UCX_TLS", "all,tcp", 1) == 0);
    child_check(cw_config_read(NULL, NULL, &config) == UCS_ERR_INVALID_PARAM);
    child_check(config == (struct cw_config *)&config); /* written on success only */
    child_check(unsetenv("UCX_ZCOPY_THRESH") == 0 && unsetenv("UCX_TLS") == 0);
    child_check(setenv("MPI_UCX_NODE_LOCAL_ID", "-1", 1) == 0);
    child_check(cw_config_read("MPI", NULL, &config) == UCS_ERR_INVALID_PARAM);
    child_check(reads(NULL, NULL, "ZCOPY_THRESH", "auto"));
}

TEST(test_cfg8_malformed_value_is_an_error)
{
    child_run(body_cfg8);
    assert_int_equal(child_count("ERROR invalid value for UCX_ZCOPY_THRESH: 'big', expected: memory size"), 1);
    assert_int_equal(child_count("ERROR invalid value for UCX_TLS: 'all,tcp', expected: "), 1);
    assert_int_equal(child_count("ERROR invalid value for MPI_UCX_NODE_LOCAL_ID: '-1', expected: "), 1);
    assert_int_equal(child_count("ERROR"), 3);
}

static void body_cfg8_file(void)
{
    struct cw_config *config;

    child_write_file("ucx.conf", "# first\nUCX_ZCOPY_THRESH=big\nUCX_LOG_LEVEL=loud\nUCX_NODE_LOCAL_ID=-2\n");
    child_write_file("named.conf", "UCX_TLS=all,tcp\n");
    child_check(setenv("UCX_NODE_LOCAL_ID", "-1", 1) == 0);
    child_check(cw_config_read(NULL, "named.conf", &config) == UCS_ERR_INVALID_PARAM);
}

/* Where a bad value of a file is to be mended. */
TEST(test_cfg8_file_and_line)
{
    child_run(body_cfg8_file);
    assert_int_equal(child_count("ERROR invalid value for UCX_ZCOPY_THRESH: 'big', expected: memory size"), 1);
    assert_int_equal(child_count("; set in './ucx.conf' at line 2\n"), 1);
    assert_int_equal(child_count("ERROR invalid value for UCX_TLS: 'all,tcp', expected: "), 1);
    assert_int_equal(child_count("; set in 'named.conf' at line 1\n"), 1);
    assert_int_equal(child_count("ERROR invalid value for UCX_LOG_LEVEL: 'loud', expected: "), 1);
    assert_int_equal(child_count("; set in './ucx.conf' at line 3\n"), 1);
    assert_int_equal(child_count("ERROR invalid value for UCX_NODE_LOCAL_ID: '-1', expected: "), 1);
    assert_int_equal(child_count("set in"), 3);
}

static void body_cfg8_global(void)
{
    child_check(setenv("UCX_LOG_LEVEL", "loud", 1) == 0 && setenv("UCX_LOG_FILE_ROTATE", "perhaps", 1) == 0);
    child_check(reads(NULL, NULL, "LOG_LEVEL", "WARN"));
    child_check(reads(NULL, NULL, "LOG_FILE_ROTATE", "0"));
    child_check(cw_log_get_level() == CW_LOG_WARN);
}

TEST(test_cfg8_malformed_global_falls_back)
{
    child_run(body_cfg8_global);
    assert_int_equal(child_count("ERROR invalid value for UCX_LOG_LEVEL: 'loud', expected: one of FATAL, "), 1);
    assert_int_equal(child_count("ERROR invalid value for UCX_LOG_FILE_ROTATE: 'perhaps', expected: non-neg"), 1);
}

/* CFG-8, N22-131: a name without effect takes any text from everywhere, without a warning. */
static void body_cfg8_without_effect(void)
{
    static const char *const anything[] = {"", "much", "-1", "a=b", "a\nb", "\x1b[1m", " ", "8192"};
    static const char *const names[] = {"SEG_SIZE", "PROTO_ENABLE", "SYSV_FAILURE", "RX_MPOOL_SIZES"};
    struct cw_config *config;
    char name[64];
    size_t i, k;

    child_check(setenv("UCX_ERROR_SIGNALS", "loud", 1) == 0 && setenv("UCX_MEM_EVENTS", "perhaps", 1) == 0);
    for (i = 0; i < sizeof(anything) / sizeof(anything[0]); ++i) {
        for (k = 0; k < sizeof(names) / sizeof(names[0]); ++k) {
            (void)snprintf(name, sizeof(name), "UCX_%s", names[k]);
            child_check(setenv(name, anything[i], 1) == 0);
            child_check(reads(NULL, NULL, names[k], anything[i]));
            child_check(unsetenv(name) == 0);
        }
    }
    child_check(reads(NULL, NULL, "ERROR_SIGNALS", "loud") && reads(NULL, NULL, "MEM_EVENTS", "perhaps"));
    child_write_file("named.conf", "UCX_TM_SW_RNDV = perhaps\n");
    config = read_good(NULL, "named.conf");
    child_check(has_value(config, "TM_SW_RNDV", "perhaps"));
    cw_config_warn_unused(config);
    cw_config_free(config);
}

TEST(test_cfg8_names_without_effect)
{
    child_run(body_cfg8_without_effect);
    assert_string_equal(child_output, "");
}

static void body_cfg9(void)
{
    child_write_file("ucx.conf", "UCX_LOG_FILE_FILTER=test_*\nUCX_LOG_LEVEL=error\nUCX_LOG_FILE=log.txt\n");
    child_check(setenv("UCX_LOG_LEVEL", "debug", 1) == 0); /* after the start of the program, before the first call */
    child_check(reads(NULL, NULL, "LOG_LEVEL", "DEBUG"));
    child_check(cw_log_get_level() == CW_LOG_DEBUG);
    child_check(reads(NULL, NULL, "LOG_FILE_FILTER", "test_*"));
    cw_warn("this goes to the file");
    child_check(access("log.txt", R_OK) == 0);
    child_check(setenv("UCX_LOG_LEVEL", "fatal", 1) == 0);
    child_check(reads(NULL, NULL, "LOG_LEVEL", "DEBUG")); /* once per process */
}

TEST(test_cfg9_globals_are_read_at_the_first_call)
{
    child_run(body_cfg9);
    assert_string_equal(child_output, "");
}

static void body_cfg10(void)
{
    struct cw_config *config;

    child_check(setenv("UCX_DC_NUM_DCI", "no number at all", 1) == 0);
    child_check(setenv("UCX_RC_VERBS_TIMEOUT", "=", 1) == 0);
    config = read_good(NULL, NULL);
    cw_config_warn_unused(config);
    cw_config_free(config);
}

TEST(test_cfg10_variables_of_absent_transports_have_no_effect)
{
    child_run(body_cfg10);
    assert_string_equal(child_output, "");
}

static void body_cfg21(void)
{
    struct cw_config *config;

    child_check(setenv("UCX_MAX_EAGER_LANES", "3", 1) == 0);
    child_check(setenv("UCX_MAX_RNDV_LANES", "4", 1) == 0 && setenv("UCX_MAX_RNDV_RAILS", "5", 1) == 0);
    child_check(setenv("UCX_SOCKADDR_AUX_TLS", "ud", 1) == 0);
    config = read_good(NULL, NULL);
    child_check(has_value(config, "MAX_EAGER_RAILS", "3"));
    child_check(config->max_rndv_rails == 5); /* the proper name counts */
    cw_config_free(config);
    cw_config_free(read_good(NULL, NULL));
}

/* VAR-8. */
TEST(test_cfg21_aliases_and_deprecated_names_in_the_environment)
{
    child_run(body_cfg21);
    assert_int_equal(child_count("WARN  UCX_SOCKADDR_AUX_TLS is deprecated (set UCX_WARN_UNUSED_ENV_VARS=n"), 1);
    assert_int_equal(child_count(" WARN  "), 1);
}

static void body_var74(void)
{
    struct cw_config *config;

    child_check(setenv("UCX_MM_FIFO_SIZE", "64", 1) == 0 && setenv("UCX_MM_SEG_SIZE", "4k", 1) == 0);
    child_check(setenv("UCX_SYSV_SEG_SIZE", "2k", 1) == 0);
    config = read_good(NULL, NULL);
    child_check(config->posix_fifo_size == 64 && has_value(config, "SYSV_FIFO_SIZE", "64"));
    child_check(config->posix_seg_size == 4096 && has_value(config, "SYSV_SEG_SIZE", "2k"));
    cw_config_warn_unused(config);
    cw_config_free(config);
}

TEST(test_var74_mm_stands_for_posix_and_sysv)
{
    child_run(body_var74);
    assert_string_equal(child_output, "");
}

/* The defaults of section 4 as they are printed. */
static void body_defaults(void)
{
    static const char *const defaults[][2] = {
        {"TLS", "all"}, {"NET_DEVICES", "all"}, {"SHM_DEVICES", "all"}, {"SELF_DEVICES", "all"}, {"ACC_DEVICES", "all"},
        {"PROTOS", "all"}, {"SOCKADDR_TLS_PRIORITY", "rdmacm,tcp,sockcm"}, {"WARN_INVALID_CONFIG", "y"},
        {"ALLOC_PRIO", "md:sysv,md:posix,thp,md:*,mmap,heap"}, {"UNIFIED_MODE", "n"}, {"NUM_EPS", "auto"},
        {"NUM_PPN", "auto"}, {"PREFER_OFFLOAD", "y"}, {"SELECT_DISTANCE_MD", "cuda_cpy"}, {"CM_USE_ALL_DEVICES", "y"},
        {"ADDRESS_VERSION", "v1"}, {"SA_DATA_VERSION", "v2"}, {"ATOMIC_MODE", "guess"}, {"RNDV_THRESH", "auto"},
        {"RNDV_SEND_NBR_THRESH", "256K"}, {"RNDV_THRESH_FALLBACK", "inf"}, {"RNDV_SCHEME", "auto"},
        {"ZCOPY_THRESH", "auto"}, {"BCOPY_THRESH", "auto"}, {"MAX_EAGER_RAILS", "1"}, {"MAX_RNDV_RAILS", "2"},
        {"MAX_RMA_RAILS", "1"}, {"MIN_RNDV_CHUNK_SIZE", "16K"}, {"RNDV_FRAG_SIZE", "host:512K,cuda:4M"},
        {"RNDV_FRAG_ALLOC_COUNT", "host:128,cuda:128"}, {"RNDV_FRAG_MEM_TYPE", "host"},
        {"RNDV_PIPELINE_SEND_THRESH", "inf"}, {"RNDV_PIPELINE_SHM_ENABLE", "y"}, {"RNDV_PERF_DIFF", "1.000"},
        {"MULTI_LANE_MAX_RATIO", "4.000"}, {"MULTI_PATH_RATIO", "auto"}, {"RKEY_PTR_SEG_SIZE", "512K"},
        {"RNDV_ALIGN_THRESH", "64K"}, {"RNDV_PUT_FORCE_FLUSH", "n"}, {"RNDV_MEMTYPE_DIRECT_SIZE", "inf"},
        {"BCOPY_BW", "auto"}, {"SEG_SIZE", "8K"}, {"RX_MPOOL_SIZES", "64,1K"}, {"TM_THRESH", "1K"},
        {"TM_MAX_BB_SIZE", "1K"}, {"TM_FORCE_THRESH", "8K"}, {"TM_SW_RNDV", "n"}, {"PROTO_ENABLE", "y"},
        {"PROTO_REQUEST_RESET", "n"}, {"PROTO_INDIRECT_ID", "auto"}, {"PROTO_INFO", "n"}, {"PROTO_INFO_DIR", ""},
        {"ADAPTIVE_PROGRESS", "y"}, {"USE_MT_MUTEX", "n"}, {"FLUSH_WORKER_EPS", "y"}, {"FENCE_MODE", "auto"},
        {"MAX_WORKER_ADDRESS_NAME", "32"}, {"ADDRESS_DEBUG_INFO", "n"}, {"REG_NONBLOCK_MEM_TYPES", ""},
        {"MEMTYPE_REG_WHOLE_ALLOC_TYPES", "cuda"}, {"RKEY_MPOOL_MAX_MD", "2"},
        {"KEEPALIVE_INTERVAL", "20000000.00us"}, {"KEEPALIVE_NUM_EPS", "128"}, {"LISTENER_BACKLOG", "auto"},
        {"RCACHE_ENABLE", "try"}, {"RCACHE_MEM_PRIO", "500"}, {"RCACHE_MAX_REGIONS", "inf"}, {"RCACHE_MAX_SIZE", "inf"},
        {"RCACHE_MAX_UNRELEASED", "inf"}, {"RCACHE_PURGE_ON_FORK", "y"}, {"RCACHE_OVERHEAD", "auto"},
        {"RESOLVE_REMOTE_EP_ID", "auto"} /* N23-60 */, {"GPU_NIC_ASSIGNMENT_MODE", "auto"},
        {"TCP_TX_SEG_SIZE", "8K"}, {"TCP_RX_SEG_SIZE", "64K"}, {"TCP_MAX_IOV", "6"}, {"TCP_SENDV_THRESH", "2K"},
        {"TCP_PUT_ENABLE", "y"}, {"TCP_CONN_NB", "n"}, {"TCP_MAX_POLL", "16"}, {"TCP_MAX_CONN_RETRIES", "25"},
        {"TCP_NODELAY", "y"}, {"TCP_SNDBUF", "auto"}, {"TCP_RCVBUF", "auto"}, {"TCP_SYN_CNT", "auto"},
        {"TCP_PREFER_DEFAULT", "y"}, {"TCP_PORT_RANGE", "0"}, {"TCP_MAX_BW", "2200.00MBps"},
        {"TCP_KEEPIDLE", "10000000.00us"}, {"TCP_KEEPCNT", "auto"}, {"TCP_KEEPINTVL", "2000000.00us"},
        {"TCP_AF_PRIO", "inet,inet6"}, {"TCP_BRIDGE_ENABLE", "n"}, {"TCP_CM_REUSEADDR", "n"},
        {"TCP_CM_PRIV_DATA_LEN", "2K"}, {"TCP_CM_FAILURE", "DIAG"}, {"TCP_MAX_NUM_EPS", "256"},
        {"POSIX_SHM_MIN_SIZE", "16M"}, {"POSIX_USE_PROC_LINK", "y"}, {"POSIX_HUGETLB_MODE", "try"},
        {"SYSV_HUGETLB_MODE", "try"}, {"POSIX_FIFO_SIZE", "256"}, {"POSIX_SEG_SIZE", "8256"},
        {"POSIX_FIFO_RELEASE_FACTOR", "0.500"}, {"POSIX_FIFO_ELEM_SIZE", "128"}, {"POSIX_FIFO_MAX_POLL", "16"},
        {"POSIX_FIFO_HUGETLB", "n"}, {"POSIX_BW", "15360.00MBps"}, {"POSIX_ERROR_HANDLING", "n"},
        {"SYSV_FIFO_SIZE", "256"}, {"CMA_SEG_SIZE", "512K"}, {"CMA_TX_QUOTA", "1"}, {"CMA_MAX_IOV", "16"},
        {"CMA_BW", "11145.00MBps"}, {"SELF_SEG_SIZE", "8K"}, {"SELF_NUM_DEVICES", "1"}, {"SELF_FAILURE", "DIAG"},
        {"SELF_MAX_NUM_EPS", "inf"}, {"LOG_LEVEL", "WARN"}, {"LOG_FILE", ""}, {"LOG_FILE_SIZE", "inf"},
        {"LOG_FILE_ROTATE", "0"}, {"LOG_FILE_FILTER", "*"}, {"LOG_BUFFER", "1K"}, {"LOG_DATA_SIZE", "0"},
        {"LOG_PRINT_ENABLE", "n"}, {"LOG_LEVEL_TRIGGER", "FATAL"}, {"WARN_UNUSED_ENV_VARS", "y"},
        {"HANDLE_ERRORS", "none"}, {"ERROR_SIGNALS", "ILL,SEGV,BUS,FPE"}, {"DEBUG_SIGNO", "HUP"},
        {"ASYNC_SIGNO", "ALRM"}, {"MEMTYPE_CACHE", "try"}, {"RCACHE_CHECK_PFN", "0"}, {"MEM_EVENTS", "y"},
        {"MEM_MMAP_HOOK_MODE", "bistro"}, {"MEM_MALLOC_HOOKS", "y"}, {"MEM_MALLOC_RELOC", "y"},
        {"MEM_LOG_LEVEL", "WARN"}, {"MODULES", "all"}, {"MODULE_LOG_LEVEL", "TRACE"}, {"TOPO_PRIO", "sysfs,default"},
        {"VFS_ENABLE", "y"}, {"VFS_THREAD_AFFINITY", "n"}, {"BUILTIN_MEMCPY_MIN", "auto"},
        {"BUILTIN_MEMCPY_MAX", "auto"},
        /* of one release or another: N22-131, N22-132 */
        {"MIN_RMA_CHUNK_SIZE", "8K"}, {"RMA_ZCOPY_MAX_SEG_SIZE", "auto"}, {"RNDV_FRAG_MEM_TYPES", "host,cuda"},
        {"MEMTYPE_COPY_ENABLE", "y"}, {"RNDV_PIPELINE_ERROR_HANDLING", "n"},
        {"RNDV_PIPELINE_SHM_CUDA_STAGING_FORCE", "n"}, {"DYNAMIC_TL_SWITCH_INTERVAL", "inf"},
        {"DYNAMIC_TL_PROGRESS_FACTOR", "10"}, {"REG_NONBLOCK_FALLBACK", "y"},
        {"PROTO_OVERHEAD", "single:0.01us,multi:0.01us,rndv_offload:0.04us,rndv_rtr:0.04us,rndv_rts:0.28us,sw:0.04us,"
                           "rkey_ptr:0.00us"},
        {"GVA_ENABLE", "off"}, {"GVA_MLOCK", "y"}, {"GVA_PREFETCH", "y"}, {"EXTRA_OP_ATTR_FLAGS", ""},
        {"MAX_PRIORITY_EPS", "20"}, {"WIREUP_VIA_AM_LANE", "n"}, {"CONNECT_ALL_TO_ALL", "n"},
        {"GPU_NIC_ASSIGNMENT_MODE", "auto"}, {"MAX_HCA_PER_GPU", "inf"}, {"PRINT_TRANSPORT_TABLES", "auto"},
        {"MAX_COMPONENT_MDS", "16"}, {"TCP_ALLOC", "huge,thp,md,mmap,heap"}, {"TCP_USER_TIMEOUT", "auto"},
        {"TCP_CM_USER_TIMEOUT", "auto"}, {"TCP_EP_BIND_SRC_ADDR", "try"}, {"TCP_TX_MAX_BUFS", "-1"},
        {"TCP_TX_BUFS_GROW", "8"}, {"TCP_TX_MAX_CHUNK_SIZE", "128M"}, {"TCP_TX_GROW_FACTOR", "1.000"},
        {"TCP_RX_MAX_BUFS", "-1"}, {"TCP_RX_BUFS_GROW", "8"}, {"TCP_RX_MAX_CHUNK_SIZE", "128M"},
        {"TCP_RX_GROW_FACTOR", "1.000"}, {"POSIX_ALLOC", "md,mmap,heap"}, {"POSIX_RX_MAX_BUFS", "-1"},
        {"POSIX_RX_BUFS_GROW", "512"}, {"POSIX_RX_MAX_CHUNK_SIZE", "128M"}, {"POSIX_RX_GROW_FACTOR", "1.000"},
        {"POSIX_SEND_OVERHEAD", "am_short:0.01us,am_bcopy:0.01us"},
        {"POSIX_RECV_OVERHEAD", "am_short:0.01us,am_bcopy:0.01us"}, {"SYSV_ALLOC", "md,mmap,heap"},
        {"SYSV_RX_MAX_BUFS", "-1"}, {"SYSV_RX_BUFS_GROW", "512"}, {"SYSV_RX_MAX_CHUNK_SIZE", "128M"},
        {"SYSV_RX_GROW_FACTOR", "2.000"}, {"SYSV_SEND_OVERHEAD", "am_short:0.01us,am_bcopy:0.01us"},
        {"SYSV_RECV_OVERHEAD", "am_short:0.01us,am_bcopy:0.01us"}, {"CMA_ALLOC", "huge,thp,mmap,heap"},
        {"CMA_TX_MAX_BUFS", "-1"}, {"CMA_TX_BUFS_GROW", "8"}, {"CMA_TX_MAX_CHUNK_SIZE", "128M"},
        {"CMA_TX_GROW_FACTOR", "1.000"}, {"CMA_MEMORY_INVALIDATE", "n"}, {"SELF_ALLOC", "huge,thp,md,mmap,heap"},
        {"MEM_BISTRO_FORCE_FAR_JUMP", "n"}, {"MEM_BISTRO_GRACE_DURATION", "50000.00us"},
        {"DISTANCE_LAT", "phb:0.30us,node:0.30us,sys:0.50us"}, {"DISTANCE_BW", "phb:auto,node:auto,sys:auto"},
        {"PLUGIN_PATH", ""}, {"VFS_SOCK_PATH", "/run/user/%i/ucx/vfs.sock"}, {"NT_BUFFER_TRANSFER_MIN", "auto"},
        /* ours */
        {"CONNECT_TIMEOUT", "10000000.00us"}, {"POSIX_DIR", ""}};
    struct cw_config *config = read_good(NULL, NULL);
    size_t i;

    for (i = 0; i < sizeof(defaults) / sizeof(defaults[0]); ++i) {
        child_check(has_value(config, defaults[i][0], defaults[i][1]));
    }
    child_check(config->keepalive_interval_ns == UINT64_C(20000000000));
    child_check(config->tcp_tx_seg_size == 8192);
    child_check(cw_config_validate(config) == UCS_OK);
    cw_config_free(config);
}

/*
 * Names, types as they are printed, and defaults of
 * VAR-4, VAR-5, VAR-6, VAR-7, VAR-9, VAR-10, VAR-11, VAR-12, VAR-13, VAR-14, VAR-21, VAR-22, VAR-23, VAR-24, VAR-25,
 * VAR-26, VAR-27, VAR-28, VAR-29, VAR-30, VAR-32, VAR-33, VAR-34, VAR-35, VAR-41, VAR-42, VAR-52, VAR-53, VAR-54,
 * VAR-55, VAR-56, VAR-57, VAR-58, VAR-59, VAR-60, VAR-70, VAR-71, VAR-73, VAR-75, VAR-76.
 */
TEST(test_var_defaults)
{
    child_run(body_defaults);
    assert_string_equal(child_output, "");
}

/* Every default, put into the environment in its canonical form, is taken. */
static void body_every_name(void)
{
    struct cw_text text = {0};
    struct cw_config *config;
    char name[128];
    size_t i;

    config = read_good(NULL, NULL);
    for (i = 0; i < CW_SETTING_COUNT; ++i) {
        cw_text_clear(&text);
        cw_value_print(&cw_settings[i].spec, (const char *)config + cw_settings[i].offset, &text);
        (void)snprintf(name, sizeof(name), "UCX_%s", cw_settings[i].name);
        child_check(setenv(name, cw_text_get(&text), 1) == 0);
    }
    cw_config_free(config);
    cw_text_free(&text);
    config = read_good(NULL, NULL);
    for (i = 0; i < CW_SETTING_COUNT; ++i) {
        child_check(config->sources[i] == CW_SOURCE_ENVIRONMENT);
    }
    cw_config_free(config);
}

TEST(test_every_setting_is_read_from_the_environment)
{
    child_run(body_every_name);
    assert_string_equal(child_output, "");
}

static void body_clone(void)
{
    struct cw_config *config;
    struct cw_config *clone;

    child_check(setenv("UCX_TLS", "^ib", 1) == 0 && setenv("UCX_NET_DEVICES", "a,b", 1) == 0);
    config = read_good("MPI", NULL);
    child_check(cw_config_modify(config, "FC_WND_SIZE", "v") == UCS_OK);
    child_check(cw_config_clone(config, &clone) == UCS_OK);
    child_check(cw_config_modify(config, "TLS", "tcp") == UCS_OK);
    child_check(cw_config_modify(config, "NET_DEVICES", "c") == UCS_OK);
    cw_config_free(config);
    child_check(has_value(clone, "TLS", "^ib") && has_value(clone, "NET_DEVICES", "a,b"));
    child_check(strcmp(clone->prefix, "MPI") == 0 && strcmp(clone->pairs->name, "FC_WND_SIZE") == 0);
    child_check(clone->sources[CW_SETTING_tls] == CW_SOURCE_ENVIRONMENT);
    cw_config_free(clone);
    cw_config_free(NULL);
}

TEST(test_ctx2_clone_is_independent)
{
    child_run(body_clone);
}

static void refused(const char *name, const char *value)
{
    struct cw_config *config = read_good(NULL, NULL);

    child_check(cw_config_modify(config, name, value) == UCS_OK);
    child_check(cw_config_validate(config) == UCS_ERR_INVALID_PARAM);
    cw_config_free(config);
}

static void body_ctx9(void)
{
    refused("KEEPALIVE_INTERVAL", "0");
    refused("KEEPALIVE_NUM_EPS", "0");
    refused("MIN_RNDV_CHUNK_SIZE", "0");
    refused("ALLOC_PRIO", "md:sysv,magic");
    refused("ALLOC_PRIO", "md:");
    refused("CONNECT_TIMEOUT", "0");
    refused("TCP_PORT_RANGE", "70000");
    refused("PORT_RANGE", "1-65536");
}

static void body_ctx9_text(void)
{
    struct cw_config *config;

    child_check(setenv("UCX_TCP_PORT_RANGE", "99999", 1) == 0);
    config = read_good(NULL, NULL);
    child_check(cw_config_validate(config) == UCS_ERR_INVALID_PARAM);
    cw_config_free(config);
    child_check(unsetenv("UCX_TCP_PORT_RANGE") == 0);
    child_write_file("named.conf", "UCX_ALLOC_PRIO=magic\n");
    config = read_good(NULL, "named.conf");
    child_check(cw_config_validate(config) == UCS_ERR_INVALID_PARAM);
    cw_config_free(config);
}

static void body_ctx9_file(void)
{
    struct cw_config *config;

    child_write_file("ucx.conf", "\nUCX_TCP_PORT_RANGE=1-99999\nMPI_UCX_TCP_PORT_RANGE=2-99999\n");
    config = read_good("MPI", NULL);
    child_check(cw_config_validate(config) == UCS_ERR_INVALID_PARAM);
    cw_config_free(config);
}

/* The value is quoted, and where it stands if that is a file. */
TEST(test_ctx9_says_what_was_given)
{
    child_run(body_ctx9_text);
    assert_int_equal(child_count("value for UCX_TCP_PORT_RANGE: '99999', expected: ports between 0 and 65535\n"), 1);
    assert_int_equal(child_count("invalid value for UCX_ALLOC_PRIO: 'magic', expected: a list of "), 1);
    child_run(body_ctx9_file);
    assert_int_equal(child_count("TCP_PORT_RANGE: '2-99999', expected: ports between 0 and 65535; set in "
                                 "'./ucx.conf' at line 3\n"), 1);
}

TEST(test_ctx9_values_that_are_refused_at_init)
{
    child_run(body_ctx9);
    assert_int_equal(child_count("ERROR invalid value for UCX_"), 8);
}
