/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asking the loader for libucp.so.0, in a child that ends at once.
 *
 * Callers: see library.h.
 */
#define _GNU_SOURCE
#include "library.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/env.h"

#define LIBRARY   "libucp" CW_LIBRARY_SUFFIX ".so.0"
#define COMPANION "libuct" CW_LIBRARY_SUFFIX ".so.0"
#define SECONDS   10
#define OURS      'c'
#define REFERENCE 'r'

/* "VERSION\nPATH\n" with a letter before it. The reference's libucp brings a libuct along, ours stands alone. */
static void write_info(int fd)
{
    const char *(*version)(void);
    void *library = dlopen(LIBRARY, RTLD_LAZY | RTLD_LOCAL);
    char path[4096];
    Dl_info info;

    if (library == NULL) {
        return;
    }
    *(void **)&version = dlsym(library, "ucp_get_version_string");
    if (version == NULL || dladdr((void *)version, &info) == 0 || realpath(info.dli_fname, path) == NULL) {
        return;
    }
    (void)dprintf(fd, "%c%s\n%s\n", (dlopen(COMPANION, RTLD_LAZY | RTLD_NOLOAD) == NULL) ? OURS : REFERENCE,
                  version(), path);
}

static void child(int fd)
{
    alarm(SECONDS);
    if (dup2(fd, STDERR_FILENO) >= 0) {
        (void)dup2(fd, STDOUT_FILENO); /* whatever it says is not for the user */
    }
    write_info(fd);
    _exit(0);
}

static void read_all(int fd, char *text, size_t size)
{
    size_t length = 0;
    ssize_t got;

    while (length < size - 1) {
        got = read(fd, text + length, size - 1 - length);
        if (got == 0 || (got < 0 && errno != EINTR)) {
            break;
        }
        length += (got > 0) ? (size_t)got : 0;
    }
    text[length] = '\0';
}

/* What a foreign library printed when it was loaded stands before our lines. */
static void parse(struct cw_info_library *library, char *text)
{
    char *end = text + strlen(text), *path, *version;

    if (end == text || end[-1] != '\n') {
        return;
    }
    end[-1] = '\0';
    path = strrchr(text, '\n');
    if (path == NULL) {
        return;
    }
    *path++ = '\0';
    version = strrchr(text, '\n');
    version = (version == NULL) ? text : version + 1;
    if (version[0] == '\0') {
        return;
    }
    library->found = true;
    library->is_ours = version[0] == OURS;
    snprintf(library->version, sizeof(library->version), "%s", version + 1);
    snprintf(library->path, sizeof(library->path), "%s", path);
}

void cw_info_library_find(struct cw_info_library *library)
{
    char text[8192];
    int fds[2];
    pid_t pid;

    *library = (struct cw_info_library){.found = false};
    if (pipe2(fds, O_CLOEXEC) != 0) {
        return;
    }
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        child(fds[1]);
    }
    close(fds[1]);
    if (pid > 0) {
        read_all(fds[0], text, sizeof(text));
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
        }
        parse(library, text);
    }
    close(fds[0]);
}

void cw_info_library_stand_for(void)
{
    static struct cw_info_library library;
    static char own[sizeof(library.path)];

    cw_info_library_find(&library);
    if (library.found && library.is_ours) {
        cw_env_library_set(library.path);
    } else if (realpath("/proc/self/exe", own) != NULL) {
        cw_env_library_set(own);
    }
}
