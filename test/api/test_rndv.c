/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rendezvous between two workers of one process, as a program sees it: a send completes after the match (TAG-16), with
 * a request of the program's, too (OPA-9), and thresholds and schemes change no result (TAG-15), whatever the length,
 * the memory and the number of messages. Two processes are in test_rndv_processes.c.
 */
#define _GNU_SOURCE
#include "test_rndv_common.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* One message between two given places. */
static void carry(struct cw_pair *pair, const void *from, void *to, size_t length, uint64_t seed, bool expected)
{
    struct cw_op send = {0}, recv = {0};
    ucp_tag_recv_info_t info;

    if (expected) {
        cw_op_recv(&recv, pair->rx->worker, to, length, 3, CW_TAG_ALL);
    }
    cw_op_send(&send, pair->tx->ep, from, length, 3);
    if (!expected) {
        cw_pair_wait_probe(pair, 3, CW_TAG_ALL, &info);
        cw_op_recv(&recv, pair->rx->worker, to, length, 3, CW_TAG_ALL);
    }
    assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
    assert_int_equal(recv.info.length, length);
    cw_pattern_check(to, length, seed);
}

API_TEST_WITH(test_tag16_a_send_completes_after_the_match, cw_test_setup, rndv_teardown)
{
    struct cw_buffer out = cw_buffer_new(2 * MIB), in = cw_buffer_new(2 * MIB);
    struct cw_user_request user;

    for (int i = 0; i < SCHEMES; i++) {
        struct cw_op send = {0}, recv = {0};
        ucp_request_param_t param = cw_param_send(&send);
        ucp_tag_recv_info_t info;

        use_rndv("1", schemes[i]);
        cw_pair_open(pair, NULL);
        user = cw_user_request_new(pair->tx->context);
        cw_pattern_fill(out.data, out.length, (uint64_t)i);
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_REQUEST;
        param.request = user.handle;
        cw_op_started(&send, ucp_tag_send_nbx(pair->tx->ep, out.data, out.length, 3, &param));
        assert_ptr_equal(send.result, user.handle);
        cw_pair_wait_probe(pair, 3, CW_TAG_ALL, &info);
        cw_pair_settle(pair);
        assert_int_equal(send.calls, 0); /* TAG-16 */
        cw_op_recv(&recv, pair->rx->worker, in.data, in.length, 3, CW_TAG_ALL);
        assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
        cw_pair_wait_count(pair, &send.calls, 1, "callback of the send"); /* OPA-9 */
        assert_int_equal(send.status, UCS_OK);
        cw_pattern_check(in.data, in.length, (uint64_t)i);
        cw_user_request_check(&user);
        cw_user_request_free(&user);
        cw_pair_close(pair);
    }
    cw_buffer_check(&in);
    cw_buffer_free(&out);
    cw_buffer_free(&in);
}

static const size_t huge_length = ((size_t)64 << 20) + 3;

API_TEST_WITH(test_tag15_huge_and_odd_lengths_arrive_whole, cw_test_setup, rndv_teardown)
{
    struct cw_buffer out = cw_buffer_new(huge_length), in = cw_buffer_new(huge_length);
    size_t length = (size_t)cw_test_scaled((long)huge_length);

    cw_pattern_fill(out.data, length, 64);
    for (int i = 0; i < SCHEMES; i++) {
        use_rndv("auto", schemes[i]);
        cw_pair_open(pair, NULL);
        memset(in.data, CW_GUARD_VALUE, length);
        carry(pair, out.data, in.data, length, 64, i % 2 == 0);
        cw_buffer_check(&in);
        cw_pair_close(pair);
    }
    cw_buffer_free(&out);
    cw_buffer_free(&in);
}

