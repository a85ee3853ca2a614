/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TCP connections under TLS: by a shared key and by certificates, with the right ones, wrong ones and none, and
 * messages of all sizes through small buffers, and a peer that asks for new keys. Without OpenSSL's libraries, or its
 * program for certificates: skipped.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test_tcp.h"
#include "test_log_lines.h"
#include "test_tls_peer.h"
#include "transport/tcp/tcp.h"

enum { OFF, PSK, CERT };

static char directory[] = "/tmp/test_tcp_tls.XXXXXX";
static char key[64], other_key[64], ca[64], cert[64], cert_key[64], other_ca[64], other_cert[64], other_cert_key[64];
static int has_certificates;

static void make_key(char path[64], const char *name, const char *text)
{
    int fd;

    snprintf(path, 64, "%s/%s", directory, name);
    fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

/* An authority and a certificate of it. */
static int make_certificates(const char *name, char authority[64], char path[64], char path_of_key[64])
{
    char command[1024];

    snprintf(authority, 64, "%s/%s-ca.pem", directory, name);
    snprintf(path, 64, "%s/%s.pem", directory, name);
    snprintf(path_of_key, 64, "%s/%s-key.pem", directory, name);
    snprintf(command, sizeof(command),
             "umask 077; cd %s && exec 2>log && "
             "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=%s-authority "
             "-keyout %s-ca-key.pem -out %s-ca.pem && "
             "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=%s -keyout %s-key.pem "
             "-out %s.csr && "
             "openssl x509 -req -days 2 -in %s.csr -CA %s-ca.pem -CAkey %s-ca-key.pem -CAcreateserial -out %s.pem",
             directory, name, name, name, name, name, name, name, name, name, name);
    return system(command) == 0;
}

static int make_files(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(directory));
    make_key(key, "key", "0123456789abcdef0123456789abcdef");
    make_key(other_key, "other", "0123456789abcdef0123456789abcdeg");
    has_certificates = make_certificates("one", ca, cert, cert_key) &&
                       make_certificates("two", other_ca, other_cert, other_cert_key);
    return 0;
}

static int remove_files(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -r %s", directory);
    return system(command);
}

static void needs_openssl(int certificates)
{
    const char *why;

    if (cw_openssl_open(CW_OPENSSL_SSL, &why) == NULL) {
        print_message("SKIPPED: %s\n", why);
        skip();
    }
    if (certificates && !has_certificates) {
        print_message("SKIPPED: needs the program openssl\n");
        skip();
    }
}

static void configure(struct node *node, int mode)
{
    node_configure(node);
    node->config.auth_tls = mode;
    if (mode == PSK) {
        node->config.auth_key_file = key;
    } else if (mode == CERT) {
        node->config.auth_ca_file = ca;
        node->config.auth_cert_file = cert;
        node->config.auth_cert_key_file = cert_key;
    }
}

static void send_all_sizes(struct node *from, struct node *to, struct link *sender, struct link *receiver)
{
    static const size_t sizes[] = {1, 100, 16383, 16384, 16385, 40000, 65536};
    static uint8_t data[65536];
    struct wait waits[7];
    struct iovec iov[2];
    uint8_t *expected = NULL;
    size_t length = 0, i;
    ucs_status_t status;

    for (i = 0; i < sizeof(data); i++) {
        data[i] = (uint8_t)(i * 13 + (i >> 9));
    }
    for (i = 0; i < 7; i++) {
        waits[i] = (struct wait)WAIT_INIT;
        iov[0] = (struct iovec){data, sizes[i] / 3};
        iov[1] = (struct iovec){data + sizes[i] / 3, sizes[i] - sizes[i] / 3};
        put_packet(&expected, &length, 4, data, sizes[i]);
        while ((status = cw_tcp_transport.packets->send_zcopy(sender->conn, 4, NULL, 0, iov, 2,
                                                              &waits[i].completion)) == CW_AGAIN) {
            step(from);
            step(to);
        }
        assert_true(status == UCS_OK || status == UCS_INPROGRESS);
    }
    DRIVE_UNTIL(from, to, receiver->length >= length);
    assert_int_equal(receiver->length, length);
    assert_memory_equal(receiver->bytes, expected, length);
    test_free(expected);
}

