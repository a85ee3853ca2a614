/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Command line and batch files of the performance tool.
 *
 * Callers: main.c.
 * An option that the reference tool has and this version has not is refused with a sentence: a number that was
 * measured without what the user asked for would be a wrong answer.
 */
#define _GNU_SOURCE
#include "options.h"

#include "say.h"
#include "tests.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { OPTION_VERIFY = 256, OPTION_PERCENTILES, OPTION_TIMEOUT, OPTION_LIBRARY, OPTION_USER_MEMORY,
       OPTION_JSON, OPTION_COMPARE, OPTION_ROUNDS };

static const char short_options[] = "+:t:s:m:n:w:c:O:i:loBb:R:p:6P:K:hNfvIqd:x:D:W:H:A:T:M:CUr:eE:yz";

static const struct option long_options[] = {
    {"help", no_argument, NULL, 'h'},
    {"verify", no_argument, NULL, OPTION_VERIFY},
    {"percentiles", no_argument, NULL, OPTION_PERCENTILES},
    {"timeout", required_argument, NULL, OPTION_TIMEOUT},
    {"library", no_argument, NULL, OPTION_LIBRARY},
    {"compare", required_argument, NULL, OPTION_COMPARE},
    {"rounds", required_argument, NULL, OPTION_ROUNDS},
    {"csv", no_argument, NULL, 'v'},
    {"json", no_argument, NULL, OPTION_JSON},
    {"user-memory", no_argument, NULL, OPTION_USER_MEMORY},
    {NULL, 0, NULL, 0},
};

void cw_options_init(struct cw_perf_options *options)
{
    *options = (struct cw_perf_options){
        .params = {.size = 8, .parts = {8}, .part_count = 1,
                   .iterations = 1000000, .warmup = 10000, .thread_mode = UCS_THREAD_MODE_SINGLE},
        .family = AF_INET,
        .port = 13337,
        .rank = 50.0,
        .rounds = 5,
        .timeout_s = 60,
    };
}

