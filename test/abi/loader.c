/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several libraries of the name in one process, and one that goes again (NB-1, NB-2, NB-4). Linked with none of them.
 * Usage: loader CASE OURS OTHER, where OURS and OTHER are directories with libucp.so.0, or files: ours, and a copy of
 * ours or the original. Status 0: every library that was loaded moved a message.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <ucp/api/ucp.h>

#include "must.h"

/* One library: its functions, and a worker that talks to itself. */
struct side {
    void *handle;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h ep;
    char directory[512];
};

static void *find(struct side *side, const char *name)
{
    void *symbol = dlsym(side->handle, name);

    if (symbol == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return symbol;
}

#define call(side, name) (*(__typeof__(&name))find(side, #name))

static void load(struct side *side, const char *directory, Lmid_t space, int flags)
{
    char path[600];
    Dl_info info;

    snprintf(path, sizeof(path), "%s%s", directory, (strstr(directory, ".so.") != NULL) ? "" : "/libucp.so.0");
    side->handle = (space == LM_ID_BASE) ? dlopen(path, flags) : dlmopen(space, path, flags);
    if (side->handle == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    must(dladdr(find(side, "ucp_init_version"), &info) != 0);
    snprintf(side->directory, sizeof(side->directory), "%s", info.dli_fname);
    must(strncmp(side->directory, directory, strlen(directory)) == 0); /* that one and no other */
}

static void open_side(struct side *side)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_worker_params_t worker_params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE};
    ucp_ep_params_t ep_params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_address_t *address;
    size_t length;

    must(call(side, ucp_init_version)(1, 13, &params, NULL, &side->context) == UCS_OK);
    must(call(side, ucp_worker_create)(side->context, &worker_params, &side->worker) == UCS_OK);
    must(call(side, ucp_worker_get_address)(side->worker, &address, &length) == UCS_OK);
    ep_params.address = address;
    must(call(side, ucp_ep_create)(side->worker, &ep_params, &side->ep) == UCS_OK);
    call(side, ucp_worker_release_address)(side->worker, address);
}

static void wait_for(struct side *side, void *request)
{
    if (request == NULL) {
        return;
    }
    must(!UCS_PTR_IS_ERR(request));
    while (call(side, ucp_request_check_status)(request) == UCS_INPROGRESS) {
        call(side, ucp_worker_progress)(side->worker);
    }
    must(call(side, ucp_request_check_status)(request) == UCS_OK);
    call(side, ucp_request_free)(request);
}

static void talk(struct side *side, size_t length)
{
    const ucp_request_param_t none = {0};
    char *out = malloc(length), *in = calloc(1, length);
    void *receive, *send;

    must(out != NULL && in != NULL);
    memset(out, 'x', length);
    receive = call(side, ucp_tag_recv_nbx)(side->worker, in, length, 7, ~0ul, &none);
    send = call(side, ucp_tag_send_nbx)(side->ep, out, length, 7, &none);
    wait_for(side, send);
    wait_for(side, receive);
    must(memcmp(in, out, length) == 0);
    free(in);
    free(out);
}

static void close_side(struct side *side)
{
    const ucp_request_param_t none = {0};

    wait_for(side, call(side, ucp_ep_close_nbx)(side->ep, &none));
    call(side, ucp_worker_destroy)(side->worker);
    call(side, ucp_cleanup)(side->context);
}

static int num_threads(void)
{
    DIR *directory = opendir("/proc/self/task");
    int count = 0;

    must(directory != NULL);
    while (readdir(directory) != NULL) {
        count++;
    }
    closedir(directory);
    return count - 2;
}

