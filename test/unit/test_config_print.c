/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Printed configurations (CFG-25 .. CFG-32, R12): the exact form, and that what is printed is the same configuration
 * again.
 */
#include "test_config_child.h"

#include "config/global.h"
#include "config/table.h"

static struct cw_config *new_config(const char *prefix, const char *filename)
{
    struct cw_config *config;

    child_check(cw_config_read(prefix, filename, &config) == UCS_OK);
    return config;
}

static char *print(const struct cw_config *config, const char *title, unsigned flags, unsigned groups)
{
    char *text = NULL;
    size_t length;
    FILE *stream = open_memstream(&text, &length);

    child_check(stream != NULL);
    if (groups == 0) {
        cw_config_print(config, stream, title, (ucs_config_print_flags_t)flags);
    } else {
        cw_config_print_groups(config, stream, title, (ucs_config_print_flags_t)flags, groups);
    }
    child_check(fclose(stream) == 0 && text != NULL);
    return text;
}

static int has_line(const char *text, const char *line)
{
    size_t length = strlen(line);

    while ((text = strstr(text, line)) != NULL) {
        if (text[length] == '\n') {
            return 1;
        }
        text += length;
    }
    return 0;
}

static void body_filter(void)
{
    struct cw_config *config = new_config(NULL, NULL);
    unsigned flags = UCS_CONFIG_PRINT_CONFIG | UCS_CONFIG_PRINT_DOC | UCS_CONFIG_PRINT_HIDDEN;
    char *text = NULL;
    size_t length;
    FILE *stream = open_memstream(&text, &length);

    child_check(stream != NULL && cw_config_modify(config, "FC_WND_SIZE", "v") == UCS_OK);
    cw_config_print_part(config, stream, NULL, (ucs_config_print_flags_t)flags, CW_GROUPS_ALL, "UCX_TLS");
    child_check(fflush(stream) == 0 && has_line(text, "UCX_TLS=all") && strstr(text, "# syntax:") != NULL &&
                strstr(strstr(text, "# syntax:") + 1, "# syntax:") == NULL);
    child_check(strstr(text, "NET_DEVICES=") == NULL && strstr(text, "FC_WND_SIZE") == NULL);
    cw_config_print_part(config, stream, NULL, UCS_CONFIG_PRINT_CONFIG, CW_GROUPS_ALL, "NOTHING_OF_THE_KIND");
    child_check(fclose(stream) == 0 && strstr(strstr(text, "UCX_TLS=all"), "\nUCX_") == NULL);
    free(text);
    cw_config_free(config);
}

/* -F of ucx_info (VER-27). */
TEST(test_ver27_a_filter_leaves_names_that_hold_a_text)
{
    child_run(body_filter);
}

static void body_cfg25(void)
{
    struct cw_config *config;
    char *text;

    child_check(setenv("MPI_UCX_SEG_SIZE", "1000", 1) == 0);
    config = new_config("MPI", NULL);
    child_check(cw_config_modify(config, "TX_SEG_SIZE", "16384") == UCS_OK);
    child_check(cw_config_modify(config, "FC_WND_SIZE", "some value") == UCS_OK);
    child_check(cw_config_modify(config, "FC_HARD_THRESH", "a=b") == UCS_OK);
    child_check(cw_config_modify(config, "FC_ENABLE", "a\nb") == UCS_OK);
    text = print(config, NULL, UCS_CONFIG_PRINT_CONFIG, 0);
    child_check(has_line(text, "UCX_SEG_SIZE=1000")); /* UCX_ whatever the prefix was */
    child_check(strstr(text, "MPI_") == NULL);
    child_check(strstr(text, "UCX_TCP_") == NULL); /* options of the context only */
    child_check(strcmp(strstr(text, "TX_SEG_SIZE="), "TX_SEG_SIZE=16384\nFC_WND_SIZE=some value\n") == 0);
    free(text);
    cw_config_free(config);
}

TEST(test_cfg25_context_options_then_pairs)
{
    child_run(body_cfg25);
}

static void check_config_lines(const char *text)
{
    const char *end;

    child_check(*text != '\0');
    for (; *text != '\0'; text = end + 1) {
        const char *equals = strchr(text, '=');

        end = strchr(text, '\n');
        child_check(end != NULL && strncmp(text, "UCX_", 4) == 0);
        child_check(equals != NULL && equals < end && memchr(equals + 1, '=', (size_t)(end - equals - 1)) == NULL);
        child_check(strcspn(text, " \t") > (size_t)(equals - text) && equals[1] != ' ' && end[-1] != ' ');
    }
}

