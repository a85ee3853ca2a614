/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Second processes of the API conformance programs: the same program is executed again with a role, and the two talk
 * out of band over a stream socket. Every read has a time-out; a role that fails exits with a status other than 0. Also
 * what a program catches of its own output.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROLE_OPTION "--role"

/* Where programs of this processor need one that runs them: that one and its options, separated by commas. */
#ifndef CW_TEST_EMULATOR
#define CW_TEST_EMULATOR ""
#endif

enum { MOST_WORDS = 16 };

/* This program again, with these arguments; comes back if that cannot be done. */
static void execute_again(const char *const *arguments)
{
    char emulator[] = CW_TEST_EMULATOR, self[4096];
    const char *words[MOST_WORDS];
    unsigned count = 0;

    if (emulator[0] == '\0') {
        execv("/proc/self/exe", (char *const *)(uintptr_t)arguments);
        return;
    }
    for (char *rest = emulator, *word; (word = strsep(&rest, ",")) != NULL && count < MOST_WORDS / 2;) {
        words[count++] = word;
    }
    if (realpath("/proc/self/exe", self) == NULL) { /* as the emulator says */
        return;
    }
    words[count++] = self;
    for (unsigned i = 1; arguments[i] != NULL && count < MOST_WORDS - 1; i++) {
        words[count++] = arguments[i];
    }
    words[count] = NULL;
    execv(words[0], (char *const *)(uintptr_t)words);
}

bool cw_test_role(int argc, char **argv, const struct cw_role *roles, size_t count, int *code)
{
    if (argc < 5 || strcmp(argv[1], ROLE_OPTION) != 0) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(argv[2], roles[i].name) == 0) {
            alarm(CW_HANG_S);
            *code = roles[i].run(atoi(argv[3]), argv[4]);
            return true;
        }
    }
    fprintf(stderr, "No role is called %s.\n", argv[2]);
    *code = 2;
    return true;
}

int cw_test_main(int argc, char **argv, const struct cw_role *roles, size_t count)
{
    int code;

    return cw_test_role(argc, argv, roles, count, &code) ? code : cw_tests_main(argc, argv);
}

void cw_remote_start(struct cw_remote *remote, const char *role, const char *argument)
{
    int fds[2];
    char number[16];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    snprintf(number, sizeof(number), "%d", fds[1]);
    fflush(NULL);
    remote->pid = fork();
    assert_true(remote->pid >= 0);
    if (remote->pid == 0) {
        int inherited = dup(fds[1]); /* dup drops close-on-exec */

        snprintf(number, sizeof(number), "%d", inherited);
        execute_again((const char *[]){"role", ROLE_OPTION, role, number, argument == NULL ? "" : argument, NULL});
        _exit(127);
    }
    close(fds[1]);
    remote->fd = fds[0];
}

void cw_remote_join(struct cw_remote *remote)
{
    double deadline = cw_time_now_s() + CW_WAIT_S;
    int status = 0;
    pid_t done;

    while ((done = waitpid(remote->pid, &status, WNOHANG)) == 0) {
        if (cw_time_now_s() > deadline) {
            kill(remote->pid, SIGKILL);
            waitpid(remote->pid, &status, 0);
            close(remote->fd);
            fail_msg("The second process did not end within %d s", CW_WAIT_S);
        }
        usleep(500);
    }
    close(remote->fd);
    assert_int_equal(done, remote->pid);
    if (WIFSIGNALED(status)) {
        fail_msg("The second process died of signal %d", WTERMSIG(status));
    }
    if (WEXITSTATUS(status) != 0) {
        fail_msg("The second process failed with status %d", WEXITSTATUS(status));
    }
}

void cw_remote_kill(struct cw_remote *remote)
{
    assert_int_equal(kill(remote->pid, SIGKILL), 0);
    assert_int_equal(waitpid(remote->pid, NULL, 0), remote->pid);
    close(remote->fd);
}

void cw_fd_write(int fd, const void *data, size_t length)
{
    const char *bytes = data;

    while (length > 0) {
        ssize_t done = send(fd, bytes, length, MSG_NOSIGNAL);

        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            fail_msg("The other process is gone: %s", strerror(errno));
        }
        bytes += done;
        length -= (size_t)done;
    }
}

void cw_fd_read(int fd, void *data, size_t length, ucp_worker_h worker)
{
    double deadline = cw_time_now_s() + CW_WAIT_S;
    char *bytes = data;

    while (length > 0) {
        struct pollfd item = {.fd = fd, .events = POLLIN};
        ssize_t done;

        if (worker != NULL && ucp_worker_progress(worker) == 0) {
            sched_yield(); /* to whom we wait for */
        }
        if (poll(&item, 1, worker == NULL ? 100 : 0) <= 0) {
            if (cw_time_now_s() > deadline) {
                fail_msg("The other process said nothing for %d s", CW_WAIT_S);
            }
            continue;
        }
        done = recv(fd, bytes, length, MSG_DONTWAIT);
        if (done == 0) {
            fail_msg("The other process ended early");
        }
        if (done > 0) {
            bytes += done;
            length -= (size_t)done;
        }
    }
}

void cw_fd_barrier(int fd, ucp_worker_h worker)
{
    char byte = 'b';

    cw_fd_write(fd, &byte, 1);
    cw_fd_read(fd, &byte, 1, worker);
    if (byte != 'b') {
        fail_msg("The other process is at another place than this one");
    }
}

int cw_capture_start(int saved[2])
{
    int file = memfd_create("output", MFD_CLOEXEC);

    assert_true(file >= 0);
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        saved[i] = dup(i + 1);
        assert_true(dup2(file, i + 1) >= 0);
    }
    return file;
}

void cw_capture_end(int file, const int saved[2], char *text, size_t room)
{
    ssize_t length;

    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        dup2(saved[i], i + 1);
        close(saved[i]);
    }
    length = pread(file, text, room - 1, 0);
    text[length < 0 ? 0 : length] = '\0';
    close(file);
}

int cw_capture_count(const char *text, const char *words)
{
    int number = 0;

    for (const char *at = text; (at = strstr(at, words)) != NULL; at++) {
        number++;
    }
    return number;
}
