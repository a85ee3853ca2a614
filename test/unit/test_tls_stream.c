/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of TLS 1.3 of our own (os/tls_record.h, os/tls_stream.h): the published example, against OpenSSL's own record
 * layer, split at every byte, damaged, through small buffers, across changes of keys. Without OpenSSL: skipped.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/openssl.h"
#include "os/tls.h"
#include "os/tls_record.h"
#include "os/tls_stream.h"

enum { STREAM = 500, LARGE = 1 << 20 };

struct side {
    struct cw_tls_stream *stream;
    struct cw_tls_spare spare;
    int fd;
    unsigned shown;
    uint8_t unread;
};

static const unsigned suites[] = {0x1301, 0x1302, 0x1303};
static const struct cw_openssl *openssl;
static struct side left, right;
static uint8_t secrets[2][CW_TLS_SECRET_MAX];

static int find_openssl(void **state)
{
    const char *why;
    unsigned i;

    (void)state;
    openssl = cw_openssl_open(CW_OPENSSL_SSL, &why);
    if (openssl == NULL) {
        print_message("SKIPPED: %s\n", why);
    }
    for (i = 0; i < CW_TLS_SECRET_MAX; i++) {
        secrets[0][i] = (uint8_t)(i * 5 + 1);
        secrets[1][i] = (uint8_t)(i * 3 + 2);
    }
    return 0;
}

static size_t hash_length(unsigned suite)
{
    return (suite == 0x1302) ? 48 : 32;
}

static void side_init(struct side *side, int fd, unsigned suite, int dialled, uint64_t rekey)
{
    const struct cw_tls_stream_keys keys = {.suite = suite, .out = secrets[!dialled], .in = secrets[dialled],
                                            .length = hash_length(suite), .rekey = rekey};

    *side        = (struct side){.fd = fd};
    side->stream = cw_tls_stream_new(openssl, &keys);
    assert_non_null(side->stream);
}

static void sides_begin(unsigned suite, uint64_t rekey)
{
    int fds[2];

    if (openssl == NULL) {
        skip();
    }
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    side_init(&left, fds[0], suite, 1, rekey);
    side_init(&right, fds[1], suite, 0, rekey);
}

static void side_end(struct side *side)
{
    cw_tls_stream_free(side->stream);
    free(side->spare.bytes);
    close(side->fd);
}

static void sides_end(void)
{
    side_end(&left);
    side_end(&right);
}

static ssize_t put(struct side *side, const uint8_t *bytes, size_t length)
{
    const struct iovec iov[3] = {{(void *)(uintptr_t)bytes, length / 3}, {NULL, 0},
                                 {(void *)(uintptr_t)(bytes + length / 3), length - length / 3}};

    return cw_tls_stream_sendv(side->stream, side->fd, iov, 3, &side->spare);
}

static ssize_t get(struct side *side, uint8_t *bytes, size_t length)
{
    const struct iovec iov[2] = {{bytes, length / 4}, {bytes + length / 4, length - length / 4}};

    return cw_tls_stream_recvv(side->stream, side->fd, iov, 2, side->shown, &side->spare, &side->unread);
}

static uint8_t *make_bytes(size_t length)
{
    uint8_t *bytes = test_malloc(length);
    size_t i;

    for (i = 0; i < length; i++) {
        bytes[i] = (uint8_t)(i * 7 + (i >> 8));
    }
    return bytes;
}

