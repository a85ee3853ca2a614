/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that runs with more rights than the user who starts it obeys neither that user's environment nor the files
 * that he chose by it, and writes none that he named. Usage: test_secure KIND PROGRAM LIBUCP LIBUCS, where KIND is a
 * way of giving the program rights, or `plain`, by which it is seen that all this is obeyed otherwise. Status 77: the
 * system does not let this test give rights away.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define CALLER  12345 /* the user who starts the program, where this test may choose one */
#define ANOTHER 12346
#define SKIP    77

static char top[] = "/tmp/test_secure_XXXXXX";
static char output[1 << 20];

static int remove_entry(const char *path, const struct stat *info, int flag, struct FTW *walk)
{
    (void)info;
    (void)flag;
    (void)walk;
    return remove(path);
}

static void end(int status, const char *what)
{
    (void)chdir("/");
    (void)nftw(top, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    if (status != 0) {
        printf("%s: %s\n%s", (status == SKIP) ? "skipped" : "not so", what, (status == SKIP) ? "" : output);
    }
    exit(status);
}

#define must(condition)         \
    do {                        \
        if (!(condition)) {     \
            end(1, #condition); \
        }                       \
    } while (0)

static void copy(const char *from, const char *to)
{
    char block[65536];
    const int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    ssize_t length;

    must(in >= 0 && out >= 0 && fchmod(out, 0755) == 0);
    while ((length = read(in, block, sizeof(block))) > 0) {
        must(write(out, block, (size_t)length) == length);
    }
    must(length == 0 && close(in) == 0 && close(out) == 0);
}

/* They belong to whoever runs this test, root if he can: to a user whose files count. */
static void write_configuration(const char *directory)
{
    char path[64];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/ucx.conf", directory);
    must(mkdir(directory, 0755) == 0 && chmod(directory, 0755) == 0);
    file = fopen(path, "w");
    must(file != NULL);
    must(fprintf(file, "UCX_SEG_SIZE=1k\nUCX_LOG_FILE=%s/written/of_file.log\n", top) > 0 && fclose(file) == 0);
    must(chmod(path, 0644) == 0);
}

/* A group of this user that is not the present one, or -1. */
static gid_t other_group(void)
{
    gid_t groups[64];
    int count = getgroups(64, groups);

    while (count-- > 0) {
        if (groups[count] != getegid()) {
            return groups[count];
        }
    }
    return (gid_t)-1;
}

/* The program may bind small ports. */
static bool give_capability(const char *path)
{
    static const uint32_t value[] = {0x02000001u, 1u << 10, 0, 0, 0}; /* revision 2, effective; CAP_NET_BIND_SERVICE */

    return setxattr(path, "security.capability", value, sizeof(value), 0) == 0;
}

static bool give_rights(const char *kind, const char *path)
{
    const bool is_root = geteuid() == 0;
    const gid_t group = is_root ? ANOTHER : other_group();

    if (strcmp(kind, "root") == 0) {
        return is_root && chmod(path, 04755) == 0;
    }
    if (strcmp(kind, "user") == 0) {
        return is_root && chown(path, ANOTHER, ANOTHER) == 0 && chmod(path, 04755) == 0;
    }
    if (strcmp(kind, "group") == 0) {
        return group != (gid_t)-1 && chown(path, (uid_t)-1, group) == 0 && chmod(path, 02755) == 0;
    }
    if (strcmp(kind, "capability") == 0) {
        return is_root && give_capability(path);
    }
    return strcmp(kind, "plain") == 0;
}

static void start(void)
{
    char *const arguments[] = {(char[]){"program"}, top, NULL};
    char text[128];

    (void)setenv("UCX_SEG_SIZE", "3k", 1);
    (void)setenv("MPI_UCX_SEG_SIZE", "4k", 1);
    (void)setenv("UCX_LOG_LEVEL", "info", 1);
    (void)snprintf(text, sizeof(text), "%s/written/caller.log", top);
    (void)setenv("UCX_LOG_FILE", text, 1);
    (void)snprintf(text, sizeof(text), "%s/written/caller.events", top);
    (void)setenv("UCX_TRACE_FILE", text, 1);
    (void)snprintf(text, sizeof(text), "%s/named", top);
    (void)setenv("UCX_CONFIG_DIR", text, 1);
    (void)snprintf(text, sizeof(text), "%s/home", top);
    (void)setenv("HOME", text, 1);
    if (geteuid() == 0 && (setgroups(0, NULL) != 0 || setresgid(CALLER, CALLER, CALLER) != 0 ||
                           setresuid(CALLER, CALLER, CALLER) != 0)) {
        _exit(SKIP);
    }
    if (chdir("current") == 0) {
        (void)execv("../program", arguments);
    }
    _exit(99);
}

static void run(void)
{
    size_t length = 0;
    int ends[2], status;
    ssize_t got;
    pid_t child;

    must(pipe2(ends, O_CLOEXEC) == 0);
    (void)fflush(NULL);
    child = fork();
    must(child >= 0);
    if (child == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        start();
    }
    (void)close(ends[1]);
    while ((got = read(ends[0], output + length, sizeof(output) - 1 - length)) > 0) {
        length += (size_t)got;
    }
    must(waitpid(child, &status, 0) == child && WIFEXITED(status));
    if (WEXITSTATUS(status) == SKIP) {
        end(SKIP, "no other user can be taken");
    }
    must(WEXITSTATUS(status) == 0 && strstr(output, "done\n") != NULL);
}

static bool is_written(const char *name)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "written/%s", name);
    return access(path, F_OK) == 0;
}

int main(int argc, char **argv)
{
    if (argc != 5 || mkdtemp(top) == NULL || chmod(top, 0755) != 0 || chdir(top) != 0) {
        printf("usage: %s KIND PROGRAM LIBUCP LIBUCS\n", argv[0]);
        return 2;
    }
    copy(argv[2], "program");
    copy(argv[3], "libucp.so.0");
    copy(argv[4], "libucs.so.0");
    write_configuration("home");
    write_configuration("named");
    write_configuration("current");
    must(mkdir("written", 0777) == 0 && chmod("written", 0777) == 0);
    if (!give_rights(argv[1], "program")) {
        end(SKIP, "no such rights can be given");
    }
    run();
    if (strcmp(argv[1], "plain") == 0) {
        must(strstr(output, "secure=0\n") != NULL && strstr(output, "UCX_SEG_SIZE=4k\n") != NULL);
        must(is_written("caller.log") && is_written("caller.events"));
        end(0, "");
    }
    if (strstr(output, "secure=0\n") != NULL) {
        end(SKIP, "the system gives the program no rights");
    }
    must(strstr(output, "UCX_SEG_SIZE=8K\n") != NULL && strstr(output, "UCX_TRACE_FILE=\n") != NULL);
    must(strstr(output, " INFO ") == NULL && strstr(output, "ERROR libucs logs\n") != NULL);
    must(!is_written("caller.log") && !is_written("caller.events") && !is_written("of_file.log"));
    must(rmdir("written") == 0);
    end(0, "");
}
