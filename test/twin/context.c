/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts: each member of ucp_params_t and ucp_context_attr_t alone, all, none, and bits that do not exist. CTX-*. */
#define _GNU_SOURCE
#include "twin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int inits, cleanups;

static void request_init(void *request)
{
    (void)request;
    inits++;
}

static void request_cleanup(void *request)
{
    (void)request;
    cleanups++;
}

static const struct twin_field attr_fields[] = {
    TWIN_FIELD(ucp_context_attr_t, request_size), TWIN_FIELD(ucp_context_attr_t, thread_mode),
    TWIN_FIELD(ucp_context_attr_t, memory_types), TWIN_FIELD(ucp_context_attr_t, name)};

static void fill(ucp_params_t *params, uint64_t mask)
{
    memset(params, TWIN_FILL, sizeof(*params));
    params->field_mask = mask;
    params->features = (mask & UCP_PARAM_FIELD_FEATURES) ? UCP_FEATURE_TAG : params->features;
    params->request_size = (mask & UCP_PARAM_FIELD_REQUEST_SIZE) ? 40 : params->request_size;
    params->request_init = (mask & UCP_PARAM_FIELD_REQUEST_INIT) ? request_init : params->request_init;
    params->request_cleanup = (mask & UCP_PARAM_FIELD_REQUEST_CLEANUP) ? request_cleanup : params->request_cleanup;
    params->mt_workers_shared = (mask & UCP_PARAM_FIELD_MT_WORKERS_SHARED) ? 1 : params->mt_workers_shared;
    params->estimated_num_eps = (mask & UCP_PARAM_FIELD_ESTIMATED_NUM_EPS) ? 100 : params->estimated_num_eps;
    params->estimated_num_ppn = (mask & UCP_PARAM_FIELD_ESTIMATED_NUM_PPN) ? 10 : params->estimated_num_ppn;
    params->name = (mask & UCP_PARAM_FIELD_NAME) ? "a name of more than thirty-two characters" : params->name;
}

/* One message to oneself, so that requests are made. */
static void talk(ucp_context_h context, const char *what)
{
    ucp_worker_h worker = twin_worker(context);
    ucp_ep_h ep = twin_connect(worker, worker, UCP_ERR_HANDLING_MODE_NONE);
    struct twin_pair pair = {.context = context, .worker = {worker, worker}, .ep = {ep, NULL}};
    ucs_status_ptr_t received;
    char in[8], out[8] = "message";
    ucs_status_t sent, got;

    received = ucp_tag_recv_nb(worker, in, sizeof(in), ucp_dt_make_contig(1), 1, 1, twin_got);
    sent = twin_wait(&pair, ucp_tag_send_nb(ep, out, sizeof(out), ucp_dt_make_contig(1), 1, twin_done));
    got = twin_wait(&pair, received);
    twin_print("%s: sent %s, received %s, same %d", what, twin_status(sent), twin_status(got), strcmp(in, out) == 0);
    (void)twin_wait(&pair, ucp_ep_close_nb(ep, UCP_EP_CLOSE_MODE_FLUSH));
    ucp_worker_destroy(worker);
}

static void one(uint64_t mask, bool with_message)
{
    ucp_context_attr_t attr;
    ucp_context_h context;
    ucp_params_t params;
    ucs_status_t status;
    char what[32];

    inits = cleanups = 0;
    fill(&params, mask);
    snprintf(what, sizeof(what), "mask %#llx", (unsigned long long)mask);
    status = ucp_init(&params, NULL, &context);
    twin_print("%s: %s", what, twin_status(status));
    if (status != UCS_OK) {
        return;
    }
    memset(&attr, 0, sizeof(attr));
    attr.field_mask = UCP_ATTR_FIELD_THREAD_MODE | UCP_ATTR_FIELD_MEMORY_TYPES | UCP_ATTR_FIELD_NAME;
    status = ucp_context_query(context, &attr);
    twin_print("%s: query %s, thread mode %d, host %d, name %s", what, twin_status(status), attr.thread_mode,
              (int)(attr.memory_types & 1), (mask & UCP_PARAM_FIELD_NAME) ? attr.name : "of its own");
    if (with_message) {
        talk(context, what);
        twin_print("%s: requests made ready %d, as many cleaned %d", what, inits > 0,
                  !(mask & UCP_PARAM_FIELD_REQUEST_INIT) || !(mask & UCP_PARAM_FIELD_REQUEST_CLEANUP) ||
                      inits == cleanups);
    }
    ucp_cleanup(context);
}

