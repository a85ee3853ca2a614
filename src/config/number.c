/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers of settings as text (config/number.h). strtod and "%.2f" follow the locale of the program, so decimals
 * are read and written here digit by digit.
 */
#include "config/number.h"

#include <string.h>

#include "config/value.h"

/* Beyond this a double cannot represent every integer. */
#define EXACT_MAX 9007199254740992.0

static int digit_value(char letter)
{
    if (letter >= '0' && letter <= '9') {
        return letter - '0';
    }
    if (letter >= 'a' && letter <= 'f') {
        return letter - 'a' + 10;
    }
    if (letter >= 'A' && letter <= 'F') {
        return letter - 'A' + 10;
    }
    return 16;
}

/* Digits of one base up to the first other character; NULL when there are none or too many. */
static const char *scan_digits(const char *text, unsigned base, uint64_t *value_p)
{
    const char *position = text;
    uint64_t value = 0;
    unsigned digit;

    while ((digit = (unsigned)digit_value(*position)) < base) {
        if (value > (UINT64_MAX - digit) / base) {
            return NULL;
        }
        value = value * base + digit;
        ++position;
    }
    if (position == text) {
        return NULL;
    }
    *value_p = value;
    return position;
}

/* C notation: decimal, 0x and leading 0. */
static int scan_integer(const char *text, uint64_t *value_p)
{
    const char *end;

    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
        end = scan_digits(text + 2, 16, value_p);
    } else if (text[0] == '0' && text[1] != '\0') {
        end = scan_digits(text + 1, 8, value_p);
    } else {
        end = scan_digits(text, 10, value_p);
    }
    return end != NULL && *end == '\0';
}

int cw_number_read_uint(const char *text, unsigned *value_p)
{
    uint64_t value;

    if (cw_string_equal_nocase(text, "inf")) {
        *value_p = CW_UINT_INF;
        return 1;
    }
    if (!scan_integer(text, &value) || value >= CW_UINT_INF) {
        return 0;
    }
    *value_p = (unsigned)value;
    return 1;
}

int cw_number_read_ulunits(const char *text, uint64_t *value_p)
{
    uint64_t value;

    if (cw_string_equal_nocase(text, "inf")) {
        value = CW_ULUNITS_INF;
    } else if (cw_string_equal_nocase(text, "auto")) {
        value = CW_ULUNITS_AUTO;
    } else if (!scan_integer(text, &value) || value >= CW_ULUNITS_AUTO) {
        return 0;
    }
    *value_p = value;
    return 1;
}

/* Power of 1024 of a scale letter; -1 for any other character. */
static int scale_power(char letter)
{
    static const char letters[] = "kmgtKMGT";
    const char *found = (letter == '\0') ? NULL : strchr(letters, letter);

    return (found == NULL) ? -1 : (int)((found - letters) % 4) + 1;
}

int cw_number_read_memunits(const char *text, size_t *value_p)
{
    const char *end;
    uint64_t value;
    int power;

    if (cw_string_equal_nocase(text, "inf") || strcmp(text, "-1") == 0) {
        *value_p = CW_MEMUNITS_INF;
        return 1;
    }
    if (cw_string_equal_nocase(text, "auto")) {
        *value_p = CW_MEMUNITS_AUTO;
        return 1;
    }
    end = scan_digits(text, 10, &value);
    if (end == NULL) {
        return 0;
    }
    power = scale_power(*end);
    if (power > 0) {
        if (value > (UINT64_MAX >> (10 * power))) {
            return 0;
        }
        value <<= 10 * power;
        ++end;
    }
    if (*end == 'b' || *end == 'B') {
        ++end;
    }
    if (*end != '\0' || value >= CW_MEMUNITS_AUTO) {
        return 0;
    }
    *value_p = (size_t)value;
    return 1;
}

/* Digits with an optional fraction; NULL when there are none. */
static const char *scan_decimal(const char *text, double *value_p)
{
    const char *position = text;
    double value = 0;
    double weight = 1;
    int digits = 0;

    for (; *position >= '0' && *position <= '9'; ++position, ++digits) {
        value = value * 10 + (*position - '0');
    }
    if (*position == '.') {
        for (++position; *position >= '0' && *position <= '9'; ++position, ++digits) {
            /* Division at the end keeps 0.1 the nearest double; digits beyond the precision of a double are ignored. */
            if (weight < 1e15) {
                value = value * 10 + (*position - '0');
                weight *= 10;
            }
        }
    }
    if (digits == 0 || !(value < 1e300)) {
        return NULL;
    }
    *value_p = value / weight;
    return position;
}

int cw_number_read_time(const char *text, int allow_auto, uint64_t *value_p)
{
    static const struct {
        const char *suffix;
        double ns;
    } units[] = {{"", 1e9}, {"s", 1e9}, {"m", 60e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}};
    const char *end;
    double value;
    size_t i;

    if (cw_string_equal_nocase(text, "inf")) {
        *value_p = CW_TIME_INF;
        return 1;
    }
    if (allow_auto && cw_string_equal_nocase(text, "auto")) {
        *value_p = CW_TIME_AUTO;
        return 1;
    }
    end = scan_decimal(text, &value);
    if (end == NULL) {
        return 0;
    }
    for (i = 0; i < sizeof(units) / sizeof(units[0]); ++i) {
        if (strcmp(end, units[i].suffix) == 0) {
            break;
        }
    }
    if (i == sizeof(units) / sizeof(units[0]) || value * units[i].ns >= EXACT_MAX * 10) {
        return 0;
    }
    value *= units[i].ns / 10;
    *value_p = ((value > 0 && value < 1) ? 1 : (uint64_t)(value + 0.5)) * 10;
    return 1;
}