static void messages_both_ways(int mode)
{
    struct node dialler, acceptor;
    struct link *link, *accepted;

    configure(&dialler, mode);
    configure(&acceptor, mode);
    dialler.config.tcp_sndbuf = acceptor.config.tcp_rcvbuf = 8192;
    acceptor.config.tcp_checksum = 1; /* TLS has its own */
    assert_int_equal(node_try_open(&dialler, NULL), UCS_OK);
    assert_int_equal(node_try_open(&acceptor, NULL), UCS_OK);
    link = connect_nodes(&dialler, &acceptor, &accepted);
    assert_non_null(tcp_conn(link)->filter);
    send_all_sizes(&dialler, &acceptor, link, accepted);
    send_all_sizes(&acceptor, &dialler, accepted, link);
    assert_int_equal(cw_tcp_transport.arm(dialler.iface), UCS_OK);
    node_close(&dialler);
    node_close(&acceptor);
}

TEST(test_by_key)
{
    needs_openssl(0);
    messages_both_ways(PSK);
}

TEST(test_by_certificate)
{
    needs_openssl(1);
    messages_both_ways(CERT);
}

/* A peer that is not this library may ask for new keys at any time. */
TEST(test_asked_while_idle)
{
    struct node dialler, acceptor;
    struct link *link, *accepted;
    int dialled;

    needs_openssl(0);
    configure(&dialler, PSK);
    configure(&acceptor, PSK);
    assert_int_equal(node_try_open(&dialler, NULL), UCS_OK);
    assert_int_equal(node_try_open(&acceptor, NULL), UCS_OK);
    link = connect_nodes(&dialler, &acceptor, &accepted);
    for (dialled = 0; dialled < 2 && !cw_tls_in_kernel(tls_ends[0].tls) && !cw_tls_in_kernel(tls_ends[1].tls);
         dialled++) {
        assert_true(tls_ask_for_new_keys(dialled));
        drive_for_ms(&dialler, &acceptor, 5);
        assert_int_equal(cw_tcp_transport.arm(dialler.iface), UCS_OK);
        assert_int_equal(cw_tcp_transport.arm(acceptor.iface), UCS_OK);
        send_all_sizes(&dialler, &acceptor, link, accepted);
        send_all_sizes(&acceptor, &dialler, accepted, link);
        link->length = accepted->length = 0;
    }
    node_close(&dialler);
    node_close(&acceptor);
}

/* Also while frames are on their way that the socket did not take whole. */
TEST(test_asked_amid_a_record)
{
    enum { COUNT = 40, SIZE = 60000 };
    static uint8_t data[COUNT + SIZE];
    struct wait waits[COUNT];
    struct node dialler, acceptor;
    struct link *link, *accepted;
    uint8_t *expected = NULL;
    size_t length = 0;
    unsigned sent = 0, asked = 0, i;
    struct iovec iov;
    ucs_status_t status;

    needs_openssl(0);
    configure(&dialler, PSK);
    configure(&acceptor, PSK);
    dialler.config.tcp_sndbuf = acceptor.config.tcp_rcvbuf = 8192;
    assert_int_equal(node_try_open(&dialler, NULL), UCS_OK);
    assert_int_equal(node_try_open(&acceptor, NULL), UCS_OK);
    link = connect_nodes(&dialler, &acceptor, &accepted);
    for (i = 0; i < sizeof(data); i++) {
        data[i] = (uint8_t)(i * 7 + (i >> 8));
    }
    while (sent < COUNT) {
        iov = (struct iovec){data + sent, SIZE};
        waits[sent] = (struct wait)WAIT_INIT;
        status = cw_tcp_transport.packets->send_zcopy(link->conn, 4, NULL, 0, &iov, 1, &waits[sent].completion);
        if (status == UCS_OK || status == UCS_INPROGRESS) {
            put_packet(&expected, &length, 4, iov.iov_base, SIZE);
            sent++;
        }
        asked += tls_ask_for_new_keys(0);
        step(&dialler);
        step(&dialler);
        step(&acceptor);
    }
    DRIVE_UNTIL(&dialler, &acceptor, accepted->length >= length);
    assert_true(asked > 0);
    assert_int_equal(accepted->length, length);
    assert_memory_equal(accepted->bytes, expected, length);
    test_free(expected);
    node_close(&dialler);
    node_close(&acceptor);
}

