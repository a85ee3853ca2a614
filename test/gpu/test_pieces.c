/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that programs map piece by piece (cuMemCreate, cuMemMap) between two processes of a host: the pieces'
 * descriptors go over the connection's socket, and the receiver's device makes one copy. What a peer passes may be of
 * anything. Over tcp the bytes go through the host.
 */
#include "harness.h"

#include <endian.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/dispatch.h"
#include "core/worker.h"
#include "mem/md.h"
#include "msg/op_ep.h"
#include "wire/packet.h"

#define LENGTH ((size_t)256 << 10)
#include "standin_memory.h"
#include "standin_peer.h"

#define PIECE  (2 * STANDIN_GRAIN)
/* The message begins and ends within pieces. */
#define PIECES (LENGTH / PIECE + 1)
#define SHIFT  ((size_t)4096)

enum { MESSAGES = 5, MANY = 80, MOST_OPEN = 64 };

static int setup(void **state)
{
    (void)state;
    begin();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_int_equal(standin_mapped(), 0);
    end();
    return 0;
}

static int is_one_host(void)
{
    return cw_test_tls_has("shm");
}

/* ---- mapped memory ---- */

static void map_at(cuda_ptr place, size_t length, int is_exportable)
{
    const int properties[8] = {1, is_exportable ? CUDA_HANDLE_DESCRIPTOR : 0, CUDA_LOCATION_DEVICE, 0};
    const struct cuda_access access = {CUDA_LOCATION_DEVICE, 0, CUDA_ACCESS_READ_WRITE};
    unsigned long long handle;

    ok(cuMemCreate(&handle, length, properties, 0));
    ok(cuMemMap(place, length, 0, handle, 0));
    ok(cuMemSetAccess(place, length, &access, 1));
    ok(cuMemRelease(handle));
}

static cuda_ptr reserve(void)
{
    cuda_ptr ptr = 0;

    ok(cuMemAddressReserve(&ptr, PIECES * PIECE, 0, 0, 0));
    return ptr;
}

static void map_all(cuda_ptr ptr, int is_exportable)
{
    for (unsigned i = 0; i < PIECES; i++) {
        map_at(ptr + i * PIECE, PIECE, is_exportable);
    }
}

static void unmap_all(cuda_ptr ptr)
{
    ok(cuMemUnmap(ptr, PIECES * PIECE));
    ok(cuMemAddressFree(ptr, PIECES * PIECE));
}

static char *message_in(cuda_ptr ptr)
{
    return (char *)(uintptr_t)(ptr + SHIFT);
}

/* ---- senders ---- */

/* In place of the descriptors the sender passes these. */
enum lie { HONEST, NOTHING, A_DEVICE, A_PIPE, OTHER_MEMORY, EMPTY_MEMORY, SHORTER, REFUSED, LIES };

static enum lie lie;
static unsigned flood;

int __real_cw_shm_pass(struct cw_conn *conn, uint64_t number, int fd);
int __wrap_cw_shm_pass(struct cw_conn *conn, uint64_t number, int fd);

static int fd_of_lie(void)
{
    int fds[2] = {-1, -1};

    switch (lie) {
    case A_DEVICE:
        fds[0] = open("/dev/null", O_RDWR | O_CLOEXEC);
        break;
    case A_PIPE:
        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        close(fds[1]);
        break;
    case EMPTY_MEMORY:
        fds[0] = memfd_create("empty", MFD_CLOEXEC);
        break;
    default: /* as long as a piece, but none */
        fds[0] = memfd_create("other", MFD_CLOEXEC);
        assert_int_equal(ftruncate(fds[0], (off_t)(PIECE + (size_t)sysconf(_SC_PAGESIZE))), 0);
        break;
    }
    assert_true(fds[0] >= 0);
    return fds[0];
}

/* A piece of another length than the name says. */
static int shorter_piece(void)
{
    const int properties[8] = {1, CUDA_HANDLE_DESCRIPTOR, CUDA_LOCATION_DEVICE, 0};
    unsigned long long handle;
    int fd;

    ok(cuMemCreate(&handle, STANDIN_GRAIN, properties, 0));
    ok(cuMemExportToShareableHandle(&fd, handle, CUDA_HANDLE_DESCRIPTOR, 0));
    ok(cuMemRelease(handle));
    return fd;
}

int __wrap_cw_shm_pass(struct cw_conn *conn, uint64_t number, int fd)
{
    int other, passed;
    unsigned i;

    for (i = 0; i < flood; i++) {
        (void)__real_cw_shm_pass(conn, UINT64_MAX - i, fd);
    }
    if (lie == HONEST) {
        return __real_cw_shm_pass(conn, number, fd);
    }
    if (lie == NOTHING || lie == REFUSED) { /* the latter as to a peer of an older release, or to a full socket */
        return lie == NOTHING;
    }
    other = (lie == SHORTER) ? shorter_piece() : fd_of_lie();
    passed = __real_cw_shm_pass(conn, number, other);
    close(other);
    return passed;
}

