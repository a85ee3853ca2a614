/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared memory that cannot be had: a missing, closed or too long UCX_POSIX_DIR, memory that the system refuses at each
 * of the calls that reserve it, a limit of file sizes or descriptors, another user. Always a sentence in the log and
 * another transport or an error, never a signal; a client and a server that met by TCP stay there. And what a killed
 * process leaves behind.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "chaos.h"

#if defined(__x86_64__)
#define THIS_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define THIS_ARCH AUDIT_ARCH_AARCH64
#endif

static char directory[] = "/tmp/causeway-chaos-XXXXXX";

/* From now on the call answers this error; with `shared` only mmap of shared memory is meant. */
static void refuse(long call, int error, int shared)
{
#ifdef THIS_ARCH
    const unsigned flags_at = offsetof(struct seccomp_data, args) + 3 * sizeof(uint64_t);
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCH, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, flags_at),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, shared ? MAP_SHARED : 0xffffffffu, 0, shared ? 1 : 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        _exit(CW_CHILD_SKIP);
    }
#else
    (void)call;
    (void)error;
    (void)shared;
    _exit(CW_CHILD_SKIP);
#endif
}

static int transport_is(struct cw_party *party, const char *name)
{
    ucp_transport_entry_t entries[4];
    ucp_ep_attr_t attr;

    memset(&attr, 0xff, sizeof(attr));
    attr.field_mask = UCP_EP_ATTR_FIELD_TRANSPORTS;
    attr.transports.entries = entries;
    attr.transports.num_entries = 4;
    attr.transports.entry_size = sizeof(entries[0]);
    cw_check(ucp_ep_query(party->ep, &attr) == UCS_OK && attr.transports.num_entries == 1);
    return strcmp(entries[0].transport_name, name) == 0;
}

struct shortage {
    const char *what;
    long call;
    int error;
    int shared;
    rlim_t file_size;
    int descriptors;    /* so many more, and no others */
    uid_t user;         /* who is another one from now on */
    ucs_status_t status; /* of what is sent; UCS_OK: one of several */
};

static void begin(const struct shortage *shortage)
{
    struct rlimit limit = {.rlim_cur = shortage->file_size, .rlim_max = RLIM_INFINITY};
    int first;

    if (shortage->call != 0) {
        refuse(shortage->call, shortage->error, shortage->shared);
    } else if (shortage->descriptors > 0) {
        first = dup(0);
        cw_check(first >= 0 && close(first) == 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0);
        limit.rlim_cur = (rlim_t)first + (rlim_t)shortage->descriptors;
        cw_check(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    } else if (shortage->user != 0) {
        if (seteuid(shortage->user) != 0) {
            _exit(CW_CHILD_SKIP);
        }
    } else {
        cw_check(getrlimit(RLIMIT_FSIZE, &limit) == 0);
        limit.rlim_cur = shortage->file_size;
        cw_check(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    }
}

/* With another transport at hand nothing is lost but speed. */
static void body_falls_back(void *argument)
{
    struct cw_party one, two;
    unsigned lines;
    int fds;

    cw_check(setenv("UCX_TLS", "self,shm,tcp", 1) == 0);
    cw_party_open(&one, UCP_FEATURE_TAG);
    cw_party_open(&two, UCP_FEATURE_TAG);
    cw_party_connect(&one, &two);
    cw_party_connect(&two, &one);
    fds = cw_open_fds();
    lines = cw_log_lines();
    begin(argument);
    cw_party_talk(&one, &two, 100000);
    cw_party_talk(&two, &one, 100000);
    cw_check(transport_is(&one, "tcp") && transport_is(&two, "tcp"));
    cw_check(cw_log_lines() > lines && cw_log_lines() <= lines + 4);
    cw_check(one.failures == 0 && two.failures == 0);
    cw_check(cw_open_fds() <= fds + 2); /* the two ends */
    cw_party_close(&one);
    cw_party_close(&two);
}

static void on_request(ucp_conn_request_h request, void *arg)
{
    *(ucp_conn_request_h *)arg = request;
}

/* A listener of `one`, an endpoint of `two` to it, and the answer. */
static void meet(struct cw_party *one, struct cw_party *two, ucp_listener_h *listener_p)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ucp_conn_request_h request = NULL;
    ucp_listener_params_t listening = {.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
                                                     UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
                                       .sockaddr = {(const struct sockaddr *)&name, sizeof(name)},
                                       .conn_handler = {on_request, &request}};
    ucp_listener_attr_t attr = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR,
                              .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER};

    cw_check(ucp_listener_create(one->worker, &listening, listener_p) == UCS_OK);
    cw_check(ucp_listener_query(*listener_p, &attr) == UCS_OK);
    params.sockaddr = (ucs_sock_addr_t){(const struct sockaddr *)&attr.sockaddr, sizeof(name)};
    cw_check(ucp_ep_create(two->worker, &params, &two->ep) == UCS_OK);
    while (request == NULL) {
        (void)ucp_worker_progress(one->worker);
        (void)ucp_worker_progress(two->worker);
    }
    params.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
    params.conn_request = request;
    cw_check(ucp_ep_create(one->worker, &params, &one->ep) == UCS_OK);
}

