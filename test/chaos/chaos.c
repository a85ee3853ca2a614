/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of chaos.h that need no more than the public interface; cmocka only for cw_child_must_pass. */
#define _GNU_SOURCE
#include "chaos.h"

#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#define WAIT_NS UINT64_C(20000000000)

struct cw_run cw_run;

void cw_fail(const char *format, ...)
{
    va_list list;

    if (cw_run.name != NULL) {
        fprintf(stderr, "%s: seed %llu, round %ld, process %d: ", cw_run.name, (unsigned long long)cw_run.seed,
                cw_run.round, (int)getpid());
    }
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fprintf(stderr, "\n");
    if (getenv("CHAOS_STOP") != NULL) { /* for a debugger */
        raise(SIGSTOP);
    }
    _exit(CW_CHILD_WRONG);
}

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

void cw_process_start(struct cw_process *process, const char *role, const char *argument)
{
    char number[16];
    int fds[2];

    cw_check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    fflush(NULL);
    process->pid = fork();
    cw_check(process->pid >= 0);
    if (process->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        snprintf(number, sizeof(number), "%d", dup(fds[1])); /* dup drops close-on-exec */
        execl("/proc/self/exe", "role", "--role", role, number, argument, (char *)NULL);
        _exit(127);
    }
    close(fds[1]);
    process->fd = fds[0];
}

int cw_process_join(struct cw_process *process)
{
    double end = cw_now_s() + CW_BOUND_S;
    int status = 0;

    while (waitpid(process->pid, &status, WNOHANG) == 0) {
        if (cw_now_s() > end) {
            kill(process->pid, SIGKILL);
            waitpid(process->pid, &status, 0);
            cw_fail("process %d did not end", (int)process->pid);
        }
        usleep(200);
    }
    close(process->fd);
    process->fd = -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

bool cw_process_role(int argc, char **argv, const struct cw_role *roles, size_t count, int *code)
{
    if (argc < 5 || strcmp(argv[1], "--role") != 0) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(argv[2], roles[i].name) == 0) {
            *code = roles[i].run(atoi(argv[3]), argv[4]);
            return true;
        }
    }
    cw_fail("no role is called %s", argv[2]);
}

bool cw_fd_write(int fd, const void *data, size_t length)
{
    const char *bytes = data;

    while (length > 0) {
        ssize_t done = send(fd, bytes, length, MSG_NOSIGNAL);

        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return false;
        }
        bytes += done;
        length -= (size_t)done;
    }
    return true;
}

bool cw_fd_read(int fd, void *data, size_t length, ucp_worker_h worker)
{
    double end = cw_now_s() + CW_BOUND_S;
    char *bytes = data;

    while (length > 0) {
        struct pollfd item = {.fd = fd, .events = POLLIN};
        ssize_t done;

        if (worker != NULL) {
            ucp_worker_progress(worker);
        }
        if (poll(&item, 1, worker == NULL ? 100 : 0) <= 0) {
            if (cw_now_s() > end) {
                cw_fail("the other process said nothing for %d s", CW_BOUND_S);
            }
            continue;
        }
        done = recv(fd, bytes, length, MSG_DONTWAIT);
        if (done == 0 || (done < 0 && errno == ECONNRESET)) {
            return false;
        }
        if (done > 0) {
            bytes += done;
            length -= (size_t)done;
        }
    }
    return true;
}

void cw_options(int argc, char **argv, struct cw_options *options)
{
    int option;

    while ((option = getopt(argc, argv, "s:n:w:t:v")) != -1) {
        switch (option) {
        case 's':
            options->seed = strtoull(optarg, NULL, 0);
            break;
        case 'n':
            options->rounds = strtol(optarg, NULL, 0);
            break;
        case 'w':
            options->rounds_per_worker = strtol(optarg, NULL, 0);
            break;
        case 't':
            options->seconds = strtod(optarg, NULL);
            break;
        case 'v':
            options->verbose = true;
            break;
        default:
            fprintf(stderr, "Usage: %s [-s seed] [-n rounds] [-w rounds of a worker] [-t seconds] [-v]\n", argv[0]);
            exit(2);
        }
    }
    cw_run.seed = options->seed;
    printf("%s: seed %llu (-s)\n", cw_run.name, (unsigned long long)options->seed);
    fflush(stdout);
}

uint64_t cw_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

size_t cw_random_below(uint64_t *state, size_t limit)
{
    return (size_t)(cw_random(state) % limit);
}

bool cw_one_in(uint64_t *state, unsigned n)
{
    return cw_random_below(state, n) == 0;
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

/* Longer than anything that is waited for between two looks. */
#define PAUSE_S 5.0

double cw_now_s(void)
{
    static double last, paused;
    double now_s = (double)cw_now_ns() * 1e-9;

    if (last > 0 && now_s - last > PAUSE_S) {
        paused += now_s - last - PAUSE_S;
    }
    last = now_s;
    return now_s - paused;
}

uint64_t cw_cpu_ns(void)
{
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

void cw_sleep_ms(unsigned ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    (void)nanosleep(&time, NULL);
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

struct cw_holds cw_holds(void)
{
    struct mallinfo2 info = mallinfo2();
    struct cw_holds holds = {.fds = cw_open_fds(), .allocated = info.uordblks + info.hblkhd};
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];

    cw_check(maps != NULL);
    while (fgets(line, sizeof(line), maps) != NULL) {
        holds.maps += strchr(line, '[') == NULL;
    }
    fclose(maps);
    return holds;
}

void cw_check_holds(const struct cw_holds *first, const struct cw_holds *now, int maps, size_t bytes)
{
    bool more = now->maps > first->maps + maps || now->allocated > first->allocated + bytes;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    more = false;
#endif
    if (now->fds != first->fds || more) {
        cw_fail("descriptors %d, mappings %d, allocated %zu; at first %d, %d, %zu", now->fds, now->maps, now->allocated,
                first->fds, first->maps, first->allocated);
    }
}

void cw_exact_memory(char **argv)
{
    const char *name = "GLIBC_TUNABLES", *exact = "glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0";

    if (getenv(name) == NULL || strcmp(getenv(name), exact) != 0) {
        setenv(name, exact, 1);
        execv("/proc/self/exe", argv);
    }
}

int cw_tls_has(const char *text)
{
    const char *value = getenv("UCX_TLS");

    return value != NULL && strstr(value, text) != NULL;
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
