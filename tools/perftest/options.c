/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Command line of the performance tool.
 *
 * Callers: main.c, batch.c.
 * Options of the reference tool that do not concern its UCP tests are ignored with a warning. One that does and that
 * this version has not is refused: a number that was measured without what the user asked for would be a wrong answer.
 */
#define _GNU_SOURCE
#include "options.h"

#include "say.h"
#include "tests.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define MOST_BYTES (UINT64_C(1) << 40)

enum { OPTION_PERCENTILES = 256, OPTION_TIMEOUT, OPTION_LIBRARY, OPTION_USER_MEMORY,
       OPTION_JSON, OPTION_SWEEP, OPTION_PATTERN, OPTION_YIELD };

static const char short_options[] = "+:t:s:m:n:w:c:O:i:loBb:R:p:6P:K:hNfvIXqd:x:D:W:H:A:T:M:CUr:e::E:yzV";

static const struct option long_options[] = {
    {"help", no_argument, NULL, 'h'},
    {"verify", no_argument, NULL, 'V'},
    {"percentiles", no_argument, NULL, OPTION_PERCENTILES},
    {"timeout", required_argument, NULL, OPTION_TIMEOUT},
    {"library", no_argument, NULL, OPTION_LIBRARY},
    {"csv", no_argument, NULL, 'v'},
    {"json", no_argument, NULL, OPTION_JSON},
    {"sweep", required_argument, NULL, OPTION_SWEEP},
    {"pattern", required_argument, NULL, OPTION_PATTERN},
    {"quiet", no_argument, NULL, 'q'},
    {"yield", no_argument, NULL, OPTION_YIELD},
    {"user-memory", no_argument, NULL, OPTION_USER_MEMORY},
    {NULL, 0, NULL, 0},
};

void cw_options_init(struct cw_perf_options *options)
{
    *options = (struct cw_perf_options){
        .params = {.size = 8, .parts = {8}, .part_count = 1,
                   .iterations = 1000000, .warmup = 10000, .thread_mode = UCS_THREAD_MODE_SINGLE,
                   .threads = 1},
        .family = AF_INET,
        .port = 13337,
        .rank = 50.0,
        .timeout_s = 60,
    };
}

static bool parse_count(const char *text, const char *what, uint64_t least, uint64_t most, uint64_t *value)
{
    char *end;

    errno = 0;
    unsigned long long number = strtoull(text, &end, 0);
    if (end == text || *end != '\0' || strchr(text, '-') != NULL || errno != 0) {
        cw_say_error("%s: '%s' is not a number", what, text);
        return false;
    }
    if (number < least || number > most) {
        cw_say_error("%s: %s is not between %llu and %llu", what, text, (unsigned long long)least,
                     (unsigned long long)most);
        return false;
    }
    *value = number;
    return true;
}

/* A number of bytes as the library's settings have it: K, M or G behind it are 2^10, 2^20 and 2^30, KB is K, and small
 * letters serve as well. Returns what follows, NULL if it is none. */
static const char *parse_bytes(const char *text, uint64_t *bytes)
{
    static const char units[] = "kmg";
    char *end;

    errno = 0;
    unsigned long long number = strtoull(text, &end, 0);
    const char *unit = *end != '\0' ? strchr(units, tolower((unsigned char)*end)) : NULL;
    unsigned shift = unit == NULL ? 0 : 10 * (unsigned)(unit - units + 1);
    if (*text < '0' || *text > '9' || errno != 0 || number > UINT64_MAX >> shift) {
        return NULL;
    }
    *bytes = number << shift;
    end += unit != NULL;
    return unit != NULL && tolower((unsigned char)*end) == 'b' ? end + 1 : end;
}

/* One entry of -s: a length, or a length and how often it comes, such as 1024:16. */
static bool parse_part(const char *text, uint64_t *length, uint64_t *times)
{
    static const char what[] = "message size (-s)";
    const char *end = parse_bytes(text, length);

    *times = 1;
    if (end != NULL && *end == ':') {
        return parse_count(end + 1, "number of entries (-s SIZE:COUNT)", 1, CW_PERF_MAX_PARTS, times);
    }
    if (end == NULL || *end != '\0') {
        cw_say_error("%s: '%s' is not a number of bytes such as 8, 64K or 4M", what, text);
        return false;
    }
    return true;
}

