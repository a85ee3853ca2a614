/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bare limits of a device of RDMA: libibverbs alone, one reliable connection between two processes, each with a device
 * (-d; the first one of the machine for both otherwise). -s bytes of each message:
 *   -k send      a message there and one back; inline where the device has room for that
 *   -k write     a write there and one back, noticed by the bytes in memory
 *   -k read      a read, and its completion
 *   -k fadd      a fetch-and-add of 8 bytes, and its completion
 *   -k bw_send, bw_write, bw_read
 *                a trip is WINDOW messages, of which as many are still under way when the next trip begins
 *   -k rate      a trip is BATCH messages posted at once, of which one is signalled
 * Where the other side takes part, bench/bare prints half of a trip.
 */
#define _GNU_SOURCE
#include "bare.h"
#include "verbs_side.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WINDOW = 16, BATCH = 64, DEPTH = 512, INLINE_MOST = 64, LONG_WAIT_MS = 10000 };

/* What comes from the other side lies in the first half of the memory, what goes there in the second. */
static struct cw_verbs_side side;
static struct cw_verbs_name other;
static int ends[2];
static const char *devices[2];
static size_t size = 8;
static size_t room;
static uint32_t inlined;
static unsigned under_way; /* that are signalled */
static unsigned messages = 1;

static void die_of(const struct ibv_wc *wc)
{
    fprintf(stderr, "bare_verbs: a work request ended with: %s\n", ibv_wc_status_str(wc->status));
    _exit(1);
}

static void await(struct ibv_cq *cq)
{
    struct ibv_wc wc;

    if (!cw_verbs_wait(cq, &wc, LONG_WAIT_MS)) {
        errno = ETIMEDOUT;
        cw_verbs_die("waiting for a completion");
    }
    if (wc.status != IBV_WC_SUCCESS) {
        die_of(&wc);
    }
}

/* `count` equal work requests by one call, of which the last is signalled. */
static void post(enum ibv_wr_opcode opcode, unsigned count)
{
    static struct ibv_send_wr wrs[BATCH];
    const bool adds = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    const bool fetches = opcode == IBV_WR_RDMA_READ || adds;
    struct ibv_sge sge = {.addr = (uintptr_t)side.memory + (fetches ? 0 : room),
                        .length = adds ? sizeof(uint64_t) : (uint32_t)size,
                        .lkey = side.mr->lkey};
    struct ibv_send_wr *bad;

    for (unsigned i = 0; i < count; i++) {
        wrs[i] = (struct ibv_send_wr){.opcode = opcode,
                                  .sg_list = &sge,
                                  .num_sge = 1,
                                  .next = i + 1 < count ? &wrs[i + 1] : NULL,
                                  .send_flags = i + 1 < count ? 0 : IBV_SEND_SIGNALED};
        if (!fetches && size <= inlined) {
            wrs[i].send_flags |= IBV_SEND_INLINE;
        }
        if (adds) {
            wrs[i].wr.atomic.remote_addr = other.address + room;
            wrs[i].wr.atomic.rkey = other.key;
            wrs[i].wr.atomic.compare_add = 1;
        } else if (opcode != IBV_WR_SEND) {
            wrs[i].wr.rdma.remote_addr = other.address + (fetches ? room : 0);
            wrs[i].wr.rdma.rkey = other.key;
        }
    }
    errno = ibv_post_send(side.qp, wrs, &bad);
    if (errno != 0) {
        cw_verbs_die("posting");
    }
}

static void take_message(void)
{
    await(side.recv_cq);
    cw_verbs_receive(&side, 0, 0, size);
}

/* Takes completions of sends that are there, and waits only when very many are not. */
static void reap(void)
{
    struct ibv_wc wc;

    under_way++;
    while (ibv_poll_cq(side.send_cq, 1, &wc) > 0) {
        if (wc.status != IBV_WC_SUCCESS) {
            die_of(&wc);
        }
        under_way--;
    }
    while (under_way > DEPTH / 2) {
        await(side.send_cq);
        under_way--;
    }
}

static void ping_send(uint64_t trip)
{
    (void)trip;
    post(IBV_WR_SEND, 1);
    take_message();
    reap();
}

static void pong_send(uint64_t trip)
{
    (void)trip;
    take_message();
    post(IBV_WR_SEND, 1);
    reap();
}

/* The last byte is written last: the devices that people have write upwards. */
static void await_byte(char value)
{
    const volatile char *last = side.memory + size - 1;

    while (*last != value) {
    }
}

static void write_byte(char value)
{
    memset(side.memory + room, value, size);
    post(IBV_WR_RDMA_WRITE, 1);
    reap();
}

static void ping_write(uint64_t trip)
{
    write_byte((char)(trip % 100 + 1));
    await_byte((char)(trip % 100 + 1));
}

static void pong_write(uint64_t trip)
{
    await_byte((char)(trip % 100 + 1));
    write_byte((char)(trip % 100 + 1));
}

