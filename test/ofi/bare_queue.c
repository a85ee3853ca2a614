/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A provider of libfabric without this library: whether packets arrive of which the provider took more than its
 * queue is long.
 *
 *     bare_queue PROVIDER DOMAIN    status 0: they do; 1: nothing came for 5 s; 77: no such provider
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#define MESSAGES 1000u
#define ROOM     64u

struct side {
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
};

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct side sender, receiver;
static struct fi_context2 contexts[MESSAGES + ROOM];
static char out[64], in[ROOM][64];

static void must(int error, const char *what)
{
    if (error != 0) {
        printf("%s fails: %s\n", what, fi_strerror(-error));
        exit(2);
    }
}

static void open_side(struct side *side)
{
    struct fi_av_attr av = {.type = info->domain_attr->av_type};
    struct fi_cq_attr cq = {.size = 4 * ROOM, .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_NONE};

    must(fi_domain(fabric, info, &side->domain, NULL), "fi_domain");
    must(fi_av_open(side->domain, &av, &side->av, NULL), "fi_av_open");
    must(fi_cq_open(side->domain, &cq, &side->cq, NULL), "fi_cq_open");
    must(fi_endpoint(side->domain, info, &side->ep, NULL), "fi_endpoint");
    must(fi_ep_bind(side->ep, &side->av->fid, 0), "fi_ep_bind");
    must(fi_ep_bind(side->ep, &side->cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    must(fi_enable(side->ep), "fi_enable");
}

/* Posts each receive again that is complete. Returns how many were. */
static unsigned receive(void)
{
    struct fi_cq_msg_entry entries[16];
    const ssize_t count = fi_cq_read(receiver.cq, entries, 16);
    ssize_t i;

    for (i = 0; i < count; i++) {
        const size_t k = (size_t)((struct fi_context2 *)entries[i].op_context - &contexts[MESSAGES]);

        must((int)fi_recv(receiver.ep, in[k], sizeof(in[k]), NULL, FI_ADDR_UNSPEC, entries[i].op_context), "fi_recv");
    }
    return (count > 0) ? (unsigned)count : 0;
}

int main(int argc, char **argv)
{
    struct fi_info *hints = fi_allocinfo();
    struct fi_cq_msg_entry entries[16];
    unsigned i, sent = 0, received = 0, came;
    time_t moved;
    char address[256];
    size_t length = sizeof(address);
    fi_addr_t peer;

    if (argc != 3 || hints == NULL) {
        return 2;
    }
    hints->caps                   = FI_MSG;
    hints->mode                   = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type          = FI_EP_RDM;
    hints->domain_attr->name      = strdup(argv[2]);
    hints->fabric_attr->prov_name = strdup(argv[1]);
    if (fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info) != 0) {
        printf("SKIPPED: libfabric has no %s:%s here\n", argv[1], argv[2]);
        return 77;
    }
    info->tx_attr->size = ROOM;
    must(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
    open_side(&sender);
    open_side(&receiver);
    must(fi_getname(&receiver.ep->fid, address, &length), "fi_getname");
    must(fi_av_insert(sender.av, address, 1, &peer, 0, NULL) != 1, "fi_av_insert");
    for (i = 0; i < ROOM; i++) {
        must((int)fi_recv(receiver.ep, in[i], sizeof(in[i]), NULL, FI_ADDR_UNSPEC, &contexts[MESSAGES + i]), "fi_recv");
    }
    for (moved = time(NULL); received < MESSAGES && time(NULL) < moved + 5;) {
        while (sent < MESSAGES && fi_send(sender.ep, out, sizeof(out), NULL, peer, &contexts[sent]) == 0) {
            sent++;
        }
        (void)fi_cq_read(sender.cq, entries, 16);
        came  = receive();
        moved = (came > 0) ? time(NULL) : moved;
        received += came;
    }
    printf("%s:%s: it took %u of %u messages, %u came\n", argv[1], argv[2], sent, MESSAGES, received);
    return (received == MESSAGES) ? 0 : 1;
}