/* `scope`: what the first one shows to libraries that come later. */
static void both(const char *ours, const char *other, Lmid_t space, int scope)
{
    struct side first, second;
    int i;

    load(&first, ours, LM_ID_BASE, RTLD_NOW | scope);
    load(&second, other, space, RTLD_NOW); /* local, as Python loads what a module needs */
    must(first.handle != second.handle && strcmp(first.directory, second.directory) != 0);
    open_side(&first);
    open_side(&second);
    for (i = 0; i < 20; i++) {
        talk(&first, 100);
        talk(&second, 100);
        talk(&second, 200000);
        talk(&first, 200000);
    }
    close_side(&second);
    talk(&first, 100);
    close_side(&first);
}

/* As Slurm does: by name of a file, lazily and for everybody; texts of statuses come with it (NB-2, NB-4). */
static void slurm(const char *ours)
{
    const char *(*status_string)(ucs_status_t);
    struct sigaction before[32], after;
    struct side side;
    Dl_info info;
    int i, number;

    for (number = 1; number < 32; number++) {
        sigaction(number, NULL, &before[number]);
    }
    for (i = 0; i < 3; i++) {
        load(&side, ours, LM_ID_BASE, RTLD_LAZY | RTLD_GLOBAL);
        *(void **)(void *)&status_string = dlsym(RTLD_DEFAULT, "ucs_status_string");
        must(status_string != NULL && strcmp(status_string(UCS_ERR_NO_ELEM), "No such element") == 0);
        open_side(&side);
        talk(&side, 1000);
        close_side(&side);
        must(dlclose(side.handle) == 0);
        must(num_threads() == 1);
    }
    for (number = 1; number < 32; number++) {
        sigaction(number, NULL, &after);
        must(after.sa_handler == before[number].sa_handler);
    }
    /* It has gone, unless dlsym() tied this program to it. */
    if (dladdr((void *)status_string, &info) == 0 || strcmp(info.dli_fname, side.directory) != 0) {
        must(dlopen(side.directory, RTLD_LAZY | RTLD_NOLOAD) == NULL);
    }
}

/* How many components the libuct lists that the loader finds by its name. */
static unsigned num_components(void *libuct)
{
    ucs_status_t (*query)(void ***, unsigned *) = dlsym(libuct, "uct_query_components");
    void (*release)(void **) = dlsym(libuct, "uct_release_component_list");
    unsigned count = 0;
    void **list;

    must(query != NULL && release != NULL && query(&list, &count) == UCS_OK);
    release(list);
    return count;
}

/* Our libucp in a directory of its own: the libraries beside it are the system's. */
static void alone(const char *ours)
{
    void *libuct = dlopen("libuct.so.0", RTLD_NOW | RTLD_GLOBAL);
    struct side side;
    Dl_info info;

    must(libuct != NULL && dladdr(dlsym(libuct, "uct_query_components"), &info) != 0);
    must(strncmp(info.dli_fname, ours, strlen(ours)) != 0 && num_components(libuct) > 0);
    load(&side, ours, LM_ID_BASE, RTLD_NOW | RTLD_GLOBAL);
    must(dladdr(dlsym(RTLD_DEFAULT, "ucs_status_string"), &info) != 0);
    must(strncmp(info.dli_fname, ours, strlen(ours)) != 0 && dlsym(RTLD_DEFAULT, "ucs_mpool_init") != NULL);
    open_side(&side);
    talk(&side, 1000);
    must(num_components(libuct) > 0);
    close_side(&side);
}

/* An endpoint of one library to the address that the other one gives out. */
static ucs_status_t meet(struct side *side, struct side *peer)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_address_t *address;
    ucs_status_t status;
    size_t length;
    ucp_ep_h ep;

    must(call(peer, ucp_worker_get_address)(peer->worker, &address, &length) == UCS_OK);
    params.address = address;
    status = call(side, ucp_ep_create)(side->worker, &params, &ep);
    call(peer, ucp_worker_release_address)(peer->worker, address);
    return status;
}

/* Whether a call of ours that writes to this file said so. */
static int has_line(FILE *log, const char *sentence)
{
    char line[1024];
    int found = 0;

    fflush(stdout);
    rewind(log);
    while (fgets(line, sizeof(line), log) != NULL) {
        found |= strstr(line, sentence) != NULL;
    }
    return found;
}

