/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a peer names in a rendezvous is reached with the right for it only (docs/reference/bounds.md, "Memory that a
 * peer names"): a region told by REGION must be memory of the peer's own process, and a key that allows no writing does
 * not become one that does. The connection only records what is sent; what the system would say of the peer's process
 * is the test's to choose. KEY-6, RMA-12, TAG-15.
 */
#define _GNU_SOURCE

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test_rma.h"

#include "os/host.h"
#include "os/memory.h"

enum { SIZE = 2 * 4096, OTHER_PROCESS = 0x3fffffff };

static struct cw_board boards[CW_ALL_BOARDS];
static ucp_context_h second;
static uint32_t peers_process;

static struct cw_board *fake_board(struct cw_conn *conn, int ours, unsigned index)
{
    (void)conn;
    (void)ours;
    assert_true(index < CW_ALL_BOARDS);
    return &boards[index];
}

static uint32_t fake_process(struct cw_conn *conn)
{
    (void)conn;
    return peers_process;
}

/* The system copies nothing between the processes. */
static int never_ready(struct cw_conn *conn)
{
    (void)conn;
    return 0;
}

static ucs_status_t never(struct cw_conn *conn, const struct iovec *iov, unsigned count, uint64_t address,
                          const struct cw_beacon *beacon)
{
    (void)conn, (void)iov, (void)count, (void)address, (void)beacon;
    fail_msg("the system is asked to copy");
    return UCS_ERR_IO_ERROR;
}

static void begin_beside(uint32_t process)
{
    begin();
    memset(boards, 0, sizeof(boards));
    peers_process         = process;
    fake_transport.copies = &fake_copies;
    fake_copies           = (struct cw_transport_copies){
        .ready = never_ready, .process = fake_process, .read = never, .write = never, .board = fake_board};
}

static ucp_mem_h allocate(ucp_context_h of, unsigned prot, struct cw_key *key)
{
    const ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS |
                                                       UCP_MEM_MAP_PARAM_FIELD_PROT,
                                         .length     = SIZE,
                                         .flags      = UCP_MEM_MAP_ALLOCATE,
                                         .prot       = prot};
    ucp_mem_h mem;

    assert_int_equal(ucp_mem_map(of, &params, &mem), UCS_OK);
    cw_mem_key(mem, key);
    assert_true(key->flags & CW_KEY_SHARED);
    memset((void *)(uintptr_t)key->address, 0x33, SIZE);
    return mem;
}

static void tell_region(const struct cw_key *key)
{
    uint8_t packet[CW_KEY_MAX];

    feed(CW_PACKET_REGION, packet, cw_key_encode(key, NULL, packet));
}

/* The peer wants a message of ours copied to that address. Returns what its sender says of it. */
static int32_t copy_there(uint64_t address)
{
    static uint8_t message[SIZE];
    struct cw_wire_rndv_ready ready = {.receive_id = htole64(77),
                                       .mode       = htole32(CW_WIRE_RNDV_COPY),
                                       .piece      = htole32(128 << 10),
                                       .address    = htole64(address),
                                       .generation = htole32(1)};
    struct cw_wire_rndv_done done   = {.status = 0};
    ucs_status_ptr_t request;
    int32_t status;

    memset(message, 0x66, sizeof(message));
    request = ucp_tag_send_nbx(ep, message, sizeof(message), 5, &none);
    assert_true(is_pending(request));
    ready.send_id   = htole64(word_of(sent_packet(CW_PACKET_TAG_RTS), offsetof(struct cw_wire_tag_rts, rts.send_id)));
    done.send_id    = ready.send_id;
    boards[0].done  = 0;
    boards[0].claim = UINT64_C(1) << 32;
    feed(CW_PACKET_RNDV_READY, &ready, sizeof(ready));
    progress();
    assert_int_equal(word_of(sent_packet(CW_PACKET_RNDV_COPIED), 0), 77);
    status = status_of(CW_PACKET_RNDV_COPIED);
    feed(CW_PACKET_RNDV_DONE, &done, sizeof(done));
    assert_int_equal(finish(request), UCS_OK);
    return status;
}