static void masks(void)
{
    const uint64_t known = 0x1ff, usable = known & ~(uint64_t)UCP_PARAM_FIELD_FEATURES;
    int bit;

    one(0, false);
    for (bit = 0; bit < 9; bit++) {
        one(UINT64_C(1) << bit, false);
        one(UCP_PARAM_FIELD_FEATURES | UINT64_C(1) << bit, true);
    }
    one(known, true);
    one(usable, false);
    one(known | TWIN_UNKNOWN, true);
    one(UCP_PARAM_FIELD_FEATURES | UINT64_C(0xffff) << 40, true);
}

static void features(void)
{
    ucp_params_t params;
    ucp_context_h context;
    ucs_status_t status;
    int bit;

    for (bit = -1; bit < 64; bit += bit < 9 ? 1 : 6) {
        memset(&params, TWIN_FILL, sizeof(params));
        params.field_mask = UCP_PARAM_FIELD_FEATURES;
        params.features = bit < 0 ? 0 : UINT64_C(1) << bit;
        status = ucp_init(&params, NULL, &context);
        twin_print("feature bit %d: %s", bit, twin_status(status));
        if (status == UCS_OK) {
            ucp_cleanup(context);
        }
    }
}

static void query(void)
{
    ucp_context_h context = twin_context(UCP_FEATURE_TAG);
    ucp_context_attr_t attr;
    ucs_status_t status;
    uint64_t mask;
    char what[32];
    int i;

    for (i = 0; i < 18; i++) {
        if (i < 16) {
            mask = (uint64_t)i;
        } else {
            mask = i == 16 ? TWIN_UNKNOWN : TWIN_UNKNOWN | 0xf;
        }
        memset(&attr, TWIN_FILL, sizeof(attr));
        attr.field_mask = mask;
        status = ucp_context_query(context, &attr);
        snprintf(what, sizeof(what), "mask %#llx", (unsigned long long)mask);
        twin_print("%s: mask kept %d", what, attr.field_mask == mask);
        twin_print_filled(what, status, &attr, attr_fields, TWIN_COUNT(attr_fields));
    }
    ucp_cleanup(context);
}

static void versions(void)
{
    static const unsigned asked[][2] = {{1, 0}, {1, 5}, {1, 13}, {1, 99}, {2, 0}, {99, 99}, {0, 0}};
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_context_h context;
    ucs_status_t status;
    size_t i;

    for (i = 0; i < TWIN_COUNT(asked); i++) {
        status = ucp_init_version(asked[i][0], asked[i][1], &params, NULL, &context);
        twin_print("%u.%u: %s", asked[i][0], asked[i][1], twin_status(status));
        if (status == UCS_OK) {
            ucp_cleanup(context);
        }
    }
}

/* What Open MPI reads: resource N : md N dev N flags XX tl/dev. */
static void print_info(void)
{
    ucp_context_h context = twin_context(TWIN_ALL_FEATURES);
    char *text = NULL, *line, *rest, transport[128];
    int resource, md, device, read = 0, longest = 0;
    char flags[3];
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    ucp_context_print_info(context, stream);
    fclose(stream);
    twin_print("heading %d", twin_has_word(text, "UCP context"));
    for (line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        longest = (int)strlen(line) > longest ? (int)strlen(line) : longest;
        if (sscanf(line, "# resource %d : md %d dev %d flags %2s %127s", &resource, &md, &device, flags, transport) ==
            5) {
            read += strchr(transport, '/') != NULL;
        } else if (line[0] != '#') {
            twin_print("a line without #");
        }
    }
    twin_print("resources read %d, lines short %d", read > 0, longest < 127);
    free(text);
    ucp_cleanup(context);
}

static void memory_info(void)
{
    static const char *const sizes[] = {"1m", "4096", "100", "1", "2MB", "64k"};
    ucp_context_h context = twin_context(UCP_FEATURE_RMA);
    char *text = NULL;
    size_t i, size;
    FILE *stream;

    for (i = 0; i < TWIN_COUNT(sizes); i++) {
        stream = open_memstream(&text, &size);
        ucp_mem_print_info(sizes[i], context, stream);
        fclose(stream);
        twin_print("memory of %s: something %d", sizes[i], text[0] != '\0');
        free(text);
    }
    ucp_cleanup(context);
}

const struct twin_case twin_context_cases[] = {{"context.masks", masks},
                                               {"context.features", features},
                                               {"context.query", query},
                                               {"context.versions", versions},
                                               {"context.print_info", print_info},
                                               {"context.memory_info", memory_info},
                                               {NULL, NULL}};