/* What ucx-py and ucxx do: each line is UCX_KEY=VALUE with one '=', the key without its first 4 characters is looked
 * up. */
static void body_cfg26(void)
{
    static const char *const required[] = {"UCX_TLS=", "UCX_SOCKADDR_TLS_PRIORITY=", "UCX_SEG_SIZE=",
                                            "UCX_NET_DEVICES=", "UCX_SHM_DEVICES=", "UCX_ACC_DEVICES=",
                                            "UCX_SELF_DEVICES=", "UCX_RNDV_THRESH=", "UCX_ZCOPY_THRESH=",
                                            "UCX_MAX_RNDV_RAILS=", "UCX_RNDV_FRAG_MEM_TYPE=", "UCX_PROTO_ENABLE=",
                                            "UCX_KEEPALIVE_INTERVAL="};
    struct cw_config *config = new_config(NULL, NULL);
    char buffer[65536];
    FILE *stream;
    char *text;
    size_t i;

    text = print(config, NULL, UCS_CONFIG_PRINT_CONFIG, 0);
    check_config_lines(text);
    for (i = 0; i < sizeof(required) / sizeof(required[0]); ++i) {
        child_check(strstr(text, required[i]) != NULL); /* CFG-32 */
    }
    stream = fmemopen(buffer, sizeof(buffer), "w");
    child_check(stream != NULL);
    cw_config_print(config, stream, "title", UCS_CONFIG_PRINT_CONFIG);
    child_check(fclose(stream) == 0 && strcmp(buffer, text) == 0); /* a title alone prints nothing */
    free(text);
    text = print(config, NULL, UCS_CONFIG_PRINT_CONFIG, CW_GROUPS_ALL);
    check_config_lines(text);
    child_check(strstr(text, "UCX_TCP_NODELAY=y\n") != NULL && strstr(text, "UCX_LOG_LEVEL=WARN\n") != NULL);
    free(text);
    cw_config_free(config);
}

/* A name without effect takes any text; what is none of a line is not printed. */
static void body_cfg26_any_text(void)
{
    static const char *const texts[] = {"a=b", "a\nUCX_TLS=tcp", "\r"};
    struct cw_config *config = new_config(NULL, NULL);
    char *text;
    size_t i;

    for (i = 0; i < sizeof(texts) / sizeof(texts[0]); ++i) {
        child_check(cw_config_modify(config, "SEG_SIZE", texts[i]) == UCS_OK);
        text = print(config, NULL, UCS_CONFIG_PRINT_CONFIG, 0);
        check_config_lines(text);
        child_check(has_line(text, "UCX_SEG_SIZE=8K"));
        free(text);
    }
    child_check(cw_config_modify(config, "SEG_SIZE", "much") == UCS_OK);
    text = print(config, NULL, UCS_CONFIG_PRINT_CONFIG, 0);
    child_check(has_line(text, "UCX_SEG_SIZE=much"));
    free(text);
    cw_config_free(config);
}

TEST(test_cfg26_config_lines_split_at_one_equals)
{
    child_run(body_cfg26);
    assert_string_equal(child_output, "");
    child_run(body_cfg26_any_text);
    assert_string_equal(child_output, "");
}

static void body_cfg27(void)
{
    struct cw_config *config = new_config(NULL, NULL);
    static const char head[] = "\n#\n# My title\n#\n\nUCX_NET_DEVICES=all\n";
    size_t length;
    char *text;

    text = print(config, "My title", UCS_CONFIG_PRINT_CONFIG | UCS_CONFIG_PRINT_HEADER, 0);
    length = strlen(text);
    child_check(strncmp(text, head, sizeof(head) - 1) == 0);
    child_check(length > 2 && strcmp(text + length - 2, "\n\n") == 0);
    free(text);
    text = print(config, "T", UCS_CONFIG_PRINT_HEADER, 0);
    child_check(strcmp(text, "\n#\n# T\n#\n\n\n") == 0);
    free(text);
    text = print(config, NULL, UCS_CONFIG_PRINT_HEADER, 0); /* no title: no crash */
    free(text);
    cw_config_free(config);
}

TEST(test_cfg27_header)
{
    child_run(body_cfg27);
}

