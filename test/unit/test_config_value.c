/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Value syntaxes (CFG-50 .. CFG-64): what each type takes, what it refuses, how it prints; and that what is printed
 * is read again as the same value.
 */
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "config/config.h"
#include "config/table.h"
#include "config/value.h"

struct sample {
    const char *text;
    const char *canonical; /* NULL: refused */
};

static void check_sample(const struct cw_value_spec *spec, const struct sample *sample)
{
    struct cw_text text = {0};
    union cw_value value;
    union cw_value untouched;
    union cw_value again;
    ucs_status_t status;

    memset(&value, 0x5a, sizeof(value));
    untouched = value;
    status = cw_value_parse(spec, sample->text, &value);
    if (sample->canonical == NULL) {
        if (status != UCS_ERR_INVALID_PARAM) {
            fail_msg("type %d takes '%s'", (int)spec->type, sample->text);
        }
        assert_memory_equal(&value, &untouched, sizeof(value));
        return;
    }
    if (status != UCS_OK) {
        fail_msg("type %d refuses '%s'", (int)spec->type, sample->text);
    }
    cw_value_print(spec, &value, &text);
    assert_string_equal(cw_text_get(&text), sample->canonical);

    assert_int_equal(cw_value_parse(spec, sample->canonical, &again), UCS_OK);
    switch (spec->type) {
    case CW_VALUE_LIST:
    case CW_VALUE_ALLOW_LIST:
    case CW_VALUE_STRING:
    case CW_VALUE_FREE_TEXT:
    case CW_VALUE_PATTERN:
    case CW_VALUE_ANY:
    case CW_VALUE_MEMORY_SIZES:
        break; /* values with pointers: the equal text says it */
    default:
        assert_memory_equal(&value, &again, cw_value_size(spec->type));
        break;
    }
    cw_text_clear(&text);
    cw_value_print(spec, &again, &text);
    assert_string_equal(cw_text_get(&text), sample->canonical);
    cw_text_free(&text);
    cw_value_release(spec, &value);
    cw_value_release(spec, &again);
}

static void check_samples(enum cw_value_type type, const char *const *words, const char *default_text,
                          const struct sample *samples)
{
    const struct cw_value_spec spec = {type, words, default_text};

    for (; samples->text != NULL; ++samples) {
        check_sample(&spec, samples);
    }
}

#define CHECK(type, ...) check_samples(type, NULL, "", (const struct sample[]){__VA_ARGS__, {NULL, NULL}})
#define CHECK_WORDS(type, words, ...) check_samples(type, words, "", (const struct sample[]){__VA_ARGS__, {NULL, NULL}})

TEST(test_cfg50_boolean)
{
    CHECK(CW_VALUE_BOOL, {"y", "y"}, {"Y", "y"}, {"yes", "y"}, {"YES", "y"}, {"Yes", "y"}, {"on", "y"}, {"1", "y"},
          {"n", "n"}, {"N", "n"}, {"no", "n"}, {"NO", "n"}, {"off", "n"}, {"0", "n"}, {"ON", NULL}, {"Off", NULL},
          {"", NULL}, {"2", NULL}, {"true", NULL}, {" y", NULL}, {"y ", NULL}, {"try", NULL}, {"auto", NULL},
          {"yy", NULL}, {"-1", NULL});
}

TEST(test_cfg51_ternary_and_on_off_auto)
{
    CHECK(CW_VALUE_TERNARY, {"y", "y"}, {"no", "n"}, {"on", "y"}, {"try", "try"}, {"maybe", "try"}, {"auto", NULL},
          {"", NULL}, {"perhaps", NULL});
    CHECK(CW_VALUE_ON_OFF_AUTO, {"on", "on"}, {"off", "off"}, {"auto", "auto"}, {"y", "on"}, {"n", "off"}, {"1", "on"},
          {"yes", "on"}, {"try", NULL}, {"", NULL});
}

TEST(test_cfg52_integer)
{
    CHECK(CW_VALUE_UINT, {"0", "0"}, {"4294967294", "4294967294"}, {"inf", "inf"}, {"INF", "inf"}, {"0x10", "16"},
          {"010", "8"}, {"4294967295", NULL}, {"4294967296", NULL}, {"-1", NULL}, {"auto", NULL}, {"", NULL},
          {"a", NULL});
}