/* The steps of canonical bandwidth text, greatest first. */
static const struct {
    double bytes;
    const char *name;
} bandwidth_units[] = {{1048576, "MBps"}, {1024, "KBps"}, {1, "Bps"}};

/* The unit in which a bandwidth is printed. */
static size_t bandwidth_unit(double value)
{
    size_t i = 0;

    while (i < 2 && value < bandwidth_units[i].bytes) {
        ++i;
    }
    return i;
}

static const char *scan_bandwidth_unit(const char *text, double *value_p)
{
    int power = scale_power(*text);

    if (power > 0) {
        ++text;
        *value_p *= (double)(1ull << (10 * power));
    }
    if (*text == 'b') {
        *value_p /= 8;
    } else if (*text != 'B') {
        return NULL;
    }
    ++text;
    if (strcmp(text, "ps") == 0 || strcmp(text, "/s") == 0 || strcmp(text, "s") == 0 || *text == '\0') {
        return text;
    }
    return NULL;
}

int cw_number_read_bandwidth(const char *text, double *value_p)
{
    const char *end;
    double value;
    double unit;

    if (cw_string_equal_nocase(text, "auto")) {
        *value_p = CW_BANDWIDTH_AUTO;
        return 1;
    }
    end = scan_decimal(text, &value);
    if (end == NULL || scan_bandwidth_unit(end, &value) == NULL || value >= EXACT_MAX) {
        return 0;
    }
    unit = bandwidth_units[bandwidth_unit(value)].bytes;
    value = (double)(uint64_t)(value / unit * 100 + 0.5) / 100 * unit;
    if (!(value > 0)) {
        return 0;
    }
    *value_p = value;
    return 1;
}

int cw_number_read_float(const char *text, int allow_auto, double *value_p)
{
    int negative = (!allow_auto && text[0] == '-');
    const char *end;
    double value;

    if (allow_auto && cw_string_equal_nocase(text, "auto")) {
        *value_p = CW_FLOAT_AUTO;
        return 1;
    }
    if (cw_string_equal_nocase(text, "inf")) {
        *value_p = CW_FLOAT_INF;
        return 1;
    }
    end = scan_decimal(text + negative, &value);
    if (end == NULL || *end != '\0' || value >= CW_FLOAT_INF) {
        return 0;
    }
    value = (double)(uint64_t)(value * 1000 + 0.5) / 1000;
    *value_p = (negative && value > 0) ? -value : value;
    return 1;
}

void cw_number_print_uint(unsigned value, struct cw_text *text)
{
    if (value == CW_UINT_INF) {
        cw_text_add(text, "inf");
    } else {
        cw_text_addf(text, "%u", value);
    }
}

void cw_number_print_ulunits(uint64_t value, struct cw_text *text)
{
    if (value == CW_ULUNITS_INF) {
        cw_text_add(text, "inf");
    } else if (value == CW_ULUNITS_AUTO) {
        cw_text_add(text, "auto");
    } else {
        cw_text_addf(text, "%llu", (unsigned long long)value);
    }
}

void cw_number_print_memunits(size_t value, struct cw_text *text)
{
    static const char suffixes[] = {'K', 'M', 'G', 'T'};
    unsigned power = 0;

    if (value == CW_MEMUNITS_INF) {
        cw_text_add(text, "inf");
        return;
    }
    if (value == CW_MEMUNITS_AUTO) {
        cw_text_add(text, "auto");
        return;
    }
    while (value != 0 && value % 1024 == 0 && power < sizeof(suffixes)) {
        value /= 1024;
        ++power;
    }
    cw_text_addf(text, "%zu", value);
    if (power > 0) {
        cw_text_add_bytes(text, &suffixes[power - 1], 1);
    }
}

void cw_number_print_time(uint64_t value, struct cw_text *text)
{
    if (value == CW_TIME_INF) {
        cw_text_add(text, "inf");
    } else if (value == CW_TIME_AUTO) {
        cw_text_add(text, "auto");
    } else {
        cw_text_addf(text, "%llu.%02lluus", (unsigned long long)(value / 1000),
                     (unsigned long long)(value % 1000 / 10));
    }
}

void cw_number_print_bandwidth(double value, struct cw_text *text)
{
    size_t unit = bandwidth_unit(value);
    uint64_t hundredths;

    if (value < 0) {
        cw_text_add(text, "auto");
        return;
    }
    hundredths = (uint64_t)(value / bandwidth_units[unit].bytes * 100 + 0.5);
    cw_text_addf(text, "%llu.%02llu%s", (unsigned long long)(hundredths / 100), (unsigned long long)(hundredths % 100),
                 bandwidth_units[unit].name);
}

void cw_number_print_float(double value, int allow_auto, struct cw_text *text)
{
    uint64_t thousandths;

    if (allow_auto && value < 0) {
        cw_text_add(text, "auto");
        return;
    }
    if (value >= CW_FLOAT_INF) {
        cw_text_add(text, "inf");
        return;
    }
    thousandths = (uint64_t)(((value < 0) ? -value : value) * 1000 + 0.5);
    cw_text_addf(text, "%s%llu.%03llu", (value < 0) ? "-" : "", (unsigned long long)(thousandths / 1000),
                 (unsigned long long)(thousandths % 1000));
}