static void ping_read(uint64_t trip)
{
    (void)trip;
    post(IBV_WR_RDMA_READ, 1);
    await(side.send_cq);
}

static void ping_fadd(uint64_t trip)
{
    (void)trip;
    post(IBV_WR_ATOMIC_FETCH_AND_ADD, 1);
    await(side.send_cq);
}

static void keep_under_way(enum ibv_wr_opcode opcode)
{
    for (int i = 0; i < WINDOW; i++) {
        post(opcode, 1);
        under_way++;
    }
    while (under_way > WINDOW) {
        await(side.send_cq);
        under_way--;
    }
}

static void ping_bw_send(uint64_t trip)
{
    (void)trip;
    keep_under_way(IBV_WR_SEND);
}

static void ping_bw_write(uint64_t trip)
{
    (void)trip;
    keep_under_way(IBV_WR_RDMA_WRITE);
}

static void ping_bw_read(uint64_t trip)
{
    (void)trip;
    keep_under_way(IBV_WR_RDMA_READ);
}

static void pong_bw_send(uint64_t trip)
{
    (void)trip;
    for (int i = 0; i < WINDOW; i++) {
        take_message();
    }
}

static void ping_rate(uint64_t trip)
{
    (void)trip;
    post(IBV_WR_SEND, BATCH);
    if (++under_way > 2) {
        await(side.send_cq);
        under_way--;
    }
}

static void pong_rate(uint64_t trip)
{
    (void)trip;
    for (int i = 0; i < BATCH; i++) {
        take_message();
    }
}

static struct cw_bare bare;

static bool set_kind(const char *name)
{
    static const struct {
        const char *name;
        void (*ping)(uint64_t trip);
        void (*pong)(uint64_t trip);
        unsigned messages;
    } kinds[] = {
        {"send", ping_send, pong_send, 1},
        {"write", ping_write, pong_write, 1},
        {"read", ping_read, NULL, 1},
        {"fadd", ping_fadd, NULL, 1},
        {"bw_send", ping_bw_send, pong_bw_send, WINDOW},
        {"bw_write", ping_bw_write, NULL, WINDOW},
        {"bw_read", ping_bw_read, NULL, WINDOW},
        {"rate", ping_rate, pong_rate, BATCH},
    };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            bare.ping = kinds[i].ping;
            bare.pong = kinds[i].pong;
            messages = kinds[i].messages;
            return true;
        }
    }
    return false;
}

static void set_size(uint64_t bytes)
{
    size = bytes;
}

static void set_devices(const char *first, const char *second)
{
    devices[0] = first;
    devices[1] = second;
}

static void open_ends(bool sleeps)
{
    (void)sleeps;
    room = (size + 4095) / 4096 * 4096;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        cw_verbs_die("socketpair");
    }
    /* Asked here, so that a machine without a device learns it by its status. */
    int count = 0;
    struct ibv_device **found = ibv_get_device_list(&count);
    if (found == NULL || count == 0) {
        fprintf(stderr, "bare_verbs: there is no device of RDMA here\n");
        exit(77);
    }
    ibv_free_device_list(found);
}

static void start(bool is_ping)
{
    const struct cw_verbs_options options = {
        .sends = DEPTH, .receives = DEPTH, .inlined = INLINE_MOST, .rnr_retries = 7};
    const int end = ends[is_ping ? 0 : 1];
    struct cw_verbs_name own;

    cw_verbs_open(&side, devices[is_ping ? 1 : 0], 2 * room, &options);
    inlined = side.options.inlined;
    for (unsigned i = 0; i < DEPTH; i++) {
        cw_verbs_receive(&side, 0, 0, size);
    }
    memset(side.memory + room, is_ping ? 0x55 : 0x77, size);
    cw_verbs_get_name(&side, &own);
    if (write(end, &own, sizeof(own)) != (ssize_t)sizeof(own) ||
        recv(end, &other, sizeof(other), MSG_WAITALL) != (ssize_t)sizeof(other)) {
        cw_verbs_die("notifying the other side");
    }
    cw_verbs_connect(&side, &other);
    char ready = 0;
    if (write(end, &ready, 1) != 1 || recv(end, &ready, 1, MSG_WAITALL) != 1) {
        cw_verbs_die("notifying the other side");
    }
}

static void show(void)
{
    printf("messages_per_trip %u\n", messages);
    printf("bytes_per_trip %zu\n", messages * (bare.ping == ping_fadd ? sizeof(uint64_t) : size));
}

static struct cw_bare bare = {
    .name = "bare_verbs",
    .open = open_ends,
    .start = start,
    .ping = ping_send,
    .pong = pong_send,
    .set_size = set_size,
    .set_kind = set_kind,
    .set_devices = set_devices,
    .show = show,
};

int main(int argc, char **argv)
{
    return cw_bare_main(&bare, argc, argv);
}