/* ABU-27: writing to a peer that has gone is an error and no signal. */
TEST(test_peer_goes)
{
    struct node dialler, acceptor;
    struct link *link, *accepted;
    ucs_status_t status = UCS_OK;

    needs_openssl(0);
    configure(&dialler, PSK);
    configure(&acceptor, PSK);
    assert_int_equal(node_try_open(&dialler, NULL), UCS_OK);
    assert_int_equal(node_try_open(&acceptor, NULL), UCS_OK);
    link = connect_nodes(&dialler, &acceptor, &accepted);
    cw_tcp_transport.connect->abandon(accepted->conn);
    link_close(accepted);
    while (status == UCS_OK || status == CW_AGAIN) {
        status = cw_tcp_transport.packets->send_short(link->conn, 3, 1, "data", 4);
    }
    assert_int_equal(status, UCS_ERR_CONNECTION_RESET);
    DRIVE_UNTIL(&dialler, &acceptor, link->closed_status != UCS_INPROGRESS);
    node_close(&dialler);
    node_close(&acceptor);
}

/* Nobody gets through, and at least the acceptor says why. */
static void expect_refused(struct node *dialler, struct node *acceptor, int dialler_says)
{
    struct link *link;

    assert_int_equal(node_try_open(dialler, NULL), UCS_OK);
    assert_int_equal(node_try_open(acceptor, NULL), UCS_OK);
    log_count_begin();
    link = dial(dialler, acceptor);
    DRIVE_UNTIL(dialler, acceptor, link->opened && log_lines >= 1u + (unsigned)dialler_says);
    assert_true(link->opened_status != UCS_OK);
    assert_int_equal(acceptor->num_links, 0);
    DRIVE_UNTIL(dialler, acceptor, tcp_of(acceptor)->num_lingering + tcp_of(acceptor)->num_unauth == 0);
    log_count_end();
    node_close(dialler);
    node_close(acceptor);
}

TEST(test_wrong_key)
{
    struct node dialler, acceptor;

    needs_openssl(0);
    configure(&dialler, PSK);
    configure(&acceptor, PSK);
    dialler.config.auth_key_file = other_key;
    expect_refused(&dialler, &acceptor, 1);
    assert_non_null(strstr(log_text, "UCX_AUTH_KEY_FILE"));
}

TEST(test_other_ways_of_protection)
{
    struct node dialler, acceptor;
    int left, right;

    needs_openssl(1);
    for (left = OFF; left <= CERT; left++) {
        for (right = OFF; right <= CERT; right++) {
            if (left != right) {
                configure(&dialler, left);
                configure(&acceptor, right);
                expect_refused(&dialler, &acceptor, 1);
                assert_non_null(strstr(log_text, "protection of connections differs"));
            }
        }
    }
}

/* One side's certificate is of another authority: both are checked. */
TEST(test_wrong_certificates)
{
    struct node nodes[2];
    int wrong;

    needs_openssl(1);
    for (wrong = 0; wrong < 2; wrong++) {
        configure(&nodes[0], CERT);
        configure(&nodes[1], CERT);
        nodes[wrong].config.auth_cert_file = other_cert;
        nodes[wrong].config.auth_cert_key_file = other_cert_key;
        expect_refused(&nodes[0], &nodes[1], 1);
    }
}

/* Whoever has only the certificate of an authority, but none of its own, is an unauthenticated peer. */
TEST(test_settings)
{
    struct node node;
    unsigned i;

    needs_openssl(1);
    log_count_begin();
    for (i = 0; i < 8; i++) {
        configure(&node, (i == 0) ? PSK : CERT);
        switch (i) {
        case 0:
            node.config.auth_key_file = NULL;
            break;
        case 1:
            node.config.auth_key_file = key;
            break;
        case 2:
            node.config.auth_ca_file = NULL;
            break;
        case 3:
            node.config.auth_cert_key_file = other_cert_key;
            break;
        case 4:
            node.config.auth_cert_file = key;
            break;
        case 5:
            node.config.auth_tls = OFF;
            break;
        case 6:
            node.config.auth_ca_file = key;
            break;
        default:
            assert_int_equal(chmod(cert_key, 0644), 0);
            break;
        }
        log_lines = 0;
        assert_true(node_try_open(&node, NULL) != UCS_OK);
        assert_int_equal(log_lines, 1);
    }
    assert_int_equal(chmod(cert_key, 0600), 0);
    log_count_end();
}

int main(void)
{
    return cw_tests_run(make_files, remove_files);
}
