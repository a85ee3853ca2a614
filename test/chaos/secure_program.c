/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A small program over the libraries in the directory that it is given, which it loads by their paths, since the loader
 * looks nowhere else for a program with more rights than its user. It prints whether it is one and what its settings
 * are, and moves a message. Run by test_secure.c.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <ucp/api/ucp.h>
#include <ucs/debug/log_def.h>

static void *library;

static void must(int holds, const char *what)
{
    if (!holds) {
        printf("not so: %s\n", what);
        exit(1);
    }
}

static void load(const char *directory, const char *name)
{
    char path[4096];

    (void)snprintf(path, sizeof(path), "%s/%s", directory, name);
    library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    must(library != NULL, path);
}

static void *find(const char *name)
{
    void *symbol = dlsym(library, name);

    must(symbol != NULL, name);
    return symbol;
}

#define call(name) (*(__typeof__(&name))find(#name))

static void wait_for(ucp_worker_h worker, void *request)
{
    must(!UCS_PTR_IS_ERR(request), "the operation began");
    while (request != NULL && call(ucp_request_check_status)(request) == UCS_INPROGRESS) {
        (void)call(ucp_worker_progress)(worker);
    }
    if (request != NULL) {
        must(call(ucp_request_check_status)(request) == UCS_OK, "the operation ended well");
        call(ucp_request_free)(request);
    }
}

static void talk_to_itself(ucp_worker_h worker)
{
    const ucp_request_param_t none = {0};
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_address_t *address;
    char out = 'x', in = 0;
    void *receive;
    size_t length;
    ucp_ep_h ep;

    must(call(ucp_worker_get_address)(worker, &address, &length) == UCS_OK, "there is an address");
    params.address = address;
    must(call(ucp_ep_create)(worker, &params, &ep) == UCS_OK, "there is an endpoint");
    call(ucp_worker_release_address)(worker, address);
    receive = call(ucp_tag_recv_nbx)(worker, &in, 1, 7, ~0ul, &none);
    wait_for(worker, call(ucp_tag_send_nbx)(ep, &out, 1, 7, &none));
    wait_for(worker, receive);
    must(in == 'x', "the message is there");
    wait_for(worker, call(ucp_ep_close_nbx)(ep, &none));
}

int main(int argc, char **argv)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_worker_params_t nothing = {0};
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_config_t *config;

    must(argc == 2, "a directory is given");
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    printf("secure=%lu\n", getauxval(AT_SECURE));
    load(argv[1], "libucs.so.0");
    call(ucs_log_dispatch)("secure_program.c", 1, "main", UCS_LOG_LEVEL_ERROR, NULL, "libucs logs");
    load(argv[1], "libucp.so.0");
    must(call(ucp_config_read)("MPI", NULL, &config) == UCS_OK, "the configuration is read");
    call(ucp_config_print)(config, stdout, NULL, UCS_CONFIG_PRINT_CONFIG);
    must(call(ucp_init_version)(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context) == UCS_OK,
         "there is a context");
    call(ucp_config_release)(config);
    must(call(ucp_worker_create)(context, &nothing, &worker) == UCS_OK, "there is a worker");
    talk_to_itself(worker);
    call(ucp_worker_destroy)(worker);
    call(ucp_cleanup)(context);
    printf("done\n");
    return 0;
}
