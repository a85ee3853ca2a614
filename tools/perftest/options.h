/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Command line of the performance tool (PRF-10 to PRF-14), batch files (PRF-25), and the parameters of one test
 * in the form in which the client sends them to the server (PRF-3).
 *
 * Callers: main.c, session.c; all other files read the structures.
 */
#ifndef CW_PERF_OPTIONS_H
#define CW_PERF_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ucp/api/ucp.h>

#define CW_PERF_MAX_BATCH  32
#define CW_PERF_MAX_THREADS 256
#define CW_PERF_TEST_NAME  32
#define CW_PERF_MAX_PARTS  32
#define CW_PERF_NUMBERS    (10 + CW_PERF_MAX_PARTS)
#define CW_PERF_WIRE_BYTES (CW_PERF_TEST_NAME + 8 * CW_PERF_NUMBERS)
#define CW_PERF_ENDLESS    (UINT64_C(1) << 48) /* iterations: until the user ends the program */
#define CW_PERF_MAX_SIZE   (UINT64_C(1) << 46)

/* Exit statuses of PRF-5. */
#define CW_PERF_EXIT_USAGE   129
#define CW_PERF_EXIT_FAILURE 255

/* Who measures with whom when more than two processes are started together. */
enum cw_perf_pattern { CW_PATTERN_PAIRS, CW_PATTERN_ALL, CW_PATTERN_MANY };

/* What both sides must agree on. */
struct cw_perf_params {
    char test[CW_PERF_TEST_NAME]; /* empty: none given */
    uint64_t size;                     /* sum of the parts */
    uint64_t parts[CW_PERF_MAX_PARTS]; /* as given to -s: the entries of a scatter-gather list (-D iov) */
    unsigned part_count;
    uint64_t stride;    /* distance between the beginnings of entries, 0: one behind the other */
    uint64_t am_header; /* bytes of the header of an active message, beside the size */
    uint64_t iterations;
    uint64_t warmup;
    uint64_t window; /* 0: the test's own choice */
    ucs_thread_mode_t thread_mode;
    unsigned threads;
    bool wildcard_tag;
    bool probe_first;
    bool sleep;
    bool verify;
    bool send_iov;
    bool recv_iov;
    bool recv_data; /* stream: take data that the library holds instead of posting receives */
    bool copy;      /* active messages: copy what comes eagerly into a buffer */
    /* Memory; the first and the last are for one-sided tests. */
    bool user_memory;   /* the tool's own memory is registered, instead of memory that the library allocates */
    ucs_memory_type_t send_memory; /* of what is sent from, and received into */
    ucs_memory_type_t recv_memory;
    bool nonblock;      /* memory is mapped with UCP_MEM_MAP_NONBLOCK */
    bool memory_handle; /* each operation is given the memory handle of its buffer */
    bool idle_target;   /* the server's worker makes no progress */
};

struct cw_perf_options {
    struct cw_perf_params params;
    const char *host; /* NULL: server or loopback */
    bool loopback;
    bool iterations_given; /* -n, otherwise a sweep chooses */
    bool size_given;       /* -s */
    bool sweep;
    uint64_t sweep_first;
    uint64_t sweep_last;
    enum cw_perf_pattern pattern;
    bool pattern_given;
    bool share_cpu; /* more processes than processors */
    bool help;
    bool show_library;
    int family; /* AF_INET or AF_INET6 */
    unsigned port;
    const char *cpus; /* NULL: not bound */
    ucp_err_handling_mode_t error_mode;
    double rank;
    bool thousands;
    bool final_only;
    bool csv;
    bool json;
    bool percentiles;
    bool quiet;
    bool extra;  /* -X */
    bool wakeup; /* -I */
    enum { CW_JOB_AS_STARTED, CW_JOB_NO, CW_JOB_YES } job; /* -P */
    char command[512]; /* the options as they were given, for machine-readable rows */
    unsigned timeout_s;
    bool wait_limited; /* --timeout given: a server waits for its client no longer than that */
    bool port_given;   /* -p: the two sides meet there, whoever has started them */
    const char *batch[CW_PERF_MAX_BATCH];
    unsigned batches;
};

/* As -m has it. */
static inline const char *cw_memory_name(ucs_memory_type_t type)
{
    static const char *const names[] = {"host", "cuda", "cuda-managed", "rocm", "rocm-managed"};

    return names[type];
}

/* Fills `options` with defaults. */
void cw_options_init(struct cw_perf_options *options);

/*
 * Reads a command line over what `options` holds. `in_batch` refuses what a line of a batch file cannot change.
 * Returns false after an error line (the caller exits with CW_PERF_EXIT_USAGE).
 */
bool cw_options_parse(struct cw_perf_options *options, int argc, char **argv, bool in_batch);

/* Prints the usage text on stdout. */
void cw_options_usage(const char *program);

/* One line of a batch file. */
struct cw_perf_line {
    char *name;
    struct cw_perf_params params;
};

/*
 * Reads a batch file: each line is a name and options over those of `base`. Returns the number of lines and an
 * allocated array, or -1 after an error line.
 */
int cw_options_read_batch(const struct cw_perf_options *base, const char *path, struct cw_perf_line **lines);
void cw_options_free_batch(struct cw_perf_line *lines, int count);

/* Parameters as bytes for the peer, and back; decode returns false when they cannot be right. */
void cw_params_encode(const struct cw_perf_params *params, uint8_t bytes[CW_PERF_WIRE_BYTES]);
bool cw_params_decode(struct cw_perf_params *params, const uint8_t *bytes, size_t length);

#endif