TEST(test_cfg53_ulunits)
{
    CHECK(CW_VALUE_ULUNITS, {"0", "0"}, {"64", "64"}, {"inf", "inf"}, {"auto", "auto"}, {"AUTO", "auto"},
          {"0x20", "32"}, {"-1", NULL}, {"1k", NULL}, {"", NULL}, {"18446744073709551614", NULL},
          {"18446744073709551616", NULL});
}

TEST(test_cfg54_memory_units)
{
    CHECK(CW_VALUE_MEMUNITS, {"0", "0"}, {"1000", "1000"}, {"65536", "64K"}, {"8192", "8K"}, {"8k", "8K"}, {"8K", "8K"},
          {"8kb", "8K"}, {"8KB", "8K"}, {"8Kb", "8K"}, {"100b", "100"}, {"100B", "100"}, {"1m", "1M"}, {"1024k", "1M"},
          {"3G", "3G"}, {"2t", "2T"}, {"1536", "1536"}, {"1536k", "1536K"}, {"4096T", "4096T"}, {"inf", "inf"},
          {"INF", "inf"}, {"auto", "auto"}, {"Auto", "auto"}, {"-1", "inf"}, {"", NULL}, {"k", NULL}, {"1.5k", NULL},
          {"-2", NULL}, {"-1k", NULL}, {"1 k", NULL}, {"1kk", NULL}, {"1p", NULL}, {"0x10", NULL}, {"1kib", NULL},
          {"18446744073709551615", NULL}, {"18446744073709551614", NULL}, {"16777216t", NULL},
          {"99999999999999999999", NULL}, {"1e3", NULL});
}

TEST(test_cfg55_time)
{
    const struct cw_value_spec spec = {CW_VALUE_TIME, NULL, NULL};
    uint64_t value_ns;

    CHECK(CW_VALUE_TIME, {"20s", "20000000.00us"}, {"20", "20000000.00us"}, {"1m", "60000000.00us"},
          {"5ms", "5000.00us"}, {"7us", "7.00us"}, {"250ns", "0.25us"}, {"0.5s", "500000.00us"}, {".5", "500000.00us"},
          {"1.", "1000000.00us"}, {"0", "0.00us"}, {"0s", "0.00us"}, {"inf", "inf"}, {"20000000.00us", "20000000.00us"},
          {"1ns", "0.01us"}, {"12ns", "0.01us"}, {"auto", NULL}, {"", NULL}, {"s", NULL}, {"1h", NULL}, {"1 s", NULL},
          {"-1s", NULL}, {"1ss", NULL}, {"1,5s", NULL}, {"nan", NULL}, {"1e400", NULL}, {"0x10", NULL},
          {"99999999999999999999s", NULL}, {".", NULL});
    CHECK(CW_VALUE_TIME_UNITS, {"auto", "auto"}, {"inf", "inf"}, {"10s", "10000000.00us"}, {"", NULL});
    assert_int_equal(cw_value_parse(&spec, "1.5ms", &value_ns), UCS_OK);
    assert_int_equal(value_ns, 1500000);
    assert_int_equal(cw_value_parse(&spec, "0.1s", &value_ns), UCS_OK);
    assert_int_equal(value_ns, 100000000);
}

TEST(test_cfg56_bandwidth)
{
    const struct cw_value_spec spec = {CW_VALUE_BANDWIDTH, NULL, NULL};
    double value;

    CHECK(CW_VALUE_BANDWIDTH, {"2200MBps", "2200.00MBps"}, {"2200MBs", "2200.00MBps"}, {"2200MB/s", "2200.00MBps"},
          {"2200MB", "2200.00MBps"}, {"2200.00MBps", "2200.00MBps"}, {"15GBps", "15360.00MBps"},
          {"8Gbps", "1024.00MBps"}, {"1TBps", "1048576.00MBps"}, {"512KBps", "512.00KBps"}, {"1023.999KB", "1.00MBps"},
          {"100Bps", "100.00Bps"}, {"80b", "10.00Bps"}, {"auto", "auto"}, {"", NULL}, {"100", NULL}, {"MBps", NULL},
          {"1MBpm", NULL}, {"1XBps", NULL}, {"-1MBps", NULL}, {"0MBps", NULL}, {"inf", NULL}, {"1MBps ", NULL},
          {"1MBpss", NULL}, {"0.0001B", NULL}, {"1e9MBps", NULL}, {"999999999999999999999TBps", NULL});
    assert_int_equal(cw_value_parse(&spec, "1MBps", &value), UCS_OK);
    assert_true(fabs(value - 1048576) < 0.5);
    assert_int_equal(cw_value_parse(&spec, "8Mbps", &value), UCS_OK);
    assert_true(fabs(value - 1048576) < 0.5);
}