static void body_stays(void *argument)
{
    struct cw_party one, two;
    ucp_listener_h listener;
    unsigned lines;

    cw_check(setenv("UCX_TLS", "self,shm,tcp", 1) == 0);
    cw_party_open(&one, UCP_FEATURE_TAG);
    cw_party_open(&two, UCP_FEATURE_TAG);
    lines = cw_log_lines();
    begin(argument);
    meet(&one, &two, &listener);
    cw_party_talk(&two, &one, 8);
    cw_party_talk(&one, &two, 1000000);
    cw_party_talk(&two, &one, 1000000);
    cw_check(transport_is(&one, "tcp") && transport_is(&two, "tcp"));
    cw_check(cw_log_lines() > lines && cw_log_lines() <= lines + 4);
    ucp_listener_destroy(listener);
    cw_party_close(&one);
    cw_party_close(&two);
}

static void body_moves(void *argument)
{
    struct cw_party one, two;
    ucp_listener_h listener;

    (void)argument;
    cw_check(setenv("UCX_TLS", "self,shm,tcp", 1) == 0);
    cw_party_open(&one, UCP_FEATURE_TAG);
    cw_party_open(&two, UCP_FEATURE_TAG);
    meet(&one, &two, &listener);
    cw_party_talk(&two, &one, 8);
    cw_party_talk(&one, &two, 1000000);
    cw_check(!transport_is(&one, "tcp") && !transport_is(&two, "tcp"));
    ucp_listener_destroy(listener);
    cw_party_close(&one);
    cw_party_close(&two);
}

static void body_fails(void *argument)
{
    const struct shortage *shortage = argument;
    ucp_request_param_t param = {.op_attr_mask = 0};
    struct cw_party one, two;
    ucs_status_t status;
    unsigned lines;
    int fds;

    cw_check(setenv("UCX_TLS", "self,shm", 1) == 0);
    cw_party_open(&one, UCP_FEATURE_TAG);
    cw_party_open(&two, UCP_FEATURE_TAG);
    cw_party_connect(&one, &two);
    fds = cw_open_fds();
    lines = cw_log_lines();
    begin(argument);
    status = cw_party_wait(&one, &two, ucp_tag_send_nbx(one.ep, "12345678", 8, 1, &param));
    cw_check((shortage->status != UCS_OK) ? status == shortage->status :
             status == UCS_ERR_NO_MEMORY || status == UCS_ERR_UNREACHABLE || status == UCS_ERR_CONNECTION_RESET);
    while (one.failures == 0) {
        (void)ucp_worker_progress(one.worker);
        (void)ucp_worker_progress(two.worker);
    }
    cw_check(cw_log_lines() > lines && cw_log_lines() <= lines + 3);
    cw_check(cw_open_fds() == fds && one.failures == 1);
    cw_party_close(&one);
    cw_party_close(&two);
}

static struct shortage shortages[] = {
    {.what = "no memfd_create", .call = SYS_memfd_create, .error = ENOSYS,
     .status = UCS_ERR_UNSUPPORTED},
    {.what = "memfd_create forbidden", .call = SYS_memfd_create, .error = EPERM,
     .status = UCS_ERR_UNSUPPORTED},
    {.what = "memory full", .call = SYS_fallocate, .error = ENOSPC},
    {.what = "no memory to reserve", .call = SYS_fallocate, .error = ENOMEM},
    {.what = "no room to map", .call = SYS_mmap, .error = ENOMEM, .shared = 1},
    {.what = "a limit of file sizes", .file_size = 4096, .status = UCS_ERR_EXCEEDS_LIMIT},
};

