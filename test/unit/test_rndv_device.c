/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Announced messages that devices move (docs/change/long-messages.md), between two workers of the simulated RDMA
 * device: which path is taken, what is registered and for how long, and what a peer may say of its memory.
 */
#include "test_rndv_device.h"

#include <sys/mman.h>

#include <ucm/api/ucm.h>

#include "test_log_lines.h"

enum { LENGTH = 100000 };

static char out[LENGTH], in[LENGTH + 1];

static void fill(void)
{
    for (size_t i = 0; i < LENGTH; i++) {
        out[i] = (char)(i * 7 + i / 251);
    }
    memset(in, 0x55, sizeof(in));
}

/* A message from the first to the second. */
static void transfer(size_t length, ucs_status_t *sent_p, ucs_status_t *received_p)
{
    const ucp_request_param_t param = {0};
    ucs_status_ptr_t send, receive;

    fill();
    receive = ucp_tag_recv_nbx(sides[1].worker, in, LENGTH, TAG, UINT64_MAX, &param);
    send = ucp_tag_send_nbx(sides[0].ep, out, length, TAG, &param);
    *sent_p = wait_for(send);
    *received_p = wait_for(receive);
}

static void transfer_well(size_t length)
{
    ucs_status_t sent, received;

    transfer(length, &sent, &received);
    assert_int_equal(sent, UCS_OK);
    assert_int_equal(received, UCS_OK);
    assert_memory_equal(in, out, length);
    assert_int_equal(in[length], 0x55);
    assert_int_equal(failures, 0);
}

/* ---- paths ---- */

/* The receiver's device reads: an announcement with the sender's memory, and no packet but the end. Both registrations
 * are gone with the requests, and so is what the peer may do. */
TEST(test_read)
{
    begin("get_zcopy");
    transfer_well(LENGTH);
    assert_int_equal(counts[CW_PACKET_RNDV_DATA] + counts[CW_PACKET_RNDV_READY], 0);
    assert_int_equal(lengths[CW_PACKET_TAG_RTS], sizeof(struct cw_wire_tag_rts) + CW_KEY_MEMORY_HEAD + 5);
    assert_true(stats().gets > 0 && stats().puts == 0 && stats().registered == 2);
    end();
}

/* The sender's device writes: the receiver names its memory. */
TEST(test_write)
{
    begin("put_zcopy");
    transfer_well(LENGTH);
    assert_int_equal(counts[CW_PACKET_RNDV_DATA], 0);
    assert_int_equal(counts[CW_PACKET_RNDV_READY], 1);
    assert_int_equal(counts[CW_PACKET_RNDV_COPIED], 1);
    assert_true(stats().puts > 0 && stats().gets == 0 && stats().registered == 2);
    end();
}

/* By the costs: packets below what registering takes, the device from there on. */
TEST(test_by_costs)
{
    begin("auto");
    transfer_well(1100);
    assert_true(counts[CW_PACKET_RNDV_READY] == 1 && counts[CW_PACKET_RNDV_DATA] > 0 && stats().registered == 0);
    transfer_well(LENGTH);
    assert_true(counts[CW_PACKET_RNDV_READY] == 1 && stats().gets > 0);
    end();
}

/* What arrives before its receive keeps the key, and the memory of the program that is mapped is used as it is. */
TEST(test_unexpected_and_mapped)
{
    const ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                      .address = out,
                                      .length = LENGTH};
    const ucp_request_param_t param = {0};
    ucs_status_ptr_t send;
    ucp_mem_h memh;

    begin("get_zcopy");
    assert_int_equal(ucp_mem_map(sides[0].context, &map, &memh), UCS_OK);
    fill();
    send = ucp_tag_send_nbx(sides[0].ep, out + 100, LENGTH - 100, TAG, &param);
    for (int i = 0; i < 1000; i++) {
        progress();
    }
    assert_int_equal(wait_for(ucp_tag_recv_nbx(sides[1].worker, in, LENGTH, TAG, UINT64_MAX, &param)), UCS_OK);
    assert_int_equal(wait_for(send), UCS_OK);
    assert_memory_equal(in, out + 100, LENGTH - 100);
    assert_true(stats().gets > 0 && stats().registered == 2); /* the mapped one, and the receiver's */
    assert_int_equal(ucp_mem_unmap(sides[0].context, memh), UCS_OK);
    end();
}

static ucp_mem_h map(const struct side *side, void *memory, size_t length)
{
    const ucp_mem_map_params_t params = {.field_mask =
                                             UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                         .address = memory,
                                         .length = length};
    ucp_mem_h memh;

    assert_int_equal(ucp_mem_map(side->context, &params, &memh), UCS_OK);
    return memh;
}