TEST(test_cfg57_float)
{
    CHECK(CW_VALUE_FLOAT, {"0.5", "0.500"}, {"1", "1.000"}, {"4.", "4.000"}, {".25", "0.250"}, {"-2.5", "-2.500"},
          {"0.0004", "0.000"}, {"0.0005", "0.001"}, {"-0.0001", "0.000"}, {"123456.789", "123456.789"}, {"", NULL},
          {"auto", NULL}, {"1,5", NULL}, {"x", NULL}, {"1.2.3", NULL}, {"inf", "inf"}, {"Inf", "inf"}, {"-inf", NULL},
          {"nan", NULL}, {"--1", NULL}, {"1e5", NULL}, {"9999999999999", NULL});
    CHECK(CW_VALUE_FLOAT_AUTO, {"auto", "auto"}, {"inf", "inf"}, {"0.25", "0.250"}, {"-1", NULL}, {"", NULL});
}

TEST(test_cfg58_enumeration)
{
    CHECK_WORDS(CW_VALUE_ENUM, cw_words_log_level, {"warn", "WARN"}, {"WARN", "WARN"}, {"Debug", "DEBUG"},
                {"poll", "POLL"}, {"fatal", "FATAL"}, {"", NULL}, {"warning", NULL}, {"2", NULL}, {"warn ", NULL},
                {"warn,info", NULL});
    CHECK_WORDS(CW_VALUE_ENUM, cw_words_rndv_scheme, {"AUTO", "auto"}, {"get_zcopy", "get_zcopy"},
                {"RKEY_PTR", "rkey_ptr"}, {"get", NULL},
                {"a_word_longer_than_any_of_the_words_and_than_the_room_that_is_kept_for_one", NULL});
}

TEST(test_cfg59_bitmap)
{
    CHECK_WORDS(CW_VALUE_BITMAP, cw_words_memory_type, {"", ""}, {"host", "host"}, {"cuda,host", "host,cuda"},
                {"HOST,rdma", "host,rdma"}, {"host,host", "host"}, {"host,", "host"}, {"all", NULL}, {",host", NULL},
                {"host, cuda", NULL}, {"0", NULL});
}

TEST(test_cfg60_list)
{
    const struct cw_value_spec spec = {CW_VALUE_LIST, NULL, NULL};
    struct cw_name_list list;

    CHECK(CW_VALUE_LIST, {"", ""}, {"tcp", "tcp"}, {"a,b,c", "a,b,c"}, {"a, b", "a, b"}, {"a,,b", "a,b"}, {",", ""},
          {",a,", "a"}, {"mlx5_0:1", "mlx5_0:1"}, {"a=b", NULL}, {"a\nb", NULL}, {"a\x7f", NULL});
    assert_int_equal(cw_value_parse(&spec, "tcp, self", &list), UCS_OK);
    assert_int_equal(list.count, 2);
    assert_string_equal(list.names[1], " self"); /* blanks are not trimmed */
    assert_true(cw_name_list_has(&list, "tcp"));
    assert_false(cw_name_list_has(&list, "self"));
    cw_value_release(&spec, &list);
}

TEST(test_cfg60_range)
{
    /* N22-131 */
    CHECK(CW_VALUE_NODE_SIZES, {"65536", "64K"}, {"auto", "auto"}, {"intra:8k,inter:1m", "intra:8K,inter:1M"},
          {"inter:1m,intra:8k", "intra:8K,inter:1M"}, {"intra:inf", "intra:inf,inter:auto"},
          {"inter:0", "intra:auto,inter:0"}, {"intra:8k,inter:8k", "8K"}, {"", NULL}, {"intra:", NULL},
          {"intra", NULL}, {"intra:8k,", NULL}, {"inner:8k", NULL}, {"intra:8k,64", NULL}, {"8k,inter:8k", NULL},
          {"intra:1k,inter:2k,intra:3k", NULL}, {"intra:much", NULL});
    CHECK(CW_VALUE_RANGE, {"0", "0"}, {"10000-10100", "10000-10100"}, {"5-5", "5"}, {"65536", "65536"}, {"", NULL},
          {"-", NULL}, {"5-", NULL}, {"-5", NULL}, {"9-5", NULL}, {"a-b", NULL}, {"1-2-3", NULL}, {"1 - 2", NULL},
          {"inf", NULL}, {"0-inf", NULL},
          {"00000000000000000000000000000000000000000000000000000000000000000000000000000000000001", NULL});
}

