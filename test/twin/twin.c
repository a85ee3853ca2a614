/* SPDX-License-Identifier: BSD-3-Clause */
/* The frame: runs each case in a process of its own and collects what it prints. Usage: twin [WORD of a case's name] */
#define _GNU_SOURCE
#include "twin.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CASE_SECONDS = 120, AT_ONCE = 8, SETTLE_ROUNDS = 300, BUSY_ROUNDS = 20000, SLEEP_NS = 1000000 };

static const char *current;
static FILE *report;

void twin_print(const char *format, ...)
{
    va_list arguments;

    fprintf(report, "%s: ", current);
    va_start(arguments, format);
    vfprintf(report, format, arguments);
    va_end(arguments);
    fputc('\n', report);
    fflush(report);
}

const char *twin_status(ucs_status_t status)
{
    static const struct {
        ucs_status_t status;
        const char *name;
    } names[] = {{UCS_OK, "OK"},
                 {UCS_INPROGRESS, "INPROGRESS"},
                 {UCS_ERR_NO_MESSAGE, "NO_MESSAGE"},
                 {UCS_ERR_NO_RESOURCE, "NO_RESOURCE"},
                 {UCS_ERR_IO_ERROR, "IO_ERROR"},
                 {UCS_ERR_NO_MEMORY, "NO_MEMORY"},
                 {UCS_ERR_INVALID_PARAM, "INVALID_PARAM"},
                 {UCS_ERR_UNREACHABLE, "UNREACHABLE"},
                 {UCS_ERR_INVALID_ADDR, "INVALID_ADDR"},
                 {UCS_ERR_NOT_IMPLEMENTED, "NOT_IMPLEMENTED"},
                 {UCS_ERR_MESSAGE_TRUNCATED, "MESSAGE_TRUNCATED"},
                 {UCS_ERR_BUSY, "BUSY"},
                 {UCS_ERR_CANCELED, "CANCELED"},
                 {UCS_ERR_NO_ELEM, "NO_ELEM"},
                 {UCS_ERR_NO_DEVICE, "NO_DEVICE"},
                 {UCS_ERR_TIMED_OUT, "TIMED_OUT"},
                 {UCS_ERR_UNSUPPORTED, "UNSUPPORTED"},
                 {UCS_ERR_REJECTED, "REJECTED"},
                 {UCS_ERR_NOT_CONNECTED, "NOT_CONNECTED"},
                 {UCS_ERR_CONNECTION_RESET, "CONNECTION_RESET"},
                 {UCS_ERR_ENDPOINT_TIMEOUT, "ENDPOINT_TIMEOUT"}};
    static char other[24];
    size_t i;

    for (i = 0; i < TWIN_COUNT(names); i++) {
        if (names[i].status == status) {
            return names[i].name;
        }
    }
    snprintf(other, sizeof(other), "status %d", (int)status);
    return other;
}

const char *twin_pointer_status(ucs_status_ptr_t result)
{
    return UCS_PTR_IS_ERR(result) ? twin_status(UCS_PTR_STATUS(result)) : "posted";
}

void twin_need(bool condition, const char *what)
{
    if (!condition) {
        twin_print("cannot: %s", what);
        _exit(0);
    }
}

void twin_print_filled(const char *what, ucs_status_t status, const void *object, const struct twin_field *fields,
                      size_t count)
{
    char text[512] = "";
    size_t i, k;

    for (i = 0; i < count; i++) {
        const unsigned char *bytes = (const unsigned char *)object + fields[i].offset;

        for (k = 0; k < fields[i].size && bytes[k] == TWIN_FILL; k++) {
        }
        if (k < fields[i].size) {
            snprintf(text + strlen(text), sizeof(text) - strlen(text), " %s", fields[i].name);
        }
    }
    twin_print("%s: %s fills%s", what, twin_status(status), text[0] != '\0' ? text : " nothing");
}