/* Sends messages from mapped memory, as the argument says: the "same" memory, memory that is mapped "again" at the same
 * place, of "private" pieces, of "uneven" ones; or with a lie. */
static int run_sender(int fd, const char *argument)
{
    struct peer peer;
    cuda_ptr ptr;

    begin();
    ptr = reserve();
    if (strcmp(argument, "uneven") == 0) {
        map_at(ptr, STANDIN_GRAIN, 1);
        map_at(ptr + STANDIN_GRAIN, PIECES * PIECE - STANDIN_GRAIN, 1);
    } else {
        map_all(ptr, strcmp(argument, "private") != 0);
    }
    if (argument[0] >= '0' && argument[0] <= '9') {
        lie = (enum lie)atoi(argument);
    }
    flood = strcmp(argument, "flood") == 0 ? 40 : 0;
    peer_open(&peer, fd);
    for (uint64_t i = 0; i < MESSAGES; i++) {
        fill(message_in(ptr), i);
        peer_send(&peer, message_in(ptr));
        if (strcmp(argument, "again") == 0) {
            ok(cuMemUnmap(ptr, PIECES * PIECE));
            map_all(ptr, 1);
        }
    }
    peer_close(&peer);
    unmap_all(ptr);
    end();
    return 0;
}

/* Sends a message from each of many allocations. */
static int run_many(int fd, const char *argument)
{
    static cuda_ptr ptrs[MANY];
    struct peer peer;

    (void)argument;
    begin();
    peer_open(&peer, fd);
    for (uint64_t i = 0; i < MANY; i++) {
        ptrs[i] = reserve();
        map_all(ptrs[i], 1);
        fill(message_in(ptrs[i]), i);
        peer_send(&peer, message_in(ptrs[i]));
    }
    peer_close(&peer);
    for (unsigned i = 0; i < MANY; i++) {
        unmap_all(ptrs[i]);
    }
    end();
    return 0;
}

/* ---- receivers ---- */

struct counts {
    unsigned copies, imports, mapped;
};

static unsigned open_fds(void)
{
    unsigned count = 0;

    for (int fd = 0; fd < 1024; fd++) {
        count += fcntl(fd, F_GETFD) >= 0;
    }
    return count;
}

/* Receives `messages` messages; `mapped`: pieces that are mapped at the end. Nothing stays mapped behind the
 * connection. */
static struct counts receive(const char *role, const char *argument, unsigned messages)
{
    struct counts counts = {0};
    char *to = device_new(LENGTH);
    unsigned copies = standin_calls("cuMemcpyAsync");
    unsigned imports = standin_calls("cuMemImportFromShareableHandle");
    struct cw_remote remote;
    struct peer peer;
    unsigned fds = 0;

    cw_remote_start(&remote, role, argument);
    peer_open(&peer, remote.fd);
    for (uint64_t i = 0; i < messages; i++) {
        assert_int_equal(peer_receive(&peer, to), UCS_OK);
        check(to, i);
        fds = (i == 0) ? open_fds() - standin_mapped() : fds;
    }
    counts = (struct counts){standin_calls("cuMemcpyAsync") - copies,
                             standin_calls("cuMemImportFromShareableHandle") - imports, standin_mapped()};
    if (strcmp(argument, "flood") != 0) {
        /* What is mapped keeps a descriptor of the stand-in. */
        assert_int_equal(open_fds(), fds + counts.mapped);
    }
    peer_close(&peer);
    cw_remote_join(&remote);
    device_free(to);
    assert_int_equal(standin_mapped(), 0);
    return counts;
}

/* One copy for each message, and the pieces are mapped once. */
TEST_WITH(test_messages, setup, teardown)
{
    struct counts counts;

    cw_test_need_two_processes();
    counts = receive("sender", "same", MESSAGES);
    if (is_one_host()) {
        assert_int_equal(counts.copies, MESSAGES);
        assert_int_equal(counts.imports, PIECES);
        assert_int_equal(counts.mapped, PIECES);
    } else {
        assert_int_equal(counts.imports, 0);
    }
}

/* Other pieces at the same place are other memory. */
TEST_WITH(test_memory_that_is_mapped_again, setup, teardown)
{
    struct counts counts;

    cw_test_need_two_processes();
    counts = receive("sender", "again", MESSAGES);
    if (is_one_host()) {
        assert_int_equal(counts.copies, MESSAGES);
        assert_int_equal(counts.imports, MESSAGES * PIECES);
        assert_int_equal(counts.mapped, PIECES);
    }
}

