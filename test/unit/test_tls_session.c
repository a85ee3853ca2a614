/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions of TLS (transport/tcp/tls/tls.h) over small sockets: keys that change often, or because the peer asks for
 * it, records that are cut, damaged, missing, doubled or sent back. What a session counts as written its peer can read;
 * what it reads is what was written, or an error. Records are handled on their way by taking them from the receiver's
 * descriptor. Without OpenSSL: skipped.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runner.h"
#include "test_tls_peer.h"

#define LARGE 300000u
#define SHORT 40u

struct session {
    struct cw_tls_context *context;
    struct cw_tls *tls;
    int fd;
};

static struct session dialler, acceptor;
static uint8_t out[LARGE], in[LARGE];

static int find_openssl(void **state)
{
    const char *why;
    size_t i;

    (void)state;
    if (cw_openssl_open(CW_OPENSSL_SSL, &why) == NULL) {
        print_message("SKIPPED: %s\n", why);
        return 77;
    }
    for (i = 0; i < LARGE; i++) {
        out[i] = (uint8_t)(i * 131 + (i >> 8));
    }
    return 0;
}

static void session_begin(struct session *session, int fd, int dialled, uint64_t rekey)
{
    static const uint8_t key[CW_TLS_KEY_SIZE] = "0123456789abcdef0123456789abcde";
    const struct cw_tls_settings settings = {.key = key, .rekey = rekey};
    char why[200];

    *session = (struct session){.fd = fd};
    session->context = cw_tls_context_new(&settings, why, sizeof(why));
    assert_non_null(session->context);
    session->tls = cw_tls_new(session->context, fd, dialled);
    assert_non_null(session->tls);
}

static void sessions_on(const int fds[2], uint64_t rekey)
{
    int left_done = 0, right_done = 0;

    session_begin(&dialler, fds[0], 1, rekey);
    session_begin(&acceptor, fds[1], 0, rekey);
    while (!left_done || !right_done) {
        left_done = left_done || cw_tls_handshake(dialler.tls) == 1;
        right_done = right_done || cw_tls_handshake(acceptor.tls) == 1;
    }
}

static void sessions_begin(uint64_t rekey)
{
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    sessions_on(fds, rekey);
}

static void sessions_end(void)
{
    struct session *both[2] = {&dialler, &acceptor};
    unsigned i;

    for (i = 0; i < 2; i++) {
        cw_tls_free(both[i]->tls);
        cw_tls_context_free(both[i]->context);
        close(both[i]->fd);
    }
}

/* Reads until nothing comes. Returns how many bytes, at `in`. */
static size_t read_all(struct session *session, size_t have)
{
    ssize_t ret = -EAGAIN;

    while (have < LARGE && (ret = cw_tls_read(session->tls, in + have, LARGE - have)) > 0) {
        have += (size_t)ret;
    }
    if (have == LARGE) {
        return have;
    }
    assert_int_equal(ret, -EAGAIN);
    return have;
}

/* In parts of odd lengths, each offered again until it is taken, at another address and with more behind it. */
static void pass(struct session *from, struct session *to)
{
    uint8_t *other = test_malloc(LARGE);
    size_t sent = 0, have = 0, length = 1, turns = 0;
    ssize_t ret;

    memset(in, 0, LARGE);
    memcpy(other, out, LARGE);
    while (have < LARGE || sent < LARGE) {
        length = (length > LARGE - sent) ? LARGE - sent : length;
        ret = -EAGAIN;
        if (sent < LARGE) {
            ret = cw_tls_write(from->tls, ((turns++ & 1) ? other : out) + sent, length);
        }
        if (ret > 0) {
            sent += (size_t)ret;
            length = 1 + sent % 29000;
        } else {
            assert_int_equal(ret, -EAGAIN);
            length++;
            have = read_all(to, have);
        }
        assert_true(have <= sent + 4 * 16384); /* records that are out count when the batch is out */
    }
    assert_memory_equal(in, out, LARGE);
    test_free(other);
}