TEST(test_refused)
{
    size_t i;

    cw_log_watch();
    for (i = 0; i < sizeof(shortages) / sizeof(shortages[0]); i++) {
        cw_child_must_pass(body_falls_back, &shortages[i], shortages[i].what);
        cw_child_must_pass(body_fails, &shortages[i], shortages[i].what);
    }
}

/* CS-33 when the move to shared memory fails: the connection by which they met serves on. */
TEST(test_a_connection_request_stays)
{
    struct shortage others[] = {{.what = "three descriptors, for the cm itself", .descriptors = 3},
                                {.what = "another user", .user = 12345}};
    size_t i;

    cw_log_watch();
    cw_child_must_pass(body_moves, NULL, "nothing is short");
    for (i = 0; i < sizeof(shortages) / sizeof(shortages[0]); i++) {
        cw_child_must_pass(body_stays, &shortages[i], shortages[i].what);
    }
    for (i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        cw_child_must_pass(body_stays, &others[i], others[i].what);
    }
}

/* ---- UCX_POSIX_DIR ---- */

static void body_bad_directory(void *argument)
{
    struct cw_party one, two;
    unsigned lines;
    int fds;

    cw_check(setenv("UCX_POSIX_DIR", argument, 1) == 0);
    cw_check(setenv("UCX_TLS", "shm", 1) == 0);
    fds = cw_open_fds();
    cw_check(cw_party_try(&one, UCP_FEATURE_TAG) < 0);
    cw_check(one.worker == NULL && cw_open_fds() == fds);
    lines = cw_log_lines();
    cw_check(lines > 0 && lines <= 3);
    cw_check(setenv("UCX_TLS", "shm,self,tcp", 1) == 0);
    cw_party_open(&one, UCP_FEATURE_TAG);
    cw_party_open(&two, UCP_FEATURE_TAG);
    cw_party_connect(&one, &two);
    cw_party_talk(&one, &two, 100);
    cw_check(transport_is(&one, "tcp"));
    cw_check(cw_log_lines() > lines && cw_log_lines() <= lines + 4);
    cw_party_close(&one);
    cw_party_close(&two);
}

TEST(test_bad_directories)
{
    static char longest[200];
    char closed[64];

    cw_log_watch();
    cw_child_must_pass(body_bad_directory, "/tmp/causeway-chaos-there-is-no-such-directory", "a missing directory");
    cw_child_must_pass(body_bad_directory, "/dev/null", "a file for a directory");
    memset(longest, '/', sizeof(longest) - 1);
    memcpy(longest, directory, strlen(directory));
    cw_child_must_pass(body_bad_directory, longest, "a name that is too long");
    (void)snprintf(closed, sizeof(closed), "%s/closed", directory);
    assert_int_equal(mkdir(closed, 0500), 0);
    if (geteuid() == 0) {
        (void)snprintf(closed, sizeof(closed), "/proc/self/fdinfo"); /* not even the superuser can write there */
    }
    cw_child_must_pass(body_bad_directory, closed, "a directory that cannot be written to");
    (void)snprintf(closed, sizeof(closed), "%s/closed", directory);
    (void)rmdir(closed);
}

static int names_in(const char *path, const char *part)
{
    DIR *dir = opendir(path);
    int count = 0;
    struct dirent *entry;

    cw_check(dir != NULL);
    while ((entry = readdir(dir)) != NULL) {
        count += (strstr(entry->d_name, part) != NULL);
    }
    closedir(dir);
    return count;
}

/* What a process is known by elsewhere: its sockets, and the name that one of them listens under. */
struct traces {
    unsigned long sockets[32];
    int count;
    char name[64];
};