/* What is kept open is bounded. */
TEST_WITH(test_many_allocations, setup, teardown)
{
    struct counts counts;

    cw_test_need_two_processes();
    cw_test_skip_over("tcp", "no names travel over tcp");
    counts = receive("many", "", MANY);
    assert_int_equal(counts.copies, MANY);
    assert_int_equal(counts.imports, MANY * PIECES);
    assert_int_equal(counts.mapped, MOST_OPEN * PIECES);
}

/* The driver here maps no memory of others: it comes through the host, and nothing stays. */
TEST_WITH(test_a_driver_that_refuses, setup, teardown)
{
    static const char *const calls[] = {"cuMemImportFromShareableHandle", "cuMemMap", "cuMemSetAccess",
                                        "cuMemAddressReserve"};

    cw_test_need_two_processes();
    cw_test_skip_over("tcp", "no names travel over tcp");
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        standin_fail(calls[i], (i < 2) ? 1 : 0, CUDA_NOT_SUPPORTED);
        assert_true(receive("sender", "same", MESSAGES).copies > MESSAGES);
        standin_fail(NULL, 0, 0);
    }
}

/* ---- hostile senders ---- */

TEST_WITH(test_descriptors_of_anything, setup, teardown)
{
    char argument[16];

    cw_test_need_two_processes();
    cw_test_skip_over("tcp", "no names travel over tcp");
    for (int i = NOTHING; i < LIES; i++) {
        struct counts counts;

        snprintf(argument, sizeof(argument), "%d", i);
        counts = receive("sender", argument, MESSAGES);
        assert_true(counts.copies > MESSAGES);
        assert_int_equal(counts.mapped, 0);
    }
}

/* Descriptors that nobody takes are bounded, and take nothing from others. */
TEST_WITH(test_a_flood_of_descriptors, setup, teardown)
{
    struct counts counts;

    cw_test_need_two_processes();
    cw_test_skip_over("tcp", "no names travel over tcp");
    counts = receive("sender", "flood", MESSAGES);
    assert_true(counts.copies >= MESSAGES);
}

static void (*change)(struct cw_wire_rndv_name *packet);
static unsigned names;

void __real_cw_op_packet(struct cw_conn *conn, uint8_t id, const void *data, size_t length);
void __wrap_cw_op_packet(struct cw_conn *conn, uint8_t id, const void *data, size_t length);

void __wrap_cw_op_packet(struct cw_conn *conn, uint8_t id, const void *data, size_t length)
{
    struct cw_wire_rndv_name packet;

    if (id != CW_PACKET_RNDV_NAME || change == NULL) {
        __real_cw_op_packet(conn, id, data, length);
        return;
    }
    assert_int_equal(length, sizeof(packet));
    memcpy(&packet, data, sizeof(packet));
    assert_int_equal(packet.form, CW_MD_PASSED);
    names++;
    change(&packet);
    __real_cw_op_packet(conn, id, &packet, sizeof(packet));
}

static void set_count(struct cw_wire_rndv_name *packet, uint32_t count)
{
    count = htole32(count);
    memcpy(packet->handle + sizeof(uint64_t), &count, sizeof(count));
}

static void no_piece(struct cw_wire_rndv_name *packet)
{
    set_count(packet, 0);
}

static void too_many_pieces(struct cw_wire_rndv_name *packet)
{
    packet->size = htole64((uint64_t)(CW_MD_MOST_PIECES + 1) * PIECE);
    set_count(packet, CW_MD_MOST_PIECES + 1);
}

static void unequal_pieces(struct cw_wire_rndv_name *packet)
{
    packet->size = htole64(le64toh(packet->size) + 1);
}

static int run_victim(int fd, const char *argument)
{
    const ucp_request_param_t param = cw_param_none();
    struct peer peer;
    cuda_ptr ptr;

    (void)argument;
    begin();
    ptr = reserve();
    map_all(ptr, 1);
    peer_open(&peer, fd);
    (void)ucp_tag_send_nbx(peer.ep, message_in(ptr), LENGTH, 1, &param);
    while (getppid() != 1) {
        (void)ucp_worker_progress(peer.side.worker);
    }
    return 0;
}

