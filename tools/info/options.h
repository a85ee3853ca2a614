/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The command line of ucx_info.
 *
 * Callers: main.c; the other files read what it says.
 */
#ifndef CW_INFO_OPTIONS_H
#define CW_INFO_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exit statuses: INF-2, INF-10; and what the reference has no word for. */
enum { CW_INFO_OK = 0, CW_INFO_FAILED = 1, CW_INFO_NOTHING = 254, CW_INFO_USAGE = 255 };

enum cw_info_devices { CW_INFO_ALL, CW_INFO_SHM, CW_INFO_NET, CW_INFO_SELF };
enum cw_info_place { CW_INFO_SAME, CW_INFO_INTRA, CW_INFO_INTER };
enum cw_info_op {
    CW_INFO_TAG,
    CW_INFO_AM,
    CW_INFO_STREAM,
    CW_INFO_PUT,
    CW_INFO_GET,
    CW_INFO_AMO,
    CW_INFO_OPS
};

struct cw_info_options {
    bool help;
    bool version, build, types, devices, topology, system, copies, config, context, worker, endpoint;
    unsigned config_flags;      /* UCS_CONFIG_PRINT_* */
    const char *config_filter;  /* -F; NULL: all */
    const char *transport;      /* -t; NULL: all */
    const char *memory;         /* -m; NULL: none */
    uint64_t features;
    bool error_handling;
    size_t endpoints, per_node;
    enum cw_info_devices only;
    enum cw_info_place place;
    bool placed;                /* -P was given */
    const char *ip;             /* -A; NULL: by worker address */
    int family;
    const char *address_file;   /* --address; NULL: none */
    bool why;
    const char *to;             /* file with an address; NULL: a peer of our own */
    size_t size;
    enum cw_info_op op;
};

/* Exit status: CW_INFO_OK, or another one after a sentence on stderr where there is something to say; the caller then
 * shows the usage text. */
int cw_info_options_parse(struct cw_info_options *options, int argc, char **argv);

void cw_info_usage(const char *program);

/* "tag", "am" ... */
const char *cw_info_op_name(enum cw_info_op op);

#endif