static void sessions_with_small_buffers(uint64_t rekey)
{
    const int small = 4608;
    unsigned i;
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    for (i = 0; i < 2; i++) {
        assert_int_equal(setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    }
    sessions_on(fds, rekey);
}

/* Keys change again and again. */
TEST(test_small_buffers)
{
    static const uint64_t rekeys[] = {0, 1, 30000};
    unsigned i;

    for (i = 0; i < 3; i++) {
        sessions_with_small_buffers(rekeys[i]);
        pass(&dialler, &acceptor);
        pass(&acceptor, &dialler);
        pass(&dialler, &acceptor);
        sessions_end();
    }
}

/* A peer that asks for new keys gets them. */
TEST(test_asked_while_idle)
{
    int dialled;

    sessions_begin(0);
    for (dialled = 0; dialled < 2; dialled++) {
        assert_true(tls_ask_for_new_keys(dialled));
        pass(&dialler, &acceptor);
        pass(&acceptor, &dialler);
        assert_true(tls_ask_for_new_keys(dialled) && tls_ask_for_new_keys(dialled));
        assert_int_equal(read_all(dialled ? &acceptor : &dialler, 0), 0);
        pass(dialled ? &dialler : &acceptor, dialled ? &acceptor : &dialler);
        pass(dialled ? &acceptor : &dialler, dialled ? &dialler : &acceptor);
    }
    sessions_end();
}

/* Where a peer asks while the socket is full the answer waits for room. */
TEST(test_answer_waits_for_room)
{
    const int small = 4608, large = 200000;
    size_t sent, have;

    sessions_begin(0);
    assert_int_equal(setsockopt(dialler.fd, SOL_SOCKET, SO_SNDBUF, &large, sizeof(large)), 0);
    for (sent = 0; sent < 40 * SHORT; sent += SHORT) {
        assert_int_equal(cw_tls_write(dialler.tls, out + sent, SHORT), SHORT);
    }
    assert_int_equal(setsockopt(dialler.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0); /* full, by that */
    assert_true(tls_ask_for_new_keys(0));
    assert_int_equal(cw_tls_write(acceptor.tls, out, SHORT), SHORT);
    memset(in, 0, SHORT);
    assert_int_equal(cw_tls_read(dialler.tls, in, LARGE), SHORT);
    assert_memory_equal(in, out, SHORT);
    assert_int_equal(cw_tls_write(dialler.tls, out + sent, SHORT), -EAGAIN);
    assert_int_equal(cw_tls_read(dialler.tls, in, LARGE), -EAGAIN);
    have = read_all(&acceptor, 0);
    assert_int_equal(have, sent);
    assert_int_equal(cw_tls_read(dialler.tls, in + have, LARGE - have), -EAGAIN);
    assert_int_equal(cw_tls_write(dialler.tls, out + sent, SHORT), SHORT);
    assert_int_equal(read_all(&acceptor, have), have + SHORT);
    assert_memory_equal(in, out, have + SHORT);
    pass(&dialler, &acceptor);
    pass(&acceptor, &dialler);
    sessions_end();
}

/* Also while records are on their way that the socket did not take whole. */
TEST(test_asked_amid_a_record)
{
    static uint8_t back[SHORT];
    size_t sent = 0, have = 0;
    unsigned asked = 0;
    ssize_t ret;

    sessions_with_small_buffers(0);
    while (have < LARGE || sent < LARGE) {
        ret = -EAGAIN;
        while (sent < LARGE && (ret = cw_tls_write(dialler.tls, out + sent, LARGE - sent)) > 0) {
            sent += (size_t)ret;
        }
        assert_true(ret > 0 || ret == -EAGAIN);
        asked += tls_ask_for_new_keys(0);
        assert_int_equal(cw_tls_read(dialler.tls, back, sizeof(back)), -EAGAIN);
        have = read_all(&acceptor, have);
    }
    assert_true(asked > 10);
    assert_memory_equal(in, out, LARGE);
    pass(&acceptor, &dialler);
    sessions_end();
}

/* FLU-1: bytes that the socket did not take do not count as written, and only a write sends them. */
TEST(test_nothing_counts_before_it_is_out)
{
    uint8_t back[SHORT];
    size_t sent = 0, have;
    ssize_t ret;

    sessions_begin(0);
    while ((ret = cw_tls_write(dialler.tls, out + sent, LARGE - sent)) > 0) {
        sent += (size_t)ret;
        assert_true(sent < LARGE);
    }
    assert_int_equal(ret, -EAGAIN);
    have = read_all(&acceptor, 0);
    assert_in_range(have, sent, sent + 3 * 16384); /* whole records of a batch that is not out */
    assert_int_equal(cw_tls_read(dialler.tls, back, sizeof(back)), -EAGAIN);
    assert_int_equal(read_all(&acceptor, have), have);
    ret = cw_tls_write(dialler.tls, out + sent, LARGE - sent);
    assert_true(ret > 0);
    assert_int_equal(read_all(&acceptor, have), sent + (size_t)ret);
    assert_memory_equal(in, out, sent + (size_t)ret);
    sessions_end();
}

/* What is on its way to the acceptor, off the socket. */
static size_t take(uint8_t *bytes, size_t size)
{
    const ssize_t got = recv(acceptor.fd, bytes, size, 0);

    assert_true(got > 0 && (size_t)got < size);
    return (size_t)got;
}

static void give(const uint8_t *bytes, size_t length)
{
    if (length > 0) {
        assert_int_equal(send(dialler.fd, bytes, length, MSG_NOSIGNAL), (ssize_t)length);
    }
}

/* Bytes of which a part came are in no descriptor, but reading says -EAGAIN only when it needs more of them. */
TEST(test_cut_at_every_byte)
{
    uint8_t wire[400];
    size_t length, cut, have;

    sessions_begin(0);
    for (cut = 0; cut <= 2 * (SHORT + 22); cut++) {
        assert_int_equal(cw_tls_write(dialler.tls, out, SHORT), SHORT);
        assert_int_equal(cw_tls_write(dialler.tls, out + SHORT, SHORT), SHORT);
        length = take(wire, sizeof(wire));
        assert_int_equal(length, 2 * (SHORT + 22));
        give(wire, cut);
        have = read_all(&acceptor, 0);
        assert_int_equal(have, cut / (SHORT + 22) * SHORT);
        give(wire + cut, length - cut);
        assert_int_equal(read_all(&acceptor, have), 2 * SHORT);
        assert_memory_equal(in, out, 2 * SHORT);
        assert_false(cw_tls_pending(acceptor.tls));
    }
    sessions_end();
}

/* A good record, these bytes, and a long record behind them: the good one is read, then an error for good. */
static void breaks(const uint8_t *wire, size_t length)
{
    static uint8_t behind[2 * 16406 + 1];
    unsigned i;

    for (i = 0; i < 2; i++) {
        assert_int_equal(cw_tls_write(dialler.tls, out, 16384), 16384);
    }
    i = (unsigned)take(behind, sizeof(behind));
    give(wire, length);
    give(behind, i);
    memset(in, 0, SHORT + 1);
    assert_int_equal(cw_tls_read(acceptor.tls, in, LARGE), SHORT);
    assert_memory_equal(in, out, SHORT);
    assert_int_equal(cw_tls_read(acceptor.tls, in, LARGE), -EBADMSG);
    assert_non_null(cw_tls_why(acceptor.tls));
    assert_true(cw_tls_read(acceptor.tls, in, LARGE) < 0);
    assert_memory_equal(in, out, SHORT); /* nothing of it was written */
    assert_int_equal(in[SHORT], 0);
    while (cw_tls_read(dialler.tls, in, LARGE) == -EAGAIN) { /* the peer hears of it, and may have more to write */
    }
    sessions_end();
}

/* Two records of the dialler. Returns the length of both. */
static size_t two_records(uint8_t *wire, size_t size)
{
    sessions_begin(0);
    assert_int_equal(cw_tls_write(dialler.tls, out, SHORT), SHORT);
    assert_int_equal(cw_tls_write(dialler.tls, out + SHORT, SHORT), SHORT);
    return take(wire, size);
}

/* RMA-5: memory is written only after its record was checked. */
TEST(test_flipped)
{
    uint8_t wire[400];
    size_t length, bit;

    for (bit = (SHORT + 22) * 8; bit < 2 * (SHORT + 22) * 8; bit += (bit < (SHORT + 27) * 8) ? 1 : 7) {
        length = two_records(wire, sizeof(wire));
        wire[bit / 8] ^= (uint8_t)(1u << bit % 8);
        breaks(wire, length);
    }
}

TEST(test_missing_doubled_reflected)
{
    uint8_t wire[400], back[200];
    size_t length;

    length = two_records(wire, sizeof(wire)); /* the second of three is missing */
    breaks(wire, length / 2);
    length = two_records(wire, sizeof(wire));
    memcpy(wire + length / 2, wire, length / 2);
    breaks(wire, length);
    length = two_records(wire, sizeof(wire));
    assert_int_equal(cw_tls_write(acceptor.tls, out, SHORT), SHORT);
    assert_int_equal(recv(dialler.fd, back, sizeof(back), 0), length / 2);
    memcpy(wire + length / 2, back, length / 2);
    breaks(wire, length);
}

static void tcp_pair(int fds[2])
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(name);
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(listener, (const struct sockaddr *)&name, sizeof(name)), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&name, &length), 0);
    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fds[0], (const struct sockaddr *)&name, sizeof(name)), 0);
    fds[1] = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
    close(listener);
}

/* The kernel encrypts where it can. */
TEST(test_kernel_tls)
{
    int fds[2], has;

    tcp_pair(fds);
    has = setsockopt(fds[0], IPPROTO_TCP, TCP_ULP, "tls", sizeof("tls") - 1) == 0;
    if (!has) {
        print_message("SKIPPED: the kernel has no TLS (module tls): %s\n", strerror(errno));
    }
    close(fds[0]);
    close(fds[1]);
    if (!has) {
        skip();
    }
    tcp_pair(fds);
    sessions_on(fds, 0);
    has = cw_tls_in_kernel(dialler.tls) && cw_tls_in_kernel(acceptor.tls);
    pass(&dialler, &acceptor);
    pass(&acceptor, &dialler);
    sessions_end();
    if (!has) {
        print_message("SKIPPED: the kernel has TLS, but this OpenSSL was built without it\n");
        skip();
    }
}

int main(void)
{
    return (find_openssl(NULL) == 0) ? cw_tests_run(NULL, NULL) : 0;
}
