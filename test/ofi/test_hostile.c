/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unauthenticated peers with an endpoint of the provider: control packets that name other workers, connections that do
 * not exist, and addresses of somebody else, which the worker must not connect to. Traps listen there: all addresses
 * 127.1.x.y with the port of one socket.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "hostile.h"
#include "transport/ofi/ofi_wire.h"

enum { OFI_WIRE_ID = 6, PLACES = 16, MANY = 200, RECEIVES = 32, ROOM = 1024, KINDS = CW_OFI_HANDLED + 1 };

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_ep *ep;
static struct fid_av *av;
static struct fid_cq *cq;
static fi_addr_t server;
static struct sockaddr_in own;
static struct cw_ofi_entry server_entry;
static char space[RECEIVES][ROOM];
static unsigned answers[KINDS];
static uint64_t seed = 77;

static void must(int error)
{
    if (error != 0) {
        (void)fprintf(stderr, "libfabric: %s\n", fi_strerror(-error));
    }
    cw_check(error == 0);
}

static void open_provider(void)
{
    const size_t at = sizeof(server_entry);
    struct fi_info *hints = fi_allocinfo();
    struct fi_av_attr avs = {.type = FI_AV_TABLE};
    struct fi_cq_attr cqs = {.format = FI_CQ_FORMAT_MSG};
    size_t length = sizeof(own);
    const char *entry = cw_server_entry(OFI_WIRE_ID, &length);
    unsigned i;

    cw_check(length == at + sizeof(own));
    memcpy(&server_entry, entry, sizeof(server_entry));
    hints->caps = FI_MSG;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->name = strdup("lo");
    hints->fabric_attr->prov_name = strdup("tcp;ofi_rxm");
    hints->addr_format = FI_SOCKADDR_IN;
    must(fi_getinfo(FI_VERSION(1, 9), NULL, NULL, 0, hints, &info));
    must(fi_fabric(info->fabric_attr, &fabric, NULL));
    must(fi_domain(fabric, info, &domain, NULL));
    must(fi_endpoint(domain, info, &ep, NULL));
    must(fi_av_open(domain, &avs, &av, NULL));
    must(fi_cq_open(domain, &cqs, &cq, NULL));
    must(fi_ep_bind(ep, &av->fid, 0));
    must(fi_ep_bind(ep, &cq->fid, FI_SEND | FI_RECV));
    must(fi_enable(ep));
    length = sizeof(own);
    must(fi_getname(&ep->fid, &own, &length));
    cw_check(fi_av_insert(av, entry + at, 1, &server, 0, NULL) == 1);
    for (i = 0; i < RECEIVES; i++) {
        must((int)fi_recv(ep, space[i], ROOM, NULL, FI_ADDR_UNSPEC, space[i]));
    }
    memset(answers, 0, sizeof(answers));
    fi_freeinfo(hints);
}

static void close_provider(void)
{
    must(fi_close(&ep->fid));
    must(fi_close(&cq->fid));
    must(fi_close(&av->fid));
    must(fi_close(&domain->fid));
    must(fi_close(&fabric->fid));
    fi_freeinfo(info);
}

static void take_answer(char *packet)
{
    struct cw_ofi_header header;
    struct cw_ofi_control control;

    memcpy(&header, packet, sizeof(header));
    memcpy(&control, packet + sizeof(header), sizeof(control));
    cw_check((uint8_t)header.sequence == 0 && control.kind < KINDS);
    answers[control.kind]++;
    must((int)fi_recv(ep, packet, ROOM, NULL, FI_ADDR_UNSPEC, packet));
}

static unsigned done; /* what progress of the server said */

static void both_progress(void)
{
    struct fi_cq_msg_entry entry;
    struct fi_cq_err_entry error = {0};
    ssize_t count = fi_cq_read(cq, &entry, 1);

    done += ucp_worker_progress(cw_server.worker);
    (void)ucp_worker_progress(cw_client.worker);
    if (count == 1 && (entry.flags & FI_RECV)) {
        take_answer(entry.op_context);
    } else if (count == -FI_EAVAIL) {
        (void)fi_cq_readerr(cq, &error, 0);
    }
}

static void settle(unsigned ms)
{
    const uint64_t end = cw_now_ns() + ms * UINT64_C(1000000);

    while (cw_now_ns() < end) {
        both_progress();
    }
}

