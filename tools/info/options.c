/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The command line of ucx_info: letters as the reference tool has them (INF-1, INF-2), long options for what it has
 * not.
 *
 * Callers: main.c.
 */
#define _GNU_SOURCE
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "config/value.h"
#include "say.h"
#include "ucp/api/ucp.h"

enum { OPTION_WHY = 256, OPTION_TO, OPTION_SIZE, OPTION_OP, OPTION_ADDRESS };

static const char short_options[] = ":vdbyscCafpwem:u:t:n:N:D:P:A:6F:TMh";

static const struct option long_options[] = {
    {"help", no_argument, NULL, 'h'},
    {"why", no_argument, NULL, OPTION_WHY},
    {"to", required_argument, NULL, OPTION_TO},
    {"size", required_argument, NULL, OPTION_SIZE},
    {"op", required_argument, NULL, OPTION_OP},
    {"address", required_argument, NULL, OPTION_ADDRESS},
    {NULL, 0, NULL, 0},
};

static const char *const op_names[CW_INFO_OPS + 1] = {"tag", "am", "stream", "put", "get", "amo", NULL};
static const char *const device_names[] = {"all", "shm", "net", "self", NULL};
static const char *const place_names[] = {"self", "intra", "inter", NULL};

static const struct {
    char letter;
    uint64_t feature;
} features[] = {
    {'a', UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64},
    {'r', UCP_FEATURE_RMA},
    {'t', UCP_FEATURE_TAG},
    {'s', UCP_FEATURE_STREAM},
    {'m', UCP_FEATURE_AM},
    {'x', UCP_FEATURE_EXPORTED_MEMH},
    {'w', UCP_FEATURE_WAKEUP},
};

const char *cw_info_op_name(enum cw_info_op op)
{
    return op_names[op];
}

void cw_info_usage(const char *program)
{
    printf("Usage: %s [options]\n\n", program);
    printf("What to show; at least one of these\n"
           "  -v            version, library file, build\n"
           "  -d            devices and transports with their limits\n"
           "  -b            build configuration\n"
           "  -y            sizes of types\n"
           "  -s            this machine: timer, processor, memory\n"
           "  -c            all settings with their values\n"
           "  -C            settings; those that have their default value as comments\n"
           "  -F <text>     settings whose name contains the text, such as TLS\n"
           "  -a            settings including hidden ones: aliases and deprecated names\n"
           "  -f            settings with headings and descriptions\n"
           "  -T            topology of the machine, as far as it is known\n"
           "  -M            bandwidth of copies in memory\n\n"
           "Objects of the interface; they need -u\n"
           "  -p            context\n"
           "  -w            worker\n"
           "  -e            endpoint and the protocols of its messages\n"
           "  -m <size>[,<type>]  memory that the library allocates, such as 1m or 4096,host\n"
           "  -u <letters>  features, one or more of\n"
           "      a  atomic operations\n"
           "      r  remote memory (put, get)\n"
           "      t  tag matching\n"
           "      s  streams\n"
           "      m  active messages\n"
           "      x  exported memory handles\n"
           "      w  also: sleep until an event\n"
           "      e  also: endpoints with error handling\n\n"
           "Why a message uses its transport and protocol\n"
           "  --why         transports considered for a peer, the selected one, and why the others were not selected\n"
           "  --to <file>   the peer: its worker address (default: another worker here, see -P)\n"
           "  --address <file>  write the address of a worker of this machine for --to on another one\n"
           "  --size <n>    length of the message, such as 8 or 64K (8)\n"
           "  --op <kind>   kind of message: tag, am, stream, put, get, amo (tag)\n\n"
           "How\n"
           "  -t <name>     only this transport (with -d)\n"
           "  -n <count>    expected number of endpoints\n"
           "  -N <count>    expected number of endpoints on one machine\n"
           "  -D <kind>     devices that may be used: all, shm, net, self (all)\n"
           "  -P <place>    where the peer of -e and --why is, one of\n"
           "      self  the worker itself (default of -e)\n"
           "      intra  another worker of this machine (default of --why)\n"
           "      inter  another machine\n"
           "  -A <address>  create the endpoint of -e as client and server over this local IP address\n"
           "  -6            the address of -A is an IPv6 address\n"
           "  -h, --help    this text\n\n"
           "Settings are read as by a program: UCX_TLS, UCX_NET_DEVICES and the others, and ucx.conf.\n");
}

static int refuse(const char *what, const char *text)
{
    cw_say_error("%s '%s'", what, text);
    return CW_INFO_USAGE;
}

static int parse_choice(const char *what, const char *text, const char *const *names, unsigned *index)
{
    for (*index = 0; names[*index] != NULL; (*index)++) {
        if (strcmp(names[*index], text) == 0) {
            return CW_INFO_OK;
        }
    }
    return refuse(what, text);
}

static int parse_count(const char *what, const char *text, size_t *value)
{
    char *end;

    errno = 0;
    *value = strtoull(text, &end, 10);
    return (text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0) ? CW_INFO_OK : refuse(what, text);
}

static int parse_size(const char *text, size_t *value)
{
    const struct cw_value_spec spec = {.type = CW_VALUE_MEMUNITS};

    if (cw_value_parse(&spec, text, value) != UCS_OK || *value >= CW_MEMUNITS_AUTO) {
        return refuse("--size: not a message length:", text);
    }
    return CW_INFO_OK;
}

