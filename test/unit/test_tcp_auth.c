/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The proof of the cluster secret: who has it gets through, and who has not, or repeats, reflects, cuts, or says
 * something else, gets an answer at most and never to the program. The keys lie in files as they do for programs.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test_tcp.h"
#include "test_log_lines.h"
#include "transport/tcp/tcp.h"

enum { OFFER_BYTES = CW_TCP_HANDSHAKE_SIZE + sizeof(struct cw_tcp_offer),
       PROOF_BYTES = CW_TCP_HANDSHAKE_SIZE + CW_TCP_PROOF_SIZE,
       BY_SECRET = CW_TCP_SECRET | CW_TCP_SIZED };

static char key_file[64], other_file[64];
static struct node acceptor; /* has the key */
static struct node dialler;  /* drives nothing in most tests */

static void make_file_of(char path[64], const void *bytes, size_t length)
{
    int fd;

    strcpy(path, "/tmp/test_tcp_auth.XXXXXX");
    fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, bytes, length) == (ssize_t)length);
    close(fd);
}

static void make_file(char path[64], const char *text)
{
    make_file_of(path, text, strlen(text));
}

static int make_files(void **state)
{
    (void)state;
    make_file(key_file, "0123456789abcdef");
    make_file(other_file, "0123456789abcdeg");
    return 0;
}

static int remove_files(void **state)
{
    (void)state;
    return unlink(key_file) + unlink(other_file);
}

static void open_with_key_of(struct node *node, char *path, unsigned auth_tls)
{
    static char *devices[] = {"all"};

    node_configure(node);
    node->config.auth_key_file = path;
    node->config.auth_tls = auth_tls;
    node->config.net_devices.names = devices;
    node->config.net_devices.count = 1;
    assert_int_equal(node_try_open(node, NULL), UCS_OK);
}

static void open_with_key(struct node *node, char *path)
{
    open_with_key_of(node, path, 0);
}

static void begin(void)
{
    log_count_begin();
    open_with_key(&acceptor, key_file);
    open_with_key(&dialler, key_file);
}

static void end(void)
{
    DRIVE_UNTIL(&dialler, &acceptor, tcp_of(&acceptor)->num_lingering + tcp_of(&acceptor)->num_unauth == 0);
    node_close(&acceptor);
    node_close(&dialler);
    log_count_end();
}

static uint32_t key_of_acceptor(uint16_t *port_p)
{
    struct cw_tcp_address address;

    assert_null(cw_tcp_address_decode(acceptor.address, acceptor.address_length, &address));
    *port_p = address.port;
    return address.key;
}

