/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A network that damages what it carries: a proxy between a client and a server, each a process, cuts, delays, splits,
 * doubles, drops or flips at a random place of one direction. Counted is what became of the session. Never a crash,
 * whatever was done; never wrong data or silence where nothing but time and the cut of packets was changed; never wrong
 * data at all with a guard (UCX_TCP_CHECKSUM or UCX_AUTH_TLS), nor silence if UCX_KEEPALIVE_INTERVAL is shorter than
 * patience. -n: sessions of each kind; CHAOS_ONLY: of those kinds whose names contain it; CHAOS_SESSION=<seed,kind>
 * repeats one.
 */
#define _GNU_SOURCE
#include "session.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PIPES = 12, BESIDE = 8, TOTAL = 420000, EARLY = 260 };

enum damage { NONE, DELAY, SPLIT, CUT, RESET, HALF, DOUBLE, DROP, FLIP, HANDSHAKE, MISSED, DAMAGES };

static const char *const names[DAMAGES] = {
    "nothing", "delays", "splits", "cuts the connection", "cuts with a reset", "ends one direction",
    "doubles bytes", "drops bytes", "flips a bit", "damages the meeting", "drops bytes when they meet"};
static const char *const outcomes[SESSION_OUTCOMES] = {"good", "error", "silent", "wrong data", "stuck", "crash"};

static bool show;

struct pipe {
    int fds[2];             /* of the client, of the server */
    long passed[2];         /* bytes, from each of them */
    bool ended[2];
};

struct proxy {
    uint64_t random;
    enum damage damage;
    int direction;
    long place;
    bool done;
    long num_split;
    int listening;
    int server_port;
    struct pipe pipes[PIPES];
    int count;
};

static int listen_somewhere(int *port)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(name);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    cw_check(fd >= 0 && bind(fd, (struct sockaddr *)&name, sizeof(name)) == 0 && listen(fd, 16) == 0);
    cw_check(getsockname(fd, (struct sockaddr *)&name, &length) == 0);
    *port = ntohs(name.sin_port);
    return fd;
}

static void open_pipe(struct proxy *proxy)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                               .sin_port = htons((uint16_t)proxy->server_port)};
    struct pipe *pipe = &proxy->pipes[proxy->count];
    int one = 1;

    *pipe = (struct pipe){.fds = {accept(proxy->listening, NULL, NULL), socket(AF_INET, SOCK_STREAM, 0)}};
    cw_check(pipe->fds[0] >= 0 && pipe->fds[1] >= 0);
    if (proxy->count == PIPES - 1 || connect(pipe->fds[1], (struct sockaddr *)&name, sizeof(name)) != 0) {
        close(pipe->fds[0]);
        close(pipe->fds[1]);
        return;
    }
    for (int i = 0; i < 2; i++) {
        setsockopt(pipe->fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    }
    proxy->count++;
}

static void close_pipe(struct proxy *proxy, struct pipe *pipe, bool reset)
{
    struct linger linger = {.l_onoff = 1};

    for (int i = 0; i < 2; i++) {
        if (reset) {
            setsockopt(pipe->fds[i], SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
        }
        close(pipe->fds[i]);
    }
    *pipe = proxy->pipes[--proxy->count];
}

/* false: the other side takes no more. The beginning is split into the smallest parts. */
static bool pass(struct proxy *proxy, int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        size_t piece = length;
        ssize_t done;

        if (proxy->damage == SPLIT) {
            piece = 1 + cw_random_below(&proxy->random, proxy->num_split++ < 5000 ? 7 : 1460);
        }
        done = send(fd, bytes, piece < length ? piece : length, MSG_NOSIGNAL);
        if (done <= 0) {
            return false;
        }
        bytes += done;
        length -= (size_t)done;
    }
    return true;
}

/* These bytes, in which the place of the damage lies at `at`. false: the pipe is gone. */
static bool pass_damaged(struct proxy *proxy, struct pipe *pipe, int from, char *bytes, size_t length, size_t at)
{
    size_t some = 1 + cw_random_below(&proxy->random, cw_one_in(&proxy->random, 2) ? 8 : 4000);
    int to = pipe->fds[1 - from];

    some = some < length - at ? some : length - at;
    if (show) {
        printf("at byte %ld from the %s, up to %zu bytes, of %zu\n", proxy->place, from ? "server" : "client", some,
               length);
    }
    proxy->done = true;
    switch (proxy->damage == HANDSHAKE ? DOUBLE + cw_random_below(&proxy->random, 3) : proxy->damage) {
    case CUT:
    case RESET:
        (void)pass(proxy, to, bytes, at);
        close_pipe(proxy, pipe, proxy->damage == RESET);
        return false;
    case HALF:
        (void)pass(proxy, to, bytes, at);
        shutdown(to, SHUT_WR);
        pipe->ended[from] = true;
        return true;
    case DOUBLE:
        return pass(proxy, to, bytes, at + some) && pass(proxy, to, bytes + at, length - at);
    case DROP:
    case MISSED:
        return pass(proxy, to, bytes, at) && pass(proxy, to, bytes + at + some, length - at - some);
    default:
        bytes[at] = (char)(bytes[at] ^ (1 << cw_random_below(&proxy->random, 8)));
        return pass(proxy, to, bytes, length);
    }
}