static void note_sockets(struct traces *traces, pid_t pid)
{
    char path[300], target[64];
    struct dirent *entry;
    unsigned long inode;
    ssize_t length;
    DIR *dir;

    traces->count = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    dir = opendir(path);
    cw_check(dir != NULL);
    while ((entry = readdir(dir)) != NULL) {
        (void)snprintf(path, sizeof(path), "/proc/%d/fd/%s", (int)pid, entry->d_name);
        length = readlink(path, target, sizeof(target) - 1);
        target[(length > 0) ? length : 0] = '\0';
        if (sscanf(target, "socket:[%lu]", &inode) == 1) {
            cw_check(traces->count < (int)(sizeof(traces->sockets) / sizeof(traces->sockets[0])));
            traces->sockets[traces->count++] = inode;
        }
    }
    closedir(dir);
}

/* How many of its sockets are among those with an abstract name of ours; the last such name. */
static int abstract_names(struct traces *traces)
{
    FILE *file = fopen("/proc/net/unix", "r");
    int i, count = 0;
    unsigned long inode;
    char line[512], name[64];

    cw_check(file != NULL);
    while (fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "%*s %*s %*s %*s %*s %*s %lu @causeway-%63s", &inode, name) != 2) {
            continue;
        }
        for (i = 0; i < traces->count; i++) {
            if (traces->sockets[i] == inode) {
                memcpy(traces->name, name, sizeof(name));
                count++;
            }
        }
    }
    (void)fclose(file);
    return count;
}

/* Memory with a name would stay. */
static int maps_named_memory(pid_t pid)
{
    char path[64], line[512];
    FILE *file;
    int found = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    file = fopen(path, "r");
    cw_check(file != NULL);
    while (fgets(line, sizeof(line), file) != NULL) {
        found |= strstr(line, " /dev/shm/") != NULL || strstr(line, " /tmp/causeway") != NULL ||
                 strstr(line, " /SYSV") != NULL;
    }
    (void)fclose(file);
    return found;
}

/* A process that has a worker and is killed. traces: of it while it lived; NULL: nobody asks. */
static void kill_one(struct traces *traces)
{
    struct cw_party party;
    int status, ready[2];
    char byte;
    pid_t pid;

    cw_check(pipe(ready) == 0);
    pid = fork();
    if (pid == 0) {
        (void)alarm(CW_CHILD_S);
        cw_party_open(&party, UCP_FEATURE_TAG);
        cw_check(write(ready[1], "x", 1) == 1);
        for (;;) {
            (void)pause();
        }
    }
    cw_check(pid > 0 && read(ready[0], &byte, 1) == 1);
    if (traces != NULL) {
        note_sockets(traces, pid);
        cw_check(abstract_names(traces) == 1 && !maps_named_memory(pid));
    }
    cw_check(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
    (void)close(ready[0]);
    (void)close(ready[1]);
}

static void body_swept(void *argument)
{
    struct cw_party one, two;

    (void)argument;
    cw_check(setenv("UCX_TLS", "shm", 1) == 0 && setenv("UCX_POSIX_DIR", directory, 1) == 0);
    cw_check(names_in(directory, "causeway-") == 0);
    kill_one(NULL);
    kill_one(NULL);
    cw_check(names_in(directory, "causeway-") == 1); /* the second swept what the first left */
    cw_party_open(&one, UCP_FEATURE_TAG);
    cw_check(names_in(directory, "causeway-") == 1);
    cw_party_open(&two, UCP_FEATURE_TAG); /* does not sweep those that live */
    cw_check(names_in(directory, "causeway-") == 2);
    cw_party_connect(&one, &two);
    cw_party_talk(&one, &two, 10000);
    cw_check(cw_log_lines() == 0); /* an orderly sweep is nothing to warn of */
    cw_party_close(&one);
    cw_party_close(&two);
    cw_check(names_in(directory, "causeway-") == 0);
}

TEST(test_killed_with_directory)
{
    cw_log_watch();
    cw_child_must_pass(body_swept, NULL, "sweeping");
}

CHILD_TEST(test_killed_with_abstract_name)
{
    struct traces traces;

    cw_check(unsetenv("UCX_POSIX_DIR") == 0 && setenv("UCX_TLS", "shm", 1) == 0);
    kill_one(&traces);
    cw_check(abstract_names(&traces) == 0);
    cw_check(names_in("/dev/shm", traces.name) == 0 && names_in("/tmp", traces.name) == 0);
}

int main(void)
{
    int failed;

    if (mkdtemp(directory) == NULL) {
        return 1;
    }
    failed = cw_tests_run(NULL, NULL);
    (void)rmdir(directory);
    return failed;
}