static int call(void)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    uint16_t port;

    (void)key_of_acceptor(&port);
    name.sin_port = htons(port);
    assert_int_equal(connect(fd, (const struct sockaddr *)&name, sizeof(name)), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

/* Bytes of the acceptor; fewer: it ended the connection. */
static size_t hear(int fd, uint8_t *bytes, size_t length)
{
    const uint64_t deadline_ns = cw_clock_ns() + TIMEOUT_NS;
    size_t have = 0;
    ssize_t got;

    while (have < length) {
        step(&acceptor);
        got = recv(fd, bytes + have, length - have, 0);
        if (got == 0 || (got < 0 && errno != EAGAIN)) {
            break;
        }
        have += (got > 0) ? (size_t)got : 0;
        assert_true(cw_clock_ns() < deadline_ns);
    }
    return have;
}

static void say(int fd, const uint8_t *bytes, size_t length)
{
    assert_int_equal(send(fd, bytes, length, MSG_NOSIGNAL), length);
}

static void make_offer(uint8_t bytes[OFFER_BYTES], uint8_t protection, uint8_t fill)
{
    struct cw_tcp_offer offer = {.protection = protection};
    uint16_t port;

    memset(offer.nonce, fill, sizeof(offer.nonce));
    cw_tcp_handshake_encode(bytes, (enum cw_tcp_handshake_kind)CW_TCP_OFFER, sizeof(offer), key_of_acceptor(&port));
    memcpy(bytes + CW_TCP_HANDSHAKE_SIZE, &offer, sizeof(offer));
}

/* What a dialler says that has the acceptor's secret, or another one. */
static void make_proof(uint8_t bytes[PROOF_BYTES], const uint8_t *offer, const uint8_t *agreed, uint8_t role,
                       const struct cw_tcp_security *security)
{
    struct cw_tcp_claim claim = {
        .label = "CWproof2", .role = role, .protection = BY_SECRET, .version = CW_TCP_VERSION};
    uint16_t port;

    claim.key = htole32(key_of_acceptor(&port));
    memcpy(claim.nonces[0], offer + CW_TCP_HANDSHAKE_SIZE + offsetof(struct cw_tcp_offer, nonce), CW_TCP_NONCE_SIZE);
    memcpy(claim.nonces[1], agreed + CW_TCP_HANDSHAKE_SIZE + offsetof(struct cw_tcp_offer, nonce), CW_TCP_NONCE_SIZE);
    cw_tcp_handshake_encode(bytes, (enum cw_tcp_handshake_kind)CW_TCP_PROOF, CW_TCP_PROOF_SIZE, key_of_acceptor(&port));
    assert_int_equal(cw_tcp_prove(security, &claim, bytes + CW_TCP_HANDSHAKE_SIZE), 1);
}

/* As far as the challenge. */
static int challenged(uint8_t offer[OFFER_BYTES], uint8_t agreed[OFFER_BYTES])
{
    const int fd = call();

    make_offer(offer, BY_SECRET, 7);
    say(fd, offer, OFFER_BYTES);
    assert_int_equal(hear(fd, agreed, OFFER_BYTES), OFFER_BYTES);
    assert_int_equal(agreed[5], CW_TCP_AGREED);
    return fd;
}

/* The answer is "unsuited" with this reason, and then the end. */
static void expect_no(int fd, uint8_t reason)
{
    uint8_t bytes[CW_TCP_HANDSHAKE_SIZE + sizeof(struct cw_tcp_unsuited) + 1];

    assert_int_equal(hear(fd, bytes, sizeof(bytes)), sizeof(bytes) - 1);
    assert_int_equal(bytes[5], CW_TCP_UNSUITED);
    assert_int_equal(bytes[CW_TCP_HANDSHAKE_SIZE + 1], reason);
    assert_int_equal(acceptor.num_links, 0);
    close(fd);
}

static void expect_end(int fd)
{
    uint8_t byte;

    assert_int_equal(hear(fd, &byte, 1), 0);
    assert_int_equal(acceptor.num_links, 0);
    close(fd);
}

static void test_same_key(void **state)
{
    struct link *link, *accepted;

    (void)state;
    begin();
    link = connect_nodes(&dialler, &acceptor, &accepted);
    assert_null(tcp_conn(link)->filter); /* nothing is in the way afterwards */
    assert_int_equal(cw_tcp_transport.packets->send_short(link->conn, 3, 1, "data", 4), UCS_OK);
    DRIVE_UNTIL(&dialler, &acceptor, accepted->packets == 1);
    assert_int_equal(log_lines, 0);
    end();
}

/* With another key, none, and against one who demands none: refused, and both say why. */
static void test_other_key_or_none(void **state)
{
    struct node other;
    struct link *link;
    int i;

    (void)state;
    for (i = 0; i < 3; i++) {
        begin();
        open_with_key(&other, (i == 0) ? other_file : NULL);
        link = (i < 2) ? dial(&other, &acceptor) : dial(&dialler, &other);
        DRIVE_UNTIL(&other, (i < 2) ? &acceptor : &dialler, link->opened);
        DRIVE_UNTIL(&other, &acceptor, log_lines == 2);
        assert_int_equal(link->opened_status, UCS_ERR_REJECTED);
        assert_non_null(strstr(link->conn->end, (i == 0) ? "its cluster secret differs" :
                                                           "protection of connections differs"));
        assert_null(strstr(link->conn->end, "firewall"));
        assert_int_equal(acceptor.num_links + other.num_links, 0 + (i < 2));
        DRIVE_UNTIL(&other, &dialler, tcp_of(&other)->num_lingering == 0);
        node_close(&other);
        end();
    }
}

/* A secret with zeros behind it, and a long secret's hash, are other secrets, though they are the same key for HMAC. */
static void test_kin_of_the_secret(void **state)
{
    static const uint8_t short_one[64] = "a secret of 24 characters";
    static const uint8_t hash[] = {0x28, 0x16, 0x59, 0x78, 0x88, 0xe4, 0xa0, 0xd3, 0xa3, 0x6b, 0x82,
                                   0xb8, 0x33, 0x16, 0xab, 0x32, 0x68, 0x0e, 0xb8, 0xf0, 0x0f, 0x8c,
                                   0xd3, 0xb9, 0x04, 0xd6, 0x81, 0x24, 0x6d, 0x28, 0x5a, 0x0e};
    static const size_t lengths[] = {26, 40, 64, sizeof(hash)};
    static char files[2][64];
    struct node nodes[2];
    uint8_t long_one[100];
    struct link *link;
    unsigned i, psk;

    (void)state;
    memset(long_one, 'a', sizeof(long_one)); /* SHA-256 of it is `hash` */
    for (i = 0; i < 4; i++) {
        make_file_of(files[0], (i < 3) ? short_one : long_one, (i < 3) ? 25 : sizeof(long_one));
        make_file_of(files[1], (i < 3) ? short_one : hash, lengths[i]);
        for (psk = 0; psk < 2; psk++) {
            log_count_begin();
            open_with_key_of(&nodes[0], files[0], psk);
            open_with_key_of(&nodes[1], files[1], psk);
            assert_memory_not_equal(tcp_of(&nodes[0])->security->secret, tcp_of(&nodes[1])->security->secret, 32);
            link = dial(&nodes[0], &nodes[1]);
            DRIVE_UNTIL(&nodes[0], &nodes[1], link->opened);
            assert_int_equal(link->opened_status, UCS_ERR_REJECTED);
            DRIVE_UNTIL(&nodes[0], &nodes[1], tcp_of(&nodes[1])->num_unauth + tcp_of(&nodes[1])->num_lingering == 0);
            assert_int_equal(nodes[1].num_links, 0);
            node_close(&nodes[0]);
            node_close(&nodes[1]);
            log_count_end();
        }
        assert_int_equal(unlink(files[0]) + unlink(files[1]), 0);
    }
}

/* Diallers of release 1.0, whose proofs do not tell such secrets apart, are refused with a sentence that both log. */
static void test_dialler_of_release_1_0(void **state)
{
    static const uint8_t offered[] = {CW_TCP_SECRET, CW_TCP_SECRET | CW_TCP_CHECKSUM, CW_TCP_TLS_PSK};
    uint8_t offer[OFFER_BYTES];
    unsigned i;
    int fd;

    (void)state;
    for (i = 0; i < sizeof(offered); i++) {
        begin();
        fd = call();
        make_offer(offer, offered[i], (offered[i] & CW_TCP_SECRET) ? 7 : 0);
        say(fd, offer, sizeof(offer));
        expect_no(fd, CW_TCP_OTHER_PROTECTION);
        assert_int_equal(log_lines, 1);
        /* the others differ otherwise, too */
        assert_int_equal(strstr(log_text, "it is of release 1.0") != NULL, i == 0);
        end();
    }
}

static void test_hand_made(void **state)
{
    uint8_t offer[OFFER_BYTES], agreed[OFFER_BYTES], proof[PROOF_BYTES], answer[PROOF_BYTES], expected[PROOF_BYTES];
    uint8_t hello[CW_TCP_HANDSHAKE_SIZE + 5] = {0};
    uint16_t port;
    size_t i;
    int fd;

    (void)state;
    begin();
    fd = challenged(offer, agreed);
    make_proof(proof, offer, agreed, 1, tcp_of(&acceptor)->security);
    for (i = 0; i < PROOF_BYTES; i++) { /* slowly */
        say(fd, proof + i, 1);
        step(&acceptor);
    }
    assert_int_equal(hear(fd, answer, PROOF_BYTES), PROOF_BYTES);
    make_proof(expected, offer, agreed, 2, tcp_of(&acceptor)->security);
    assert_memory_equal(answer, expected, PROOF_BYTES);
    cw_tcp_handshake_encode(hello, CW_TCP_HELLO, 5, key_of_acceptor(&port));
    say(fd, hello, sizeof(hello));
    DRIVE_UNTIL(&acceptor, &acceptor, acceptor.num_links == 1);
    close(fd);
    DRIVE_UNTIL(&acceptor, &acceptor, acceptor.links[0].closed_status != UCS_INPROGRESS);
    end();
}

static void test_wrong_proof(void **state)
{
    uint8_t offer[OFFER_BYTES], agreed[OFFER_BYTES], proof[PROOF_BYTES];
    struct node other;
    unsigned i;
    int fd;

    (void)state;
    begin();
    open_with_key(&other, other_file);
    for (i = 0; i < 4; i++) {
        fd = challenged(offer, agreed);
        make_proof(proof, offer, agreed, (i == 1) ? 2 : 1,
                   (i == 0) ? tcp_of(&other)->security : tcp_of(&acceptor)->security);
        proof[PROOF_BYTES - 1] ^= i == 2;     /* one bit */
        proof[CW_TCP_HANDSHAKE_SIZE] ^= i == 3;
        say(fd, proof, sizeof(proof));
        expect_no(fd, CW_TCP_OTHER_KEY);
    }
    node_close(&other);
    end();
}

/* What a good dialler said once is worth nothing a second time. */
static void test_replay(void **state)
{
    uint8_t offer[OFFER_BYTES], agreed[OFFER_BYTES], proof[PROOF_BYTES], answer[PROOF_BYTES];
    int fd;

    (void)state;
    begin();
    fd = challenged(offer, agreed);
    make_proof(proof, offer, agreed, 1, tcp_of(&acceptor)->security);
    say(fd, proof, sizeof(proof));
    assert_int_equal(hear(fd, answer, sizeof(answer)), sizeof(answer));
    assert_int_equal(answer[5], CW_TCP_PROOF);
    close(fd);
    fd = challenged(offer, agreed); /* the same offer */
    say(fd, proof, sizeof(proof));
    expect_no(fd, CW_TCP_OTHER_KEY);
    fd = challenged(offer, agreed);
    say(fd, answer, sizeof(answer));
    expect_no(fd, CW_TCP_OTHER_KEY);
    end();
}

/* Dials a false acceptor. Returns its socket, with the dialler's offer taken from it. */
static int false_acceptor(struct link **link_p, uint8_t offer[OFFER_BYTES])
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct cw_net_address to = {.family = CW_NET_IPV4, .bytes = {127, 0, 0, 1}};
    socklen_t length = sizeof(name);
    struct link *link = new_link(&dialler);
    int fd;

    assert_true(bind(listener, (struct sockaddr *)&name, sizeof(name)) == 0 && listen(listener, 1) == 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&name, &length), 0);
    to.port = ntohs(name.sin_port);
    assert_int_equal(cw_tcp_transport.cm->dial_to(dialler.iface, &to, NULL, "hello", 5, link, &link->conn), UCS_OK);
    fd = accept(listener, NULL, NULL);
    close(listener);
    DRIVE_UNTIL(&dialler, &dialler,
                recv(fd, offer, OFFER_BYTES, MSG_DONTWAIT | MSG_PEEK) == (ssize_t)OFFER_BYTES);
    assert_int_equal(recv(fd, offer, OFFER_BYTES, 0), OFFER_BYTES);
    assert_int_equal(offer[5], CW_TCP_OFFER);
    *link_p = link;
    return fd;
}

