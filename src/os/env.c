/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Environment, host, user, program, library file and plain files (os/env.h).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "os/env.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const char *cw_env_get(const char *name)
{
    return getenv(name);
}

char *const *cw_env_all(void)
{
    return environ;
}

int cw_env_pid(void)
{
    return (int)getpid();
}

unsigned cw_env_thread_number(void)
{
    static _Atomic unsigned threads;
    static _Thread_local unsigned number_plus_one;

    if (number_plus_one == 0) {
        number_plus_one = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) + 1;
    }
    return number_plus_one - 1;
}

int cw_env_cpu(void)
{
    int cpu = sched_getcpu();

    return (cpu < 0) ? 0 : cpu;
}

uint64_t cw_env_wall_time_us(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return ((uint64_t)now.tv_sec * 1000000u) + ((uint64_t)now.tv_nsec / 1000u);
}

void cw_env_host(char *text, size_t size)
{
    /* POSIX leaves open whether a name that was cut is terminated. */
    if (gethostname(text, size) != 0 || text[0] == '\0') {
        (void)snprintf(text, size, "?");
    }
    text[size - 1] = '\0';
}

void cw_env_user(char *text, size_t size)
{
    struct passwd entry;
    struct passwd *found = NULL;
    char buffer[2048];

    if (getpwuid_r(geteuid(), &entry, buffer, sizeof(buffer), &found) == 0 && found != NULL) {
        (void)snprintf(text, size, "%s", found->pw_name);
    } else {
        (void)snprintf(text, size, "%u", (unsigned)geteuid());
    }
}

void cw_env_program(char *text, size_t size)
{
    const char *name = program_invocation_short_name;

    (void)snprintf(text, size, "%s", (name == NULL || name[0] == '\0') ? "?" : name);
}

static const char *library_path;

void cw_env_library_set(const char *path)
{
    library_path = path;
}

ucs_status_t cw_env_library_path(char *path, size_t size)
{
    static const char anchor;
    Dl_info info;
    char *real;
    int length;

    if (library_path != NULL) {
        info.dli_fname = library_path;
    } else if (dladdr(&anchor, &info) == 0 || info.dli_fname == NULL) {
        return UCS_ERR_NO_ELEM;
    }
    real = realpath(info.dli_fname, NULL);
    if (real == NULL) {
        return UCS_ERR_NO_ELEM;
    }
    length = snprintf(path, size, "%s", real);
    free(real);
    return (length < 0 || (size_t)length >= size) ? UCS_ERR_NO_ELEM : UCS_OK;
}

static ucs_status_t read_to_end(int fd, char *text, size_t size, size_t *length_p)
{
    size_t length = 0;
    ssize_t got;

    while (length < size) {
        got = read(fd, text + length, size - length);
        if (got == 0) {
            break;
        }
        if (got > 0) {
            length += (size_t)got;
        } else if (errno != EINTR) {
            return UCS_ERR_NO_ELEM;
        }
    }
    *length_p = length;
    return UCS_OK;
}

ucs_status_t cw_file_read(const char *path, size_t max, char **text_p, size_t *length_p)
{
    ucs_status_t status;
    struct stat info;
    char *text;
    int fd;

    /* Non-blocking, so that a FIFO of that name cannot hold the caller up. */
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return UCS_ERR_NO_ELEM;
    }
    status = UCS_ERR_NO_ELEM;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        goto out_close;
    }
    status = UCS_ERR_EXCEEDS_LIMIT;
    if (info.st_size < 0 || (uint64_t)info.st_size > max) {
        goto out_close;
    }
    status = UCS_ERR_NO_MEMORY;
    text   = malloc((size_t)info.st_size + 1);
    if (text == NULL) {
        goto out_close;
    }
    status = read_to_end(fd, text, (size_t)info.st_size, length_p);
    if (status != UCS_OK) {
        free(text);
        goto out_close;
    }
    text[*length_p] = '\0';
    *text_p         = text;
out_close:
    (void)close(fd);
    return status;
}

int cw_file_id_get(const char *path, struct cw_file_id *id)
{
    struct stat info;

    if (stat(path, &info) != 0) {
        return 0;
    }
    id->device = info.st_dev;
    id->number = info.st_ino;
    return 1;
}

int cw_file_open_append(const char *path, uint64_t *size_p)
{
    struct stat info;
    int fd;

    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd >= 0) {
        *size_p = (fstat(fd, &info) == 0 && info.st_size > 0) ? (uint64_t)info.st_size : 0;
    }
    return fd;
}

int cw_file_create(const char *path)
{
    return open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

int cw_file_write_all(int fd, const void *data, size_t length)
{
    const char *position = data;
    ssize_t written;

    while (length > 0) {
        written = write(fd, position, length);
        if (written >= 0) {
            position += written;
            length -= (size_t)written;
        } else if (errno != EINTR) {
            return -1;
        }
    }
    return 0;
}

int cw_file_truncate(int fd)
{
    return ftruncate(fd, 0);
}

int cw_file_rename(const char *from, const char *to)
{
    return rename(from, to);
}

void cw_file_close(int fd)
{
    (void)close(fd);
}

static const int write_signals[] = {SIGPIPE, SIGXFSZ};

void cw_write_signals_hold(struct cw_write_signals *signals)
{
    sigset_t held;
    size_t i;

    (void)sigemptyset(&signals->pending);
    (void)sigpending(&signals->pending);
    (void)sigemptyset(&held);
    for (i = 0; i < sizeof(write_signals) / sizeof(write_signals[0]); i++) {
        (void)sigaddset(&held, write_signals[i]);
    }
    (void)pthread_sigmask(SIG_BLOCK, &held, &signals->old_mask);
}

void cw_write_signals_release(const struct cw_write_signals *signals)
{
    static const struct timespec now = {0, 0};
    sigset_t pending, one;
    size_t i;

    (void)sigemptyset(&pending);
    (void)sigpending(&pending);
    for (i = 0; i < sizeof(write_signals) / sizeof(write_signals[0]); i++) {
        if (sigismember(&pending, write_signals[i]) == 1 && sigismember(&signals->pending, write_signals[i]) != 1) {
            (void)sigemptyset(&one);
            (void)sigaddset(&one, write_signals[i]);
            while (sigtimedwait(&one, NULL, &now) < 0 && errno == EINTR) {
            }
        }
    }
    (void)pthread_sigmask(SIG_SETMASK, &signals->old_mask, NULL);
}