static bool parse_length(const char *text, const char *what, uint64_t most, uint64_t *bytes)
{
    const char *end = parse_bytes(text, bytes);

    if (end == NULL || *end != '\0') {
        cw_say_error("%s: '%s' is not a number of bytes such as 8, 64K or 4M", what, text);
        return false;
    }
    if (*bytes > most) {
        cw_say_error("%s: %s is more than %llu", what, text, (unsigned long long)most);
        return false;
    }
    return true;
}

/* A list of sizes is the lengths of the parts of one message: only their sum matters without -D iov. */
static bool parse_size(const char *text, struct cw_perf_params *params)
{
    char copy[1024];
    char *rest = copy, *part;

    if (snprintf(copy, sizeof(copy), "%s", text) >= (int)sizeof(copy)) {
        cw_say_error("message size (-s): the list is too long");
        return false;
    }
    params->size = 0;
    params->part_count = 0;
    while ((part = strsep(&rest, ",")) != NULL) {
        uint64_t one, times;
        if (!parse_part(part, &one, &times)) {
            return false;
        }
        if (one > MOST_BYTES) {
            cw_say_error("message size (-s): %s is more than %llu", part, (unsigned long long)MOST_BYTES);
            return false;
        }
        if (params->part_count + times > CW_PERF_MAX_PARTS) {
            cw_say_error("message size (-s): more than %d parts", CW_PERF_MAX_PARTS);
            return false;
        }
        for (; times > 0; times--) {
            params->parts[params->part_count++] = one;
            params->size += one;
        }
    }
    return true;
}

static bool parse_test(const char *name, struct cw_perf_params *params)
{
    static const char *const transport_tests[] = {"am_lat", "put_lat", "add_lat", "get",    "fadd",
                                                  "swap",   "cswap",   "am_bw",   "put_bw", "add_mr"};
    const struct cw_perf_test *test = cw_test_find(name);

    for (size_t i = 0; i < sizeof(transport_tests) / sizeof(transport_tests[0]); i++) {
        if (strcmp(name, transport_tests[i]) == 0) {
            cw_say_error("test '%s' (-t) is of the transport layer (UCT); this tool has UCP tests only", name);
            return false;
        }
    }
    if (test == NULL) {
        cw_say_error("test '%s' (-t) is not known; ucx_perftest -h lists the tests", name);
        return false;
    }
    snprintf(params->test, sizeof(params->test), "%s", name);
    return true;
}

static bool parse_choice(const char *what, const char *text, const char *const *names, unsigned *index)
{
    for (*index = 0; names[*index] != NULL; (*index)++) {
        if (strcmp(names[*index], text) == 0) {
            return true;
        }
    }
    cw_say_error("%s: '%s' is not one of its values", what, text);
    return false;
}

static bool parse_rank(const char *text, double *rank)
{
    char *end;

    *rank = strtod(text, &end);
    if (end == text || *end != '\0' || !(*rank >= 0 && *rank <= 100)) {
        cw_say_error("percentile rank (-R): '%s' is not between 0 and 100", text);
        return false;
    }
    return true;
}

/* Options of the reference tool for what this tool does not measure, or does not do. */
static bool parse_foreign(int letter, const char *value)
{
    if (letter == 'K') {
        cw_say_error("option -K is not in this version of the tool: the out-of-band connection supports TCP only");
        return false;
    }
    if (letter == 'x' || letter == 'd') {
        cw_say_note("warning: -%c %s is ignored: %s selects %s in tests of UCP", letter, value,
                    letter == 'x' ? "UCX_TLS" : "UCX_NET_DEVICES", letter == 'x' ? "transports" : "devices");
    } else {
        cw_say_note("warning: -%c %s is ignored: it is for tests of the transport layer (UCT)", letter, value);
    }
    return true;
}