/* A false acceptor gives the dialler its own nonce and its own proof back. */
static void test_reflection(void **state)
{
    uint8_t bytes[OFFER_BYTES], proof[PROOF_BYTES];
    struct link *link;
    int fd;

    (void)state;
    begin();
    fd = false_acceptor(&link, bytes);
    bytes[5] = CW_TCP_AGREED;
    say(fd, bytes, sizeof(bytes));
    DRIVE_UNTIL(&dialler, &dialler, recv(fd, proof, sizeof(proof), MSG_DONTWAIT) == (ssize_t)sizeof(proof));
    say(fd, proof, sizeof(proof));
    DRIVE_UNTIL(&dialler, &dialler, link->opened);
    assert_int_equal(link->opened_status, UCS_ERR_REJECTED);
    close(fd);
    end();
}

/* An acceptor of release 1.0 refuses by itself, and our side says what the difference is. Its rules for offers are
 * those of take_offer there. */
static void test_acceptor_of_release_1_0(void **state)
{
    uint8_t bytes[OFFER_BYTES], answer[CW_TCP_HANDSHAKE_SIZE + sizeof(struct cw_tcp_unsuited)] = {0};
    struct link *link;
    int fd;

    (void)state;
    begin();
    fd = false_acceptor(&link, bytes);
    assert_true(bytes[CW_TCP_HANDSHAKE_SIZE] & CW_TCP_SECRET); /* else the nonce would be malformed there */
    assert_true(bytes[CW_TCP_HANDSHAKE_SIZE] != CW_TCP_SECRET);
    cw_tcp_handshake_encode(answer, (enum cw_tcp_handshake_kind)CW_TCP_UNSUITED, sizeof(struct cw_tcp_unsuited), 0);
    answer[CW_TCP_HANDSHAKE_SIZE] = CW_TCP_SECRET;
    answer[CW_TCP_HANDSHAKE_SIZE + 1] = CW_TCP_OTHER_PROTECTION;
    say(fd, answer, sizeof(answer));
    DRIVE_UNTIL(&dialler, &dialler, link->opened);
    assert_int_equal(link->opened_status, UCS_ERR_REJECTED);
    assert_true(log_lines >= 1 && strstr(log_text, "it is of release 1.0") != NULL);
    close(fd);
    end();
}

