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
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PATH_SIZE  4096
#define MOST_LINKS 8 /* symbolic links that lead from one to the next */

bool cw_env_is_secure(void)
{
    return getauxval(AT_SECURE) != 0;
}

const char *cw_env_get(const char *name)
{
    return cw_env_is_secure() ? NULL : getenv(name);
}

/*
 * The address of a variable of libc. A program that is not position independent has its own copy of the variables it
 * names, which libc then uses, too; a library that was loaded with RTLD_DEEPBIND finds that of libc, which nobody
 * updates. `own` is what this library finds by name, for programs in which the other search is impossible. Each thread
 * may search: none waits for another one that waits for the loader.
 */
static void *variable_of_libc(_Atomic(void *) *found, const char *name, void *own)
{
    void *address = atomic_load_explicit(found, memory_order_relaxed);
    void *program;

    if (address == NULL) {
        program = dlopen(NULL, RTLD_LAZY | RTLD_NOLOAD);
        address = (program == NULL) ? NULL : dlsym(program, name);
        address = (address == NULL) ? own : address;
        atomic_store_explicit(found, address, memory_order_relaxed);
        if (program != NULL) {
            (void)dlclose(program);
        }
    }
    return address;
}

char *const *cw_env_all(void)
{
    static _Atomic(void *) found;

    return cw_env_is_secure() ? NULL : *(char ***)variable_of_libc(&found, "__environ", &environ);
}

FILE *cw_env_stdout(void)
{
    static _Atomic(void *) found;

    return *(FILE **)variable_of_libc(&found, "stdout", (void *)&stdout);
}