/* The program unmaps memory that a message uses without having named it: the message was to look after itself. The
 * registration ends with the message. */
TEST(test_message_outlives_the_mapping)
{
    static const char *const schemes[] = {"get_zcopy", "put_zcopy"};
    const ucp_request_param_t param = {0};
    ucs_status_ptr_t send, receive;
    ucp_mem_h memh;

    for (int i = 0; i < 2; i++) {
        begin(schemes[i]);
        fill();
        memset(in, 0, LENGTH);
        memh = map(&sides[0], out, LENGTH);
        send = ucp_tag_send_nbx(sides[0].ep, out, LENGTH, TAG, &param);
        receive = ucp_tag_recv_nbx(sides[1].worker, in, LENGTH, TAG, UINT64_MAX, &param);
        while (stats().registered < 2) {
            progress();
        }
        assert_int_equal(ucp_mem_unmap(sides[0].context, memh), UCS_OK);
        assert_int_equal(wait_for(receive), UCS_OK);
        assert_int_equal(wait_for(send), UCS_OK);
        assert_memory_equal(in, out, LENGTH);
        assert_true(counts[CW_PACKET_RNDV_DATA] == 0 && failures == 0);
        end();
    }
}

/* As test_message_outlives_the_mapping, of puts and gets. */
TEST(test_access_outlives_the_mapping)
{
    const ucp_request_param_t param = {0};
    ucp_mem_h memh, remote;
    ucs_status_ptr_t result;
    void *packed;
    size_t length;
    ucp_rkey_h key;

    for (int is_put = 0; is_put < 2; is_put++) {
        begin("auto");
        fill();
        memset(in, 0, LENGTH);
        assert_int_equal(wait_for(ucp_ep_flush_nbx(sides[0].ep, &param)), UCS_OK);
        memh = map(&sides[0], is_put ? out : in, LENGTH);
        remote = map(&sides[1], is_put ? in : out, LENGTH);
        assert_int_equal(ucp_rkey_pack(sides[1].context, remote, &packed, &length), UCS_OK);
        assert_int_equal(ucp_ep_rkey_unpack(sides[0].ep, packed, &key), UCS_OK);
        ucp_rkey_buffer_release(packed);
        result = is_put ? ucp_put_nbx(sides[0].ep, out, LENGTH, (uint64_t)(uintptr_t)in, key, &param)
                        : ucp_get_nbx(sides[0].ep, in, LENGTH, (uint64_t)(uintptr_t)out, key, &param);
        ucp_rkey_destroy(key);
        assert_int_equal(ucp_mem_unmap(sides[0].context, memh), UCS_OK);
        assert_int_equal(stats().deregistered, 0);
        assert_int_equal(wait_for(result), UCS_OK);
        assert_int_equal(wait_for(ucp_ep_flush_nbx(sides[0].ep, &param)), UCS_OK);
        assert_memory_equal(in, out, LENGTH);
        assert_true(stats().registered == 2 && stats().deregistered == 1 && failures == 0);
        assert_int_equal(ucp_mem_unmap(sides[1].context, remote), UCS_OK);
        end();
    }
}

/* A message whose memory handle is given up while it waits for the connection. */
TEST(test_waiting_message_outlives_its_handle)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMH};
    ucs_status_ptr_t send;

    begin("auto");
    fill();
    memset(in, 0, LENGTH);
    param.memh = map(&sides[0], out, LENGTH);
    send = ucp_tag_send_nbx(sides[0].ep, out, 900, TAG, &param);
    assert_true(UCS_PTR_IS_PTR(send));
    assert_int_equal(ucp_mem_unmap(sides[0].context, param.memh), UCS_OK);
    param = (ucp_request_param_t){0};
    assert_int_equal(wait_for(ucp_tag_recv_nbx(sides[1].worker, in, LENGTH, TAG, UINT64_MAX, &param)), UCS_OK);
    assert_int_equal(wait_for(send), UCS_OK);
    assert_memory_equal(in, out, 900);
    end();
}

/* Where nothing can be registered the message comes in packets, once. */
TEST(test_no_registrations)
{
    static const char *const schemes[] = {"get_zcopy", "put_zcopy", "auto"};

    for (int i = 0; i < 3; i++) {
        begin(schemes[i]);
        cw_sim_set_fault(network, CW_SIM_NO_REGISTER, CW_SIM_ALWAYS);
        transfer_well(LENGTH);
        assert_true(counts[CW_PACKET_RNDV_DATA] > 0 && stats().registered == 0 && stats().no_register > 0);
        end();
    }
}

