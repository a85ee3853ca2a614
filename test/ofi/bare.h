/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two endpoints of a provider of libfabric without this library: what the programs bare_close and bare_queue share.
 */
#ifndef TEST_OFI_BARE_H
#define TEST_OFI_BARE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

struct side {
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
};

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct side sender, receiver;

static void must(int error, const char *what)
{
    if (error != 0) {
        printf("%s fails: %s\n", what, fi_strerror(-error));
        exit(2);
    }
}

static void open_side(struct side *side, size_t queue)
{
    struct fi_av_attr av = {.type = info->domain_attr->av_type};
    struct fi_cq_attr cq = {.size = queue, .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_NONE};

    must(fi_domain(fabric, info, &side->domain, NULL), "fi_domain");
    must(fi_av_open(side->domain, &av, &side->av, NULL), "fi_av_open");
    must(fi_cq_open(side->domain, &cq, &side->cq, NULL), "fi_cq_open");
    must(fi_endpoint(side->domain, info, &side->ep, NULL), "fi_endpoint");
    must(fi_ep_bind(side->ep, &side->av->fid, 0), "fi_ep_bind");
    must(fi_ep_bind(side->ep, &side->cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    must(fi_enable(side->ep), "fi_enable");
}

/* Whether libfabric has that provider and domain: `info`. */
static int find(const char *provider, const char *domain)
{
    struct fi_info *hints = fi_allocinfo();

    if (hints == NULL) {
        exit(2);
    }
    hints->caps = FI_MSG;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->name = strdup(domain);
    hints->fabric_attr->prov_name = strdup(provider);
    if (fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info) != 0) {
        printf("SKIPPED: libfabric has no %s:%s here\n", provider, domain);
        return 0;
    }
    return 1;
}

/* Opens both sides. Returns the receiver's address as the sender knows it. */
static fi_addr_t open_both(size_t queue)
{
    char address[256];
    size_t length = sizeof(address);
    fi_addr_t peer;

    must(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
    open_side(&sender, queue);
    open_side(&receiver, queue);
    must(fi_getname(&receiver.ep->fid, address, &length), "fi_getname");
    must(fi_av_insert(sender.av, address, 1, &peer, 0, NULL) != 1, "fi_av_insert");
    return peer;
}

#endif