/* -D <sender's>[,<receiver's>]; one word alone is the sender's. */
static bool parse_layout(struct cw_perf_params *params, const char *text)
{
    static const char *const layouts[] = {"contig",     "iov",     "contig,contig", "iov,contig",
                                          "contig,iov", "iov,iov", NULL};
    unsigned index;

    if (!parse_choice("data layout (-D)", text, layouts, &index)) {
        return false;
    }
    params->send_iov = index % 2 == 1;
    params->recv_iov = index >= 4;
    return true;
}

static bool parse_memory_type(const char *text, size_t length, ucs_memory_type_t *type)
{
    for (*type = UCS_MEMORY_TYPE_HOST; *type <= UCS_MEMORY_TYPE_ROCM_MANAGED; (*type)++) {
        if (strlen(cw_memory_name(*type)) == length && strncmp(cw_memory_name(*type), text, length) == 0) {
            return true;
        }
    }
    cw_say_error("memory type (-m): '%.*s' is not one of host, cuda, cuda-managed, rocm and "
                 "rocm-managed", (int)length, text);
    return false;
}

/* -m <sender's>[,<receiver's>]; one word alone is both. */
static bool parse_memory(struct cw_perf_params *params, const char *text)
{
    size_t first = strcspn(text, ",");
    const char *second = text[first] == ',' ? text + first + 1 : text;

    return parse_memory_type(text, first, &params->send_memory) &&
           parse_memory_type(second, second == text ? first : strlen(second), &params->recv_memory);
}

/* Options that shape the message. */
static bool parse_message(struct cw_perf_params *params, int letter, const char *value)
{
    static const char *const modes[] = {"recv", "recv_data", NULL};
    unsigned index;

    switch (letter) {
    case 'D':
        return parse_layout(params, value);
    case 'i':
        return parse_length(value, "distance of entries (-i)", MOST_BYTES, &params->stride);
    case 'H':
        return parse_length(value, "active message header (-H)", 1u << 20, &params->am_header);
    case 'y':
        params->copy = true;
        return true;
    case 'r':
        if (!parse_choice("receive mode (-r)", value, modes, &index)) {
            return false;
        }
        params->recv_data = index == 1;
        return true;
    case 'm':
        return parse_memory(params, value);
    case 'z':
        params->memory_handle = true;
        return true;
    case 'B':
        params->nonblock = true;
        return true;
    case 'o':
        params->idle_target = true;
        return true;
    case OPTION_USER_MEMORY:
        params->user_memory = true;
        return true;
    default:
        return parse_foreign(letter, value);
    }
}

static bool parse_how(struct cw_perf_options *options, int letter, const char *value)
{
    static const char *const wait_modes[] = {"poll", "sleep", NULL};
    static const char *const thread_modes[] = {"single", "serialized", "multi", NULL};
    unsigned index;
    uint64_t number;

    switch (letter) {
    case 'E':
        if (!parse_choice("wait mode (-E)", value, wait_modes, &index)) {
            return false;
        }
        options->params.sleep = index == 1;
        return true;
    case 'M':
        if (!parse_choice("thread mode (-M)", value, thread_modes, &index)) {
            return false;
        }
        options->params.thread_mode = (ucs_thread_mode_t)index;
        return true;
    case 'T':
        if (!parse_count(value, "threads (-T)", 1, CW_PERF_MAX_THREADS, &number)) {
            return false;
        }
        options->params.threads = (unsigned)number;
        return true;
    case 'C':
        options->params.wildcard_tag = true;
        return true;
    case 'U':
        options->params.probe_first = true;
        return true;
    default:
        return parse_message(&options->params, letter, value);
    }
}

static bool parse_sweep(struct cw_perf_options *options, const char *text)
{
    const char *at = parse_bytes(text, &options->sweep_first);

    if (at == NULL || *at != ':' || (at = parse_bytes(at + 1, &options->sweep_last)) == NULL || *at != '\0' ||
        options->sweep_last < options->sweep_first || options->sweep_last > MOST_BYTES) {
        cw_say_error("--sweep: '%s' is not a range of sizes such as 8:4M", text);
        return false;
    }
    options->sweep = true;
    return true;
}