static size_t use_up_registrations(uint8_t *bytes, size_t length)
{
    (void)bytes;
    cw_sim_set_fault(network, CW_SIM_NO_REGISTER, CW_SIM_ALWAYS);
    return length;
}

/* The receiver alone cannot register: it asks for packets, and the sender lets go of its registration. */
TEST(test_receiver_cannot)
{
    begin("get_zcopy");
    change_id = CW_PACKET_TAG_RTS;
    change = use_up_registrations;
    transfer_well(LENGTH);
    assert_true(counts[CW_PACKET_RNDV_DATA] > 0 && stats().gets == 0 && stats().registered == 1);
    end();
}

/* ---- registrations that are kept ---- */

static char *map_at(void *where, size_t length)
{
    char *memory = mmap(where, length, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | ((where != NULL) ? MAP_FIXED : 0), -1, 0);

    assert_true(memory != MAP_FAILED);
    return memory;
}

static void unmap(char *memory, size_t length)
{
    ucm_vm_munmap(memory, length);
    cw_sim_rdma_unmapped(memory, length);
    assert_int_equal(munmap(memory, length), 0);
}

static void move(char *from, char *to, size_t length)
{
    const ucp_request_param_t param = {0};
    ucs_status_ptr_t send, receive;

    fill();
    memcpy(from, out, length);
    receive = ucp_tag_recv_nbx(sides[1].worker, to, length, TAG, UINT64_MAX, &param);
    send = ucp_tag_send_nbx(sides[0].ep, from, length, TAG, &param);
    assert_int_equal(wait_for(send), UCS_OK);
    assert_int_equal(wait_for(receive), UCS_OK);
    assert_memory_equal(to, out, length);
}

/* Memory that is unmapped and mapped again at its address, between messages. The simulated device ends the program that
 * uses a registration from before. `events`: the program reports what it unmaps. */
static uint64_t registrations_of(int events, int on_demand, const char *scheme)
{
    const size_t length = 1 << 16;
    char *from = map_at(NULL, length), *to = map_at(NULL, length);
    uint64_t registered;

    if (events) {
        ucm_set_external_event(UCM_EVENT_VM_UNMAPPED);
    }
    device.on_demand = on_demand;
    begin(scheme);
    for (int i = 0; i < 6; i++) {
        move(from, to, length - 100);
        move(from + 100, to + 100, length - 100);
        if (i % 2 == 0) {
            unmap(from, length);
            unmap(to, length);
            assert_ptr_equal(map_at(from, length), from);
            assert_ptr_equal(map_at(to, length), to);
        }
    }
    registered = stats().registered;
    ucm_unset_external_event(UCM_EVENT_VM_UNMAPPED);
    retained = events || on_demand;
    end();
    retained = 0;
    device.on_demand = 0;
    munmap(from, length);
    munmap(to, length);
    return registered;
}

/* Nothing is kept where nobody reports unmapped memory; where somebody does, until that; where the device pages by
 * itself, for ever. Two messages, of 12, make a registration on each side grow. */
TEST(test_unmapped_memory)
{
    assert_int_equal(registrations_of(0, 0, "get_zcopy"), 2 * 12);
    assert_int_equal(registrations_of(1, 0, "get_zcopy"), 2 * 2 * 4);
    assert_int_equal(registrations_of(0, 1, "get_zcopy"), 2 * 2);
}

/* What a peer may write is never kept. */
TEST(test_rights_to_write_end)
{
    assert_int_equal(registrations_of(0, 1, "put_zcopy"), 12 + 2);
}

/* The text of ucp_context_print_info says so. */
static void check_text(const char *keeping)
{
    char *text = NULL;
    size_t length;
    FILE *stream;

    begin("auto");
    stream = open_memstream(&text, &length);
    assert_non_null(stream);
    ucp_context_print_info(sides[0].context, stream);
    fclose(stream);
    assert_non_null(strstr(text, "simrdma"));
    assert_non_null(strstr(text, keeping));
    free(text);
    end();
}