/* Everything that is not the next message of this direction. */
static void test_out_of_turn(void **state)
{
    uint8_t offer[OFFER_BYTES], agreed[OFFER_BYTES], bytes[OFFER_BYTES], hello[CW_TCP_HANDSHAKE_SIZE];
    uint16_t port;
    unsigned kind;
    int fd;

    (void)state;
    begin();
    for (kind = 0; kind < 14; kind++) { /* in the place of the proof, with its length */
        fd = challenged(offer, agreed);
        memset(bytes, 0, sizeof(bytes));
        cw_tcp_handshake_encode(bytes, (enum cw_tcp_handshake_kind)kind, CW_TCP_PROOF_SIZE, key_of_acceptor(&port));
        say(fd, bytes, PROOF_BYTES);
        if (kind == CW_TCP_PROOF) {
            expect_no(fd, CW_TCP_OTHER_KEY);
        } else if (kind == CW_TCP_HELLO) {
            expect_no(fd, CW_TCP_OTHER_PROTECTION);
        } else {
            expect_end(fd);
        }
    }
    fd = call(); /* a proof without a challenge */
    cw_tcp_handshake_encode(bytes, (enum cw_tcp_handshake_kind)CW_TCP_PROOF, CW_TCP_PROOF_SIZE, key_of_acceptor(&port));
    say(fd, bytes, PROOF_BYTES);
    expect_end(fd);
    fd = call(); /* a handshake at once */
    cw_tcp_handshake_encode(hello, CW_TCP_HELLO, 0, key_of_acceptor(&port));
    say(fd, hello, sizeof(hello));
    expect_no(fd, CW_TCP_OTHER_PROTECTION);
    end();
}

