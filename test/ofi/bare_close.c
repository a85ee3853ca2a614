/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A provider of libfabric without this library: whether a receiver lives on when an endpoint of its own process that
 * sent to it is closed before the messages are received.
 *
 *     bare_close PROVIDER DOMAIN LENGTH    status 0: it lives; death by a signal: it does not; 77: no such provider
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#define MESSAGES 16u

struct side {
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
};

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct side sender, receiver;
static struct fi_context2 contexts[2 * MESSAGES];
static char out[65536], in[MESSAGES][65536];

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
    struct fi_cq_attr cq = {.size = 128, .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_NONE};

    must(fi_domain(fabric, info, &side->domain, NULL), "fi_domain");
    must(fi_av_open(side->domain, &av, &side->av, NULL), "fi_av_open");
    must(fi_cq_open(side->domain, &cq, &side->cq, NULL), "fi_cq_open");
    must(fi_endpoint(side->domain, info, &side->ep, NULL), "fi_endpoint");
    must(fi_ep_bind(side->ep, &side->av->fid, 0), "fi_ep_bind");
    must(fi_ep_bind(side->ep, &side->cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    must(fi_enable(side->ep), "fi_enable");
}

static void close_side(struct side *side)
{
    must(fi_close(&side->ep->fid), "closing the endpoint");
    must(fi_close(&side->cq->fid), "closing the queue");
    must(fi_close(&side->av->fid), "closing the address vector");
    must(fi_close(&side->domain->fid), "closing the domain");
}

int main(int argc, char **argv)
{
    struct fi_info *hints = fi_allocinfo();
    struct fi_cq_msg_entry entries[16];
    char address[256];
    size_t length = sizeof(address);
    fi_addr_t peer;
    unsigned i;

    if (argc != 4 || hints == NULL || (size_t)atoi(argv[3]) > sizeof(out)) {
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
    must(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
    open_side(&sender);
    open_side(&receiver);
    must(fi_getname(&receiver.ep->fid, address, &length), "fi_getname");
    must(fi_av_insert(sender.av, address, 1, &peer, 0, NULL) != 1, "fi_av_insert");
    for (i = 0; i < MESSAGES; i++) {
        must((int)fi_recv(receiver.ep, in[i], sizeof(in[i]), NULL, FI_ADDR_UNSPEC, &contexts[i]), "fi_recv");
    }
    for (i = 0; i < MESSAGES; i++) {
        (void)fi_send(sender.ep, out, (size_t)atoi(argv[3]), NULL, peer, &contexts[MESSAGES + i]);
        (void)fi_cq_read(sender.cq, entries, 16);
    }
    close_side(&sender);
    for (i = 0; i < 1000; i++) {
        (void)fi_cq_read(receiver.cq, entries, 16);
    }
    printf("%s:%s: the receiver of %s bytes lives\n", argv[1], argv[2], argv[3]);
    close_side(&receiver);
    return 0;
}