/* UCX_RCACHE_ENABLE, UCX_RCACHE_MAX_REGIONS, UCX_RCACHE_MAX_SIZE (VAR-57). */
TEST(test_settings_of_the_cache)
{
    check_text("cached if the program reports");
    setenv("UCX_RCACHE_ENABLE", "n", 1);
    check_text("for one message each (UCX_RCACHE_ENABLE)");
    assert_int_equal(registrations_of(1, 0, "get_zcopy"), 2 * 12);
    unsetenv("UCX_RCACHE_ENABLE");
    setenv("UCX_RCACHE_MAX_REGIONS", "0", 1);
    assert_int_equal(registrations_of(0, 1, "get_zcopy"), 2 * 12);
    unsetenv("UCX_RCACHE_MAX_REGIONS");
    setenv("UCX_RCACHE_MAX_SIZE", "1k", 1);
    assert_int_equal(registrations_of(0, 1, "get_zcopy"), 2 * 12);
    unsetenv("UCX_RCACHE_MAX_SIZE");
}

/* ---- what devices want ---- */

/* Ends that are not aligned as the device wants go through memory of the transport, and so does all where the two sides
 * lie differently. */
TEST(test_alignment)
{
    static const char *const schemes[] = {"get_zcopy", "put_zcopy"};
    static char from[70000], to[70000];

    for (int i = 0; i < 2; i++) {
        device.alignment = 64;
        begin(schemes[i]);
        for (size_t shift = 0; shift < 130; shift += 13) {
            move(from + shift, to + shift, 65000);
            move(from + shift, to + 2 * shift, 64 * 1000 + shift);
        }
        assert_int_equal(counts[CW_PACKET_RNDV_DATA], 0);
        end();
    }
    device.alignment = 0;
}

/* ---- lies ---- */

static uint8_t *memory_of(uint8_t *bytes)
{
    return bytes + sizeof(struct cw_wire_tag_rts);
}

static void put64(uint8_t *bytes, uint64_t value)
{
    value = htole64(value);
    memcpy(bytes, &value, sizeof(value));
}

static size_t cut_short(uint8_t *bytes, size_t length)
{
    (void)bytes;
    return length - 5;
}

static size_t cut_part(uint8_t *bytes, size_t length)
{
    (void)bytes;
    return length - 1;
}

static size_t no_range(uint8_t *bytes, size_t length)
{
    put64(memory_of(bytes) + 8, 0);
    return length;
}

static size_t wrapping_range(uint8_t *bytes, size_t length)
{
    put64(memory_of(bytes) + 8, UINT64_MAX);
    return length;
}

static size_t other_range(uint8_t *bytes, size_t length)
{
    put64(memory_of(bytes), 4096);
    return length;
}

static size_t short_range(uint8_t *bytes, size_t length)
{
    put64(memory_of(bytes) + 8, LENGTH - 1);
    return length;
}

static size_t strange_part(uint8_t *bytes, size_t length)
{
    memory_of(bytes)[CW_KEY_MEMORY_HEAD] = 0x14; /* five bytes of domain 1 */
    bytes[length] = 0;
    return length + 1;
}

static size_t part_twice(uint8_t *bytes, size_t length)
{
    memcpy(bytes + length, memory_of(bytes) + CW_KEY_MEMORY_HEAD, 5);
    return length + 5;
}

/* What is not memory as it has to be costs the connection, and the receive that matched goes on waiting. */
TEST(test_announcements_that_lie)
{
    static const change_fn changes[] = {cut_short,   cut_part,    no_range,     wrapping_range,
                                        other_range, short_range, strange_part, part_twice};
    const ucp_request_param_t param = {0};
    ucs_status_ptr_t send, receive;

    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        begin("get_zcopy");
        fill();
        receive = ucp_tag_recv_nbx(sides[1].worker, in, LENGTH, TAG, UINT64_MAX, &param);
        change_id = CW_PACKET_TAG_RTS;
        change = changes[i];
        send = ucp_tag_send_nbx(sides[0].ep, out, LENGTH, TAG, &param);
        assert_true(wait_for(send) < 0);
        assert_int_equal(sides[1].ep->state, CW_EP_FAILED);
        assert_int_equal(ucp_request_check_status(receive), UCS_INPROGRESS);
        assert_int_equal(in[0], 0x55);
        ucp_request_cancel(sides[1].worker, receive);
        assert_int_equal(wait_for(receive), UCS_ERR_CANCELED);
        end();
    }
}

static size_t part_of_another(uint8_t *bytes, size_t length)
{
    memory_of(bytes)[CW_KEY_MEMORY_HEAD] = 0x93; /* domain 9 */
    return length;
}

/* Parts of devices that the lane does not lead to are passed over. */
TEST(test_part_of_another_device)
{
    begin("get_zcopy");
    change_id = CW_PACKET_TAG_RTS;
    change = part_of_another;
    transfer_well(LENGTH);
    assert_true(stats().gets == 0 && counts[CW_PACKET_RNDV_DATA] > 0);
    end();
}