/* Something can be read from one end. */
static void carry(struct proxy *proxy, struct pipe *pipe, int from)
{
    char bytes[16384];
    ssize_t got = recv(pipe->fds[from], bytes, sizeof(bytes), 0);
    long at = proxy->place - pipe->passed[from];
    bool alive;

    if (got < 0) {
        close_pipe(proxy, pipe, true);
        return;
    }
    if (got == 0) {
        pipe->ended[from] = true;
        shutdown(pipe->fds[1 - from], SHUT_WR);
        if (pipe->ended[1 - from]) {
            close_pipe(proxy, pipe, false);
        }
        return;
    }
    if (pipe->ended[from]) { /* was cut off here */
        return;
    }
    if (proxy->damage == DELAY && cw_one_in(&proxy->random, 4)) {
        usleep((useconds_t)cw_random_below(&proxy->random, 3000));
    }
    pipe->passed[from] += got;
    if (proxy->damage > SPLIT && !proxy->done && from == proxy->direction && at >= 0 && at < got) {
        (void)pass_damaged(proxy, pipe, from, bytes, (size_t)got, (size_t)at);
        return;
    }
    alive = pass(proxy, pipe->fds[1 - from], bytes, (size_t)got);
    if (!alive) {
        close_pipe(proxy, pipe, true);
    }
}

static void proxy_round(struct proxy *proxy)
{
    struct pollfd items[1 + 2 * PIPES] = {{.fd = proxy->listening, .events = POLLIN}};
    int count = proxy->count;

    for (int i = 0; i < count; i++) {
        for (int k = 0; k < 2; k++) {
            bool rx_eof = proxy->pipes[i].ended[k] && !(proxy->damage == HALF && proxy->done);

            items[1 + 2 * i + k] = (struct pollfd){.fd = rx_eof ? -1 : proxy->pipes[i].fds[k], .events = POLLIN};
        }
    }
    if (poll(items, 1 + 2 * (nfds_t)count, 20) <= 0) {
        return;
    }
    for (int i = count - 1; i >= 0; i--) { /* from the last: a pipe that is closed gives its place to the last one */
        for (int k = 0; k < 2; k++) {
            if (items[1 + 2 * i + k].revents != 0 && proxy->count == count) {
                carry(proxy, &proxy->pipes[i], k);
            }
        }
    }
    if (items[0].revents != 0) {
        open_pipe(proxy);
    }
}

/* The end of a child, if there is one yet. */
static bool poll_child(struct cw_process *child, enum session_outcome *outcome)
{
    int status;

    if (child->pid == 0) {
        return true;
    }
    if (waitpid(child->pid, &status, WNOHANG) != child->pid) {
        return false;
    }
    *outcome = SESSION_CRASH;
    if (WIFEXITED(status) && WEXITSTATUS(status) < SESSION_CRASH) {
        *outcome = (enum session_outcome)WEXITSTATUS(status);
    }
    if (*outcome == SESSION_CRASH) {
        fprintf(stderr, "a process ended with status %#x\n", status);
    }
    child->pid = 0;
    return true;
}

/* One session: the worse outcome of the two. */
static enum session_outcome one_session(uint64_t seed, enum damage damage)
{
    struct proxy proxy = {.random = seed, .damage = damage};
    enum session_outcome of_client = SESSION_GOOD, of_server = SESSION_GOOD;
    double end = cw_now_s() + 12 * SESSION_PATIENCE_S + SESSION_MEETING_S;
    struct cw_process client, server;
    char argument[16];
    bool over, reported = false;
    size_t places;
    int port;

    proxy.direction = (int)cw_random_below(&proxy.random, 2);
    places = cw_one_in(&proxy.random, 4) ? EARLY : TOTAL;
    if (damage == HANDSHAKE || damage == MISSED) { /* handshake, hello and STAY; handshake and answer */
        places = proxy.direction == 0 ? 56 : 80;
    }
    proxy.place = (long)cw_random_below(&proxy.random, places);
    proxy.listening = listen_somewhere(&port);
    cw_process_start(&server, "server", "");
    cw_check(cw_fd_read(server.fd, &proxy.server_port, sizeof(proxy.server_port), NULL));
    snprintf(argument, sizeof(argument), "%d", port);
    cw_process_start(&client, "client", argument);
    do {
        proxy_round(&proxy);
        over = poll_child(&client, &of_client);
        if (over && !reported) {
            reported = shutdown(server.fd, SHUT_WR) == 0;
        }
        if (cw_now_s() > end) {
            fprintf(stderr, "seed %llu: the session has no end\n", (unsigned long long)seed);
            return SESSION_STUCK;
        }
    } while (!poll_child(&server, &of_server) || !over);
    return of_client > of_server ? of_client : of_server;
}