static bool parse_pattern(struct cw_perf_options *options, const char *text)
{
    static const char *const patterns[] = {"pairs", "all", "many", NULL};
    unsigned index;

    if (!parse_choice("--pattern", text, patterns, &index)) {
        return false;
    }
    options->pattern = (enum cw_perf_pattern)index;
    options->pattern_given = true;
    return true;
}

static const char *const error_modes[] = {"none", "peer", "failover", NULL};

/* A word has to follow the letter at once (N23-80): what stands apart is the host. */
static bool parse_error_mode(struct cw_perf_options *options, const char *text)
{
    unsigned index = UCP_ERR_HANDLING_MODE_PEER;

    if (text != NULL && !parse_choice("error handling (-e)", text, error_modes, &index)) {
        return false;
    }
    options->error_mode = (ucp_err_handling_mode_t)index;
    return true;
}

static bool parse_place(struct cw_perf_options *options, int letter, const char *value)
{
    uint64_t number;

    switch (letter) {
    case 'c':
        options->cpus = value;
        return true;
    case 'l':
        options->loopback = true;
        return true;
    case 'p':
        if (!parse_count(value, "port (-p)", 1, 65535, &number)) {
            return false;
        }
        options->port = (unsigned)number;
        options->port_given = true;
        return true;
    case 'P':
        if (!parse_count(value, "part of a job (-P)", 0, 1, &number)) {
            return false;
        }
        options->job = number == 0 ? CW_JOB_NO : CW_JOB_YES;
        return true;
    case '6':
        options->family = AF_INET6;
        return true;
    case 'e':
        return parse_error_mode(options, value);
    case 'b':
        if (options->batches == CW_PERF_MAX_BATCH) {
            cw_say_error("more than %d batch files (-b)", CW_PERF_MAX_BATCH);
            return false;
        }
        options->batch[options->batches++] = value;
        return true;
    case OPTION_TIMEOUT:
        if (!parse_count(value, "--timeout", 1, 86400, &number)) {
            return false;
        }
        options->timeout_s = (unsigned)number;
        options->wait_limited = true;
        return true;
    case OPTION_SWEEP:
        return parse_sweep(options, value);
    case OPTION_PATTERN:
        return parse_pattern(options, value);
    case OPTION_YIELD:
        options->share_cpu = true;
        return true;
    case OPTION_LIBRARY:
        options->show_library = true;
        return true;
    default:
        return parse_how(options, letter, value);
    }
}

static bool parse_one(struct cw_perf_options *options, int letter, const char *value)
{
    switch (letter) {
    case 't':
        return parse_test(value, &options->params);
    case 's':
        options->size_given = true;
        return parse_size(value, &options->params);
    case 'n':
        options->iterations_given = true;
        if (!parse_count(value, "iterations (-n)", 0, CW_PERF_ENDLESS, &options->params.iterations)) {
            return false;
        }
        if (options->params.iterations == 0) {
            options->params.iterations = CW_PERF_ENDLESS;
        }
        return true;
    case 'w':
        return parse_count(value, "warm-up iterations (-w)", 0, UINT64_C(1) << 48, &options->params.warmup);
    case 'O':
        return parse_count(value, "outstanding sends (-O)", 0, 1u << 20, &options->params.window);
    case 'R':
        return parse_rank(value, &options->rank);
    case 'N':
        options->thousands = true;
        return true;
    case 'f':
        options->final_only = true;
        return true;
    case 'v':
        options->csv = true;
        return true;
    case 'q':
        options->quiet = true;
        cw_say_setup("ucx_perftest", true);
        return true;
    case 'h':
        options->help = true;
        return true;
    case 'X':
        options->extra = true;
        return true;
    case 'I':
        options->wakeup = true;
        return true;
    case 'V':
        options->params.verify = true;
        return true;
    case OPTION_PERCENTILES:
        options->percentiles = true;
        return true;
    case OPTION_JSON:
        options->json = true;
        return true;
    default:
        return parse_place(options, letter, value);
    }
}