/* The peer announces what lies at that address. Whether it was read there, instead of asked for in pieces. */
static int reads_from(uint64_t address)
{
    static uint8_t room[SIZE];
    const struct cw_wire_tag_rts rts = {.tag = htole64(9), .rts = {.length  = htole64(SIZE),
                                                                   .send_id = htole64(SEND_ID),
                                                                   .address = htole64(address)}};
    struct cw_wire_rndv_copied copied = {.status = (int32_t)htole32((uint32_t)UCS_ERR_UNSUPPORTED)};
    const unsigned asked              = count_packets(CW_PACKET_RNDV_READY);
    ucs_status_ptr_t request;

    memset(room, 0, sizeof(room));
    request = ucp_tag_recv_nbx(worker, room, sizeof(room), 9, UINT64_MAX, &none);
    feed(CW_PACKET_TAG_RTS, &rts, sizeof(rts));
    progress();
    if (count_packets(CW_PACKET_RNDV_READY) == asked) {
        assert_int_equal(finish(request), UCS_OK);
        assert_true(room[0] == 0x33 && room[SIZE - 1] == 0x33);
        return 1;
    }
    assert_true(room[0] == 0 && room[SIZE - 1] == 0);
    copied.receive_id = htole64(word_of(sent_packet(CW_PACKET_RNDV_READY), 8)); /* the peer may copy, and will not */
    feed(CW_PACKET_RNDV_COPIED, &copied, sizeof(copied));
    feed_data(le64toh(copied.receive_id), 0, SIZE);
    assert_int_equal(finish(request), UCS_OK);
    return 0;
}

static void check_untouched(uint64_t address)
{
    const uint8_t *bytes = (const uint8_t *)(uintptr_t)address;

    for (size_t i = 0; i < SIZE; i++) {
        assert_int_equal(bytes[i], 0x33);
    }
}

static void check_out_of_reach(const struct cw_key *key)
{
    tell_region(key);
    assert_int_equal(copy_there(key->address), UCS_ERR_UNSUPPORTED);
    assert_false(reads_from(key->address));
    check_untouched(key->address);
}

/* A peer that has a key of a region of ours, whatever it allows, cannot have it written to by telling us of it. */
static void test_own_region(void **state)
{
    static const unsigned prots[] = {UCP_MEM_MAP_PROT_REMOTE_READ, UCP_MEM_MAP_PROT_REMOTE_WRITE,
                                     UCP_MEM_MAP_PROT_REMOTE_READ | UCP_MEM_MAP_PROT_REMOTE_WRITE};
    struct cw_key key;
    ucp_mem_h mem;

    (void)state;
    for (size_t i = 0; i < sizeof(prots) / sizeof(prots[0]); i++) {
        begin_beside(OTHER_PROCESS);
        mem = allocate(context, prots[i], &key);
        check_out_of_reach(&key);
        key.pid = OTHER_PROCESS; /* it lies, but for the token */
        check_out_of_reach(&key);
        key.fd++;
        check_out_of_reach(&key);
        key.flags = 0;
        check_out_of_reach(&key);
        assert_int_equal(ucp_mem_unmap(context, mem), UCS_OK);
        end(1);
    }
}

/* Nor does it crash us where our pages are read-only. */
static void test_read_only_pages(void **state)
{
    uint8_t *pages = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                                       UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_PROT,
                                         .address    = pages,
                                         .length     = SIZE,
                                         .prot       = UCP_MEM_MAP_PROT_REMOTE_READ};
    struct cw_key key;
    ucp_mem_h mem;

    (void)state;
    assert_true(pages != MAP_FAILED);
    memset(pages, 0x33, SIZE);
    assert_int_equal(mprotect(pages, SIZE, PROT_READ), 0);
    begin_beside(OTHER_PROCESS);
    assert_int_equal(ucp_mem_map(context, &params, &mem), UCS_OK);
    cw_mem_key(mem, &key);
    check_out_of_reach(&key);
    key.flags  = CW_KEY_SHARED;
    key.system = 1;
    key.pid    = OTHER_PROCESS;
    check_out_of_reach(&key);
    assert_int_equal(ucp_mem_unmap(context, mem), UCS_OK);
    end(1);
    munmap(pages, SIZE);
}

/* Memory of a third process, here of another context: whose key the peer has, but whose it is not. */
static void test_region_of_others(void **state)
{
    struct cw_key key;
    ucp_mem_h mem;

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        begin_beside((i == 0) ? OTHER_PROCESS : 0 /* one that cannot be named */);
        mem = allocate(second, UCP_MEM_MAP_PROT_REMOTE_READ | UCP_MEM_MAP_PROT_REMOTE_WRITE, &key);
        check_out_of_reach(&key);
        key.pid = peers_process;
        check_out_of_reach(&key);
        assert_int_equal(ucp_mem_unmap(second, mem), UCS_OK);
        end(1);
    }
}