static void body_cfg28(void)
{
    struct cw_config *config = new_config(NULL, NULL);
    const char *block;
    char *text;

    text = print(config, NULL, UCS_CONFIG_PRINT_CONFIG | UCS_CONFIG_PRINT_DOC, 0);
    child_check(text[0] == '#' && text[1] == ' ');
    block = strchr(text, '\n') + 1;
    child_check(block[0] == '#' && block[1] == ' ');
    block = strchr(block, '\n') + 1;
    child_check(strncmp(block, "#\n# Network devices to use", 26) == 0);
    block = strstr(block, "\n#\n# syntax:    ");
    child_check(block != NULL);
    child_check(strstr(block, "\n#\nUCX_NET_DEVICES=all\n\n#\n# ") == strchr(block + 4, '\n'));
    for (block = text; *block != '\0'; block = strchr(block, '\n') + 1) {
        child_check(*block == '#' || *block == '\n' || strncmp(block, "UCX_", 4) == 0);
    }
    free(text);
    text = print(config, NULL, UCS_CONFIG_PRINT_DOC, 0); /* nothing to comment on */
    child_check(text[0] == '#' && strstr(text, "UCX_") == NULL);
    free(text);
    cw_config_free(config);
}

TEST(test_cfg28_documentation_blocks)
{
    child_run(body_cfg28);
}

static void body_cfg29(void)
{
    struct cw_config *config = new_config(NULL, NULL);
    char *text;

    child_check(cw_config_modify(config, "MAX_EAGER_LANES", "6") == UCS_OK);
    text = print(config, NULL, UCS_CONFIG_PRINT_CONFIG | UCS_CONFIG_PRINT_HIDDEN, CW_GROUPS_ALL);
    child_check(has_line(text, "UCX_MAX_EAGER_RAILS=6") && has_line(text, "UCX_MAX_EAGER_LANES=6"));
    child_check(has_line(text, "UCX_SOCKADDR_AUX_TLS (deprecated)"));
    child_check(has_line(text, "UCX_TCP_MAX_SHORT (deprecated)"));
    free(text);
    text = print(config, NULL, UCS_CONFIG_PRINT_CONFIG, CW_GROUPS_ALL);
    child_check(strstr(text, "LANES") == NULL && strstr(text, "deprecated") == NULL);
    free(text);
    text = print(config, NULL, UCS_CONFIG_PRINT_CONFIG | UCS_CONFIG_PRINT_HIDDEN | UCS_CONFIG_PRINT_DOC, 0);
    child_check(has_line(text, "# Alias of UCX_MAX_EAGER_RAILS.") && strstr(text, "UCX_TCP_") == NULL);
    free(text);
    cw_config_free(config);
}

TEST(test_cfg29_hidden_options_aliases_and_deprecated_names)
{
    child_run(body_cfg29);
}

static void body_cfg30(void)
{
    struct cw_config *config;
    char *text;

    child_write_file("ucx.conf", "UCX_NUM_EPS=5\n");
    child_check(setenv("UCX_SEG_SIZE", "8192", 1) == 0 && setenv("UCX_ZCOPY_THRESH", "auto", 1) == 0);
    child_check(setenv("UCX_LOG_LEVEL", "warn", 1) == 0);
    config = new_config(NULL, NULL);
    text = print(config, NULL, UCS_CONFIG_PRINT_CONFIG | UCS_CONFIG_PRINT_COMMENT_DEFAULT, CW_GROUPS_ALL);
    child_check(has_line(text, "\nUCX_NUM_EPS=5"));
    child_check(has_line(text, "\nUCX_SEG_SIZE=8192")); /* as it was given */
    child_check(has_line(text, "\nUCX_ZCOPY_THRESH=auto")); /* set, though to the default */
    child_check(has_line(text, "UCX_LOG_LEVEL=WARN") && strstr(text, "# UCX_LOG_LEVEL=") == NULL);
    child_check(has_line(text, "\n# UCX_NUM_PPN=auto") && has_line(text, "\n# UCX_LOG_FILE="));
    free(text);
    cw_config_free(config);
}

TEST(test_cfg30_defaults_are_commented_out)
{
    child_run(body_cfg30);
}