FILE *cw_env_stderr(void)
{
    static _Atomic(void *) found;

    return *(FILE **)variable_of_libc(&found, "stderr", (void *)&stderr);
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
    /* POSIX leaves open whether a truncated name is terminated. */
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
    static _Atomic(void *) found;
    const char *name = *(char **)variable_of_libc(&found, "__progname", (void *)&program_invocation_short_name);

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

unsigned cw_env_library_owner(void)
{
    const char *path = library_path;
    struct stat info;
    Dl_info found;

    if (path == NULL) {
        path = (dladdr(&library_path, &found) == 0) ? NULL : found.dli_fname;
    }
    return (path == NULL || stat(path, &info) != 0) ? 0 : (unsigned)info.st_uid;
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

/* The whole of a regular file with this fstat(2) result. */
static ucs_status_t read_file(int fd, const struct stat *info, size_t max, char **text_p, size_t *length_p)
{
    ucs_status_t status;
    char *text;

    if (info->st_size < 0 || (uint64_t)info->st_size > max) {
        return UCS_ERR_EXCEEDS_LIMIT;
    }
    text = malloc((size_t)info->st_size + 1);
    if (text == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    status = read_to_end(fd, text, (size_t)info->st_size, length_p);
    if (status != UCS_OK) {
        free(text);
        return status;
    }
    text[*length_p] = '\0';
    *text_p = text;
    return UCS_OK;
}

ucs_status_t cw_file_read(const char *path, size_t max, char **text_p, size_t *length_p)
{
    ucs_status_t status = UCS_ERR_NO_ELEM;
    struct stat info;
    int fd;

    /* Non-blocking, so that a FIFO of that name cannot block the caller. */
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return UCS_ERR_NO_ELEM;
    }
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) {
        status = read_file(fd, &info, max, text_p, length_p);
    }
    (void)close(fd);
    return status;
}

/* In a program with more privileges than its user, files of that user are untrusted. */
static bool is_trusted(uid_t owner, unsigned other)
{
    const bool is_own = owner == geteuid() && !(cw_env_is_secure() && owner == getuid());

    return owner == 0 || owner == other || is_own;
}

/* Replaces the path of a symbolic link by its target, relative to the link. The link is examined and read through one
 * descriptor, so that it cannot be replaced in between. 0, or errno; EPERM: an untrusted user made it. */
static int follow(char *path, unsigned other, struct stat *info)
{
    const int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    const char *slash;
    char *target = NULL;
    size_t before;
    ssize_t length;
    int error = EPERM;

    if (fd < 0 || fstat(fd, info) != 0) {
        error = errno;
    } else if (!S_ISLNK(info->st_mode)) {
        error = EAGAIN;
    } else if (is_trusted(info->st_uid, other)) {
        target = malloc(PATH_SIZE);
        error = ENOMEM;
    }
    if (target != NULL) {
        length = readlinkat(fd, "", target, PATH_SIZE - 1);
        error = (length < 0) ? errno : 0;
        slash = strrchr(path, '/');
        before = (slash == NULL || target[0] == '/') ? 0 : (size_t)(slash - path) + 1;
        if (error == 0 && before + (size_t)length >= PATH_SIZE) {
            error = ENAMETOOLONG;
        } else if (error == 0) {
            memcpy(path + before, target, (size_t)length);
            path[before + (size_t)length] = '\0';
        }
        free(target);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return error;
}

/* A descriptor, or -1 and errno; EPERM with *info: a symbolic link of an untrusted user leads there. */
static int open_unsuspected(const char *path, unsigned other, struct stat *info)
{
    const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY;
    char *real;
    int fd, i, error = 0;

    fd = open(path, flags);
    if (fd >= 0 || errno != ELOOP) {
        return fd;
    }
    real = malloc(PATH_SIZE);
    if (real == NULL) {
        return -1;
    }
    (void)snprintf(real, PATH_SIZE, "%s", path);
    for (i = 0; i < MOST_LINKS && fd < 0 && error == 0; i++) {
        error = follow(real, other, info);
        fd = (error == 0) ? open(real, flags) : -1;
        error = (error == 0 && fd < 0 && errno != ELOOP) ? errno : error;
    }
    free(real);
    errno = (error == 0) ? ELOOP : error;
    return fd;
}

/* Whether opening the file failed because it does not exist, or because this user cannot see whether it exists. */
static bool is_missing(const char *path, int error)
{
    struct stat info;

    return error == ENOENT || error == ENOTDIR || (error == EACCES && lstat(path, &info) != 0);
}

ucs_status_t cw_file_read_trusted(const char *path, size_t max, unsigned other, char **text_p, size_t *length_p,
                                  char *why, size_t size)
{
    struct stat info = {0};
    const int fd = open_unsuspected(path, other, &info);
    const int error = errno;
    ucs_status_t status = UCS_ERR_REJECTED;

    if (fd < 0 && (error == ENOMEM || is_missing(path, error))) {
        return (error == ENOMEM) ? UCS_ERR_NO_MEMORY : UCS_ERR_NO_ELEM;
    }
    if (fd < 0 && error == EPERM && S_ISLNK(info.st_mode)) {
        (void)snprintf(why, size, "user %u made it a symbolic link; it must be a file of this user (%u) or of root",
                       (unsigned)info.st_uid, (unsigned)geteuid());
    } else if (fd < 0 || fstat(fd, &info) != 0) {
        (void)snprintf(why, size, "it cannot be read: %s", strerror((fd < 0) ? error : errno));
    } else if (!S_ISREG(info.st_mode)) {
        (void)snprintf(why, size, "%s", "it is not a regular file");
    } else if (!is_trusted(info.st_uid, other)) {
        (void)snprintf(why, size, "it belongs to user %u; it must belong to this user (%u) or to root",
                       (unsigned)info.st_uid, (unsigned)geteuid());
    } else if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        (void)snprintf(why, size, "%s", "other users can write it; fix with chmod go-w");
    } else {
        status = read_file(fd, &info, max, text_p, length_p);
        if (status == UCS_ERR_EXCEEDS_LIMIT) {
            (void)snprintf(why, size, "it is longer than %zu bytes", max);
        } else if (status == UCS_ERR_NO_ELEM) {
            (void)snprintf(why, size, "%s", "it cannot be read");
        }
        status = (status == UCS_OK || status == UCS_ERR_NO_MEMORY) ? status : UCS_ERR_REJECTED;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return status;
}

int cw_directory_check(const char *path)
{
    struct stat info;
    char *inside;
    int error = ENOMEM;

    if (asprintf(&inside, "%s/.", path) >= 0) {
        error = (stat(inside, &info) != 0) ? errno : 0;
        free(inside);
    }
    return error;
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

    if (cw_env_is_secure()) {
        errno = EPERM;
        return -1;
    }
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd >= 0) {
        *size_p = (fstat(fd, &info) == 0 && info.st_size > 0) ? (uint64_t)info.st_size : 0;
    }
    return fd;
}

int cw_file_create(const char *path)
{
    if (cw_env_is_secure()) {
        errno = EPERM;
        return -1;
    }
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
