/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of abuse.h. */
#define _GNU_SOURCE
#include "abuse.h"

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "base/log.h"

#define WAIT_NS UINT64_C(20000000000)

static unsigned log_lines;
static char log_last[512];

/* The test framework catches these; a child is to die of them. */
static void let_signals_kill(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS, SIGPIPE, SIGXFSZ, SIGALRM, SIGABRT};
    size_t i;

    for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        (void)signal(signals[i], SIG_DFL);
    }
}

int cw_child_run(void (*body)(void *), void *argument)
{
    pid_t pid;
    int status;

    (void)fflush(NULL);
    pid = fork();
    if (pid == 0) {
        let_signals_kill();
        (void)alarm(CW_CHILD_S);
        body(argument);
        (void)fflush(NULL);
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        return -1;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void cw_child_must_pass(void (*body)(void *), void *argument, const char *what)
{
    int code = cw_child_run(body, argument);

    if (code == CW_CHILD_SKIP) {
        skip();
    }
    if (code != 0) {
        fail_msg("%s: %s %d", what, (code > 128) ? "ended by signal" : "exit code", (code > 128) ? code - 128 : code);
    }
}

int cw_open_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    if (dir == NULL) {
        return -1;
    }
    while (readdir(dir) != NULL) {
        count++;
    }
    closedir(dir);
    return count - 3; /* ".", ".." and the directory itself */
}

static uint64_t clock_ns(clockid_t id)
{
    struct timespec now;

    (void)clock_gettime(id, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t cw_now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

uint64_t cw_cpu_ns(void)
{
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

long cw_resident_kb(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = -1;

    if (file != NULL) {
        pages = (fscanf(file, "%*d %ld", &pages) == 1) ? pages : -1;
        (void)fclose(file);
    }
    return (pages < 0) ? -1 : pages * (sysconf(_SC_PAGESIZE) / 1024);
}

uint64_t cw_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int cw_tls_has(const char *text)
{
    const char *value = getenv("UCX_TLS");

    return value != NULL && strstr(value, text) != NULL;
}

void cw_sleep_ms(unsigned ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    (void)nanosleep(&time, NULL);
}

static int watch(const char *file, unsigned line, const char *function, enum cw_log_level level, const char *format,
                 va_list args)
{
    (void)file;
    (void)line;
    (void)function;
    if (level <= CW_LOG_WARN) {
        log_lines++;
        (void)vsnprintf(log_last, sizeof(log_last), format, args);
    }
    return getenv("CW_ABUSE_SHOW") == NULL;
}

void cw_log_watch(void)
{
    cw_log_set_interceptor(watch);
}

unsigned cw_log_lines(void)
{
    return log_lines;
}

const char *cw_log_last(void)
{
    return log_last;
}

ucs_status_t cw_party_try(struct cw_party *party, uint64_t features)
{
    ucp_worker_params_t worker_params;
    ucp_params_t params;
    ucs_status_t status;

    memset(party, 0, sizeof(*party));
    memset(&params, 0xff, sizeof(params));
    memset(&worker_params, 0xff, sizeof(worker_params));
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = features;
    worker_params.field_mask = 0;
    status = ucp_init(&params, NULL, &party->context);
    if (status != UCS_OK) {
        party->context = NULL;
        return status;
    }
    status = ucp_worker_create(party->context, &worker_params, &party->worker);
    if (status != UCS_OK) {
        ucp_cleanup(party->context);
        memset(party, 0, sizeof(*party));
    }
    return status;
}

void cw_party_open(struct cw_party *party, uint64_t features)
{
    cw_check(cw_party_try(party, features) == UCS_OK);
}

static void ep_failed(void *argument, ucp_ep_h ep, ucs_status_t status)
{
    struct cw_party *party = argument;

    (void)ep;
    (void)status;
    party->failures++;
}

size_t cw_party_address(const struct cw_party *party, void *bytes)
{
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS};

    cw_check(ucp_worker_query(party->worker, &attr) == UCS_OK && attr.address_length <= 1024);
    memcpy(bytes, attr.address, attr.address_length);
    ucp_worker_release_address(party->worker, attr.address);
    return attr.address_length;
}

void cw_party_connect(struct cw_party *from, struct cw_party *to)
{
    char bytes[1024];
    ucp_ep_params_t params;

    (void)cw_party_address(to, bytes);
    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = (const ucp_address_t *)bytes;
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = ep_failed;
    params.err_handler.arg = from;
    cw_check(ucp_ep_create(from->worker, &params, &from->ep) == UCS_OK);
}

ucs_status_t cw_party_wait(struct cw_party *one, struct cw_party *other, ucs_status_ptr_t result)
{
    uint64_t end = cw_now_ns() + WAIT_NS;
    ucs_status_t status;

    if (!UCS_PTR_IS_PTR(result)) {
        return UCS_PTR_STATUS(result);
    }
    while ((status = ucp_request_check_status(result)) == UCS_INPROGRESS) {
        cw_check(cw_now_ns() < end);
        (void)ucp_worker_progress(one->worker);
        if (other != NULL) {
            (void)ucp_worker_progress(other->worker);
        }
    }
    ucp_request_free(result);
    return status;
}

void cw_party_close(struct cw_party *party)
{
    ucp_request_param_t param = {.op_attr_mask = 0};

    if (party->ep != NULL) {
        (void)cw_party_wait(party, NULL, ucp_ep_close_nbx(party->ep, &param));
    }
    if (party->worker != NULL) {
        ucp_worker_destroy(party->worker);
    }
    if (party->context != NULL) {
        ucp_cleanup(party->context);
    }
    memset(party, 0, sizeof(*party));
}

void cw_party_talk(struct cw_party *from, struct cw_party *to, size_t length)
{
    static char out[1 << 20], in[1 << 20];
    static uint64_t seed = 1, tag = UINT64_C(1) << 60;
    ucp_request_param_t param = {.op_attr_mask = 0};
    ucs_status_ptr_t send, receive;
    size_t i;

    cw_check(length <= sizeof(out));
    for (i = 0; i < length; i++) {
        out[i] = (char)cw_random(&seed);
    }
    tag++;
    receive = ucp_tag_recv_nbx(to->worker, in, length, tag, UINT64_MAX, &param);
    send = ucp_tag_send_nbx(from->ep, out, length, tag, &param);
    cw_check(cw_party_wait(from, to, send) == UCS_OK);
    cw_check(cw_party_wait(to, from, receive) == UCS_OK);
    cw_check(memcmp(in, out, length) == 0);
}
