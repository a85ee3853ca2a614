/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages between memory of devices within a process, and between two processes of a host: one copy by the
 * device. On the stand-in, which counts the copies and what is open, and which ends the program if memory is used that
 * its process has freed. Over tcp the bytes go through the host.
 */
#include "harness.h"

#include <endian.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/dispatch.h"
#include "core/worker.h"
#include "msg/op_ep.h"
#include "wire/packet.h"

#define LENGTH ((size_t)3 << 20)
#include "standin_memory.h"
#include "standin_peer.h"

enum { MESSAGES = 5 };

/* What arrives of these packets is changed. */
static void (*change)(struct cw_wire_rndv_name *packet);
static unsigned names;

void __real_cw_op_packet(struct cw_conn *conn, uint8_t id, const void *data, size_t length);
void __wrap_cw_op_packet(struct cw_conn *conn, uint8_t id, const void *data, size_t length);

void __wrap_cw_op_packet(struct cw_conn *conn, uint8_t id, const void *data, size_t length)
{
    struct cw_wire_rndv_name packet;

    if (id != CW_PACKET_RNDV_NAME) {
        __real_cw_op_packet(conn, id, data, length);
        return;
    }
    assert_int_equal(length, sizeof(packet));
    memcpy(&packet, data, sizeof(packet));
    names++;
    if (change != NULL) {
        change(&packet);
    }
    __real_cw_op_packet(conn, id, &packet, sizeof(packet));
}

static int is_one_host(void)
{
    return cw_test_tls_has("shm") || cw_test_self_only();
}

static int setup(void **state)
{
    begin();
    change = NULL;
    names = 0;
    return cw_test_setup(state);
}

static int teardown(void **state)
{
    int status = cw_test_teardown(state);

    end();
    return status;
}

static ucs_status_t move(struct cw_pair *pair, const char *from, char *to, ucs_status_t *sent_p)
{
    const ucp_request_param_t param = cw_param_none();
    ucs_status_ptr_t sent, received;

    received = ucp_tag_recv_nbx(pair->rx->worker, to, LENGTH, 1, CW_TAG_ALL, &param);
    sent = ucp_tag_send_nbx(pair->tx->ep, from, LENGTH, 1, &param);
    *sent_p = cw_pair_wait(pair, sent, "a send");
    return cw_pair_wait(pair, received, "a receive");
}

/* ---- within a process ---- */

static void one_copy(struct cw_pair *pair, const char *from, char *to, uint64_t seed)
{
    const unsigned copies = standin_calls("cuMemcpyAsync");
    const unsigned waits = standin_calls("cuStreamSynchronize") + standin_calls("cuEventSynchronize");
    ucs_status_t sent;

    fill((char *)(uintptr_t)from, seed);
    assert_int_equal(move(pair, from, to, &sent), UCS_OK);
    assert_int_equal(sent, UCS_OK);
    check(to, seed);
    if (is_one_host()) {
        assert_int_equal(standin_calls("cuMemcpyAsync") - copies, 1);
        assert_int_equal(names, 1);
    } else {
        assert_true(standin_calls("cuMemcpyAsync") - copies > 1);
        assert_int_equal(names, 0);
    }
    assert_int_equal(standin_calls("cuStreamSynchronize") + standin_calls("cuEventSynchronize"), waits);
    names = 0;
}

/* One copy, for which progress does not wait; of device memory, of memory of another device, and of managed memory. */
API_TEST_WITH(test_messages_in_a_process, setup, teardown)
{
    char *from = device_new(LENGTH), *to = device_new(LENGTH), *elsewhere;
    cuda_ptr managed[2];
    cuda_context other;

    cw_pair_open(pair, &config);
    one_copy(pair, from, to, 1);
    ok(cuCtxCreate_v2(&other, 0, 1));
    elsewhere = device_new(LENGTH);
    one_copy(pair, elsewhere, to, 2);
    one_copy(pair, to, elsewhere, 3);
    ok(cuCtxSetCurrent(primary));
    ok(cuMemAllocManaged(&managed[0], LENGTH, CUDA_MANAGED_GLOBAL));
    ok(cuMemAllocManaged(&managed[1], LENGTH, CUDA_MANAGED_GLOBAL));
    one_copy(pair, (char *)(uintptr_t)managed[0], (char *)(uintptr_t)managed[1], 4);
    cw_pair_close(pair);
    device_free(from);
    device_free(to);
    ok(cuMemFree_v2(managed[0]));
    ok(cuMemFree_v2(managed[1]));
    ok(cuCtxDestroy_v2(other));
    ok(cuCtxSetCurrent(primary));
}