void cw_options_usage(const char *program)
{
    const struct cw_perf_test *test;

    printf("\nUsage: %s [options]          server: waits for one client\n", program);
    printf("       %s [options] <host>   client: runs the tests with the server on <host>\n", program);
    printf("       %s [options] -l       both in one process\n\n", program);
    printf("What to measure\n  -t <test>     one of\n");
    for (unsigned index = 0; (test = cw_test_at(index)) != NULL; index++) {
        printf("      %14s  %s\n", test->name, test->help);
    }
    printf("  -s <bytes>    message size, or a list: the entries of -D iov, otherwise summed up (8)\n"
           "  -n <count>    measured iterations (1000000)\n"
           "  -w <count>    warm-up iterations before them (10000)\n"
           "  -O <count>    bound on unfinished sends (0: 1 for latency, 32 for bandwidth)\n"
           "  -b <file>     run the tests of a batch file: each line a name and options; may be repeated\n"
           "  -D <layout>[,<layout>]  contig or iov at the sender, and at the receiver (contig)\n"
           "  -i <bytes>    distance between the entries of a list (0: one behind the other)\n"
           "  -H <bytes>    header of an active message, beside its size (0)\n"
           "  -y            copy active messages that come eagerly\n"
           "  -r <mode>     stream: recv posts receives, recv_data takes what the library holds (recv)\n"
           "  --verify      check every byte of every message, every sum of atomic operations\n\n"
           "Memory of one-sided tests\n"
           "  --user-memory register this program's own memory, instead of letting the library allocate\n"
           "  -B            map it without waiting until it is there (UCP_MEM_MAP_NONBLOCK)\n"
           "  -z            give the memory handle with each operation\n"
           "  -o            the server makes no progress\n\n"
           "Comparison\n"
           "  --compare <lib>  run both sides here, in turn with this library and with the libucp.so.0 of <lib>\n"
           "  --rounds <n>  how often each of them (5)\n\n"
           "How\n"
           "  -E <mode>     poll: spin on the worker; sleep: sleep until something happens (poll)\n"
           "  -M <mode>     thread mode of the worker: single, serialized, multi (single)\n"
           "  -C            receive with a wild-card tag\n"
           "  -U            wait by probing, so that every message arrives unexpected\n"
           "  -e            endpoint with error handling (this side's alone)\n"
           "  -m host       memory type of the buffers (host)\n"
           "  -c <list>     bind to these processors, such as 0,2-3\n"
           "  -l            both sides in this process\n"
           "  -p <port>     TCP port on which the two sides meet (13337)\n"
           "  -6            meet over IPv6\n"
           "  --timeout <s> give up when nothing moves for so long (60; without it a server waits for ever)\n\n"
           "Output\n"
           "  -R <rank>     percentile that the result rows show (50.0)\n"
           "  -f            the final row alone\n"
           "  -v, --csv     comma-separated values\n"
           "  --json        one line for each test: an object with the final numbers and percentiles\n"
           "  -N            group digits by thousands\n"
           "  -q            no error messages\n"
           "  --percentiles one more line, before the final row: p50, p90, p99, p99.9, minimum, maximum\n"
           "  --library     print version and file of the library in use, and exit\n"
           "  -h            this text\n\n"
           "Transport and device are chosen by the environment: UCX_TLS, UCX_NET_DEVICES.\n"
           "Not in this version: threads (-T), memory handles (-z) with two-sided tests.\n");
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
        uint64_t one;
        if (!parse_count(part, "message size (-s)", 0, UINT64_C(1) << 40, &one)) {
            return false;
        }
        if (params->part_count == CW_PERF_MAX_PARTS) {
            cw_say_error("message size (-s): more than %d parts", CW_PERF_MAX_PARTS);
            return false;
        }
        params->parts[params->part_count++] = one;
        params->size += one;
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
            cw_say_error("test '%s' (-t) is one of the transport layer (UCT); this tool has those of UCP alone", name);
            return false;
        }
    }
    if (test == NULL) {
        cw_say_error("test '%s' (-t) is not known", name);
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

static bool refuse(int letter, const char *reason)
{
    cw_say_error("option -%c is not in this version of the tool: %s", letter, reason);
    return false;
}

/* Options of the reference tool that would change what is measured and that this version cannot do. */
static bool parse_missing(int letter, const char *value)
{
    switch (letter) {
    case 'T':
        return strcmp(value, "1") == 0 || refuse(letter, "only one thread");
    case 'm':
        return strcmp(value, "host") == 0 || strcmp(value, "host,host") == 0 || refuse(letter, "only host memory");
    case 'I':
        return refuse(letter, "no extra information");
    case 'P':
    case 'K':
        return refuse(letter, "the two sides meet over TCP alone");
    default:
        return refuse(letter, "it belongs to the transport layer (UCT)");
    }
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

/* Options that shape the message. */
static bool parse_message(struct cw_perf_params *params, int letter, const char *value)
{
    static const char *const modes[] = {"recv", "recv_data", NULL};
    unsigned index;

    switch (letter) {
    case 'D':
        return parse_layout(params, value);
    case 'i':
        return parse_count(value, "distance of entries (-i)", 0, UINT64_C(1) << 40, &params->stride);
    case 'H':
        return parse_count(value, "active message header (-H)", 0, 1u << 20, &params->am_header);
    case 'y':
        params->copy = true;
        return true;
    case 'r':
        if (!parse_choice("receive mode (-r)", value, modes, &index)) {
            return false;
        }
        params->recv_data = index == 1;
        return true;
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
        return parse_missing(letter, value);
    }
}

static bool parse_how(struct cw_perf_options *options, int letter, const char *value)
{
    static const char *const wait_modes[] = {"poll", "sleep", NULL};
    static const char *const thread_modes[] = {"single", "serialized", "multi", NULL};
    unsigned index;

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
        return true;
    case '6':
        options->family = AF_INET6;
        return true;
    case 'e':
        options->error_handling = true;
        return true;
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
    case OPTION_COMPARE:
        options->compare = *value == '\0' ? NULL : value;
        return true;
    case OPTION_ROUNDS:
        if (!parse_count(value, "--rounds", 1, CW_PERF_MAX_ROUNDS, &number)) {
            return false;
        }
        options->rounds = (unsigned)number;
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
        return parse_size(value, &options->params);
    case 'n':
        return parse_count(value, "iterations (-n)", 1, UINT64_C(1) << 48, &options->params.iterations);
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
    case OPTION_VERIFY:
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
    return letter == OPTION_VERIFY || letter == OPTION_USER_MEMORY ||
           (letter < 256 && strchr("tsnwOEMCUmDiTroHyzB", letter) != NULL);
}

static bool take_word(struct cw_perf_options *options, const char *word, bool in_batch)
{
    if (in_batch || options->host != NULL) {
        cw_say_error("'%s' is one word too many", word);
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
        cw_say_error("a host ('%s') and -l exclude each other: -l runs both sides in this process", options->host);
        return false;
    }
    if (options->compare != NULL &&
        (options->host != NULL || options->csv || options->json || options->batches > 0 || params->test[0] == '\0')) {
        cw_say_error("--compare runs one test (-t) with both sides here: not together with a host, -b, -v or --json");
        return false;
    }
    if (options->json && options->csv) {
        cw_say_error("--json and comma-separated values (-v) exclude each other");
        return false;
    }
    if (params->verify && params->stride != 0) {
        cw_say_error("--verify looks at lists whose entries lie one behind the other: not together with -i");
        return false;
    }
    if (test != NULL && !cw_test_one_sided(test) &&
        (params->user_memory || params->nonblock || params->memory_handle || params->idle_target)) {
        cw_say_error("-z, -B, -o and --user-memory belong to one-sided tests: not together with '%s'", test->name);
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
        } else if (letter == ':') {
            cw_say_error("option '%s' needs a value", argv[optind - 1]);
            return false;
        } else if (letter == '?') {
            bool is_letter = optopt != 0 && optopt < 256;
            cw_say_error("option '%s%.*s' is not known", is_letter ? "-" : "", is_letter ? 1 : 80,
                         is_letter ? (const char[]){(char)optopt, '\0'} : argv[optind - 1]);
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

/* Cuts a line into words at blanks; returns how many, or -1 when there are too many. */
static int split_words(char *line, char **words, int most)
{
    char *rest = NULL;
    int count = 0;

    for (char *word = strtok_r(line, " \t\r\n", &rest); word != NULL; word = strtok_r(NULL, " \t\r\n", &rest)) {
        if (count == most - 1) {
            return -1;
        }
        words[count++] = word;
    }
    words[count] = NULL;
    return count;
}

/* One line over `base`: 1 when it holds a test, 0 when it is empty or a comment, -1 after an error line. */
static int read_line(const struct cw_perf_options *base, char *text, struct cw_perf_line *line)
{
    char *words[64];
    int count = split_words(text, words, 64);

    if (count == 0 || (count > 0 && words[0][0] == '#')) {
        return 0;
    }
    if (count < 0) {
        cw_say_error("more than 62 words");
        return -1;
    }
    struct cw_perf_options options = *base;
    options.host = NULL;
    options.loopback = false;
    if (!cw_options_parse(&options, count, words, true)) {
        return -1;
    }
    line->params = options.params;
    line->name = strdup(words[0]);
    if (line->name == NULL) {
        cw_say_error("no memory");
        return -1;
    }
    return 1;
}

int cw_options_read_batch(const struct cw_perf_options *base, const char *path, struct cw_perf_line **lines)
{
    FILE *file = fopen(path, "re");
    struct cw_perf_line *found = NULL;
    char *text = NULL;
    size_t room = 0;
    int count = 0, number = 0, status = 0;

    if (file == NULL) {
        cw_say_error("cannot read batch file '%s': %s", path, strerror(errno));
        return -1;
    }
    while (status >= 0 && getline(&text, &room, file) >= 0) {
        struct cw_perf_line *more = realloc(found, ((size_t)count + 1) * sizeof(*found));
        number++;
        if (more == NULL) {
            cw_say_error("no memory");
            status = -1;
            break;
        }
        found = more;
        status = read_line(base, text, &found[count]);
        count += status > 0;
    }
    free(text);
    if (status >= 0 && ferror(file)) {
        cw_say_error("cannot read batch file '%s': %s", path, strerror(errno));
        status = -1;
    } else if (status < 0) {
        cw_say_error("batch file '%s', line %d", path, number);
    } else if (count == 0) {
        cw_say_error("batch file '%s' holds no test", path);
        status = -1;
    }
    fclose(file);
    if (status < 0) {
        cw_options_free_batch(found, count);
        return -1;
    }
    *lines = found;
    return count;
}

void cw_options_free_batch(struct cw_perf_line *lines, int count)
{
    for (int i = 0; i < count; i++) {
        free(lines[i].name);
    }
    free(lines);
}

/*
 * OFFSET  SIZE  MEANING (numbers little-endian)
 *      0    32  name of the test, filled up with zero bytes
 *     32     8  number of parts of the message
 *     40     8  iterations
 *     48     8  warm-up iterations
 *     56     8  bound on unfinished sends, 0: the test's own
 *     64     8  thread mode: 0 single, 1 serialized, 2 multi
 *     72     8  bits: 1 wild-card tag, 2 probe first, 4 sleep, 8 verify, 16 and 32 lists at sender and receiver,
 *               64 take stream data, 128 copy, 256 the tool's own memory, 512 mapped non-blocking, 1024 memory
 *               handle with each operation, 2048 no progress at the server
 *     80     8  distance between entries
 *     88     8  header of an active message
 *     96    16  zero
 *    112  32*8  the parts, zero behind the last
 */
void cw_params_encode(const struct cw_perf_params *params, uint8_t bytes[CW_PERF_WIRE_BYTES])
{
    uint64_t bits = (params->wildcard_tag ? 1 : 0) | (params->probe_first ? 2 : 0) | (params->sleep ? 4 : 0) |
                    (params->verify ? 8 : 0) | (params->send_iov ? 16 : 0) | (params->recv_iov ? 32 : 0) |
                    (params->recv_data ? 64 : 0) | (params->copy ? 128 : 0) | (params->user_memory ? 256 : 0) |
                    (params->nonblock ? 512 : 0) | (params->memory_handle ? 1024 : 0) |
                    (params->idle_target ? 2048 : 0);
    uint64_t numbers[CW_PERF_NUMBERS] = {params->part_count,  params->iterations, params->warmup, params->window,
                                         params->thread_mode, bits,               params->stride, params->am_header};

    memcpy(numbers + 10, params->parts, params->part_count * sizeof(params->parts[0]));
    memset(bytes, 0, CW_PERF_WIRE_BYTES);
    memcpy(bytes, params->test, strnlen(params->test, CW_PERF_TEST_NAME));
    for (int i = 0; i < 8 * CW_PERF_NUMBERS; i++) {
        bytes[CW_PERF_TEST_NAME + i] = (uint8_t)(numbers[i / 8] >> (8 * (i % 8)));
    }
}

#define ALL_BITS 4096u

static bool numbers_sound(const uint64_t *numbers)
{
    uint64_t sum = 0;

    if (numbers[0] == 0 || numbers[0] > CW_PERF_MAX_PARTS || numbers[1] == 0 || numbers[1] > UINT64_C(1) << 48 ||
        numbers[2] > UINT64_C(1) << 48 || numbers[3] > 1u << 20 || numbers[4] > UCS_THREAD_MODE_MULTI ||
        numbers[5] >= ALL_BITS || numbers[6] > UINT64_C(1) << 40 || numbers[7] > 1u << 20) {
        return false;
    }
    for (uint64_t i = 0; i < numbers[0]; i++) {
        if (numbers[10 + i] > CW_PERF_MAX_SIZE) {
            return false;
        }
        sum += numbers[10 + i];
    }
    return sum <= CW_PERF_MAX_SIZE;
}

bool cw_params_decode(struct cw_perf_params *params, const uint8_t *bytes, size_t length)
{
    uint64_t numbers[CW_PERF_NUMBERS] = {0};

    if (length != CW_PERF_WIRE_BYTES || bytes[CW_PERF_TEST_NAME - 1] != 0) {
        return false;
    }
    for (int i = 0; i < 8 * CW_PERF_NUMBERS; i++) {
        numbers[i / 8] |= (uint64_t)bytes[CW_PERF_TEST_NAME + i] << (8 * (i % 8));
    }
    if (!numbers_sound(numbers)) {
        return false;
    }
    *params = (struct cw_perf_params){
        .part_count = (unsigned)numbers[0],
        .iterations = numbers[1],
        .warmup = numbers[2],
        .window = numbers[3],
        .thread_mode = (ucs_thread_mode_t)numbers[4],
        .wildcard_tag = (numbers[5] & 1) != 0,
        .probe_first = (numbers[5] & 2) != 0,
        .sleep = (numbers[5] & 4) != 0,
        .verify = (numbers[5] & 8) != 0,
        .send_iov = (numbers[5] & 16) != 0,
        .recv_iov = (numbers[5] & 32) != 0,
        .recv_data = (numbers[5] & 64) != 0,
        .copy = (numbers[5] & 128) != 0,
        .user_memory = (numbers[5] & 256) != 0,
        .nonblock = (numbers[5] & 512) != 0,
        .memory_handle = (numbers[5] & 1024) != 0,
        .idle_target = (numbers[5] & 2048) != 0,
        .stride = numbers[6],
        .am_header = numbers[7],
    };
    for (unsigned i = 0; i < params->part_count; i++) {
        params->parts[i] = numbers[10 + i];
        params->size += numbers[10 + i];
    }
    memcpy(params->test, bytes, CW_PERF_TEST_NAME);
    return true;
}