static void wait_for_answer(enum cw_ofi_kind kind, unsigned count)
{
    const uint64_t end = cw_now_ns() + UINT64_C(60000000000);

    while (answers[kind] < count) {
        both_progress();
        cw_check(cw_now_ns() < end);
    }
}

/* What the packet claims. */
struct claim {
    enum cw_ofi_kind kind;
    const struct sockaddr_in *address;
    uint64_t number;
    uint64_t to;
    uint64_t target_uid;
};

static void say(struct claim claim)
{
    static char bytes[ROOM];
    struct cw_ofi_header header = {.to = claim.to, .token = (uint32_t)claim.to};
    struct cw_ofi_control control = {.number = claim.number,
                               .token = 5,
                               .kind = (uint8_t)claim.kind,
                               .version = CW_OFI_VERSION,
                               .entry_length = sizeof(struct cw_ofi_entry) + sizeof(own),
                               .length = CW_HELLO_LENGTH};
    struct cw_ofi_entry entry = server_entry;
    struct cw_hello hello = cw_hostile_hello();
    uint8_t core[CW_HELLO_LENGTH];
    char *at = bytes;
    ssize_t error;

    entry.life = 1234;
    entry.pidns = 1; /* no process of this machine */
    hello.target_uid = claim.target_uid;
    cw_hello_encode(&hello, core);
    header.length = sizeof(control) + control.entry_length + sizeof(core);
    at = (char *)memcpy(at, &header, sizeof(header)) + sizeof(header);
    at = (char *)memcpy(at, &control, sizeof(control)) + sizeof(control);
    at = (char *)memcpy(at, &entry, sizeof(entry)) + sizeof(entry);
    at = (char *)memcpy(at, claim.address, sizeof(own)) + sizeof(own);
    at = (char *)memcpy(at, core, sizeof(core)) + sizeof(core);
    do {
        error = fi_inject(ep, bytes, (size_t)(at - bytes), server);
        both_progress();
    } while (error == -FI_EAGAIN);
    must((int)error);
}

static uint64_t server_uid(void)
{
    return cw_hostile_hello().target_uid;
}

/* A dial as it should be, which is answered; so everything before it was handled. */
static void dial_honestly(void)
{
    const unsigned before = answers[CW_OFI_REPLY];

    say((struct claim){CW_OFI_HELLO, &own, cw_random(&seed), 0, server_uid()});
    wait_for_answer(CW_OFI_REPLY, before + 1);
}

/* The answer to a ping that is said again: everything before it was handled. */
static void ask_twice(void)
{
    const unsigned before = answers[CW_OFI_GONE];

    say((struct claim){CW_OFI_PING, &own, 1, 1000, 0});
    say((struct claim){CW_OFI_PING, &own, 1, 1000, 0});
    wait_for_answer(CW_OFI_GONE, before + 1);
}

/* The provider's connection to the server exists, and the server has learned nothing. */
static void arrive(void)
{
    say((struct claim){CW_OFI_PONG, &own, 1, 0, 0});
    settle(50);
}

static struct sockaddr_in trap_name;

static int open_trap(void)
{
    struct sockaddr_in name = {.sin_family = AF_INET};
    socklen_t length = sizeof(trap_name);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    cw_check(fd >= 0 && bind(fd, (struct sockaddr *)&name, sizeof(name)) == 0 && listen(fd, 2 * MANY) == 0);
    cw_check(getsockname(fd, (struct sockaddr *)&trap_name, &length) == 0);
    return fd;
}

static const struct sockaddr_in *trap_address(unsigned number)
{
    trap_name.sin_addr.s_addr = htonl(0x7f010001u + number);
    return &trap_name;
}

/* How often somebody connected there. */
static unsigned caught(int trap)
{
    unsigned count = 0;
    int fd;

    while ((fd = accept(trap, NULL, NULL)) >= 0) {
        (void)close(fd);
        count++;
    }
    cw_check(errno == EAGAIN);
    return count;
}

/* Nothing waits for the hostile peer any more. */
static void wait_for_rest(void)
{
    const uint64_t until = cw_now_ns() + UINT64_C(60000000000);
    int efd;

    cw_check(ucp_worker_get_efd(cw_server.worker, &efd) == UCS_OK);
    do {
        both_progress();
        cw_check(cw_now_ns() < until);
    } while (ucp_worker_arm(cw_server.worker) != UCS_OK ||
             poll(&(struct pollfd){.fd = efd, .events = POLLIN}, 1, 100) != 0);
}