/* RFC 8448, 3: the client's keys, and its first record of data. */
static void test_the_published_example(void **state)
{
    static const uint8_t secret[32] = {0x9e, 0x40, 0x64, 0x6c, 0xe7, 0x9a, 0x7f, 0x9d, 0xc0, 0x5a, 0xf8,
                                       0x88, 0x9b, 0xce, 0x65, 0x52, 0x87, 0x5a, 0xfa, 0x0b, 0x06, 0xdf,
                                       0x00, 0x87, 0xf7, 0x92, 0xeb, 0xb7, 0xc1, 0x75, 0x04, 0xa5};
    static const uint8_t iv[12]     = {0x5b, 0x78, 0x92, 0x3d, 0xee, 0x08, 0x57, 0x90, 0x33, 0xe5, 0x23, 0xd9};
    static const uint8_t expected[] = {
        0x17, 0x03, 0x03, 0x00, 0x43, 0xa2, 0x3f, 0x70, 0x54, 0xb6, 0x2c, 0x94, 0xd0, 0xaf, 0xfa, 0xfe, 0x82, 0x28,
        0xba, 0x55, 0xcb, 0xef, 0xac, 0xea, 0x42, 0xf9, 0x14, 0xaa, 0x66, 0xbc, 0xab, 0x3f, 0x2b, 0x98, 0x19, 0xa8,
        0xa5, 0xb4, 0x6b, 0x39, 0x5b, 0xd5, 0x4a, 0x9a, 0x20, 0x44, 0x1e, 0x2b, 0x62, 0x97, 0x4e, 0x1f, 0x5a, 0x62,
        0x92, 0xa2, 0x97, 0x70, 0x14, 0xbd, 0x1e, 0x3d, 0xea, 0xe6, 0x3a, 0xee, 0xbb, 0x21, 0x69, 0x49, 0x15, 0xe4};
    uint8_t bytes[50], record[50 + CW_TLS_MORE], type;
    const struct iovec iov  = {bytes, sizeof(bytes)};
    struct cw_tls_walk walk = {.iov = &iov, .count = 1};
    struct cw_tls_keys keys;
    size_t length;

    (void)state;
    if (openssl == NULL) {
        skip();
    }
    for (length = 0; length < sizeof(bytes); length++) {
        bytes[length] = (uint8_t)length;
    }
    assert_true(cw_tls_keys_init(&keys, openssl, 0x1301, secret, sizeof(secret), 1));
    assert_memory_equal(keys.iv, iv, sizeof(iv));
    assert_true(cw_tls_seal(&keys, CW_TLS_DATA, &walk, sizeof(bytes), record));
    assert_int_equal(sizeof(record), sizeof(expected));
    assert_memory_equal(record, expected, sizeof(record));
    cw_tls_keys_clear(&keys);
    assert_true(cw_tls_keys_init(&keys, openssl, 0x1301, secret, sizeof(secret), 0));
    assert_true(
        cw_tls_open(&keys, record, sizeof(record) - CW_TLS_HEAD, record + CW_TLS_HEAD, &length, &type));
    assert_true(length == sizeof(bytes) && type == CW_TLS_DATA);
    assert_memory_equal(record + CW_TLS_HEAD, bytes, sizeof(bytes));
    cw_tls_keys_clear(&keys);
    assert_false(cw_tls_keys_init(&keys, openssl, 0x1301, secret, 48, 1));
    assert_false(cw_tls_keys_init(&keys, openssl, 0x1304, secret, sizeof(secret), 1));
}

/* What `from` sends arrives. Both know of no bytes but those that both hold. */
static void pass(struct side *from, struct side *to, size_t step)
{
    uint8_t *bytes = make_bytes(LARGE), *in = test_malloc(LARGE);
    size_t sent = 0, offered = 0, have = 0, rounds = 0, part;
    ssize_t ret;

    while (have < LARGE) {
        part    = sent + 1 + (rounds * 7919) % step;
        offered = (part > LARGE) ? LARGE : (part > offered) ? part : offered;
        ret     = put(from, bytes + sent, offered - sent);
        assert_true(ret >= 0 || ret == -EAGAIN);
        sent += (ret > 0) ? (size_t)ret : 0;
        part = 1 + (rounds++ * 977) % step;
        do {
            ret = get(to, in + have, (part < LARGE - have) ? part : LARGE - have);
            assert_true(ret > 0 || ret == -EAGAIN);
            have += (ret > 0) ? (size_t)ret : 0;
        } while (ret > 0 && to->unread && have < LARGE);
    }
    assert_int_equal(sent, LARGE);
    assert_memory_equal(in, bytes, LARGE);
    test_free(bytes);
    test_free(in);
}

/* A socket that takes little at a time, and keys that change often. What was not taken is offered again with other
 * bytes behind it. */