/* From or to memory of the host nothing is gained by a name. */
API_TEST_WITH(test_memory_of_the_host, setup, teardown)
{
    char *host = malloc(LENGTH), *device = device_new(LENGTH);
    ucs_status_t sent;

    cw_pair_open(pair, &config);
    fill(host, 1);
    assert_int_equal(move(pair, host, device, &sent), UCS_OK);
    check(device, 1);
    fill(device, 2);
    assert_int_equal(move(pair, device, host, &sent), UCS_OK);
    check(host, 2);
    assert_int_equal(names, 0);
    cw_pair_close(pair);
    device_free(device);
    free(host);
}

API_TEST_WITH(test_puts_and_gets, setup, teardown)
{
    ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                .length = LENGTH};
    const ucp_request_param_t param = cw_param_none();
    char *from = device_new(LENGTH), *there = device_new(LENGTH), *back = device_new(LENGTH);
    ucp_rkey_h rkey;
    ucp_mem_h memh;
    unsigned copies;
    void *packed;
    size_t size;

    cw_pair_open(pair, &config);
    map.address = there;
    assert_int_equal(ucp_mem_map(pair->rx->context, &map, &memh), UCS_OK);
    assert_int_equal(ucp_rkey_pack(pair->rx->context, memh, &packed, &size), UCS_OK);
    assert_int_equal(ucp_ep_rkey_unpack(pair->tx->ep, packed, &rkey), UCS_OK);
    ucp_rkey_buffer_release(packed);
    assert_int_equal(cw_pair_wait(pair, ucp_ep_flush_nbx(pair->tx->ep, &param), "a flush"), UCS_OK);
    for (uint64_t turn = 1; turn <= 3; turn++) {
        fill(from, turn);
        copies = standin_calls("cuMemcpyAsync");
        assert_int_equal(
            cw_pair_wait(pair, ucp_put_nbx(pair->tx->ep, from, LENGTH, (uintptr_t)there, rkey, &param), "a put"),
            UCS_OK);
        assert_int_equal(cw_pair_wait(pair, ucp_ep_flush_nbx(pair->tx->ep, &param), "a flush"), UCS_OK);
        check(there, turn);
        assert_int_equal(
            cw_pair_wait(pair, ucp_get_nbx(pair->tx->ep, back, LENGTH, (uintptr_t)there, rkey, &param), "a get"),
            UCS_OK);
        check(back, turn);
        if (is_one_host()) {
            assert_int_equal(standin_calls("cuMemcpyAsync") - copies, 2);
            assert_int_equal(names, 2);
            names = 0;
        }
    }
    ucp_rkey_destroy(rkey);
    assert_int_equal(ucp_mem_unmap(pair->rx->context, memh), UCS_OK);
    cw_pair_close(pair);
    device_free(from);
    device_free(there);
    device_free(back);
}

/* The device fails: the message comes in pieces, or fails; nothing crashes, and a further message arrives. */
API_TEST_WITH(test_a_device_that_fails, setup, teardown)
{
    char *from = device_new(LENGTH), *to = device_new(LENGTH);
    ucs_status_t sent;

    cw_pair_open(pair, &config);
    fill(from, 1);
    standin_fail("cuMemcpyAsync", 0, CUDA_ILLEGAL_ADDRESS);
    assert_int_not_equal(move(pair, from, to, &sent), UCS_OK);
    standin_fail(NULL, 0, 0);
    if (is_one_host()) {
        standin_fail("cuEventCreate", 0, CUDA_NO_MEMORY); /* then it waits, and all is there */
        if (pair->tx->ep != NULL && sent == UCS_OK) {
            assert_int_equal(move(pair, from, to, &sent), UCS_OK);
            check(to, 1);
        }
        standin_fail(NULL, 0, 0);
    }
    device_free(from);
    device_free(to);
}