/* A name that cannot be right breaks the protocol, and the connection. */
static void breaks(void (*how)(struct cw_wire_rndv_name *packet))
{
    const struct cw_pair_config peer_config = {.features = config.features, .peer_mode = true};
    char *to = device_new(LENGTH);
    struct cw_remote remote;
    struct peer peer;

    cw_remote_start(&remote, "victim", NULL);
    peer.fd = remote.fd;
    cw_side_open(&peer.side, &peer_config);
    peer.ep = cw_fd_connect(remote.fd, &peer.side, &peer_config);
    cw_fd_barrier(remote.fd, peer.side.worker);
    change = how;
    names = 0;
    assert_int_not_equal(peer_receive(&peer, to), UCS_OK);
    assert_int_equal(names, 1);
    change = NULL;
    assert_int_equal(kill(remote.pid, SIGKILL), 0);
    assert_int_equal(waitpid(remote.pid, NULL, 0), remote.pid);
    close(remote.fd);
    ucp_ep_destroy(peer.ep);
    cw_side_destroy(&peer.side);
    device_free(to);
}

TEST_WITH(test_names_that_cannot_be, setup, teardown)
{
    cw_test_need_two_processes();
    cw_test_skip_over("tcp", "no names travel over tcp");
    breaks(no_piece);
    breaks(too_many_pieces);
    breaks(unequal_pieces);
}

/* ---- what is said ---- */

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
    assert_int_equal(standin_calls("cuMemImportFromShareableHandle"), 0);
    peer_close(&peer);
    device_free(to);
    end();
    return 0;
}

/* Sends messages to another process, and looks for a sentence that is said once. */
static void says(char *from, const char *sentence, const char *help)
{
    struct cw_remote remote;
    struct peer peer;
    char text[4096];
    int saved[2], file;

    cw_remote_start(&remote, "receiver", NULL);
    peer_open(&peer, remote.fd);
    file = cw_capture_start(saved);
    for (uint64_t i = 0; i < MESSAGES; i++) {
        fill(from, i);
        peer_send(&peer, from);
    }
    cw_capture_end(file, saved, text, sizeof(text));
    peer_close(&peer);
    cw_remote_join(&remote);
    assert_non_null(strstr(text, sentence));
    assert_null(strstr(strstr(text, sentence) + 1, sentence));
    assert_non_null(strstr(text, "several times slower"));
    assert_non_null(strstr(text, help));
}

TEST_WITH(test_pieces_without_a_descriptor, setup, teardown)
{
    cuda_ptr ptr;

    cw_test_need_two_processes();
    cw_test_skip_over("tcp", "no names travel over tcp");
    ptr = reserve();
    map_all(ptr, 0);
    says(message_in(ptr), "has no IPC handle", "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR");
    unmap_all(ptr);
}

TEST_WITH(test_uneven_pieces, setup, teardown)
{
    cuda_ptr ptr;

    cw_test_need_two_processes();
    cw_test_skip_over("tcp", "no names travel over tcp");
    ptr = reserve();
    map_at(ptr, STANDIN_GRAIN, 1);
    map_at(ptr + STANDIN_GRAIN, PIECES * PIECE - STANDIN_GRAIN, 1);
    says(message_in(ptr), "has no IPC handle", "mapped pieces of equal length");
    unmap_all(ptr);
}

/* Managed memory belongs to one process. */
TEST_WITH(test_managed_memory, setup, teardown)
{
    cuda_ptr ptr;

    cw_test_need_two_processes();
    cw_test_skip_over("tcp", "no names travel over tcp");
    ok(cuMemAllocManaged(&ptr, LENGTH, CUDA_MANAGED_GLOBAL));
    says((char *)(uintptr_t)ptr, "has no IPC handle", "managed memory cannot be shared with other processes");
    ok(cuMemFree_v2(ptr));
}

/* Pinned memory is memory of the host: the sender's driver copies nothing, and nothing is said. */
TEST_WITH(test_pinned_memory, setup, teardown)
{
    const unsigned copies = standin_calls("cuMemcpyAsync");
    struct cw_remote remote;
    struct peer peer;
    char text[4096];
    int saved[2], file;
    void *from;

    cw_test_need_two_processes();
    ok(cuMemHostAlloc(&from, LENGTH, CUDA_HOST_PORTABLE));
    cw_remote_start(&remote, "receiver", NULL);
    peer_open(&peer, remote.fd);
    file = cw_capture_start(saved);
    for (uint64_t i = 0; i < MESSAGES; i++) {
        fill(from, i);
        peer_send(&peer, from);
    }
    cw_capture_end(file, saved, text, sizeof(text));
    peer_close(&peer);
    cw_remote_join(&remote);
    ok(cuMemFreeHost(from));
    assert_int_equal(standin_calls("cuMemcpyAsync"), copies);
    assert_null(strstr(text, "WARN"));
}

int main(int argc, char **argv)
{
    static const struct cw_role roles[] = {
        {"sender", run_sender}, {"many", run_many}, {"receiver", run_receiver}, {"victim", run_victim}};

    return cw_test_main(argc, argv, roles, sizeof(roles) / sizeof(roles[0]));
}