static void test_small_buffers(void **state)
{
    const int size = 4096;
    unsigned i;

    (void)state;
    for (i = 0; i < 4; i++) {
        sides_begin(suites[i % 3], (i == 3) ? 7 : 0);
        assert_int_equal(setsockopt(left.fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
        pass(&left, &right, (i % 2) ? 300000 : 20000);
        pass(&right, &left, 50000);
        sides_end();
    }
}

/* Bytes that the socket did not take do not count as sent, whatever was encrypted. */
static void test_nothing_counts_before_it_is_out(void **state)
{
    uint8_t *bytes = make_bytes(LARGE), *in;
    size_t sent = 0, on_the_wire = 0;
    ssize_t ret;

    (void)state;
    sides_begin(0x1301, 0);
    in = test_malloc(2 * LARGE);
    while ((ret = put(&left, bytes + sent, LARGE - sent)) > 0) {
        sent += (size_t)ret;
    }
    assert_int_equal(ret, -EAGAIN);
    while ((ret = recv(right.fd, in, 2 * LARGE, 0)) > 0) {
        on_the_wire += (size_t)ret;
    }
    assert_true(sent > 0 && sent < LARGE);
    assert_true(on_the_wire >= sent + (sent + CW_TLS_RECORD_MAX - 1) / CW_TLS_RECORD_MAX * CW_TLS_MORE);
    assert_true(on_the_wire < sent + CW_TLS_RECORD_MAX + (sent / CW_TLS_RECORD_MAX + 1) * CW_TLS_MORE);
    test_free(bytes);
    test_free(in);
    sides_end();
}

/* The records of `length` bytes in two sends, as they are on the wire. */
static size_t record_bytes(const uint8_t *bytes, size_t length, uint8_t *wire, size_t max)
{
    ssize_t got;

    assert_int_equal(put(&left, bytes, length / 2), length / 2);
    assert_int_equal(put(&left, bytes + length / 2, length - length / 2), length - length / 2);
    got = recv(right.fd, wire, max, 0);
    assert_int_equal(got, length + 2 * CW_TLS_MORE);
    return (size_t)got;
}

static void put_wire(const uint8_t *wire, size_t length)
{
    assert_int_equal(send(left.fd, wire, length, MSG_NOSIGNAL), length);
}

static size_t get_all(uint8_t *in, size_t max, ssize_t *last_p)
{
    size_t have = 0;

    while ((*last_p = get(&right, in + have, max - have)) > 0) {
        have += (size_t)*last_p;
    }
    return have;
}

static void test_cut_at_every_byte(void **state)
{
    uint8_t *bytes = make_bytes(STREAM), wire[STREAM + 100], in[STREAM + 1];
    size_t length, cut, have;
    ssize_t last;

    (void)state;
    sides_begin(0x1301, 0);
    length = record_bytes(bytes, STREAM, wire, sizeof(wire));
    sides_end();
    for (cut = 1; cut < length; cut++) {
        sides_begin(0x1301, 0);
        put_wire(wire, cut);
        have = get_all(in, sizeof(in), &last);
        assert_int_equal(last, -EAGAIN);
        assert_true(have == 0 || have == STREAM / 2); /* whole records only */
        put_wire(wire + cut, length - cut);
        have += get_all(in + have, sizeof(in) - have, &last);
        assert_int_equal(last, -EAGAIN);
        assert_int_equal(have, STREAM);
        assert_memory_equal(in, bytes, STREAM);
        assert_int_equal(right.unread, 0);
        assert_non_null(right.spare.bytes); /* it gave its buffer back */
        sides_end();
    }
    test_free(bytes);
}

/* What comes of these bytes is a beginning of the stream, then an error for good, of which the peer hears. */
static void expect_damage(const uint8_t *wire, size_t length, const uint8_t *bytes)
{
    uint8_t in[STREAM + 1], alert;
    ssize_t last;
    size_t have;

    sides_begin(0x1301, 0);
    put_wire(wire, length);
    have = get_all(in, sizeof(in), &last);
    assert_int_equal(last, -EBADMSG);
    assert_memory_equal(in, bytes, have);
    assert_non_null(cw_tls_stream_why(right.stream));
    assert_int_equal(get(&right, in, sizeof(in)), -EBADMSG);
    assert_true(put(&right, bytes, 1) < 0);
    assert_int_equal(get(&left, &alert, 1), -EBADMSG);
    assert_string_equal(cw_tls_stream_why(left.stream), "bad record mac");
    assert_int_equal(recv(right.fd, &alert, 1, 0), -1); /* nor is an alert answered by one */
    sides_end();
}

static void test_every_bit_flipped(void **state)
{
    uint8_t *bytes = make_bytes(STREAM), wire[STREAM + 100], in[STREAM + 1];
    size_t length, bit, at;
    ssize_t last;

    (void)state;
    sides_begin(0x1301, 0);
    length = record_bytes(bytes, STREAM, wire, sizeof(wire));
    sides_end();
    for (bit = 0; bit < 8 * length; bit++) {
        at = bit / 8 % (STREAM / 2 + CW_TLS_MORE);
        wire[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        if (at == 3 || at == 4) { /* a length: it may wait for more bytes than there are */
            sides_begin(0x1301, 0);
            put_wire(wire, length);
            assert_true(get_all(in, sizeof(in), &last) <= STREAM / 2);
            assert_true(last == -EBADMSG || last == -EAGAIN);
            sides_end();
        } else {
            expect_damage(wire, length, bytes);
        }
        wire[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    }
    test_free(bytes);
}

static void test_missing_doubled_reflected(void **state)
{
    uint8_t *bytes = make_bytes(STREAM), wire[STREAM + 100], twice[2 * STREAM + 200];
    size_t length, first = STREAM / 2 + CW_TLS_MORE;

    (void)state;
    sides_begin(0x1301, 0);
    length = record_bytes(bytes, STREAM, wire, sizeof(wire));
    assert_int_equal(send(right.fd, wire, length, MSG_NOSIGNAL), length); /* comes back */
    assert_int_equal(get(&left, twice, sizeof(twice)), -EBADMSG);
    sides_end();
    expect_damage(wire + first, length - first, bytes);
    memcpy(twice, wire, first);
    memcpy(twice + first, wire, length);
    expect_damage(twice, first + length, bytes);
    test_free(bytes);
}

/* Full records go straight to memory that nobody looks at; what is wrong in one of them is never counted. Where
 * somebody may look nothing wrong is written. */
static void test_memory_that_is_shown(void **state)
{
    enum { RECORDS = 3, LENGTH = RECORDS * CW_TLS_RECORD_MAX };
    uint8_t *bytes = make_bytes(LENGTH), *in = test_malloc(LENGTH), *wire = test_malloc(CW_TLS_BUFFER);
    const size_t record = CW_TLS_RECORD_MAX + CW_TLS_MORE;
    unsigned shown, damaged;
    ssize_t last;
    size_t i;

    (void)state;
    for (shown = 0; shown <= 2; shown += 2) {
        for (damaged = 0; damaged <= RECORDS; damaged++) {
            sides_begin(suites[damaged % 3], 0);
            right.shown = shown;
            memset(in, 0xee, LENGTH);
            assert_int_equal(put(&left, bytes, LENGTH), LENGTH);
            assert_int_equal(recv(right.fd, wire, CW_TLS_BUFFER, 0), RECORDS * record);
            wire[(damaged < RECORDS) ? damaged * record + 5000 : 0] ^= damaged < RECORDS;
            put_wire(wire, RECORDS * record);
            assert_int_equal(get_all(in, LENGTH, &last), damaged * CW_TLS_RECORD_MAX);
            assert_int_equal(last, (damaged < RECORDS) ? -EBADMSG : -EAGAIN);
            assert_memory_equal(in, bytes, damaged * CW_TLS_RECORD_MAX);
            for (i = damaged * CW_TLS_RECORD_MAX; i < LENGTH; i++) {
                assert_true(shown == 0 || in[i] == 0xee);
            }
            sides_end();
        }
    }
    test_free(bytes);
    test_free(in);
    test_free(wire);
}

/* Records that a peer with the keys may make up: `answer` is what receiving says, `data` how many bytes come before. */
static void expect_made_up(enum cw_tls_type type, const uint8_t *inner, size_t length, size_t data, ssize_t answer)
{
    const struct iovec iov  = {(void *)(uintptr_t)inner, length};
    struct cw_tls_walk walk = {.iov = &iov, .count = 1};
    uint8_t *record = test_malloc(length + CW_TLS_MORE), *in = test_malloc(length + 1);
    struct cw_tls_keys keys;
    ssize_t last;

    sides_begin(0x1301, 0);
    assert_true(cw_tls_keys_init(&keys, openssl, 0x1301, secrets[0], 32, 1));
    assert_true(cw_tls_seal(&keys, type, &walk, length, record));
    put_wire(record, length + CW_TLS_MORE);
    assert_int_equal(get_all(in, length + 1, &last), data);
    assert_int_equal(last, answer);
    cw_tls_keys_clear(&keys);
    sides_end();
    test_free(record);
    test_free(in);
}

static void test_messages_of_a_peer(void **state)
{
    static const struct {
        uint8_t type;
        size_t length, data;
        ssize_t answer;
        uint8_t bytes[8];
    } rows[] = {
        {CW_TLS_DATA, 0, 0, -EAGAIN, {0}},
        {CW_TLS_DATA, 3, 3, -EAGAIN, {1, 2, 3}},
        {CW_TLS_ALERT, 2, 0, 0, {1, 0}},         /* its end */
        {CW_TLS_ALERT, 2, 0, -EBADMSG, {2, 20}},
        {CW_TLS_ALERT, 2, 0, -EBADMSG, {2, 255}},
        {CW_TLS_ALERT, 1, 0, -EBADMSG, {2}},
        {CW_TLS_HANDSHAKE, 5, 0, -EAGAIN, {24, 0, 0, 1, 0}},
        {CW_TLS_HANDSHAKE, 5, 0, -EAGAIN, {24, 0, 0, 1, 1}},
        {CW_TLS_HANDSHAKE, 5, 0, -EBADMSG, {24, 0, 0, 1, 2}},
        {CW_TLS_HANDSHAKE, 4, 0, -EBADMSG, {24, 0, 0, 1}},
        {CW_TLS_HANDSHAKE, 6, 0, -EBADMSG, {24, 0, 0, 1, 0, 24}},
        {CW_TLS_HANDSHAKE, 8, 0, -EBADMSG, {4, 0, 0, 4, 0, 0, 0, 0}},
        {20, 1, 0, -EBADMSG, {1}},
        {99, 1, 0, -EBADMSG, {1}},
        {0, 2, 1, -EAGAIN, {1, CW_TLS_DATA}},    /* one zero is padding */
        {0, 4, 0, -EBADMSG, {0}},                /* nothing else is none */
    };
    uint8_t *large = test_calloc(1, CW_TLS_RECORD_MAX + 200);
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        expect_made_up(rows[i].type, rows[i].bytes, rows[i].length, rows[i].data, rows[i].answer);
    }
    expect_made_up(CW_TLS_DATA, large, CW_TLS_RECORD_MAX, CW_TLS_RECORD_MAX, -EAGAIN);
    expect_made_up(CW_TLS_DATA, large, CW_TLS_RECORD_MAX + 1, 0, -EBADMSG);
    large[CW_TLS_RECORD_MAX] = CW_TLS_DATA; /* padded, within what is allowed */
    expect_made_up(0, large, CW_TLS_RECORD_MAX + 200, CW_TLS_RECORD_MAX, -EAGAIN);
    test_free(large);
}

/* A peer that asks for new keys gets them with the next bytes. */
static void test_new_keys_when_asked(void **state)
{
    static const uint8_t ask[5] = {24, 0, 0, 1, 1};
    const struct iovec iov      = {(void *)(uintptr_t)ask, sizeof(ask)};
    struct cw_tls_walk walk     = {.iov = &iov, .count = 1};
    uint8_t record[sizeof(ask) + CW_TLS_MORE], in[10];
    struct cw_tls_keys keys;
    ssize_t got;

    (void)state;
    sides_begin(0x1301, 0);
    assert_true(cw_tls_keys_init(&keys, openssl, 0x1301, secrets[0], 32, 1));
    assert_true(cw_tls_seal(&keys, CW_TLS_HANDSHAKE, &walk, sizeof(ask), record));
    put_wire(record, sizeof(record));
    assert_int_equal(get(&right, in, sizeof(in)), -EAGAIN);
    assert_int_equal(put(&right, (const uint8_t *)"after", 5), 5);
    assert_int_equal(recv(left.fd, in, sizeof(in), MSG_PEEK | MSG_TRUNC), sizeof(in));
    got = get(&left, in, sizeof(in));
    assert_int_equal(got, 5);
    assert_memory_equal(in, "after", 5);
    cw_tls_keys_clear(&keys);
    sides_end();
}

/* A session, handshake and all; OpenSSL makes the records of one side or none. */
struct session {
    struct cw_tls_context *context;
    struct cw_tls *tls;
    struct cw_tls_spare spare;
    int fd;
};

static void session_begin(struct session *session, int fd, int dialled, int by_openssl)
{
    const struct cw_tls_settings settings = {.key = secrets[0], .openssl_records = by_openssl, .rekey = 5};
    char why[200];

    *session         = (struct session){.fd = fd};
    session->context = cw_tls_context_new(&settings, why, sizeof(why));
    assert_non_null(session->context);
    session->tls = cw_tls_new(session->context, fd, dialled);
    assert_non_null(session->tls);
}

static void session_end(struct session *session)
{
    cw_tls_free(session->tls);
    cw_tls_context_free(session->context);
    free(session->spare.bytes);
    close(session->fd);
}

static ssize_t session_put(struct session *session, uint8_t *bytes, size_t length)
{
    struct cw_tls_stream *stream = cw_tls_stream_of(session->tls);
    const struct iovec iov       = {bytes, length};

    return (stream == NULL) ? cw_tls_write(session->tls, bytes, length) :
           cw_tls_stream_sendv(stream, session->fd, &iov, 1, &session->spare);
}

static ssize_t session_get(struct session *session, uint8_t *bytes, size_t length)
{
    struct cw_tls_stream *stream = cw_tls_stream_of(session->tls);
    const struct iovec iov       = {bytes, length};
    uint8_t unread;

    return (stream == NULL) ? cw_tls_read(session->tls, bytes, length) :
           cw_tls_stream_recvv(stream, session->fd, &iov, 1, 0, &session->spare, &unread);
}

static void session_pass(struct session *from, struct session *to)
{
    uint8_t *bytes = make_bytes(LARGE), *in = test_malloc(LARGE);
    size_t sent = 0, have = 0;
    ssize_t ret;

    while (have < LARGE) {
        ret = session_put(from, bytes + sent, LARGE - sent);
        assert_true(ret >= 0 || ret == -EAGAIN);
        sent += (ret > 0) ? (size_t)ret : 0;
        while (have < LARGE && (ret = session_get(to, in + have, LARGE - have)) > 0) {
            have += (size_t)ret;
        }
        assert_true(ret > 0 || ret == -EAGAIN);
    }
    assert_memory_equal(in, bytes, LARGE);
    test_free(bytes);
    test_free(in);
}

static void session_meet(struct session *dialler, struct session *acceptor)
{
    int left_done = 0, right_done = 0;

    while (!left_done || !right_done) {
        left_done  = left_done || cw_tls_handshake(dialler->tls) == 1;
        right_done = right_done || cw_tls_handshake(acceptor->tls) == 1;
    }
}

static void tcp_pair(int fds[2])
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length        = sizeof(name);
    const int listener      = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

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
static void test_kernel_tls(void **state)
{
    struct session dialler, acceptor;
    int fds[2], has;

    (void)state;
    if (openssl == NULL) {
        skip();
    }
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
    session_begin(&dialler, fds[0], 1, 0);
    session_begin(&acceptor, fds[1], 0, 0);
    session_meet(&dialler, &acceptor);
    has = cw_tls_in_kernel(dialler.tls) && cw_tls_in_kernel(acceptor.tls);
    assert_true(!has || (cw_tls_stream_of(dialler.tls) == NULL && cw_tls_stream_of(acceptor.tls) == NULL));
    session_pass(&dialler, &acceptor);
    session_pass(&acceptor, &dialler);
    session_end(&dialler);
    session_end(&acceptor);
    if (!has) {
        print_message("SKIPPED: the kernel has TLS, but this OpenSSL was built without it\n");
        skip();
    }
}

static void test_with_openssl(void **state)
{
    struct session dialler, acceptor;
    int fds[2], which;

    (void)state;
    if (openssl == NULL) {
        skip();
    }
    for (which = 0; which < 4; which++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
        session_begin(&dialler, fds[0], 1, which & 1);
        session_begin(&acceptor, fds[1], 0, which >> 1);
        session_meet(&dialler, &acceptor);
        assert_int_equal(cw_tls_stream_of(dialler.tls) == NULL, which & 1);
        assert_int_equal(cw_tls_stream_of(acceptor.tls) == NULL, which >> 1);
        session_pass(&dialler, &acceptor);
        session_pass(&acceptor, &dialler);
        session_end(&dialler);
        session_end(&acceptor);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_published_example),
        cmocka_unit_test(test_small_buffers),
        cmocka_unit_test(test_nothing_counts_before_it_is_out),
        cmocka_unit_test(test_cut_at_every_byte),
        cmocka_unit_test(test_every_bit_flipped),
        cmocka_unit_test(test_missing_doubled_reflected),
        cmocka_unit_test(test_memory_that_is_shown),
        cmocka_unit_test(test_messages_of_a_peer),
        cmocka_unit_test(test_new_keys_when_asked),
        cmocka_unit_test(test_with_openssl),
        cmocka_unit_test(test_kernel_tls),
    };

    return cmocka_run_group_tests(tests, find_openssl, NULL);
}