/* ---- hostile names ---- */

static struct cw_wire_rndv_name lie;

static void send_lie(struct cw_wire_rndv_name *packet)
{
    packet->form = lie.form ? lie.form : packet->form;
    packet->buffer = htole64(le64toh(packet->buffer) + lie.buffer);
    packet->start = htole64(le64toh(packet->start) + lie.start);
    packet->size = htole64(le64toh(packet->size) + lie.size);
    packet->address = htole64(le64toh(packet->address) + lie.address);
}

/* A name that the driver does not confirm is not believed: the bytes come in pieces, and they are the right ones. */
API_TEST_WITH(test_names_that_are_not_confirmed, setup, teardown)
{
    static const struct cw_wire_rndv_name lies[] = {{.form = 2},
                                                    {.buffer = 1},
                                                    {.start = (uint64_t)-4096, .address = (uint64_t)-4096},
                                                    {.start = (uint64_t)1 << 40, .address = (uint64_t)1 << 40},
                                                    {.size = (uint64_t)1 << 30, .address = 4096}};
    char *from = device_new(LENGTH), *to = device_new(LENGTH);
    ucs_status_t sent;

    cw_test_skip_over("tcp", "no names travel over tcp");
    cw_pair_open(pair, &config);
    change = send_lie;
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        lie = lies[i];
        names = 0;
        fill(from, i);
        assert_int_equal(move(pair, from, to, &sent), UCS_OK);
        assert_int_equal(sent, UCS_OK);
        assert_int_equal(names, 1);
        check(to, i);
    }
    cw_pair_close(pair);
    device_free(from);
    device_free(to);
}

/* A name that cannot be right breaks the protocol. */
static void breaks(struct cw_pair *pair, const struct cw_wire_rndv_name *what)
{
    char *from = device_new(LENGTH), *to = device_new(LENGTH);
    ucs_status_t sent;

    cw_pair_open(pair, &config);
    lie = *what;
    change = send_lie;
    assert_int_not_equal(move(pair, from, to, &sent), UCS_OK);
    assert_int_equal(names, 1);
    change = NULL;
    device_free(from);
    device_free(to);
}

TEST_WITH(test_an_unknown_form, setup, teardown)
{
    cw_test_skip_over("tcp", "no names travel over tcp");
    breaks(*state, &(const struct cw_wire_rndv_name){.form = 77});
}

TEST_WITH(test_bytes_beyond_the_allocation, setup, teardown)
{
    cw_test_skip_over("tcp", "no names travel over tcp");
    breaks(*state, &(const struct cw_wire_rndv_name){.address = 1 << 20});
}

TEST_WITH(test_an_allocation_that_wraps_around, setup, teardown)
{
    cw_test_skip_over("tcp", "no names travel over tcp");
    breaks(*state, &(const struct cw_wire_rndv_name){.size = UINT64_MAX - LENGTH});
}

/* ---- ends ---- */

/* Starts a message within the process and goes on until the device copies it. */
static void begin_copy(struct cw_pair *pair, const char *from, char *to, ucs_status_ptr_t *sent,
                       ucs_status_ptr_t *received)
{
    const ucp_request_param_t param = cw_param_none();
    const unsigned before = standin_calls("cuEventRecord");
    const double end_s = cw_time_now_s() + CW_WAIT_S;

    standin_delay(50000000, 0);
    *received = ucp_tag_recv_nbx(pair->rx->worker, to, LENGTH, 1, CW_TAG_ALL, &param);
    *sent = ucp_tag_send_nbx(pair->tx->ep, from, LENGTH, 1, &param);
    while (standin_calls("cuEventRecord") == before && cw_time_now_s() < end_s) {
        cw_pair_progress(pair);
    }
    assert_int_not_equal(standin_calls("cuEventRecord"), before);
}

