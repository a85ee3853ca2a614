/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of UCX_PROTO_INFO (VAR-31): which path a message takes, by its length; VAR-20. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_SIZE = 1 << 16 };

/* Messages of some lengths from end to end, with whatever the environment says. */
static int talker(int fd, const char *argument)
{
    static const size_t lengths[] = {0, 100, 5000, 300000};
    struct cw_pair pair = {0};
    char *out = calloc(1, 300000), *in = malloc(300000), byte = 'k';

    (void)argument;
    if (out == NULL || in == NULL) {
        return 3;
    }
    cw_pair_open(&pair, NULL);
    for (int i = 0; i < 4; i++) {
        struct cw_op send = {0}, recv = {0};

        cw_op_recv(&recv, pair.rx->worker, in, lengths[i], 1, CW_TAG_ALL);
        cw_op_send(&send, pair.tx->ep, out, lengths[i], 1);
        assert_int_equal(cw_op_wait(&pair, &recv, "receive"), UCS_OK);
        assert_int_equal(cw_op_wait(&pair, &send, "send"), UCS_OK);
    }
    cw_pair_close(&pair);
    cw_fd_write(fd, &byte, 1);
    free(out);
    free(in);
    return 0;
}

/* What such a process writes to its log. */
static const char *log_of(const char *info, const char *threshold)
{
    static char text[TEXT_SIZE];
    char path[] = "/tmp/cw_proto_info_XXXXXX", byte;
    struct cw_remote remote;
    size_t length = 0;
    int fd = mkstemp(path);
    FILE *file;

    assert_true(fd >= 0);
    close(fd);
    setenv("UCX_LOG_FILE", path, 1);
    setenv("UCX_PROTO_INFO", info, 1);
    setenv("UCX_RNDV_THRESH", threshold, 1);
    cw_remote_start(&remote, "talker", NULL);
    unsetenv("UCX_LOG_FILE");
    unsetenv("UCX_PROTO_INFO");
    unsetenv("UCX_RNDV_THRESH");
    cw_fd_read(remote.fd, &byte, 1, NULL);
    cw_remote_join(&remote);
    file = fopen(path, "r");
    assert_non_null(file);
    length = fread(text, 1, sizeof(text) - 1, file);
    text[length] = '\0';
    fclose(file);
    unlink(path);
    return text;
}

static int count_of(const char *text, const char *word)
{
    int count = 0;

    for (text = strstr(text, word); text != NULL; text = strstr(text + 1, word)) {
        count++;
    }
    return count;
}

/* The rows of a table follow each other from 0 to the end. Returns how many tables there are. */
static int check_rows(const char *text)
{
    unsigned long long next = 0, first, last;
    int tables = 0, used;

    for (const char *range = strstr(text, "| "); range != NULL; range = strstr(range, "| ")) {
        range += strspn(range, "| ");
        used = 0;
        if (sscanf(range, "%llu..%n", &first, &used) != 1 || used == 0) {
            continue;
        }
        if (first != next) {
            fail_msg("A row begins with %llu instead of %llu", first, next);
        }
        if (strncmp(range + used, "inf", 3) == 0) {
            tables++;
            next = 0;
        } else {
            assert_int_equal(sscanf(range + used, "%llu", &last), 1);
            assert_true(last >= first);
            next = last + 1;
        }
    }
    assert_true(next == 0);
    return tables;
}

API_TEST(test_var31_nothing_unasked)
{
    assert_null(strstr(log_of("n", "auto"), "tag send"));
}

/* As rows of tables name it. */
static const char *transport_name(void)
{
    if (cw_test_self_only()) {
        return " self/";
    }
    if (cw_test_tls_has("rc")) {
        return " verbs/";
    }
    return cw_test_tls_has("tcp") ? " tcp/" : " posix/";
}

API_TEST(test_var31_a_table_for_each_operation)
{
    int workers = cw_test_self_only() ? 1 : 2;
    int by_device = cw_test_tls_has("rc") ? 5 : 0; /* memory with a handle, four tables of announced messages */
    const char *text = log_of("y", "auto");

    cw_test_skip_reference("its table looks different");
    assert_int_equal(count_of(text, ": tag send over "), workers); /* at the first use, not again */
    assert_int_equal(count_of(text, ": tag send with fast completion over "), workers);
    assert_null(strstr(text, "active message"));                   /* not a feature of this context */
    assert_int_equal(check_rows(text), (2 * 3 + by_device) * workers); /* memory, lists, generic datatypes */
    assert_non_null(strstr(text, "short"));
    assert_non_null(strstr(text, "eager"));
    assert_non_null(strstr(text, "rendezvous"));
    assert_non_null(strstr(text, transport_name()));
}

API_TEST(test_var31_pattern)
{
    const char *text = log_of("*fast*", "auto");

    cw_test_skip_reference("its table looks different");
    assert_null(strstr(text, ": tag send over "));
    assert_non_null(strstr(text, ": tag send with fast completion over "));
}

API_TEST(test_var20_thresholds_are_shown)
{
    const char *text;

    cw_test_skip_reference("its table looks different");
    text = log_of("tag send over*", "1234");
    assert_non_null(strstr(text, "1234..inf | rendezvous"));
    (void)check_rows(text);
    text = log_of("tag send over*", "0");
    assert_non_null(strstr(text, " 1..inf | rendezvous"));
    text = log_of("tag send over*", "inf");
    assert_null(strstr(text, "rendezvous"));
    assert_non_null(strstr(text, "..inf | eager"));
    assert_true(check_rows(text) > 0);
}

int main(int argc, char **argv)
{
    static const struct cw_role roles[] = {{"talker", talker}};

    return cw_test_main(argc, argv, roles, sizeof(roles) / sizeof(roles[0]));
}