/* What the peer tells of its own is reached, with the rights that its keys have. */
static void test_rights_of_the_peers_own(void **state)
{
    static const unsigned prots[] = {UCP_MEM_MAP_PROT_LOCAL_READ, UCP_MEM_MAP_PROT_REMOTE_READ,
                                     UCP_MEM_MAP_PROT_REMOTE_WRITE,
                                     UCP_MEM_MAP_PROT_REMOTE_READ | UCP_MEM_MAP_PROT_REMOTE_WRITE};
    struct cw_key key;
    ucp_mem_h mem;

    (void)state;
    for (size_t i = 0; i < sizeof(prots) / sizeof(prots[0]); i++) {
        begin_beside(cw_memory_process());
        mem = allocate(second, prots[i], &key);
        tell_region(&key);
        assert_int_equal(reads_from(key.address), (prots[i] & UCP_MEM_MAP_PROT_REMOTE_READ) != 0);
        check_untouched(key.address);
        if (prots[i] & UCP_MEM_MAP_PROT_REMOTE_WRITE) {
            assert_int_equal(copy_there(key.address), UCS_OK);
            assert_int_equal(*(uint8_t *)(uintptr_t)(key.address + SIZE - 1), 0x66);
        } else {
            assert_int_equal(copy_there(key.address), UCS_ERR_UNSUPPORTED);
            check_untouched(key.address);
        }
        assert_int_equal(ucp_mem_unmap(second, mem), UCS_OK);
        end(1);
    }
}

/* Reserved huge pages that the peer takes away while others have them would kill us when we touch them: such regions
 * are left to the system. Memory that only looks like that, here, for few machines have any. */
static void test_pages_that_may_vanish(void **state)
{
    enum { LENGTH = 2 << 20 };
    const struct {
        size_t trailer;
        int reached;
    } cases[] = {{4096, 1}, {2 << 20, 0}};
    struct cw_key key = {.length = LENGTH, .flags = CW_KEY_SHARED, .rights = CW_KEY_READ | CW_KEY_WRITE};
    uint64_t trailer[3];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const int fd = memfd_create("causeway-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        begin_beside(cw_memory_process());
        key.token   = 0x1234567 + i;
        key.address = 0x10000000;
        key.beacon  = 0x1000;
        key.system  = cw_host_pidns_id();
        key.pid     = cw_memory_process();
        key.fd      = (uint32_t)fd;
        trailer[0]  = key.token;
        trailer[1]  = key.address;
        trailer[2]  = key.rights;
        assert_int_equal(ftruncate(fd, (off_t)(LENGTH + cases[i].trailer)), 0);
        assert_int_equal(pwrite(fd, trailer, sizeof(trailer), LENGTH), sizeof(trailer));
        assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
        tell_region(&key);
        assert_int_equal(copy_there(key.address), cases[i].reached ? UCS_OK : UCS_ERR_UNSUPPORTED);
        close(fd);
        end(1);
    }
}

static int excuses;

static int fake_excused(struct cw_conn *conn, uint64_t waited_ns)
{
    (void)conn;
    (void)waited_ns;
    return excuses;
}

/* One whose process kept us waiting is not asked to copy into our memory either: packets only. */
static void test_distrusted(void **state)
{
    static uint8_t room[SIZE];
    const struct cw_wire_tag_rts rts = {.tag = htole64(9),
                                        .rts = {.length = htole64(SIZE), .send_id = htole64(SEND_ID)}};
    ucs_status_ptr_t request;

    (void)state;
    for (excuses = 0; excuses < 2; excuses++) {
        begin_beside(OTHER_PROCESS);
        fake_copies.excused = fake_excused;
        request             = ucp_tag_recv_nbx(worker, room, sizeof(room), 9, UINT64_MAX, &none);
        feed(CW_PACKET_TAG_RTS, &rts, sizeof(rts));
        assert_int_equal((uint32_t)word_of(sent_packet(CW_PACKET_RNDV_READY), 24),
                         excuses ? CW_WIRE_RNDV_COPY : CW_WIRE_RNDV_SEND);
        end(1);
        assert_true(finish(request) < 0);
    }
}

static int setup_both(void **state)
{
    ucp_params_t params               = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                         .features   = UCP_FEATURE_TAG | UCP_FEATURE_RMA};
    ucp_worker_params_t worker_params = {.field_mask = 0};

    (void)state;
    setenv("UCX_TLS", "self,posix", 1); /* posix: regions can be mapped by others */
    setenv("UCX_LOG_LEVEL", "fatal", 1);
    assert_int_equal(ucp_init(&params, NULL, &second), UCS_OK);
    assert_int_equal(ucp_init(&params, NULL, &context), UCS_OK);
    assert_int_equal(ucp_worker_create(context, &worker_params, &worker), UCS_OK);
    return 0;
}

static int teardown_both(void **state)
{
    ucp_cleanup(second);
    return teardown(state);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_region),
        cmocka_unit_test(test_read_only_pages),
        cmocka_unit_test(test_region_of_others),
        cmocka_unit_test(test_rights_of_the_peers_own),
        cmocka_unit_test(test_pages_that_may_vanish),
        cmocka_unit_test(test_distrusted),
    };

    return cmocka_run_group_tests(tests, setup_both, teardown_both);
}