/* The program frees either end under the copy: the driver waits for it, and the message is over in good order. */
API_TEST_WITH(test_memory_that_is_freed_meanwhile, setup, teardown)
{
    ucs_status_ptr_t sent, received;

    cw_pair_open(pair, &config);
    for (int end = 0; end < 2; end++) {
        char *from = device_new(LENGTH), *to = device_new(LENGTH);

        begin_copy(pair, from, to, &sent, &received);
        device_free(end ? from : to);
        (void)cw_pair_wait(pair, received, "a receive");
        (void)cw_pair_wait(pair, sent, "a send");
        device_free(end ? to : from);
        if (!is_one_host()) {
            break; /* chunks of freed memory cannot be copied, which costs the endpoint */
        }
    }
}

#if HAS_CONTEXTS
/* The context of the receiver's memory is destroyed under the copy: the receive fails, and the process goes on. */
API_TEST_WITH(test_a_context_that_is_destroyed_meanwhile, setup, teardown)
{
    char *from = device_new(LENGTH), *to;
    ucs_status_ptr_t sent, received;
    cuda_context context;

    cw_pair_open(pair, &config);
    ok(cuCtxCreate_v2(&context, 0, 1));
    to = device_new(LENGTH);
    begin_copy(pair, from, to, &sent, &received);
    ok(cuCtxDestroy_v2(context));
    ok(cuCtxSetCurrent(primary));
    assert_int_equal(cw_pair_wait(pair, received, "a receive"), UCS_ERR_IO_ERROR);
    (void)cw_pair_wait(pair, sent, "a send");
    device_free(from);
}
#endif

/* A child that is forked under the copy and ends disturbs nothing. */
API_TEST_WITH(test_a_fork_meanwhile, setup, teardown)
{
    char *from = device_new(LENGTH), *to = device_new(LENGTH);
    ucs_status_ptr_t sent, received;
    int status;
    pid_t pid;

    cw_pair_open(pair, &config);
    fill(from, 1);
    begin_copy(pair, from, to, &sent, &received);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(cw_pair_wait(pair, received, "a receive"), UCS_OK);
    assert_int_equal(cw_pair_wait(pair, sent, "a send"), UCS_OK);
    check(to, 1);
    cw_pair_close(pair);
    device_free(from);
    device_free(to);
}

/* A process that calls exit() under the copy ends with that status. */
static int run_leaver(int fd, const char *argument)
{
    ucs_status_ptr_t sent, received;
    struct cw_pair pair = {.count = 0};

    (void)fd, (void)argument;
    begin();
    cw_pair_open(&pair, &config);
    begin_copy(&pair, device_new(LENGTH), device_new(LENGTH), &sent, &received);
    exit(0);
}

TEST_WITH(test_an_exit_meanwhile, setup, teardown)
{
    struct cw_remote remote;

    cw_remote_start(&remote, "leaver", NULL);
    cw_remote_join(&remote);
}

/* ---- two processes ---- */

/* Sends messages as the argument says: "same" memory, memory "again" freed and allocated at the same address, or memory
 * that is "mapped" and has no handle. */
static int run_sender(int fd, const char *argument)
{
    const int again = strcmp(argument, "again") == 0;
    struct peer peer;
    unsigned copies;
    char *from;

    begin();
    peer_open(&peer, fd);
    from = device_new(LENGTH);
    copies = standin_calls("cuMemcpyAsync");
    for (uint64_t i = 0; i < MESSAGES; i++) {
        fill(from, i);
        peer_send(&peer, from);
        if (again) {
            const char *before = from;

            device_free(from);
            standin_reuse_addresses();
            from = device_new(LENGTH);
            assert_ptr_equal(from, before);
        }
    }
    if (strcmp(argument, "fails") != 0 && is_one_host()) {
        assert_int_equal(standin_calls("cuMemcpyAsync") - copies, 0);
    }
    peer_close(&peer);
    device_free(from);
    end();
    return 0;
}

