/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A receiver that is flooded with messages nobody asked for: the sender may post as many as it likes (TAG-27), nothing
 * is lost or refused (TAG-14), they are received in the order of sending (TAG-10), and until then the receiver keeps no
 * more of them than its window and a note for each. The second process floods; the first one measures its own memory.
 */
#include "test_rndv_common.h"

#include <string.h>

enum { LENGTH = 4000, POOL = 1 << 20, BATCH = 200 };

static long message_count(void)
{
    return cw_test_scaled(100L * MIB / LENGTH);
}

static char *message_of(char *pool, long number)
{
    return pool + number * 61 % POOL;
}

static char *pool_new(void)
{
    char *pool = malloc(POOL + LENGTH);

    assert_non_null(pool);
    cw_pattern_fill(pool, POOL + LENGTH, 1);
    return pool;
}

static int flooder(int fd, const char *argument)
{
    struct cw_side side;
    char *pool = pool_new(), answer = 'k';
    long count = message_count(), done = 0;
    ucs_status_ptr_t *requests = calloc((size_t)count, sizeof(*requests));
    ucp_request_param_t param = cw_param_none();

    (void)argument;
    assert_non_null(requests);
    cw_side_open(&side, NULL);
    side.ep = cw_fd_connect(fd, &side, &(const struct cw_pair_config){.peer_mode = true});
    for (long i = 0; i < count; i++) { /* TAG-27 */
        requests[i] = ucp_tag_send_nbx(side.ep, message_of(pool, i), LENGTH, (ucp_tag_t)i, &param);
        assert_false(UCS_PTR_IS_ERR(requests[i]));
        ucp_worker_progress(side.worker);
    }
    cw_fd_write(fd, &answer, 1);
    cw_fd_read(fd, &answer, 1, side.worker); /* it goes on sending what there is room for */
    for (; done < count; done++) {
        assert_int_equal(cw_worker_wait_request(side.worker, requests[done], "send of the flood"), UCS_OK);
    }
    cw_fd_barrier(fd, side.worker);
    cw_side_destroy(&side);
    free(requests);
    free(pool);
    return 0;
}

static void progress_until_quiet(ucp_worker_h worker)
{
    double now = cw_time_now_s(), quiet_since = now;

    while (now < quiet_since + 0.1) {
        bool busy = ucp_worker_progress(worker) > 0;

        now = cw_time_now_s();
        quiet_since = busy ? now : quiet_since;
    }
}

static void open_with_flooder(struct cw_pair *pair, struct cw_remote *remote)
{
    cw_remote_start(remote, "flooder", NULL);
    cw_side_open(&pair->sides[0], NULL);
    pair->count = 1;
    pair->tx = pair->rx = &pair->sides[0];
    pair->tx->ep = cw_fd_connect(remote->fd, pair->tx, &(const struct cw_pair_config){.peer_mode = true});
}

/* The flooder has posted all and whatever there is room for has come: by how many KiB the receiver grew. */
static long grown_by_all(const struct cw_remote *remote, ucp_worker_h worker)
{
    long before = cw_process_rss_kb();
    char byte;

    cw_fd_read(remote->fd, &byte, 1, worker);
    progress_until_quiet(worker);
    return cw_process_rss_kb() - before;
}

static void receive_all_in_order(struct cw_pair *pair, char *pool)
{
    static char in[BATCH][LENGTH];
    static struct cw_op recvs[BATCH];
    const long count = message_count();

    for (long i = 0; i < count; i++) {
        struct cw_op *recv = &recvs[i % BATCH];

        if (i % BATCH == 0) {
            memset(recvs, 0, sizeof(recvs));
            for (long k = 0; k < BATCH && i + k < count; k++) {
                cw_op_recv(&recvs[k], pair->tx->worker, in[k], LENGTH, 0, 0);
            }
        }
        assert_int_equal(cw_op_wait(pair, recv, "receive of the flood"), UCS_OK);
        assert_int_equal(recv->info.sender_tag, i); /* TAG-10 */
        assert_int_equal(recv->info.length, LENGTH);
        assert_memory_equal(in[i % BATCH], message_of(pool, i), LENGTH);
    }
}

API_TEST_WITH(test_tag14_unexpected_messages_are_bounded_and_none_is_lost, cw_test_setup, rndv_teardown)
{
    enum { WINDOW_KB = 16 << 10, NOTE_BYTES = 256, SLACK_KB = 8 << 10 };
    struct cw_remote remote;
    char *pool;
    long grown;

    cw_test_need_two_processes();
    cw_test_skip_reference("it keeps everything");
    cw_test_skip_over("ofi", "providers have receive buffers of their own");
    pool = pool_new();
    use_rndv("inf", "auto");
    open_with_flooder(pair, &remote);

    grown = grown_by_all(&remote, pair->tx->worker);
    print_message("%ld messages of %d bytes grew the receiver by %ld KiB\n", message_count(), LENGTH, grown);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_true(grown < WINDOW_KB + message_count() * NOTE_BYTES / 1024 + SLACK_KB);
#endif

    cw_fd_write(remote.fd, "g", 1);
    receive_all_in_order(pair, pool);
    cw_fd_barrier(remote.fd, pair->tx->worker);
    cw_remote_join(&remote);
    free(pool);
}

int main(int argc, char **argv)
{
    static const struct cw_role roles[] = {{"flooder", flooder}};

    return cw_test_main(argc, argv, roles, 1);
}