TEST(test_cfg61_allow_list)
{
    const struct cw_value_spec spec = {CW_VALUE_ALLOW_LIST, NULL, NULL};
    struct cw_allow_list list;

    CHECK(CW_VALUE_ALLOW_LIST, {"all", "all"}, {"tcp,self", "tcp,self"}, {"^tcp", "^tcp"}, {"^tcp,ib", "^tcp,ib"},
          {"", ""}, {"^", "^"}, {"\\rc", "\\rc"}, {"ud:aux", "ud:aux"}, {"all,tcp", NULL}, {"tcp,all", NULL},
          {"^all", NULL}, {",all", NULL}, {",^a", NULL}, {"a=b", NULL}, {"tcp,^self", "tcp,^self"},
          {"^tcp,^self", "^tcp,^self"}, {"^^tcp", "^^tcp"}, {"^,^a", "^^a"});
    assert_int_equal(cw_value_parse(&spec, "^tcp,ib", &list), UCS_OK);
    assert_int_equal(list.mode, CW_LIST_EXCEPT);
    assert_int_equal(list.list.count, 2);
    assert_string_equal(list.list.names[0], "tcp");
    cw_value_release(&spec, &list);
}

TEST(test_cfg62_key_value_is_printed_as_written)
{
    const struct cw_value_spec spec = {CW_VALUE_MEMORY_SIZES, NULL, "host:512K,cuda:4M"};
    struct cw_memory_sizes sizes;

    check_samples(CW_VALUE_MEMORY_SIZES, NULL, "host:512K,cuda:4M",
                  (const struct sample[]){{"host:512K,cuda:4M", "host:512K,cuda:4M"},
                                          {"host:1024kb", "host:1024kb"},
                                          {"", ""},
                                          {"rocm-managed:1,", "rocm-managed:1,"},
                                          {"host", NULL},
                                          {"host:", NULL},
                                          {"disk:1", NULL},
                                          {"host:1;cuda:2", NULL},
                                          {"host:1:2", NULL},
                                          {"host=1", NULL},
                                          {NULL, NULL}});
    assert_int_equal(cw_value_parse(&spec, "cuda:1M", &sizes), UCS_OK);
    assert_int_equal(sizes.sizes[0], 512 * 1024); /* what is not mentioned keeps its default */
    assert_int_equal(sizes.sizes[1], 1024 * 1024);
    cw_value_release(&spec, &sizes);
}

/* CFG-8: what nothing reads. */
TEST(test_cfg8_names_without_effect_take_any_text)
{
    CHECK(CW_VALUE_ANY, {"", ""}, {"8192", "8192"}, {"Yes", "Yes"}, {"a=b", "a=b"}, {"a\nb", "a\nb"}, {" ", " "});
}

TEST(test_cfg26_texts_stay_on_one_line_without_equals)
{
    CHECK(CW_VALUE_STRING, {"", ""}, {"/dev/shm", "/dev/shm"}, {" a b ", " a b "}, {"a=b", NULL}, {"a\tb", NULL},
          {"a\n", NULL}, {"\x1b[1m", NULL}, {"\xc3\xa4", "\xc3\xa4"});
    CHECK(CW_VALUE_FREE_TEXT, {"a=b", "a=b"}, {"a\nb", NULL});
    CHECK(CW_VALUE_PATTERN, {"/tmp/%h=%p", "/tmp/%h=%p"}, {"", ""}, {"a\rb", NULL});
}