struct counts {
    unsigned copies, opens, closes;
};

static struct counts counts_now(void)
{
    return (struct counts){standin_calls("cuMemcpyAsync"), standin_calls("cuIpcOpenMemHandle_v2"),
                           standin_calls("cuIpcCloseMemHandle")};
}

static struct counts receive_all(struct peer *peer, const char *sender)
{
    const struct counts before = counts_now();
    char *to = device_new(LENGTH);
    struct cw_remote remote;
    struct counts after;

    cw_remote_start(&remote, "sender", sender);
    peer_open(peer, remote.fd);
    for (uint64_t i = 0; i < MESSAGES; i++) {
        assert_int_equal(peer_receive(peer, to), UCS_OK);
        check(to, i);
    }
    after = counts_now();
    peer_close(peer);
    cw_remote_join(&remote);
    device_free(to);
    assert_int_equal(standin_opened(), 0);
    return (struct counts){after.copies - before.copies, after.opens - before.opens, after.closes - before.closes};
}

/* The memory is opened once, each message is one copy, and nothing stays open behind the connection. */
TEST_WITH(test_messages_between_processes, setup, teardown)
{
    struct counts counts;
    struct peer peer;

    cw_test_need_two_processes();
    counts = receive_all(&peer, "same");
    if (is_one_host()) {
        assert_int_equal(counts.copies, MESSAGES);
        assert_int_equal(counts.opens, 1);
        assert_int_equal(counts.closes, 0);
    } else {
        assert_int_equal(counts.opens, 0);
    }
}

/* Another allocation at the same address is another one: the stand-in ends a program that reads the old one. */
TEST_WITH(test_memory_that_is_allocated_again, setup, teardown)
{
    struct counts counts;
    struct peer peer;

    cw_test_need_two_processes();
    counts = receive_all(&peer, "again");
    if (is_one_host()) {
        assert_int_equal(counts.copies, MESSAGES);
        assert_int_equal(counts.opens, MESSAGES);
        assert_int_equal(counts.closes, MESSAGES - 1);
    }
}

/* The driver opens nothing, as in containers: all arrives through the host, and the log says it once. */
TEST_WITH(test_memory_that_cannot_be_opened, setup, teardown)
{
    struct counts counts;
    struct peer peer;
    char text[4096];
    int saved[2], file;

    cw_test_need_two_processes();
    cw_test_skip_over("tcp", "no names travel over tcp");
    standin_fail("cuIpcOpenMemHandle_v2", 0, CUDA_NOT_SUPPORTED);
    file = cw_capture_start(saved);
    counts = receive_all(&peer, "fails");
    cw_capture_end(file, saved, text, sizeof(text));
    assert_true(counts.copies > MESSAGES);
    assert_int_equal(counts.opens, MESSAGES);
    assert_non_null(strstr(text, "cannot open GPU memory"));
    assert_non_null(strstr(text, "several times slower"));
    assert_null(strstr(strstr(text, "cannot open GPU memory") + 1, "cannot open GPU memory"));
}

/* Receives all messages. */
static int run_receiver(int fd, const char *argument)
{
    struct peer peer;
    char *to;

    (void)argument;
    begin();
    to = device_new(LENGTH);
    peer_open(&peer, fd);
    for (uint64_t i = 0; i < MESSAGES; i++) {
        assert_int_equal(peer_receive(&peer, to), UCS_OK);
        check(to, i);
    }
    assert_int_equal(standin_calls("cuIpcOpenMemHandle_v2"), 0);
    peer_close(&peer);
    device_free(to);
    end();
    return 0;
}