static void body_cfg31(void)
{
    struct cw_config *config;
    char *text;

    child_check(setenv("UCX_RNDV_THRESH", "8192", 1) == 0 && setenv("UCX_KEEPALIVE_INTERVAL", "1m", 1) == 0);
    child_check(setenv("UCX_POSIX_BW", "1GB/s", 1) == 0 && setenv("UCX_RNDV_SCHEME", "AM", 1) == 0);
    child_check(setenv("UCX_WARN_INVALID_CONFIG", "Yes", 1) == 0 && setenv("UCX_RCACHE_ENABLE", "maybe", 1) == 0);
    config = new_config(NULL, NULL);
    text = print(config, NULL, UCS_CONFIG_PRINT_CONFIG, CW_GROUPS_ALL);
    child_check(has_line(text, "UCX_RNDV_THRESH=8K") && has_line(text, "UCX_KEEPALIVE_INTERVAL=60000000.00us"));
    child_check(has_line(text, "UCX_POSIX_BW=1024.00MBps") && has_line(text, "UCX_RNDV_SCHEME=am"));
    child_check(has_line(text, "UCX_WARN_INVALID_CONFIG=y") && has_line(text, "UCX_RCACHE_ENABLE=try"));
    free(text);
    cw_config_free(config);
}

TEST(test_cfg31_canonical_form)
{
    child_run(body_cfg31);
}

/* Whatever form is printed, read as a file it is the same configuration. */
static void body_round_trip(void)
{
    static const unsigned forms[] = {UCS_CONFIG_PRINT_CONFIG, UCS_CONFIG_PRINT_CONFIG | UCS_CONFIG_PRINT_HIDDEN,
                                     UCS_CONFIG_PRINT_CONFIG | UCS_CONFIG_PRINT_DOC,
                                     UCS_CONFIG_PRINT_CONFIG | UCS_CONFIG_PRINT_DOC | UCS_CONFIG_PRINT_HEADER |
                                         UCS_CONFIG_PRINT_COMMENT_DEFAULT};
    static const char *const changes[][2] = {
        {"TLS", "^ib,cuda"}, {"NET_DEVICES", "eth0,mlx5_0:1"}, {"RNDV_THRESH", "12345"}, {"ZCOPY_THRESH", "inf"},
        {"KEEPALIVE_INTERVAL", "33ns"}, {"POSIX_BW", "1.2345MBps"}, {"MULTI_LANE_MAX_RATIO", "-0.12345"},
        {"RX_MPOOL_SIZES", "1,2,3 k"}, {"FENCE_MODE", "none of these"}, {"TCP_PORT_RANGE", "5-9"},
        {"RNDV_FRAG_SIZE", "cuda:1b"}, {"REG_NONBLOCK_MEM_TYPES", "rdma,host"}, {"POSIX_DIR", "/tmp/a b"},
        {"TCP_KEEPIDLE", "auto"}, {"MAX_RNDV_RAILS", "inf"}, {"SHM_DEVICES", ""}, {"TCP_FAILURE", "error"}};
    struct cw_config *config = new_config(NULL, NULL);
    struct cw_config *again;
    char *before;
    char *after;
    char *text;
    size_t i;

    for (i = 0; i < sizeof(changes) / sizeof(changes[0]); ++i) {
        child_check(cw_config_modify(config, changes[i][0], changes[i][1]) == UCS_OK);
    }
    while (config->pairs != NULL) { /* a pair is not read back: it has no prefix */
        struct cw_config_pair *pair = config->pairs;

        config->pairs = pair->next;
        free(pair->name);
        free(pair->value);
        free(pair);
    }
    before = print(config, NULL, UCS_CONFIG_PRINT_CONFIG | UCS_CONFIG_PRINT_HIDDEN, CW_GROUPS_ALL);
    for (i = 0; i < sizeof(forms) / sizeof(forms[0]); ++i) {
        text = print(config, "title", forms[i] | UCS_CONFIG_PRINT_HIDDEN, CW_GROUPS_ALL & ~(1u << CW_GROUP_GLOBAL));
        child_write_file("printed.conf", text);
        again = new_config(NULL, "printed.conf");
        after = print(again, NULL, UCS_CONFIG_PRINT_CONFIG | UCS_CONFIG_PRINT_HIDDEN, CW_GROUPS_ALL);
        child_check(strcmp(before, after) == 0);
        child_check(again->keepalive_interval_ns == config->keepalive_interval_ns);
        child_check(again->posix_bw_bps == config->posix_bw_bps);
        child_check(again->multi_lane_max_ratio == config->multi_lane_max_ratio);
        cw_config_free(again);
        free(after);
        free(text);
    }
    free(before);
    cw_config_free(config);
}

TEST(test_printed_configuration_is_read_as_the_same)
{
    child_run(body_round_trip);
    assert_string_equal(child_output, "");
}