static bool allowed_in_batch(int letter)
{
    return letter == OPTION_USER_MEMORY ||
           (letter < 256 && strchr("tsnwOEMCUmDiTroHyzBVdxWA", letter) != NULL);
}

static bool is_error_mode(const char *word)
{
    for (size_t i = 0; error_modes[i] != NULL; i++) {
        if (strcmp(word, error_modes[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void say_mode_apart(const char *word)
{
    cw_say_error("'%s' is taken for the host; a mode of -e follows the letter at once: -e%s", word, word);
}

/* The one word is the host. */
static bool take_word(struct cw_perf_options *options, const char *word, bool in_batch)
{
    if (in_batch || options->host != NULL) {
        if (options->host != NULL && is_error_mode(options->host)) {
            say_mode_apart(options->host);
        } else {
            cw_say_error("'%s' is one word too many", word);
        }
        return false;
    }
    options->host = word;
    return true;
}

/* What cannot be right together. */
static bool check(const struct cw_perf_options *options)
{
    const struct cw_perf_params *params = &options->params;
    const struct cw_perf_test *test = cw_test_find(params->test);

    if (options->loopback && options->host != NULL) {
        if (is_error_mode(options->host)) {
            say_mode_apart(options->host);
        } else {
            cw_say_error("a host ('%s') and -l are mutually exclusive: -l runs both sides in this process",
                         options->host);
        }
        return false;
    }
    if (options->job == CW_JOB_YES && (options->loopback || options->host != NULL)) {
        cw_say_error("a part of a job (-P 1) finds its peers by itself: not together with %s",
                     options->loopback ? "-l" : "a host");
        return false;
    }
    if (options->json && options->csv) {
        cw_say_error("--json and comma-separated values (-v) are mutually exclusive");
        return false;
    }
    if (options->sweep && options->size_given) {
        cw_say_error("a sweep of sizes (--sweep) and a size (-s) are mutually exclusive");
        return false;
    }
    if (params->verify && params->stride != 0) {
        cw_say_error("--verify supports contiguous lists only: not together with -i");
        return false;
    }
    if (params->send_memory != UCS_MEMORY_TYPE_HOST || params->recv_memory != UCS_MEMORY_TYPE_HOST) {
        if (test != NULL && cw_test_one_sided(test) && !cw_test_takes_gpu(test)) {
            cw_say_error("test '%s' accesses its memory by the CPU: not together with memory of a GPU (-m); use "
                         "ucp_put_bw, ucp_get or ucp_get_bw", test->name);
            return false;
        }
        if (params->recv_data || params->copy || params->memory_handle || params->user_memory) {
            cw_say_error("memory of a GPU (-m) cannot be copied or mapped by this tool: not together with -r "
                         "recv_data, -y, -z or --user-memory");
            return false;
        }
    }
    if (test != NULL && !cw_test_one_sided(test) && params->user_memory) {
        cw_say_error("--user-memory belongs to one-sided tests: not together with '%s'", test->name);
        return false;
    }
    return true;
}

/* The leading '+' of the option letters leaves words in their place: the host may stand anywhere (PRF-1). */
bool cw_options_parse(struct cw_perf_options *options, int argc, char **argv, bool in_batch)
{
    optind = 0;
    opterr = 0;
    for (;;) {
        int letter = getopt_long(argc, argv, short_options, long_options, NULL);
        if (letter == -1) {
            if (optind >= argc) {
                break;
            }
            if (!take_word(options, argv[optind++], in_batch)) {
                return false;
            }
        } else if (letter == ':' || letter == '?') {
            cw_say_option(letter, argv);
            return false;
        } else if (in_batch && !allowed_in_batch(letter)) {
            cw_say_error("this option cannot be given in a batch file: '%s'", argv[optind - 1]);
            return false;
        } else if (!parse_one(options, letter, optarg)) {
            return false;
        }
    }
    return check(options);
}