static int parse_features(struct cw_info_options *options, const char *text)
{
    size_t i;

    for (; *text != '\0'; text++) {
        for (i = 0; i < sizeof(features) / sizeof(features[0]) && features[i].letter != *text; i++) {
        }
        if (i < sizeof(features) / sizeof(features[0])) {
            options->features |= features[i].feature;
        } else if (*text == 'e') {
            options->error_handling = true;
        } else {
            return refuse("-u: no feature has the letters", text);
        }
    }
    return CW_INFO_OK;
}

static int parse_how(struct cw_info_options *options, int letter, const char *text)
{
    unsigned index = 0;
    int status = CW_INFO_OK;

    switch (letter) {
    case 't': options->transport = text; break;
    case 'n': return parse_count("-n: not a number of endpoints:", text, &options->endpoints);
    case 'N': return parse_count("-N: not a number of endpoints:", text, &options->per_node);
    case 'D':
        status = parse_choice("-D takes all, shm, net or self, not", text, device_names, &index);
        options->only = (enum cw_info_devices)index;
        break;
    case 'P':
        status = parse_choice("-P takes self, intra or inter, not", text, place_names, &index);
        options->place = (enum cw_info_place)index;
        options->placed = true;
        break;
    case 'A': options->ip = text; break;
    case '6': options->family = AF_INET6; break;
    case OPTION_WHY: options->why = true; break;
    case OPTION_TO: options->to = text; break;
    case OPTION_SIZE: return parse_size(text, &options->size);
    case OPTION_OP:
        status = parse_choice("--op takes tag, am, stream, put, get or amo, not", text, op_names, &index);
        options->op = (enum cw_info_op)index;
        break;
    case OPTION_ADDRESS: options->address_file = text; break;
    default: break;
    }
    return status;
}

/* Each of the letters about settings shows them. */
static void add_config(struct cw_info_options *options, unsigned flags)
{
    options->config_flags |= UCS_CONFIG_PRINT_CONFIG | flags;
}

static int parse_one(struct cw_info_options *options, int letter, const char *text)
{
    switch (letter) {
    case 'v': options->version = true; break;
    case 'd': options->devices = true; break;
    case 'b': options->build = true; break;
    case 'y': options->types = true; break;
    case 's': options->system = true; break;
    case 'T': options->topology = true; break;
    case 'M': options->copies = true; break;
    case 'c': add_config(options, 0); break;
    case 'C': add_config(options, UCS_CONFIG_PRINT_COMMENT_DEFAULT); break;
    case 'a': add_config(options, UCS_CONFIG_PRINT_HIDDEN); break;
    case 'f': add_config(options, UCS_CONFIG_PRINT_HEADER | UCS_CONFIG_PRINT_DOC); break;
    case 'F':
        add_config(options, 0);
        options->config_filter = text;
        break;
    case 'p': options->context = true; break;
    case 'w': options->worker = true; break;
    case 'e': options->endpoint = true; break;
    case 'm': options->memory = text; break;
    case 'u': return parse_features(options, text);
    case 'h': options->help = true; break;
    default: return parse_how(options, letter, text);
    }
    return CW_INFO_OK;
}

/* What only makes sense together, and whether there is anything to show. */
static int check(const struct cw_info_options *options)
{
    const uint64_t modifiers = UCP_FEATURE_WAKEUP;

    if ((options->context || options->worker || options->endpoint || options->memory != NULL) &&
        (options->features & ~modifiers) == 0) {
        cw_say_error("-p, -w, -e and -m need features: give -u at least one of the letters a, r, t, s, m and x");
        return CW_INFO_USAGE;
    }
    if (options->transport != NULL && !options->devices) {
        cw_say_error("-t needs -d");
        return CW_INFO_USAGE;
    }
    if (options->to != NULL && options->placed) {
        cw_say_error("--to and -P are mutually exclusive");
        return CW_INFO_USAGE;
    }
    if (options->to != NULL && !options->why) {
        cw_say_error("--to needs --why");
        return CW_INFO_USAGE;
    }
    return (options->version || options->build || options->types || options->devices || options->topology ||
            options->system || options->copies || options->config_flags != 0 || options->context || options->worker ||
            options->endpoint || options->memory != NULL || options->why || options->address_file != NULL) ?
               CW_INFO_OK : CW_INFO_NOTHING;
}

int cw_info_options_parse(struct cw_info_options *options, int argc, char **argv)
{
    int letter, status;

    *options = (struct cw_info_options){.endpoints = 1, .per_node = 1, .family = AF_INET, .size = 8};
    opterr = 0;
    while ((letter = getopt_long(argc, argv, short_options, long_options, NULL)) != -1) {
        if (letter == '?' && optopt != 0 && optopt < OPTION_WHY) {
            cw_say_error("unknown option -%c", optopt);
            return CW_INFO_USAGE;
        }
        if (letter == '?' || letter == ':') {
            cw_say_error("%s: %s", argv[optind - 1],
                         (letter == '?') ? "unknown option" : "a value is missing");
            return CW_INFO_USAGE;
        }
        status = parse_one(options, letter, optarg);
        if (status != CW_INFO_OK || options->help) {
            return status;
        }
    }
    if (optind < argc) {
        cw_say_error("unknown argument '%s'", argv[optind]);
        return CW_INFO_USAGE;
    }
    return check(options);
}