/* Each field of the offer that is wrong, each length at which the dialler goes away. */
static void test_broken_offers(void **state)
{
    uint8_t offer[OFFER_BYTES];
    unsigned i;
    int fd;

    (void)state;
    begin();
    for (i = 0; i < 256; i += 1 + i / 16) {
        fd = call();
        make_offer(offer, (uint8_t)i, 0);
        say(fd, offer, sizeof(offer));
        if (i == BY_SECRET) {
            assert_int_equal(hear(fd, offer, sizeof(offer)), sizeof(offer));
            close(fd);
        } else if (i == CW_TCP_PLAIN) {
            expect_end(fd);
        } else {
            expect_no(fd, CW_TCP_OTHER_PROTECTION);
        }
    }
    for (i = 0; i < CW_TCP_HANDSHAKE_SIZE + 4; i++) {
        if (i == CW_TCP_HANDSHAKE_SIZE || i == 5) {
            continue; /* tried above */
        }
        fd = call();
        make_offer(offer, BY_SECRET, 1);
        offer[i] ^= 0x80;
        say(fd, offer, sizeof(offer));
        expect_end(fd);
    }
    for (i = 0; i < OFFER_BYTES; i++) {
        fd = call();
        make_offer(offer, BY_SECRET, 1);
        say(fd, offer, i);
        assert_int_equal(shutdown(fd, SHUT_WR), 0);
        expect_end(fd);
    }
    end();
}

/* ABU: a worker whose protection cannot be had does not come about. */
static void test_bad_settings(void **state)
{
    static char missing[] = "/nonexistent/key", directory[] = "/tmp";
    char short_file[64], long_file[64], text[4098];
    char *const files[] = {missing, directory, short_file, long_file, key_file};
    struct node node;
    unsigned i;

    (void)state;
    log_count_begin();
    memset(text, 'x', sizeof(text));
    text[4097] = '\0';
    make_file(short_file, "0123456789abcde");
    make_file(long_file, text);
    for (i = 0; i < 5; i++) {
        node_configure(&node);
        log_lines = 0;
        node.config.auth_key_file = files[i];
        assert_int_equal(chmod(key_file, (i == 4) ? 0640 : 0600), 0);
        assert_int_equal(node_try_open(&node, NULL), UCS_ERR_INVALID_PARAM);
        assert_int_equal(log_lines, 1);
    }
    assert_int_equal(chmod(key_file, 0600), 0);
    assert_int_equal(unlink(short_file) + unlink(long_file), 0);
    log_count_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* first those that check lines of the log, which are limited in rate */
        cmocka_unit_test(test_dialler_of_release_1_0), cmocka_unit_test(test_acceptor_of_release_1_0),
        cmocka_unit_test(test_same_key),      cmocka_unit_test(test_other_key_or_none),
        cmocka_unit_test(test_hand_made),     cmocka_unit_test(test_wrong_proof),
        cmocka_unit_test(test_replay),        cmocka_unit_test(test_reflection),
        cmocka_unit_test(test_out_of_turn),   cmocka_unit_test(test_broken_offers),
        cmocka_unit_test(test_bad_settings),  cmocka_unit_test(test_kin_of_the_secret),
    };

    return cmocka_run_group_tests(tests, make_files, remove_files);
}