static unsigned long counts[DAMAGES][SESSION_OUTCOMES];

static void wait_one(pid_t *pids, const uint64_t *seeds, enum damage damage, bool verbose)
{
    int status;
    pid_t pid = wait(&status);

    for (int i = 0; i < BESIDE; i++) {
        if (pids[i] == pid) {
            int outcome = WIFEXITED(status) ? WEXITSTATUS(status) : SESSION_CRASH;

            cw_check(outcome < SESSION_OUTCOMES);
            counts[damage][outcome]++;
            if (verbose) {
                printf("%s: %s: CHAOS_SESSION=%llu,%d\n", names[damage], outcomes[outcome],
                       (unsigned long long)seeds[i], damage);
            }
            pids[i] = 0;
        }
    }
}

static void all_sessions(enum damage damage, long number, uint64_t seed, bool verbose)
{
    pid_t pids[BESIDE] = {0};
    uint64_t seeds[BESIDE];

    for (long i = 0; i < number; i++) {
        int place = 0;

        while (place < BESIDE && pids[place] != 0) {
            place++;
        }
        if (place == BESIDE) {
            wait_one(pids, seeds, damage, verbose);
            i--;
            continue;
        }
        seeds[place] = seed * 1000003 + (uint64_t)damage * 100000 + (uint64_t)i;
        fflush(NULL);
        pids[place] = fork();
        cw_check(pids[place] >= 0);
        if (pids[place] == 0) {
            _exit((int)one_session(seeds[place], damage));
        }
        cw_run.round++;
    }
    for (int i = 0; i < BESIDE; i++) {
        while (pids[i] != 0) {
            wait_one(pids, seeds, damage, verbose);
        }
    }
}

static bool is_guarded(void)
{
    const char *value = getenv("UCX_TCP_CHECKSUM");

    return (value != NULL && value[0] == 'y') || getenv("UCX_AUTH_TLS") != NULL;
}

/* Holes are noticed within that time. */
static bool is_never_silent(void)
{
    const char *value = getenv("UCX_KEEPALIVE_INTERVAL");

    return is_guarded() && value != NULL && atof(value) < SESSION_PATIENCE_S;
}

static bool is_right(enum damage damage)
{
    const unsigned long *count = counts[damage];
    bool right = count[SESSION_CRASH] == 0 && count[SESSION_STUCK] == 0;

    if (damage <= SPLIT) { /* nothing was damaged */
        return right && count[SESSION_ERROR] + count[SESSION_SILENT] + count[SESSION_WRONG] == 0;
    }
    if (damage <= HALF) {
        return right && count[SESSION_SILENT] + count[SESSION_WRONG] == 0;
    }
    return right && (count[SESSION_SILENT] == 0 || !is_never_silent()) &&
           (count[SESSION_WRONG] == 0 || !is_guarded());
}

int main(int argc, char **argv)
{
    static const struct cw_role roles[] = {{"client", session_client}, {"server", session_server}};
    struct cw_options options = {.seed = 1, .rounds = 100, .seconds = 1e9};
    const char *only = getenv("CHAOS_ONLY");
    bool right = true;
    int code;

    if (cw_process_role(argc, argv, roles, 2, &code)) {
        return code;
    }
    cw_run.name = "chaos.proxy";
    cw_options(argc, argv, &options);
    if (getenv("CHAOS_SESSION") != NULL) { /* one of them again, as -v named it */
        unsigned long long seed;
        unsigned damage;

        cw_check(sscanf(getenv("CHAOS_SESSION"), "%llu,%u", &seed, &damage) == 2 && damage < DAMAGES);
        show = true;
        printf("%s: %s\n", names[damage], outcomes[one_session(seed, (enum damage)damage)]);
        return 0;
    }
    printf("%-28s", is_guarded() ? "guarded, the proxy" : "the proxy");
    for (int k = 0; k < SESSION_OUTCOMES; k++) {
        printf(" %10s", outcomes[k]);
    }
    printf("\n");
    for (int i = 0; i < DAMAGES; i++) {
        if (only != NULL && strstr(names[i], only) == NULL) {
            continue;
        }
        all_sessions((enum damage)i, i < CUT ? 1 + options.rounds / 4 : options.rounds, options.seed,
                  options.verbose);
        printf("%-28s", names[i]);
        for (int k = 0; k < SESSION_OUTCOMES; k++) {
            printf(" %10lu", counts[i][k]);
        }
        printf("%s\n", is_right((enum damage)i) ? "" : "  <-- not to be");
        fflush(stdout);
        right = right && is_right((enum damage)i);
    }
    return right ? 0 : 1;
}
