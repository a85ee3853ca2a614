/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chunks between two processes (test_chunks.c): their descriptors go over the connection's socket, and may be of
 * anything; either process may die.
 */
#include "harness.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/memory.h"

#define LENGTH ((size_t)3 << 20)
#include "standin_memory.h"
#include "standin_peer.h"
#include "chunk_packets.h"

enum { MESSAGES = 5 };

/* ---- two processes ---- */

/* In place of the descriptors the sender passes these. */
enum lie { HONEST, NOTHING, A_DEVICE, A_PIPE, OTHER_MEMORY, EMPTY_MEMORY, SHORTER, CUT_OFF, REFUSED, LIES };

static enum lie fd_lie;
static unsigned passes;

int __real_cw_shm_pass(struct cw_conn *conn, uint64_t number, int fd);
int __wrap_cw_shm_pass(struct cw_conn *conn, uint64_t number, int fd);

/* Memory of this library, but of another length. */
static int shorter_memory(void)
{
    const struct cw_memory_spec spec = {.length = CHUNK / 2, .shareable = 1};
    struct cw_memory memory;

    assert_int_equal(cw_memory_allocate(&spec, &memory), UCS_OK);
    return memory.fd;
}

static int fd_of_lie(void)
{
    int fds[2] = {-1, -1};

    switch (fd_lie) {
    case A_DEVICE:
        fds[0] = open("/dev/null", O_RDWR | O_CLOEXEC);
        break;
    case A_PIPE:
        assert_int_equal(pipe(fds), 0);
        close(fds[1]);
        break;
    case EMPTY_MEMORY:
        fds[0] = memfd_create("empty", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        break;
    case SHORTER:
        fds[0] = shorter_memory();
        break;
    default: /* as long as a chunk, but its owner may cut it off */
        fds[0] = memfd_create("causeway-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        assert_int_equal(ftruncate(fds[0], (off_t)(CHUNK + (size_t)sysconf(_SC_PAGESIZE))), 0);
        assert_int_equal(fcntl(fds[0], F_ADD_SEALS, (fd_lie == CUT_OFF) ? F_SEAL_GROW | F_SEAL_SEAL : 0), 0);
        break;
    }
    assert_true(fds[0] >= 0);
    return fds[0];
}

int __wrap_cw_shm_pass(struct cw_conn *conn, uint64_t number, int fd)
{
    int other, passed;

    if (fd < 0) {
        return __real_cw_shm_pass(conn, number, fd);
    }
    passes++;
    if (fd_lie == HONEST) {
        return __real_cw_shm_pass(conn, number, fd);
    }
    if (fd_lie == NOTHING || fd_lie == REFUSED) {
        return fd_lie == NOTHING;
    }
    other = fd_of_lie();
    passed = __real_cw_shm_pass(conn, number, other);
    close(other);
    return passed;
}

static int give_back_all(struct cw_conn *conn, struct cw_wire_rndv_taken *packet)
{
    (void)conn;
    packet->keeps = 0;
    return 1;
}

/* Sends messages; with a number, and that lie about descriptors; "unkept": believes that the receiver keeps no
 * chunk. */
static int run_sender(int fd, const char *argument)
{
    struct peer peer;
    char *from;

    begin();
    fd_lie = (argument[0] >= '0' && argument[0] <= '9') ? (enum lie)atoi(argument) : HONEST;
    from = device_new(LENGTH);
    if (strcmp(argument, "unkept") == 0) {
        change_taken = give_back_all;
    }
    peer_open(&peer, fd);
    for (uint64_t i = 0; i < MESSAGES; i++) {
        fill(from, i);
        peer_send(&peer, from);
    }
    if (strcmp(argument, "same") == 0) {
        assert_int_equal(passes, CW_WIRE_CHUNKS_OUT);
    } else if (strcmp(argument, "unkept") == 0) {
        assert_int_equal(passes, MESSAGES * CHUNKS);
    }
    peer_close(&peer);
    device_free(from);
    end();
    return 0;
}

static unsigned open_fds(void)
{
    unsigned count = 0;

    for (int fd = 0; fd < 1024; fd++) {
        count += fcntl(fd, F_GETFD) >= 0;
    }
    return count;
}

static void receive_all(const char *argument)
{
    char *to = device_new(LENGTH);
    unsigned fds = 0;
    struct cw_remote remote;
    struct peer peer;

    forget_counts();
    cw_remote_start(&remote, "sender", argument);
    peer_open(&peer, remote.fd);
    for (uint64_t i = 0; i < MESSAGES; i++) {
        assert_int_equal(peer_receive(&peer, to), UCS_OK);
        check(to, i);
        fds = (i == 0) ? open_fds() : fds;
    }
    assert_int_equal(open_fds(), fds);
    peer_close(&peer);
    cw_remote_join(&remote);
    device_free(to);
}

/* Each chunk is passed, mapped and pinned once, and nothing stays behind the connection. */
TEST_WITH(test_messages_between_processes, setup, teardown)
{
    const unsigned pinned = standin_calls("cuMemHostRegister_v2");
    const unsigned unpinned = standin_calls("cuMemHostUnregister");

    cw_test_need_two_processes();
    receive_all("same");
    no_bytes_in_packets();
    assert_int_equal(arrived[CW_PACKET_RNDV_CHUNK], MESSAGES * CHUNKS);
    assert_int_equal(standin_calls("cuMemHostRegister_v2") - pinned, CW_WIRE_CHUNKS_OUT);
    assert_int_equal(standin_calls("cuMemHostUnregister") - unpinned, CW_WIRE_CHUNKS_OUT);
}

/* Chunks that the receiver does not keep are passed again. */
TEST_WITH(test_chunks_that_are_not_kept, setup, teardown)
{
    cw_test_need_two_processes();
    receive_all("unkept");
    no_bytes_in_packets();
}

/* A name that cannot be opened is followed by chunks. */
TEST_WITH(test_names_that_cannot_be_opened, setup, teardown)
{
    char *scheme = strdup(getenv("UCX_RNDV_SCHEME"));

    cw_test_need_two_processes();
    assert_int_equal(setenv("UCX_RNDV_SCHEME", "auto", 1), 0);
    standin_fail("cuIpcOpenMemHandle_v2", 0, CUDA_NOT_SUPPORTED);
    receive_all("auto");
    assert_int_equal(arrived[CW_PACKET_RNDV_NAME], MESSAGES);
    assert_int_equal(arrived[CW_PACKET_RNDV_CHUNK], MESSAGES * CHUNKS);
    assert_int_equal(arrived[CW_PACKET_RNDV_DATA], 0);
    assert_int_equal(setenv("UCX_RNDV_SCHEME", scheme, 1), 0);
    free(scheme);
}

/* With UCX_RNDV_SCHEME=am no chunks come. */
TEST_WITH(test_a_setting_forbids_it, setup, teardown)
{
    char *scheme = strdup(getenv("UCX_RNDV_SCHEME"));

    cw_test_need_two_processes();
    assert_int_equal(setenv("UCX_RNDV_SCHEME", "am", 1), 0);
    receive_all("am");
    assert_int_equal(arrived[CW_PACKET_RNDV_CHUNK], 0);
    assert_int_equal(setenv("UCX_RNDV_SCHEME", scheme, 1), 0);
    free(scheme);
}

/* Whatever the descriptor is of, the messages come in pieces, whole; the connection asks for no chunks any more. */
TEST_WITH(test_descriptors_of_anything, setup, teardown)
{
    char argument[16];

    cw_test_need_two_processes();
    for (int i = NOTHING; i < LIES; i++) {
        snprintf(argument, sizeof(argument), "%d", i);
        receive_all(argument);
        assert_true(arrived[CW_PACKET_RNDV_DATA] > 0);
        assert_true(arrived[CW_PACKET_RNDV_CHUNK] <= ((i == REFUSED) ? 0 : CW_WIRE_CHUNKS_OUT));
    }
}

/* This end cannot pin what it maps: one message tries. */
TEST_WITH(test_chunks_not_pinned_here, setup, teardown)
{
    const unsigned pinned = standin_calls("cuMemHostRegister_v2");
    char text[4096];
    int saved[2], file;

    cw_test_need_two_processes();
    for (unsigned after = 0; after < CW_WIRE_CHUNKS_OUT; after++) {
        standin_fail("cuMemHostRegister_v2", after, CUDA_NO_MEMORY);
        file = cw_capture_start(saved);
        receive_all("again");
        cw_capture_end(file, saved, text, sizeof(text));
        assert_true(arrived[CW_PACKET_RNDV_DATA] > 0);
        assert_true(arrived[CW_PACKET_RNDV_CHUNK] <= 2 * CW_WIRE_CHUNKS_OUT);
        standin_fail(NULL, 0, 0);
    }
    assert_true(standin_calls("cuMemHostRegister_v2") > pinned);
}

/* ---- a peer that dies, or lies ---- */

/* Sends ("send") or receives one message, for ever. */
static int run_victim(int fd, const char *argument)
{
    const ucp_request_param_t param = cw_param_none();
    struct peer peer;
    char *memory;

    begin();
    standin_delay(20000000, 0);
    peer_open(&peer, fd);
    memory = device_new(LENGTH);
    if (strcmp(argument, "send") == 0) {
        (void)ucp_tag_send_nbx(peer.ep, memory, LENGTH, 1, &param);
    } else {
        (void)ucp_tag_recv_nbx(peer.side.worker, memory, LENGTH, 1, CW_TAG_ALL, &param);
    }
    while (getppid() != 1) {
        (void)ucp_worker_progress(peer.side.worker);
    }
    return 0;
}

static void end_victim(struct cw_remote *remote)
{
    assert_int_equal(kill(remote->pid, SIGKILL), 0);
    assert_int_equal(waitpid(remote->pid, NULL, 0), remote->pid);
    close(remote->fd);
}

/* Exchanges a message with a victim, until `packets` of that id came here, and kills the victim. */
static void dies(const char *does, uint8_t id, unsigned packets)
{
    const unsigned pinned = standin_calls("cuMemHostRegister_v2");
    const unsigned unpinned = standin_calls("cuMemHostUnregister");
    const ucp_request_param_t param = cw_param_none();
    char *memory = device_new(LENGTH);
    ucs_status_ptr_t request;
    struct cw_remote remote;
    struct peer peer;
    double end_s;

    forget_counts();
    cw_remote_start(&remote, "victim", does);
    peer.fd = remote.fd;
    cw_side_open(&peer.side, &peer_mode);
    peer.ep = cw_fd_connect(remote.fd, &peer.side, &peer_mode);
    cw_fd_barrier(remote.fd, peer.side.worker);
    request = (strcmp(does, "send") == 0) ? ucp_tag_recv_nbx(peer.side.worker, memory, LENGTH, 1, CW_TAG_ALL, &param)
                                          : ucp_tag_send_nbx(peer.ep, memory, LENGTH, 1, &param);
    end_s = cw_time_now_s() + CW_WAIT_S;
    while (arrived[id] < packets && ucp_request_check_status(request) == UCS_INPROGRESS && cw_time_now_s() < end_s) {
        (void)ucp_worker_progress(peer.side.worker);
    }
    assert_true(arrived[id] >= packets);
    end_victim(&remote);
    assert_int_not_equal(cw_worker_wait_request(peer.side.worker, request, "a transfer"), UCS_INPROGRESS);
    ucp_ep_destroy(peer.ep);
    cw_side_destroy(&peer.side);
    assert_int_equal(standin_calls("cuMemHostRegister_v2") - pinned, standin_calls("cuMemHostUnregister") - unpinned);
    device_free(memory);
}

TEST_WITH(test_a_sender_that_dies, setup, teardown)
{
    cw_test_need_two_processes();
    dies("send", CW_PACKET_RNDV_CHUNK, 1);
    dies("send", CW_PACKET_RNDV_CHUNK, 3);
}

TEST_WITH(test_a_receiver_that_dies, setup, teardown)
{
    cw_test_need_two_processes();
    dies("receive", CW_PACKET_RNDV_READY, 1);
    dies("receive", CW_PACKET_RNDV_TAKEN, 1);
    dies("receive", CW_PACKET_RNDV_TAKEN, 3);
}

/* A chunk that was never passed, a place that does not exist, another size than before: these break the protocol. */
static void lies_about(struct cw_wire_rndv_chunk what, unsigned from)
{
    char *to = device_new(LENGTH);
    struct cw_remote remote;
    struct peer peer;

    forget_counts();
    cw_remote_start(&remote, "victim", "send");
    peer.fd = remote.fd;
    cw_side_open(&peer.side, &peer_mode);
    peer.ep = cw_fd_connect(remote.fd, &peer.side, &peer_mode);
    cw_fd_barrier(remote.fd, peer.side.worker);
    lie = what;
    lies_from = from;
    change_chunk = send_lie;
    assert_int_not_equal(peer_receive(&peer, to), UCS_OK);
    change_chunk = NULL;
    end_victim(&remote);
    ucp_ep_destroy(peer.ep);
    cw_side_destroy(&peer.side);
    device_free(to);
}

TEST_WITH(test_places_that_cannot_be, setup, teardown)
{
    cw_test_need_two_processes();
    lies_about((struct cw_wire_rndv_chunk){.chunk = CW_WIRE_CHUNKS}, 0);
    lies_about((struct cw_wire_rndv_chunk){.chunk = UINT64_MAX - 1}, 0);
    lies_about((struct cw_wire_rndv_chunk){.chunk = 9}, CW_WIRE_CHUNKS_OUT); /* which was never passed */
    lies_about((struct cw_wire_rndv_chunk){.size = 4096}, CW_WIRE_CHUNKS_OUT);
}

int main(int argc, char **argv)
{
    static const struct cw_role roles[] = {{"sender", run_sender}, {"victim", run_victim}};

    return cw_test_main(argc, argv, roles, sizeof(roles) / sizeof(roles[0]));
}