/* The last `length` bytes before a page that nobody may touch. */
static char *before_the_edge(size_t length, size_t *mapped)
{
    size_t pages = (length + PAGE - 1) / PAGE * PAGE;
    char *base = mmap(NULL, pages + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(base != MAP_FAILED);
    assert_int_equal(mprotect(base + pages, PAGE, PROT_NONE), 0);
    *mapped = pages + PAGE;
    return base + pages - length;
}

static char *mapped_file(size_t length, int flags, int *fd)
{
    char *base;

    *fd = memfd_create("rndv", MFD_CLOEXEC);
    assert_true(*fd >= 0);
    assert_int_equal(ftruncate(*fd, (off_t)length), 0);
    base = mmap(NULL, length, PROT_READ | PROT_WRITE, flags, *fd, 0);
    assert_true(base != MAP_FAILED);
    return base;
}

/* Source and target: at the edge of what is mapped; a file; read-only. */
static void odd_memory(struct cw_pair *pair, size_t length)
{
    size_t room = (length + PAGE - 1) / PAGE * PAGE, out_mapped, in_mapped;
    char *out = before_the_edge(length, &out_mapped), *in = before_the_edge(length, &in_mapped);
    int file_fd, shared_fd;
    char *file = mapped_file(room, MAP_PRIVATE, &file_fd), *shared = mapped_file(room, MAP_SHARED, &shared_fd);
    char *copy = malloc(length);

    assert_non_null(copy);
    cw_pattern_fill(out, length, length);
    for (int expected = 0; expected < 2; expected++) {
        carry(pair, out, in, length, length, expected);
        carry(pair, in, shared, length, length, expected);
        assert_int_equal(pread(shared_fd, copy, length, 0), length);
        cw_pattern_check(copy, length, length);
        carry(pair, shared, file, length, length, expected);
        assert_int_equal(mprotect(file, room, PROT_READ), 0);
        memset(out, 0, length);
        carry(pair, file, out, length, length, expected);
        assert_int_equal(mprotect(file, room, PROT_READ | PROT_WRITE), 0);
        memset(file, 0, length);
        memset(shared, 0, length);
        memset(in, 0, length);
    }
    free(copy);
    munmap(out - (room - length), out_mapped);
    munmap(in - (room - length), in_mapped);
    munmap(file, room);
    munmap(shared, room);
    close(file_fd);
    close(shared_fd);
}

API_TEST_WITH(test_tag15_memory_of_all_kinds_is_read_and_written, cw_test_setup, rndv_teardown)
{
    static const size_t lengths[] = {1, 100, PAGE, PAGE + 1, 100003, 3 * MIB + 5};

    for (int i = 0; i < SCHEMES; i++) {
        use_rndv("1", schemes[i]);
        cw_pair_open(pair, NULL);
        for (size_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++) {
            odd_memory(pair, lengths[k]);
        }
        cw_pair_close(pair);
    }
}

API_TEST_WITH(test_tag15_many_in_both_directions, cw_test_setup, rndv_teardown)
{
    enum { COUNT = 1000, LENGTH = 3001 };
    struct cw_op *sends = calloc(2 * COUNT, sizeof(*sends)), *recvs = calloc(2 * COUNT, sizeof(*recvs));
    char *out = malloc(2 * COUNT * LENGTH), *in = malloc(2 * COUNT * LENGTH);

    assert_true(sends != NULL && recvs != NULL && out != NULL && in != NULL);
    for (int k = 0; k < SCHEMES; k++) {
        use_rndv("1", schemes[k]);
        cw_pair_open(pair, NULL);
        memset(sends, 0, 2 * COUNT * sizeof(*sends));
        memset(recvs, 0, 2 * COUNT * sizeof(*recvs));
        memset(in, 0, 2 * COUNT * LENGTH);
        for (int step = 0; step < 3; step++) { /* half of the receives first, then all sends, then the rest */
            for (int i = 0; i < 2 * COUNT; i++) {
                struct cw_side *from = i % 2 == 0 ? pair->tx : pair->rx, *to = i % 2 == 0 ? pair->rx : pair->tx;

                if (step == 1) {
                    cw_pattern_fill(out + i * LENGTH, LENGTH, (uint64_t)(i + k));
                    cw_op_send(&sends[i], from->ep, out + i * LENGTH, LENGTH, (ucp_tag_t)i);
                } else if ((i / 2 % 2 == 0) == (step == 0)) {
                    cw_op_recv(&recvs[i], to->worker, in + i * LENGTH, LENGTH, (ucp_tag_t)i, CW_TAG_ALL);
                }
            }
        }
        for (int i = 0; i < 2 * COUNT; i++) {
            assert_int_equal(cw_op_wait(pair, &recvs[i], "receive"), UCS_OK);
            assert_int_equal(cw_op_wait(pair, &sends[i], "send"), UCS_OK);
            cw_pattern_check(in + i * LENGTH, LENGTH, (uint64_t)(i + k));
        }
        cw_pair_close(pair);
    }
    free(sends);
    free(recvs);
    free(out);
    free(in);
}

/* Some dozen long transfers at once share the few claim pairs of a connection. */
API_TEST_WITH(test_tag15_many_long_ones_at_once, cw_test_setup, rndv_teardown)
{
    enum { COUNT = 60, LENGTH = 1200001 };
    struct cw_op sends[COUNT] = {{0}}, recvs[COUNT] = {{0}};
    char *out = malloc((size_t)COUNT * LENGTH), *in = calloc(COUNT, LENGTH);

    assert_true(out != NULL && in != NULL);
    use_rndv("auto", "auto");
    cw_pair_open(pair, NULL);
    for (size_t i = 0; i < COUNT; i++) {
        cw_pattern_fill(out + i * LENGTH, LENGTH, i);
        cw_op_send(&sends[i], pair->tx->ep, out + i * LENGTH, LENGTH, i);
    }
    for (size_t i = COUNT; i-- > 0;) {
        cw_op_recv(&recvs[i], pair->rx->worker, in + i * LENGTH, LENGTH, i, CW_TAG_ALL);
    }
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(cw_op_wait(pair, &recvs[i], "receive"), UCS_OK);
        assert_int_equal(cw_op_wait(pair, &sends[i], "send"), UCS_OK);
        cw_pattern_check(in + i * LENGTH, LENGTH, i);
    }
    free(out);
    free(in);
    cw_pair_close(pair);
}

int main(int argc, char **argv)
{
    return cw_tests_main(argc, argv);
}