/* A decimal comma must not get into what other programs parse. */
TEST(test_printing_is_independent_of_the_locale)
{
    static const char *const locales[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "fr_FR.utf8", "de_DE", "fr_FR"};
    size_t i;

    for (i = 0; i < sizeof(locales) / sizeof(locales[0]); ++i) {
        if (setlocale(LC_ALL, locales[i]) != NULL) {
            break;
        }
    }
    if (i == sizeof(locales) / sizeof(locales[0])) {
        skip();
    }
    CHECK(CW_VALUE_TIME, {"1.5us", "1.50us"});
    CHECK(CW_VALUE_FLOAT, {"1.5", "1.500"});
    CHECK(CW_VALUE_BANDWIDTH, {"1.5MBps", "1.50MBps"});
    (void)setlocale(LC_ALL, "C");
}

TEST(test_every_type_says_what_it_expects)
{
    struct cw_text text = {0};
    size_t i;

    for (i = 0; i < CW_SETTING_COUNT; ++i) {
        cw_text_clear(&text);
        cw_value_syntax(&cw_settings[i].spec, &text);
        assert_true(text.length > 3);
        assert_null(strchr(cw_text_get(&text), '\n'));
    }
    cw_text_free(&text);
}

/* N23-75: which devices a list lets be used. */
TEST(test_n23_75_lists_of_devices)
{
    static const struct {
        const char *list, *allowed, *others;    /* with blanks between */
    } samples[] = {
        {"all", "eth0 lo mlx5_0:1", ""},
        {"eth0", "eth0", "eth1 eth eth00 eth0x"},
        {"^eth0", "eth1 lo", "eth0"},
        {"^lo,eth0", "eth1 docker0", "lo eth0"},
        {"^", "eth0 lo", ""},
        {"^all", "eth0 lo", ""},
        {"eth0,^lo", "eth0", "lo eth1"},
        {"eth[0-3]", "eth0 eth1 eth3", "eth4 eth eth01 eth00 eth[0-3] eth0x xeth0 lo"},
        {"eth[2-10]", "eth2 eth9 eth10", "eth1 eth11 eth02 eth100"},
        {"^eth[0-3]", "eth4 lo", "eth0 eth3"},
        {"lo,ib[1-2]x", "lo ib1x ib2x", "ib1 ib3x ib2xx"},
        {"eth[0]", "eth[0]", "eth0"}, /* these are names and no ranges */
        {"eth[3-0]", "eth[3-0]", "eth3 eth0 eth2"},
        {"eth[0-", "eth[0-", "eth0"},
        {"eth[a-b]", "eth[a-b]", "etha"},
        {"e[0-1][0-1]", "e0[0-1]", "e00 e11"},
        {"eth[-1-2]", "eth[-1-2]", "eth1"},
        {"eth[0-99999999999999999999]", "eth[0-99999999999999999999]", "eth5"},
        {"mlx5_0", "mlx5_0 mlx5_0:1 mlx5_0:2", "mlx5_1:1 mlx5_0: mlx5_0:x mlx5_01"},
        {"^mlx5_0", "mlx5_1:1", "mlx5_0:1"},
        {"mlx5_[0-1]:1", "mlx5_0:1 mlx5_1:1", "mlx5_0:2 mlx5_0 mlx5_2:1"},
        {"tcp", "tcp", "tcp:eth0"}, /* no port */
        {"", "", "eth0 lo all"},
    };
    const struct cw_value_spec spec = {.type = CW_VALUE_LIST};
    struct cw_name_list list, names;
    char text[128];
    size_t i;

    for (i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        assert_int_equal(cw_value_parse(&spec, samples[i].list, &list), UCS_OK);
        for (int allowed = 0; allowed < 2; allowed++) {
            (void)snprintf(text, sizeof(text), "%s", allowed ? samples[i].allowed : samples[i].others);
            for (char *name = strtok(text, " "); name != NULL; name = strtok(NULL, " ")) {
                if (cw_device_list_allows(&list, name) != allowed) {
                    fail_msg("'%s' %s '%s'", samples[i].list, allowed ? "refuses" : "allows", name);
                }
            }
        }
        free(list.names);
    }
    assert_int_equal(cw_value_parse(&spec, "^lo", &list), UCS_OK);
    assert_int_equal(cw_value_parse(&spec, "lo,eth[0-1]", &names), UCS_OK);
    assert_true(cw_device_list_is_open(&list) && !cw_device_list_is_open(&names));
    free(list.names);
    free(names.names);
}
