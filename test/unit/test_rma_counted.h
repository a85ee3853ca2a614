/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ground of the tests of counted puts and short gets: a transport with claim pairs whose peer comes late, never, or
 * tells nonsense. The clock is the test's, so nobody waits. One file of a program includes it.
 */
#ifndef CW_TEST_RMA_COUNTED_H
#define CW_TEST_RMA_COUNTED_H

#include "test_rma.h"

#include "op/counted.h"

enum { PATIENCE = 1600 /* rounds that are longer than the origin waits */, MAX_WRITES = 600 };

struct write {
    uint64_t address;
    uint64_t validity;
    size_t length;
    uint8_t first;
};

static struct cw_claim_pair
    pairs[CW_ALL_CLAIM_PAIRS];                  /* those that the origin hands out; of the owner's side the same */
static uint8_t slots[MAX_RECORDS][400];         /* the transport's memory */
static struct write writes[MAX_WRITES];
static unsigned num_writes, num_reads;
static unsigned packets_taken;                  /* further ones find no room */
static ucs_status_t write_answer;
static int is_near;                             /* copies are proved to work */
static unsigned looks_until_gone;
static uint64_t now_ns, step_ns;

uint64_t cw_clock_ns(void)
{
    now_ns += step_ns;
    return now_ns;
}

static inline struct cw_claim_pair *fake_pair(struct cw_conn *conn, int ours, unsigned index)
{
    (void)conn;
    (void)ours;
    assert_true(index < CW_ALL_CLAIM_PAIRS);
    return &pairs[index];
}

static inline int fake_gone(struct cw_conn *conn)
{
    (void)conn;
    assert_true(looks_until_gone > 0);
    return --looks_until_gone == 0;
}

static inline int fake_ready(struct cw_conn *conn)
{
    (void)conn;
    return is_near;
}

static inline ucs_status_t fake_write(struct cw_conn *conn, const struct iovec *from, unsigned count, uint64_t to,
                                      const struct cw_validity *validity)
{
    (void)conn;
    assert_int_equal(count, 1);
    assert_true(validity->value == rkey->key.token);
    if (write_answer == UCS_OK) {
        assert_true(num_writes < MAX_WRITES);
        writes[num_writes++] = (struct write){to, validity->address, from->iov_len, *(const uint8_t *)from->iov_base};
    }
    return write_answer;
}

static inline ucs_status_t fake_read(struct cw_conn *conn, const struct iovec *to, unsigned count, uint64_t from,
                                     const struct cw_validity *validity)
{
    (void)conn;
    (void)from;
    assert_int_equal(count, 1);
    assert_true(validity->value == rkey->key.token);
    memset(to->iov_base, 0xdd, to->iov_len);
    num_reads++;
    return UCS_OK;
}

/* What was sent stays, as the contract of transports with claim pairs says. */
static inline ucs_status_t keeping_bcopy(struct cw_conn *conn, uint8_t id, size_t max, cw_pack_fn pack, void *arg)
{
    uint8_t *slot = slots[num_records % MAX_RECORDS];

    (void)conn;
    if (blocked || num_records >= packets_taken) {
        return CW_AGAIN;
    }
    assert_true(max <= sizeof(slots[0]));
    return record(id, slot, pack(slot, max, arg));
}

static inline struct cw_claim_pair *pair(void)
{
    return &pairs[CW_COUNTED];
}

static inline void begin_counted(void)
{
    begin();
    memset(pairs, 0, sizeof(pairs));
    num_writes    = num_reads = 0;
    packets_taken = MAX_RECORDS;
    write_answer  = UCS_OK;
    is_near       = 1;
    step_ns       = 100;
    rkey->key.validity        = 0x1000;
    fake_packets.send_bcopy = keeping_bcopy;
    fake_transport.copies   = &fake_copies;
    fake_copies =
        (struct cw_transport_copies){.ready = fake_ready, .read = fake_read, .write = fake_write, .pair = fake_pair};
}

/* As owner of memory, with the claim pairs that the origin hands out. */
static inline void begin_owner(void)
{
    begin_counted();
    assert_non_null(cw_rma_get(ep));
    cw_op_ep(ep)->rma->owner_pair = pair();
}

/* No copies any more, so that the end of a test goes as in other programs. */
static inline void end_counted(int lives)
{
    is_near = 0;
    end(lives);
}

static inline void wait_long(void)
{
    for (int i = 0; i < PATIENCE; i++) {
        ucp_worker_progress(worker);
    }
}

static inline void put(uint64_t offset, uint8_t value)
{
    uint8_t bytes[100];

    memset(bytes, value, sizeof(bytes));
    assert_null(ucp_put_nbx(ep, bytes, sizeof(bytes), base() + offset, rkey, &none));
}

static inline void feed_flushed(int32_t status)
{
    const struct cw_wire_flushed packet = {.flush_id = htole64(word_of(sent_packet(CW_PACKET_FLUSH), 0)),
                                           .status   = (int32_t)htole32((uint32_t)status)};

    feed(CW_PACKET_FLUSHED, &packet, sizeof(packet));
}

#endif