/* Memory of a pool has no IPC handle: all arrives through the host, and the log says it once. */
TEST_WITH(test_memory_without_a_handle, setup, teardown)
{
    struct cw_remote remote;
    struct peer peer;
    char text[4096];
    int saved[2], file;
    cuda_ptr from;

    cw_test_need_two_processes();
    cw_test_skip_over("tcp", "no names travel over tcp");
    ok(cuMemAllocAsync(&from, LENGTH, NULL));
    cw_remote_start(&remote, "receiver", NULL);
    peer_open(&peer, remote.fd);
    file = cw_capture_start(saved);
    for (uint64_t i = 0; i < MESSAGES; i++) {
        fill((char *)(uintptr_t)from, i);
        peer_send(&peer, (char *)(uintptr_t)from);
    }
    cw_capture_end(file, saved, text, sizeof(text));
    peer_close(&peer);
    cw_remote_join(&remote);
    ok(cuMemFreeAsync(from, NULL));
    assert_non_null(strstr(text, "has no IPC handle"));
    assert_null(strstr(strstr(text, "has no IPC handle") + 1, "has no IPC handle"));
}

/* UCX_TLS without cuda_ipc or rocm_ipc opens nothing. */
TEST_WITH(test_a_setting_forbids_it, setup, teardown)
{
    struct counts counts;
    struct peer peer;
    char *tls;

    cw_test_need_two_processes();
    cw_test_skip_over("tcp", "no names travel over tcp");
    tls = strdup(getenv("UCX_TLS"));
    assert_int_equal(setenv("UCX_TLS", "self,shm," COPIES, 1), 0);
    counts = receive_all(&peer, "fails");
    assert_int_equal(setenv("UCX_TLS", tls, 1), 0);
    assert_int_equal(counts.opens, 0);
    assert_true(counts.copies > MESSAGES);
    free(tls);
}

/* The sender dies while the device copies from its memory: the receive ends, and nothing stays open. */
static int run_victim(int fd, const char *argument)
{
    const ucp_request_param_t param = cw_param_none();
    struct peer peer;
    char *from;

    (void)argument;
    begin();
    peer_open(&peer, fd);
    from = device_new(LENGTH);
    (void)ucp_tag_send_nbx(peer.ep, from, LENGTH, 1, &param);
    while (getppid() != 1) {
        (void)ucp_worker_progress(peer.side.worker);
    }
    return 0;
}

TEST_WITH(test_a_sender_that_dies, setup, teardown)
{
    const struct cw_pair_config peer_config = {.features = config.features, .peer_mode = true};
    const ucp_request_param_t param = cw_param_none();
    char *to = device_new(LENGTH);
    struct cw_remote remote;
    ucs_status_ptr_t received;
    struct peer peer;
    double end_s;

    cw_test_need_two_processes();
    cw_test_skip_over("tcp", "no names travel over tcp");
    cw_remote_start(&remote, "victim", NULL);
    peer.fd = remote.fd;
    cw_side_open(&peer.side, &peer_config);
    peer.ep = cw_fd_connect(remote.fd, &peer.side, &peer_config);
    cw_fd_barrier(remote.fd, peer.side.worker);
    standin_delay(300000000, 0);
    received = ucp_tag_recv_nbx(peer.side.worker, to, LENGTH, 1, CW_TAG_ALL, &param);
    end_s = cw_time_now_s() + CW_WAIT_S;
    while (standin_opened() == 0 && cw_time_now_s() < end_s) {
        (void)ucp_worker_progress(peer.side.worker);
    }
    assert_int_equal(standin_opened(), 1);
    assert_int_equal(kill(remote.pid, SIGKILL), 0);
    assert_int_equal(waitpid(remote.pid, NULL, 0), remote.pid);
    close(remote.fd);
    assert_int_not_equal(cw_worker_wait_request(peer.side.worker, received, "a receive"), UCS_INPROGRESS);
    ucp_ep_destroy(peer.ep);
    cw_side_destroy(&peer.side);
    device_free(to);
}

int main(int argc, char **argv)
{
    static const struct cw_role roles[] = {
        {"sender", run_sender}, {"receiver", run_receiver}, {"victim", run_victim}, {"leaver", run_leaver}};

    return cw_test_main(argc, argv, roles, sizeof(roles) / sizeof(roles[0]));
}
