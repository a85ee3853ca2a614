/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A provider of libfabric without this library: whether the descriptor of a completion queue is quiet while nothing
 * happens. Two endpoints exchange messages and read all completions. Then fi_trywait() has to answer that the process
 * may sleep, and the descriptor has to stay unreadable.
 *
 *     bare_wait PROVIDER DOMAIN      status 0: quiet; 1: woken without an event; 77: no such provider here
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#define MESSAGES 10u
#define POLLS    20u
#define QUIET_MS 100

struct side {
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    fi_addr_t peer;
    int fd;
    unsigned completed;
    char in[MESSAGES][64];
    char out[64];
    struct fi_context2 contexts[MESSAGES];
};

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct side sides[2];

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
    struct fi_cq_attr cq = {.size = 128, .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_FD};

    must(fi_domain(fabric, info, &side->domain, NULL), "fi_domain");
    must(fi_av_open(side->domain, &av, &side->av, NULL), "fi_av_open");
    must(fi_cq_open(side->domain, &cq, &side->cq, NULL), "fi_cq_open with FI_WAIT_FD");
    must(fi_control(&side->cq->fid, FI_GETWAIT, &side->fd), "FI_GETWAIT");
    must(fi_endpoint(side->domain, info, &side->ep, NULL), "fi_endpoint");
    must(fi_ep_bind(side->ep, &side->av->fid, 0), "fi_ep_bind");
    must(fi_ep_bind(side->ep, &side->cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    must(fi_enable(side->ep), "fi_enable");
}

static void meet(struct side *side, struct side *other)
{
    char address[256];
    size_t length = sizeof(address);

    must(fi_getname(&other->ep->fid, address, &length), "fi_getname");
    must(fi_av_insert(side->av, address, 1, &side->peer, 0, NULL) != 1, "fi_av_insert");
}

static void progress(void)
{
    struct fi_cq_msg_entry entries[16];
    ssize_t count;
    int i;

    for (i = 0; i < 2; i++) {
        count = fi_cq_read(sides[i].cq, entries, 16);
        sides[i].completed += (count > 0) ? (unsigned)count : 0;
    }
}

static void exchange(void)
{
    unsigned i;

    for (i = 0; i < MESSAGES; i++) {
        must((int)fi_recv(sides[1].ep, sides[1].in[i], sizeof(sides[1].in[i]), NULL, FI_ADDR_UNSPEC,
                          &sides[1].contexts[i]),
             "fi_recv");
    }
    for (i = 0; i < MESSAGES; i++) {
        while (fi_send(sides[0].ep, sides[0].out, sizeof(sides[0].out), NULL, sides[0].peer, &sides[0].contexts[i]) ==
               -FI_EAGAIN) {
            progress();
        }
        while (sides[0].completed <= i || sides[1].completed <= i) {
            progress();
        }
    }
}

int main(int argc, char **argv)
{
    struct fi_info *hints = fi_allocinfo();
    unsigned i, busy = 0, woken = 0;

    if (argc != 3 || hints == NULL) {
        return 2;
    }
    hints->caps = FI_MSG;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->name = strdup(argv[2]);
    hints->fabric_attr->prov_name = strdup(argv[1]);
    if (fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info) != 0) {
        printf("SKIPPED: libfabric has no %s:%s here\n", argv[1], argv[2]);
        return 77;
    }
    must(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
    open_side(&sides[0]);
    open_side(&sides[1]);
    meet(&sides[0], &sides[1]);
    meet(&sides[1], &sides[0]);
    exchange();
    for (i = 0; i < POLLS; i++) {
        struct fid *fid = &sides[1].cq->fid;
        struct pollfd item = {.fd = sides[1].fd, .events = POLLIN};

        progress();
        if (fi_trywait(fabric, &fid, 1) != FI_SUCCESS) {
            busy++;
        } else if (poll(&item, 1, QUIET_MS) > 0) {
            woken++;
        }
    }
    printf("%s:%s: of %u polls with nothing under way %u got FI_EAGAIN, and %u were woken\n", argv[1], argv[2], POLLS,
           busy, woken);
    return woken > 0;
}
