/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * By what processes of one machine know each other, where one of them sees no /proc: nobody takes the other for one on
 * another machine. Such a process is a child whose system calls do not find what lies there.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner.h"
#include "os/host.h"
#include "os/unix_socket.h"
#include "test_log_lines.h"
#include "transport/tcp/tcp.h"

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __real_stat(const char *path, struct stat *to);
int __wrap_stat(const char *path, struct stat *to);

static int is_blind;

static int is_hidden(const char *path)
{
    return is_blind && strncmp(path, "/proc", 5) == 0;
}

int __wrap_open(const char *path, int flags, ...)
{
    if (is_hidden(path)) {
        errno = ENOENT;
        return -1;
    }
    return __real_open(path, flags);
}

int __wrap_stat(const char *path, struct stat *to)
{
    if (is_hidden(path)) {
        errno = ENOENT;
        return -1;
    }
    return __real_stat(path, to);
}

struct numbers {
    uint64_t netns;
    uint64_t directory;
    char why_netns[200];        /* what it thinks of its parent's */
    char why_directory[200];
    unsigned warnings;
};

static void note(char *to, size_t size, const char *why)
{
    strncpy(to, (why == NULL) ? "" : why, size - 1);
}

/* In a child, before this process has asked for anything. */
static void look_up(int blind, const struct numbers *other, struct numbers *seen)
{
    int ends[2], status;
    pid_t pid;

    memset(seen, 0, sizeof(*seen));
    assert_int_equal(pipe(ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        is_blind = blind;
        seen->netns = cw_host_netns_id();
        seen->directory = cw_unix_directory_id("/tmp");
        log_count_begin();
        if (other != NULL) {
            note(seen->why_netns, sizeof(seen->why_netns), cw_host_why_apart(seen->netns, other->netns));
            note(seen->why_directory, sizeof(seen->why_directory),
                 cw_unix_why_apart("/tmp", seen->directory, other->directory));
        }
        seen->warnings = log_lines;
        _exit(write(ends[1], seen, sizeof(*seen)) != (ssize_t)sizeof(*seen));
    }
    assert_int_equal(read(ends[0], seen, sizeof(*seen)), sizeof(*seen));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(ends[0]);
    close(ends[1]);
}

static void is_said(const struct numbers *seen, const char *words)
{
    assert_non_null(strstr(seen->why_netns, words));
    assert_non_null(strstr(seen->why_directory, words));
}

TEST(test_who_sees_no_proc_is_named)
{
    struct numbers sees, blind, also_blind, unauth = {.netns = 4711, .directory = 4713};

    look_up(0, NULL, &sees);
    look_up(1, &sees, &blind);
    assert_true(sees.netns != blind.netns && sees.directory != blind.directory);
    is_said(&blind, "this process sees no /proc");
    assert_int_equal(blind.warnings, 1); /* once, though asked twice */
    look_up(1, &sees, &also_blind);
    assert_true(blind.netns == also_blind.netns && blind.directory == also_blind.directory);
    look_up(0, &blind, &sees);
    is_said(&sees, "it is on this machine but sees no /proc");
    assert_int_equal(sees.warnings, 1);
    look_up(0, &unauth, &sees);
    assert_string_equal(sees.why_netns, "");
    assert_string_equal(sees.why_directory, "");
    assert_int_equal(sees.warnings, 0);
}

/* The same address here and there, so that it looks like another host with our address. */
TEST(test_tcp_says_so)
{
    struct cw_tcp_address peer = {.port = 4711, .listens = CW_TCP_LISTENS_IPV4, .num_hosts = 1};
    struct cw_tcp_local local = {.loopback = 3, .num_hosts = 1};
    struct cw_route route = {.kind = CW_ROUTE_OWN};
    struct cw_net_address candidates[CW_TCP_MAX_CANDIDATES];
    const char *why = "";
    struct numbers sees, blind;

    look_up(0, NULL, &sees);
    look_up(1, NULL, &blind);
    peer.hosts[0] = local.hosts[0].address = (struct cw_net_address){.family = CW_NET_IPV4, .bytes = {10, 0, 0, 5}};
    local.hosts[0].prefix_bits = 24;
    local.netns = sees.netns;
    peer.netns = blind.netns;
    assert_int_equal(cw_tcp_candidates(&local, &peer, &route, candidates, &why), 0);
    assert_non_null(strstr(why, "it is on this machine but sees no /proc"));
    local.netns = blind.netns;
    peer.netns = sees.netns;
    assert_int_equal(cw_tcp_candidates(&local, &peer, &route, candidates, &why), 0);
    assert_non_null(strstr(why, "this process sees no /proc"));
    peer.num_hosts = 0;
    assert_int_equal(cw_tcp_candidates(&local, &peer, NULL, candidates, &why), 0);
    assert_non_null(strstr(why, "this process sees no /proc"));
    local.netns = 4711;
    assert_int_equal(cw_tcp_candidates(&local, &peer, NULL, candidates, &why), 0);
    assert_non_null(strstr(why, "it is on another host"));
}