static size_t wrong_key(uint8_t *bytes, size_t length)
{
    bytes[length - 1] ^= 0x80;
    return length;
}

static size_t wrong_ready_key(uint8_t *bytes, size_t length)
{
    if (length > sizeof(struct cw_wire_rndv_ready)) {
        bytes[length - 1] ^= 0x80;
    }
    return length;
}

/* A key that nobody gave: the device refuses it, and with that breaks the connection. Both operations end. */
TEST(test_keys_that_lie)
{
    ucs_status_t sent, received;

    for (int i = 0; i < 2; i++) {
        begin(i == 0 ? "get_zcopy" : "put_zcopy");
        change_id = (i == 0) ? CW_PACKET_TAG_RTS : CW_PACKET_RNDV_READY;
        change = (i == 0) ? wrong_key : wrong_ready_key;
        transfer(LENGTH, &sent, &received);
        assert_true(sent < 0 && received < 0);
        end();
    }
}

static size_t no_part(uint8_t *bytes, size_t length)
{
    (void)bytes, (void)length;
    return sizeof(struct cw_wire_rndv_ready);
}

static size_t wrapping_address(uint8_t *bytes, size_t length)
{
    put64(bytes + offsetof(struct cw_wire_rndv_ready, address), UINT64_MAX - 10);
    return length;
}

static size_t packets_with_part(uint8_t *bytes, size_t length)
{
    bytes[offsetof(struct cw_wire_rndv_ready, mode)] = CW_WIRE_RNDV_SEND;
    return length;
}

TEST(test_readies_that_lie)
{
    static const change_fn changes[] = {no_part, cut_part, wrapping_address, packets_with_part};
    ucs_status_t sent, received;

    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        begin("put_zcopy");
        change_id = CW_PACKET_RNDV_READY;
        change = changes[i];
        transfer(LENGTH, &sent, &received);
        assert_true(sent < 0 && received < 0);
        assert_true(stats().puts == 0);
        end();
    }
}

/* The end of a writing that was not asked for. */
static size_t copied_instead(uint8_t *bytes, size_t length)
{
    const struct cw_wire_rndv_ready *ready = (const void *)bytes;
    struct cw_wire_rndv_copied copied = {.receive_id = ready->receive_id};

    __real_cw_op_packet(sides[1].ep->conn, CW_PACKET_RNDV_COPIED, &copied, sizeof(copied));
    return length;
}

/* A sender that says at once that it has written: the message is what stands there, and a second word breaks nothing
 * of others; the right to write is gone when the receive is. */
TEST(test_sender_that_wrote_nothing)
{
    ucs_status_t sent, received;

    begin("put_zcopy");
    change_id = CW_PACKET_RNDV_READY;
    change = copied_instead;
    transfer(LENGTH, &sent, &received);
    assert_int_equal(received, UCS_OK);
    end();
}

/* Active messages announce as well, with the program's header between. */
static ucs_status_ptr_t am_receive;
static char am_header[8];

static ucs_status_t on_am(void *arg, const void *header, size_t header_length, void *data, size_t length,
                          const ucp_am_recv_param_t *param)
{
    const ucp_request_param_t none = {0};

    (void)arg;
    assert_true(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV);
    assert_int_equal(header_length, 5);
    assert_int_equal(length, LENGTH);
    memcpy(am_header, header, header_length);
    am_receive = ucp_am_recv_data_nbx(sides[1].worker, data, in, length, &none);
    return UCS_INPROGRESS;
}

TEST(test_active_message)
{
    const ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB, .id = 3, .cb = on_am};
    const ucp_request_param_t param = {0};
    ucs_status_ptr_t send;

    begin("get_zcopy");
    fill();
    assert_int_equal(ucp_worker_set_am_recv_handler(sides[1].worker, &handler), UCS_OK);
    send = ucp_am_send_nbx(sides[0].ep, 3, "five", 5, out, LENGTH, &param);
    assert_int_equal(wait_for(send), UCS_OK);
    assert_int_equal(wait_for(am_receive), UCS_OK);
    assert_memory_equal(in, out, LENGTH);
    assert_string_equal(am_header, "five");
    assert_true(stats().gets > 0 && counts[CW_PACKET_RNDV_DATA] == 0);
    end();
}

static int setup(void **state)
{
    (void)state;
    log_count_begin();
    return 0;
}

int main(void)
{
    return cw_tests_run(setup, NULL);
}