static ucp_conn_request_h asked;

static void on_request(ucp_conn_request_h request, void *argument)
{
    (void)argument;
    asked = request;
}

static ucs_status_t failed;

static void on_error(void *argument, ucp_ep_h ep, ucs_status_t status)
{
    (void)argument;
    (void)ep;
    failed = status;
}

/* An endpoint of one library to a listener of the other, by its socket address: it ends with an error, and the listener
 * hands out no connection. */
static void knock(struct side *side, struct side *peer)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const ucp_listener_params_t listening = {.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
                                                           UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
                                             .sockaddr = {(struct sockaddr *)&address, sizeof(address)},
                                             .conn_handler = {.cb = on_request}};
    ucp_listener_attr_t attr = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLER |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                             .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
                             .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                             .err_handler = {.cb = on_error}};
    const ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
    const time_t end = time(NULL) + 30;
    ucp_listener_h listener;
    ucp_ep_h ep;

    must(call(peer, ucp_listener_create)(peer->worker, &listening, &listener) == UCS_OK);
    must(call(peer, ucp_listener_query)(listener, &attr) == UCS_OK);
    params.sockaddr.addr = (struct sockaddr *)&attr.sockaddr;
    params.sockaddr.addrlen = sizeof(address);
    failed = UCS_OK;
    must(call(side, ucp_ep_create)(side->worker, &params, &ep) == UCS_OK);
    while (failed == UCS_OK && time(NULL) < end) {
        call(side, ucp_worker_progress)(side->worker);
        call(peer, ucp_worker_progress)(peer->worker);
    }
    must(failed != UCS_OK && asked == NULL);
    wait_for(side, call(side, ucp_ep_close_nbx)(ep, &force));
    call(peer, ucp_listener_destroy)(listener);
}

/* A job of which one side is the original (NB-97, NB-98): neither ends the other, and ours says what is wrong. */
static void mixed(const char *ours, const char *other)
{
    struct side mine, original;
    FILE *log = tmpfile();
    const int out = dup(STDOUT_FILENO);

    load(&mine, ours, LM_ID_BASE, RTLD_NOW | RTLD_GLOBAL);
    load(&original, other, LM_ID_NEWLM, RTLD_NOW);
    open_side(&mine);
    open_side(&original);
    must(meet(&original, &mine) == UCS_ERR_UNREACHABLE); /* well formed, and of nobody */
    must(log != NULL && out >= 0 && dup2(fileno(log), STDOUT_FILENO) >= 0);
    must(meet(&mine, &original) == UCS_ERR_UNREACHABLE);
    must(has_line(log, "was made by UCX, in its address format") && has_line(log, "libucp.so.0"));
    knock(&original, &mine);
    must(has_line(log, "it does not speak this protocol"));
    must(dup2(out, STDOUT_FILENO) >= 0);
    talk(&mine, 1000);
    talk(&original, 1000);
    close_side(&original);
    close_side(&mine);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: loader slurm|alone|local|global|space|mixed OURS OTHER\n");
        return 2;
    }
    if (strcmp(argv[1], "slurm") == 0) {
        slurm(argv[2]);
    } else if (strcmp(argv[1], "alone") == 0) {
        alone(argv[2]);
    } else if (strcmp(argv[1], "mixed") == 0) {
        mixed(argv[2], argv[3]);
    } else if (strcmp(argv[1], "local") == 0) {
        both(argv[2], argv[3], LM_ID_BASE, RTLD_LOCAL);
    } else if (strcmp(argv[1], "global") == 0) {
        both(argv[2], argv[3], LM_ID_BASE, RTLD_GLOBAL);
    } else {
        both(argv[2], argv[3], LM_ID_NEWLM, RTLD_GLOBAL);
    }
    return 0;
}