bool twin_has_word(const char *text, const char *word)
{
    return text != NULL && strstr(text, word) != NULL;
}

void twin_done(void *request, ucs_status_t status)
{
    (void)request;
    (void)status;
}

void twin_got(void *request, ucs_status_t status, ucp_tag_recv_info_t *info)
{
    (void)request;
    (void)status;
    (void)info;
}

ucp_mem_h twin_register(struct twin_pair *pair, void *memory, size_t length)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .address = memory,
                                   .length = length};
    ucp_mem_h result;

    twin_need(ucp_mem_map(pair->context, &params, &result) == UCS_OK, "ucp_mem_map");
    return result;
}

ucp_context_h twin_context(uint64_t features)
{
    ucp_params_t params;
    ucp_context_h context;

    memset(&params, TWIN_FILL, sizeof(params));
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = features;
    twin_need(ucp_init(&params, NULL, &context) == UCS_OK, "ucp_init");
    return context;
}

ucp_worker_h twin_worker(ucp_context_h context)
{
    ucp_worker_params_t params;
    ucp_worker_h worker;

    memset(&params, TWIN_FILL, sizeof(params));
    params.field_mask = 0;
    twin_need(ucp_worker_create(context, &params, &worker) == UCS_OK, "ucp_worker_create");
    return worker;
}

ucp_ep_h twin_connect(ucp_worker_h from, ucp_worker_h to, ucp_err_handling_mode_t mode)
{
    ucp_ep_params_t params;
    ucp_address_t *address;
    size_t length;
    ucp_ep_h ep;

    twin_need(ucp_worker_get_address(to, &address, &length) == UCS_OK, "ucp_worker_get_address");
    memset(&params, TWIN_FILL, sizeof(params));
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
    params.address = address;
    params.err_mode = mode;
    twin_need(ucp_ep_create(from, &params, &ep) == UCS_OK, "ucp_ep_create");
    ucp_worker_release_address(to, address);
    return ep;
}

void twin_pair_open(struct twin_pair *pair, uint64_t features, ucp_err_handling_mode_t mode)
{
    ucp_context_attr_t attr;
    int i;

    pair->context = twin_context(features);
    for (i = 0; i < 2; i++) {
        pair->worker[i] = twin_worker(pair->context);
    }
    for (i = 0; i < 2; i++) {
        pair->ep[i] = twin_connect(pair->worker[i], pair->worker[!i], mode);
    }
    attr.field_mask = UCP_ATTR_FIELD_REQUEST_SIZE;
    twin_need(ucp_context_query(pair->context, &attr) == UCS_OK, "ucp_context_query");
    pair->request_size = attr.request_size;
    for (i = 0; i < 2; i++) {
        twin_need(twin_prepare(pair, ucp_ep_flush_nb(pair->ep[i], 0, twin_done)) == UCS_OK, "connecting");
    }
}

void twin_pair_close(struct twin_pair *pair)
{
    int i;

    for (i = 0; i < 2; i++) {
        if (pair->ep[i] != NULL) {
            (void)twin_wait(pair, ucp_ep_close_nb(pair->ep[i], UCP_EP_CLOSE_MODE_FLUSH));
        }
    }
    for (i = 0; i < 2; i++) {
        ucp_worker_destroy(pair->worker[i]);
    }
    ucp_cleanup(pair->context);
}

void twin_progress(struct twin_pair *pair)
{
    ucp_worker_progress(pair->worker[0]);
    ucp_worker_progress(pair->worker[1]);
}

void twin_settle(struct twin_pair *pair)
{
    int i;

    for (i = 0; i < SETTLE_ROUNDS; i++) {
        twin_progress(pair);
    }
}

bool twin_round(struct twin_pair *pair, struct twin_waiting *waiting)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    if (waiting->rounds == 0) {
        waiting->end = now.tv_sec + TWIN_SECONDS;
    }
    if (++waiting->rounds > BUSY_ROUNDS) {
        nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
    }
    twin_progress(pair);
    return now.tv_sec < waiting->end;
}