static void begin(int *trap)
{
    cw_hostile_begin();
    cw_log_mark();
    *trap = open_trap();
    open_provider();
    arrive();
}

static void end(int trap)
{
    close_provider();
    (void)close(trap);
    cw_check_served(0);
    cw_hostile_end();
}

static void no_connection_for(enum cw_ofi_kind kind, uint64_t to, int is_right_worker)
{
    int trap, fds;
    unsigned i;

    begin(&trap);
    fds = cw_open_fds();
    for (i = 0; i < MANY; i++) {
        say((struct claim){kind, trap_address(i), cw_random(&seed), to + i,
                           server_uid() + (uint64_t)!is_right_worker});
    }
    dial_honestly();
    settle(50);
    cw_check(caught(trap) == 0);
    cw_check(cw_open_fds() <= fds);
    cw_check(answers[CW_OFI_REFUSED] == 0 && answers[CW_OFI_GONE] == 0);
    end(trap);
}

CHILD_TEST(test_wrong_worker)
{
    no_connection_for(CW_OFI_HELLO, 0, 0);
}

CHILD_TEST(test_pings)
{
    no_connection_for(CW_OFI_PING, 1000, 1);
}

CHILD_TEST(test_replies)
{
    no_connection_for(CW_OFI_REPLY, 1000, 1);
}

/* Who knows the worker's address can name others, a few at a time. */
CHILD_TEST(test_foreign)
{
    struct cw_party late = {0};
    unsigned calls, i;
    int trap, fds;

    begin(&trap);
    fds = cw_open_fds();
    for (i = 0; i < MANY; i++) {
        say((struct claim){CW_OFI_HELLO, trap_address(i), cw_random(&seed), 0, server_uid()});
    }
    ask_twice();
    settle(50);
    cw_check(cw_open_fds() <= fds + PLACES);
    cw_party_open(&late, UCP_FEATURE_TAG);
    cw_party_connect(&late, &cw_server);
    cw_party_talk(&late, &cw_server, 1000);
    cw_party_close(&late);
    calls = caught(trap);
    cw_check(calls > 0 && calls <= PLACES);
    wait_for_rest();
    end(trap);
}

/* The provider knows by then where the hostile peer is. */
CHILD_TEST(test_contradicted)
{
    unsigned i;
    int trap;

    begin(&trap);
    dial_honestly();
    for (i = 0; i < PLACES / 2; i++) {
        say((struct claim){CW_OFI_HELLO, trap_address(i), cw_random(&seed), 0, server_uid()});
    }
    dial_honestly();
    settle(50);
    cw_check(caught(trap) == 0);
    end(trap);
}

/* A dial that is said again is one dial; a ping that is said again is answered, by which its sender learns that the
 * process began anew. */
CHILD_TEST(test_again)
{
    struct claim hello = {CW_OFI_HELLO, &own, 5, 0, 0};
    int trap;

    begin(&trap);
    say((struct claim){CW_OFI_PING, &own, 1, 1000, 0});
    settle(50);
    cw_check(answers[CW_OFI_GONE] == 0);
    say((struct claim){CW_OFI_PING, &own, 1, 1000, 0});
    wait_for_answer(CW_OFI_GONE, 1);
    hello.target_uid = server_uid();
    say(hello);
    say(hello);
    dial_honestly();
    settle(50);
    cw_check(answers[CW_OFI_REPLY] == 2 && answers[CW_OFI_REFUSED] == 0 && answers[CW_OFI_GONE] == 1);
    end(trap);
}

/* A drain loop would go on otherwise. */
CHILD_TEST(test_drain)
{
    unsigned i;
    int trap;

    begin(&trap);
    done = 0;
    for (i = 0; i < MANY; i++) {
        say((struct claim){CW_OFI_HELLO, &own, cw_random(&seed), 0, server_uid() + 1});
        say((struct claim){CW_OFI_PING, &own, cw_random(&seed), 1000, 0});
        say((struct claim){CW_OFI_PONG, &own, 1, 1000, 0});
    }
    dial_honestly();
    cw_check(done < MANY / 10); /* the dial, and what the server and its client send */
    end(trap);
}

int main(void)
{
    cw_log_watch();
    return cw_tests_run(NULL, NULL);
}