bool twin_late(const int *seen, struct twin_pair *pair)
{
    struct twin_waiting waiting = {0};

    while (*seen == 0 && twin_round(pair, &waiting)) {
    }
    return *seen == 0;
}

ucs_status_t twin_wait(struct twin_pair *pair, ucs_status_ptr_t result)
{
    struct twin_waiting waiting = {0};
    ucs_status_t status;

    if (!UCS_PTR_IS_PTR(result)) {
        return UCS_PTR_STATUS(result);
    }
    while ((status = ucp_request_check_status(result)) == UCS_INPROGRESS && twin_round(pair, &waiting)) {
    }
    ucp_request_free(result);
    return status;
}

ucs_status_t twin_prepare(struct twin_pair *pair, ucs_status_ptr_t result)
{
    struct twin_waiting waiting = {0};

    while (UCS_PTR_IS_PTR(result) && ucp_request_check_status(result) == UCS_INPROGRESS) {
        (void)twin_round(pair, &waiting);
    }
    return twin_wait(pair, result);
}

static void reap(const struct twin_scenario *list, size_t count)
{
    size_t i;
    int status;
    pid_t pid = wait(&status);

    for (i = 0; i < count; i++) {
        if (list[i].pid == pid && WIFSIGNALED(status)) {
            twin_print("%s: died of signal %d", list[i].name, WTERMSIG(status));
        }
    }
}

void twin_each(struct twin_scenario *list, size_t count)
{
    size_t begun, ended = 0;

    for (begun = 0; begun < count; begun++) {
        if (begun - ended == AT_ONCE) {
            reap(list, begun);
            ended++;
        }
        list[begun].pid = fork();
        if (list[begun].pid == 0) {
            alarm(TWIN_SCENARIO_SECONDS);
            list[begun].run(&list[begun]);
            _exit(0);
        }
        twin_need(list[begun].pid > 0, "a process");
    }
    for (; ended < count; ended++) {
        reap(list, count);
    }
}

static void run(const struct twin_case *one)
{
    int status;
    pid_t pid;

    current = one->name;
    fflush(report);
    pid = fork();
    if (pid == 0) {
        alarm(CASE_SECONDS);
        one->run();
        twin_print("ended");
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        exit(1);
    }
    if (WIFSIGNALED(status)) {
        twin_print("died of signal %d", WTERMSIG(status));
    } else if (WEXITSTATUS(status) != 0) {
        twin_print("exited with %d", WEXITSTATUS(status));
    }
}

/* The first line: the library in use. */
static void print_library(void)
{
    char path[PATH_MAX];
    Dl_info info;

    if (dladdr((void *)(uintptr_t)&ucp_get_version_string, &info) != 0 && realpath(info.dli_fname, path) != NULL) {
        fprintf(report, "%s\n", path);
    }
}

int main(int argc, char **argv)
{
    static const struct twin_case *const lists[] = {
        twin_config_cases, twin_context_cases, twin_worker_cases, twin_ep_cases,  twin_listen_cases, twin_gone_cases,
        twin_gone_here_cases, twin_memory_cases, twin_tag_cases, twin_stream_cases, twin_am_cases, twin_rma_cases,
        twin_old_cases};
    size_t i, k;
    int out;

    out = dup(STDOUT_FILENO);
    report = fdopen(out, "w");
    if (report == NULL || freopen("/dev/null", "w", stdout) == NULL) { /* where libraries write their log */
        return 1;
    }
    print_library();
    for (i = 0; i < TWIN_COUNT(lists); i++) {
        for (k = 0; lists[i][k].name != NULL; k++) {
            if (argc < 2 || strstr(lists[i][k].name, argv[1]) != NULL) {
                run(&lists[i][k]);
            }
        }
    }
    return 0;
}
